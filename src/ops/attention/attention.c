#include "ops/attention/attention.h"

#include "base/least.h"
#include "ops/add/add.h"
#include "ops/attention/attention_cases.h"

tensor_id attention_apply(graph *g, const attention_inputs *in, const attention_attributes *attributes) {
    tensor_id ids[] = { in->q, in->k, in->v, in->lengths, in->segments, in->offset, in->key, in->bias };
    return graph_add(g, &op_attention, ids, 8, attributes);
}

/* ---- shapes ---- */

attention_sizes attention_sizes_of(const shape *q, const shape *k, const attention_attributes *a) {
    int64_t heads = a->heads, kv_heads = a->kv_heads ? a->kv_heads : a->heads;
    attention_sizes sizes = {
        .batch = q->dim[0], .queries = q->dim[1], .heads = heads, .kv_heads = kv_heads
    };
    sizes.keys = k ? k->dim[1] : q->dim[1];
    sizes.size = q->dim[2] / (k ? heads : heads + 2 * kv_heads);
    return sizes;
}

static status check_attributes(const attention_attributes *a) {
    int64_t kv_heads = a->kv_heads ? a->kv_heads : a->heads;
    if (a->heads < 1 || kv_heads < 1 || a->heads % kv_heads)
        return status_set(STATUS_INVALID, "%d heads cannot share %d heads of keys", a->heads, a->kv_heads);
    if (!(a->dropout >= 0 && a->dropout < 1))
        return status_set(STATUS_INVALID, "dropout is %g; it must be in [0,1)", (double)a->dropout);
    if (a->window < 0)
        return status_set(STATUS_INVALID, "the window is %d; it cannot be negative", a->window);
    if (!(a->cap >= 0))
        return status_set(STATUS_INVALID, "the cap of scores is %g; it cannot be negative", (double)a->cap);
    return STATUS_OK;
}

static status check_operands(const tensor *q, const tensor *k, const tensor *v,
                             const attention_attributes *a) {
    int64_t kv_heads = a->kv_heads ? a->kv_heads : a->heads;
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (!k != !v)
        return status_set(STATUS_INVALID,
                          "keys and values must both be given or both be packed with the queries");
    int64_t parts = k ? a->heads : a->heads + 2 * kv_heads;
    if (q->shape.dim[2] % parts)
        return status_set(STATUS_INVALID, "queries %s cannot be cut into %lld heads",
                          shape_text(&q->shape, left), (long long)parts);
    if (!k) return STATUS_OK;
    if (!shape_equal(&k->shape, &v->shape) || k->dtype != q->dtype || v->dtype != q->dtype)
        return status_set(STATUS_INVALID, "keys %s and values %s must be alike, of the type of the queries",
                          shape_text(&k->shape, left), shape_text(&v->shape, right));
    if (k->shape.dim[0] != q->shape.dim[0] || k->shape.dim[2] * a->heads != q->shape.dim[2] * kv_heads)
        return status_set(
            STATUS_INVALID, "keys %s do not fit queries %s with %d heads and %lld heads of keys",
            shape_text(&k->shape, left), shape_text(&q->shape, right), a->heads, (long long)kv_heads);
    return STATUS_OK;
}

