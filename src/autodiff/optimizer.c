#include "autodiff/optimizer.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "ops/adafactor/adafactor.h"
#include "ops/adamw/adamw.h"
#include "ops/clip_factor/clip_factor.h"
#include "ops/codes.h"
#include "ops/dequantize/dequantize.h"
#include "ops/finite/finite.h"
#include "ops/gradient_scale/gradient_scale.h"
#include "ops/increment/increment.h"
#include "ops/lion/lion.h"
#include "ops/quantize/quantize.h"
#include "ops/sgd/sgd.h"
#include "ops/sum_squares/sum_squares.h"

typedef struct {
    graph *g;
    const optimizer_options *o;
    const tensor_id *gradient;
    uint32_t tensors;
    tensor_id rate, step, factor, ok;
    node_id scaled; /* what multiplies the gradients; 0: nothing does */
    tensor_id key;  /* random bits, once something wants them */
    tensor_id near; /* where the last scales were found */
} optimizer;

static bool updated(const optimizer *u, tensor_id t) {
    const tensor *x = graph_tensor(u->g, t);
    return !x->producer && x->role == ROLE_PARAMETER && u->gradient[t];
}

/* A state of the shape s, kept for a parameter. */
static tensor_id state_of(optimizer *u, const char *prefix, tensor_id parameter, shape s) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", prefix, graph_name(u->g, parameter));
    dtype type = (dtype)graph_tensor(u->g, parameter)->dtype;
    return graph_add_source(u->g, &(graph_source){ .name = name,
                                                   .shape = s,
                                                   .dtype = type == DTYPE_I8 ? DTYPE_F32 : type,
                                                   .role = ROLE_STATE });
}

static tensor_id state(optimizer *u, const char *prefix, tensor_id parameter) {
    return state_of(u, prefix, parameter, *graph_shape(u->g, parameter));
}

/* One sum of squares per gradient: each can be taken as soon as its gradient exists. */
static void append_clipping(optimizer *u) {
    tensor_id *sums = memory_new(u->tensors + 1, sizeof *sums);
    clip_factor_attributes attributes = { (float)u->o->clip, u->scaled != 0 };
    uint32_t count = 0;
    if (!sums) {
        graph_no_memory(u->g);
        return;
    }
    if (u->scaled) sums[count++] = node_in(u->g, graph_node(u->g, u->scaled), 1);
    for (tensor_id t = 1; t < u->tensors; t++)
        if (updated(u, t)) sums[count++] = sum_squares_apply(u->g, u->gradient[t]);
    if (count) u->factor = clip_factor_apply(u->g, sums, count, &attributes);
    if (u->factor) graph_keep(u->g, u->factor + 1, "gradient_norm"); /* for people */
    memory_free(sums);
}

/* The random bits for updates of w that are rounded stochastically; 0: they are not. */
static tensor_id key_for(optimizer *u, tensor_id w) {
    graph_source key = { .name = "key", .shape = SHAPE(4), .dtype = DTYPE_I32, .role = ROLE_INPUT };
    if (!(graph_tensor(u->g, w)->flags & TENSOR_STOCHASTIC)) return 0;
    if (!u->key) u->key = graph_find(u->g, key.name);
    if (!u->key) u->key = graph_add_source(u->g, &key);
    return u->key;
}

/* A stream of its own for each parameter and the states beside it, far from those of a model's. */
static int32_t stream_of(const optimizer *u, tensor_id w) {
    return (int32_t)((hash_name(graph_name(u->g, w)) & 0x3ffffffcu) | 0x40000000u);
}

/* ---- weights that are codes ---- */

/* Scales follow each other as their weights do, so the search goes on from the last find. */
static tensor_id scales_of(optimizer *u, tensor_id w) {
    char name[CODES_NAME_BYTES];
    codes_scales_name(graph_name(u->g, w), name);
    for (tensor_id k = 0; k < u->tensors; k++) {
        tensor_id t = (u->near + k) % u->tensors;
        if (!t || !graph_tensor(u->g, t)->name || strcmp(graph_name(u->g, t), name) != 0) continue;
        u->near = t;
        return t;
    }
    return graph_fail(u->g, "the codes of '%s' have no scales", graph_name(u->g, w));
}

