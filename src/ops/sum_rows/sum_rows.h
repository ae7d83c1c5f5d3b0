/* The sum over rows: x seen as (rows, N) -> (N), in tiles of THREADS_ROW_TILE rows. The gradient of a bias.
 */
#pragma once

#include "ir/op.h"

extern const op_def op_sum_rows; /* x, accumulator? (N) must -> (N) */
extern const op_kernel sum_rows_cpu[];
extern const op_kernel sum_rows_cuda[];

tensor_id sum_rows_apply(graph *g, tensor_id x, tensor_id accumulator);
