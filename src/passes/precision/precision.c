/* Lower precision: values of 16 bits, while sums, norms, softmax and the loss stay f32; or products on codes
 * of 8 bits.
 *
 * "mixed-bf16" and "mixed-f16" leave the weights in f32. Products and attention get narrow copies of what
 * they read, and so do the values between them; the residual stream, which they are added to, stays f32. What
 * flows back has the type of what it flows back to, and gradients of weights are f32. f16 has too few bits of
 * exponent for gradients, so these are scaled (ops/gradient_scale). "bf16" stores the weights themselves in
 * 16 bits, vectors (biases, norms: some thousandth of all) excepted, with their gradients and moments;
 * updates are rounded stochastically, or to the nearest in "bf16:nearest", which loses those far below the
 * last place. Sums over micro-batches are f32.
 *
 * "int8" stores the weights of products as codes of 8 bits, and multiplies codes; all else is f32. It is in
 * precision_codes.h. "int8-mixed" is "bf16" whose products quantize their weights as well, as they read them:
 * it computes as fast and stores as much as bf16. "fp8-mixed" is "bf16" whose products multiply floats of 8
 * bits, which are what waits for their gradients; it is in precision_fp8.h.
 *
 * For models that are read and not trained "weights-bf16" and "weights-f16" store matrices in 16 bits and
 * compute in f32; they are in precision_weights.h. "products-bf16" stores as much, and what products read is
 * rounded as in "mixed-bf16".
 *
 * A product that one addition reads is left in f32 for it, so that folding the addition into the product
 * changes no bit.
 * Papers: Micikevicius et al., "Mixed precision training", arXiv:1710.03740; Zamirai et al., "Revisiting
 * bfloat16 training", arXiv:2010.06192; Xi et al., "Jetfire: efficient and accurate transformer pretraining
 * with INT8 data flow and per-block quantization", arXiv:2403.12422; DeepSeek-AI, "DeepSeek-V3 technical
 * report", arXiv:2412.19437. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/adapter_matmul/adapter_matmul.h"
#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/gradient_scale/gradient_scale.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "passes/precision/precision_codes.h"
#include "passes/precision/precision_fp8.h"
#include "passes/precision/precision_weights.h"
#include "passes/storing.h"

enum { SETTING_TYPE, SETTING_STORED, SETTING_CODES, SETTING_INTERVAL };
enum {
    STORED_F32,
    STORED,
    STORED_NEAREST,  /* updates are rounded to the nearest */
    STORED_ALONE,    /* matrices, and nothing else is of 16 bits */
    STORED_MATRICES, /* and what products read; the stream between them is f32 */
};

enum { CODES_INT8 = 1, CODES_FP8 }; /* 0: products are of floats */

static const struct {
    const char *text;
    int64_t value[PASS_NUMBERS]; /* as pass_setting has them */
} forms[] = { { "mixed-bf16", { DTYPE_BF16 } },
              { "mixed-f16", { DTYPE_F16, STORED_F32, 0, GRADIENT_SCALE_INTERVAL } },
              { "bf16", { DTYPE_BF16, STORED } },
              { "int8", { DTYPE_I8, STORED, CODES_INT8 } },
              { "int8-mixed", { DTYPE_BF16, STORED, CODES_INT8 } },
              { "fp8-mixed", { DTYPE_BF16, STORED, CODES_FP8 } },
              { "bf16:nearest", { DTYPE_BF16, STORED_NEAREST } },
              { "weights-bf16", { DTYPE_BF16, STORED_ALONE } },
              { "weights-f16", { DTYPE_F16, STORED_ALONE } },
              { "products-bf16", { DTYPE_BF16, STORED_MATRICES } } };
enum { FORMS = sizeof forms / sizeof *forms, OFFERED = 6 /* nobody should want rounding to the nearest */ };

