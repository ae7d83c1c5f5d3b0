#include "ops/square_tiles/square_tiles.h"

#include "ops/sum_squares/sum_squares.h"

tensor_id square_tiles_apply(graph *g, tensor_id share, int64_t whole) {
    return graph_add(g, &op_square_tiles, &share, 1, &(square_tiles_attributes){ whole });
}

static status infer(const graph *g, const node *n, tensor *out) {
    int64_t elements = shape_elements(graph_shape(g, node_in(g, n, 0)));
    if (elements % SUM_SQUARES_TILE)
        return status_set(STATUS_INVALID, "%lld elements are no whole tiles", (long long)elements);
    out[0] = (tensor){ .shape = SHAPE(elements / SUM_SQUARES_TILE), .dtype = DTYPE_F64 };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    double elements = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    op_cost cost = { .flops = 2 * elements,
                     .bytes_read = (double)graph_tensor_bytes(g, node_in(g, n, 0)),
                     .bytes_written = (double)graph_tensor_bytes(g, node_out(g, n, 0)) };
    cost.work = 3.5 * cost.flops; /* as op_sum_squares */
    return cost;
}

static const op_input inputs[] = { { "share", DTYPE_MASK_FLOAT, 1, 1, false } };

static const op_case cases[] = {
    { "whole tiles",
      { { DTYPE_F32, { { 12288 }, 1 }, -1, 1 } },
      &(square_tiles_attributes){ 12288 },
      1e-7,
      true },
    { "a rest", { { DTYPE_F32, { { 12288 }, 1 }, -1, 1 } }, &(square_tiles_attributes){ 8209 }, 1e-7, true },
    { "a tile of nothing",
      { { DTYPE_F32, { { 12288 }, 1 }, -1, 1 } },
      &(square_tiles_attributes){ 4099 },
      1e-7,
      true },
    { "halves", { { DTYPE_BF16, { { 8192 }, 1 }, -1, 1 } }, &(square_tiles_attributes){ 8191 }, 1e-7, true },
    { "f16", { { DTYPE_F16, { { 8192 }, 1 }, -1, 1 } }, &(square_tiles_attributes){ 8191 }, 1e-7, true },
    { 0 }
};

const op_def op_square_tiles = { .name = "square_tiles",
                                 .inputs = inputs,
                                 .in_count = 1,
                                 .out_count = 1,
                                 .attribute_bytes = sizeof(square_tiles_attributes),
                                 .infer = infer,
                                 .cost = cost,
                                 .cpu = square_tiles_cpu,
                                 .cuda = OP_CUDA(square_tiles_cuda),
                                 .cases = cases };
