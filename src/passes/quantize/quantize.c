/* Post-training quantization: products with a weight of their own read it as codes of 8 bits, with a scale
 * for each of its outputs, and quantize what they multiply it with, token by token ("int8") or by one scale
 * that was found beforehand and is stored beside the weight ("int8:static"). Or as codes of 4 bits ("int4"),
 * with a scale for each CODES4_GROUP numbers along the sum; what they are given is quantized to 8 bits in the
 * same groups. Products that sum over no whole groups stay as they are. With ":all" behind it embeddings read
 * rows of codes, and projections tied to one multiply by the same codes. For models that are trained: files
 * of such weights name the setting, and evaluating and generating use it.
 *
 * "calibrate" leaves products as they are and notes the largest value that each of them is given, from which
 * those scales follow.
 * Papers: Jacob et al., arXiv:1712.05877; Dettmers et al., "LLM.int8()", arXiv:2208.07339, for scales by
 * token and by output; Dettmers, Zettlemoyer, arXiv:2212.09720, for 4 bits with scales by group. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/embedding/embedding.h"
#include "ops/embedding_coded/embedding_coded.h"
#include "ops/largest/largest.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_fp8/matmul_fp8.h"
#include "ops/matmul_int4/matmul_int4.h"
#include "ops/matmul_int8/matmul_int8.h"
#include "passes/linear.h"
#include "passes/storing.h"

enum { SETTING_MODE, SETTING_ALL, MODE_DYNAMIC = 0, MODE_STATIC, MODE_CALIBRATE, MODE_NARROW };

static status parse(const char *text, pass_setting *out) {
    static const struct {
        const char *word;
        int64_t mode, all; /* all: tables of embeddings too */
    } words[] = { { "int8", MODE_DYNAMIC, 0 },       { "int8:static", MODE_STATIC, 0 },
                  { "int8:all", MODE_DYNAMIC, 1 },   { "int8:static:all", MODE_STATIC, 1 },
                  { "int4", MODE_NARROW, 0 },        { "int4:all", MODE_NARROW, 1 },
                  { "calibrate", MODE_CALIBRATE, 1 } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i].word) != 0) continue;
        *out = (pass_setting){ .value = { words[i].mode, words[i].all },
                               .class = words[i].mode == MODE_CALIBRATE ? PASS_EXACT : PASS_LOSSY };
        strcpy(out->text, text);
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID,
                      "--quantize: '%s' is none of off, int8, int8:static, int8:all, int8:static:all, int4 "
                      "and int4:all",
                      text);
}

/* The files say it; the search has nothing to choose. */
static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)g, (void)c, (void)out, (void)room, (void)without;
    return 0;
}

/* Along which the products of this weight sum; whatever else reads it agrees. */
static int64_t depth_of(const graph *g, tensor_id weight) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        const matmul_attributes *t = n->op == &op_matmul ? node_attributes(g, n) : NULL;
        if (t && node_in(g, n, MATMUL_B) == weight && !t->tb) return shape_rows(graph_shape(g, weight));
    }
    return shape_last(graph_shape(g, weight));
}

static bool is_of_groups(const graph *g, tensor_id weight) {
    return weight && graph_shape(g, weight)->rank == 2 && codes4_can(depth_of(g, weight));
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    linear_products l;
    if (c->training)
        return status_set(STATUS_INVALID, "--quantize saves nothing in training; see 'snug quantize'");
    TRY(linear_open(g, &l));
    bool any = linear_any(&l), fits = s->value[SETTING_MODE] != MODE_NARROW;
    for (node_id id = 1; any && !fits && id < g->nodes.count; id++)
        fits = is_of_groups(g, linear_weight(&l, id));
    linear_close(&l);
    if (any && fits) return STATUS_OK;
    if (any)
        return status_set(STATUS_INVALID,
                          "--quantize %s: no product of the model sums over a multiple of %d numbers; int8 "
                          "takes any",
                          s->text, CODES4_GROUP);
    return status_set(STATUS_INVALID, "--quantize %s: the model has no product with weights of its own",
                      s->text);
}

