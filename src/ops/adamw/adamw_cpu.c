#include <math.h>

#include "ops/adamw/adamw.h"
#include "ops/adamw/adamw_codes.h"
#include "ops/adamw/adamw_halves.h"
#include "ops/adamw/adamw_math.h"
#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/state.h"

static bool is_skipped(const op_call *c) {
    const op_arg *ok = op_in(c, 7);
    return ok->data && *(const int32_t *)ok->data == 0;
}

/* What depends on the step only, in double: 1 - beta^t is small at first and sensitive. */
typedef struct {
    double decay;             /* 1 - lr weight_decay */
    double step;              /* lr / (1 - beta1^t) */
    double correction;        /* sqrt(1 - beta2^t) */
    double beta1, beta2, eps; /* as the attributes */
    double scale;
} factors;

static factors factors_of(const op_call *c) {
    const adamw_attributes *a = c->attributes;
    double lr = reference_get(op_in(c, 4), 0), t = reference_get(op_in(c, 5), 0);
    return (factors){ .decay = 1 - lr * (double)a->weight_decay,
                      .step = lr / (1 - pow((double)a->beta1, t)),
                      .correction = sqrt(1 - pow((double)a->beta2, t)),
                      .beta1 = (double)a->beta1,
                      .beta2 = (double)a->beta2,
                      .eps = (double)a->eps,
                      .scale = op_in(c, 6)->data ? reference_get(op_in(c, 6), 0) : 1 };
}

static void adamw_reference(const op_call *c) {
    factors f = factors_of(c);
    double m[STATE_BLOCK], v[STATE_BLOCK];
    if (is_skipped(c)) {
        state_keep(c, &op_adamw);
        return;
    }
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i += STATE_BLOCK) {
        int64_t here = n - i < STATE_BLOCK ? n - i : STATE_BLOCK;
        state_load_reference(c, &adamw_states[0], i, here, m);
        state_load_reference(c, &adamw_states[1], i, here, v);
        for (int64_t k = 0; k < here; k++) {
            double g = f.scale * reference_get(op_in(c, 1), i + k), w = reference_get(op_in(c, 0), i + k);
            m[k] = m[k] + (1 - f.beta1) * (g - m[k]);
            v[k] = f.beta2 * v[k] + (1 - f.beta2) * g * g;
            w = f.decay * w - f.step * m[k] / (sqrt(v[k]) / f.correction + f.eps);
            state_set_weight(c, &op_adamw, i + k, w);
        }
        state_store_reference(c, &op_adamw, &adamw_states[0], i, here, m);
        state_store_reference(c, &op_adamw, &adamw_states[1], i, here, v);
    }
}

static adamw_step step_of(const op_call *c) {
    return adamw_step_of(c->attributes, *(const float *)c->in[4].data, *(const int32_t *)c->in[5].data,
                         fast_number(op_in(c, 6), 1));
}

/* ---- moments in f32 ---- */

VECTOR_INLINE void update_range(const adamw_step *s, const op_call *c, int64_t first, int64_t n) {
    const float *w = (const float *)c->in[0].data + first, *g = (const float *)c->in[1].data + first;
    const float *m = (const float *)c->in[2].data + first, *v = (const float *)c->in[3].data + first;
    float *w_out = (float *)c->out[0].data + first, *m_out = (float *)c->out[1].data + first;
    float *v_out = (float *)c->out[2].data + first;
    const adamw_step f = *s;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        adamw_element x = adamw_update(&f, (adamw_element){ w[i], m[i], v[i] }, g[i]);
        w_out[i] = x.w, m_out[i] = x.m, v_out[i] = x.v;
    }
}

enum { AHEAD = 512 }; /* floats: so many arrays at once are more than the processor sees coming */

VECTOR_CLONES static void adamw_piece(const op_call *c, int64_t first, int64_t last) {
    adamw_step s = step_of(c);
    int64_t i = first;
    for (; i + VECTOR_STEP <= last; i += VECTOR_STEP) {
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < VECTOR_STEP; j += VECTOR_LINE)
                vector_fetch((const float *)c->in[k].data + i + j + AHEAD);
        update_range(&s, c, i, VECTOR_STEP);
    }
    update_range(&s, c, i, last - i);
}