static status parse(const char *text, pass_setting *out) {
    static const char scaled[] = "mixed-f16:";
    *out = (pass_setting){ .text = "off" };
    if (strcmp(text, "f32") == 0) return STATUS_OK;
    out->class = PASS_LOSSY;
    snprintf(out->text, sizeof out->text, "%s", text);
    for (int i = 0; i < FORMS; i++)
        if (strcmp(text, forms[i].text) == 0) {
            memcpy(out->value, forms[i].value, sizeof out->value);
            return STATUS_OK;
        }
    if (strcmp(text, "mixed-f16:off") == 0 || strcmp(text, "mixed-f16:0") == 0)
        return status_set(
            STATUS_INVALID,
            "--precision %s: without a scale small gradients vanish in f16, whose exponent is too "
            "short for them; say mixed-f16, or say mixed-bf16, which needs none",
            text);
    if (strncmp(text, scaled, sizeof scaled - 1) == 0 && strlen(text) < sizeof out->text) {
        memcpy(out->value, forms[1].value, sizeof out->value);
        return units_parse_integer(text + sizeof scaled - 1, "--precision mixed-f16", 1, 1 << 24,
                                   &out->value[SETTING_INTERVAL]);
    }
    return status_set(STATUS_INVALID,
                      "--precision: '%s' is none of f32, mixed-bf16, mixed-f16, bf16, bf16:nearest, int8, "
                      "int8-mixed, fp8-mixed, weights-bf16, weights-f16 and products-bf16",
                      text);
}

/* Can the optimizer update what would be stored, and are there weights of products? */
static status is_possible(const graph *g, const pass_setting *s, const pass_context *c) {
    dtype type = (dtype)s->value[SETTING_TYPE];
    if (s->value[SETTING_STORED] >= STORED_ALONE && c->training)
        return status_set(STATUS_INVALID,
                          "--precision %s is for weights that stay what they are: say bf16 to train in 16 "
                          "bits, or --eval-only",
                          s->text);
    if (s->value[SETTING_CODES] == CODES_FP8 && !precision_fp8_apply(g))
        return status_set(STATUS_INVALID,
                          "--precision %s: the model has no product with weights of its own besides its "
                          "head, which stays bf16; say --precision bf16",
                          s->text);
    if (s->value[SETTING_CODES] == CODES_INT8 && !precision_codes_apply(g))
        return status_set(STATUS_INVALID, "--precision %s: the model has no product with weights of its own",
                          s->text);
    if (!c->training || c->narrow_weights || !s->value[SETTING_STORED] || type == DTYPE_I8) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "--precision %s: this optimizer updates weights of f32 only; say --precision mixed-bf16, "
        "or --optimizer adamw",
        s->text);
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)without;
    uint32_t count = 0;
    bool any = false;
    for (node_id id = 1; id < g->nodes.count; id++) any |= (graph_node(g, id)->op->traits & OP_PRODUCT) != 0;
    if (!c->training || !any) return 0;
    for (int i = 0; i < OFFERED && count < room; i++) {
        pass_setting s;
        if (parse(forms[i].text, &s) == STATUS_OK && is_possible(g, &s, c) == STATUS_OK) out[count++] = s;
    }
    return count;
}

/* ---- rewriting ---- */

typedef struct {
    rewrite r;
    dtype type;             /* of 16 bits */
    bool stored;            /* weights too */
    bool fp8;               /* codes are floats */
    linear_products linear; /* whose products are on codes; none: open without a graph */
    tensor_id key;          /* of their gradients */
    tensor_id *narrow;      /* by tensor of `in`: its copy of 16 bits; 0: none yet */
    tensor_id *wide;        /* the same in f32 */
    tensor_id *coded;       /* the same in floats of 8 bits */
    uint32_t *readers;      /* by tensor of `in` */
    node_id *reader;        /* the last of them */
    node_id loss;           /* the last loss, which those before it are added to */
} narrower;

static dtype type_of(const narrower *k, tensor_id old) {
    return old ? (dtype)graph_tensor(k->r.out, k->r.map[old])->dtype : DTYPE_NONE;
}

static tensor_id narrow(narrower *k, tensor_id old) {
    if (!old || type_of(k, old) != DTYPE_F32) return old ? k->r.map[old] : 0;
    if (k->narrow[old]) return k->narrow[old];
    tensor_id copy = cast_apply(k->r.out, k->r.map[old], k->type);
    const tensor *x = graph_tensor(k->r.in, old);
    if (copy && !x->producer) graph_tensor(k->r.out, copy)->gradient = DTYPE_F32; /* where they are summed */
    return k->narrow[old] = copy;
}

