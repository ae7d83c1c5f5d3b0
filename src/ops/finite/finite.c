#include "ops/finite/finite.h"

#include <math.h>

#include "ops/reference.h"

tensor_id finite_apply(graph *g, tensor_id x) { return graph_add(g, &op_finite, &x, 1, NULL); }

static status infer(const graph *g, const node *n, tensor *out) {
    if (shape_elements(graph_shape(g, node_in(g, n, 0))) != 1)
        return status_set(STATUS_INVALID, "'x' must be one element");
    out[0] = (tensor){ .shape = SHAPE(1), .dtype = DTYPE_I32 };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 1); }

static void finite_reference(const op_call *c) {
    reference_set(&c->out[0], 0, isfinite(reference_get(op_in(c, 0), 0)) ? 1 : 0);
}

const op_kernel finite_cpu[] = { { "finite_reference", NULL, NULL, finite_reference }, { 0 } };

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 1, 1, false } };

static const op_case cases[] = {
    { "a number", { { DTYPE_F32, { { 1 }, 1 }, -2, 2 } }, NULL, 0, true },
    { "none", { { DTYPE_F32, { { 1 }, 1 }, NAN, NAN } }, NULL, 0, true },
    { "too large", { { DTYPE_F32, { { 1 }, 1 }, INFINITY, INFINITY } }, NULL, 0, true },
    { 0 }
};

const op_def op_finite = { .name = "finite",
                           .inputs = inputs,
                           .in_count = 1,
                           .out_count = 1,
                           .infer = infer,
                           .cost = cost,
                           .cpu = finite_cpu,
                           .cuda = OP_CUDA(finite_cuda),
                           .cases = cases };
