#include "ops/attention_paged/attention_paged.h"

enum { Q, KEYS, VALUES, TABLE, TEXT, POSITION, KEY_SCALES, VALUE_SCALES, BIAS, PLACE, INPUTS };

tensor_id attention_paged_apply(graph *g, const attention_paged_inputs *in,
                                const attention_paged_attributes *a) {
    tensor_id all[INPUTS] = { in->q,        in->keys,       in->values,       in->table, in->text,
                              in->position, in->key_scales, in->value_scales, in->bias,  in->place };
    return graph_add(g, &op_attention_paged, all, in->bias ? INPUTS : in->key_scales ? BIAS : KEY_SCALES, a);
}

static const tensor *optional_of(const graph *g, const node *n, uint32_t i) {
    return n->in_count > i && node_in(g, n, i) ? graph_tensor(g, node_in(g, n, i)) : NULL;
}

static status check_caches(const graph *g, const node *n, const attention_paged_attributes *a) {
    const tensor *keys = graph_tensor(g, node_in(g, n, KEYS)),
                 *values = graph_tensor(g, node_in(g, n, VALUES));
    cache_write_attributes of = { .heads = a->kv_heads, .size = a->size, .keys = 1 };
    TRY(cache_check(keys, optional_of(g, n, KEY_SCALES), &of));
    of.keys = 0;
    TRY(cache_check(values, optional_of(g, n, VALUE_SCALES), &of));
    if (keys->shape.dim[0] != values->shape.dim[0] || keys->dtype != values->dtype)
        return status_set(STATUS_INVALID, "keys and values differ in their blocks or their type");
    return STATUS_OK;
}

/* `rows` stand at a place each. */
static status check_bias(const graph *g, const node *n, const attention_paged_attributes *a, int64_t rows) {
    const tensor *bias = optional_of(g, n, BIAS), *place = optional_of(g, n, PLACE);
    char text[SHAPE_TEXT_BYTES];
    if (!bias != !place)
        return status_set(STATUS_INVALID, "a bias goes with places of rows, and they with it");
    if (!bias) return STATUS_OK;
    if (a->cap > 0) return status_set(STATUS_INVALID, "scores that have a bias are not capped here");
    if (bias->shape.dim[0] != a->heads || bias->shape.dim[1] != 1 || a->here < 0 ||
        a->here >= bias->shape.dim[2])
        return status_set(STATUS_INVALID, "%s is no bias of %d heads with distance 0 at %d",
                          shape_text(&bias->shape, text), a->heads, a->here);
    if (place->shape.dim[0] != rows)
        return status_set(STATUS_INVALID, "there are %lld places of %lld rows",
                          (long long)place->shape.dim[0], (long long)rows);
    return STATUS_OK;
}

static status infer(const graph *g, const node *n, tensor *out) {
    const attention_paged_attributes *a = node_attributes(g, n);
    const tensor *q = graph_tensor(g, node_in(g, n, Q));
    char text[SHAPE_TEXT_BYTES];
    TRY(check_caches(g, n, a));
    int64_t width = (int64_t)a->heads * a->size, rows = shape_rows(&q->shape);
    if (a->heads < 1 || a->heads % a->kv_heads || width > shape_last(&q->shape))
        return status_set(STATUS_INVALID, "%d heads of %d numbers, which share keys of %d, are not in %s",
                          a->heads, a->size, a->kv_heads, shape_text(&q->shape, text));
    if (a->window < 0 || !(a->cap >= 0) || !(a->scale >= 0))
        return status_set(STATUS_INVALID, "a window, a cap or a scale of attention is below 0");
    for (uint32_t i = TEXT; i <= POSITION; i++)
        if (graph_shape(g, node_in(g, n, i))->dim[0] != rows)
            return status_set(STATUS_INVALID, "texts and positions are not one for each row of %s",
                              shape_text(&q->shape, text));
    TRY(check_bias(g, n, a, rows));
    out[0] = (tensor){ .shape = SHAPE(q->shape.dim[0], q->shape.dim[1], width), .dtype = q->dtype };
    return STATUS_OK;
}

