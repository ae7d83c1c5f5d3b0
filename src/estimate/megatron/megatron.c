#include "estimate/megatron/megatron.h"

#include <math.h>

#include "estimate/megatron/megatron_weights.h"

/* Bytes of a weight: bf16, its gradient's sum in f32, and Adam's two moments beside an f32 master. */
enum { WEIGHT = 2, GRADIENT = 4, STATE = 12 };

/* What libraries take in the allocator: cuBLAS for torch's products, and as much for Transformer Engine's, of
 * grouped ones for each of their four streams. */
static const uint64_t workspace = UINT64_C(32) << 20;
#define GROUPED_STREAMS 4u

/* ---- a micro-batch on one chunk ---- */

typedef struct {
    const char *call;
    double kept, beside; /* of this chunk's own; at the peak */
} peak;

typedef struct {
    double kept;
    peak forward, backward;
} profile;

static void raise_peak(peak *p, const char *call, double kept, double beside) {
    if (kept + beside > p->kept + p->beside) *p = (peak){ call, kept, beside };
}

static status profile_of(const megatron_shape *m, const megatron_settings *s, const megatron_chunk *c,
                         profile *p) {
    array calls;
    *p = (profile){ 0 };
    TRY(array_open(&calls, sizeof(megatron_call), 32 * (DECODER_MOST_LAYERS + 1)));
    status result = megatron_write(m, s, c, &calls);
    for (uint32_t i = 1; result == STATUS_OK && i < calls.count; i++) {
        const megatron_call *k = (const megatron_call *)calls.data + i;
        p->kept += k->kept;
        raise_peak(&p->forward, k->what, p->kept, k->forward);
        raise_peak(&p->backward, k->what, p->kept, k->backward);
    }
    array_close(&calls);
    return result;
}

/* ---- the schedule ---- */

enum { MOST_CHUNKS = DECODER_MOST_LAYERS };

typedef struct {
    int64_t stages, stage, chunks, micro_batches;
    profile *of; /* by chunk */
    double kept; /* now */
    int64_t in_flight, most_in_flight;
    peak most;
    const char *in;
} schedule;

static void look(schedule *x, const peak *p, const char *in) {
    double kept = x->kept + p->kept;
    if (kept + p->beside <= x->most.kept + x->most.beside) return;
    x->most = (peak){ p->call, kept, p->beside };
    x->in = in;
}

/* Micro-batches go by groups of as many as there are stages, each group through all chunks of a stage
 * (Narayanan et al., 2021, section 2.2). */
static void go_forward(schedule *x, int64_t i) {
    const profile *p = &x->of[i / x->stages % x->chunks];
    look(x, &p->forward, "forward");
    x->kept += p->kept;
    if (++x->in_flight > x->most_in_flight) x->most_in_flight = x->in_flight;
}

static void go_backward(schedule *x, int64_t i) {
    const profile *p = &x->of[x->chunks - 1 - i / x->stages % x->chunks];
    x->kept -= p->kept;
    look(x, &p->backward, "backward");
    x->in_flight--;
}

/* Forward alone until the first gradient can come; then one forward, one backward. Later rounds are like the
 * first ones, so few are played. */
static void play(schedule *x) {
    int64_t behind = x->stages - x->stage - 1;
    int64_t ahead = x->chunks > 1 ? 2 * behind + (x->chunks - 1) * x->stages : behind;
    int64_t rounds = 2 + ahead / (x->stages * x->chunks), played = x->micro_batches;
    if (played > 2 * rounds * x->stages) played = 2 * rounds * x->stages;
    int64_t all = played * x->chunks, next = 0;
    if (ahead > all) ahead = all;
    while (next < ahead) go_forward(x, next++);
    for (int64_t i = 0; i < all; i++) {
        if (next < all) go_forward(x, next++);
        go_backward(x, i);
    }
}

/* ---- a stage ---- */

static int64_t chunks_of(const megatron_shape *m, const megatron_settings *s) {
    return s->virtual_layers ? m->layers / s->pipeline / s->virtual_layers : 1;
}

/* Of stages that are not said to be otherwise. */
static int64_t usual_layers(const megatron_shape *m, const megatron_settings *s) {
    int64_t said = (s->first_layers > 0) + (s->last_layers > 0), rest = s->pipeline - said;
    return rest > 0 ? (m->layers - s->first_layers - s->last_layers) / rest : 0;
}

