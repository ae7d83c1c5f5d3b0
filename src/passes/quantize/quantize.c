/* Post-training quantization: products with a weight of their own read it as codes of 8 bits, with a scale
 * for each of its outputs, and quantize what they multiply it with, token by token ("int8") or by one scale
 * that was found beforehand and is stored beside the weight ("int8:static"). With ":all" behind it embeddings
 * read rows of codes, and projections tied to one multiply by the same codes. For models that are trained:
 * files of such weights name the setting, and evaluating and generating use it.
 *
 * "calibrate" leaves products as they are and notes the largest value that each of them is given, from which
 * those scales follow.
 * Papers: Jacob et al., arXiv:1712.05877; Dettmers et al., "LLM.int8()", arXiv:2208.07339, for scales by
 * token and by output. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/embedding/embedding.h"
#include "ops/embedding_coded/embedding_coded.h"
#include "ops/largest/largest.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_int8/matmul_int8.h"
#include "passes/linear.h"
#include "passes/storing.h"

enum { SETTING_MODE, SETTING_ALL, MODE_DYNAMIC = 0, MODE_STATIC, MODE_CALIBRATE };

static status parse(const char *text, pass_setting *out) {
    static const struct {
        const char *word;
        int64_t mode, all; /* all: tables of embeddings too */
    } words[] = { { "int8", MODE_DYNAMIC, 0 },
                  { "int8:static", MODE_STATIC, 0 },
                  { "int8:all", MODE_DYNAMIC, 1 },
                  { "int8:static:all", MODE_STATIC, 1 },
                  { "calibrate", MODE_CALIBRATE, 1 } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i].word) != 0) continue;
        *out = (pass_setting){ .value = { words[i].mode, words[i].all },
                               .class = words[i].mode == MODE_CALIBRATE ? PASS_EXACT : PASS_LOSSY };
        strcpy(out->text, text);
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID,
                      "--quantize: '%s' is none of off, int8, int8:static, int8:all and int8:static:all",
                      text);
}

/* The files say it; the search has nothing to choose. */
static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)g, (void)c, (void)out, (void)room, (void)without;
    return 0;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    linear_products l;
    if (c->training)
        return status_set(STATUS_INVALID, "--quantize saves nothing in training; see 'snug quantize'");
    TRY(linear_open(g, &l));
    bool any = linear_any(&l);
    linear_close(&l);
    if (any) return STATUS_OK;
    return status_set(STATUS_INVALID, "--quantize %s: the model has no product with weights of its own",
                      s->text);
}

/* What other techniques have made of the products, which codes can't take the place of. */
static status check_others(const linear_products *l, const pass_setting *s) {
    for (node_id id = 1; id < l->g->nodes.count; id++) {
        const node *n = graph_node(l->g, id);
        tensor_id weight = linear_weight(l, id);
        if (n->op == &op_matmul_int8)
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
static tensor_id beside(graph *out, const char *weight, const char *ending, int64_t count, role is) {
    static const char last[] = ".weight";
    char name[PASS_PARAMETER_BYTES];
    size_t length = strlen(weight), end = sizeof last - 1;
    if (length > end && strcmp(weight + length - end, last) == 0) length -= end;
    snprintf(name, sizeof name, "%.*s.%s", (int)length, weight, ending);
    tensor_id known = graph_find(out, name);
    if (known) return known;
    return graph_add_source(
        out, &(graph_source){ .name = name, .shape = SHAPE(count), .dtype = DTYPE_F32, .role = is });
}

static tensor_id mapped(const rewrite *r, const node *n, uint32_t i) {
    tensor_id t = node_in(r->in, n, i);
    return t ? r->map[t] : 0;
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
                    .scales = beside(r->out, name, "weight_scale", outputs, ROLE_PARAMETER),
                    .bias = mapped(r, n, MATMUL_BIAS),
                    .residual = mapped(r, n, MATMUL_RESIDUAL),
                    .fixed = is_static ? beside(r->out, name, "input_scale", 1, ROLE_PARAMETER) : 0,
                    .tb = t->tb != 0,
                    .type = (dtype)t->type });
    rewrite_made(r, id, y);
}

static void observe_product(rewrite *r, node_id id, tensor_id weight) {
    const node *n = graph_node(r->in, id);
    tensor_id found = beside(r->out, graph_name(r->in, weight), "input_scale", 1, ROLE_STATE);
    rewrite_node(r, id);
    largest_apply(r->out, mapped(r, n, MATMUL_A), found);
}

/* Embeddings and the projections tied to them have one table. */
static void rewrite_embedding(rewrite *r, node_id id, tensor_id table) {
    const graph *in = r->in;
    const node *n = graph_node(in, id);
    r->out->phase = (phase)n->phase, r->out->site = n->site;
    tensor_id scales =
        beside(r->out, graph_name(in, table), "weight_scale", graph_shape(in, table)->dim[0], ROLE_PARAMETER);
    rewrite_made(r, id,
                 embedding_coded_apply(r->out, mapped(r, n, 0), r->map[table], scales,
                                       (dtype)graph_tensor(in, node_out(in, n, 0))->dtype));
}

static void rewrite_one(rewrite *r, const linear_products *l, node_id id, const pass_setting *s) {
    int64_t mode = s->value[SETTING_MODE];
    tensor_id table = s->value[SETTING_ALL] ? linear_table(l, id) : 0;
    tensor_id weight = table ? table : linear_weight(l, id);
    bool embeds = table && graph_node(l->g, id)->op == &op_embedding;
    if (!weight || (embeds && mode == MODE_CALIBRATE))
        rewrite_node(r, id);
    else if (embeds)
        rewrite_embedding(r, id, table);
    else if (mode == MODE_CALIBRATE)
        observe_product(r, id, weight);
    else
        rewrite_product(r, id, weight, mode == MODE_STATIC);
}

/* Before anything reads them. */
static void retype_tables(rewrite *r, const linear_products *l) {
    for (tensor_id t = 1; t < l->g->tensors.count; t++)
        if (l->table[t]) {
            rewrite_source_type(r, t, DTYPE_I8);
            graph_tensor(r->out, r->map[t])->flags |= TENSOR_ROWS;
        }
}

static status rewrite_all(const linear_products *l, const pass_setting *s, graph *out) {
    rewrite r;
    TRY(rewrite_open(&r, l->g, out));
    if (s->value[SETTING_ALL] && s->value[SETTING_MODE] != MODE_CALIBRATE) retype_tables(&r, l);
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

static const pass_storing storing = { .key = "snug-int8" };

const pass pass_quantize = { .name = "quantize",
                             .help = "a trained model's weights as codes of 8 bits: snug quantize",
                             .values = "off, int8, int8:static, int8:all, int8:static:all",
                             .paper = "arXiv:1712.05877",
                             .class = PASS_LOSSY,
                             .stage = PASS_FORWARD,
                             .asked_for = true,
                             .storing = &storing,
                             .parse = parse,
                             .settings = settings,
                             .check = check,
                             .run = run };
