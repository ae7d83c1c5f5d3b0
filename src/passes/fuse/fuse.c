/* Fusion where a rule pays: a product whose only reader adds another value to it becomes one product with
 * that value as its residual; one sweep over memory less. The same bits: the sum is finished before the
 * addition. */
#include <string.h>

#include "base/memory.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/add/add.h"
#include "ops/matmul/matmul.h"
#include "passes/pass.h"

static status parse(const char *text, pass_setting *out) {
    if (strcmp(text, "on") != 0)
        return status_set(STATUS_INVALID, "--fuse: '%s' is neither auto, on nor off", text);
    *out = (pass_setting){ .text = "on", .class = PASS_EXACT };
    return STATUS_OK;
}

/* For every product that can take a residual: the addition to fold into it. By node of `in`; 0: none. NULL:
 * no memory. */
static node_id *find_folds(const graph *in) {
    node_id *fold = memory_new(in->nodes.count, sizeof *fold);
    uint32_t *readers = memory_new(in->tensors.count, sizeof *readers);
    for (node_id id = 1; fold && readers && id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        for (uint32_t i = 0; i < n->in_count; i++) readers[node_in(in, n, i)]++;
    }
    for (node_id id = 1; fold && readers && id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        if (n->op != &op_add) continue;
        for (uint32_t side = 0; side < 2; side++) {
            tensor_id product = node_in(in, n, side), other = node_in(in, n, 1 - side);
            node_id maker = graph_tensor(in, product)->producer;
            const node *m = graph_node(in, maker);
            if (!maker || m->op != &op_matmul || readers[product] != 1 || fold[maker]) continue;
            if (node_in(in, m, MATMUL_RESIDUAL) || node_in(in, m, MATMUL_ACCUMULATOR)) continue;
            if (graph_tensor(in, product)->flags & TENSOR_KEEP || graph_tensor(in, other)->producer >= maker)
                continue;
            fold[maker] = id;
            break;
        }
    }
    if (!readers) memory_free(fold), fold = NULL;
    memory_free(readers);
    return fold;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)c;
    node_id *fold = find_folds(g);
    bool any = false;
    for (node_id id = 1; fold && id < g->nodes.count; id++) any |= fold[id] != 0;
    memory_free(fold);
    if (!any || !room) return 0;
    *without = PASS_FREE; /* never slower nor larger */
    return parse("on", &out[0]) == STATUS_OK;
}

static void fold_into(rewrite *r, node_id maker, node_id addition) {
    const graph *in = r->in;
    const node *m = graph_node(in, maker), *a = graph_node(in, addition);
    const matmul_attributes *t = node_attributes(in, m);
    tensor_id product = node_out(in, m, 0);
    tensor_id other = node_in(in, a, 0) == product ? node_in(in, a, 1) : node_in(in, a, 0);
    r->out->phase = m->phase;
    r->out->site = m->site;
    r->map[node_out(in, a, 0)] = matmul_apply(
        r->out,
        &(matmul_inputs){ .a = r->map[node_in(in, m, MATMUL_A)],
                          .b = r->map[node_in(in, m, MATMUL_B)],
                          .bias = node_in(in, m, MATMUL_BIAS) ? r->map[node_in(in, m, MATMUL_BIAS)] : 0,
                          .residual = r->map[other],
                          .ta = t->ta != 0,
                          .tb = t->tb != 0,
                          .type = (dtype)t->type });
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)s, (void)c;
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    node_id *fold = find_folds(in);
    bool *folded = memory_new(in->nodes.count, sizeof *folded);
    if (!fold || !folded) graph_no_memory(out);
    for (node_id id = 1; fold && folded && id < in->nodes.count; id++) {
        if (folded[id]) continue;
        if (fold[id]) {
            fold_into(&r, id, fold[id]);
            folded[fold[id]] = true;
        } else {
            rewrite_node(&r, id);
        }
    }
    memory_free(fold);
    memory_free(folded);
    return rewrite_close(&r);
}

const pass pass_fuse = { .name = "fuse",
                         .help = "fold additions into the products before them",
                         .values = "auto, on, off",
                         .class = PASS_EXACT,
                         .stage = PASS_FORWARD,
                         .parse = parse,
                         .settings = settings,
                         .run = run };
