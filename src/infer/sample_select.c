#include "infer/sample_select.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "ops/wide_math.h"

enum { BATCH = 256 /* logits whose weights are computed at once */ };

#define LOG2_E 0x1.71547652b82fep+0
#define LN_2 0x1.62e42fefa39efp-1
#define MOST_FACTOR 1e300 /* so that no product is 0 times infinity */

/* ---- loops that become vectors; the bits are the same in each ---- */

/* In the order of the floats; the two zeros are one. */
VECTOR_INLINE int32_t key_of(float x) {
    int32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
}

static float of_key(int32_t key) {
    int32_t bits = key ^ (int32_t)((uint32_t)(key >> 31) >> 1);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

VECTOR_CLONES static void extremes(const float *x, int64_t n, int32_t *low, int32_t *high) {
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (int64_t i = 0; i < n; i++) {
        int32_t key = key_of(x[i]);
        least = key < least ? key : least;
        most = key > most ? key : most;
    }
    *low = least, *high = most;
}

VECTOR_CLONES static bool any_within(const float *x, int64_t n, float low, float high) {
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= (uint32_t)(x[i] >= low) & (uint32_t)(x[i] <= high);
    return found;
}

/* 2^bits 2^((x - best) factor): 2^n by its exponent, and the rest by the series of exp, whose argument is
 * within ln 2 / 2. What is far below is far below a half. */
VECTOR_INLINE uint64_t weight_of(double x, double best, double factor, uint32_t bits) {
    double d = (x - best) * factor, low = -(double)bits - 16;
    d = d < low ? low : d;
    double shifted = d + WIDE_ROUNDER, y = (d - (shifted - WIDE_ROUNDER)) * LN_2;
    double q = 1.0 / 479001600;
    q = q * y + 1.0 / 39916800;
    q = q * y + 1.0 / 3628800;
    q = q * y + 1.0 / 362880;
    q = q * y + 1.0 / 40320;
    q = q * y + 1.0 / 5040;
    q = q * y + 1.0 / 720;
    q = q * y + 1.0 / 120;
    q = q * y + 1.0 / 24;
    q = q * y + 1.0 / 6;
    q = q * y + 0.5;
    double p = 1 + (y + y * y * q);
    double power = wide_of_bits((wide_bits(shifted) << 52) + ((uint64_t)(1023 + bits) << 52));
    return wide_bits(p * power + WIDE_ROUNDER) - wide_bits(WIDE_ROUNDER);
}

VECTOR_CLONES static void weigh(const selection *s, const float *x, int64_t n, uint64_t *out) {
    double best = s->best, factor = s->factor;
    uint32_t bits = s->bits;
    for (int64_t i = 0; i < n; i++) out[i] = weight_of(x[i], best, factor, bits);
}

/* By the distance to the highest. */
VECTOR_CLONES static void find_buckets(const float *x, int64_t n, double high, double scale, int32_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (int32_t)((high - x[i]) * scale);
}

VECTOR_CLONES static uint64_t sum(const uint64_t *x, int64_t n) {
    uint64_t total = 0;
    for (int64_t i = 0; i < n; i++) total += x[i];
    return total;
}

/* Those of n <= BATCH logits that are within, in their order. */
static int64_t gather(const float *x, int64_t n, float low, float high, float *out) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        out[count] = x[i];
        count += (x[i] >= low) & (x[i] <= high);
    }
    return count;
}

/* ---- bounds ---- */

/* A range of logits, and where its buckets begin. */
typedef struct {
    float low, high;
    double scale;
    bool counts; /* each weighs 1 */
} range;

static int64_t batch_at(const selection *s, int64_t first) {
    return s->count - first < BATCH ? s->count - first : BATCH;
}

/* What of a batch is within, and how much that is; where all is known to be, it stays where it is. */
static const float *within_of(const selection *s, int64_t first, const range *r, int64_t *n, float *room) {
    const float *x = s->logits + first;
    *n = batch_at(s, first);
    if (r->low <= s->least && r->high >= s->best) return x;
    *n = any_within(x, *n, r->low, r->high) ? gather(x, *n, r->low, r->high, room) : 0;
    return room;
}

static void fill(const selection *s, const range *r) {
    float room[BATCH];
    uint64_t weight[BATCH];
    int32_t bucket[BATCH];
    memset(s->sums, 0, SELECT_BUCKETS * sizeof *s->sums);
    for (int64_t first = 0, n; first < s->count; first += BATCH) {
        const float *x = within_of(s, first, r, &n, room);
        if (!n) continue;
        find_buckets(x, n, r->high, r->scale, bucket);
        if (!r->counts) weigh(s, x, n, weight);
        for (int64_t i = 0; i < n; i++) s->sums[bucket[i]] += r->counts ? 1 : weight[i];
    }
}

/* Where a bucket lies, and a little more. */
static range around(const range *r, int32_t bucket) {
    range part = *r;
    double low = r->high - (bucket + 1.01) / r->scale, high = r->high - (bucket - 0.01) / r->scale;
    if (low > r->low) part.low = nextafterf((float)low, -INFINITY);
    if (high < r->high) part.high = nextafterf((float)high, INFINITY);
    return part;
}

/* The extremes of what is in the bucket become those of the range. */
static void narrow(const selection *s, range *r, int32_t wanted) {
    float room[BATCH];
    int32_t bucket[BATCH], low = INT32_MAX, high = INT32_MIN;
    range part = around(r, wanted);
    for (int64_t first = 0, n; first < s->count; first += BATCH) {
        const float *x = within_of(s, first, &part, &n, room);
        if (!n) continue;
        find_buckets(x, n, r->high, r->scale, bucket);
        for (int64_t i = 0; i < n; i++) {
            int32_t key = key_of(x[i]);
            if (bucket[i] != wanted || x[i] < r->low || x[i] > r->high) continue;
            low = key < low ? key : low;
            high = key > high ? key : high;
        }
    }
    r->low = of_key(low), r->high = of_key(high);
}