/* Lengths are not known to a plan: texts are taken for half as long as they may become, and every row for one
 * that reads its keys and values by itself. */
static op_cost cost(const graph *g, const node *n) {
    const attention_paged_attributes *a = node_attributes(g, n);
    double rows = (double)shape_rows(graph_shape(g, node_in(g, n, Q)));
    double seen = 0.5 * (double)graph_shape(g, node_in(g, n, TABLE))->dim[1] * CACHE_BLOCK;
    if (a->window && a->window < seen) seen = a->window;
    double item = dtype_bytes(graph_tensor(g, node_in(g, n, KEYS))->dtype);
    return (op_cost){ .flops = 4 * rows * a->heads * a->size * seen,
                      .bytes_read = 2 * rows * a->kv_heads * a->size * seen * item,
                      .bytes_written =
                          rows * a->heads * a->size * dtype_bytes(graph_tensor(g, node_in(g, n, Q))->dtype),
                      .kind = WORK_ATTENTION };
}

#define CACHED (DTYPE_MASK_FLOAT | 1u << DTYPE_I8)
static const op_input inputs[] = { { "q", DTYPE_MASK_FLOAT, 3, 3, false },
                                   { "keys", CACHED, 4, 4, false },
                                   { "values", CACHED, 4, 4, false },
                                   { "table", DTYPE_MASK_INT, 2, 2, false },
                                   { "text", DTYPE_MASK_INT, 1, 1, false },
                                   { "position", DTYPE_MASK_INT, 1, 1, false },
                                   { "key_scales", 1u << DTYPE_F32, 3, 3, true },
                                   { "value_scales", 1u << DTYPE_F32, 3, 3, true },
                                   { "bias", 1u << DTYPE_F32, 3, 3, true },
                                   { "place", DTYPE_MASK_INT, 1, 1, true } };

#define REAL(type, ...)                                                                                      \
    { type, { { __VA_ARGS__ }, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int) }, -2, 2 }
#define CODES(...)                                                                                           \
    { DTYPE_I8, { { __VA_ARGS__ }, 4 }, -127, 128 }
#define NUMBERS(low, high, ...)                                                                              \
    { DTYPE_I32, { { __VA_ARGS__ }, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int) }, low, high }
#define SCALES(...)                                                                                          \
    { DTYPE_F32, { { __VA_ARGS__ }, 3 }, 0, 0.02 }
#define NONE                                                                                                 \
    { DTYPE_NONE, { { 0 }, 0 }, 0, 0 }

static const attention_paged_attributes
    plain = { .heads = 3, .kv_heads = 3, .size = 20 },
    shared = { .heads = 8, .kv_heads = 2, .size = 16, .scale = 0.3F },
    capped = { .heads = 4, .kv_heads = 4, .size = 33, .cap = 2, .window = 21 },
    behind = { .heads = 3, .kv_heads = 3, .size = 20, .scale = 1, .here = 11 },
    around = { .heads = 8, .kv_heads = 2, .size = 16, .scale = 1, .here = 100 };

