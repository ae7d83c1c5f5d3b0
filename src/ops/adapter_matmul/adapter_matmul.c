#include "ops/adapter_matmul/adapter_matmul.h"

enum { Y, X, ADAPTER, FIRST };

tensor_id adapter_matmul_apply(graph *g, const adapter_matmul_inputs *in,
                               const adapter_matmul_attributes *a) {
    tensor_id all[FIRST + 2 * ADAPTERS_MOST] = { in->y, in->x, in->adapter };
    if (in->count < 1 || in->count > ADAPTERS_MOST)
        return graph_fail(g, "there are 1 to %d adapters at once, not %u", ADAPTERS_MOST, in->count);
    for (uint32_t k = 0; k < in->count; k++)
        all[FIRST + 2 * k] = in->of[k].a, all[FIRST + 2 * k + 1] = in->of[k].b;
    return graph_add(g, &op_adapter_matmul, all, FIRST + 2 * in->count, a);
}

/* Of adapter k: 0, or its rank. */
static int64_t rank_of(const graph *g, const node *n, uint32_t k) {
    tensor_id a = node_in(g, n, FIRST + 2 * k);
    return a ? graph_shape(g, a)->dim[0] : 0;
}

static status check_pair(const graph *g, const node *n, uint32_t k, int64_t in, int64_t out) {
    tensor_id a = node_in(g, n, FIRST + 2 * k), b = node_in(g, n, FIRST + 2 * k + 1);
    if (!a != !b) return status_set(STATUS_INVALID, "adapter %u has one matrix of two", k);
    if (!a) return STATUS_OK;
    shape down = SHAPE(rank_of(g, n, k), in), up = SHAPE(out, rank_of(g, n, k));
    if (shape_equal(graph_shape(g, a), &down) && shape_equal(graph_shape(g, b), &up)) return STATUS_OK;
    return status_set(STATUS_INVALID, "the matrices of adapter %u are not of %lld and %lld columns", k,
                      (long long)in, (long long)out);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const tensor *y = graph_tensor(g, node_in(g, n, Y)), *x = graph_tensor(g, node_in(g, n, X));
    int64_t rows = shape_rows(&y->shape);
    if (shape_rows(&x->shape) != rows || graph_shape(g, node_in(g, n, ADAPTER))->dim[0] != rows)
        return status_set(STATUS_INVALID, "rows of y, of x and numbers of adapters are not as many");
    if (n->in_count < FIRST + 2 || (n->in_count - FIRST) % 2 || n->in_count > FIRST + 2 * ADAPTERS_MOST)
        return status_set(STATUS_INVALID, "there are 1 to %d adapters with two matrices each", ADAPTERS_MOST);
    for (uint32_t k = 0; k < (n->in_count - FIRST) / 2u; k++)
        TRY(check_pair(g, n, k, shape_last(&x->shape), shape_last(&y->shape)));
    out[0] = (tensor){ .shape = y->shape, .dtype = y->dtype };
    return STATUS_OK;
}

/* Which rows have which adapter a plan does not know: each is taken for one of the largest rank, and all
 * matrices are read. */
static op_cost cost(const graph *g, const node *n) {
    const shape *y = graph_shape(g, node_in(g, n, Y)), *x = graph_shape(g, node_in(g, n, X));
    double rows = (double)shape_rows(y), wide = (double)shape_last(y) + (double)shape_last(x), all = 0,
           most = 0;
    for (uint32_t k = 0; k < (n->in_count - FIRST) / 2u; k++) {
        double rank = (double)rank_of(g, n, k);
        all += rank;
        if (rank > most) most = rank;
    }
    return (op_cost){ .flops = 2 * rows * most * wide,
                      .bytes_read = 4 * (all * wide + rows * wide),
                      .bytes_written = 4 * rows * (double)shape_last(y),
                      .kind = WORK_PRODUCTS };
}

static const op_input inputs[] = { { "y", DTYPE_MASK_FLOAT, 2, 3, false },
                                   { "x", DTYPE_MASK_FLOAT, 2, 3, false },
                                   { "adapter", DTYPE_MASK_INT, 1, 1, false },
                                   { "matrix", 1u << DTYPE_F32, 2, 2, true } };
static const op_alias aliases[] = { { .out = 0, .in = Y, .must = false } };

#define REAL(...)                                                                                            \
    { DTYPE_F32, { { __VA_ARGS__ }, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int) }, -1, 1 }
#define NUMBERS(n, low, high)                                                                                \
    { DTYPE_I32, { { n }, 1 }, low, high }
#define NONE                                                                                                 \
    { DTYPE_NONE, { { 0 }, 0 }, 0, 0 }

static const adapter_matmul_attributes two = { { 2, 0.5F } }, three = { { 1, 4, 0.25F } };

static const op_case cases[] = { { "two",
                                   { REAL(1, 9, 33), REAL(1, 9, 40), NUMBERS(9, -1, 2), REAL(8, 40),
                                     REAL(33, 8), REAL(3, 40), REAL(33, 3) },
                                   &two,
                                   0,
                                   true },
                                 { "one of three",
                                   { REAL(1, 90, 70), REAL(1, 90, 300), NUMBERS(90, -2, 5), NONE, NONE,
                                     REAL(16, 300), REAL(70, 16), NONE, NONE },
                                   &three,
                                   0,
                                   true },
                                 { "a row",
                                   { REAL(1, 1, 70), REAL(1, 1, 300), NUMBERS(1, 0, 1), REAL(4, 300),
                                     REAL(70, 4) },
                                   &two,
                                   0,
                                   true },
                                 { 0 } };

const op_def op_adapter_matmul = { .name = "adapter_matmul",
                                   .paper = "arXiv:2106.09685",
                                   .inputs = inputs,
                                   .in_count = 4,
                                   .variadic = true,
                                   .aliases = aliases,
                                   .alias_count = 1,
                                   .out_count = 1,
                                   .attribute_bytes = sizeof(adapter_matmul_attributes),
                                   .infer = infer,
                                   .cost = cost,
                                   .cpu = adapter_matmul_cpu,
                                   .cuda = OP_CUDA(adapter_matmul_cuda),
                                   .cases = cases };
