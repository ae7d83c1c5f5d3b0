/* Low-rank adapters: the model's weights stay as they are, and beside each chosen product y = x W + b two
 * small matrices are trained, y = x W + b + (alpha / rank) (x A') B', A of (rank, in), B of (out, rank). Only
 * they have gradients and optimizer state, and of the values of forward only what their gradients read is
 * kept.
 *
 * Weights that are to be trained themselves (TENSOR_WHOLE) are, and have no adapters. Routers and the weights
 * of experts have none either, and stay as they are.
 *
 * B begins as zero, so training begins at the model, to the bit: zeros are added to finished sums. The
 * addition is the residual of B's product, so nothing else has to sweep over y. Runs in every program,
 * validation and generation as well; dropout before A in training only.
 *
 * What stays as it is can be held in fewer bits: in 16 of them, or as codes that products widen while they
 * pack their panels ("base=nf4", "base=int8"). That is about every product's weight, adapted or not; tables
 * and norms stay. Paper for that: Dettmers et al., "QLoRA: efficient finetuning of quantized LLMs",
 * arXiv:2305.14314. Paper: Hu et al., "LoRA: low-rank
 * adaptation of large language models", arXiv:2106.09685; names and layout of the matrices are those of the
 * PEFT library. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/adapter_matmul/adapter_matmul.h"
#include "ops/codes.h"
#include "ops/conv2d/conv2d.h"
#include "ops/dropout/dropout.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/scale/scale.h"
#include "passes/adapting.h"
#include "passes/linear.h"
#include "passes/storing.h"

enum { MOST_RANK = 4096, FIRST_STREAM = 1 << 24 }; /* of dropouts: models count theirs from 0 */

static const char WEIGHT[] = ".weight", A[] = ".lora_A.weight", B[] = ".lora_B.weight", EVERY[] = "all";

/* ---- settings ---- */

static const struct {
    const char *name;
    dtype type;
} bases[] = { { "f32", DTYPE_F32 },
              { "bf16", DTYPE_BF16 },
              { "f16", DTYPE_F16 },
              { "int8", DTYPE_I8 },
              { "nf4", DTYPE_U8 } };

static dtype base_of(const char *name) {
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        if (strcmp(bases[i].name, name) == 0) return bases[i].type;
    return DTYPE_NONE;
}

static status refuse(const char *text, const char *why) {
    return status_set(
        STATUS_INVALID,
        "--lora: '%.60s' %s; say rank=8, rank=8,alpha=16,target=c_attn+c_proj, rank=8,base=nf4 or off", text,
        why);
}

