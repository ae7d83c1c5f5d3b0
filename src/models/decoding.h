/* Attention of one new token to the keys and values of those before it: what models with caches share when
 * they decode (MODEL_DECODE). */
#pragma once

#include "models/model.h"
#include "ops/attention/attention.h"

/* Columns [column, column + width) of x, (B, 1, ·); what x has beside them are others of the same width. */
typedef struct {
    tensor_id x;
    int64_t column, width;
} decoding_part;

typedef struct {
    decoding_part q, k, v; /* q begins at column 0 */
    tensor_id position;    /* of the new token */
    int64_t layer;         /* names the cache */
    int64_t context;       /* positions that the cache has */
} decoding_inputs;

/* (B, 1, width of q). Keys and values are appended to the states "cache.<layer>.k" and ".v"; then every
 * sample attends by itself: the same calls, and the same bits, whatever else is in the batch. */
tensor_id decoding_attend(graph *g, const decoding_inputs *in, const attention_attributes *a);
