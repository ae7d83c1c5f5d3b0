#include "ops/fast.h"
#include "ops/reference.h"
#include "ops/sgd/sgd.h"
#include "ops/sgd/sgd_math.h"
#include "ops/state.h"

static bool is_skipped(const op_call *c) {
    const op_arg *ok = op_in(c, 5);
    return ok->data && *(const int32_t *)ok->data == 0;
}

static void sgd_reference(const op_call *c) {
    const sgd_attributes *a = c->attributes;
    const op_arg *buffer = op_in(c, 2), *factor = op_in(c, 4);
    double lr = reference_get(op_in(c, 3), 0), scale = factor->data ? reference_get(factor, 0) : 1;
    double d[STATE_BLOCK] = { 0 };
    if (is_skipped(c)) {
        state_keep(c, &op_sgd);
        return;
    }
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i += STATE_BLOCK) {
        int64_t here = n - i < STATE_BLOCK ? n - i : STATE_BLOCK;
        if (buffer->data) state_load_reference(c, &sgd_states[0], i, here, d);
        for (int64_t k = 0; k < here; k++) {
            double w = reference_get(op_in(c, 0), i + k), g = reference_get(op_in(c, 1), i + k);
            double before = buffer->data ? (double)a->momentum * d[k] : 0;
            d[k] = before + (scale * g + (double)a->weight_decay * w);
            state_set_weight(c, &op_sgd, i + k, w - lr * d[k]);
        }
        if (buffer->data) state_store_reference(c, &op_sgd, &sgd_states[0], i, here, d);
    }
}

VECTOR_CLONES static void update_plain(const sgd_step *s, const float *w, const float *g, int64_t n,
                                       float *w_out) {
    sgd_step f = *s;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) w_out[i] = sgd_update_plain(&f, w[i], g[i]);
}

/* Elements first .. first + n - 1, whose buffers are buffer[0] .. buffer[n - 1]. */
VECTOR_CLONES static void update(const sgd_step *s, const op_call *c, int64_t first, int64_t n,
                                 const float *buffer, float *buffer_out) {
    const float *w = (const float *)c->in[0].data + first, *g = (const float *)c->in[1].data + first;
    float *w_out = (float *)c->out[0].data + first;
    sgd_step f = *s;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        sgd_element x = sgd_update(&f, (sgd_element){ w[i], buffer[i] }, g[i]);
        w_out[i] = x.w, buffer_out[i] = x.buffer;
    }
}

static void sgd_piece(const op_call *c, int64_t first, int64_t last) {
    sgd_step f = sgd_step_of(c->attributes, *(const float *)c->in[3].data, fast_number(op_in(c, 4), 1));
    if (op_in(c, 2)->data)
        update(&f, c, first, last - first, (const float *)c->in[2].data + first,
               (float *)c->out[1].data + first);
    else
        update_plain(&f, (const float *)c->in[0].data + first, (const float *)c->in[1].data + first,
                     last - first, (float *)c->out[0].data + first);
}

static void sgd_fast(const op_call *c) {
    if (is_skipped(c))
        state_keep(c, &op_sgd);
    else
        fast_for_elements(c, sgd_piece);
}

static bool accepts_wide(const op_call *c) { return state_is_wide(c, sgd_states, 1); }

/* With anything of fewer bits: a block at a time is f32. */
static void sgd_narrow(const op_call *c) {
    if (is_skipped(c))
        state_keep(c, &op_sgd);
    else
        state_run_blocks(c, &op_sgd, sgd_piece);
}

static bool accepts_narrow(const op_call *c) { return state_is_narrow(c, sgd_states, 1); }

const op_kernel sgd_cpu[] = { { "sgd_cpu_sweep", accepts_wide, NULL, sgd_fast },
                              { "sgd_cpu_blocks", accepts_narrow, NULL, sgd_narrow },
                              { "sgd_reference", NULL, NULL, sgd_reference },
                              { 0 } };