static bool has_columns(const optimizer *u, tensor_id w) {
    return !(graph_tensor(u->g, w)->flags & TENSOR_ROWS);
}

/* What is updated: the parameter, or what its codes stand for, which lives until they are new. */
static tensor_id as_float(optimizer *u, tensor_id w) {
    if (graph_tensor(u->g, w)->dtype != DTYPE_I8) return w;
    return dequantize_apply(u->g, w, scales_of(u, w), has_columns(u, w));
}

/* Each output's scale is that of its new largest weight. */
static void as_codes(optimizer *u, tensor_id w, tensor_id updated) {
    quantize_inputs in = {
        .x = updated, .key = key_for(u, w), .ok = u->ok, .codes = w, .scales = scales_of(u, w)
    };
    quantize_apply(u->g, &in,
                   &(quantize_attributes){ .columns = has_columns(u, w), .stream = stream_of(u, w) + 3 });
}

/* ---- one function an optimizer: the update of parameter w ---- */

static tensor_id append_adamw(optimizer *u, tensor_id w, float decay) {
    return adamw_apply(u->g,
                       (adamw_inputs){ .w = as_float(u, w),
                                       .g = u->gradient[w],
                                       .m = state(u, "adamw.m", w),
                                       .v = state(u, "adamw.v", w),
                                       .lr = u->rate,
                                       .t = u->step,
                                       .scale = u->factor,
                                       .ok = u->ok,
                                       .key = key_for(u, w) },
                       &(adamw_attributes){ (float)u->o->beta1, (float)u->o->beta2, (float)u->o->eps, decay,
                                            stream_of(u, w) });
}

static tensor_id append_sgd(optimizer *u, tensor_id w, float decay) {
    return sgd_apply(u->g,
                     (sgd_inputs){ .w = as_float(u, w),
                                   .g = u->gradient[w],
                                   .lr = u->rate,
                                   .scale = u->factor,
                                   .ok = u->ok,
                                   .buffer = u->o->momentum > 0 ? state(u, "sgd.buffer", w) : 0,
                                   .key = key_for(u, w) },
                     &(sgd_attributes){ (float)u->o->momentum, decay, stream_of(u, w) });
}

static tensor_id append_adafactor(optimizer *u, tensor_id w, float decay) {
    const shape *s = graph_shape(u->g, w);
    adafactor_inputs in = {
        .w = as_float(u, w), .g = u->gradient[w], .lr = u->rate, .t = u->step, .scale = u->factor, .ok = u->ok
    };
    if (s->rank > 1) {
        in.rows = state_of(u, "adafactor.rows", w, SHAPE(shape_rows(s)));
        in.columns = state_of(u, "adafactor.columns", w, SHAPE(shape_last(s)));
    } else {
        in.rows = state(u, "adafactor.v", w);
    }
    return adafactor_apply(u->g, in,
                           &(adafactor_attributes){ 0.8f, 1e-30f, 1, decay }); /* the paper's constants */
}

static tensor_id append_lion(optimizer *u, tensor_id w, float decay) {
    return lion_apply(u->g,
                      (lion_inputs){ .w = as_float(u, w),
                                     .g = u->gradient[w],
                                     .m = state(u, "lion.m", w),
                                     .lr = u->rate,
                                     .scale = u->factor,
                                     .ok = u->ok,
                                     .key = key_for(u, w) },
                      &(lion_attributes){ (float)u->o->beta1, (float)u->o->beta2, decay, stream_of(u, w) });
}

