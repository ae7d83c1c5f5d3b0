#include "autodiff/optimizer.h"

#include <stdio.h>

#include "base/memory.h"
#include "ops/adamw/adamw.h"
#include "ops/clip_factor/clip_factor.h"
#include "ops/finite/finite.h"
#include "ops/increment/increment.h"
#include "ops/sgd/sgd.h"
#include "ops/sum_squares/sum_squares.h"

typedef struct {
    graph *g;
    const optimizer_options *o;
    const tensor_id *gradient;
    uint32_t tensors;
    tensor_id rate, step, factor, ok;
} optimizer;

static bool updated(const optimizer *u, tensor_id t) {
    const tensor *x = graph_tensor(u->g, t);
    return !x->producer && x->role == ROLE_PARAMETER && u->gradient[t];
}

static tensor_id state(optimizer *u, const char *prefix, tensor_id parameter) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", prefix, graph_name(u->g, parameter));
    const tensor *p = graph_tensor(u->g, parameter);
    return graph_add_source(
        u->g,
        &(graph_source){ .name = name, .shape = p->shape, .dtype = (dtype)p->dtype, .role = ROLE_STATE });
}

/* One sum of squares per gradient: each can be taken as soon as its gradient exists. */
static void append_clipping(optimizer *u) {
    tensor_id *sums = memory_new(u->tensors, sizeof *sums);
    uint32_t count = 0;
    if (!sums) {
        graph_fail(u->g, "no memory to build a graph");
        return;
    }
    for (tensor_id t = 1; t < u->tensors; t++)
        if (updated(u, t)) sums[count++] = sum_squares_apply(u->g, u->gradient[t]);
    if (count) u->factor = clip_factor_apply(u->g, sums, count, (float)u->o->clip);
    if (u->factor) graph_keep(u->g, u->factor + 1, "gradient_norm"); /* for people */
    memory_free(sums);
}

static void append_update(optimizer *u, tensor_id w) {
    const optimizer_options *o = u->o;
    float decay = graph_tensor(u->g, w)->flags & TENSOR_DECAY ? (float)o->weight_decay : 0;
    if (o->kind == OPTIMIZER_ADAMW) {
        adamw_attributes a = {
            .beta1 = (float)o->beta1, .beta2 = (float)o->beta2, .eps = (float)o->eps, .weight_decay = decay
        };
        adamw_apply(u->g,
                    (adamw_inputs){ .w = w,
                                    .g = u->gradient[w],
                                    .m = state(u, "adamw.m", w),
                                    .v = state(u, "adamw.v", w),
                                    .lr = u->rate,
                                    .t = u->step,
                                    .scale = u->factor,
                                    .ok = u->ok },
                    &a);
    } else {
        sgd_attributes a = { .momentum = (float)o->momentum, .weight_decay = decay };
        sgd_apply(u->g,
                  (sgd_inputs){ .w = w,
                                .g = u->gradient[w],
                                .lr = u->rate,
                                .scale = u->factor,
                                .ok = u->ok,
                                .buffer = o->momentum > 0 ? state(u, "sgd.buffer", w) : 0 },
                  &a);
    }
}

static tensor_id count_steps(optimizer *u) {
    graph_source before = {
        .name = "optimizer.step", .shape = SHAPE(1), .dtype = DTYPE_I32, .role = ROLE_STATE
    };
    return increment_apply(u->g, graph_add_source(u->g, &before), u->ok);
}

status optimizer_append(graph *g, const optimizer_options *o, tensor_id loss, const tensor_id *gradient,
                        uint32_t tensors) {
    optimizer u = { .g = g, .o = o, .gradient = gradient, .tensors = tensors };
    g->phase = PHASE_UPDATE;
    g->site = SITE_NONE;
    u.rate = graph_add_source(
        g, &(graph_source){
               .name = "learning_rate", .shape = SHAPE(1), .dtype = DTYPE_F32, .role = ROLE_INPUT });
    if (o->clip > 0) append_clipping(&u);
    if (u.factor || loss) u.ok = finite_apply(g, u.factor ? u.factor + 1 : loss);
    if (o->kind == OPTIMIZER_ADAMW) u.step = count_steps(&u);
    for (tensor_id t = 1; t < tensors; t++)
        if (updated(&u, t)) append_update(&u, t);
    return graph_status(g);
}