static tensor_id wide(narrower *k, tensor_id old) {
    if (!old || !dtype_is_half(type_of(k, old))) return old ? k->r.map[old] : 0;
    if (!k->wide[old]) k->wide[old] = cast_apply(k->r.out, k->r.map[old], DTYPE_F32);
    return k->wide[old];
}

static bool read_by_products(const narrower *k, tensor_id old) {
    bool only = k->readers[old] > 0;
    for (node_id id = 1; id < k->r.in->nodes.count; id++) {
        const node *n = graph_node(k->r.in, id);
        for (uint32_t i = 0; i < n->in_count; i++)
            if (node_in(k->r.in, n, i) == old)
                only &= (n->op->traits & OP_PRODUCT) != 0 || (n->op == &op_adapter_matmul && i == 1);
    }
    return only;
}

/* Is t, or what alone is made of it, read by the host? */
static bool is_kept(const narrower *k, tensor_id t) {
    const graph *in = k->r.in;
    if (graph_tensor(in, t)->flags & TENSOR_KEEP) return true;
    return k->readers[t] == 1 &&
           graph_tensor(in, node_out(in, graph_node(in, k->reader[t]), 0))->flags & TENSOR_KEEP;
}

/* What alone reads *y, behind adapters, whose result *y is then; NULL: several do, or none. */
static const node *reader_of(const narrower *k, tensor_id *y) {
    while (k->readers[*y] == 1) {
        const node *n = graph_node(k->r.in, k->reader[*y]);
        if (n->op != &op_adapter_matmul || node_in(k->r.in, n, 0) != *y) return n;
        *y = node_out(k->r.in, n, 0);
    }
    return NULL;
}

/* The type that a product's result waits in for the addition that alone reads it, or for the host; NONE: it
 * is none such. */
static dtype type_for_addition(const narrower *k, const node *n) {
    const graph *in = k->r.in;
    tensor_id y = node_out(in, n, 0), residual = node_in(in, n, MATMUL_RESIDUAL);
    if (residual) return type_of(k, residual);
    if (is_kept(k, y)) return DTYPE_F32;
    const node *reader = reader_of(k, &y);
    if (!reader || reader->op != &op_add) return DTYPE_NONE;
    tensor_id other = node_in(in, reader, 0) == y ? node_in(in, reader, 1) : node_in(in, reader, 0);
    return graph_tensor(in, other)->producer < graph_tensor(in, y)->producer ? DTYPE_F32 : DTYPE_NONE;
}

static void rewrite_product(narrower *k, node_id id) {
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    matmul_attributes t = *(const matmul_attributes *)node_attributes(in, n);
    tensor_id y = node_out(in, n, 0), bias = node_in(in, n, MATMUL_BIAS), r = node_in(in, n, MATMUL_RESIDUAL);
    tensor_id inputs[] = { narrow(k, node_in(in, n, MATMUL_A)), narrow(k, node_in(in, n, MATMUL_B)),
                           bias ? k->r.map[bias] : 0, r ? k->r.map[r] : 0 };
    t.type = (int32_t)type_for_addition(k, n);
    tensor_id weight = k->linear.g && !k->fp8 ? linear_weight(&k->linear, id) : 0;
    if (k->fp8 && precision_fp8_takes(&k->linear, id))
        k->r.map[y] = precision_fp8_product(&k->r,
                                            &(matmul_inputs){ .a = inputs[0],
                                                              .b = inputs[1],
                                                              .bias = inputs[2],
                                                              .residual = inputs[3],
                                                              .tb = t.tb != 0,
                                                              .type = t.type ? (dtype)t.type : k->type },
                                            &k->coded[node_in(in, n, MATMUL_A)]);
    else if (weight && precision_codes_fit(in, weight))
        k->r.map[y] = precision_codes_product(&k->r, id,
                                              &(matmul_int8_inputs){ .a = inputs[0],
                                                                     .b = inputs[1],
                                                                     .bias = inputs[2],
                                                                     .residual = inputs[3],
                                                                     .key = k->key,
                                                                     .tb = t.tb != 0,
                                                                     .type = (dtype)t.type });
    else
        k->r.map[y] = graph_add(k->r.out, &op_matmul, inputs, r ? 4 : bias ? 3 : 2, &t);
    if (k->r.map[y]) rewrite_made(&k->r, id, k->r.map[y]);
    if (r || t.type != DTYPE_F32 || !k->r.map[y] || k->readers[y] != 1) return;
    const node *reader = graph_node(in, k->reader[y]);
    if (reader->op != &op_add) return;
    tensor_id other = node_in(in, reader, 0) == y ? node_in(in, reader, 1) : node_in(in, reader, 0);
    graph_tensor(k->r.out, k->r.map[y])->gradient = (uint8_t)type_of(k, other);
}

