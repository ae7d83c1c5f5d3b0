#include "estimate/megatron/megatron_weights.h"

#include <assert.h>

static double note(megatron_weights *w, double rows, double columns) {
    int i = 0;
    while (i < w->shape_count && !(w->shapes[i].rows == rows && w->shapes[i].columns == columns)) i++;
    assert(i < MEGATRON_MOST_SHAPES);
    w->shapes[i].rows = rows, w->shapes[i].columns = columns;
    if (i == w->shape_count) w->shape_count++;
    return rows * columns;
}

/* A product of (rows, columns) on this device, with a bias for each row or none. */
static void add(megatron_weights *w, double rows, double columns, bool bias) {
    w->shared += note(w, rows, columns) + (bias ? rows : 0);
}

static void add_norm(const megatron_shape *m, megatron_weights *w, double size) {
    w->shared += size * (m->layer_norm ? 2 : 1);
}

static void add_latent(const megatron_shape *m, double shards, megatron_weights *w) {
    double c = (double)m->channels, heads = (double)m->heads / shards, q = (double)m->q_rank;
    double queries = heads * (double)(m->head_size + m->turned);
    if (m->q_rank) {
        add(w, q, c, false);
        add(w, queries, q, false);
        add_norm(m, w, q);
    } else {
        add(w, queries, c, false);
    }
    add(w, (double)(m->kv_rank + m->turned), c, false);
    add(w, heads * (double)(m->head_size + m->value_size), (double)m->kv_rank, false);
    add_norm(m, w, (double)m->kv_rank);
    add(w, c, heads * (double)m->value_size, false);
}

static void add_attention(const megatron_shape *m, double shards, megatron_weights *w) {
    double c = (double)m->channels, size = (double)m->head_size, queries = (double)m->heads * size / shards;
    double keys = (double)m->kv_heads * size / shards;
    add_norm(m, w, c);
    if (m->kv_rank) {
        add_latent(m, shards, w);
        return;
    }
    add(w, queries + 2 * keys, c, m->bias_qkv);
    add(w, c, queries, m->bias_o);
    if (m->head_norms) add_norm(m, w, size), add_norm(m, w, size);
}

static void add_feed(const megatron_shape *m, double inner, bool bias, megatron_weights *w) {
    add(w, (m->gated ? 2 : 1) * inner, (double)m->channels, bias);
    add(w, (double)m->channels, inner, bias);
}

static void add_experts(const megatron_shape *m, const megatron_settings *s, megatron_weights *w) {
    double c = (double)m->channels, inner = (double)m->expert_inner / (double)s->expert_tensor;
    double here = (double)m->experts / (double)s->experts;
    w->experts += here * (note(w, (m->gated ? 2 : 1) * inner, c) + note(w, c, inner));
    w->shared += (double)m->experts * c; /* the router, whole on each device */
    if (m->shared) add_feed(m, (double)m->shared / (double)s->tensor, false, w);
}

static void add_layer(const megatron_shape *m, const megatron_settings *s, int64_t layer,
                      megatron_weights *w) {
    double shards = (double)s->tensor;
    add_attention(m, shards, w);
    add_norm(m, w, (double)m->channels);
    if (megatron_has_experts(m, layer))
        add_experts(m, s, w);
    else
        add_feed(m, (double)m->inner / shards, m->bias_feed, w);
}

void megatron_count(const megatron_shape *m, const megatron_settings *s, const megatron_chunk *c, bool table,
                    megatron_weights *w) {
    double channels = (double)m->channels, vocabulary = (double)megatron_vocabulary(m, s);
    if (c->first) w->shared += vocabulary * channels;
    if (c->first && m->learns_positions) w->shared += (double)m->context * channels;
    for (int64_t i = 0; i < c->count; i++) add_layer(m, s, c->from + i, w);
    if (!c->last) return;
    add_norm(m, w, channels);
    double head = note(w, vocabulary, channels);
    if (!m->tied || table) w->shared += head;
}

double megatron_shapes_sum(const megatron_weights *w) {
    double sum = 0;
    for (int i = 0; i < w->shape_count; i++) sum += w->shapes[i].rows * w->shapes[i].columns;
    return sum;
}
