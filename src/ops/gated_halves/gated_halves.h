/* ops/gated of a product that has both sides in one row: x is gate | up, y = f(gate) up. */
#pragma once

#include "ops/gated/gated.h"

extern const op_def op_gated_halves;          /* x (..,2W) -> y (..,W) */
extern const op_def op_gated_halves_backward; /* x, dy -> dx; dx may live in x */
extern const op_kernel gated_halves_cpu[], gated_halves_backward_cpu[];
extern const op_kernel gated_halves_cuda[], gated_halves_backward_cuda[];

tensor_id gated_halves_apply(graph *g, tensor_id x, gated_function f);
