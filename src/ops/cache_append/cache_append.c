#include "ops/cache_append/cache_append.h"

tensor_id cache_append_apply(graph *g, tensor_id cache, tensor_id x, tensor_id offset,
                             const cache_append_attributes *attributes) {
    return graph_add(g, &op_cache_append, (tensor_id[]){ cache, x, offset }, 3, attributes);
}

static status infer(const graph *g, const node *n, tensor *out) {
    const cache_append_attributes *a = node_attributes(g, n);
    const tensor *cache = graph_tensor(g, node_in(g, n, 0)), *x = graph_tensor(g, node_in(g, n, 1));
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (a->column < 0 || a->width < 1 || (int64_t)a->column + a->width > x->shape.dim[2])
        return status_set(STATUS_INVALID, "columns %d to %d are not in %s", a->column, a->column + a->width,
                          shape_text(&x->shape, left));
    if (cache->shape.dim[0] != x->shape.dim[0] || cache->shape.dim[2] != a->width || cache->dtype != x->dtype)
        return status_set(STATUS_INVALID, "a cache %s cannot take %d columns of %s",
                          shape_text(&cache->shape, left), a->width, shape_text(&x->shape, right));
    if (graph_shape(g, node_in(g, n, 2))->dim[0] != 1)
        return status_set(STATUS_INVALID, "the offset is one number");
    out[0] = (tensor){ .shape = cache->shape, .dtype = cache->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    const cache_append_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, 1));
    double bytes = (double)(shape_rows(&x->shape) * a->width) * dtype_bytes(x->dtype);
    return (op_cost){ .flops = 0, .bytes_read = bytes, .bytes_written = bytes };
}

static const op_input inputs[] = { { "cache", DTYPE_MASK_FLOAT, 3, 3, false },
                                   { "x", DTYPE_MASK_FLOAT, 3, 3, false },
                                   { "offset", DTYPE_MASK_INT, 1, 1, false } };
static const op_alias aliases[] = { { .out = 0, .in = 0, .must = true } };

#define REAL(...)                                                                                            \
    { DTYPE_F32, { { __VA_ARGS__ }, 3 }, -1, 1 }
#define OFFSET(o)                                                                                            \
    { DTYPE_I32, { { 1 }, 1 }, o, (o) + 1 }

static const cache_append_attributes middle = { .column = 5, .width = 7 },
                                     whole = { .column = 0, .width = 3 };

static const op_case cases[] = {
    { "middle", { REAL(2, 9, 7), REAL(2, 3, 15), OFFSET(4) }, &middle, 0, true },
    { "step", { REAL(3, 5, 3), REAL(3, 1, 3), OFFSET(4) }, &whole, 0, true },
    { "over", { REAL(2, 5, 3), REAL(2, 4, 3), OFFSET(3) }, &whole, 0, true },
    { "under", { REAL(2, 5, 3), REAL(2, 4, 3), OFFSET(-2) }, &whole, 0, true },
    { "long", { REAL(1, 600, 7), REAL(1, 500, 15), OFFSET(60) }, &middle, 0, true },
    { 0 }
};

const op_def op_cache_append = { .name = "cache_append",
                                 .inputs = inputs,
                                 .in_count = 3,
                                 .aliases = aliases,
                                 .alias_count = 1,
                                 .out_count = 1,
                                 .attribute_bytes = sizeof(cache_append_attributes),
                                 .infer = infer,
                                 .cost = cost,
                                 .cpu = cache_append_cpu,
                                 .cuda = OP_CUDA(cache_append_cuda),
                                 .cases = cases };