static status check_sides(const graph *g, const node *n, uint32_t side, const attention_sizes *z) {
    const attention_attributes *a = node_attributes(g, n);
    tensor_id lengths = node_in(g, n, side), segments = node_in(g, n, side + 1);
    tensor_id offset = node_in(g, n, side + 2), key = node_in(g, n, side + 3);
    if (lengths && graph_shape(g, lengths)->dim[0] != z->batch)
        return status_set(STATUS_INVALID, "%lld lengths for %lld samples",
                          (long long)graph_shape(g, lengths)->dim[0], (long long)z->batch);
    if (segments && !shape_equal(graph_shape(g, segments), &SHAPE(z->batch, z->queries)))
        return status_set(STATUS_INVALID, "segments must be (%lld,%lld), as the queries", (long long)z->batch,
                          (long long)z->queries);
    if (segments && z->keys != z->queries)
        return status_set(STATUS_INVALID, "segments need as many keys as queries, not %lld and %lld",
                          (long long)z->keys, (long long)z->queries);
    if (offset && graph_shape(g, offset)->dim[0] != 1)
        return status_set(STATUS_INVALID, "the offset is one number");
    if (key && graph_shape(g, key)->dim[0] != 4)
        return status_set(STATUS_INVALID, "the random key is four numbers");
    shape scores = SHAPE(z->heads, z->queries, z->keys);
    tensor_id bias = node_in(g, n, side + 4);
    if (bias && !shape_equal(graph_shape(g, bias), &scores))
        return status_set(STATUS_INVALID, "the bias must be (%lld,%lld,%lld), as the scores of a sample",
                          (long long)z->heads, (long long)z->queries, (long long)z->keys);
    if (bias && a->cap > 0) return status_set(STATUS_INVALID, "scores have a bias or a cap, not both");
    if (a->dropout > 0 && !key) return status_set(STATUS_INVALID, "dropout needs the random key");
    return STATUS_OK;
}

status attention_check(const graph *g, const node *n, uint32_t side, attention_sizes *sizes) {
    const attention_attributes *a = node_attributes(g, n);
    const tensor *q = graph_tensor(g, node_in(g, n, 0));
    tensor_id k = node_in(g, n, 1), v = node_in(g, n, 2);
    TRY(check_attributes(a));
    TRY(check_operands(q, k ? graph_tensor(g, k) : NULL, v ? graph_tensor(g, v) : NULL, a));
    *sizes = attention_sizes_of(&q->shape, k ? graph_shape(g, k) : NULL, a);
    return check_sides(g, n, side, sizes);
}

static status infer(const graph *g, const node *n, tensor *out) {
    attention_sizes z;
    TRY(attention_check(g, n, 3, &z));
    uint8_t type = graph_tensor(g, node_in(g, n, 0))->dtype;
    out[0] = (tensor){ .shape = SHAPE(z.batch, z.queries, z.heads * z.size), .dtype = type };
    out[1] = (tensor){ .shape = SHAPE(z.batch, z.heads, z.queries, z.keys),
                       .dtype = (uint8_t)dtype_wide((dtype)type) };
    return STATUS_OK;
}

/* ---- gradient ---- */

static tensor_id bias_of(const graph *g, const node *backward) {
    return node_in(g, backward, backward->op->in_count - 1u);
}

uint8_t attention_gradient_outputs(const graph *g, const node *n) {
    return (uint8_t)((node_in(g, n, 1) ? 3 : 1) + (bias_of(g, n) ? 1 : 0));
}

void attention_gradient_shapes(const graph *g, const node *n, tensor *out) {
    uint32_t count = attention_gradient_outputs(g, n);
    for (uint32_t i = 0; i < count; i++) {
        bool last = i + 1 == count && bias_of(g, n);
        const tensor *x = graph_tensor(g, last ? bias_of(g, n) : node_in(g, n, i));
        out[i] = (tensor){ .shape = x->shape, .dtype = x->dtype };
    }
}

void attention_gradient_gather(graph *g, const node *n, tensor_id first, const bool *want, tensor_id *din) {
    uint32_t count = node_in(g, n, 1) ? 3 : 1;
    for (uint32_t i = 0; i < count && first; i++)
        if (want[i]) din[i] = add_gather(g, din[i], first + i);
    if (first && node_in(g, n, ATTENTION_BIAS) && want[ATTENTION_BIAS])
        din[ATTENTION_BIAS] = add_gather(g, din[ATTENTION_BIAS], first + count);
}