/* What other techniques have made of the products, which codes can't take the place of. */
static status check_others(const linear_products *l, const pass_setting *s) {
    for (node_id id = 1; id < l->g->nodes.count; id++) {
        const node *n = graph_node(l->g, id);
        tensor_id weight = linear_weight(l, id);
        if (n->op == &op_matmul_int8 || n->op == &op_matmul_fp8)
            return status_set(
                STATUS_INVALID,
                "--quantize %s: --precision has products on codes of its own here; leave it out, "
                "or say --precision bf16 for values of 16 bits",
                s->text);
        if (weight && node_in(l->g, n, MATMUL_B) != weight)
            return status_set(STATUS_INVALID,
                              "--quantize %s: products read codes, and no copies of weights in 16 bits; say "
                              "--precision bf16 for values of 16 bits, or leave it out",
                              s->text);
    }
    return STATUS_OK;
}

/* ---- rewriting ---- */

/* A source that stands beside a weight: "h.0.attn.c_attn.weight" has "h.0.attn.c_attn.weight_scale" and
 * "h.0.attn.c_attn.input_scale". */
static tensor_id beside(graph *out, const char *weight, const char *ending, const graph_source *as) {
    static const char last[] = ".weight";
    char name[PASS_PARAMETER_BYTES];
    size_t length = strlen(weight), end = sizeof last - 1;
    if (length > end && strcmp(weight + length - end, last) == 0) length -= end;
    snprintf(name, sizeof name, "%.*s.%s", (int)length, weight, ending);
    tensor_id known = graph_find(out, name);
    if (known) return known;
    graph_source source = *as;
    source.name = name;
    return graph_add_source(out, &source);
}

static tensor_id floats_beside(graph *out, const char *weight, const char *ending, int64_t count, role is) {
    return beside(out, weight, ending,
                  &(graph_source){ .shape = SHAPE(count), .dtype = DTYPE_F32, .role = is });
}

static tensor_id mapped(const rewrite *r, const node *n, uint32_t i) {
    tensor_id t = node_in(r->in, n, i);
    return t ? r->map[t] : 0;
}

/* The source becomes one of panels. */
static void hold_panels(rewrite *r, tensor_id weight, bool by_rows) {
    if (r->out->failed) return;
    const shape *s = graph_shape(r->in, weight);
    tensor *codes = graph_tensor(r->out, r->map[weight]);
    codes->dtype = DTYPE_U8;
    codes->shape = codes->global =
        by_rows ? codes4_shape(shape_rows(s), shape_last(s)) : codes4_shape(shape_last(s), shape_rows(s));
    codes->flags |= TENSOR_PANELS | (by_rows ? TENSOR_ROWS : 0);
}

static tensor_id scales_of_panels(rewrite *r, tensor_id weight) {
    int64_t numbers = shape_elements(graph_shape(r->in, weight));
    return beside(r->out, graph_name(r->in, weight), "weight_scale",
                  &(graph_source){
                      .shape = SHAPE(numbers / CODES4_GROUP), .dtype = DTYPE_F16, .role = ROLE_PARAMETER });
}

static void rewrite_narrow(rewrite *r, node_id id, tensor_id weight) {
    const node *n = graph_node(r->in, id);
    const matmul_attributes *t = node_attributes(r->in, n);
    hold_panels(r, weight, t->tb != 0);
    r->out->phase = (phase)n->phase, r->out->site = n->site;
    rewrite_made(r, id,
                 matmul_int4_apply(r->out, &(matmul_int4_inputs){ .a = mapped(r, n, MATMUL_A),
                                                                  .codes = r->map[weight],
                                                                  .scales = scales_of_panels(r, weight),
                                                                  .bias = mapped(r, n, MATMUL_BIAS),
                                                                  .residual = mapped(r, n, MATMUL_RESIDUAL),
                                                                  .type = (dtype)t->type }));
}

static void rewrite_product(rewrite *r, node_id id, tensor_id weight, bool is_static) {
    const graph *in = r->in;
    const node *n = graph_node(in, id);
    const matmul_attributes *t = node_attributes(in, n);
    const char *name = graph_name(in, weight);
    const shape *s = graph_shape(in, weight);
    int64_t outputs = t->tb ? shape_rows(s) : shape_last(s);
    rewrite_source_type(r, weight, DTYPE_I8);
    if (t->tb) graph_tensor(r->out, r->map[weight])->flags |= TENSOR_ROWS;
    r->out->phase = (phase)n->phase, r->out->site = n->site;
    tensor_id y = matmul_int8_apply(
        r->out, &(matmul_int8_inputs){
                    .a = mapped(r, n, MATMUL_A),
                    .b = r->map[weight],
                    .scales = floats_beside(r->out, name, "weight_scale", outputs, ROLE_PARAMETER),
                    .bias = mapped(r, n, MATMUL_BIAS),
                    .residual = mapped(r, n, MATMUL_RESIDUAL),
                    .fixed = is_static ? floats_beside(r->out, name, "input_scale", 1, ROLE_PARAMETER) : 0,
                    .tb = t->tb != 0,
                    .type = (dtype)t->type });
    rewrite_made(r, id, y);
}

