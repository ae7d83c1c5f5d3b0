/* y = x, in other memory: what goes to a file, or comes from one, is a value of its own (graph.h, POOL_FILE).
 * With a place y lies there, over what it held. */
#pragma once

#include "ir/op.h"

enum { MOVE_X, MOVE_PLACE }; /* places of the inputs */

extern const op_def op_move; /* x, place -> y */
extern const op_kernel move_cpu[];

tensor_id move_apply(graph *g, tensor_id x, uint8_t pool);   /* y, which lives there */
tensor_id move_into(graph *g, tensor_id x, tensor_id place); /* y, in that place */
