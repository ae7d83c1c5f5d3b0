/* The sum of a tensor's tiles, in their order, which ranks have made of their shares (op_square_tiles): as
 * op_sum_squares adds them. Tiles of several tensors travel together. */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t first, share; /* in each row: where the tensor's tiles begin, and how many there are */
    int64_t whole;        /* of all ranks; at most share for each of them */
} add_tiles_attributes;

/* tiles (ranks, n), f64: row r has those of rank r -> (1), f32. */
extern const op_def op_add_tiles;
extern const op_kernel add_tiles_cpu[];
extern const op_kernel add_tiles_cuda[];

tensor_id add_tiles_apply(graph *g, tensor_id tiles, const add_tiles_attributes *attributes);