static megatron_chunk chunk_of(const megatron_shape *m, const megatron_settings *s, int64_t stage,
                               int64_t i) {
    int64_t end = s->pipeline - 1, usual = usual_layers(m, s);
    if (s->virtual_layers) {
        int64_t place = i * s->pipeline + stage, all = s->pipeline * chunks_of(m, s);
        return (megatron_chunk){ place * s->virtual_layers, s->virtual_layers, place == 0, place == all - 1 };
    }
    int64_t first = s->first_layers ? s->first_layers : usual;
    int64_t count = stage == 0 ? first : stage == end && s->last_layers ? s->last_layers : usual;
    return (megatron_chunk){ stage ? first + (stage - 1) * usual : 0, count, stage == 0, stage == end };
}

int64_t megatron_replicas(const megatron_settings *s) {
    return s->gpus / (s->tensor * s->pipeline * s->contexts);
}

int64_t megatron_micro_batches(const megatron_settings *s) {
    if (s->accumulate) return s->accumulate;
    return s->step ? s->step / (s->batch * megatron_replicas(s)) : s->pipeline;
}

/* Moments and masters are shared among all that have a weight: for experts those of its group alone. */
static void place_weights(const megatron_settings *s, const megatron_weights *w, bool gathers,
                          double whole_input, bool experts, megatron_stage *out) {
    double all = w->shared + w->experts;
    double owners = s->shares ? (double)(s->gpus / (s->tensor * s->pipeline * s->instances)) : 1;
    double expert_owners =
        s->shares && experts
            ? (double)(s->gpus / (s->expert_tensor * s->experts * s->pipeline * s->instances))
            : 1;
    out->parameters = (uint64_t)all;
    out->weights = (uint64_t)(WEIGHT * all);
    out->gradients = (uint64_t)(GRADIENT * all);
    out->optimizer = (uint64_t)(STATE * (w->shared / owners + w->experts / expert_owners));
    out->buffers = (uint64_t)(WEIGHT * megatron_shapes_sum(w) + (gathers ? whole_input : 0)) +
                   workspace * (experts ? 2 + GROUPED_STREAMS : 2u);
}

static status stage_of(const megatron_shape *m, const megatron_settings *s, int64_t stage,
                       megatron_stage *out) {
    profile of[MOST_CHUNKS];
    megatron_weights w = { 0 };
    bool ends = false, experts = false;
    schedule x = { .stages = s->pipeline,
                   .stage = stage,
                   .chunks = chunks_of(m, s),
                   .micro_batches = megatron_micro_batches(s),
                   .of = of };
    *out = (megatron_stage){ 0 };
    for (int64_t i = 0; i < x.chunks; i++) {
        megatron_chunk c = chunk_of(m, s, stage, i);
        TRY(profile_of(m, s, &c, &of[i]));
        megatron_count(m, s, &c, s->pipeline > 1, &w);
        out->layers += c.count;
        ends |= c.last;
        for (int64_t l = c.from; l < c.from + c.count; l++) experts |= megatron_has_experts(m, l);
    }
    play(&x);
    double tokens = (double)s->batch * (double)s->context / (double)s->contexts;
    if (!(18 * (w.shared + w.experts) + x.most.kept + x.most.beside + tokens * (double)m->channels < 0x1p60))
        return status_set(STATUS_INVALID,
                          "a stage has more bytes than can be counted; ask for fewer --num-layers, a "
                          "smaller --micro-batch or --context");
    place_weights(s, &w, ends && s->sequence, tokens * WEIGHT * (double)m->channels, experts, out);
    out->activations = (uint64_t)x.most.kept;
    out->temporaries = (uint64_t)x.most.beside;
    out->peak_in = x.in, out->peak_call = x.most.call;
    out->kept = x.most_in_flight;
    out->live =
        out->weights + out->gradients + out->optimizer + out->buffers + out->activations + out->temporaries;
    return STATUS_OK;
}

/* ---- the whole ---- */

static uint64_t all_parameters(const megatron_shape *m, const megatron_settings *s) {
    megatron_settings alone = *s;
    megatron_weights w = { 0 };
    alone.tensor = alone.experts = alone.expert_tensor = 1;
    megatron_chunk all = { 0, m->layers, true, true };
    megatron_count(m, &alone, &all, false, &w);
    return (uint64_t)(w.shared + w.experts);
}

status megatron_estimate(const megatron_shape *m, const megatron_settings *s, megatron_result *r) {
    megatron_stage stage;
    *r = (megatron_result){ .stages = s->pipeline,
                            .parameters = all_parameters(m, s),
                            .replicas = megatron_replicas(s),
                            .micro_batches = megatron_micro_batches(s) };
    for (int64_t i = 0; i < s->pipeline; i++) {
        TRY(stage_of(m, s, i, &stage));
        r->live_of[i] = stage.live;
        if (s->stage >= 0 ? i == s->stage : stage.live > r->at.live) r->at = stage, r->stage = i;
    }
    return STATUS_OK;
}
