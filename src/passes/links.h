/* A parameter's gradient is a chain of nodes that accumulate, each of which adds its rows to what the one
 * before has made: its links. Passes that continue a sum put what is there already in front of the first. */
#pragma once

#include "ir/graph.h"

enum { LINKS_MOST = 4096 }; /* of one gradient */

typedef struct {
    tensor_id parameter, gradient; /* the source, and the finished gradient */
} links_updated;

/* Does this node update a parameter? Finds which, and by which gradient. */
bool links_update(const graph *g, const node *n, links_updated *u);

/* The links of a gradient, last first; 0 where it is no chain that a sum can be put in front of. */
uint32_t links_find(const graph *g, tensor_id gradient, node_id links[LINKS_MOST]);

/* The accumulator input of the node that owns output `t`; UINT32_MAX: it has none. */
uint32_t links_accumulator(const graph *g, const node *n, tensor_id t);

/* Are both links of one kind, so that what they add follows the rows of the batch? Parts of the loss are; a
 * table that is looked up for two texts has two kinds. */
bool links_of_one_kind(const graph *g, const node *a, const node *b);
