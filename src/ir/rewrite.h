/* Copying a graph while changing it: the frame of every pass. A pass copies all sources, then the nodes in
 * order through rewrite_node, except where it does something else; everything goes through graph_add, so
 * shapes and rules are checked anew after each technique.
 *
 *     TRY(rewrite_open(&r, in, out));
 *     for (node_id n = 1; n < in->nodes.count; n++) rewrite_node(&r, n);
 *     return rewrite_close(&r);
 */
#pragma once

#include "ir/graph.h"

typedef struct {
    const graph *in;
    graph *out;     /* open and empty before rewrite_open */
    tensor_id *map; /* tensor of `in` -> tensor of `out`; 0: not copied (yet) */
} rewrite;

status rewrite_open(rewrite *r, const graph *in, graph *out); /* copies the sources */
status rewrite_close(rewrite *r);                             /* the status of `out`; frees the map */

/* Gives the copy of source t another type, before any node that reads it is copied. */
void rewrite_source_type(rewrite *r, tensor_id t, dtype type);

/* The same of its shape; that of the whole stays in tensor.global. */
void rewrite_source_shape(rewrite *r, tensor_id t, shape s);

/* The copy of source t has no reader and takes no memory. */
void rewrite_source_drop(rewrite *r, tensor_id t);

/* Copies node n with inputs taken from r->map and sets r->map for its outputs. */
void rewrite_node(rewrite *r, node_id n);

/* The same with inputs taken from `map` and the new outputs written to `to` (both indexed by tensors of
 * `in`), as a node of phase `as`. For recomputation and repetition. */
void rewrite_node_as(rewrite *r, node_id n, const tensor_id *map, tensor_id *to, phase as);

/* The same as rewrite_node with explicit inputs. */
void rewrite_node_inputs(rewrite *r, node_id n, const tensor_id *inputs, uint32_t in_count);

/* What the caller has made in place of node n: its first output (0: making it failed) and those after it
 * stand for n's, and get their names, flags and places. */
void rewrite_made(rewrite *r, node_id n, tensor_id first);

/* The same as rewrite_node with another op of the same inputs, attributes and number of outputs. */
void rewrite_node_with(rewrite *r, node_id n, const op_def *op);

/* Opens `to`, a copy with the same ids. */
status rewrite_nothing(const graph *from, graph *to);
