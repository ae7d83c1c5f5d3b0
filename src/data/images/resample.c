#include "data/images/resample.h"

#include <math.h>
#include <string.h>

#include "base/units.h"
#include "base/vector.h"

/* Which pixels a pixel of the result is made of, and the reciprocal of the sum of their weights. */
typedef struct {
    uint32_t first, end, at; /* `at`: of the weights */
    float share;
} span;

struct resample {
    resample_options o;
    double across, down, wide, tall; /* pixels of the source for one; the filter's width there, at least 1 */
    span *columns, *rows;
    float *weights, *line, *out;
    uint32_t begun; /* the first row of the result that is not whole yet */
};

static const double SUPPORT[] = { 0.5, 3, 1, 2, 0.5, 1 };

static double sinc(double x) {
    return x == 0 ? 1 : sin(x * 3.14159265358979323846) / (x * 3.14159265358979323846);
}

static double weight_of(resample_filter f, double x) {
    double a = fabs(x);
    if (a > SUPPORT[f]) return 0;
    switch (f) {
    case RESAMPLE_LANCZOS: return sinc(x) * sinc(x / 3);
    case RESAMPLE_BILINEAR: return 1 - a;
    case RESAMPLE_BICUBIC: return a < 1 ? (1.5 * a - 2.5) * a * a + 1 : ((-0.5 * a + 2.5) * a - 4) * a + 2;
    case RESAMPLE_HAMMING: return sinc(x) * (0.54 + 0.46 * cos(3.14159265358979323846 * x));
    default: return x > -0.5 && x <= 0.5 ? 1 : 0;
    }
}

/* How many pixels one may be made of. */
static uint64_t most_pixels(resample_filter f, double scale) {
    return (uint64_t)ceil(2 * SUPPORT[f] * (scale > 1 ? scale : 1)) + 2;
}

static void parts(const resample_options *o, uint64_t weights, uint64_t at[5]) {
    at[0] = units_align(sizeof(resample), 64);
    at[1] = at[0] + units_align(o->out_width * sizeof(span), 64);
    at[2] = at[1] + units_align(o->out_height * sizeof(span), 64);
    at[3] = at[2] + units_align((uint64_t)o->out_width * o->channels * sizeof(float), 64);
    at[4] = at[3] + units_align(weights * sizeof(float), 64);
}

uint64_t resample_bytes(const resample_options *o, uint32_t most_width, uint32_t least_width) {
    uint64_t at[5];
    parts(o, o->out_width * most_pixels(o->filter, (double)most_width / least_width), at);
    return at[4];
}

/* Of one pixel of the result: between `low` and `high`, what the part that is taken touches. */
static span span_of(const resample *r, double begin, double scale, uint32_t pixel, uint32_t low,
                    uint32_t high) {
    resample_filter f = r->o.filter;
    double wide = scale > 1 ? scale : 1, centre = begin + (pixel + 0.5) * scale, support = SUPPORT[f] * wide;
    span s = { 0 };
    if (f == RESAMPLE_NEAREST) {
        s.first = centre < 0 ? 0 : (uint32_t)centre;
        if (s.first < low) s.first = low;
        if (s.first >= high) s.first = high - 1;
        s.end = s.first + 1, s.share = 1;
        return s;
    }
    double from = centre - support + 0.5, to = centre + support + 0.5, sum = 0;
    s.first = from <= low ? low : (uint32_t)from;
    s.end = to >= high ? high : (uint32_t)to;
    for (uint32_t i = s.first; i < s.end; i++) sum += weight_of(f, (i - centre + 0.5) / wide);
    s.share = sum != 0 ? (float)(1 / sum) : 0;
    return s;
}

static float weight_at(const resample *r, const span *s, double begin, double scale, uint32_t pixel,
                       uint32_t i) {
    double wide = scale > 1 ? scale : 1, centre = begin + (pixel + 0.5) * scale;
    if (r->o.filter == RESAMPLE_NEAREST) return 1;
    return (float)weight_of(r->o.filter, (i - centre + 0.5) / wide) * s->share;
}

static uint32_t ceiling(double x, uint32_t most) {
    double up = ceil(x - 1e-9);
    return up >= most ? most : (uint32_t)up;
}

resample *resample_open(const resample_options *o, void *memory, float *out) {
    uint64_t at[5];
    char *base = memory;
    resample *r = memory;
    uint32_t low = (uint32_t)(o->left + 1e-9), high = ceiling(o->right, o->width), next = 0;
    parts(o, 0, at);
    *r = (resample){ .o = *o, .out = out };
    r->across = (o->right - o->left) / o->to_width, r->down = (o->bottom - o->top) / o->to_height;
    r->columns = (span *)(base + at[0]), r->rows = (span *)(base + at[1]);
    r->line = (float *)(base + at[2]), r->weights = (float *)(base + at[3]);
    for (uint32_t x = 0; x < o->out_width; x++) {
        span s = span_of(r, o->left, r->across, x + o->x, low, high);
        s.at = next;
        for (uint32_t i = s.first; i < s.end; i++)
            r->weights[next++] = weight_at(r, &s, o->left, r->across, x + o->x, i);
        r->columns[x] = s;
    }
    low = (uint32_t)(o->top + 1e-9), high = ceiling(o->bottom, o->height);
    for (uint32_t y = 0; y < o->out_height; y++)
        r->rows[y] = span_of(r, o->top, r->down, y + o->y, low, high);
    memset(out, 0, (size_t)o->out_height * o->out_width * o->channels * sizeof *out);
    return r;
}

bool resample_done(const resample *r, uint32_t y) { return y + 1 >= r->rows[r->o.out_height - 1].end; }

/* A line of the source across, mirrored where that is wanted; a known number of channels is unrolled. */
VECTOR_INLINE void across(const resample *r, const uint8_t *line, uint32_t channels) {
    uint32_t width = r->o.out_width;
    for (uint32_t x = 0; x < width; x++) {
        const span *s = &r->columns[r->o.mirrored ? width - 1 - x : x];
        const float *w = r->weights + s->at;
        const uint8_t *from = line + (size_t)s->first * channels;
        float sum[3] = { 0 };
        for (uint32_t i = s->first; i < s->end; i++, w++, from += channels)
            for (uint32_t c = 0; c < channels; c++) sum[c] += *w * (float)from[c];
        for (uint32_t c = 0; c < channels; c++) r->line[x * channels + c] = sum[c];
    }
}

void resample_line(resample *r, uint32_t y, const uint8_t *line) {
    uint32_t count = r->o.out_width * r->o.channels;
    while (r->begun < r->o.out_height && r->rows[r->begun].end <= y) r->begun++;
    if (r->begun == r->o.out_height || r->rows[r->begun].first > y) return;
    if (r->o.channels == 3)
        across(r, line, 3);
    else
        across(r, line, 1);
    for (uint32_t row = r->begun; row < r->o.out_height && r->rows[row].first <= y; row++) {
        float w = weight_at(r, &r->rows[row], r->o.top, r->down, row + r->o.y, y),
              *to = r->out + (size_t)row * count;
        for (uint32_t i = 0; i < count; i++) to[i] += w * r->line[i];
    }
}

void resample_finish(resample *r) {
    size_t count = (size_t)r->o.out_height * r->o.out_width * r->o.channels;
    for (size_t i = 0; i < count; i++) {
        float x = r->out[i] + 0.5f;
        r->out[i] = x < 0 ? 0 : x >= 255 ? 255 : (float)(int32_t)x;
    }
}