static void grad(graph *g, node_id id, const tensor_id *dout, const bool *want, tensor_id *din) {
    const node *n = graph_node(g, id);
    if (dout[1]) {
        graph_fail(g, "attention: its probabilities have no gradient of their own");
        return;
    }
    if (!dout[0] || !(want[0] || want[1] || want[2] || want[ATTENTION_BIAS])) return;
    tensor_id in[] = { node_in(g, n, 0), node_in(g, n, 1), node_in(g, n, 2), node_out(g, n, 1),
                       dout[0],          node_in(g, n, 3), node_in(g, n, 4), node_in(g, n, 5),
                       node_in(g, n, 6), node_in(g, n, 7) };
    tensor_id first = graph_add(g, &op_attention_backward, in, 10, node_attributes(g, n));
    attention_gradient_gather(g, graph_node(g, id), first, want, din);
}

static status infer_backward(const graph *g, const node *n, tensor *out) {
    attention_sizes z;
    TRY(attention_check(g, n, 5, &z));
    if (!shape_equal(graph_shape(g, node_in(g, n, 3)), &SHAPE(z.batch, z.heads, z.queries, z.keys)))
        return status_set(STATUS_INVALID, "the probabilities must be (B,H,T,S)");
    if (!shape_equal(graph_shape(g, node_in(g, n, 4)), &SHAPE(z.batch, z.queries, z.heads * z.size)))
        return status_set(STATUS_INVALID, "the gradient of the result must be (B,T,H*D)");
    uint8_t type = graph_tensor(g, node_in(g, n, 0))->dtype;
    if (graph_tensor(g, node_in(g, n, 3))->dtype != dtype_wide((dtype)type) ||
        graph_tensor(g, node_in(g, n, 4))->dtype != type)
        return status_set(STATUS_INVALID,
                          "queries and gradient must be of one type, and the probabilities not of 16 bits");
    attention_gradient_shapes(g, n, out);
    return STATUS_OK;
}

/* ---- cost ---- */

/* The sum of min(t + first, most) over t = 0 .. count-1. */
static double ramp(int64_t count, int64_t first, int64_t most) {
    int64_t rising = most - first + 1 > 0 ? least(count, most - first + 1) : 0;
    return (double)rising * (double)(rising - 1) / 2 + (double)first * (double)rising +
           (double)most * (double)(count - rising);
}

/* Keys before the query's own, or up to `window` - 1 on either side of it. */
static double pairs_in_window(const attention_attributes *a, const attention_sizes *z, bool offset) {
    if (offset) return (double)z->queries * (double)least(z->keys, a->window);
    int64_t seeing = least(z->queries, z->keys + a->window - 1); /* later ones see none */
    double before = seeing > a->window ? ramp(seeing - a->window, 1, INT64_MAX / 2) : 0;
    return ramp(seeing, a->causal ? 1 : a->window, z->keys) - before;
}

/* Whole tiles that see less than all keys, the one that is cut, and those that see all keys. */
static double pairs_in_tiles(const attention_sizes *z, int64_t tile) {
    int64_t whole = least(z->queries, z->keys) / tile, at = whole * tile, end = least(at + tile, z->queries);
    return (double)tile * (double)tile * (double)whole * (double)(whole + 1) / 2 +
           (double)(end - at) * (double)least(end, z->keys) + (double)(z->queries - end) * (double)z->keys;
}

/* Pairs of a query and a key that it sees, by shape: lengths, segments and an offset are not known here. With
 * `tile` above 1 those that tiles of so many queries compute where attention is causal. */
static double pairs_seen(const attention_attributes *a, const attention_sizes *z, bool offset, int64_t tile) {
    double samples = (double)z->batch * (double)z->heads;
    if (a->window) return pairs_in_window(a, z, offset) * samples;
    if (!a->causal || offset) return (double)z->queries * (double)z->keys * samples;
    return pairs_in_tiles(z, tile) * samples;
}

/* For each product: scaling, packing and unpacking of a query's row cost as much as so many operations for
 * each of its elements, and the exponential of a pair somewhat more than its share of flops. */
