#include "ops/library_matmul/library_matmul.h"

/* ---- what the library is asked ---- */

static library_product product_of(const matmul_attributes *t, const shape *a, const shape *b) {
    matmul_sizes s;
    matmul_sizes_of(a, b, t, &s);
    return (library_product){
        .rows = s.rows, .columns = s.columns, .depth = s.depth, .ta = t->ta != 0, .tb = t->tb != 0
    };
}

/* What is a part of something else begins where its numbers do. */
static bool is_in_place(const graph *g, tensor_id t) {
    int64_t offset = 0;
    if (t) graph_storage(g, t, &offset);
    return offset % LIBRARY_ALIGNMENT == 0;
}

library_answer library_matmul_of(const graph *g, const tensor_id *in, tensor_id y, const matmul_attributes *t,
                                 library_product *p) {
    const tensor *a = graph_tensor(g, in[MATMUL_A]), *b = graph_tensor(g, in[MATMUL_B]);
    *p = product_of(t, &a->shape, &b->shape);
    p->type = a->dtype;
    p->result = graph_tensor(g, y)->dtype;
    p->bias = in[MATMUL_BIAS] ? graph_tensor(g, in[MATMUL_BIAS])->dtype : DTYPE_NONE;
    p->addition = in[MATMUL_RESIDUAL] || in[MATMUL_ACCUMULATOR];
    if (a->dtype != b->dtype) return LIBRARY_TYPES;
    for (uint32_t i = MATMUL_A; i <= MATMUL_ACCUMULATOR; i++)
        if (!is_in_place(g, in[i])) return LIBRARY_PLACES;
    return is_in_place(g, y) ? LIBRARY_MAKES : LIBRARY_PLACES;
}

library_product library_matmul_called(const op_call *c, const matmul_attributes *t) {
    const op_arg *a = op_in(c, MATMUL_A), *b = op_in(c, MATMUL_B);
    library_product p = product_of(t, &a->shape, &b->shape);
    p.type = (int32_t)a->dtype;
    p.result = (int32_t)c->out[0].dtype;
    p.bias = (int32_t)op_in(c, MATMUL_BIAS)->dtype;
    p.addition = op_in(c, MATMUL_RESIDUAL)->dtype || op_in(c, MATMUL_ACCUMULATOR)->dtype;
    return p;
}

/* ---- definition ---- */

/* Its attributes begin with those of ops/matmul, whose rules read no more. */
static status infer(const graph *g, const node *n, tensor *out) { return op_matmul.infer(g, n, out); }

static op_cost cost(const graph *g, const node *n) {
    const library_matmul_attributes *t = node_attributes(g, n);
    op_cost c = op_matmul.cost(g, n);
    c.by_library = t->chosen != 0;
    return c;
}

static const op_input inputs[] = { { "a", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "b", DTYPE_MASK_FLOAT, 2, 4, false },
                                   { "bias", DTYPE_MASK_FLOAT, 1, 1, true },
                                   { "residual", DTYPE_MASK_FLOAT, 2, 4, true },
                                   { "accumulator", DTYPE_MASK_FLOAT, 2, 4, true } };

static const op_alias aliases[] = { { .out = 0, .in = MATMUL_RESIDUAL, .must = false },
                                    { .out = 0, .in = MATMUL_ACCUMULATOR, .must = true } };

#define MATRIX(rows, columns)                                                                                \
    { DTYPE_F32, { { rows, columns }, 2 }, -1, 1 }
#define FORM(ta, tb)                                                                                         \
    &(library_matmul_attributes) {                                                                           \
        .product = { ta, tb, 0 }                                                                             \
    }

static const op_case cases[] = {
    { "plain",
      { MATRIX(33, 40), MATRIX(40, 70), { DTYPE_F32, { { 70 }, 1 }, -1, 1 }, MATRIX(33, 70) },
      FORM(0, 0),
      0,
      true },
    { "accumulator", { MATRIX(30, 19), MATRIX(30, 21), { 0 }, { 0 }, MATRIX(19, 21) }, FORM(1, 0), 0, true },
    { "b transposed", { MATRIX(17, 300), MATRIX(35, 300) }, FORM(0, 1), 0, true },
    { 0 }
};

const op_def op_library_matmul = { .name = "library_matmul",
                                   .pairs = true,
                                   .inputs = inputs,
                                   .in_count = 5,
                                   .aliases = aliases,
                                   .alias_count = 2,
                                   .out_count = 1,
                                   .attribute_bytes = sizeof(library_matmul_attributes),
                                   .traits = OP_PRODUCT,
                                   .infer = infer,
                                   .cost = cost,
                                   .cpu = matmul_cpu,
                                   .cuda = OP_CUDA(library_matmul_cuda),
                                   .cases = cases };
