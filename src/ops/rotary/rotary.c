#include "ops/rotary/rotary.h"

#include "ops/add/add.h"

/* ---- the angles ---- */

tensor_id rotary_angles_apply(graph *g, tensor_id offset, const rotary_angles_attributes *a) {
    return graph_add(g, &op_rotary_angles, &offset, 1, a);
}

static status check_turned(int32_t turned) {
    if (turned >= 2 && turned % 2 == 0 && turned <= ROTARY_MOST_TURNED) return STATUS_OK;
    return status_set(STATUS_INVALID, "%d numbers of a head cannot be turned; it must be even, from 2 to %d",
                      turned, ROTARY_MOST_TURNED);
}

static status infer_angles(const graph *g, const node *n, tensor *out) {
    const rotary_angles_attributes *a = node_attributes(g, n);
    TRY(check_turned(a->turned));
    if (a->rows < 1) return status_set(STATUS_INVALID, "%lld positions have no angles", (long long)a->rows);
    int64_t offsets = node_in(g, n, 0) ? graph_shape(g, node_in(g, n, 0))->dim[0] : 1;
    if (offsets != 1 && offsets != a->rows)
        return status_set(STATUS_INVALID, "%lld offsets are neither one nor one for each of %lld rows",
                          (long long)offsets, (long long)a->rows);
    if (!(a->theta > 0)) return status_set(STATUS_INVALID, "the base %g of angles is not above 0", a->theta);
    out[0] = (tensor){ .shape = SHAPE(a->rows, a->turned), .dtype = DTYPE_F32 };
    return STATUS_OK;
}

static op_cost cost_angles(const graph *g, const node *n) { return op_cost_functions(g, n, 40); }

static const op_input angles_inputs[] = { { "offset", DTYPE_MASK_INT, 1, 1, true } };

static const rotary_angles_attributes plain = { .rows = 37, .turned = 12, .theta = 10000 };
static const rotary_angles_attributes linear = {
    .rows = 5, .turned = 8, .theta = 500, .stretch = ROTARY_LINEAR, .factor = 8
};
static const rotary_angles_attributes llama3 = { .rows = 300,
                                                 .turned = 64,
                                                 .theta = 500000,
                                                 .stretch = ROTARY_LLAMA3,
                                                 .factor = 8,
                                                 .low = 1,
                                                 .high = 4,
                                                 .original = 8192 };

static const rotary_angles_attributes yarn = { .rows = 90,
                                               .turned = 32,
                                               .theta = 10000,
                                               .stretch = ROTARY_YARN,
                                               .factor = 4,
                                               .low = 1,
                                               .high = 32,
                                               .original = 512,
                                               .gain = 1.14 };

static const rotary_angles_attributes longer = { .rows = 40,
                                                 .turned = 8,
                                                 .theta = 10000,
                                                 .stretch = ROTARY_LONG,
                                                 .original = 64,
                                                 .gain = 1.2,
                                                 .near = { 1, 1.1F, 1.25F, 2 },
                                                 .far = { 1.5F, 3, 7, 40 } };

static const op_case angles_cases[] = {
    { "plain", { { DTYPE_NONE } }, &plain, 0, true },
    { "offset", { { DTYPE_I32, { { 1 }, 1 }, 100, 101 } }, &linear, 0, true },
    { "yarn", { { DTYPE_I32, { { 1 }, 1 }, 0, 400 } }, &yarn, 0, true },
    { "near", { { DTYPE_I32, { { 1 }, 1 }, 24, 25 } }, &longer, 0, true },
    { "far", { { DTYPE_I32, { { 1 }, 1 }, 25, 26 } }, &longer, 0, true },
    { "by row", { { DTYPE_I32, { { 90 }, 1 }, 0, 4000 } }, &yarn, 0, true },
    { "near and far", { { DTYPE_I32, { { 40 }, 1 }, 0, 128 } }, &longer, 0, true },
    { "llama3", { { DTYPE_I32, { { 1 }, 1 }, 7, 8 } }, &llama3, 0, true },
    { 0 }
};

const op_def op_rotary_angles = { .name = "rotary_angles",
                                  .paper = "arXiv:2104.09864",
                                  .inputs = angles_inputs,
                                  .in_count = 1,
                                  .out_count = 1,
                                  .attribute_bytes = sizeof(rotary_angles_attributes),
                                  .infer = infer_angles,
                                  .cost = cost_angles,
                                  .cpu = rotary_angles_cpu,
                                  .cuda = OP_CUDA(rotary_angles_cuda),
                                  .cases = angles_cases };

/* ---- the turn ---- */

