/* y = x, in other memory: what goes to a file, or comes from one, is a value of its own (graph.h, POOL_FILE).
 */
#pragma once

#include "ir/op.h"

extern const op_def op_move; /* x -> y */
extern const op_kernel move_cpu[];

tensor_id move_apply(graph *g, tensor_id x, uint8_t pool); /* y, which lives there */
