#include "models/paged.h"

#include <stdio.h>

#include "ops/attention_paged/attention_paged.h"
#include "ops/embedding/embedding.h"
#include "ops/reshape/reshape.h"

paged_inputs paged_open(graph *g, const model_run *run) {
    if (run->mode != MODEL_ROWS) return (paged_inputs){ 0 };
    const paged_sizes *s = run->paged;
    shape rows = SHAPE(run->context);
    return (paged_inputs){ .position = model_input(g, "position", rows, DTYPE_I32),
                           .text = model_input(g, "text", rows, DTYPE_I32),
                           .slot = model_input(g, "slot", rows, DTYPE_I32),
                           .table = model_input(g, "table", SHAPE(s->texts, s->text_blocks), DTYPE_I32),
                           .wanted = model_input(g, "wanted", SHAPE(s->wanted), DTYPE_I32) };
}

tensor_id paged_positions(graph *g, const paged_inputs *rows) {
    return reshape_apply(g, rows->position, SHAPE(1, graph_shape(g, rows->position)->dim[0]));
}

static tensor_id state(graph *g, const char *name, shape s, dtype type) {
    return graph_add_source(
        g, &(graph_source){ .name = name, .shape = s, .dtype = (uint8_t)type, .role = ROLE_CACHE });
}

/* The cache of keys or values with what is new in it. */
static cache_tensors written(graph *g, const paged_inputs *rows, const paged_sizes *sizes,
                             const decoding_part *part, int64_t layer, cache_write_attributes at) {
    char name[64], scales[80];
    cache_tensors to = { 0 };
    at.column = (int32_t)part->column;
    snprintf(name, sizeof name, "cache.%lld.%s", (long long)layer, at.keys ? "k" : "v");
    snprintf(scales, sizeof scales, "%s.scales", name);
    to.cache = state(g, name, cache_write_shape(&at, sizes->cache_blocks), sizes->cache);
    if (sizes->cache == DTYPE_I8)
        to.scales = state(g, scales, cache_write_scales_shape(&at, sizes->cache_blocks), DTYPE_F32);
    return cache_write_apply(g, &to, part->x, rows->slot, &at);
}

tensor_id paged_attend(graph *g, const paged_inputs *rows, const paged_sizes *sizes,
                       const decoding_inputs *in, const attention_attributes *a) {
    int32_t size = (int32_t)(in->q.width / a->heads), kv_heads = (int32_t)(in->k.width / size);
    cache_write_attributes at = { .heads = kv_heads, .size = size, .keys = 1 };
    cache_tensors keys = written(g, rows, sizes, &in->k, in->layer, at);
    at.keys = 0;
    cache_tensors values = written(g, rows, sizes, &in->v, in->layer, at);
    return attention_paged_apply(g,
                                 &(attention_paged_inputs){ .q = in->q.x,
                                                            .keys = keys.cache,
                                                            .values = values.cache,
                                                            .table = rows->table,
                                                            .text = rows->text,
                                                            .position = rows->position,
                                                            .key_scales = keys.scales,
                                                            .value_scales = values.scales },
                                 &(attention_paged_attributes){ .heads = a->heads,
                                                                .kv_heads = kv_heads,
                                                                .size = size,
                                                                .window = a->window,
                                                                .scale = a->scale,
                                                                .cap = a->cap });
}

tensor_id paged_wanted(graph *g, const paged_inputs *rows, tensor_id x) {
    shape s = *graph_shape(g, x), wanted = *graph_shape(g, rows->wanted);
    tensor_id table = reshape_apply(g, x, SHAPE(shape_rows(&s), shape_last(&s)));
    return reshape_apply(g, embedding_apply(g, rows->wanted, table), SHAPE(1, wanted.dim[0], shape_last(&s)));
}
