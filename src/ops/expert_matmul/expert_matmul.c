#include "ops/expert_matmul/expert_matmul.h"

#include "ops/add/add.h"

tensor_id expert_matmul_apply(graph *g, tensor_id x, tensor_id w, tensor_id ends, bool tb) {
    return graph_add(g, &op_expert_matmul, (tensor_id[]){ x, w, ends }, 3,
                     &(expert_matmul_attributes){ .tb = tb });
}

static status infer(const graph *g, const node *n, tensor *out) {
    const expert_matmul_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 0)), *w = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    shape experts = SHAPE(w->shape.dim[0]);
    if (w->shape.dim[a->tb ? 2 : 1] != x->shape.dim[1] || w->dtype != x->dtype)
        return status_set(STATUS_INVALID, "%s %s and experts %s %s cannot be multiplied",
                          dtype_name(x->dtype), shape_text(&x->shape, left), dtype_name(w->dtype),
                          shape_text(&w->shape, right));
    TRY(op_check_input(g, n, 2, &experts, DTYPE_I32));
    out[0] = (tensor){ .shape = SHAPE(x->shape.dim[0], w->shape.dim[a->tb ? 1 : 2]), .dtype = x->dtype };
    return STATUS_OK;
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    node n = *graph_node(g, id);
    bool tb = ((const expert_matmul_attributes *)node_attributes(g, &n))->tb != 0;
    tensor_id x = node_in(g, &n, 0), w = node_in(g, &n, 1), ends = node_in(g, &n, 2);
    tensor_id in[] = { tb ? dout[0] : x, tb ? x : dout[0], ends, din[1] };
    expert_matmul_weights_attributes sums = { (int32_t)graph_gradient_dtype(g, w) };
    if (want[1]) din[1] = graph_add(g, &op_expert_matmul_weights, in, 4, &sums);
    if (want[0]) din[0] = add_gather(g, din[0], expert_matmul_apply(g, dout[0], w, ends, !tb));
}

static op_cost products(const graph *g, const node *n, double flops, const expert_sizes *s) {
    op_cost c = op_cost_elementwise(g, n, 0);
    c.flops = flops;
    c.kind = op_products_kind(g, n);
    c.bytes_moved = expert_matmul_moved(s);
    return c;
}

/* As if rows were shared out evenly. */
static int64_t even(int64_t rows, int64_t experts) { return (rows + experts - 1) / experts; }

static op_cost cost(const graph *g, const node *n) {
    const shape *x = graph_shape(g, node_in(g, n, 0)), *y = graph_shape(g, node_out(g, n, 0));
    int64_t experts = graph_shape(g, node_in(g, n, 1))->dim[0];
    return products(g, n, 2 * (double)x->dim[0] * (double)x->dim[1] * (double)y->dim[1],
                    &(expert_sizes){ experts, even(x->dim[0], experts), y->dim[1], x->dim[1] });
}

static const op_input inputs[] = { { "x", DTYPE_MASK_FLOAT, 2, 2, false },
                                   { "w", DTYPE_MASK_FLOAT, 3, 3, false },
                                   { "ends", DTYPE_MASK_INT, 1, 1, false } };

static const expert_matmul_attributes plain = { 0 }, transposed = { .tb = 1 };

static const op_case cases[] = { { "transposed",
                                   { { DTYPE_F32, { { 40, 7 }, 2 }, -1, 1 },
                                     { DTYPE_F32, { { 3, 5, 7 }, 3 }, -1, 1 },
                                     { DTYPE_I32, { { 3 }, 1 }, 0, 41 } },
                                   &transposed,
                                   0,
                                   false },
                                 { "plain, ends outside",
                                   { { DTYPE_F32, { { 40, 7 }, 2 }, -1, 1 },
                                     { DTYPE_F32, { { 9, 7, 5 }, 3 }, -1, 1 },
                                     { DTYPE_I32, { { 9 }, 1 }, -10, 60 } },
                                   &plain,
                                   0,
                                   false },
                                 { "rows of nobody",
                                   { { DTYPE_F32, { { 200, 7 }, 2 }, -1, 1 },
                                     { DTYPE_F32, { { 1, 5, 7 }, 3 }, -1, 1 },
                                     { DTYPE_I32, { { 1 }, 1 }, 127, 128 } },
                                   &transposed,
                                   0,
                                   false },
                                 { "many rows, deep",
                                   { { DTYPE_F32, { { 330, 600 }, 2 }, -1, 1 },
                                     { DTYPE_F32, { { 2, 600, 70 }, 3 }, -1, 1 },
                                     { DTYPE_I32, { { 2 }, 1 }, 300, 301 } },
                                   &plain,
                                   0,
                                   true },
                                 { "one expert",
                                   { { DTYPE_F32, { { 4, 3 }, 2 }, -1, 1 },
                                     { DTYPE_F32, { { 1, 2, 3 }, 3 }, -1, 1 },
                                     { DTYPE_I32, { { 1 }, 1 }, 4, 5 } },
                                   &transposed,
                                   0,
                                   false },
                                 { 0 } };