tensor_id rotary_apply(graph *g, tensor_id x, tensor_id angles, const rotary_attributes *a) {
    return graph_add(g, &op_rotary, (tensor_id[]){ x, angles }, 2, a);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const rotary_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0)), *angles = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    TRY(check_turned(a->turned));
    if (a->heads < 1 || a->size < a->turned || (int64_t)a->heads * a->size > x->shape.dim[2])
        return status_set(STATUS_INVALID, "%d heads of %d numbers, of which %d turn, are not in %s", a->heads,
                          a->size, a->turned, shape_text(&x->shape, left));
    if (angles->shape.dim[0] != x->shape.dim[1] || angles->shape.dim[1] != a->turned ||
        angles->dtype != dtype_wide((dtype)x->dtype))
        return status_set(STATUS_INVALID, "angles %s %s do not turn %d numbers of %s",
                          dtype_name((dtype)angles->dtype), shape_text(&angles->shape, right), a->turned,
                          shape_text(&x->shape, left));
    out[0] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    rotary_attributes back = *(const rotary_attributes *)node_attributes(g, n);
    back.back = !back.back;
    if (want[0]) din[0] = add_gather(g, din[0], rotary_apply(g, dout[0], node_in(g, n, 1), &back));
}

static op_cost cost(const graph *g, const node *n) { return op_cost_elementwise(g, n, 3); }

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 3, 3, false },
                                   { "angles", DTYPE_MASK_FLOAT, 2, 2, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = false } };

static const rotary_attributes all = { .heads = 3, .size = 8, .turned = 8 };
static const rotary_attributes part = { .heads = 2, .size = 10, .turned = 4 };
static const rotary_attributes many = { .heads = 12, .size = 64, .turned = 64 };
static const rotary_attributes back = { .heads = 4, .size = 64, .turned = 64, .back = 1 };
static const rotary_attributes beside = { .heads = 2, .size = 10, .turned = 4, .neighbours = 1 };
static const rotary_attributes beside_back = {
    .heads = 4, .size = 64, .turned = 64, .back = 1, .neighbours = 1
};

static const op_case cases[] = {
    { "all",
      { { DTYPE_F32, { { 2, 5, 24 }, 3 }, -1, 1 }, { DTYPE_F32, { { 5, 8 }, 2 }, -1, 1 } },
      &all,
      0,
      false },
    { "part of packed heads",
      { { DTYPE_F32, { { 3, 7, 33 }, 3 }, -1, 1 }, { DTYPE_F32, { { 7, 4 }, 2 }, -1, 1 } },
      &part,
      0,
      false },
    { "back, many rows",
      { { DTYPE_F32, { { 2, 130, 384 }, 3 }, -1, 1 }, { DTYPE_F32, { { 130, 64 }, 2 }, -1, 1 } },
      &back,
      0,
      false },
    { "f16",
      { { DTYPE_F16, { { 2, 9, 768 }, 3 }, -1, 1 }, { DTYPE_F32, { { 9, 64 }, 2 }, -1, 1 } },
      &many,
      0,
      true },
    { "part of packed heads, f16",
      { { DTYPE_F16, { { 3, 7, 33 }, 3 }, -1, 1 }, { DTYPE_F32, { { 7, 4 }, 2 }, -1, 1 } },
      &part,
      0,
      true },
    { "part of packed heads, bf16",
      { { DTYPE_BF16, { { 3, 7, 33 }, 3 }, -1, 1 }, { DTYPE_F32, { { 7, 4 }, 2 }, -1, 1 } },
      &part,
      0,
      true },
    { "halves",
      { { DTYPE_BF16, { { 2, 130, 384 }, 3 }, -1, 1 }, { DTYPE_F32, { { 130, 64 }, 2 }, -1, 1 } },
      &back,
      0,
      true },
    { "neighbours",
      { { DTYPE_F32, { { 3, 7, 33 }, 3 }, -1, 1 }, { DTYPE_F32, { { 7, 4 }, 2 }, -1, 1 } },
      &beside,
      0,
      false },
    { "neighbours, f16",
      { { DTYPE_F16, { { 3, 7, 33 }, 3 }, -1, 1 }, { DTYPE_F32, { { 7, 4 }, 2 }, -1, 1 } },
      &beside,
      0,
      true },
    { "neighbours, back, many rows",
      { { DTYPE_BF16, { { 2, 130, 384 }, 3 }, -1, 1 }, { DTYPE_F32, { { 130, 64 }, 2 }, -1, 1 } },
      &beside_back,
      0,
      true },
    { 0 }
};

const op_def op_rotary = { .name = "rotary",
                           .paper = "arXiv:2104.09864",
                           .inputs = inputs,
                           .in_count = 2,
                           .aliases = aliases,
                           .alias_count = 1,
                           .out_count = 1,
                           .attribute_bytes = sizeof(rotary_attributes),
                           .traits = OP_HALF,
                           .constants = 1u << 1,
                           .infer = infer,
                           .grad = grad,
                           .cost = cost,
                           .cpu = rotary_cpu,
                           .cuda = OP_CUDA(rotary_cuda),
                           .cases = cases };