/* Rows without an adapter stay what the product made of them. */
static void rewrite_adapters(narrower *k, node_id id) {
    enum { MOST = 3 + 2 * ADAPTERS_MOST };
    const node *n = graph_node(k->r.in, id);
    tensor_id inputs[MOST];
    for (uint32_t i = 0; i < n->in_count; i++)
        inputs[i] = node_in(k->r.in, n, i) ? k->r.map[node_in(k->r.in, n, i)] : 0;
    inputs[1] = narrow(k, node_in(k->r.in, n, 1));
    rewrite_node_inputs(&k->r, id, inputs, n->in_count);
}

/* Codes and their scales stay what they are. */
static void rewrite_coded(narrower *k, node_id id) {
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    tensor_id inputs[MATMUL_CODED_INPUTS];
    for (uint32_t i = 0; i < n->in_count; i++)
        inputs[i] = node_in(in, n, i) ? k->r.map[node_in(in, n, i)] : 0;
    inputs[MATMUL_CODED_X] = narrow(k, node_in(in, n, MATMUL_CODED_X));
    rewrite_node_inputs(&k->r, id, inputs, n->in_count);
}

/* The sum has the type of the stream: f32, or 16 bits where that is stored. */
static void rewrite_addition(narrower *k, node_id id) {
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    tensor_id a = node_in(in, n, 0), b = node_in(in, n, 1);
    bool swap = k->stored ? !dtype_is_half(type_of(k, a)) : dtype_is_half(type_of(k, a));
    k->r.map[node_out(in, n, 0)] =
        swap ? add_apply(k->r.out, k->r.map[b], k->r.map[a]) : add_apply(k->r.out, k->r.map[a], k->r.map[b]);
}

/* A norm writes what products read. */
static void rewrite_norm(narrower *k, node_id id) {
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    tensor_id y = node_out(in, n, 0), inputs[3] = { 0 };
    layernorm_attributes layer = { 0 };
    rmsnorm_attributes rms = { 0 };
    bool is_layer = n->op == &op_layernorm;
    int32_t type = read_by_products(k, y) ? (int32_t)k->type : 0;
    for (uint32_t i = 0; i < n->in_count; i++)
        inputs[i] = node_in(in, n, i) ? k->r.map[node_in(in, n, i)] : 0;
    memcpy(is_layer ? (void *)&layer : (void *)&rms, node_attributes(in, n),
           is_layer ? sizeof layer : sizeof rms);
    layer.type = rms.type = type;
    tensor_id first =
        graph_add(k->r.out, n->op, inputs, n->in_count, is_layer ? (void *)&layer : (void *)&rms);
    for (uint32_t o = 0; o < n->out_count; o++) k->r.map[node_out(in, n, o)] = first ? first + o : 0;
}

/* Attention reads 16 bits, and so do convolutions and products of experts of what they multiply; ops that
 * take them as they come do, where all that should be alike is; others get f32. */