static uint64_t part_of(uint64_t total, double p) {
    double part = ceil((double)total * p);
    uint64_t wanted = part < 1 ? 1 : part >= 0x1p63 ? total : (uint64_t)part;
    return wanted < total ? wanted : total;
}

/* The largest bound from `from` on such that the weights that reach it sum to `wanted`, or, of all of them,
 * to the share p. */
static float bound_of(const selection *s, float from, bool counts, uint64_t wanted, double p) {
    range r = { .low = from, .high = s->best, .counts = counts };
    uint64_t above = 0;
    for (bool first = true; r.low < r.high; first = false) {
        r.scale = (SELECT_BUCKETS - 1) / ((double)r.high - r.low);
        fill(s, &r);
        if (first && !counts) wanted = part_of(sum(s->sums, SELECT_BUCKETS), p);
        int32_t bucket = 0;
        while (bucket < SELECT_BUCKETS - 1 && above + s->sums[bucket] < wanted) above += s->sums[bucket++];
        narrow(s, &r, bucket);
    }
    return r.high;
}

/* The lowest logit that weighs something. */
static float reach_of(const selection *s) {
    double reach = s->best - (s->bits + 2) / s->factor, low = s->least > -FLT_MAX ? s->least : -FLT_MAX;
    return (float)(reach > low ? reach : low);
}

/* Minus infinity has no distance: what is left out counts for nothing, and is below all. */
float sample_select_count(const selection *s, int64_t k) {
    float low = s->least;
    if (low == -INFINITY) {
        int64_t finite = 0;
        low = s->best;
        for (int64_t i = 0; i < s->count; i++) {
            if (s->logits[i] == -INFINITY) continue;
            finite++;
            low = s->logits[i] < low ? s->logits[i] : low;
        }
        if (k > finite) k = finite;
    }
    return bound_of(s, low, true, (uint64_t)k, 0);
}

float sample_select_share(const selection *s, float from, double p) {
    float reach = reach_of(s);
    return bound_of(s, from > reach ? from : reach, false, 0, p);
}

float sample_select_ratio(const selection *s, double temperature, double p) {
    double bound = s->best + temperature * wide_log(p);
    if (bound <= s->least) return s->least;
    float nearest = (float)bound;
    return nearest < bound ? nextafterf(nearest, INFINITY) : nearest;
}

/* ---- drawing ---- */

/* Sums of parts of places, as many as there are buckets; a part is as long as need be. */
static int64_t part_length(const selection *s) {
    int64_t length = (s->count + SELECT_BUCKETS - 1) / SELECT_BUCKETS;
    return length < 64 ? 64 : length;
}

static uint64_t weight_within(const selection *s, int64_t first, int64_t n, float bound) {
    float within[BATCH];
    uint64_t weight[BATCH], total = 0;
    for (int64_t at = first, end = first + n; at < end; at += BATCH) {
        int64_t count = end - at < BATCH ? end - at : BATCH;
        if (!any_within(s->logits + at, count, bound, s->best)) continue;
        count = gather(s->logits + at, count, bound, s->best, within);
        weigh(s, within, count, weight);
        total += sum(weight, count);
    }
    return total;
}

uint64_t sample_select_total(const selection *s, float bound) {
    int64_t length = part_length(s);
    uint64_t total = 0;
    float reach = reach_of(s);
    if (bound < reach) bound = reach;
    memset(s->sums, 0, SELECT_BUCKETS * sizeof *s->sums);
    for (int64_t first = 0, i = 0; first < s->count; first += length, i++) {
        int64_t n = s->count - first < length ? s->count - first : length;
        total += s->sums[i] = weight_within(s, first, n, bound);
    }
    return total;
}

int64_t sample_select_draw(const selection *s, float bound, double uniform) {
    uint64_t total = sample_select_total(s, bound), before = 0;
    unsigned __int128 product = (unsigned __int128)(uint64_t)(uniform * 0x1p53) * total;
    uint64_t wanted = (uint64_t)(product >> 53); /* below the total */
    int64_t length = part_length(s), part = 0;
    while (before + s->sums[part] <= wanted) before += s->sums[part++];
    for (int64_t i = part * length;; i++) { /* the part sums to more */
        if (s->logits[i] < bound) continue;
        before += sample_select_weight(s, s->logits[i]);
        if (before > wanted) return i;
    }
}

uint64_t sample_select_weight(const selection *s, float logit) {
    return weight_of(logit, s->best, s->factor, s->bits);
}

int64_t sample_select_first(const selection *s) {
    int64_t first = 0;
    while (!any_within(s->logits + first, batch_at(s, first), s->best, s->best)) first += BATCH;
    while (s->logits[first] != s->best) first++;
    return first;
}

selection sample_select_begin(const float *logits, int64_t count, double temperature, uint64_t *sums) {
    selection s = { .logits = logits, .count = count, .bits = SELECT_BITS, .sums = sums };
    int32_t low, high;
    extremes(logits, count, &low, &high);
    s.least = of_key(low), s.best = of_key(high);
    s.factor = LOG2_E / temperature;
    if (!(s.factor < MOST_FACTOR)) s.factor = MOST_FACTOR;
    while (s.bits > 1 && (uint64_t)count > UINT64_C(1) << (62 - s.bits)) s.bits--;
    return s;
}
