/* The attention of a decoder as caches of keys and values see it, of every family that has one. */
#pragma once

#include <stdbool.h>

#include "models/families.h"

typedef struct {
    int64_t layers, heads, kv_heads, head_size, channels, inner, vocabulary, context;
    int64_t window, near; /* near: how many layers see no further than the window */
    int64_t rotated;      /* numbers of a head that are turned by their position; 0: none */
    bool gated;
    int64_t experts, chosen, shared; /* of a mixture, whose width is `inner`; 0: it is none */
} heads;

/* False: it is no decoder. */
bool heads_of(const model_config *c, heads *h);