const op_def op_expert_matmul = { .name = "expert_matmul",
                                  .paper = "arXiv:2211.15841",
                                  .inputs = inputs,
                                  .in_count = 3,
                                  .out_count = 1,
                                  .attribute_bytes = sizeof(expert_matmul_attributes),
                                  .traits = OP_PRODUCT,
                                  .pairs = true,
                                  .infer = infer,
                                  .grad = grad,
                                  .cost = cost,
                                  .cpu = expert_matmul_cpu,
                                  .cuda = OP_CUDA(expert_matmul_cuda),
                                  .cases = cases };

/* ---- gradients of the weights ---- */

static status infer_weights(const graph *g, const node *n, tensor *out) {
    const tensor *a = graph_tensor(g, node_in(g, n, 0)), *b = graph_tensor(g, node_in(g, n, 1));
    shape rows = SHAPE(a->shape.dim[0], b->shape.dim[1]);
    shape sums = SHAPE(graph_shape(g, node_in(g, n, 2))->dim[0], a->shape.dim[1], b->shape.dim[1]);
    const expert_matmul_weights_attributes *t = node_attributes(g, n);
    uint8_t type = t->type ? (uint8_t)t->type : a->dtype;
    if (dtype_wide((dtype)type) != dtype_wide((dtype)a->dtype))
        return status_set(STATUS_INVALID, "sums of %s cannot be %s", dtype_name((dtype)a->dtype),
                          dtype_name((dtype)type));
    TRY(op_check_input(g, n, 1, &rows, a->dtype));
    TRY(op_check_input(g, n, 3, &sums, type));
    out[0] = (tensor){ .shape = sums, .dtype = type };
    return STATUS_OK;
}

static op_cost cost_weights(const graph *g, const node *n) {
    const shape *a = graph_shape(g, node_in(g, n, 0)), *b = graph_shape(g, node_in(g, n, 1));
    int64_t experts = graph_shape(g, node_in(g, n, 2))->dim[0];
    return products(g, n, 2 * (double)a->dim[0] * (double)a->dim[1] * (double)b->dim[1],
                    &(expert_sizes){ experts, a->dim[1], b->dim[1], even(a->dim[0], experts) });
}

static const op_input weights_inputs[] = { { "a", DTYPE_MASK_FLOAT, 2, 2, false },
                                           { "b", DTYPE_MASK_FLOAT, 2, 2, false },
                                           { "ends", DTYPE_MASK_INT, 1, 1, false },
                                           { "accumulator", DTYPE_MASK_FLOAT, 3, 3, true } };
static const op_alias weights_aliases[] = { { .out = 0, .in = 3, .must = true } };

static const expert_matmul_weights_attributes as_they_are = { 0 }, summed_wide = { DTYPE_F32 };

static const op_case weights_cases[] = { { "three",
                                           { { DTYPE_F32, { { 40, 7 }, 2 }, -1, 1 },
                                             { DTYPE_F32, { { 40, 5 }, 2 }, -1, 1 },
                                             { DTYPE_I32, { { 3 }, 1 }, 0, 41 } },
                                           &as_they_are,
                                           0,
                                           true },
                                         { "many rows",
                                           { { DTYPE_F32, { { 700, 7 }, 2 }, -1, 1 },
                                             { DTYPE_F32, { { 700, 70 }, 2 }, -1, 1 },
                                             { DTYPE_I32, { { 3 }, 1 }, 100, 690 } },
                                           &as_they_are,
                                           0,
                                           true },
                                         { "accumulator, ends outside",
                                           { { DTYPE_F32, { { 40, 7 }, 2 }, -1, 1 },
                                             { DTYPE_F32, { { 40, 5 }, 2 }, -1, 1 },
                                             { DTYPE_I32, { { 9 }, 1 }, -10, 60 },
                                             { DTYPE_F32, { { 9, 7, 5 }, 3 }, -1, 1 } },
                                           &as_they_are,
                                           0,
                                           true },
                                         { "of bf16 to f32",
                                           { { DTYPE_BF16, { { 40, 7 }, 2 }, -1, 1 },
                                             { DTYPE_BF16, { { 40, 5 }, 2 }, -1, 1 },
                                             { DTYPE_I32, { { 3 }, 1 }, 0, 41 },
                                             { DTYPE_F32, { { 3, 7, 5 }, 3 }, -1, 1 } },
                                           &summed_wide,
                                           0.01,
                                           true },
                                         { 0 } };

const op_def op_expert_matmul_weights = { .name = "expert_matmul_weights",
                                          .paper = "arXiv:2211.15841",
                                          .inputs = weights_inputs,
                                          .in_count = 4,
                                          .aliases = weights_aliases,
                                          .alias_count = 1,
                                          .out_count = 1,
                                          .attribute_bytes = sizeof(expert_matmul_weights_attributes),
                                          .pairs = true,
                                          .infer = infer_weights,
                                          .cost = cost_weights,
                                          .cpu = expert_matmul_weights_cpu,
                                          .cuda = OP_CUDA(expert_matmul_weights_cuda),
                                          .cases = weights_cases };
