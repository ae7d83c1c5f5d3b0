#include "ops/adafactor/adafactor.h"

tensor_id adafactor_apply(graph *g, adafactor_inputs in, const adafactor_attributes *attributes) {
    tensor_id ids[] = { in.w, in.g, in.rows, in.columns, in.lr, in.t, in.scale, in.ok };
    return graph_add(g, &op_adafactor, ids, 8, attributes);
}

static uint8_t outputs(const graph *g, const node *n) { return node_in(g, n, 3) ? 3 : 2; }

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *w = graph_tensor(g, node_in(g, n, 0));
    bool matrix = node_in(g, n, 3) != 0;
    int64_t last = shape_last(&w->shape), all = shape_elements(&w->shape);
    const int64_t sizes[] = { all, all, matrix ? all / last : all, last, 1, 1, 1, 1 };
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    for (uint32_t i = 1; i < 8; i++) {
        if (!node_in(g, n, i)) continue;
        const tensor *x = graph_tensor(g, node_in(g, n, i));
        if (shape_elements(&x->shape) != sizes[i] || (i < 4 && x->dtype != w->dtype))
            return status_set(STATUS_INVALID, "'%s' is %s, its weight is %s", n->op->inputs[i].name,
                              shape_text(&x->shape, is), shape_text(&w->shape, should));
    }
    out[0] = (tensor){ .shape = w->shape, .dtype = w->dtype };
    for (uint32_t o = 1; o < n->out_count; o++)
        out[o] = (tensor){ .shape = *graph_shape(g, node_in(g, n, o + 1)), .dtype = w->dtype };
    return STATUS_OK;
}

/* Of a matrix the gradient is read three times: for the means, for the size of the update, for the update. */
static op_cost cost(const graph *g, const node *n) {
    op_cost cost = op_cost_elementwise(g, n, 0);
    double elements = (double)shape_elements(graph_shape(g, node_in(g, n, 0)));
    cost.bytes_read += (node_in(g, n, 3) ? 2 : 1) * (double)graph_tensor_bytes(g, node_in(g, n, 1));
    cost.flops = 11 * elements;
    return cost;
}

static const op_input inputs[] = {
    { "w", DTYPE_MASK_FLOAT, 1, 4, false },    { "g", DTYPE_MASK_FLOAT, 1, 4, false },
    { "rows", DTYPE_MASK_WIDE, 1, 4, false },  { "columns", DTYPE_MASK_WIDE, 1, 1, true },
    { "lr", DTYPE_MASK_FLOAT, 1, 1, false },   { "t", DTYPE_MASK_INT, 1, 1, false },
    { "scale", DTYPE_MASK_FLOAT, 1, 1, true }, { "ok", DTYPE_MASK_INT, 1, 1, true }
};
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true },
                                    { .out = 1, .in = 2, .must = true },
                                    { .out = 2, .in = 3, .must = true } };

#define PAPER(decay)                                                                                         \
    &(adafactor_attributes) { 0.8f, 1e-30f, 1, decay }
#define ONE(low, high)                                                                                       \
    { DTYPE_F32, { { 1 }, 1 }, low, high }
#define INTEGER(value)                                                                                       \
    { DTYPE_I32, { { 1 }, 1 }, value, (value) + 1 }
#define OF(n, low, high)                                                                                     \
    { DTYPE_F32, { { n }, 1 }, low, high }
#define MATRIX(low, high)                                                                                    \
    { DTYPE_F32, { { 301, 67 }, 2 }, low, high }
#define CUBE(low, high)                                                                                      \
    { DTYPE_F32, { { 7, 43, 19 }, 3 }, low, high }
#define NONE                                                                                                 \
    { DTYPE_NONE }
static const op_case cases[] = {
    { "matrix",
      { MATRIX(-1, 1), MATRIX(-1, 1), OF(301, 0.2, 1), OF(67, 0.2, 1), ONE(0.1, 0.2), INTEGER(7), ONE(0.1, 2),
        INTEGER(1) },
      PAPER(0.1f),
      2e-6,
      true },
    { "first step of a matrix",
      { MATRIX(-1, 1), MATRIX(-1e-9, 1e-9), OF(301, 0, 0), OF(67, 0, 0), ONE(0.1, 0.2), INTEGER(1) },
      PAPER(0),
      2e-6,
      true },
    { "update clipped",
      { CUBE(-1, 1), CUBE(-9, 9), OF(301, 0.1, 0.2), OF(19, 0.1, 0.2), ONE(0.1, 0.2), INTEGER(2000000000) },
      PAPER(0.1f),
      2e-6,
      true },
    { "vector",
      { OF(40001, -1, 1), OF(40001, -1, 1), OF(40001, 0, 1), NONE, ONE(0.1, 0.2), INTEGER(7), ONE(0.1, 2),
        INTEGER(1) },
      PAPER(0.1f),
      2e-6,
      true },
    { "vector without a gradient",
      { OF(5, -1, 1), OF(5, 0, 0), OF(5, 0, 0), NONE, ONE(0.1, 0.2), INTEGER(1) },
      PAPER(0),
      2e-6,
      true },
    { "matrix, skipped",
      { MATRIX(-1, 1), MATRIX(-1, 1), OF(301, 0.2, 1), OF(67, 0.2, 1), ONE(0.1, 0.2), INTEGER(7), NONE,
        INTEGER(0) },
      PAPER(0.1f),
      0,
      true },
    { "vector, skipped",
      { OF(5, -1, 1), OF(5, -1, 1), OF(5, 0, 1), NONE, ONE(0.1, 0.2), INTEGER(7), NONE, INTEGER(0) },
      PAPER(0.1f),
      0,
      true },
    { 0 }
};

const op_def op_adafactor = { .name = "adafactor",
                              .paper = "arXiv:1804.04235",
                              .inputs = inputs,
                              .in_count = 8,
                              .aliases = aliases,
                              .alias_count = 3,
                              .out_count = 3,
                              .attribute_bytes = sizeof(adafactor_attributes),
                              .outputs = outputs,
                              .infer = infer,
                              .cost = cost,
                              .cpu = adafactor_cpu,
                              .cuda = OP_CUDA(adafactor_cuda),
                              .cases = cases };
