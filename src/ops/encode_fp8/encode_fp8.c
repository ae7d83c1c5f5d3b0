#include "ops/encode_fp8/encode_fp8.h"

#include "ops/add/add.h"

tensor_id encode_fp8_apply(graph *g, tensor_id x, fp8_form form) {
    return graph_add(g, &op_encode_fp8, &x, 1, &(encode_fp8_attributes){ .form = (int32_t)form });
}

shape encode_fp8_scales(const shape *codes) {
    shape s = *codes;
    s.dim[s.rank - 1] = fp8_blocks(shape_last(codes));
    return s;
}

static status infer(const graph *g, const node *n, tensor *out) {
    tensor_id x = node_in(g, n, 0);
    const shape *s = graph_shape(g, x);
    out[0] = (tensor){ .shape = *s, .dtype = DTYPE_U8, .gradient = (uint8_t)graph_gradient_dtype(g, x) };
    out[1] = (tensor){ .shape = encode_fp8_scales(s), .dtype = DTYPE_U8 };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    (void)id;
    if (want[0]) din[0] = add_gather(g, din[0], dout[0]);
}

static op_cost cost(const graph *g, const node *n) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = 16 * (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    return c;
}

static const op_input inputs[] = { { "x", DTYPE_MASK_HALF | 1u << DTYPE_F32, 2, 4, false } };

#define FORM(which)                                                                                          \
    &(encode_fp8_attributes) { FP8_##which }
static const op_case cases[] = {
    { "floats", { { DTYPE_F32, { { 3, 67, 256 }, 3 }, -4, 4 } }, FORM(E4M3), 0, true },
    { "floats, e5m2", { { DTYPE_F32, { { 3, 67, 256 }, 3 }, -4, 4 } }, FORM(E5M2), 0, true },
    { "uneven", { { DTYPE_F32, { { 35, 601 }, 2 }, -1, 3 } }, FORM(E4M3), 0, true },
    { "narrow", { { DTYPE_F32, { { 2, 3, 5, 7 }, 4 }, 0, 1e-3 } }, FORM(E5M2), 0, true },
    { "one row", { { DTYPE_F32, { { 1, 1000 }, 2 }, -6e4, 6e4 } }, FORM(E4M3), 0, true },
    { "zeros", { { DTYPE_F32, { { 5, 300 }, 2 }, 0, 0 } }, FORM(E4M3), 0, true },
    { "tiny", { { DTYPE_F32, { { 5, 300 }, 2 }, -1e-37, 1e-37 } }, FORM(E5M2), 0, true },
    { "bf16", { { DTYPE_BF16, { { 9, 700 }, 2 }, -4, 4 } }, FORM(E4M3), 0, true },
    { "bf16, e5m2", { { DTYPE_BF16, { { 2, 3, 131 }, 3 }, -1e-6, 1e-6 } }, FORM(E5M2), 0, true },
    { "f16", { { DTYPE_F16, { { 9, 700 }, 2 }, -1e-3, 1e-3 } }, FORM(E4M3), 0, true },
    { 0 }
};

const op_def op_encode_fp8 = { .name = "encode_fp8",
                               .paper = "arXiv:2209.05433",
                               .inputs = inputs,
                               .in_count = 1,
                               .out_count = 2,
                               .attribute_bytes = sizeof(encode_fp8_attributes),
                               .infer = infer,
                               .grad = grad,
                               .cost = cost,
                               .cpu = encode_fp8_cpu,
                               .cuda = OP_CUDA(encode_fp8_cuda),
                               .cases = cases };