op_cost attention_cost(const graph *g, const node *n, uint32_t side, double products) {
    enum { TILE = 64, PAIR = 40, ROW = 130 };
    const attention_attributes *a = node_attributes(g, n);
    tensor_id k = node_in(g, n, 1);
    attention_sizes z = attention_sizes_of(graph_shape(g, node_in(g, n, 0)), k ? graph_shape(g, k) : NULL, a);
    op_cost cost = op_cost_elementwise(g, n, 0);
    bool offset = node_in(g, n, side + 2) != 0;
    double seen = pairs_seen(a, &z, offset, 1), computed = pairs_seen(a, &z, offset, TILE);
    double rows = (double)z.batch * (double)z.heads * (double)z.queries, size = (double)z.size;
    bool half = dtype_is_half((dtype)graph_tensor(g, node_in(g, n, 0))->dtype);
    cost.kind = half ? WORK_ATTENTION_HALF : WORK_ATTENTION;
    cost.flops = seen * (2 * products * size + 16);
    cost.work = computed * (2 * products * size + PAIR) + rows * size * ROW * products;
    cost.draws = a->dropout > 0 ? computed : 0;
    return cost;
}

static op_cost cost(const graph *g, const node *n) { return attention_cost(g, n, 3, 2); }

/* Five: the gradient of the probabilities is made twice, once for its sum over the keys. */
static op_cost cost_backward(const graph *g, const node *n) { return attention_cost(g, n, 5, 5); }

/* ---- the ops ---- */

const op_def op_attention = { .name = "attention",
                              .paper = "arXiv:1706.03762",
                              .inputs = attention_inputs_of_forward,
                              .in_count = ATTENTION_INPUTS,
                              .out_count = 2,
                              .attribute_bytes = sizeof(attention_attributes),
                              .traits = OP_RANDOM | OP_PRODUCT,
                              .infer = infer,
                              .grad = grad,
                              .cost = cost,
                              .cpu = attention_cpu,
                              .cuda = OP_CUDA(attention_cuda),
                              .cases = attention_cases_of_forward };

#define PROBS(...)                                                                                           \
    { DTYPE_F32, { { __VA_ARGS__ }, 4 }, 0, 0.2 }

static const op_input backward_inputs[] = {
    { "q", DTYPE_MASK_FLOAT, 3, 3, false },     { "k", DTYPE_MASK_FLOAT, 3, 3, true },
    { "v", DTYPE_MASK_FLOAT, 3, 3, true },      { "probs", DTYPE_MASK_FLOAT, 4, 4, false },
    { "dy", DTYPE_MASK_FLOAT, 3, 3, false },    { "lengths", DTYPE_MASK_INT, 1, 1, true },
    { "segments", DTYPE_MASK_INT, 2, 2, true }, { "offset", DTYPE_MASK_INT, 1, 1, true },
    { "key", DTYPE_MASK_INT, 1, 1, true },      { "bias", DTYPE_MASK_FLOAT, 3, 3, true }
};