static void observe_product(rewrite *r, node_id id, tensor_id weight) {
    const node *n = graph_node(r->in, id);
    tensor_id found = floats_beside(r->out, graph_name(r->in, weight), "input_scale", 1, ROLE_STATE);
    rewrite_node(r, id);
    largest_apply(r->out, mapped(r, n, MATMUL_A), found);
}

/* Embeddings and the projections tied to them have one table. */
static void rewrite_embedding(rewrite *r, node_id id, tensor_id table, bool narrow) {
    const graph *in = r->in;
    const node *n = graph_node(in, id);
    r->out->phase = (phase)n->phase, r->out->site = n->site;
    tensor_id scales = narrow ? scales_of_panels(r, table)
                              : floats_beside(r->out, graph_name(in, table), "weight_scale",
                                              graph_shape(in, table)->dim[0], ROLE_PARAMETER);
    rewrite_made(r, id,
                 embedding_coded_apply(r->out, mapped(r, n, 0), r->map[table], scales,
                                       (dtype)graph_tensor(in, node_out(in, n, 0))->dtype));
}

static void rewrite_one(rewrite *r, const linear_products *l, node_id id, const pass_setting *s) {
    int64_t mode = s->value[SETTING_MODE];
    tensor_id table = s->value[SETTING_ALL] ? linear_table(l, id) : 0;
    tensor_id weight = table ? table : linear_weight(l, id);
    bool embeds = table && graph_node(l->g, id)->op == &op_embedding, narrow = mode == MODE_NARROW;
    if (narrow && !is_of_groups(l->g, weight)) weight = 0;
    if (!weight || (embeds && mode == MODE_CALIBRATE))
        rewrite_node(r, id);
    else if (embeds)
        rewrite_embedding(r, id, table, narrow);
    else if (narrow)
        rewrite_narrow(r, id, weight);
    else if (mode == MODE_CALIBRATE)
        observe_product(r, id, weight);
    else
        rewrite_product(r, id, weight, mode == MODE_STATIC);
}

/* Before anything reads them. */
static void retype_tables(rewrite *r, const linear_products *l, bool narrow) {
    for (tensor_id t = 1; t < l->g->tensors.count; t++)
        if (l->table[t] && narrow) {
            if (is_of_groups(l->g, t)) hold_panels(r, t, true);
        } else if (l->table[t]) {
            rewrite_source_type(r, t, DTYPE_I8);
            graph_tensor(r->out, r->map[t])->flags |= TENSOR_ROWS;
        }
}

static status rewrite_all(const linear_products *l, const pass_setting *s, graph *out) {
    rewrite r;
    TRY(rewrite_open(&r, l->g, out));
    if (s->value[SETTING_ALL] && s->value[SETTING_MODE] != MODE_CALIBRATE)
        retype_tables(&r, l, s->value[SETTING_MODE] == MODE_NARROW);
    for (node_id id = 1; id < l->g->nodes.count && !out->failed; id++) rewrite_one(&r, l, id, s);
    return rewrite_close(&r);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    linear_products l;
    (void)c;
    TRY(linear_open(in, &l));
    status result = s->value[SETTING_MODE] == MODE_CALIBRATE ? STATUS_OK : check_others(&l, s);
    if (result == STATUS_OK) result = rewrite_all(&l, s, out);
    linear_close(&l);
    return result;
}

static const char *const keys[] = { "snug-int8", "snug-int4", NULL };
static const char *key_of(const pass_setting *s) { return keys[s->value[SETTING_MODE] == MODE_NARROW]; }
static const pass_storing storing = { .keys = keys, .key_of = key_of };

const pass pass_quantize = { .name = "quantize",
                             .help = "a trained model's weights as codes of 8 or 4 bits: snug quantize",
                             .values = "off, int8, int8:static, int8:all, int8:static:all, int4, int4:all",
                             .paper = "arXiv:1712.05877",
                             .class = PASS_LOSSY,
                             .stage = PASS_FORWARD,
                             .asked_for = true,
                             .storing = &storing,
                             .parse = parse,
                             .settings = settings,
                             .check = check,
                             .run = run };
