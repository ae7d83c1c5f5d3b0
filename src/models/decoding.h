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
    tensor_id bias;        /* (H,1,context), for all samples; 0: none */
} decoding_inputs;

/* (B, 1, width of q). Keys and values are appended to the states "cache.<layer>.k" and ".v"; then every
 * sample attends by itself: the same calls, and the same bits, whatever else is in the batch. */
tensor_id decoding_attend(graph *g, const decoding_inputs *in, const attention_attributes *a);

/* What one new token of each sample sees of texts that were read before, whose keys and values are states
 * that MODEL_ENCODE has filled: "text.<layer>.k" and ".v", (B, context, width). */
typedef struct {
    tensor_id q;       /* (B, 1, width of q) */
    tensor_id lengths; /* (B) i32: of the texts */
    int64_t layer, context, width;
} decoding_texts;
tensor_id decoding_attend_texts(graph *g, const decoding_texts *in, const attention_attributes *a);
/* Fills those of a layer with k and v, (B, context, width). `begin` (1) i32 is 0. */
void decoding_keep_texts(graph *g, int64_t layer, tensor_id k, tensor_id v, tensor_id begin);
