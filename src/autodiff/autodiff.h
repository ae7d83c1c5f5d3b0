/* Reverse-mode differentiation as a function from graph to more graph: backward nodes are ordinary nodes, so
 * every later pass treats them like all others. Nothing is "saved for backward": what a gradient mentions
 * stays alive, what it does not mention dies. */
#pragma once

#include "ir/graph.h"

typedef struct {
    tensor_id of;       /* a value of the graph */
    tensor_id gradient; /* its gradient, of the same shape; 0: of == a one-element loss, gradient 1 */
} autodiff_seed;

/* Adds the backward nodes of all seeds to g. `gradient` has room for g->tensors.count (at entry) ids and is
 * filled: by tensor, its gradient or 0. Gradients flow to parameters flagged TENSOR_TRAINABLE, and
 * to `wanted[t]` where `wanted` is not NULL. Contributions to one gradient are chained through accumulating
 * inputs; only where a gradient was handed on and others still read it are they added afterwards. The
 * gradient of a parameter is flagged TENSOR_GRADIENT and lives in a storage of its own: no backward node
 * reads it other than to add to it. */
status autodiff_run(graph *g, const autodiff_seed *seeds, uint32_t count, const bool *wanted,
                    tensor_id *gradient);