static const op_case backward_cases[] = {
    { "capped",
      { ATTENTION_REAL(2, 70, 24), ATTENTION_NONE, ATTENTION_NONE, PROBS(2, 2, 70, 70),
        ATTENTION_REAL(2, 70, 8) },
      &attention_case_capped,
      0,
      true },
    { "packed",
      { ATTENTION_REAL(2, 5, 36), ATTENTION_NONE, ATTENTION_NONE, PROBS(2, 3, 5, 5),
        ATTENTION_REAL(2, 5, 12) },
      &attention_case_plain,
      0,
      true },
    { "packed_causal",
      { ATTENTION_REAL(1, 70, 24), ATTENTION_NONE, ATTENTION_NONE, PROBS(1, 2, 70, 70),
        ATTENTION_REAL(1, 70, 8) },
      &attention_case_causal,
      0,
      true },
    { "packed_long",
      { ATTENTION_REAL(1, 300, 18), ATTENTION_NONE, ATTENTION_NONE, PROBS(1, 2, 300, 300),
        ATTENTION_REAL(1, 300, 6) },
      &attention_case_causal,
      0,
      true },
    { "packed_widest",
      { ATTENTION_REAL(1, 66, 810), ATTENTION_NONE, ATTENTION_NONE, PROBS(1, 2, 66, 66),
        ATTENTION_REAL(1, 66, 270) },
      &attention_case_causal,
      0,
      true },
    { "all",
      { ATTENTION_REAL(2, 67, 24), ATTENTION_NONE, ATTENTION_NONE, PROBS(2, 2, 67, 67),
        ATTENTION_REAL(2, 67, 8), ATTENTION_LENGTHS(2, 67), ATTENTION_SEGMENTS(2, 67), ATTENTION_NONE,
        ATTENTION_KEY },
      &attention_case_dropped,
      0,
      true },
    { "cross",
      { ATTENTION_REAL(2, 5, 12), ATTENTION_REAL(2, 7, 12), ATTENTION_REAL(2, 7, 12), PROBS(2, 3, 5, 7),
        ATTENTION_REAL(2, 5, 12) },
      &attention_case_plain,
      0,
      true },
    { "grouped",
      { ATTENTION_REAL(2, 6, 20), ATTENTION_REAL(2, 6, 10), ATTENTION_REAL(2, 6, 10), PROBS(2, 4, 6, 6),
        ATTENTION_REAL(2, 6, 20) },
      &attention_case_grouped,
      0,
      true },
    { "offset",
      { ATTENTION_REAL(1, 3, 20), ATTENTION_REAL(1, 80, 10), ATTENTION_REAL(1, 80, 10), PROBS(1, 4, 3, 80),
        ATTENTION_REAL(1, 3, 20), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_OFFSET(64) },
      &attention_case_grouped,
      0,
      true },
    { "window",
      { ATTENTION_REAL(1, 150, 9), ATTENTION_NONE, ATTENTION_NONE, PROBS(1, 1, 150, 150),
        ATTENTION_REAL(1, 150, 3) },
      &attention_case_window,
      0,
      true },
    { "one",
      { ATTENTION_REAL(1, 1, 3), ATTENTION_NONE, ATTENTION_NONE, PROBS(1, 1, 1, 1), ATTENTION_REAL(1, 1, 1) },
      &attention_case_one,
      0,
      true },
    { "halves",
      { ATTENTION_HALF(DTYPE_BF16, 2, 67, 24), ATTENTION_NONE, ATTENTION_NONE, PROBS(2, 2, 67, 67),
        ATTENTION_HALF(DTYPE_BF16, 2, 67, 8), ATTENTION_LENGTHS(2, 67), ATTENTION_SEGMENTS(2, 67),
        ATTENTION_NONE, ATTENTION_KEY },
      &attention_case_dropped,
      0,
      true },
    { "bias",
      { ATTENTION_REAL(2, 6, 20), ATTENTION_REAL(2, 7, 10), ATTENTION_REAL(2, 7, 10), PROBS(2, 4, 6, 7),
        ATTENTION_REAL(2, 6, 20), ATTENTION_LENGTHS(2, 7), ATTENTION_NONE, ATTENTION_NONE, ATTENTION_NONE,
        ATTENTION_REAL(4, 6, 7) },
      &attention_case_grouped,
      0,
      true },
    { 0 }
};

const op_def op_attention_backward = { .name = "attention_backward",
                                       .paper = "arXiv:1706.03762",
                                       .inputs = backward_inputs,
                                       .in_count = 10,
                                       .outputs = attention_gradient_outputs,
                                       .attribute_bytes = sizeof(attention_attributes),
                                       .traits = OP_RANDOM,
                                       .infer = infer_backward,
                                       .cost = cost_backward,
                                       .cpu = attention_backward_cpu,
                                       .cuda = OP_CUDA(attention_backward_cuda),
                                       .cases = backward_cases };