static bool is_name(const char *s) {
    for (; *s; s++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+", *s)) return false;
    return true;
}

/* One "key=value". */
static const char *read_part(const char *part, pass_adapter *a) {
    const char *value = strchr(part, '=');
    char *end = NULL;
    if (!value || !*++value) return "is no key=value";
    size_t key = (size_t)(value - part);
    double number = strtod(value, &end);
    bool is_number = strspn(value, "0123456789.") == strlen(value) && !*end;
    if (key == 7 && strncmp(part, "target=", key) == 0) {
        if (!is_name(value) || strlen(value) >= sizeof a->targets) return "has a target that can't be a name";
        strcpy(a->targets, value);
        return NULL;
    }
    if (key == 5 && strncmp(part, "base=", key) == 0) {
        if (!base_of(value)) return "has a base that is none of f32, bf16, f16, int8 and nf4";
        snprintf(a->base, sizeof a->base, "%.7s", value);
        return NULL;
    }
    if (!is_number) return "has a value that is no number";
    if (key == 5 && strncmp(part, "rank=", key) == 0) {
        a->rank = number >= 1 && number <= MOST_RANK && floor(number) == number ? (int64_t)number : -1;
        return a->rank < 0 ? "has a rank that is no whole number from 1 to 4096" : NULL;
    }
    if (key == 6 && strncmp(part, "alpha=", key) == 0) {
        a->alpha = number;
        return number > 0 && number <= 1e6 ? NULL : "has an alpha that is not above 0 and at most 1e6";
    }
    if (key != 8 || strncmp(part, "dropout=", key) != 0)
        return "has a key other than rank, alpha, target, dropout, base";
    a->dropout = number;
    return number < 1 ? NULL : "has a dropout that is not below 1";
}

static status read_text(const char *text, pass_adapter *a) {
    char part[PASS_SETTING_BYTES];
    *a = (pass_adapter){ .targets = "all", .base = "f32" };
    if (strlen(text) >= sizeof part) return refuse(text, "is too long");
    for (const char *at = text; *at; at += strspn(at, ",")) {
        size_t length = strcspn(at, ",");
        snprintf(part, sizeof part, "%.*s", (int)length, at);
        const char *wrong = read_part(part, a);
        if (wrong) return refuse(text, wrong);
        at += length;
    }
    if (!a->rank) return refuse(text, "has no rank");
    if (a->alpha == 0) a->alpha = 2 * (double)a->rank;
    return STATUS_OK;
}

/* The text says only what is not usual: alpha is twice the rank, every product is a target, nothing is
 * dropped, the base is f32. */
static status make_setting(const pass_adapter *a, pass_setting *out) {
    char text[2 * PASS_SETTING_BYTES];
    int n = snprintf(text, sizeof text, "rank=%lld", (long long)a->rank);
    if (a->alpha != 2 * (double)a->rank)
        n += snprintf(text + n, sizeof text - (size_t)n, ",alpha=%.9g", a->alpha);
    if (strcmp(a->targets, EVERY) != 0)
        n += snprintf(text + n, sizeof text - (size_t)n, ",target=%s", a->targets);
    if (a->dropout > 0) n += snprintf(text + n, sizeof text - (size_t)n, ",dropout=%.9g", a->dropout);
    if (a->base[0] && base_of(a->base) != DTYPE_F32)
        n += snprintf(text + n, sizeof text - (size_t)n, ",base=%s", a->base);
    if (n >= PASS_SETTING_BYTES) return refuse(text, "is too long");
    pass_adapter again;
    TRY(read_text(text, &again));
    *out = (pass_setting){ .class = PASS_LOSSY };
    memcpy(out->text, text, (size_t)n + 1);
    return STATUS_OK;
}

static status parse(const char *text, pass_setting *out) {
    pass_adapter a;
    TRY(read_text(text, &a));
    return make_setting(&a, out);
}

static status describe(const pass_setting *s, pass_adapter *out) { return read_text(s->text, out); }

/* None: no number of bytes chooses what is trained. */
static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)g, (void)c, (void)out, (void)room, (void)without;
    return 0;
}

/* ---- products ---- */

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* Is the product with this weight one of the targets? A target names the last parts of a weight's name, as in
 * PEFT: "c_proj" is attn.c_proj and mlp.c_proj. Every product, as there, leaves out what lies outside of the
 * blocks, which is the head. */
static bool is_target(const char *weight, bool outside, const char *targets) {
    size_t length = strlen(weight) - strlen(WEIGHT);
    if (!ends_with(weight, WEIGHT) || ends_with(weight, A) || ends_with(weight, B)) return false;
    if (strcmp(targets, EVERY) == 0) return !outside;
    for (const char *at = targets; *at; at += strspn(at, "+")) {
        size_t n = strcspn(at, "+");
        if (n <= length && strncmp(weight + length - n, at, n) == 0 &&
            (n == length || weight[length - n - 1] == '.'))
            return true;
        at += n;
    }
    return false;
}

/* The products of a graph that have weights of their own. */
typedef struct {
    linear_products linear;
    bool blocks; /* the graph has blocks */
} products;

static status open_products(const graph *g, products *p) {
    TRY(linear_open(g, &p->linear));
    p->blocks = false;
    for (node_id id = 1; id < g->nodes.count; id++) p->blocks |= graph_node(g, id)->site != SITE_NONE;
    return STATUS_OK;
}

static void close_products(products *p) { linear_close(&p->linear); }

/* The name of the product's weight; NULL where it is no such product, or its weight is trained itself. */
static const char *weight_of(const products *p, node_id id) {
    const graph *g = p->linear.g;
    tensor_id w = linear_weight(&p->linear, id);
    if (w && graph_tensor(g, w)->flags & TENSOR_WHOLE) return NULL;
    return w && !node_in(g, graph_node(g, id), MATMUL_ACCUMULATOR) ? graph_name(g, w) : NULL;
}

static bool lies_outside(const products *p, node_id id) {
    return p->blocks && graph_node(p->linear.g, id)->site == SITE_NONE;
}

/* Names of products, once each, for a sentence. */
static void list_products(const products *p, char text[200]) {
    text[0] = 0;
    for (node_id id = 1; id < p->linear.g->nodes.count; id++) {
        const char *name = weight_of(p, id);
        char last[64];
        if (!name || !ends_with(name, WEIGHT)) continue;
        const char *end = name + strlen(name) - strlen(WEIGHT), *begin = end;
        while (begin > name && begin[-1] != '.') begin--;
        snprintf(last, sizeof last, "%.*s", (int)(end - begin), begin);
        size_t used = strlen(text);
        if (!strstr(text, last)) snprintf(text + used, 200 - used, "%s%s", used ? ", " : "", last);
    }
}