static const op_case cases[] = {
    { "plain",
      { REAL(DTYPE_F32, 1, 9, 180), REAL(DTYPE_F32, 7, 3, 20, 16), REAL(DTYPE_F32, 7, 3, 16, 20),
        NUMBERS(0, 7, 4, 5), NUMBERS(0, 4, 9), NUMBERS(0, 80, 9) },
      &plain,
      0,
      true },
    { "shared keys, one text",
      { REAL(DTYPE_F32, 1, 6, 128), REAL(DTYPE_F32, 30, 2, 16, 16), REAL(DTYPE_F32, 30, 2, 16, 16),
        NUMBERS(0, 30, 1, 20), NUMBERS(0, 1, 6), NUMBERS(0, 320, 6) },
      &shared,
      0,
      true },
    { "segments",
      { REAL(DTYPE_F32, 1, 5, 128), REAL(DTYPE_F32, 90, 2, 16, 16), REAL(DTYPE_F32, 90, 2, 16, 16),
        NUMBERS(0, 90, 2, 80), NUMBERS(0, 2, 5), NUMBERS(500, 1280, 5) },
      &shared,
      0,
      true },
    { "outside",
      { REAL(DTYPE_F32, 1, 40, 128), REAL(DTYPE_F32, 5, 2, 16, 16), REAL(DTYPE_F32, 5, 2, 16, 16),
        NUMBERS(-3, 9, 2, 3), NUMBERS(-1, 3, 40), NUMBERS(-9, 60, 40) },
      &shared,
      0,
      true },
    { "window and cap",
      { REAL(DTYPE_F32, 1, 12, 132), REAL(DTYPE_F32, 9, 4, 33, 16), REAL(DTYPE_F32, 9, 4, 16, 33),
        NUMBERS(0, 9, 2, 24), NUMBERS(0, 2, 12), NUMBERS(0, 384, 12) },
      &capped,
      0,
      true },
    { "halves",
      { REAL(DTYPE_BF16, 1, 9, 180), REAL(DTYPE_BF16, 7, 3, 20, 16), REAL(DTYPE_BF16, 7, 3, 16, 20),
        NUMBERS(0, 7, 4, 5), NUMBERS(0, 4, 9), NUMBERS(0, 80, 9) },
      &plain,
      0,
      true },
    { "f16 of f32",
      { REAL(DTYPE_F32, 1, 6, 128), REAL(DTYPE_F16, 30, 2, 16, 16), REAL(DTYPE_F16, 30, 2, 16, 16),
        NUMBERS(0, 30, 1, 20), NUMBERS(0, 1, 6), NUMBERS(0, 320, 6) },
      &shared,
      0,
      true },
    { "codes",
      { REAL(DTYPE_F32, 1, 9, 180), CODES(7, 3, 20, 16), CODES(7, 3, 16, 20), NUMBERS(0, 7, 4, 5),
        NUMBERS(0, 4, 9), NUMBERS(0, 80, 9), SCALES(7, 3, 16), SCALES(7, 3, 16) },
      &plain,
      0,
      true },
    { "bias behind the row",
      { REAL(DTYPE_F32, 1, 9, 60), REAL(DTYPE_F32, 7, 3, 20, 16), REAL(DTYPE_F32, 7, 3, 16, 20),
        NUMBERS(0, 7, 4, 5), NUMBERS(0, 4, 9), NUMBERS(0, 80, 9), NONE, NONE, REAL(DTYPE_F32, 3, 1, 12),
        NUMBERS(0, 80, 9) },
      &behind,
      0,
      true },
    { "bias around the row, codes",
      { REAL(DTYPE_F32, 1, 40, 128), CODES(40, 2, 16, 16), CODES(40, 2, 16, 16), NUMBERS(0, 40, 1, 40),
        NUMBERS(0, 1, 40), NUMBERS(630, 640, 40), SCALES(40, 2, 16), SCALES(40, 2, 16),
        REAL(DTYPE_F32, 8, 1, 201), NUMBERS(0, 640, 40) },
      &around,
      0,
      true },
    { 0 }
};

const op_def op_attention_paged = { .name = "attention_paged",
                                    .paper = "arXiv:2309.06180",
                                    .inputs = inputs,
                                    .in_count = INPUTS,
                                    .out_count = 1,
                                    .attribute_bytes = sizeof(attention_paged_attributes),
                                    .traits = OP_HALF,
                                    .infer = infer,
                                    .cost = cost,
                                    .cpu = attention_paged_cpu,
                                    .cuda = OP_CUDA(attention_paged_cuda),
                                    .cases = cases };
