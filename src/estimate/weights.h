/* The weights of a model by part and shape, as inference engines count them. They are read from the forward
 * graph, and told apart by the names that checkpoints use. */
#pragma once

#include "base/array.h"
#include "models/model.h"

typedef enum {
    WEIGHTS_VECTOR,    /* norms, biases */
    WEIGHTS_TABLE,     /* of tokens; the head as well where they are tied */
    WEIGHTS_POSITIONS, /* learned */
    WEIGHTS_HEAD,
    WEIGHTS_QKV, /* in one product */
    WEIGHTS_Q,
    WEIGHTS_K,
    WEIGHTS_V,
    WEIGHTS_O,
    WEIGHTS_GATE, /* of a gated feed-forward */
    WEIGHTS_UP,   /* packed gates and ups as well */
    WEIGHTS_DOWN,
    WEIGHTS_ROUTER, /* to experts */
    WEIGHTS_OTHER   /* matrices of blocks by other names */
} weights_part;

typedef struct {
    weights_part part;
    int32_t block;       /* < 0: outside of blocks */
    int64_t rows, inner; /* of one matrix, as (out, in); a vector has one row */
    int64_t copies;      /* experts; 1: it is one matrix */
} weights_item;

static inline double weights_elements(const weights_item *x) {
    return (double)x->rows * (double)x->inner * (double)x->copies;
}
static inline bool weights_of_block(const weights_item *x) {
    return x->part >= WEIGHTS_QKV && x->part != WEIGHTS_ROUTER;
}

typedef struct {
    array items; /* weights_item */
    double elements;
    bool tied; /* no head of its own */
} weights;

static inline const weights_item *weights_at(const weights *w, uint32_t i) {
    return (const weights_item *)w->items.data + i;
}

status weights_open(const model *m, weights *w);
void weights_close(weights *w);
