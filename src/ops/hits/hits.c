#include "ops/hits/hits.h"

tensor_id hits_apply(graph *g, tensor_id logits, tensor_id labels) {
    return graph_add(g, &op_hits, (tensor_id[]){ logits, labels }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *logits = graph_tensor(g, node_in(g, n, 0));
    shape rows = logits->shape;
    rows.rank--;
    TRY(op_check_input(g, n, 1, &rows, DTYPE_I32));
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = (uint8_t)dtype_wide((dtype)logits->dtype) };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

static const op_input inputs[] = { { "logits", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "labels", DTYPE_MASK_INT, 1, 3, false } };

static const op_case cases[] = {
    { "batch",
      { { DTYPE_F32, { { 30, 5, 3 }, 3 }, -3, 3 }, { DTYPE_I32, { { 30, 5 }, 2 }, -1, 4 } },
      NULL,
      0,
      true },
    { "halves, with equals",
      { { DTYPE_BF16, { { 700, 30 }, 2 }, -1, 1 }, { DTYPE_I32, { { 700 }, 1 }, 0, 30 } },
      NULL,
      0,
      true },
    { 0 }
};

const op_def op_hits = { .name = "hits",
                         .inputs = inputs,
                         .in_count = 2,
                         .out_count = 1,
                         .traits = OP_HALF,
                         .infer = infer,
                         .cost = cost,
                         .cpu = hits_cpu,
                         .cuda = OP_CUDA(hits_cuda),
                         .cases = cases };
