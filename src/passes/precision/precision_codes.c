#include "passes/precision/precision_codes.h"

#include "base/hash.h"
#include "base/memory.h"
#include "ir/op.h"
#include "ops/codes.h"
#include "ops/matmul/matmul.h"

bool precision_codes_apply(const graph *g) {
    linear_products l;
    if (linear_open(g, &l) != STATUS_OK) return false;
    bool any = linear_any(&l);
    linear_close(&l);
    return any;
}

tensor_id precision_codes_key(graph *out) {
    tensor_id key = graph_find(out, "key");
    return key ? key
               : graph_add_source(
                     out, &(graph_source){
                              .name = "key", .shape = SHAPE(4), .dtype = DTYPE_I32, .role = ROLE_INPUT });
}

/* Two streams for each weight, far from those of a model's and of its updates. */
static int32_t stream_of(const char *name) {
    return (int32_t)((hash_name(name) & 0x1ffffffeu) | 0x20000000u);
}

tensor_id precision_codes_product(rewrite *r, node_id id, const matmul_int8_inputs *in) {
    matmul_int8_inputs all = *in;
    tensor_id weight = node_in(r->in, graph_node(r->in, id), MATMUL_B);
    all.stream = stream_of(graph_name(r->in, weight));
    return matmul_int8_apply(r->out, &all);
}

/* ---- stored codes ---- */

typedef struct {
    rewrite r;
    linear_products linear;
    tensor_id *scales; /* by tensor of `in`: of a weight that becomes codes; 0: it doesn't */
    tensor_id key;
} coder;

bool precision_codes_fit(const graph *g, tensor_id weight) {
    const shape *s = graph_shape(g, weight);
    return shape_rows(s) <= MATMUL_INT8_LONGEST && shape_last(s) <= MATMUL_INT8_LONGEST;
}

/* Products that read their weight as it lies, and sums that surely fit. */
static tensor_id weight_of(const coder *k, node_id id) {
    const graph *in = k->r.in;
    tensor_id w = linear_weight(&k->linear, id);
    if (!w || node_in(in, graph_node(in, id), MATMUL_B) != w) return 0;
    return precision_codes_fit(in, w) ? w : 0;
}

static void store_as_codes(coder *k, tensor_id w, bool by_rows) {
    char name[CODES_NAME_BYTES];
    const shape *s = graph_shape(k->r.in, w);
    rewrite_source_type(&k->r, w, DTYPE_I8);
    k->scales[w] =
        graph_add_source(k->r.out, &(graph_source){ .name = codes_scales_name(graph_name(k->r.in, w), name),
                                                    .shape = SHAPE(by_rows ? shape_rows(s) : shape_last(s)),
                                                    .dtype = DTYPE_F32,
                                                    .role = ROLE_PARAMETER });
    if (!k->scales[w]) return;
    tensor *codes = graph_tensor(k->r.out, k->r.map[w]);
    codes->gradient = DTYPE_F32;
    if (by_rows) codes->flags |= TENSOR_ROWS;
    if (codes->flags & TENSOR_TRAINABLE) codes->flags |= TENSOR_STOCHASTIC;
}

/* How a tensor is read. */
enum { BY_COLUMNS = 1, BY_ROWS = 2, OTHERWISE = 4 };

/* A weight that anything else reads as well, or another way round, stays what it is. */
static void find_weights(coder *k) {
    const graph *in = k->r.in;
    uint8_t *read = memory_new(in->tensors.count, sizeof *read);
    if (!read) graph_no_memory(k->r.out);
    for (node_id id = 1; read && id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        uint8_t product = !weight_of(k, id)                ? OTHERWISE
                          : linear_by_rows(&k->linear, id) ? BY_ROWS
                                                           : BY_COLUMNS;
        for (uint32_t i = 0; i < n->in_count; i++)
            read[node_in(in, n, i)] |= i == MATMUL_B ? product : OTHERWISE;
    }
    for (tensor_id t = 1; read && t < in->tensors.count && !k->r.out->failed; t++)
        if (read[t] == BY_ROWS || read[t] == BY_COLUMNS) store_as_codes(k, t, read[t] == BY_ROWS);
    memory_free(read);
}

static void rewrite_product(coder *k, node_id id, tensor_id w) {
    const graph *in = k->r.in;
    const node *n = graph_node(in, id);
    const matmul_attributes *t = node_attributes(in, n);
    tensor_id bias = node_in(in, n, MATMUL_BIAS), residual = node_in(in, n, MATMUL_RESIDUAL),
              y = node_out(in, n, 0);
    k->r.out->phase = (phase)n->phase, k->r.out->site = n->site;
    k->r.map[y] =
        precision_codes_product(&k->r, id,
                                &(matmul_int8_inputs){ .a = k->r.map[node_in(in, n, MATMUL_A)],
                                                       .b = k->r.map[w],
                                                       .scales = k->scales[w],
                                                       .bias = bias ? k->r.map[bias] : 0,
                                                       .residual = residual ? k->r.map[residual] : 0,
                                                       .tb = t->tb != 0,
                                                       .key = k->key,
                                                       .type = (dtype)t->type });
}

static void rewrite_all(coder *k, const pass_context *c) {
    find_weights(k);
    if (c->training && !k->r.out->failed) k->key = precision_codes_key(k->r.out);
    for (node_id id = 1; id < k->r.in->nodes.count && !k->r.out->failed; id++) {
        tensor_id w = weight_of(k, id);
        if (w && k->scales[w])
            rewrite_product(k, id, w);
        else
            rewrite_node(&k->r, id);
    }
}

status precision_codes_run(const graph *in, const pass_context *c, graph *out) {
    coder k = { .scales = memory_new(in->tensors.count, sizeof *k.scales) };
    TRY(rewrite_open(&k.r, in, out));
    if (!k.scales || linear_open(in, &k.linear) != STATUS_OK) graph_no_memory(out);
    if (!out->failed) rewrite_all(&k, c);
    linear_close(&k.linear);
    memory_free(k.scales);
    return rewrite_close(&k.r);
}
