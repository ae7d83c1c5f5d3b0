/* Quantization-aware training: products read their weights, and the values beside them, as codes of 8 bits
 * would leave them (ops/fake_quantize), so the model that is quantized after training is the one that was
 * trained. Weights have a scale for each of their outputs, values one for each token; gradients go straight
 * through the rounding, to weights that stay what they were stored as.
 *
 * Which weights those are says passes/linear.h, for this as for quantizing a model. Backward reads the
 * rounded weights as well, so until then they are kept beside the others: this costs memory, and saves none.
 * Paper: Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only
 * inference", arXiv:1712.05877. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/fake_quantize/fake_quantize.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_fp8/matmul_fp8.h"
#include "ops/matmul_int8/matmul_int8.h"
#include "passes/linear.h"
#include "passes/pass.h"

static status parse(const char *text, pass_setting *out) {
    if (strcmp(text, "int8") != 0)
        return status_set(STATUS_INVALID, "--qat: '%s' is neither int8 nor off", text);
    *out = (pass_setting){ .text = "int8", .class = PASS_LOSSY };
    return STATUS_OK;
}

/* None that a planner should try: it never saves anything. */
static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)g, (void)c, (void)out, (void)room, (void)without;
    return 0;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    linear_products l;
    (void)c;
    TRY(linear_open(g, &l));
    bool any = linear_any(&l);
    linear_close(&l);
    if (any) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--qat %s: the model has no product with weights of its own; leave it out", s->text);
}

/* What other techniques have made of the graph, and this one can't be beside. */
static status check_others(const graph *g) {
    for (node_id id = 1; id < g->nodes.count; id++)
        if (graph_node(g, id)->op == &op_matmul_int8 || graph_node(g, id)->op == &op_matmul_fp8)
            return status_set(STATUS_INVALID, "--qat int8: products are computed in 8 bits here, so there is "
                                              "nothing to imitate; say --precision mixed-bf16, or leave one "
                                              "of the two out");
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (x->role == ROLE_PARAMETER && !x->producer && !(x->flags & TENSOR_TRAINABLE))
            return status_set(STATUS_INVALID, "--qat int8: weights that stay as they are can't get used to "
                                              "being rounded; train all of them, or leave --qat out and "
                                              "quantize the merged model");
    }
    return STATUS_OK;
}

/* The rounded form of `old` for a product, made once for all its readers. */
static tensor_id rounded(rewrite *r, tensor_id *made, tensor_id old, bool columns) {
    if (made[old]) return made[old];
    tensor_id x = r->map[old], y = fake_quantize_apply(r->out, x, columns);
    if (y) graph_tensor(r->out, y)->gradient = graph_tensor(r->out, x)->gradient;
    return made[old] = y;
}

static void rewrite_product(rewrite *r, tensor_id *made, node_id id, bool by_rows) {
    const graph *in = r->in;
    const node *n = graph_node(in, id);
    tensor_id inputs[MATMUL_ACCUMULATOR + 1] = { 0 };
    r->out->phase = (phase)n->phase, r->out->site = n->site;
    for (uint32_t i = 0; i < n->in_count; i++) inputs[i] = node_in(in, n, i) ? r->map[node_in(in, n, i)] : 0;
    inputs[MATMUL_A] = rounded(r, made, node_in(in, n, MATMUL_A), false);
    inputs[MATMUL_B] = rounded(r, made, node_in(in, n, MATMUL_B), !by_rows);
    rewrite_node_inputs(r, id, inputs, n->in_count);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    rewrite r;
    linear_products l;
    (void)s;
    if (c->training) TRY(check_others(in));
    TRY(linear_open(in, &l));
    status result = rewrite_open(&r, in, out);
    if (result == STATUS_OK) {
        tensor_id *made = memory_new(in->tensors.count, sizeof *made);
        if (!made) graph_no_memory(out);
        for (node_id id = 1; id < in->nodes.count && !out->failed; id++)
            if (linear_weight(&l, id))
                rewrite_product(&r, made, id, linear_by_rows(&l, id));
            else
                rewrite_node(&r, id);
        memory_free(made);
        result = rewrite_close(&r);
    }
    linear_close(&l);
    return result;
}

const pass pass_qat = { .name = "qat",
                        .help = "train with weights and values rounded as 8 bits will; costs memory",
                        .values = "off, int8",
                        .paper = "arXiv:1712.05877",
                        .class = PASS_LOSSY,
                        .stage = PASS_FORWARD,
                        .asked_for = true,
                        .parse = parse,
                        .settings = settings,
                        .check = check,
                        .run = run };