static bool any_product(const products *p, const char *target) {
    for (node_id id = 1; id < p->linear.g->nodes.count; id++) {
        const char *name = weight_of(p, id);
        if (name && is_target(name, lies_outside(p, id), target)) return true;
    }
    return false;
}

/* Does the target name a convolution, or, where it names every product, are there blocks of them? */
static bool any_convolution(const graph *g, const char *target) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (n->op == &op_conv2d && is_target(graph_name(g, node_in(g, n, 1)), n->site == SITE_NONE, target))
            return true;
    }
    return false;
}

static status check_targets(const products *p, const char *targets) {
    char there[200], one[PASS_SETTING_BYTES];
    for (const char *at = targets; *at; at += strspn(at, "+")) {
        size_t n = strcspn(at, "+");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        at += n;
        if (any_product(p, one)) continue;
        list_products(p, there);
        if (any_convolution(p->linear.g, one))
            return status_set(STATUS_INVALID,
                              "--lora: '%s' means convolutions here, and adapters stand beside products of "
                              "matrices; the model has %s",
                              one, there[0] ? there : "none of these");
        return status_set(STATUS_INVALID, "--lora: the model has no product '%s'; it has %s", one,
                          there[0] ? there : "none that could be a target");
    }
    return STATUS_OK;
}

/* Rows outside of the blocks are not those of the step. */
static status check_inside(const products *p, const pass_adapter *a) {
    for (node_id id = 1; id < p->linear.g->nodes.count; id++) {
        const char *name = weight_of(p, id);
        if (name && lies_outside(p, id) && is_target(name, true, a->targets))
            return status_set(
                STATUS_INVALID,
                "an adapter beside %s, which lies outside of the blocks, can't be served beside others",
                name);
    }
    return check_targets(p, a->targets);
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    pass_adapter a;
    products p;
    TRY(read_text(s->text, &a));
    TRY(open_products(g, &p));
    status result = c->adapters ? STATUS_OK : check_targets(&p, a.targets);
    for (uint32_t k = 0; c->adapters && k < c->adapters->count && result == STATUS_OK; k++)
        result = check_inside(&p, &c->adapters->of[k]);
    close_products(&p);
    return result;
}

/* ---- the graph ---- */

typedef struct {
    rewrite r;
    pass_adapter a;
    dtype base; /* what weights of products are held in */
    bool training;
    int32_t count;                /* of adapters so far */
    const pass_adapters *several; /* NULL: that of the setting */
} adapting;

static bool beside(const char *weight, char a[PASS_PARAMETER_BYTES], char b[PASS_PARAMETER_BYTES]) {
    if (!ends_with(weight, WEIGHT)) return false;
    int length = (int)(strlen(weight) - strlen(WEIGHT));
    return snprintf(a, PASS_PARAMETER_BYTES, "%.*s%s", length, weight, A) < PASS_PARAMETER_BYTES &&
           snprintf(b, PASS_PARAMETER_BYTES, "%.*s%s", length, weight, B) < PASS_PARAMETER_BYTES;
}

static tensor_id trained(graph *g, const char *name, shape s) {
    return graph_add_source(g, &(graph_source){ .name = name,
                                                .shape = s,
                                                .dtype = DTYPE_F32,
                                                .role = ROLE_PARAMETER,
                                                .flags = TENSOR_TRAINABLE | TENSOR_DECAY });
}

static tensor_id drop(adapting *d, tensor_id x) {
    graph *g = d->r.out;
    int32_t stream = FIRST_STREAM + d->count;
    if (!d->training || d->a.dropout <= 0) return x;
    tensor_id key = graph_find(g, "key");
    if (!key)
        key = graph_add_source(
            g, &(graph_source){ .name = "key", .shape = SHAPE(4), .dtype = DTYPE_I32, .role = ROLE_INPUT });
    return dropout_apply(g, x, key, (float)d->a.dropout, stream);
}

