/* y = x, somewhere else: what goes away from memory, or comes back, is a value of its own (tensor.away in
 * ir/graph.h). With a place y lies there, over what it held. */
#pragma once

#include "ir/op.h"

enum { MOVE_X, MOVE_PLACE }; /* places of the inputs */

extern const op_def op_move; /* x, place -> y */
extern const op_kernel move_cpu[];
extern const op_kernel move_cuda[];

tensor_id move_apply(graph *g, tensor_id x, bool away);      /* y, which is away or in memory */
tensor_id move_into(graph *g, tensor_id x, tensor_id place); /* y, in that place */
