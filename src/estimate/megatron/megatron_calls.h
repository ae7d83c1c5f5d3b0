/* The calls of a stage's layers in Megatron-Core with Transformer Engine, for one micro-batch on one device.
 *
 * Each call names what it keeps until its own backward, and what it needs for a while beside that: in forward
 * beside all that was kept before, in backward beside what it and those before it keep. A tensor that two
 * calls keep is named by the one whose backward comes last, so it is counted once and until it is free. */
#pragma once

#include "base/array.h"
#include "estimate/megatron/megatron.h"

typedef struct {
    const char *what;
    double kept, forward, backward; /* bytes */
} megatron_call;

/* Layers that follow each other on one device. */
typedef struct {
    int64_t from, count;
    bool first, last; /* with the embedding; with the last norm, the head and the loss */
} megatron_chunk;

/* Adds the chunk's calls in the order of forward, as the settings recompute them. */
status megatron_write(const megatron_shape *m, const megatron_settings *s, const megatron_chunk *c,
                      array *calls /* of megatron_call */);

/* Padded, on one device. */
int64_t megatron_vocabulary(const megatron_shape *m, const megatron_settings *s);
