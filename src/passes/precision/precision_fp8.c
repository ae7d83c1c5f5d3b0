#include "passes/precision/precision_fp8.h"

#include "ir/op.h"
#include "ops/encode_fp8/encode_fp8.h"
#include "ops/matmul_fp8/matmul_fp8.h"
#include "ops/route/route.h"
#include "ops/softcap/softcap.h"

/* Does a loss, a router or the host read t, or its capped self? */
static bool decides(const graph *g, tensor_id t) {
    bool any = (graph_tensor(g, t)->flags & TENSOR_KEEP) != 0;
    for (node_id id = graph_tensor(g, t)->producer + 1; id < g->nodes.count && !any; id++) {
        const node *n = graph_node(g, id);
        bool reads = false;
        for (uint32_t i = 0; i < n->in_count; i++) reads |= node_in(g, n, i) == t;
        if (!reads) continue;
        any = (n->op->traits & OP_LOSS) != 0 || n->op == &op_route;
        if (n->op == &op_softcap) any = decides(g, node_out(g, n, 0));
    }
    return any;
}

bool precision_fp8_takes(const linear_products *l, node_id id) {
    return linear_weight(l, id) && !decides(l->g, node_out(l->g, graph_node(l->g, id), 0));
}

bool precision_fp8_apply(const graph *g) {
    linear_products l;
    bool any = false;
    if (linear_open(g, &l) != STATUS_OK) return false;
    for (node_id id = 1; id < g->nodes.count && !any; id++) any = precision_fp8_takes(&l, id);
    linear_close(&l);
    return any;
}

tensor_id precision_fp8_product(rewrite *r, const matmul_inputs *in, tensor_id *codes) {
    if (!*codes) *codes = encode_fp8_apply(r->out, in->a, FP8_E4M3);
    return matmul_fp8_apply(r->out, &(matmul_fp8_inputs){ .a = *codes,
                                                          .b = in->b,
                                                          .bias = in->bias,
                                                          .residual = in->residual,
                                                          .tb = in->tb,
                                                          .type = in->type });
}
