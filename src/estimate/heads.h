/* The attention of a decoder, as the size of its cache of keys and values depends on it. For every family. */
#pragma once

#include <stdbool.h>

#include "models/families.h"

typedef struct {
    int64_t layers, heads, kv_heads, head_size, channels, inner, vocabulary, context;
    int64_t window, near; /* near: the number of layers with that window */
    int64_t rotated;      /* numbers of a head that are turned by their position; 0: none */
    bool gated;
    int64_t experts, chosen, shared; /* of a mixture of experts, each `inner` wide; 0: no mixture */
} heads;

/* False: it is no decoder. */
bool heads_of(const model_config *c, heads *h);
