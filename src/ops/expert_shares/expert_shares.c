#include "ops/expert_shares/expert_shares.h"

tensor_id expert_shares_apply(graph *g, const expert_shares_inputs *in, const expert_shares_attributes *a) {
    return graph_add(g, &op_expert_shares, (tensor_id[]){ in->ends, in->before, in->labels, in->scale }, 4,
                     a);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const expert_shares_attributes *a = node_attributes(g, n);
    shape experts = *graph_shape(g, node_in(g, n, 0)), number = SHAPE(1);
    tensor_id before = node_in(g, n, 1), scale = node_in(g, n, 3);
    uint8_t type = before  ? graph_tensor(g, before)->dtype
                   : scale ? graph_tensor(g, scale)->dtype
                           : (uint8_t)DTYPE_F32;
    if (a->chosen < 1) return status_set(STATUS_INVALID, "%d experts of a row were chosen", a->chosen);
    TRY(op_check_input(g, n, 1, &experts, type));
    TRY(op_check_input(g, n, 3, &number, type));
    if (!node_in(g, n, 2) != !scale)
        return status_set(STATUS_INVALID, "labels and their scale are given together");
    out[0] = (tensor){ .shape = experts, .dtype = type };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 4); }

static const op_input inputs[] = { { "ends", DTYPE_MASK_INT, 1, 1, false },
                                   { "before", DTYPE_MASK_FLOAT, 1, 1, true },
                                   { "labels", DTYPE_MASK_INT, 1, 4, true },
                                   { "scale", DTYPE_MASK_FLOAT, 1, 1, true } };

static const expert_shares_attributes two = { .coefficient = 0.01f, .chosen = 2 };

#define ENDS(n)                                                                                              \
    { DTYPE_I32, { { n }, 1 }, 1, 70 }
#define LOAD(n)                                                                                              \
    { DTYPE_F32, { { n }, 1 }, 1, 70 }
#define ABSENT                                                                                               \
    { DTYPE_NONE, { { 0 }, 0 }, 0, 0 }
static const op_case cases[] = {
    { "first layer", { ENDS(8) }, &two, 0, true },
    { "layer between", { ENDS(8), LOAD(8) }, &two, 0, true },
    { "last layer",
      { ENDS(8),
        LOAD(8),
        { DTYPE_I32, { { 3, 700 }, 2 }, 0, 61 },
        { DTYPE_F32, { { 1 }, 1 }, 0.001, 0.002 } },
      &two,
      0,
      true },
    { "only layer, of which some labels do not count",
      { ENDS(40), ABSENT, { DTYPE_I32, { { 90 }, 1 }, -101, -99 }, { DTYPE_F32, { { 1 }, 1 }, 0.1, 0.2 } },
      &two,
      0,
      true },
    { 0 }
};

enum { NUMBERS = 1u << 1 | 1u << 3 };

const op_def op_expert_shares = { .name = "expert_shares",
                                  .paper = "arXiv:2101.03961",
                                  .inputs = inputs,
                                  .in_count = 4,
                                  .out_count = 1,
                                  .constants = NUMBERS,
                                  .attribute_bytes = sizeof(expert_shares_attributes),
                                  .traits = OP_COUPLES_SAMPLES,
                                  .infer = infer,
                                  .cost = cost,
                                  .cpu = expert_shares_cpu,
                                  .cuda = OP_CUDA(expert_shares_cuda),
                                  .cases = cases };
