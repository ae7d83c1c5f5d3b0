#include <math.h>
#include <string.h>

#include "ops/adamw/adamw.h"
#include "ops/fast.h"
#include "ops/reference.h"

static bool is_skipped(const op_call *c) {
    const op_arg *ok = op_in(c, 7);
    return ok->data && *(const int32_t *)ok->data == 0;
}

static void copy_state(const op_call *c) {
    static const uint32_t from[] = { 0, 2, 3 };
    for (uint32_t o = 0; o < 3; o++)
        if (c->out[o].data != c->in[from[o]].data)
            memcpy(c->out[o].data, c->in[from[o]].data,
                   (size_t)shape_elements(&c->out[o].shape) * dtype_bytes(c->out[o].dtype));
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
    if (is_skipped(c)) {
        copy_state(c);
        return;
    }
    factors f = factors_of(c);
    for (int64_t i = 0, n = shape_elements(&c->out[0].shape); i < n; i++) {
        double g = f.scale * reference_get(op_in(c, 1), i);
        double m = reference_get(op_in(c, 2), i), v = reference_get(op_in(c, 3), i);
        m = m + (1 - f.beta1) * (g - m);
        v = f.beta2 * v + (1 - f.beta2) * g * g;
        double w = f.decay * reference_get(op_in(c, 0), i) - f.step * m / (sqrt(v) / f.correction + f.eps);
        reference_set(&c->out[0], i, w);
        reference_set(&c->out[1], i, m);
        reference_set(&c->out[2], i, v);
    }
}

typedef struct {
    float decay, step, grow, eps, scale, beta2, fresh1, fresh2;
} sweep;

VECTOR_INLINE void update_range(const sweep *s, const op_call *c, int64_t first, int64_t n) {
    const float *w = (const float *)c->in[0].data + first, *g = (const float *)c->in[1].data + first;
    const float *m = (const float *)c->in[2].data + first, *v = (const float *)c->in[3].data + first;
    float *w_out = (float *)c->out[0].data + first, *m_out = (float *)c->out[1].data + first;
    float *v_out = (float *)c->out[2].data + first;
    const sweep f = *s;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        float d = f.scale * g[i];
        float mean = m[i] + f.fresh1 * (d - m[i]);
        float square = f.beta2 * v[i] + f.fresh2 * (d * d);
        w_out[i] = f.decay * w[i] - f.step * (mean / (sqrtf(square) * f.grow + f.eps));
        m_out[i] = mean;
        v_out[i] = square;
    }
}

enum { AHEAD = 512 }; /* floats: so many arrays at once are more than the processor sees coming */

VECTOR_CLONES static void adamw_piece(const op_call *c, int64_t first, int64_t last) {
    factors f = factors_of(c);
    sweep s = { .decay = (float)f.decay,
                .step = (float)f.step,
                .grow = (float)(1 / f.correction),
                .eps = (float)f.eps,
                .scale = (float)f.scale,
                .beta2 = (float)f.beta2,
                .fresh1 = (float)(1 - f.beta1),
                .fresh2 = (float)(1 - f.beta2) };
    int64_t i = first;
    for (; i + VECTOR_LANES <= last; i += VECTOR_LANES) {
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < VECTOR_LANES; j += VECTOR_LINE)
                vector_fetch((const float *)c->in[k].data + i + j + AHEAD);
        update_range(&s, c, i, VECTOR_LANES);
    }
    update_range(&s, c, i, last - i);
}

static void adamw_fast(const op_call *c) {
    if (is_skipped(c))
        copy_state(c);
    else
        fast_for_elements(c, adamw_piece);
}

const op_kernel adamw_cpu[] = { { "adamw_cpu_sweep", fast_accepts, NULL, adamw_fast },
                                { "adamw_reference", NULL, NULL, adamw_reference },
                                { 0 } };
