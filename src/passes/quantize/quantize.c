/* Post-training quantization: products with a weight of their own read it as codes of 8 bits, with a scale
 * for each of its outputs, and quantize what they multiply it with, token by token ("int8") or by one scale
 * that was found beforehand and is stored beside the weight ("int8:static"). For models that are trained:
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
#include "ops/largest/largest.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_int8/matmul_int8.h"
#include "passes/linear.h"
#include "passes/storing.h"

enum { SETTING_MODE, MODE_DYNAMIC = 0, MODE_STATIC, MODE_CALIBRATE };

static status parse(const char *text, pass_setting *out) {
    static const char *const words[] = { "int8", "int8:static", "calibrate" };
    for (int i = 0; i <= MODE_CALIBRATE; i++) {
        if (strcmp(text, words[i]) != 0) continue;
        *out = (pass_setting){ .value = { i }, .class = i == MODE_CALIBRATE ? PASS_EXACT : PASS_LOSSY };
        strcpy(out->text, text);
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID, "--quantize: '%s' is none of off, int8 and int8:static", text);
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

static status rewrite_all(const linear_products *l, int64_t mode, graph *out) {
    rewrite r;
    TRY(rewrite_open(&r, l->g, out));
    for (node_id id = 1; id < l->g->nodes.count && !out->failed; id++) {
        tensor_id weight = linear_weight(l, id);
        if (!weight)
            rewrite_node(&r, id);
        else if (mode == MODE_CALIBRATE)
            observe_product(&r, id, weight);
        else
            rewrite_product(&r, id, weight, mode == MODE_STATIC);
    }
    return rewrite_close(&r);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    linear_products l;
    (void)c;
    TRY(linear_open(in, &l));
    status result = s->value[SETTING_MODE] == MODE_CALIBRATE ? STATUS_OK : check_others(&l, s);
    if (result == STATUS_OK) result = rewrite_all(&l, s->value[SETTING_MODE], out);
    linear_close(&l);
    return result;
}

static const pass_storing storing = { .key = "snug-int8" };

const pass pass_quantize = { .name = "quantize",
                             .help = "a trained model's weights as codes of 8 bits: snug quantize",
                             .values = "off, int8, int8:static",
                             .paper = "arXiv:1712.05877",
                             .class = PASS_LOSSY,
                             .stage = PASS_FORWARD,
                             .asked_for = true,
                             .storing = &storing,
                             .parse = parse,
                             .settings = settings,
                             .check = check,
                             .run = run };
