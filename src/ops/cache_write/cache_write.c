#include "ops/cache_write/cache_write.h"

enum { CACHE, X, SLOT, SCALES };

cache_tensors cache_write_apply(graph *g, const cache_tensors *to, tensor_id x, tensor_id slot,
                                const cache_write_attributes *attributes) {
    tensor_id in[] = { to->cache, x, slot, to->scales };
    tensor_id out = graph_add(g, &op_cache_write, in, to->scales ? 4 : 3, attributes);
    return (cache_tensors){ out, to->scales ? out + 1 : 0 };
}

shape cache_write_shape(const cache_write_attributes *a, int64_t blocks) {
    return a->keys ? SHAPE(blocks, a->heads, a->size, CACHE_BLOCK)
                   : SHAPE(blocks, a->heads, CACHE_BLOCK, a->size);
}

shape cache_write_scales_shape(const cache_write_attributes *a, int64_t blocks) {
    return SHAPE(blocks, a->heads, CACHE_BLOCK);
}

status cache_check(const tensor *cache, const tensor *scales, const cache_write_attributes *a) {
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    if (a->heads < 1 || a->size < 1 || a->size > CACHE_MOST_SIZE)
        return status_set(STATUS_INVALID, "a cache has heads of 1 to %d numbers, not %d of %d",
                          CACHE_MOST_SIZE, a->heads, a->size);
    shape whole = cache_write_shape(a, cache->shape.dim[0]),
          by = cache_write_scales_shape(a, cache->shape.dim[0]);
    if (!shape_equal(&cache->shape, &whole))
        return status_set(STATUS_INVALID, "the cache is %s, not %s", shape_text(&cache->shape, is),
                          shape_text(&whole, should));
    if ((cache->dtype == DTYPE_I8) != (scales != NULL))
        return status_set(STATUS_INVALID, "a cache has scales if and only if it holds codes");
    if (scales && !shape_equal(&scales->shape, &by))
        return status_set(STATUS_INVALID, "the scales are %s, not %s", shape_text(&scales->shape, is),
                          shape_text(&by, should));
    return STATUS_OK;
}

static const tensor *scales_of(const graph *g, const node *n) {
    return n->in_count > SCALES && node_in(g, n, SCALES) ? graph_tensor(g, node_in(g, n, SCALES)) : NULL;
}

static uint8_t outputs(const graph *g, const node *n) { return scales_of(g, n) ? 2 : 1; }

static status infer(const graph *g, const node *n, tensor *out) {
    const cache_write_attributes *a = node_attributes(g, n);
    const tensor *cache = graph_tensor(g, node_in(g, n, CACHE)), *x = graph_tensor(g, node_in(g, n, X));
    const tensor *scales = scales_of(g, n);
    char text[SHAPE_TEXT_BYTES];
    TRY(cache_check(cache, scales, a));
    int64_t width = (int64_t)a->heads * a->size, rows = graph_shape(g, node_in(g, n, SLOT))->dim[0];
    if (a->column < 0 || a->column + width > shape_last(&x->shape))
        return status_set(STATUS_INVALID, "columns %d to %lld are not in %s", a->column,
                          (long long)(a->column + width), shape_text(&x->shape, text));
    if (rows != shape_rows(&x->shape))
        return status_set(STATUS_INVALID, "%lld slots are not one for each row of %s", (long long)rows,
                          shape_text(&x->shape, text));
    out[0] = (tensor){ .shape = cache->shape, .dtype = cache->dtype };
    if (scales) out[1] = (tensor){ .shape = scales->shape, .dtype = scales->dtype };
    return STATUS_OK;
}

static op_cost cost(const graph *g, const node *n) {
    const cache_write_attributes *a = node_attributes(g, n);
    const tensor *x = graph_tensor(g, node_in(g, n, X));
    double numbers = (double)shape_rows(&x->shape) * a->heads * a->size;
    return (op_cost){ .flops = 0,
                      .bytes_read = numbers * dtype_bytes(x->dtype),
                      .bytes_written = numbers * dtype_bytes(graph_tensor(g, node_in(g, n, CACHE))->dtype) };
}

