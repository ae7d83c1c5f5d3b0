/* Rows of any texts over caches in blocks: what models share in MODEL_ROWS.
 *
 * A program has N rows. Row i is token tokens[i] at position[i] of text text[i]; its key and value go to
 * slot[i] of every layer's cache (ops/cache_write) before it looks at what its text has there, up to itself.
 * Blocks of a text are those of its line of `table`. Rows that are not needed stand at position -1 and in
 * slot -1. Logits are made of rows wanted[..] alone. A row's logits have the same bits whatever other rows
 * there are, however a prompt is cut into steps, and wherever blocks lie. */
#pragma once

#include "models/decoding.h"

typedef struct paged_sizes {
    int64_t texts;        /* lines of the table */
    int64_t text_blocks;  /* of each */
    int64_t cache_blocks; /* of the cache */
    int64_t wanted;       /* rows whose logits are made, at most as many as there are rows */
    dtype cache;          /* type of keys and values: f32, bf16, f16, or i8 with scales */
    bool hidden;          /* the hidden states of all rows, behind the last norm, are a result too */
} paged_sizes;

typedef struct {
    tensor_id position, text, slot, table, wanted;
} paged_inputs;

/* The inputs but for "tokens"; all 0 in other modes. */
paged_inputs paged_open(graph *g, const model_run *run);

/* The rows' positions as (1,N): what a table of learned positions is read by. */
tensor_id paged_positions(graph *g, const paged_inputs *rows);

/* As decoding_attend, to what the rows' texts have in the states "cache.<layer>.k" and ".v" (and, of codes,
 * ".k.scales" and ".v.scales"). in->position and in->context are not read. */
tensor_id paged_attend(graph *g, const paged_inputs *rows, const paged_sizes *sizes,
                       const decoding_inputs *in, const attention_attributes *a);

/* The rows of x (1,N,C) that logits are made of: (1, wanted, C). */
tensor_id paged_wanted(graph *g, const paged_inputs *rows, tensor_id x);