static void adamw_fast(const op_call *c) {
    if (is_skipped(c))
        state_keep(c, &op_adamw);
    else
        fast_for_elements(c, adamw_piece);
}

static bool accepts_wide(const op_call *c) { return state_is_wide(c, adamw_states, 2); }

/* ---- all of bf16: read as it is; what comes of it waits in the first cache until it is rounded ---- */

enum { SOME = 512 };
typedef struct {
    float w[SOME], m[SOME], v[SOME];
} updated;

/* Elements `at` and following of the call to element `to` and following. */
VECTOR_INLINE void update_halves(const adamw_step *f, const op_call *c, int64_t at, int n, updated *u,
                                 int64_t to) {
    const uint16_t *w = (const uint16_t *)c->in[0].data + at, *g = (const uint16_t *)c->in[1].data + at;
    const uint16_t *m = (const uint16_t *)c->in[2].data + at, *v = (const uint16_t *)c->in[3].data + at;
#pragma GCC ivdep
    for (int j = 0; j < n; j++) {
        adamw_element x = { half_from_bf16(w[j]), half_from_bf16(m[j]), half_from_bf16(v[j]) };
        x = adamw_update(f, x, half_from_bf16(g[j]));
        u->w[to + j] = x.w, u->m[to + j] = x.m, u->v[to + j] = x.v;
    }
}

VECTOR_CLONES static void update_bf16(const adamw_step *s, const op_call *c, int64_t first, int64_t n,
                                      updated *u) {
    const adamw_step f = *s;
    int64_t i = 0;
    for (; i + VECTOR_STEP <= n; i += VECTOR_STEP) {
        for (int k = 0; k < 4; k++) __builtin_prefetch((const uint16_t *)c->in[k].data + first + i + SOME);
        update_halves(&f, c, first + i, VECTOR_STEP, u, i);
    }
    update_halves(&f, c, first + i, (int)(n - i), u, i);
}

static void bf16_piece(const op_call *c, int64_t first, int64_t last) {
    adamw_step s = step_of(c);
    updated u;
    first = adamw_update_halves(c, &s, first, last);
    for (int64_t i = first; i < last; i += SOME) {
        int64_t n = last - i < SOME ? last - i : SOME;
        update_bf16(&s, c, i, n, &u);
        state_store_half(c, &op_adamw, 0, i, n, u.w);
        state_store_half(c, &op_adamw, 1, i, n, u.m);
        state_store_half(c, &op_adamw, 2, i, n, u.v);
    }
}

static bool accepts_bf16(const op_call *c) {
    for (uint32_t i = 0; i < 4; i++)
        if (c->in[i].dtype != DTYPE_BF16) return false;
    return true;
}

static void adamw_bf16(const op_call *c) {
    if (is_skipped(c))
        state_keep(c, &op_adamw);
    else
        fast_for_elements(c, bf16_piece);
}

static void adamw_codes(const op_call *c) {
    if (is_skipped(c))
        state_keep(c, &op_adamw);
    else
        adamw_run_codes(c);
}

/* With anything of fewer bits: a block at a time is f32. */
static void adamw_narrow(const op_call *c) {
    if (is_skipped(c))
        state_keep(c, &op_adamw);
    else
        state_run_blocks(c, &op_adamw, adamw_piece);
}

static bool accepts_narrow(const op_call *c) { return state_is_narrow(c, adamw_states, 2); }

const op_kernel adamw_cpu[] = { { "adamw_cpu_sweep", accepts_wide, NULL, adamw_fast },
                                { "adamw_cpu_bf16", accepts_bf16, NULL, adamw_bf16 },
                                { "adamw_cpu_codes", adamw_accepts_codes, NULL, adamw_codes },
                                { "adamw_cpu_blocks", accepts_narrow, NULL, adamw_narrow },
                                { "adamw_reference", NULL, NULL, adamw_reference },
                                { 0 } };
