#include "ops/fast.h"
#include "ops/lion/lion.h"
#include "ops/lion/lion_math.h"
#include "ops/reference.h"
#include "ops/state.h"

static bool is_skipped(const op_call *c) {
    const op_arg *ok = op_in(c, 5);
    return ok->data && *(const int32_t *)ok->data == 0;
}

static void lion_reference(const op_call *c) {
    const lion_attributes *a = c->attributes;
    const op_arg *factor = op_in(c, 4);
    double lr = reference_get(op_in(c, 3), 0), scale = factor->data ? reference_get(factor, 0) : 1;
    double m[STATE_BLOCK];
    if (is_skipped(c)) {
        state_keep(c, &op_lion);
        return;
    }
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i += STATE_BLOCK) {
        int64_t here = n - i < STATE_BLOCK ? n - i : STATE_BLOCK;
        state_load_reference(c, &lion_states[0], i, here, m);
        for (int64_t k = 0; k < here; k++) {
            double d = scale * reference_get(op_in(c, 1), i + k) - m[k];
            double mean = m[k] + (1 - (double)a->beta1) * d;
            double step = mean > 0 ? lr : mean < 0 ? -lr : 0 * mean; /* NaN goes through */
            double w = reference_get(op_in(c, 0), i + k);
            state_set_weight(c, &op_lion, i + k, (1 - lr * (double)a->weight_decay) * w - step);
            m[k] += (1 - (double)a->beta2) * d;
        }
        state_store_reference(c, &op_lion, &lion_states[0], i, here, m);
    }
}

/* Elements first .. first + n - 1, whose means are m[0] .. m[n - 1]. */
VECTOR_CLONES static void update(const lion_step *s, const op_call *c, int64_t first, int64_t n,
                                 const float *m, float *m_out) {
    const float *w = (const float *)c->in[0].data + first, *g = (const float *)c->in[1].data + first;
    float *w_out = (float *)c->out[0].data + first;
    lion_step f = *s;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        lion_element x = lion_update(&f, (lion_element){ w[i], m[i] }, g[i]);
        w_out[i] = x.w, m_out[i] = x.m;
    }
}

static void lion_piece(const op_call *c, int64_t first, int64_t last) {
    lion_step f = lion_step_of(c->attributes, *(const float *)c->in[3].data, fast_number(op_in(c, 4), 1));
    update(&f, c, first, last - first, (const float *)c->in[2].data + first, (float *)c->out[1].data + first);
}

static void lion_fast(const op_call *c) {
    if (is_skipped(c))
        state_keep(c, &op_lion);
    else
        fast_for_elements(c, lion_piece);
}

static bool accepts_wide(const op_call *c) { return state_is_wide(c, lion_states, 1); }

/* With anything of fewer bits: a block at a time is f32. */
static void lion_narrow(const op_call *c) {
    if (is_skipped(c))
        state_keep(c, &op_lion);
    else
        state_run_blocks(c, &op_lion, lion_piece);
}

static bool accepts_narrow(const op_call *c) { return state_is_narrow(c, lion_states, 1); }

const op_kernel lion_cpu[] = { { "lion_cpu_sweep", accepts_wide, NULL, lion_fast },
                               { "lion_cpu_blocks", accepts_narrow, NULL, lion_narrow },
                               { "lion_reference", NULL, NULL, lion_reference },
                               { 0 } };
