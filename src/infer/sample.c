#include "infer/sample.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/philox.h"

enum { STREAM = 0x73616d70 }; /* of the draws, apart from those of training */

/* ---- options ---- */

status sample_check(const sample_options *o) {
    if (!(o->temperature >= 0 && o->temperature <= 1000))
        return status_set(STATUS_INVALID, "the temperature is %g; it must be from 0 to 1000", o->temperature);
    if (o->top_k < 0)
        return status_set(STATUS_INVALID, "top-k is %lld; it must be 0 (all) or more", (long long)o->top_k);
    if (!(o->top_p > 0 && o->top_p <= 1))
        return status_set(STATUS_INVALID, "top-p is %g; it must be above 0, and 1 (all) at most", o->top_p);
    if (!(o->repetition_penalty >= 0.01 && o->repetition_penalty <= 100))
        return status_set(STATUS_INVALID, "the repetition penalty is %g; it must be from 0.01 to 100",
                          o->repetition_penalty);
    return STATUS_OK;
}

static bool penalises(const sample_options *o) { return o->repetition_penalty != 1; }
static bool cuts_mass(const sample_options *o) { return o->top_p < 1; }

uint64_t sample_bytes(const sample_options *o, int64_t vocabulary) {
    uint64_t n = (uint64_t)vocabulary;
    return (cuts_mass(o) ? n * sizeof(double) : 0) + (penalises(o) ? n * sizeof(float) : 0);
}

/* ---- what is kept ---- */

/* What is drawn from: the likeliest of the logits, and the bound below which nothing counts. */
typedef struct {
    const float *logits;
    int64_t count;
    int32_t best;
    uint32_t bound;
    double temperature;
} choice;

/* Unsigned numbers in the order of the floats; equal for the two zeros. */
static uint32_t ordered(float x) {
    uint32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static double weight(const choice *c, int64_t i) {
    if (ordered(c->logits[i]) < c->bound) return 0;
    return exp(((double)c->logits[i] - (double)c->logits[c->best]) / c->temperature);
}

/* The largest bound that at least k logits reach, bit by bit. */
static uint32_t bound_of_count(const choice *c, int64_t k) {
    uint32_t bound = 0;
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        int64_t reach = 0;
        for (int64_t i = 0; i < c->count; i++) reach += ordered(c->logits[i]) >= (bound | bit);
        if (reach >= k) bound |= bit;
    }
    return bound;
}

/* The largest bound that at least the share p of the probability reaches. */
static uint32_t bound_of_mass(const choice *c, double p, double *weights) {
    double total = 0;
    for (int64_t i = 0; i < c->count; i++) total += weights[i] = weight(c, i);
    uint32_t bound = 0;
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        double reach = 0;
        for (int64_t i = 0; i < c->count; i++)
            reach += ordered(c->logits[i]) >= (bound | bit) ? weights[i] : 0;
        if (reach >= p * total) bound |= bit;
    }
    return bound;
}

/* ---- one draw ---- */

/* Uniform in (0,1), 53 bits. */
static double draw(uint64_t seed, uint32_t position) {
    philox_block b = philox_draw(seed, (philox_block){ { 0, 0, position, STREAM } });
    uint64_t bits = (uint64_t)(b.word[0] >> 6) << 26 | b.word[1] >> 6;
    return ((double)bits + 0.5) * 0x1p-52;
}

static status check_logits(const sample_from *from) {
    for (int64_t i = 0; i < from->vocabulary; i++)
        if (!isfinite(from->logits[i]))
            return status_set(STATUS_FAILED,
                              "the logit of token %lld at position %u is %g: the weights are damaged",
                              (long long)i, from->position, (double)from->logits[i]);
    return STATUS_OK;
}

static const float *penalise(const sample_from *from, float penalty, float *to) {
    for (int64_t i = 0; i < from->vocabulary; i++) {
        float x = from->logits[i], changed = x > 0 ? x / penalty : x * penalty;
        to[i] = from->seen[i] ? fminf(fmaxf(changed, -FLT_MAX), FLT_MAX) : x;
    }
    return to;
}

static int32_t likeliest(const float *logits, int64_t count) {
    int32_t best = 0;
    for (int64_t i = 0; i < count; i++)
        if (logits[i] > logits[best]) best = (int32_t)i;
    return best;
}

static int32_t draw_from(const choice *c, double uniform) {
    double total = 0, reached = 0;
    for (int64_t i = 0; i < c->count; i++) total += weight(c, i);
    double wanted = uniform * total;
    for (int64_t i = 0; i < c->count; i++) {
        if (ordered(c->logits[i]) < c->bound) continue;
        reached += weight(c, i);
        if (reached >= wanted)
            return (int32_t)i; /* the same sums in the same order: the last reaches `total` */
    }
    return c->best;
}

status sample_next(const sample_options *o, const sample_from *from, int32_t *id) {
    choice c = { .logits = from->logits, .count = from->vocabulary, .temperature = o->temperature };
    double *weights = from->memory;
    TRY(check_logits(from));
    if (penalises(o))
        c.logits = penalise(from, (float)o->repetition_penalty,
                            (float *)(weights + (cuts_mass(o) ? from->vocabulary : 0)));
    *id = c.best = likeliest(c.logits, c.count);
    if (o->temperature == 0 || o->top_k == 1) return STATUS_OK;
    if (o->top_k > 0 && o->top_k < c.count) c.bound = bound_of_count(&c, o->top_k);
    if (cuts_mass(o)) {
        uint32_t bound = bound_of_mass(&c, o->top_p, weights);
        if (bound > c.bound) c.bound = bound;
    }
    *id = draw_from(&c, draw(o->seed, from->position));
    return STATUS_OK;
}
