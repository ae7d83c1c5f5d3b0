/* GELU at the end of the product before it, and its gradient at the end of the product that makes what it
 * multiplies: one sweep over memory less each. Runs after differentiation, so that backward has said by then
 * whether it reads what GELU was given; where it does, forward stays as it is. The same bits. */
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/gelu/gelu.h"
#include "ops/matmul_gelu/matmul_gelu.h"
#include "passes/pass.h"

static status parse(const char *text, pass_setting *out) {
    if (strcmp(text, "on") != 0)
        return status_set(STATUS_INVALID, "--gelu-epilogue: '%s' is neither auto, on nor off", text);
    *out = (pass_setting){ .text = "on", .class = PASS_EXACT };
    return STATUS_OK;
}

/* The product that node `id`, GELU or its gradient, may become the end of; 0: none. */
static node_id product_before(const graph *in, node_id id, const uint32_t *readers) {
    const node *n = graph_node(in, id);
    bool backward = n->op == &op_gelu_backward;
    if (n->op != &op_gelu && !backward) return 0;
    tensor_id product = node_in(in, n, backward ? 1 : 0), x = backward ? node_in(in, n, 0) : 0;
    node_id maker = graph_tensor(in, product)->producer;
    const node *m = maker ? graph_node(in, maker) : NULL;
    if (!m || m->op != &op_matmul || m->phase != n->phase || readers[product] != 1) return 0;
    if (node_in(in, m, MATMUL_RESIDUAL) || node_in(in, m, MATMUL_ACCUMULATOR)) return 0;
    if (graph_tensor(in, product)->flags & TENSOR_KEEP) return 0;
    if (backward && graph_tensor(in, x)->dtype != graph_tensor(in, product)->dtype) return 0;
    if (backward && (node_in(in, m, MATMUL_BIAS) || graph_tensor(in, x)->producer >= maker)) return 0;
    return maker;
}

/* For every product, the node that it ends in; by node of `in`, 0: none. NULL: no memory. */
static node_id *find_ends(const graph *in) {
    node_id *end = memory_new(in->nodes.count, sizeof *end);
    uint32_t *readers = memory_new(in->tensors.count, sizeof *readers);
    for (node_id id = 1; end && readers && id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        for (uint32_t i = 0; i < n->in_count; i++) readers[node_in(in, n, i)]++;
    }
    for (node_id id = 1; end && readers && id < in->nodes.count; id++) {
        node_id maker = product_before(in, id, readers);
        if (maker) end[maker] = id;
    }
    if (!readers) memory_free(end), end = NULL;
    memory_free(readers);
    return end;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)c;
    node_id *end = find_ends(g);
    bool any = false;
    for (node_id id = 1; end && id < g->nodes.count; id++) any |= end[id] != 0;
    memory_free(end);
    if (!any || !room) return 0;
    *without = PASS_FREE; /* never slower nor larger */
    return parse("on", &out[0]) == STATUS_OK;
}

static void fold_into(rewrite *r, node_id maker, node_id id) {
    const graph *in = r->in;
    const node *m = graph_node(in, maker), *n = graph_node(in, id);
    const gelu_attributes *gelu = node_attributes(in, n);
    const matmul_attributes *product = node_attributes(in, m);
    bool backward = n->op == &op_gelu_backward;
    tensor_id third = backward ? node_in(in, n, 0) : node_in(in, m, MATMUL_BIAS);
    tensor_id inputs[] = { r->map[node_in(in, m, MATMUL_A)], r->map[node_in(in, m, MATMUL_B)],
                           r->map[third] };
    r->out->phase = m->phase;
    r->out->site = m->site;
    r->map[node_out(in, n, 0)] = graph_add(r->out, backward ? &op_matmul_gelu_backward : &op_matmul_gelu,
                                           inputs, 3, &(matmul_gelu_attributes){ *product, gelu->tanh });
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)s, (void)c;
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    node_id *end = find_ends(in);
    bool *folded = memory_new(in->nodes.count, sizeof *folded);
    if (!end || !folded) graph_no_memory(out);
    for (node_id id = 1; end && folded && id < in->nodes.count; id++) {
        if (folded[id]) continue;
        if (end[id]) {
            fold_into(&r, id, end[id]);
            folded[end[id]] = true;
        } else {
            rewrite_node(&r, id);
        }
    }
    memory_free(end);
    memory_free(folded);
    return rewrite_close(&r);
}

const pass pass_gelu_epilogue = { .name = "gelu_epilogue",
                                  .help = "GELU and its gradient at the end of the products before them",
                                  .values = "auto, on, off",
                                  .paper = "arXiv:1606.08415",
                                  .class = PASS_EXACT,
                                  .stage = PASS_STEP,
                                  .parse = parse,
                                  .settings = settings,
                                  .run = run };
