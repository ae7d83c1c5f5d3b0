#include "ops/attention_library/attention_library.h"

#include "ops/attention/attention_cases.h"

enum { SIDE = 3, GRADIENT_SIDE = 6 }; /* the first input that is not a matrix of either direction's */

/* ---- what the library is asked ---- */

static library_attention attention_of(const attention_sizes *z, const attention_attributes *a, dtype type,
                                      bool packed, bool gradient) {
    return (library_attention){ .batch = z->batch,
                                .queries = z->queries,
                                .keys = z->keys,
                                .heads = z->heads,
                                .kv_heads = z->kv_heads,
                                .size = z->size,
                                .type = (int32_t)type,
                                .causal = a->causal != 0,
                                .packed = packed,
                                .gradient = gradient };
}

/* What is a part of something else begins where its numbers do. */
static bool is_in_place(const graph *g, tensor_id t) {
    int64_t offset = 0;
    if (t) graph_storage(g, t, &offset);
    return offset % LIBRARY_ALIGNMENT == 0;
}

/* All keys, or those up to the query's own place, and nothing else. The random key is read with dropout. */
static bool sees_plainly(const graph *g, const node *n, uint32_t side) {
    const attention_attributes *a = node_attributes(g, n);
    bool given =
        node_in(g, n, side) || node_in(g, n, side + 1) || node_in(g, n, side + 2) || node_in(g, n, side + 4);
    return !given && !a->window && !(a->cap > 0) && !(a->dropout > 0);
}

library_attention_answer attention_library_of(const graph *g, const node *n, bool gradient,
                                              library_attention *p) {
    uint32_t side = gradient ? GRADIENT_SIDE : SIDE;
    tensor_id k = node_in(g, n, 1);
    const tensor *q = graph_tensor(g, node_in(g, n, 0));
    const attention_attributes *a = node_attributes(g, n);
    attention_sizes z = attention_sizes_of(&q->shape, k ? graph_shape(g, k) : NULL, a);
    *p = attention_of(&z, a, (dtype)q->dtype, !k, gradient);
    if (!sees_plainly(g, n, side)) return LIBRARY_ATTENTION_SIGHTS;
    for (uint32_t i = 0; i < side; i++)
        if (!is_in_place(g, node_in(g, n, i))) return LIBRARY_ATTENTION_PLACES;
    for (uint32_t i = 0; i < n->out_count; i++)
        if (!is_in_place(g, node_out(g, n, i))) return LIBRARY_ATTENTION_PLACES;
    return LIBRARY_ATTENTION_MAKES;
}

library_attention attention_library_called(const op_call *c, bool gradient) {
    const op_arg *q = op_in(c, 0), *k = op_in(c, 1);
    bool packed = k->dtype == DTYPE_NONE;
    attention_sizes z = attention_sizes_of(&q->shape, packed ? NULL : &k->shape, c->attributes);
    return attention_of(&z, c->attributes, q->dtype, packed, gradient);
}

/* ---- definition ---- */

/* Its attributes begin with those of attention_flash, whose rules read no more. */
static status infer(const graph *g, const node *n, tensor *out) {
    return op_attention_flash.infer(g, n, out);
}

static status infer_backward(const graph *g, const node *n, tensor *out) {
    return op_attention_flash_backward.infer(g, n, out);
}

static op_cost by_library(const graph *g, const node *n, op_cost c) {
    const attention_library_attributes *t = node_attributes(g, n);
    c.by_library = t->chosen != 0;
    return c;
}

static op_cost cost(const graph *g, const node *n) { return by_library(g, n, op_attention_flash.cost(g, n)); }

static op_cost cost_backward(const graph *g, const node *n) {
    return by_library(g, n, op_attention_flash_backward.cost(g, n));
}

/* The library makes what runs the call. */
static status prepare_direction(const op_call *c, bool gradient) {
    const attention_library_attributes *t = c->attributes;
    library_attention p = attention_library_called(c, gradient);
    return t->chosen ? library_attention_prepare(&p, &t->algorithm) : STATUS_OK;
}

static status prepare(const op_call *c) { return prepare_direction(c, false); }
static status prepare_backward(const op_call *c) { return prepare_direction(c, true); }

#define LSE(...)                                                                                             \
    { DTYPE_F32, { { __VA_ARGS__ }, 3 }, 2, 4 }
#define FORM(...)                                                                                            \
    &(attention_library_attributes) {                                                                        \
        .attention = { __VA_ARGS__ }                                                                         \
    }

static const op_case cases[] = { { "packed", { ATTENTION_REAL(2, 5, 36) }, FORM(.heads = 3), 0, true },
                                 { "grouped",
                                   { ATTENTION_HALF(DTYPE_BF16, 2, 6, 64),
                                     ATTENTION_HALF(DTYPE_BF16, 2, 6, 32),
                                     ATTENTION_HALF(DTYPE_BF16, 2, 6, 32) },
                                   FORM(.heads = 4, .kv_heads = 2, .causal = 1),
                                   0,
                                   true },
                                 { 0 } };

static const op_case backward_cases[] = {
    { "packed",
      { ATTENTION_REAL(2, 5, 36), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_REAL(2, 5, 12), LSE(2, 3, 5),
        ATTENTION_REAL(2, 5, 12) },
      FORM(.heads = 3),
      0,
      true },
    { "grouped",
      { ATTENTION_HALF(DTYPE_BF16, 2, 6, 64), ATTENTION_HALF(DTYPE_BF16, 2, 6, 32),
        ATTENTION_HALF(DTYPE_BF16, 2, 6, 32), ATTENTION_HALF(DTYPE_BF16, 2, 6, 64), LSE(2, 4, 6),
        ATTENTION_HALF(DTYPE_BF16, 2, 6, 64) },
      FORM(.heads = 4, .kv_heads = 2, .causal = 1),
      0,
      true },
    { 0 }
};

const op_def op_attention_library = { .name = "attention_library",
                                      .paper = "arXiv:2205.14135",
                                      .inputs = attention_inputs_of_forward,
                                      .in_count = ATTENTION_INPUTS,
                                      .out_count = 2,
                                      .attribute_bytes = sizeof(attention_library_attributes),
                                      .traits = OP_RANDOM | OP_PRODUCT | OP_PAIRS,
                                      .infer = infer,
                                      .cost = cost,
                                      .prepare = prepare,
                                      .cpu = attention_flash_cpu,
                                      .cuda = OP_CUDA(attention_library_cuda),
                                      .cases = cases };

const op_def op_attention_library_backward = { .name = "attention_library_backward",
                                               .paper = "arXiv:2205.14135",
                                               .inputs = attention_flash_backward_inputs,
                                               .in_count = ATTENTION_FLASH_BACKWARD_INPUTS,
                                               .outputs = attention_gradient_outputs,
                                               .attribute_bytes = sizeof(attention_library_attributes),
                                               .traits = OP_RANDOM | OP_PAIRS,
                                               .infer = infer_backward,
                                               .cost = cost_backward,
                                               .prepare = prepare_backward,
                                               .cpu = attention_flash_backward_cpu,
                                               .cuda = OP_CUDA(attention_library_backward_cuda),
                                               .cases = backward_cases };
