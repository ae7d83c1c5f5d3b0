#include "ops/cast/cast.h"

#include "ops/add/add.h"

tensor_id cast_apply(graph *g, tensor_id x, dtype type) {
    return graph_add(g, &op_cast, &x, 1, &(cast_attributes){ .dtype = (int32_t)type });
}

tensor_id cast_to(graph *g, tensor_id x, dtype type) {
    return x && (dtype)graph_tensor(g, x)->dtype != type ? cast_apply(g, x, type) : x;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const cast_attributes *a = node_attributes(g, n);
    if (a->dtype <= DTYPE_NONE || a->dtype >= DTYPE_COUNT)
        return status_set(STATUS_INVALID, "there is no element type %d", a->dtype);
    out[0] = (tensor){ .shape = *graph_shape(g, node_in(g, n, 0)), .dtype = (uint8_t)a->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    dtype should = graph_gradient_dtype(g, node_in(g, n, 0));
    if (want[0]) din[0] = add_gather(g, din[0], cast_to(g, dout[0], should));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static const op_input inputs[] = { { "x", 0, 1, 4, false } };

static const op_case cases[] = {
    { "wider", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, &(cast_attributes){ DTYPE_F64 }, 0, false },
    { "the same", { { DTYPE_F32, { { 3, 5, 7 }, 3 }, -4, 4 } }, &(cast_attributes){ DTYPE_F32 }, 0, true },
    { "narrower", { { DTYPE_F64, { { 3, 20001 }, 2 }, -4, 4 } }, &(cast_attributes){ DTYPE_F32 }, 0, true },
    { "to integers", { { DTYPE_F32, { { 35 }, 1 }, -9, 9 } }, &(cast_attributes){ DTYPE_I32 }, 0, true },
    { "to bf16", { { DTYPE_F32, { { 3, 20001 }, 2 }, -4, 4 } }, &(cast_attributes){ DTYPE_BF16 }, 0, true },
    { "to f16",
      { { DTYPE_F32, { { 3, 20001 }, 2 }, -1e-4, 1e-4 } },
      &(cast_attributes){ DTYPE_F16 },
      0,
      true },
    { "from bf16", { { DTYPE_BF16, { { 3, 20001 }, 2 }, -4, 4 } }, &(cast_attributes){ DTYPE_F32 }, 0, true },
    { "from f16", { { DTYPE_F16, { { 3, 20001 }, 2 }, -4, 4 } }, &(cast_attributes){ DTYPE_F32 }, 0, true },
    { "between halves", { { DTYPE_F16, { { 35 }, 1 }, -4, 4 } }, &(cast_attributes){ DTYPE_BF16 }, 0, true },
    { "to bytes", { { DTYPE_F32, { { 35 }, 1 }, -9, 9 } }, &(cast_attributes){ DTYPE_I8 }, 0, true },
    { "from integers", { { DTYPE_I32, { { 35 }, 1 }, -9, 9 } }, &(cast_attributes){ DTYPE_F32 }, 0, true },
    { 0 }
};

const op_def op_cast = { .name = "cast",
                         .inputs = inputs,
                         .in_count = 1,
                         .out_count = 1,
                         .attribute_bytes = sizeof(cast_attributes),
                         .traits = OP_ELEMENTWISE,
                         .infer = infer,
                         .grad = grad,
                         .cost = cost,
                         .cpu = cast_cpu,
                         .cuda = OP_CUDA(cast_cuda),
                         .cases = cases };