static const struct {
    const char *name, *title;
    tensor_id (*append)(optimizer *u, tensor_id w, float decay); /* returns the new one */
    double beta1, beta2;                                         /* the usual ones; 0: it has none */
    bool counts;                                                 /* needs the number of the update */
    bool eps, momentum;                                          /* has them */
    bool narrow;                                                 /* takes weights of 16 bits */
} table[OPTIMIZER_COUNT] = {
    [OPTIMIZER_ADAMW] = { "adamw", "AdamW", append_adamw, 0.9, 0.95, .counts = true, .eps = true,
                          .narrow = true },
    [OPTIMIZER_SGD] = { "sgd", "SGD", append_sgd, .momentum = true, .narrow = true },
    [OPTIMIZER_ADAFACTOR] = { "adafactor", "Adafactor", append_adafactor, .counts = true },
    [OPTIMIZER_LION] = { "lion", "Lion", append_lion, 0.9, 0.99, .narrow = true },
};

const char *optimizer_name(optimizer_kind kind) { return table[kind].name; }
bool optimizer_takes_narrow(optimizer_kind kind) { return table[kind].narrow; }
const char *optimizer_title(optimizer_kind kind) { return table[kind].title; }

static double settle_beta(double usual, double said) { return usual > 0 && said >= 0 ? said : usual; }

optimizer_options optimizer_settle(optimizer_options o) {
    o.beta1 = settle_beta(table[o.kind].beta1, o.beta1);
    o.beta2 = settle_beta(table[o.kind].beta2, o.beta2);
    if (!table[o.kind].eps) o.eps = 0;
    if (!table[o.kind].momentum) o.momentum = 0;
    return o;
}

/* ---- all of them ---- */

static tensor_id count_steps(optimizer *u) {
    graph_source before = {
        .name = "optimizer.step", .shape = SHAPE(1), .dtype = DTYPE_I32, .role = ROLE_STATE
    };
    return increment_apply(u->g, graph_add_source(u->g, &before), u->ok);
}

static node_id find_scale(const graph *g) {
    for (node_id id = 1; id < g->nodes.count; id++)
        if (graph_node(g, id)->op->traits & OP_SCALES_BACK) return id;
    return 0;
}

/* How the scale of the gradients goes on, by whether this step was good. */
static void append_scale(optimizer *u) {
    const node *n = graph_node(u->g, u->scaled);
    const gradient_scale_attributes *a = node_attributes(u->g, n);
    const node *now = graph_node(u->g, graph_tensor(u->g, node_in(u->g, n, 1))->producer);
    int32_t interval = a->interval;
    tensor_id state = node_in(u->g, now, 0);
    tensor_id good = graph_add_source(u->g, &(graph_source){ .name = "gradient_scale.good_steps",
                                                             .shape = SHAPE(1),
                                                             .dtype = DTYPE_I32,
                                                             .role = ROLE_STATE });
    gradient_scale_update_apply(u->g, state, good, u->ok, interval);
}

status optimizer_append(graph *g, const optimizer_options *o, tensor_id loss, const tensor_id *gradient,
                        uint32_t tensors) {
    optimizer u = { .g = g, .o = o, .gradient = gradient, .tensors = tensors };
    g->phase = PHASE_UPDATE;
    g->site = SITE_NONE;
    u.rate = graph_add_source(
        g, &(graph_source){
               .name = "learning_rate", .shape = SHAPE(1), .dtype = DTYPE_F32, .role = ROLE_INPUT });
    u.scaled = find_scale(g);
    if (o->clip > 0 || u.scaled) append_clipping(&u);
    if (u.factor || loss) u.ok = finite_apply(g, u.factor ? u.factor + 1 : loss);
    if (table[o->kind].counts) u.step = count_steps(&u);
    if (u.scaled) append_scale(&u);
    for (tensor_id t = 1; t < tensors; t++) {
        if (!updated(&u, t)) continue;
        float decay = graph_tensor(g, t)->flags & TENSOR_DECAY ? (float)o->weight_decay : 0;
        tensor_id now = table[o->kind].append(&u, t, decay);
        if (graph_tensor(g, t)->dtype == DTYPE_I8 && now) as_codes(&u, t, now);
    }
    return graph_status(g);
}