static void rewrite_other(narrower *k, node_id id) {
    enum { MOST = 64 };
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    tensor_id inputs[MOST];
    bool product = (n->op->traits & OP_PRODUCT) != 0, takes = (n->op->traits & OP_HALF) != 0, alike = true;
    if (n->in_count > MOST) {
        graph_fail(k->r.out, "--precision: %s has too many inputs", n->op->name);
        return;
    }
    bool of_one_type = n->op->variadic || (n->op->traits & OP_ELEMENTWISE) != 0;
    for (uint32_t i = 0; i < n->in_count && of_one_type; i++) {
        tensor_id t = node_in(in, n, i), first = node_in(in, n, 0);
        if (t && shape_elements(graph_shape(in, t)) > 1 && type_of(k, t) != DTYPE_I32)
            alike &= type_of(k, t) == type_of(k, first);
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(in, n, i);
        bool is_float = t && dtype_is_float(type_of(k, t));
        bool reads = product && is_float && (!n->op->pairs || i < 2);
        inputs[i] = !t ? 0 : reads ? narrow(k, t) : takes && alike ? k->r.map[t] : wide(k, t);
    }
    rewrite_node_inputs(&k->r, id, inputs, n->in_count);
}

/* The loss as the optimizer's gradients are to know it. */
static void scale_gradients(narrower *k, node_id id, int64_t interval) {
    graph *out = k->r.out;
    tensor_id loss = node_out(k->r.in, graph_node(k->r.in, id), 0);
    tensor_id state = graph_add_source(
        out, &(graph_source){
                 .name = "gradient_scale", .shape = SHAPE(1), .dtype = DTYPE_F32, .role = ROLE_STATE });
    tensor_id now = gradient_scale_now_apply(out, state);
    k->r.map[loss] = gradient_scale_apply(out, k->r.map[loss], now, (int32_t)interval);
}

static void rewrite_one(narrower *k, node_id id, const pass_setting *s, bool training) {
    const node *n = graph_node(k->r.in, id);
    k->r.out->phase = (phase)n->phase, k->r.out->site = n->site;
    if (n->op == &op_matmul)
        rewrite_product(k, id);
    else if (n->op == &op_matmul_coded)
        rewrite_coded(k, id);
    else if (n->op == &op_cast)
        rewrite_node(&k->r, id);
    else if (n->op == &op_adapter_matmul)
        rewrite_adapters(k, id);
    else if (n->op == &op_add)
        rewrite_addition(k, id);
    else if (n->op == &op_layernorm || n->op == &op_rmsnorm)
        rewrite_norm(k, id);
    else
        rewrite_other(k, id);
    if (training && s->value[SETTING_INTERVAL] && id == k->loss)
        scale_gradients(k, id, s->value[SETTING_INTERVAL]);
}

/* Are some weights frozen, beside others that are trained? */
static bool has_frozen(const graph *g) {
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->producer && x->role == ROLE_PARAMETER && !(x->flags & TENSOR_TRAINABLE)) return true;
    }
    return false;
}

/* Weights of more than one dimension are stored in 16 bits; with one micro-batch their gradients are too.
 * Beside frozen ones those that are trained are few and stay f32. */
static void narrow_weights(narrower *k, const pass_setting *s, const pass_context *c) {
    bool frozen = has_frozen(k->r.in);
    for (tensor_id t = 1; t < k->r.in->tensors.count; t++) {
        const tensor *x = graph_tensor(k->r.in, t);
        if (x->producer || x->role != ROLE_PARAMETER || x->dtype != DTYPE_F32 || x->shape.rank < 2) continue;
        if (frozen && x->flags & TENSOR_TRAINABLE) continue;
        rewrite_source_type(&k->r, t, k->type);
        tensor *y = graph_tensor(k->r.out, k->r.map[t]);
        y->gradient = c->micro_batch < c->batch ? DTYPE_F32 : 0;
        if (s->value[SETTING_STORED] == STORED) y->flags |= TENSOR_STOCHASTIC;
    }
}