static const op_input inputs[] = { { "cache", DTYPE_MASK_FLOAT | 1u << DTYPE_I8, 4, 4, false },
                                   { "x", DTYPE_MASK_FLOAT, 3, 3, false },
                                   { "slot", DTYPE_MASK_INT, 1, 1, false },
                                   { "scales", 1u << DTYPE_F32, 3, 3, true } };
static const op_alias aliases[] = { { .out = 0, .in = CACHE, .must = true },
                                    { .out = 1, .in = SCALES, .must = true } };

/* In harness cases two rows may draw the same slot, so those of several rows have none within the cache: such
 * calls are in tests/ops/test_paged.c. */
static const cache_write_attributes keys = { .column = 6, .heads = 2, .size = 3, .keys = 1 },
                                    values = { .column = 9, .heads = 3, .size = 20 };

#define REAL(type, ...)                                                                                      \
    { type, { { __VA_ARGS__ }, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int) }, -1, 1 }
#define SLOTS(n, low, high)                                                                                  \
    { DTYPE_I32, { { n }, 1 }, low, high }

static const op_case cases[] = {
    { "keys", { REAL(DTYPE_F32, 4, 2, 3, 16), REAL(DTYPE_F32, 1, 1, 15), SLOTS(1, 0, 64) }, &keys, 0, true },
    { "values",
      { REAL(DTYPE_F32, 2, 3, 16, 20), REAL(DTYPE_F32, 1, 1, 70), SLOTS(1, 0, 32) },
      &values,
      0,
      true },
    { "below",
      { REAL(DTYPE_F32, 2, 3, 16, 20), REAL(DTYPE_F32, 1, 5, 70), SLOTS(5, -9, 0) },
      &values,
      0,
      true },
    { "above",
      { REAL(DTYPE_F32, 2, 3, 16, 20), REAL(DTYPE_F32, 1, 5, 70), SLOTS(5, 32, 99) },
      &values,
      0,
      true },
    { "rounded",
      { REAL(DTYPE_BF16, 4, 2, 3, 16), REAL(DTYPE_F32, 1, 1, 15), SLOTS(1, 0, 64) },
      &keys,
      0,
      true },
    { "f16 of f16",
      { REAL(DTYPE_F16, 2, 3, 16, 20), REAL(DTYPE_F16, 1, 1, 70), SLOTS(1, 0, 32) },
      &values,
      0,
      true },
    { "f16 of bf16",
      { REAL(DTYPE_F16, 2, 3, 16, 20), REAL(DTYPE_BF16, 1, 1, 70), SLOTS(1, 0, 32) },
      &values,
      0,
      true },
    { "codes across",
      { { DTYPE_I8, { { 4, 2, 3, 16 }, 4 }, -127, 128 },
        REAL(DTYPE_F32, 1, 1, 15),
        SLOTS(1, 0, 64),
        REAL(DTYPE_F32, 4, 2, 16) },
      &keys,
      0,
      true },
    { "codes",
      { { DTYPE_I8, { { 2, 3, 16, 20 }, 4 }, -127, 128 },
        REAL(DTYPE_BF16, 1, 1, 70),
        SLOTS(1, 0, 32),
        REAL(DTYPE_F32, 2, 3, 16) },
      &values,
      0,
      true },
    { 0 }
};

const op_def op_cache_write = { .name = "cache_write",
                                .paper = "arXiv:2309.06180",
                                .inputs = inputs,
                                .in_count = 4,
                                .aliases = aliases,
                                .alias_count = 2,
                                .outputs = outputs,
                                .attribute_bytes = sizeof(cache_write_attributes),
                                .traits = OP_HALF,
                                .infer = infer,
                                .cost = cost,
                                .cpu = cache_write_cpu,
                                .cuda = OP_CUDA(cache_write_cuda),
                                .cases = cases };
