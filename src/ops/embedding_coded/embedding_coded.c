#include "ops/embedding_coded/embedding_coded.h"

#include "ops/codes4.h"

tensor_id embedding_coded_apply(graph *g, tensor_id ids, tensor_id codes, tensor_id scales, dtype type) {
    return graph_add(g, &op_embedding_coded, (tensor_id[]){ ids, codes, scales }, 3,
                     &(embedding_coded_attributes){ .type = (int32_t)type });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const embedding_coded_attributes *a = node_attributes(g, n);
    const tensor *codes = graph_tensor(g, node_in(g, n, 1)), *scales = graph_tensor(g, node_in(g, n, 2));
    int64_t rows = codes->shape.dim[0], width = codes->shape.dim[1];
    shape y = *graph_shape(g, node_in(g, n, 0));
    if (codes->dtype == DTYPE_U8) {
        width *= 2;
        shape with = codes4_scales_shape(rows, width);
        if (!codes4_can(width) || scales->dtype != DTYPE_F16 || !shape_equal(&scales->shape, &with))
            return status_set(STATUS_INVALID, "there must be one scale in f16 for each %d numbers of a row",
                              CODES4_GROUP);
    } else if (scales->dtype != DTYPE_F32 || scales->shape.dim[0] != rows)
        return status_set(STATUS_INVALID, "there must be one scale in f32 for each row of the table");
    y.dim[y.rank++] = width;
    out[0] = (tensor){ .shape = y, .dtype = (uint8_t)a->type };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    const tensor *y = graph_tensor(g, node_out(g, n, 0));
    double elements = (double)shape_elements(&y->shape), rows = elements / (double)shape_last(&y->shape);
    bool narrow = graph_tensor(g, node_in(g, n, 1))->dtype == DTYPE_U8;
    double coded = narrow ? elements / 2 + elements / CODES4_GROUP * 2 : elements + rows * sizeof(float);
    return (op_cost){ .flops = elements,
                      .bytes_read = coded + (double)graph_tensor_bytes(g, node_in(g, n, 0)),
                      .bytes_written = (double)graph_tensor_bytes(g, node_out(g, n, 0)),
                      .kind = dtype_is_half((dtype)y->dtype) ? WORK_ARITHMETIC_HALF : WORK_ARITHMETIC };
}

static op_range range(const graph *g, const node *n, uint32_t input) {
    return input == 0 ? (op_range){ .below = graph_shape(g, node_in(g, n, 1))->dim[0] } : (op_range){ 0 };
}

static const op_input inputs[] = { { "ids", DTYPE_MASK_INT, 1, 3, false },
                                   { "codes", DTYPE_MASK_BYTE, 2, 2, false },
                                   { "scales", 1u << DTYPE_F32 | 1u << DTYPE_F16, 1, 1, false } };

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
                                 { "4 bits",
                                   { { DTYPE_I32, { { 3, 50 }, 2 }, -10, 50 },
                                     { DTYPE_U8, { { 37, 48 }, 2 }, 0, 256 },
                                     { DTYPE_F16, { { 37 * 3 }, 1 }, -1, 1 } },
                                   &(embedding_coded_attributes){ DTYPE_F32 },
                                   1e-7,
                                   true },
                                 { "4 bits, to bf16",
                                   { { DTYPE_I32, { { 70 }, 1 }, 0, 16 },
                                     { DTYPE_U8, { { 16, 512 }, 2 }, 0, 256 },
                                     { DTYPE_F16, { { 16 * 32 }, 1 }, -1, 1 } },
                                   &(embedding_coded_attributes){ DTYPE_BF16 },
                                   4e-3,
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
