/* The public building functions: each checks what the graph's rules do not, and calls the op. After a failure
 * the tensor ids are 0 and everything does nothing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/network.h"
#include "ops/add/add.h"
#include "ops/add_positions/add_positions.h"
#include "ops/attention/attention.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/gated/gated.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/multiply/multiply.h"
#include "ops/relu/relu.h"
#include "ops/reshape/reshape.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/scale/scale.h"
#include "ops/sigmoid/sigmoid.h"
#include "ops/silu/silu.h"
#include "ops/softmax/softmax.h"
#include "ops/tanh/tanh.h"

static shape shape_of(const snug_shape *s) {
    shape out = { .rank = s->rank };
    memcpy(out.dim, s->dim, sizeof out.dim);
    return out;
}

/* ---- sources ---- */

snug_tensor snug_input(snug_graph *g, const char *field) {
    if (!network_is_open(g, "input")) return 0;
    const network *n = g->network;
    for (uint32_t i = 0; field && i < n->field_count; i++) {
        const snug_field *f = &n->description.fields[i];
        if (strcmp(f->name, field) != 0) continue;
        tensor_id known = graph_find(g->graph, field);
        if (known) return known;
        shape s = { .dim = { g->batch }, .rank = f->shape.rank + 1 };
        memcpy(s.dim + 1, f->shape.dim, sizeof(int64_t) * f->shape.rank);
        return model_input(g->graph, field, s, f->type == SNUG_I32 ? DTYPE_I32 : DTYPE_F32);
    }
    return graph_fail(g->graph, "there is no field '%.80s'", field ? field : "");
}

snug_shape snug_shape_of(const snug_graph *g, snug_tensor x) {
    snug_shape out = { .rank = 0 };
    /* rank 0 says that it failed */
    if (!g) STATUS_IGNORED(status_set(STATUS_INVALID, "shape_of: there is no graph, but NULL"));
    if (!g || !x || x >= g->graph->tensors.count) return out;
    const shape *s = graph_shape(g->graph, x);
    out.rank = s->rank;
    memcpy(out.dim, s->dim, sizeof out.dim);
    return out;
}

snug_tensor snug_parameter(snug_graph *g, const char *name, snug_shape of, double mean, double deviation) {
    if (!network_is_open(g, "parameter")) return 0;
    network_parameter p = { .mean = (float)mean, .deviation = (float)deviation };
    shape s = shape_of(&of);
    if (!network_names_parameter(name))
        return graph_fail(g->graph, "a parameter cannot have the name '%.80s'", name ? name : "");
    if (!of.rank || of.rank > SNUG_MAX_RANK || !shape_valid(&s, sizeof(float)))
        return graph_fail(g->graph, "parameter '%s' has an impossible shape", name);
    if (!isfinite(mean) || !(deviation >= 0) || !isfinite(deviation))
        return graph_fail(g->graph, "parameter '%s' cannot begin with mean %g and deviation %g", name, mean,
                          deviation);
    snprintf(p.name, sizeof p.name, "%s", name);
    if (!network_take_down(g, &p, &s, true)) return 0;
    return model_parameter(g->graph, name, s, s.rank > 1 ? TENSOR_DECAY : 0);
}

/* ---- products ---- */

snug_tensor snug_matmul(snug_graph *g, snug_tensor x, snug_tensor w, snug_tensor bias, bool transposed) {
    if (!network_is_open(g, "matmul")) return 0;
    return matmul_apply(g->graph, &(matmul_inputs){ .a = x, .b = w, .bias = bias, .tb = transposed });
}

snug_tensor snug_linear(snug_graph *g, const char *name, snug_tensor x, int64_t outputs) {
    if (!network_has(g, x, "linear")) return 0;
    if (!name) return graph_fail(g->graph, "linear: there is no name for its parameters, but NULL");
    char part[2 * NETWORK_NAME_BYTES];
    int64_t inputs = shape_last(graph_shape(g->graph, x));
    snprintf(part, sizeof part, "%.80s.weight", name);
    snug_tensor w = snug_parameter(g, part, SNUG_SHAPE(inputs, outputs), 0, 1 / sqrt((double)inputs));
    snprintf(part, sizeof part, "%.80s.bias", name);
    return snug_matmul(g, x, w, snug_parameter(g, part, SNUG_SHAPE(outputs), 0, 0), false);
}

snug_tensor snug_embedding(snug_graph *g, snug_tensor ids, snug_tensor table) {
    if (!network_is_open(g, "embedding")) return 0;
    return embedding_apply(g->graph, ids, table);
}

snug_tensor snug_add_positions(snug_graph *g, snug_tensor x, snug_tensor table) {
    if (!network_has(g, x, "add_positions") || !network_has(g, table, "add_positions")) return 0;
    const shape *s = graph_shape(g->graph, x), *rows = graph_shape(g->graph, table);
    if (s->rank == 3 && rows->rank == 2 && s->dim[1] > rows->dim[0])
        return graph_fail(g->graph, "add_positions: %lld positions, and the table has %lld",
                          (long long)s->dim[1], (long long)rows->dim[0]);
    return add_positions_apply(g->graph, x, table, 0);
}

/* ---- elementwise ---- */

snug_tensor snug_add(snug_graph *g, snug_tensor a, snug_tensor b) {
    return network_is_open(g, "add") ? add_apply(g->graph, a, b) : 0;
}

