#include "ops/embedding_coded/embedding_coded.h"

tensor_id embedding_coded_apply(graph *g, tensor_id ids, tensor_id codes, tensor_id scales, dtype type) {
    return graph_add(g, &op_embedding_coded, (tensor_id[]){ ids, codes, scales }, 3,
                     &(embedding_coded_attributes){ .type = (int32_t)type });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const embedding_coded_attributes *a = node_attributes(g, n);
    const shape *codes = graph_shape(g, node_in(g, n, 1));
    shape y = *graph_shape(g, node_in(g, n, 0));
    if (graph_shape(g, node_in(g, n, 2))->dim[0] != codes->dim[0])
        return status_set(STATUS_INVALID, "there must be one scale for each row of the table");
    y.dim[y.rank++] = codes->dim[1];
    out[0] = (tensor){ .shape = y, .dtype = (uint8_t)a->type };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    const tensor *y = graph_tensor(g, node_out(g, n, 0));
    double elements = (double)shape_elements(&y->shape), rows = elements / (double)shape_last(&y->shape);
    return (op_cost){ .flops = elements,
                      .bytes_read =
                          elements + rows * sizeof(float) + (double)graph_tensor_bytes(g, node_in(g, n, 0)),
                      .bytes_written = (double)graph_tensor_bytes(g, node_out(g, n, 0)),
                      .kind = dtype_is_half((dtype)y->dtype) ? WORK_ARITHMETIC_HALF : WORK_ARITHMETIC };
}

static op_range range(const graph *g, const node *n, uint32_t input) {
    return input == 0 ? (op_range){ .below = graph_shape(g, node_in(g, n, 1))->dim[0] } : (op_range){ 0 };
}

static const op_input inputs[] = { { "ids", DTYPE_MASK_INT, 1, 3, false },
                                   { "codes", 1u << DTYPE_I8, 2, 2, false },
                                   { "scales", 1u << DTYPE_F32, 1, 1, false } };

static const op_case cases[] = { { "list",
                                   { { DTYPE_I32, { { 9 }, 1 }, 0, 5 },
                                     { DTYPE_I8, { { 5, 3 }, 2 }, -127, 128 },
                                     { DTYPE_F32, { { 5 }, 1 }, 0, 1 } },
                                   &(embedding_coded_attributes){ DTYPE_F32 },
                                   1e-7,
                                   false },
                                 { "batch, to bf16",
                                   { { DTYPE_I32, { { 3, 101 }, 2 }, 0, 50 },
                                     { DTYPE_I8, { { 50, 130 }, 2 }, -127, 128 },
                                     { DTYPE_F32, { { 50 }, 1 }, 0, 1 } },
                                   &(embedding_coded_attributes){ DTYPE_BF16 },
                                   4e-3,
                                   false },
                                 { "ids out of range, to f16",
                                   { { DTYPE_I32, { { 3, 50 }, 2 }, -10, 20 },
                                     { DTYPE_I8, { { 5, 7 }, 2 }, -127, 128 },
                                     { DTYPE_F32, { { 5 }, 1 }, 0, 1 } },
                                   &(embedding_coded_attributes){ DTYPE_F16 },
                                   5e-4,
                                   true },
                                 { 0 } };

const op_def op_embedding_coded = { .name = "embedding_coded",
                                    .inputs = inputs,
                                    .in_count = 3,
                                    .out_count = 1,
                                    .attribute_bytes = sizeof(embedding_coded_attributes),
                                    .infer = infer,
                                    .cost = cost,
                                    .range = range,
                                    .cpu = embedding_coded_cpu,
                                    .cuda = OP_CUDA(embedding_coded_cuda),
                                    .cases = cases };
