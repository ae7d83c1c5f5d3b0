#include "data/images/prepare.h"

#include <math.h>
#include <stddef.h>

#include "base/philox.h"

enum { TRIES = 10, STREAM = 0x63726f70 };

prepare_options prepare_defaults(uint32_t height, uint32_t width, uint32_t channels) {
    prepare_options p = { .out_height = height,
                          .out_width = width,
                          .channels = channels,
                          .filter = RESAMPLE_BILINEAR,
                          .factor = 1 / 255.0,
                          .mean = { 0.485, 0.456, 0.406 },
                          .deviation = { 0.229, 0.224, 0.225 } };
    p.shortest = ((height > width ? height : width) * 8 + 3) / 7;
    if (channels == 1) p.mean[0] = p.deviation[0] = 0.5;
    return p;
}

static resample_options window_of(const prepare_options *p) {
    return (resample_options){ .out_width = p->out_width,
                               .out_height = p->out_height,
                               .to_width = p->out_width,
                               .to_height = p->out_height,
                               .channels = p->channels,
                               .filter = p->filter };
}

resample_options prepare_middle(const prepare_options *p, uint32_t width, uint32_t height) {
    resample_options o = window_of(p);
    o.right = width, o.bottom = height;
    o.to_width = p->width, o.to_height = p->height;
    if (p->shortest && width <= height) {
        o.to_width = p->shortest;
        o.to_height = (uint32_t)((uint64_t)p->shortest * height / width);
    } else if (p->shortest) {
        o.to_height = p->shortest;
        o.to_width = (uint32_t)((uint64_t)p->shortest * width / height);
    }
    o.x = (o.to_width - p->out_width) / 2, o.y = (o.to_height - p->out_height) / 2;
    return o;
}

/* From 0 to below `count`. */
static uint32_t below(uint32_t word, uint32_t count) { return (uint32_t)((uint64_t)word * count >> 32); }

static philox_block draw(uint64_t seed, uint64_t place, uint32_t number) {
    return philox_draw(seed, (philox_block){ { number, (uint32_t)place, (uint32_t)(place >> 32), STREAM } });
}

/* Where no try fits: as much of the middle as has an allowed shape. */
static void take_middle(resample_options *o, uint32_t width, uint32_t height) {
    double w = width, h = height;
    if (3 * w > 4 * h) w = h * 4 / 3;
    if (4 * w < 3 * h) h = w * 4 / 3;
    o->left = floor((width - w) / 2), o->top = floor((height - h) / 2);
    o->right = o->left + floor(w + 0.5), o->bottom = o->top + floor(h + 0.5);
}

resample_options prepare_drawn(const prepare_options *p, uint32_t width, uint32_t height, uint64_t seed,
                               uint64_t place) {
    static const double LEAST = 0.08, SHAPE = 0.28768207245178092744; /* ln (4/3) */
    resample_options o = window_of(p);
    philox_block more = draw(seed, place, TRIES);
    o.mirrored = more.word[0] >> 31;
    take_middle(&o, width, height);
    for (uint32_t i = 0; i < TRIES; i++) {
        philox_block b = draw(seed, place, i);
        double area = (LEAST + (1 - LEAST) * (double)philox_uniform(b.word[0])) * width * height,
               shape = exp(SHAPE * (2 * (double)philox_uniform(b.word[1]) - 1));
        double w = floor(sqrt(area * shape) + 0.5), h = floor(sqrt(area / shape) + 0.5);
        if (w < 1 || h < 1 || w > width || h > height) continue;
        o.left = below(b.word[2], width - (uint32_t)w + 1),
        o.top = below(b.word[3], height - (uint32_t)h + 1);
        o.right = o.left + w, o.bottom = o.top + h;
        break;
    }
    return o;
}

void prepare_normalise(const prepare_options *p, float *image) {
    size_t pixels = (size_t)p->out_height * p->out_width;
    for (size_t i = 0; i < pixels; i++)
        for (uint32_t c = 0; c < p->channels; c++) {
            float *x = &image[i * p->channels + c];
            *x = (*x * (float)p->factor - (float)p->mean[c]) / (float)p->deviation[c];
        }
}