snug_tensor snug_multiply(snug_graph *g, snug_tensor a, snug_tensor b) {
    return network_is_open(g, "multiply") ? multiply_apply(g->graph, a, b) : 0;
}

snug_tensor snug_scale(snug_graph *g, snug_tensor x, double factor) {
    return network_is_open(g, "scale") ? scale_apply(g->graph, x, 0, (float)factor) : 0;
}

snug_tensor snug_relu(snug_graph *g, snug_tensor x) {
    return network_is_open(g, "relu") ? relu_apply(g->graph, x) : 0;
}

snug_tensor snug_tanh(snug_graph *g, snug_tensor x) {
    return network_is_open(g, "tanh") ? tanh_apply(g->graph, x) : 0;
}

snug_tensor snug_sigmoid(snug_graph *g, snug_tensor x) {
    return network_is_open(g, "sigmoid") ? sigmoid_apply(g->graph, x) : 0;
}

snug_tensor snug_gelu(snug_graph *g, snug_tensor x) {
    return network_is_open(g, "gelu") ? gelu_apply(g->graph, x, false) : 0;
}

snug_tensor snug_silu(snug_graph *g, snug_tensor x) {
    return network_is_open(g, "silu") ? silu_apply(g->graph, x) : 0;
}

snug_tensor snug_swiglu(snug_graph *g, snug_tensor gate, snug_tensor up) {
    return network_is_open(g, "swiglu") ? gated_apply(g->graph, gate, up, GATED_SILU) : 0;
}

/* The key of the step's random numbers, where the next node is random: 0 where it is not. */
static tensor_id random_key(snug_graph *g, double p, const char *where) {
    g->stream++;
    if (!(p >= 0 && p < 1)) return graph_fail(g->graph, "%s: the probability %g is not in [0, 1)", where, p);
    if (p == 0 || g->mode != MODEL_TRAIN) return 0;
    if (!g->key) g->key = model_input(g->graph, "key", SHAPE(4), DTYPE_I32);
    return g->key;
}

snug_tensor snug_dropout(snug_graph *g, snug_tensor x, double p) {
    if (!network_has(g, x, "dropout")) return 0;
    tensor_id key = random_key(g, p, "dropout");
    return key ? dropout_apply(g->graph, x, key, (float)p, g->stream) : g->graph->failed ? 0 : x;
}

/* ---- over the last dimension ---- */

static bool good_epsilon(const snug_graph *g, double epsilon) {
    if (!network_is_open(g, "norm")) return false;
    if (epsilon > 0 && epsilon < 1) return true;
    graph_fail(g->graph, "the epsilon of a norm is %g; it must be in (0, 1)", epsilon);
    return false;
}

snug_tensor snug_layernorm(snug_graph *g, snug_tensor x, snug_tensor gamma, snug_tensor beta,
                           double epsilon) {
    return good_epsilon(g, epsilon) ? layernorm_apply(g->graph, x, gamma, beta, (float)epsilon) : 0;
}

snug_tensor snug_rmsnorm(snug_graph *g, snug_tensor x, snug_tensor gamma, double epsilon) {
    return good_epsilon(g, epsilon)
               ? rmsnorm_apply(g->graph, x, gamma, &(rmsnorm_attributes){ .eps = (float)epsilon })
               : 0;
}

snug_tensor snug_softmax(snug_graph *g, snug_tensor x) {
    return network_is_open(g, "softmax") ? softmax_apply(g->graph, x) : 0;
}

/* ---- shapes, attention, blocks ---- */

snug_tensor snug_reshape(snug_graph *g, snug_tensor x, snug_shape of) {
    if (!network_has(g, x, "reshape")) return 0;
    shape s = { .dim = { graph_shape(g->graph, x)->dim[0] }, .rank = of.rank + 1 };
    if (of.rank >= SNUG_MAX_RANK)
        return graph_fail(g->graph, "reshape: rank %u; the most is %d for a sample", of.rank,
                          SNUG_MAX_RANK - 1);
    memcpy(s.dim + 1, of.dim, sizeof(int64_t) * of.rank);
    return reshape_apply(g->graph, x, s);
}

snug_tensor snug_attention(snug_graph *g, snug_tensor q, snug_tensor k, snug_tensor v,
                           const snug_attention_options *options) {
    if (!network_is_open(g, "attention")) return 0;
    if (!options)
        return graph_fail(g->graph, "attention: no options; at least the number of heads is needed");
    tensor_id key = random_key(g, options->dropout, "attention");
    attention_attributes a = { .heads = options->heads,
                               .kv_heads = options->kv_heads,
                               .causal = options->causal,
                               .window = options->window,
                               .dropout = key ? (float)options->dropout : 0,
                               .stream = g->stream };
    return attention_apply(g->graph, &(attention_inputs){ .q = q, .k = k, .v = v, .key = key }, &a);
}

void snug_block(snug_graph *g, int32_t i) {
    if (!network_is_open(g, "block")) return;
    if (i < SITE_NONE || i >= 1 << 20) {
        graph_fail(g->graph, "a network has no block %d", (int)i);
        return;
    }
    g->graph->site = i;
    if (g->probe && i + 1 > g->probe->blocks) g->probe->blocks = i + 1;
}
