#include "ops/sum_rows/sum_rows.h"

tensor_id sum_rows_apply(graph *g, tensor_id x, tensor_id accumulator) {
    return graph_add(g, &op_sum_rows, (tensor_id[]){ x, accumulator }, 2, NULL);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *x = graph_tensor(g, node_in(g, n, 0));
    tensor_id accumulator = node_in(g, n, 1);
    uint8_t wide = (uint8_t)dtype_wide((dtype)x->dtype);
    out[0] = (tensor){ .shape = SHAPE(shape_last(&x->shape)), .dtype = wide };
    if (accumulator && graph_tensor(g, accumulator)->dtype != wide)
        return status_set(STATUS_INVALID, "the accumulator is %s, the rows are %s",
                          dtype_name(graph_tensor(g, accumulator)->dtype), dtype_name(x->dtype));
    if (accumulator && !shape_equal(graph_shape(g, accumulator), &out[0].shape))
        return status_set(STATUS_INVALID, "the accumulator has %lld elements, a row %lld",
                          (long long)shape_elements(graph_shape(g, accumulator)),
                          (long long)shape_last(&x->shape));
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return c;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false },
                                   { "accumulator", DTYPE_MASK_FLOAT, 1, 1, true } };
static const op_alias aliases[] = { { .out = 0, .in = 1, .must = true } };

static const op_case cases[] = {
    { "matrix", { { DTYPE_F32, { { 7, 33 }, 2 }, -1, 1 } }, NULL, 0, true },
    { "tiles", { { DTYPE_F32, { { 3, 200, 40 }, 3 }, -1, 1 } }, NULL, 0, true },
    { "accumulator",
      { { DTYPE_F32, { { 300, 19 }, 2 }, -1, 1 }, { DTYPE_F32, { { 19 }, 1 }, -1, 1 } },
      NULL,
      0,
      true },
    { "halves",
      { { DTYPE_BF16, { { 300, 19 }, 2 }, -1, 1 }, { DTYPE_F32, { { 19 }, 1 }, -1, 1 } },
      NULL,
      0,
      true },
    { "f16", { { DTYPE_F16, { { 3, 200, 40 }, 3 }, -1, 1 } }, NULL, 0, true },
    { "one row", { { DTYPE_F32, { { 5 }, 1 }, -1, 1 } }, NULL, 0, true },
    { 0 }
};

const op_def op_sum_rows = { .name = "sum_rows",
                             .inputs = inputs,
                             .in_count = 2,
                             .aliases = aliases,
                             .alias_count = 1,
                             .out_count = 1,
                             .infer = infer,
                             .cost = cost,
                             .cpu = sum_rows_cpu,
                             .cuda = OP_CUDA(sum_rows_cuda),
                             .cases = cases };
