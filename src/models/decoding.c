#include "models/decoding.h"

#include <stdio.h>

#include "ops/cache_append/cache_append.h"
#include "ops/concat/concat.h"
#include "ops/reshape/reshape.h"
#include "ops/slice/slice.h"

/* The cache with what is new in it. */
static tensor_id appended(graph *g, const decoding_inputs *in, const char *name, const decoding_part *part) {
    char full[64];
    snprintf(full, sizeof full, "cache.%lld.%s", (long long)in->layer, name);
    int64_t batch = graph_shape(g, part->x)->dim[0];
    tensor_id cache = graph_add_source(g, &(graph_source){ .name = full,
                                                           .shape = SHAPE(batch, in->context, part->width),
                                                           .dtype = DTYPE_F32,
                                                           .role = ROLE_CACHE });
    return cache_append_apply(g, cache, part->x, in->position,
                              &(cache_append_attributes){ (int32_t)part->column, (int32_t)part->width });
}

/* The first columns of sample i: a view, also where keys and values follow in the same row. */
static tensor_id queries_of(graph *g, const decoding_part *q, int64_t i) {
    const shape *s = graph_shape(g, q->x);
    int64_t parts = shape_last(s) / q->width;
    if (parts == 1) return slice_apply(g, q->x, i, 1);
    tensor_id apart = reshape_apply(g, q->x, SHAPE(parts * shape_rows(s), q->width));
    return reshape_apply(g, slice_apply(g, apart, parts * i, 1), SHAPE(1, 1, q->width));
}

tensor_id decoding_attend(graph *g, const decoding_inputs *in, const attention_attributes *a) {
    const shape *s = graph_shape(g, in->q.x);
    int64_t batch = s->dim[0];
    tensor_id parts[MODEL_MOST_DECODED];
    if (batch > MODEL_MOST_DECODED || s->dim[1] != 1)
        return graph_fail(g, "one token each of at most %d samples is decoded, not %lld of %lld",
                          MODEL_MOST_DECODED, (long long)s->dim[1], (long long)batch);
    tensor_id k = appended(g, in, "k", &in->k), v = appended(g, in, "v", &in->v);
    for (int64_t i = 0; i < batch; i++)
        parts[i] = attention_apply(g,
                                   &(attention_inputs){ .q = queries_of(g, &in->q, i),
                                                        .k = slice_apply(g, k, i, 1),
                                                        .v = slice_apply(g, v, i, 1),
                                                        .offset = in->position,
                                                        .bias = in->bias },
                                   a);
    return batch == 1 ? parts[0] : concat_apply(g, parts, (uint32_t)batch);
}

/* ---- texts that were read before ---- */

static tensor_id text_state(graph *g, int64_t layer, const char *name, shape s) {
    char full[64];
    snprintf(full, sizeof full, "text.%lld.%s", (long long)layer, name);
    return graph_add_source(
        g, &(graph_source){ .name = full, .shape = s, .dtype = DTYPE_F32, .role = ROLE_STATE });
}

tensor_id decoding_attend_texts(graph *g, const decoding_texts *in, const attention_attributes *a) {
    int64_t batch = graph_shape(g, in->q)->dim[0];
    shape s = SHAPE(batch, in->context, in->width);
    tensor_id parts[MODEL_MOST_DECODED], k = text_state(g, in->layer, "k", s),
                                         v = text_state(g, in->layer, "v", s);
    if (batch > MODEL_MOST_DECODED)
        return graph_fail(g, "at most %d samples are decoded at once, not %lld", MODEL_MOST_DECODED,
                          (long long)batch);
    for (int64_t i = 0; i < batch; i++)
        parts[i] = attention_apply(g,
                                   &(attention_inputs){ .q = slice_apply(g, in->q, i, 1),
                                                        .k = slice_apply(g, k, i, 1),
                                                        .v = slice_apply(g, v, i, 1),
                                                        .lengths = slice_apply(g, in->lengths, i, 1) },
                                   a);
    return batch == 1 ? parts[0] : concat_apply(g, parts, (uint32_t)batch);
}

void decoding_keep_texts(graph *g, int64_t layer, tensor_id k, tensor_id v, tensor_id begin) {
    const tensor_id parts[] = { k, v };
    for (int i = 0; i < 2 && !g->failed; i++) {
        shape s = *graph_shape(g, parts[i]);
        tensor_id state = text_state(g, layer, i ? "v" : "k", s);
        cache_append_apply(g, state, parts[i], begin,
                           &(cache_append_attributes){ 0, (int32_t)shape_last(&s) });
    }
}
