#include "estimate/serving/served.h"

#include <math.h>

/* Bits of a weight of the blocks' products. awq and gptq: 4, with a scale of 16 bits and a zero of 4 for 128;
 * bitsandbytes: NF4 with an f32 for 64, whose own coding is undone as it is loaded. */
static double product_bits(const served_form *f) {
    static const double bits[] = { [SERVED_PLAIN] = 16,
                                   [SERVED_FP8] = 8,
                                   [SERVED_AWQ] = 4 + 20.0 / 128,
                                   [SERVED_GPTQ] = 4 + 20.0 / 128,
                                   [SERVED_BITSANDBYTES] = 4 + 32.0 / 64 };
    return f->wide && f->quantization == SERVED_PLAIN ? 32 : bits[f->quantization];
}

/* Products and tables are cut, vectors are not. Where there are more devices than heads of keys and values
 * each has one of them. */
static double share_of(const weights_item *x, const heads *h, int64_t gpus) {
    if (x->part == WEIGHTS_VECTOR || x->part == WEIGHTS_POSITIONS || x->part == WEIGHTS_ROUTER) return 1;
    double n = (double)gpus;
    if (x->part == WEIGHTS_K || x->part == WEIGHTS_V) return 1 / fmin(n, (double)h->kv_heads);
    return 1 / n;
}

/* Vocabularies are filled up to a multiple of 64. */
static double item_elements(const weights_item *x) {
    if (x->part != WEIGHTS_TABLE && x->part != WEIGHTS_HEAD) return weights_elements(x);
    return (double)((x->rows + 63) / 64 * 64) * (double)x->inner;
}

/* Cosines and sines of all positions that the model knows are a table beside the weights. */
static double rotations(const model_config *c, const heads *h, bool wide) {
    bool two = c->family == FAMILY_DECODER && c->decoder.near_theta > 0;
    return (double)(h->context * h->rotated) * (wide ? 4 : 2) * (two ? 2 : 1);
}

double served_weights(const weights *w, const model_config *c, const heads *h, const served_form *f) {
    double bytes = rotations(c, h, f->wide);
    for (uint32_t i = 1; i < w->items.count; i++) {
        const weights_item *x = weights_at(w, i);
        double bits = weights_of_block(x) ? product_bits(f) : f->wide ? 32 : 16;
        bytes += item_elements(x) * share_of(x, h, f->gpus) * bits / 8;
    }
    return bytes;
}

/* At the second half of a block: what comes in, what goes by, and what goes out, beside the widened values:
 * of gates and ups together and of their product. */
double served_row(const heads *h, const served_form *f, bool compiled) {
    double n = (double)f->gpus, width = f->wide ? 4 : 2;
    double feed = (double)h->inner * (h->gated ? 3 : 2) / n;
    if (h->experts) /* every chosen expert has rows of its own, on the way in and out */
        feed =
            (double)h->chosen * (fmax(2 * (double)h->inner / n, (double)h->channels) + (double)h->inner / n);
    double attention = (double)((2 * h->heads + 2 * h->kv_heads) * h->head_size) / n;
    return width * (fmax(feed, attention) + (compiled ? 1 : 3) * (double)h->channels);
}

double served_token(const heads *h, int64_t gpus, double width) {
    double kept = fmax(1, (double)h->kv_heads / (double)gpus);
    return 2 * kept * (double)h->head_size * width;
}

status served_check(const model *m, const model_config *c, int64_t gpus, const char *title,
                    const char *named) {
    heads h;
    if (!heads_of(c, &h))
        return status_set(STATUS_INVALID, "--framework %s: %s is no decoder, which is what is served here",
                          named, m->name);
    if (h.heads % gpus)
        return status_set(STATUS_INVALID,
                          "--gpus %lld: %s shares out whole heads, and %lld of them can't be divided so",
                          (long long)gpus, title, (long long)h.heads);
    if (h.kv_heads % gpus && gpus % h.kv_heads)
        return status_set(STATUS_INVALID,
                          "--gpus %lld: %s shares out whole heads of keys and values, or repeats them, and "
                          "%lld of them can't be either",
                          (long long)gpus, title, (long long)h.kv_heads);
    return STATUS_OK;
}
