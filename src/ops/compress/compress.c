#include "ops/compress/compress.h"

tensor_id compress_apply(graph *g, tensor_id x) { return graph_add(g, &op_compress, &x, 1, NULL); }

tensor_id compress_widen(graph *g, tensor_id codes, dtype type) {
    tensor_id in[] = { codes, codes + 1 };
    return graph_add(g, &op_decompress, in, 2, &(decompress_attributes){ .type = (int32_t)type });
}

int64_t compress_blocks(const shape *s) {
    return shape_rows(s) * ((shape_last(s) + COMPRESS_BLOCK - 1) / COMPRESS_BLOCK);
}

/* ---- compress ---- */

static status infer(const graph *g, const node *n, tensor *out) {
    const shape *x = graph_shape(g, node_in(g, n, 0));
    out[0] = (tensor){ .shape = *x, .dtype = DTYPE_I8 };
    out[1] = (tensor){ .shape = SHAPE(compress_blocks(x)), .dtype = DTYPE_F32 };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    cost.flops = 10 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return cost;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 4, false } };

static const op_case cases[] = {
    { "floats", { { DTYPE_F32, { { 3, 67, 256 }, 3 }, -4, 4 } }, NULL, 1e-6, true },
    { "uneven", { { DTYPE_F32, { { 35, 601 }, 2 }, -1, 3 } }, NULL, 1e-6, true },
    { "narrow", { { DTYPE_F32, { { 2, 3, 5, 7 }, 4 }, 0, 1e-3 } }, NULL, 1e-6, true },
    { "one row", { { DTYPE_F32, { { 1000 }, 1 }, -6e4, 6e4 } }, NULL, 1e-6, true },
    { "zeros", { { DTYPE_F32, { { 5, 300 }, 2 }, 0, 0 } }, NULL, 1e-6, true },
    { "too small", { { DTYPE_F32, { { 5, 300 }, 2 }, -1e-39, 1e-39 } }, NULL, 1e-6, true },
    { "bf16", { { DTYPE_BF16, { { 9, 700 }, 2 }, -4, 4 } }, NULL, 1e-6, true },
    { "f16", { { DTYPE_F16, { { 9, 700 }, 2 }, -1e-3, 1e-3 } }, NULL, 1e-6, true },
    { 0 }
};

const op_def op_compress = { .name = "compress",
                             .paper = "arXiv:2104.14129",
                             .inputs = inputs,
                             .in_count = 1,
                             .out_count = 2,
                             .infer = infer,
                             .cost = cost,
                             .cpu = compress_cpu,
                             .cuda = OP_CUDA(compress_cuda),
                             .cases = cases };

/* ---- decompress ---- */

static status wide_infer(const graph *g, const node *n, tensor *out) {
    const decompress_attributes *a = node_attributes(g, n);
    const shape *x = graph_shape(g, node_in(g, n, 0)), *scales = graph_shape(g, node_in(g, n, 1));
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    if (shape_elements(scales) != compress_blocks(x))
        return status_set(STATUS_INVALID,
                          "'scales' is %s for codes of %s; one for each %d of a row are needed",
                          shape_text(scales, is), shape_text(x, should), COMPRESS_BLOCK);
    if (!dtype_is_float((dtype)a->type))
        return status_set(STATUS_INVALID, "codes become floats, not %s", dtype_name((dtype)a->type));
    out[0] = (tensor){ .shape = *x, .dtype = (uint8_t)a->type };
    return STATUS_OK;
}

static op_cost wide_cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 2); }

static const op_input wide_inputs[] = { { "codes", 1u << DTYPE_I8, 1, 4, false },
                                        { "scales", 1u << DTYPE_F32, 1, 1, false } };

#define TO(type) (&(decompress_attributes){ DTYPE_##type })
static const op_case wide_cases[] = {
    { "floats",
      { { DTYPE_I8, { { 3, 67, 256 }, 3 }, -127, 128 }, { DTYPE_F32, { { 201 }, 1 }, 0, 1 } },
      TO(F32),
      0,
      true },
    { "uneven",
      { { DTYPE_I8, { { 35, 601 }, 2 }, -127, 128 }, { DTYPE_F32, { { 105 }, 1 }, 0, 1 } },
      TO(F32),
      0,
      true },
    { "bf16",
      { { DTYPE_I8, { { 35, 601 }, 2 }, -127, 128 }, { DTYPE_F32, { { 105 }, 1 }, 0, 1 } },
      TO(BF16),
      0,
      true },
    { "f16",
      { { DTYPE_I8, { { 1000 }, 1 }, -127, 128 }, { DTYPE_F32, { { 4 }, 1 }, 0, 1 } },
      TO(F16),
      0,
      true },
    { 0 }
};

const op_def op_decompress = { .name = "decompress",
                               .paper = "arXiv:2104.14129",
                               .inputs = wide_inputs,
                               .in_count = 2,
                               .out_count = 1,
                               .attribute_bytes = sizeof(decompress_attributes),
                               .infer = wide_infer,
                               .cost = wide_cost,
                               .cpu = decompress_cpu,
                               .cuda = OP_CUDA(decompress_cuda),
                               .cases = wide_cases };
