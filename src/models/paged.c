#include "models/paged.h"

#include <stdio.h>

#include "ops/attention_paged/attention_paged.h"
#include "ops/embedding/embedding.h"
#include "ops/reshape/reshape.h"

paged_inputs paged_open(graph *g, const model_run *run) {
    paged_inputs in = { 0 };
    if (run->mode != MODEL_ROWS && run->mode != MODEL_SOURCES) return in;
    const paged_sizes *s = run->paged;
    shape rows = SHAPE(run->context);
    in.position = model_input(g, "position", rows, DTYPE_I32);
    in.text = model_input(g, "text", rows, DTYPE_I32);
    in.slot = model_input(g, "slot", rows, DTYPE_I32);
    if (run->mode == MODEL_ROWS) {
        in.table = model_input(g, "table", SHAPE(s->texts, s->text_blocks), DTYPE_I32);
        in.wanted = model_input(g, "wanted", SHAPE(s->wanted), DTYPE_I32);
    }
    if (s->source_blocks) {
        in.sources = model_input(g, "sources", SHAPE(s->texts, s->source_blocks), DTYPE_I32);
        in.source_last = model_input(g, "source_last", rows, DTYPE_I32);
    }
    return in;
}

tensor_id paged_positions(graph *g, const paged_inputs *rows) {
    return reshape_apply(g, rows->position, SHAPE(1, graph_shape(g, rows->position)->dim[0]));
}

static tensor_id state(graph *g, const char *name, shape s, dtype type) {
    return graph_add_source(
        g, &(graph_source){ .name = name, .shape = s, .dtype = (uint8_t)type, .role = ROLE_CACHE });
}

/* The cache of keys or values as the program finds it. */
static cache_tensors found(graph *g, const paged_sizes *sizes, int64_t layer,
                           const cache_write_attributes *at) {
    char name[64], scales[80];
    cache_tensors to = { 0 };
    snprintf(name, sizeof name, "cache.%lld.%s", (long long)layer, at->keys ? "k" : "v");
    snprintf(scales, sizeof scales, "%s.scales", name);
    to.cache = state(g, name, cache_write_shape(at, sizes->cache_blocks), sizes->cache);
    if (sizes->cache == DTYPE_I8)
        to.scales = state(g, scales, cache_write_scales_shape(at, sizes->cache_blocks), DTYPE_F32);
    return to;
}

paged_cache paged_write(graph *g, const paged_inputs *rows, const paged_sizes *sizes, const paged_layer *in,
                        const paged_cache *before, int32_t heads) {
    int32_t size = (int32_t)(in->k.width / heads);
    cache_write_attributes keys = { .column = (int32_t)in->k.column,
                                    .heads = heads,
                                    .size = size,
                                    .keys = 1 },
                           values = { .column = (int32_t)in->v.column, .heads = heads, .size = size };
    paged_cache c = *before;
    if (!c.keys.cache) c.keys = found(g, sizes, in->layer, &keys);
    c.keys = cache_write_apply(g, &c.keys, in->k.x, rows->slot, &keys);
    if (!c.values.cache) c.values = found(g, sizes, in->layer, &values);
    c.values = cache_write_apply(g, &c.values, in->v.x, rows->slot, &values);
    return c;
}

tensor_id paged_look(graph *g, const paged_inputs *rows, const paged_part *q, const paged_cache *cache,
                     const paged_view *view, const attention_attributes *a) {
    return attention_paged_apply(g,
                                 &(attention_paged_inputs){ .q = q->x,
                                                            .keys = cache->keys.cache,
                                                            .values = cache->values.cache,
                                                            .table = view->table,
                                                            .text = rows->text,
                                                            .position = view->last,
                                                            .key_scales = cache->keys.scales,
                                                            .value_scales = cache->values.scales,
                                                            .bias = view->bias,
                                                            .place = view->bias ? rows->position : 0 },
                                 &(attention_paged_attributes){ .heads = a->heads,
                                                                .kv_heads = a->kv_heads,
                                                                .size = (int32_t)(q->width / a->heads),
                                                                .window = a->window,
                                                                .scale = a->scale,
                                                                .cap = a->cap,
                                                                .here = (int32_t)view->here });
}

/* With as many heads of keys as there are columns for. */
static attention_attributes grouped(const paged_layer *in, const attention_attributes *a) {
    attention_attributes of = *a;
    of.kv_heads = (int32_t)(in->k.width / (in->q.width / a->heads));
    return of;
}

tensor_id paged_attend(graph *g, const paged_inputs *rows, const paged_sizes *sizes, const paged_layer *in,
                       const attention_attributes *a) {
    attention_attributes of = grouped(in, a);
    paged_cache c = paged_write(g, rows, sizes, in, &(paged_cache){ 0 }, of.kv_heads);
    return paged_look(g, rows, &in->q, &c, &(paged_view){ .table = rows->table, .last = rows->position },
                      &of);
}

/* ---- texts that are read whole ---- */

paged_whole paged_open_whole(graph *g, const model_run *run) {
    const paged_sizes *s = run->paged;
    shape rows = SHAPE(run->context);
    return (paged_whole){ .place = model_input(g, "place", rows, DTYPE_I32),
                          .last = model_input(g, "last", rows, DTYPE_I32),
                          .rows = { .text = model_input(g, "text", rows, DTYPE_I32),
                                    .slot = model_input(g, "slot", rows, DTYPE_I32),
                                    .table = model_input(g, "table", SHAPE(s->texts, s->text_blocks),
                                                         DTYPE_I32) } };
}

tensor_id paged_attend_whole(graph *g, paged_whole *w, const paged_sizes *sizes, const paged_layer *in,
                             const attention_attributes *a) {
    attention_attributes of = grouped(in, a);
    w->cache = paged_write(g, &w->rows, sizes, in, &w->cache, of.kv_heads);
    return paged_look(g, &w->rows, &in->q, &w->cache,
                      &(paged_view){ .table = w->rows.table, .last = w->last }, &of);
}

tensor_id paged_wanted(graph *g, const paged_inputs *rows, tensor_id x) {
    shape s = *graph_shape(g, x), wanted = *graph_shape(g, rows->wanted);
    tensor_id table = reshape_apply(g, x, SHAPE(shape_rows(&s), shape_last(&s)));
    return reshape_apply(g, embedding_apply(g, rows->wanted, table), SHAPE(1, wanted.dim[0], shape_last(&s)));
}
