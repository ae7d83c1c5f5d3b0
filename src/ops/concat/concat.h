/* Parts one after the other along dimension 0. Nothing moves: the parts are born in their places inside the
 * result, so each must be made by a node of its own and be no part of anything else. */
#pragma once

#include "ir/op.h"

extern const op_def op_concat; /* parts (n_i,...) -> (sum of n_i,...) */

tensor_id concat_apply(graph *g, const tensor_id *parts, uint32_t count);