static bool narrower_open(narrower *k, const graph *in, const pass_setting *s) {
    if (s->value[SETTING_CODES] && linear_open(in, &k->linear) != STATUS_OK) return false;
    k->type = (dtype)s->value[SETTING_TYPE], k->fp8 = s->value[SETTING_CODES] == CODES_FP8;
    k->stored = s->value[SETTING_STORED] != STORED_F32 && s->value[SETTING_STORED] < STORED_ALONE;
    k->narrow = memory_new(in->tensors.count, sizeof *k->narrow);
    k->wide = memory_new(in->tensors.count, sizeof *k->wide);
    k->coded = memory_new(in->tensors.count, sizeof *k->coded);
    k->readers = memory_new(in->tensors.count, sizeof *k->readers);
    k->reader = memory_new(in->tensors.count, sizeof *k->reader);
    if (!k->narrow || !k->wide || !k->coded || !k->readers || !k->reader) return false;
    for (node_id id = 1; id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        if (n->op->traits & OP_LOSS) k->loss = id;
        for (uint32_t i = 0; i < n->in_count; i++)
            k->readers[node_in(in, n, i)]++, k->reader[node_in(in, n, i)] = id;
    }
    return true;
}

static status narrow_all(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    narrower k = { 0 };
    TRY(rewrite_open(&k.r, in, out));
    if (!narrower_open(&k, in, s)) graph_no_memory(out);
    if (!out->failed && k.stored) narrow_weights(&k, s, c);
    if (!out->failed && k.linear.g && !k.fp8 && c->training) k.key = precision_codes_key(out);
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) rewrite_one(&k, id, s, c->training);
    linear_close(&k.linear);
    memory_free(k.narrow);
    memory_free(k.wide);
    memory_free(k.coded);
    memory_free(k.readers);
    memory_free(k.reader);
    return rewrite_close(&k.r);
}

/* Matrices first, which products then take as they are. */
static status narrow_products(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    graph stored;
    TRY(graph_open(&stored));
    status result = precision_weights_run(in, (dtype)s->value[SETTING_TYPE], &stored);
    if (result == STATUS_OK) result = narrow_all(&stored, s, c, out);
    graph_close(&stored);
    return result;
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    if (s->value[SETTING_TYPE] == DTYPE_I8) return precision_codes_run(in, c, out);
    if (s->value[SETTING_STORED] == STORED_ALONE)
        return precision_weights_run(in, (dtype)s->value[SETTING_TYPE], out);
    if (s->value[SETTING_STORED] == STORED_MATRICES) return narrow_products(in, s, c, out);
    return narrow_all(in, s, c, out);
}

/* Weights of the type that files of quantized models have. */
static bool begins_at(const pass_setting *s, const char *stores, const char *setting) {
    return s->value[SETTING_TYPE] == DTYPE_I8 && strcmp(stores, "snug-int8") == 0 &&
           strcmp(setting, "int8") == 0;
}

static const char *remark(const pass_setting *s, const graph *planned) {
    (void)planned;
    bool mixed = s->value[SETTING_CODES] == CODES_INT8 && s->value[SETTING_TYPE] != DTYPE_I8;
    if (s->value[SETTING_CODES] == CODES_FP8)
        return "fp8-mixed stores what bf16 stores: what waits for products' gradients takes less, and "
               "nothing "
               "else";
    return mixed ? "int8-mixed stores what bf16 stores: beside that it saves time, and no memory" : NULL;
}

/* Nothing of 16 bits is widened in memory. */
static const char *for_reading(dtype filed, dtype products) {
    if (products == DTYPE_BF16 || (!products && filed == DTYPE_BF16)) return "products-bf16";
    if (products == DTYPE_F16 || filed == DTYPE_F16) return "weights-f16";
    return filed == DTYPE_BF16 ? "weights-bf16" : NULL;
}

static const pass_storing storing = { .begins_at = begins_at, .goes_on = "int8", .for_reading = for_reading };

const pass pass_precision = { .name = "precision",
                              .help = "values, or weights as well, in 16 bits; or products on 8 bits",
                              .values = "auto, f32, mixed-bf16, mixed-f16, bf16, bf16:nearest, int8, "
                                        "int8-mixed, fp8-mixed, weights-bf16, weights-f16, products-bf16",
                              .paper = "arXiv:1710.03740",
                              .class = PASS_LOSSY,
                              .stage = PASS_FORWARD,
                              .parse = parse,
                              .settings = settings,
                              .check = is_possible,
                              .storing = &storing,
                              .remark = remark,
                              .run = run };