static void adapt(adapting *d, node_id id, const char *weight) {
    graph *g = d->r.out;
    const node *n = graph_node(d->r.in, id);
    char a[PASS_PARAMETER_BYTES], b[PASS_PARAMETER_BYTES];
    tensor_id x = d->r.map[node_in(d->r.in, n, MATMUL_A)], y = d->r.map[node_out(d->r.in, n, 0)];
    if (!beside(weight, a, b)) {
        graph_fail(g, "--lora: the name %.60s is too long", weight);
        return;
    }
    if (g->failed) return;
    int64_t in = shape_last(graph_shape(g, x)), out = shape_last(graph_shape(g, y));
    tensor_id down = trained(g, a, SHAPE(d->a.rank, in)), up = trained(g, b, SHAPE(out, d->a.rank));
    tensor_id h = matmul_apply(g, &(matmul_inputs){ .a = drop(d, x), .b = down, .tb = true });
    h = scale_apply(g, h, 0, (float)(d->a.alpha / (double)d->a.rank));
    d->r.map[node_out(d->r.in, n, 0)] =
        matmul_apply(g, &(matmul_inputs){ .a = h, .b = up, .residual = y, .tb = true });
    d->count++;
}

/* The number of each row's adapter. */
static tensor_id numbers(graph *g, int64_t rows) {
    tensor_id known = graph_find(g, "adapter");
    if (known) return known;
    return graph_add_source(
        g,
        &(graph_source){ .name = "adapter", .shape = SHAPE(rows), .dtype = DTYPE_I32, .role = ROLE_INPUT });
}

/* Those of several that stand beside this product. */
static void adapt_rows(adapting *d, node_id id, const char *weight) {
    graph *g = d->r.out;
    const node *n = graph_node(d->r.in, id);
    char a[PASS_PARAMETER_BYTES], b[PASS_PARAMETER_BYTES], name[PASS_PARAMETER_BYTES + 24];
    adapter_matmul_inputs in = { .x = d->r.map[node_in(d->r.in, n, MATMUL_A)],
                                 .y = d->r.map[node_out(d->r.in, n, 0)],
                                 .count = d->several->count };
    adapter_matmul_attributes scales = { 0 };
    bool any = false;
    if (g->failed || !beside(weight, a, b)) return;
    const shape x = *graph_shape(g, in.x), y = *graph_shape(g, in.y);
    for (uint32_t k = 0; k < in.count; k++) {
        const pass_adapter *of = &d->several->of[k];
        if (!is_target(weight, false, of->targets)) continue;
        snprintf(name, sizeof name, PASS_ADAPTER_NAME "%s", k, a);
        in.of[k].a = trained(g, name, SHAPE(of->rank, shape_last(&x)));
        snprintf(name, sizeof name, PASS_ADAPTER_NAME "%s", k, b);
        in.of[k].b = trained(g, name, SHAPE(shape_last(&y), of->rank));
        scales.scale[k] = (float)(of->alpha / (double)of->rank);
        any = true;
    }
    if (!any) return;
    in.adapter = numbers(g, shape_rows(&x));
    d->r.map[node_out(d->r.in, n, 0)] = adapter_matmul_apply(g, &in, &scales);
}

/* ---- the base ---- */

/* Is this product's weight one that is held in another form? */
static tensor_id held_weight(const adapting *d, const linear_products *l, node_id id) {
    tensor_id w = d->base == DTYPE_F32 ? 0 : linear_weight(l, id);
    if (w && graph_tensor(d->r.in, w)->flags & TENSOR_WHOLE) return 0;
    if (!w || graph_tensor(d->r.in, w)->dtype != DTYPE_F32) return 0;
    if (dtype_is_half(d->base)) return w;
    bool direct = node_in(d->r.in, graph_node(d->r.in, id), MATMUL_B) == w;
    return direct && matmul_coded_can(d->base, graph_shape(d->r.in, w)) ? w : 0;
}

/* The weight's source becomes one of codes, with another for their scales beside it; returns the latter.
 * Codes of 8 bits have a scale for each output, as in files of such weights. */
static tensor_id hold_as_codes(adapting *d, tensor_id weight, bool by_rows) {
    graph *out = d->r.out;
    shape s = *graph_shape(d->r.in, weight);
    char name[CODES_NAME_BYTES];
    codes_scales_name(graph_name(d->r.in, weight), name);
    tensor_id known = graph_find(out, name);
    if (known || out->failed) return known;
    tensor *codes = graph_tensor(out, d->r.map[weight]);
    codes->dtype = (uint8_t)d->base;
    codes->shape = codes->global = matmul_coded_codes(d->base, &s);
    if (by_rows) codes->flags |= TENSOR_ROWS;
    return graph_add_source(out, &(graph_source){ .name = name,
                                                  .shape = SHAPE(matmul_coded_scales(d->base, &s, by_rows)),
                                                  .dtype = DTYPE_F32,
                                                  .role = ROLE_PARAMETER });
}

