#include "infer/sample.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/finite.h"
#include "base/philox.h"
#include "infer/sample_select.h"
#include "ops/wide_math.h"

enum { STREAM = 0x73616d70 }; /* of the draws, apart from those of training */

/* ---- options ---- */

static status check_range(const char *what, double x, double low, double high) {
    if (x >= low && x <= high) return STATUS_OK;
    return status_set(STATUS_INVALID, "the %s is %g; it must be from %g to %g", what, x, low, high);
}

status sample_check(const sample_options *o) {
    TRY(check_range("temperature", o->temperature, 0, 1000));
    if (o->top_k < 0)
        return status_set(STATUS_INVALID, "top-k is %lld; it must be 0 (all) or more", (long long)o->top_k);
    if (!(o->top_p > 0 && o->top_p <= 1))
        return status_set(STATUS_INVALID, "top-p is %g; it must be above 0, and 1 (all) at most", o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return status_set(STATUS_INVALID, "min-p is %g; it must be from 0 (all) to 1", o->min_p);
    TRY(check_range("repetition penalty", o->repetition_penalty, 0.01, 100));
    TRY(check_range("presence penalty", o->presence_penalty, -100, 100));
    return check_range("frequency penalty", o->frequency_penalty, -100, 100);
}

static bool counts_answer(const sample_options *o) {
    return o->presence_penalty != 0 || o->frequency_penalty != 0;
}

sample_needs sample_needs_of(const sample_options *o) {
    sample_needs n = { .counts = o->repetition_penalty != 1 || counts_answer(o) };
    n.changes = n.counts || o->bias_count;
    return n;
}

/* The histogram, changed logits and how often each token was there, one behind the other. */
static uint64_t rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
static uint64_t changed_bytes(int64_t vocabulary) { return rounded((uint64_t)vocabulary * sizeof(float)); }

uint64_t sample_bytes(const sample_needs *needs, int64_t vocabulary) {
    return SELECT_BUCKETS * sizeof(uint64_t) +
           (needs->changes || needs->counts ? changed_bytes(vocabulary) : 0) +
           (needs->counts ? rounded((uint64_t)vocabulary * sizeof(uint32_t)) : 0);
}

static uint64_t *sums_of(const sample_from *from) { return from->memory; }
static float *changed_of(const sample_from *from) { return (float *)(sums_of(from) + SELECT_BUCKETS); }
static uint32_t *counts_of(const sample_from *from) {
    return (uint32_t *)((char *)changed_of(from) + changed_bytes(from->vocabulary));
}

/* ---- logits are changed ---- */

static float bounded(double x) { return (float)(x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x); }

static float repeated(float x, float penalty) { return bounded(x > 0 ? x / penalty : x * penalty); }

/* How often each of n ids is there; others have any number. */
static void count_ids(const int32_t *ids, int64_t n, uint32_t *times) {
    for (int64_t i = 0; i < n; i++) times[ids[i]] = 0;
    for (int64_t i = 0; i < n; i++) times[ids[i]]++;
}

/* Each id once: its times are 0 from then on. */
static void penalise_text(const sample_options *o, const sample_from *from, float *x) {
    uint32_t *times = counts_of(from);
    count_ids(from->ids, from->count, times);
    for (int64_t i = 0; i < from->count; i++) {
        int32_t id = from->ids[i];
        if (times[id]) x[id] = repeated(x[id], (float)o->repetition_penalty);
        times[id] = 0;
    }
}

static void penalise_answer(const sample_options *o, const sample_from *from, float *x) {
    uint32_t *times = counts_of(from);
    const int32_t *ids = from->ids + from->prompt;
    int64_t count = from->count - from->prompt;
    count_ids(ids, count, times);
    for (int64_t i = 0; i < count; i++) {
        int32_t id = ids[i];
        if (times[id]) x[id] = bounded(x[id] - (o->presence_penalty + times[id] * o->frequency_penalty));
        times[id] = 0;
    }
}

/* False: nothing is left. */
static bool leave_out(const sample_from *from, float *x) {
    bool any = false;
    for (int64_t i = 0; i < from->vocabulary; i++) {
        bool allowed = from->allowed[i / 64] >> (i % 64) & 1;
        x[i] = allowed ? x[i] : -INFINITY;
        any = any || allowed;
    }
    return any;
}

/* NULL: nothing is left. */
static const float *change(const sample_options *o, const sample_from *from) {
    sample_needs needs = sample_needs_of(o);
    if (!needs.changes && !from->allowed) return from->logits;
    float *x = changed_of(from);
    memcpy(x, from->logits, (size_t)from->vocabulary * sizeof *x);
    if (o->repetition_penalty != 1) penalise_text(o, from, x);
    if (counts_answer(o)) penalise_answer(o, from, x);
    for (uint32_t i = 0; i < o->bias_count; i++)
        x[o->biases[i].id] = bounded((double)x[o->biases[i].id] + o->biases[i].bias);
    return !from->allowed || leave_out(from, x) ? x : NULL;
}

/* ---- logarithms ---- */

/* In their order, those that are less likely going out. */
static void insert(sample_drawn *d, int32_t most, sample_likely new) {
    int32_t at = d->count;
    while (at > 0 && d->likeliest[at - 1].logprob < new.logprob) at--;
    if (at == most) return;
    int32_t moved = (d->count < most ? d->count : most - 1) - at;
    memmove(&d->likeliest[at + 1], &d->likeliest[at], (size_t)moved * sizeof new);
    d->likeliest[at] = new;
    if (d->count < most) d->count++;
}

/* The likeliest with their logits, which become logarithms. */
static void tell(const sample_options *o, const sample_from *from, sample_drawn *d) {
    selection s = sample_select_begin(from->logits, from->vocabulary, 1, sums_of(from));
    double all = wide_log((double)sample_select_total(&s, s.least) * wide_two_to(-(int64_t)s.bits));
    int32_t most = (int32_t)(o->likeliest < from->vocabulary ? o->likeliest : from->vocabulary);
    d->count = 0;
    d->logprob = (float)((double)from->logits[d->id] - s.best - all);
    if (!most) return;
    float bound = sample_select_count(&s, most);
    for (int64_t i = 0; i < from->vocabulary; i++)
        if (from->logits[i] >= bound) insert(d, most, (sample_likely){ (int32_t)i, from->logits[i] });
    for (int32_t i = 0; i < d->count; i++)
        d->likeliest[i].logprob = (float)((double)d->likeliest[i].logprob - s.best - all);
}

/* ---- one draw ---- */

/* Uniform in (0,1), 53 bits. */
static double draw(uint64_t seed, uint32_t position) {
    philox_block b = philox_draw(seed, (philox_block){ { 0, 0, position, STREAM } });
    uint64_t bits = (uint64_t)(b.word[0] >> 6) << 26 | b.word[1] >> 6;
    return ((double)bits + 0.5) * 0x1p-52;
}

static status check_logits(const sample_from *from) {
    int64_t at = finite_find(DTYPE_F32, from->logits, from->vocabulary);
    if (at < 0) return STATUS_OK;
    return status_set(STATUS_FAILED, "the logit of token %lld at position %u is %g: the weights are damaged",
                      (long long)at, from->position, (double)from->logits[at]);
}

static float bound_of(const sample_options *o, const selection *s) {
    float bound = s->least;
    if (o->top_k > 0 && o->top_k < s->count) bound = sample_select_count(s, o->top_k);
    if (o->top_p < 1) bound = sample_select_share(s, bound, o->top_p);
    if (o->min_p > 0) {
        float other = sample_select_ratio(s, o->temperature, o->min_p);
        if (other > bound) bound = other;
    }
    return bound;
}

status sample_next(const sample_options *o, const sample_from *from, sample_drawn *drawn) {
    drawn->id = SAMPLE_NONE;
    TRY(check_logits(from));
    const float *logits = change(o, from);
    if (!logits) return STATUS_OK;
    bool likeliest = o->temperature == 0 || o->top_k == 1;
    selection s =
        sample_select_begin(logits, from->vocabulary, likeliest ? 1 : o->temperature, sums_of(from));
    drawn->id = (int32_t)(likeliest ? sample_select_first(&s)
                                    : sample_select_draw(&s, bound_of(o, &s), draw(o->seed, from->position)));
    if (o->logprobs) tell(o, from, drawn);
    return STATUS_OK;
}

status sample_told(const sample_options *o, const sample_from *from, int32_t id, sample_drawn *told) {
    TRY(check_logits(from));
    told->id = id;
    tell(o, from, told);
    return STATUS_OK;
}
