#include "ops/clip_factor/clip_factor.h"

#include "ops/clip_factor/clip_factor_math.h"
#include "ops/reference.h"

tensor_id clip_factor_apply(graph *g, const tensor_id *inputs, uint32_t count,
                            const clip_factor_attributes *attributes) {
    return graph_add(g, &op_clip_factor, inputs, count, attributes);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *first = graph_tensor(g, node_in(g, n, 0));
    for (uint32_t i = 0; i < n->in_count; i++) {
        const tensor *x = graph_tensor(g, node_in(g, n, i));
        if (shape_elements(&x->shape) != 1 || x->dtype != first->dtype)
            return status_set(STATUS_INVALID, "sum %u must be one element of type %s", i,
                              dtype_name(first->dtype));
    }
    out[0] = out[1] = (tensor){ .shape = SHAPE(1), .dtype = first->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, n->in_count); }

static void clip_factor_reference(const op_call *c) {
    const clip_factor_attributes *a = c->attributes;
    double sum = 0, scale = a->scaled ? reference_get(op_in(c, 0), 0) : 1;
    for (uint32_t i = a->scaled != 0; i < c->in_count; i++) sum += reference_get(op_in(c, i), 0);
    double norm = clip_factor_norm(sum, scale);
    reference_set(&c->out[0], 0, clip_factor_value(norm, (double)a->max_norm, scale));
    reference_set(&c->out[1], 0, norm);
}

const op_kernel clip_factor_cpu[] = { { "clip_factor_reference", NULL, NULL, clip_factor_reference }, { 0 } };

static const op_input inputs[] = { { "sum", DTYPE_MASK_FLOAT, 1, 1, false } };

#define ONE                                                                                                  \
    { DTYPE_F32, { { 1 }, 1 }, 0, 2 }
static const op_case cases[] = {
    { "clips", { ONE, ONE, ONE, ONE }, &(clip_factor_attributes){ 0.1f, 0 }, 0, true },
    { "leaves", { ONE }, &(clip_factor_attributes){ 100, 0 }, 0, true },
    { "norm alone", { ONE, ONE }, &(clip_factor_attributes){ 0, 0 }, 0, true },
    { "scaled",
      { { DTYPE_F32, { { 1 }, 1 }, 1024, 1024 }, ONE, ONE },
      &(clip_factor_attributes){ 1e-4f, 1 },
      0,
      true },
    { 0 }
};

const op_def op_clip_factor = { .name = "clip_factor",
                                .paper = "arXiv:1211.5063",
                                .inputs = inputs,
                                .in_count = 1,
                                .out_count = 2,
                                .variadic = true,
                                .attribute_bytes = sizeof(clip_factor_attributes),
                                .infer = infer,
                                .cost = cost,
                                .cpu = clip_factor_cpu,
                                .cuda = OP_CUDA(clip_factor_cuda),
                                .cases = cases };