static void rewrite_held(adapting *d, node_id id, tensor_id weight, bool by_rows) {
    const node *n = graph_node(d->r.in, id);
    const matmul_attributes *t = node_attributes(d->r.in, n);
    tensor_id bias = node_in(d->r.in, n, MATMUL_BIAS), residual = node_in(d->r.in, n, MATMUL_RESIDUAL);
    if (dtype_is_half(d->base)) {
        rewrite_source_type(&d->r, weight, d->base);
        rewrite_node(&d->r, id);
        return;
    }
    by_rows &= d->base == DTYPE_I8;
    tensor_id scales = hold_as_codes(d, weight, by_rows);
    d->r.out->phase = (phase)n->phase, d->r.out->site = n->site;
    rewrite_made(
        &d->r, id,
        matmul_coded_apply(d->r.out, &(matmul_coded_inputs){ .x = d->r.map[node_in(d->r.in, n, MATMUL_A)],
                                                             .codes = d->r.map[weight],
                                                             .scales = scales,
                                                             .bias = bias ? d->r.map[bias] : 0,
                                                             .residual = residual ? d->r.map[residual] : 0,
                                                             .tb = t->tb != 0,
                                                             .rows = by_rows,
                                                             .type = (dtype)t->type }));
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    adapting d = { .training = c->training, .several = c->adapters };
    products p;
    TRY(read_text(s->text, &d.a));
    d.base = base_of(d.a.base);
    TRY(open_products(in, &p));
    status result = rewrite_open(&d.r, in, out);
    for (tensor_id t = 1; result == STATUS_OK && t < out->tensors.count; t++) /* the sources */
        if (!(graph_tensor(out, t)->flags & TENSOR_WHOLE))
            graph_tensor(out, t)->flags &= (uint8_t)~TENSOR_TRAINABLE;
    for (node_id id = 1; result == STATUS_OK && id < in->nodes.count && !out->failed; id++) {
        const char *weight = weight_of(&p, id);
        tensor_id held = held_weight(&d, &p.linear, id);
        if (held)
            rewrite_held(&d, id, held, linear_by_rows(&p.linear, id));
        else
            rewrite_node(&d.r, id);
        if (weight && d.several)
            adapt_rows(&d, id, lies_outside(&p, id) ? "" : weight);
        else if (weight && is_target(weight, lies_outside(&p, id), d.a.targets))
            adapt(&d, id, weight);
    }
    close_products(&p);
    return result == STATUS_OK ? rewrite_close(&d.r) : result;
}

/* ---- its parameters ---- */

/* A has the spread that PEFT gives it, uniform there and normal here, as in the paper. */
static bool begins(const char *parameter, const shape *s, float *deviation) {
    bool a = ends_with(parameter, A);
    if (!a && !ends_with(parameter, B)) return false;
    *deviation = a ? (float)(1 / sqrt(3.0 * (double)shape_last(s))) : 0;
    return true;
}

static void merge(const pass_adapter *d, const shape *s, bool by_rows, const float *a, const float *b,
                  float *w) {
    int64_t in = by_rows ? shape_last(s) : shape_rows(s), out = by_rows ? shape_rows(s) : shape_last(s);
    double scale = d->alpha / (double)d->rank;
    for (int64_t i = 0; i < in; i++)
        for (int64_t o = 0; o < out; o++) {
            float *at = w + (by_rows ? o * in + i : i * out + o);
            double sum = 0;
            for (int64_t k = 0; k < d->rank; k++) sum += (double)a[k * in + i] * (double)b[o * d->rank + k];
            *at = (float)((double)*at + scale * sum);
        }
}

/* A base of codes is what files of quantized models have. */
static bool begins_at(const pass_setting *s, const char *stores, const char *setting) {
    pass_adapter a;
    return read_text(s->text, &a) == STATUS_OK && base_of(a.base) == DTYPE_I8 &&
           strcmp(stores, "snug-int8") == 0 && strcmp(setting, "int8") == 0;
}

static const pass_adapting adapts = {
    .describe = describe, .setting = make_setting, .begins = begins, .beside = beside, .merge = merge
};

static const pass_storing storing = { .begins_at = begins_at, .goes_on = "rank=8,base=int8" };

const pass pass_lora = { .name = "lora",
                         .help = "low-rank adapters are trained beside weights that stay as they are",
                         .values = "off, rank=8, rank=8,base=bf16, rank=8,base=int8, rank=8,base=nf4",
                         .paper = "arXiv:2106.09685",
                         .class = PASS_LOSSY,
                         .stage = PASS_FORWARD,
                         .asked_for = true,
                         .parse = parse,
                         .settings = settings,
                         .check = check,
                         .run = run,
                         .storing = &storing,
                         .adapting = &adapts };
