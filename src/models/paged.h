/* Rows of any texts over caches in blocks: what models share in MODEL_ROWS and MODEL_SOURCES.
 *
 * A program has N rows. Row i is token tokens[i] at position[i] of text text[i]; its key and value go to
 * slot[i] of every layer's cache (ops/cache_write) before it looks at what its text has there, up to itself.
 * Blocks of a text are those of its line of `table`. Rows that are not needed stand at position -1 and in
 * slot -1. Logits are made of rows wanted[..] alone. A row's logits have the same bits whatever other rows
 * there are, however a prompt is cut into steps, and wherever blocks lie.
 *
 * A model that answers reads the text before, its source, in a program of its own (MODEL_SOURCES), all rows
 * of a source at once, since each sees all of them: up to source_last[i]. What the answer's rows see of it
 * lies in the same caches, in the blocks of the text's line of `sources`. So a block is one of a source or of
 * an answer, as it comes. */
#pragma once

#include "models/model.h"
#include "ops/attention/attention.h"
#include "ops/cache_write/cache_write.h"

typedef struct paged_sizes {
    int64_t texts;         /* lines of the tables */
    int64_t text_blocks;   /* of each */
    int64_t source_blocks; /* of each, of a source; 0: the model has none */
    int64_t cache_blocks;  /* of the cache */
    int64_t wanted;        /* rows whose logits are made, at most as many as there are rows */
    dtype cache;           /* type of keys and values: f32, bf16, f16, or i8 with scales */
    bool hidden;           /* the hidden states of all rows, behind the last norm, are a result too */
} paged_sizes;

typedef struct {
    tensor_id position, text, slot;
    tensor_id table, wanted;        /* of MODEL_ROWS */
    tensor_id sources, source_last; /* where there are sources */
} paged_inputs;

/* The inputs but for "tokens"; all 0 in other modes. */
paged_inputs paged_open(graph *g, const model_run *run);

/* The rows' positions as (1,N): what a table of learned positions is read by. */
tensor_id paged_positions(graph *g, const paged_inputs *rows);

/* Columns [column, column + width) of x, (1,N,.); what x has beside them are others. */
typedef struct {
    tensor_id x;
    int64_t column, width;
} paged_part;

/* What is attended with in a layer, whose caches are "cache.<layer>.k" and ".v" (and, of codes, ".k.scales"
 * and ".v.scales"). */
typedef struct {
    paged_part q, k, v; /* q begins at column 0 */
    int64_t layer;
} paged_layer;

/* Each row to what its text has, up to itself. Of `a` heads, window, scale and cap are read. */
tensor_id paged_attend(graph *g, const paged_inputs *rows, const paged_sizes *sizes, const paged_layer *in,
                       const attention_attributes *a);

/* ---- the same in two parts ---- */

/* The caches of a layer as they are at some point of a program; all 0: as the program finds them. */
typedef struct {
    cache_tensors keys, values;
} paged_cache;

/* With the keys and values of all rows. */
paged_cache paged_write(graph *g, const paged_inputs *rows, const paged_sizes *sizes, const paged_layer *in,
                        const paged_cache *before, int32_t heads);

/* What rows see of a cache. */
typedef struct {
    tensor_id table, last; /* blocks of each text; the last position that a row sees */
    tensor_id bias;        /* (H,1,distances) f32, for rows at their `position`; 0: none */
    int64_t here;          /* distance 0 in it */
} paged_view;
tensor_id paged_look(graph *g, const paged_inputs *rows, const paged_part *q, const paged_cache *cache,
                     const paged_view *view, const attention_attributes *a);

/* ---- texts that are read whole ---- */

/* Of models whose rows see all of their text (model.reads_whole), which is in one step from its first token
 * to its last. Row i stands at place[i] of the table of positions, and sees positions 0 .. last[i]. Keys and
 * values of a layer are needed as long as it attends: so all layers have the cache of the first.
 */
typedef struct {
    tensor_id place, last;
    paged_inputs rows; /* text, slot and table */
    paged_cache cache; /* as the layer before left it */
} paged_whole;

paged_whole paged_open_whole(graph *g, const model_run *run); /* the inputs but for "tokens" */
/* As paged_attend. */
tensor_id paged_attend_whole(graph *g, paged_whole *w, const paged_sizes *sizes, const paged_layer *in,
                             const attention_attributes *a);

/* The rows of x (1,N,C) that logits are made of: (1, wanted, C). */
tensor_id paged_wanted(graph *g, const paged_inputs *rows, tensor_id x);
