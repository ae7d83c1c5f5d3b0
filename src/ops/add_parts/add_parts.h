/* sum += the rows of parts, one after the other, in place: what all ranks have sent is added in the order of
 * ranks, as one process adds unit after unit. Without a sum it begins at zero, in memory of its own. Rows may
 * be of a piece of the sum: then the rest stays as it is. */
#pragma once

#include "ir/op.h"

typedef struct {
    int64_t dim[SHAPE_MAX_RANK]; /* of the sum; behind `rank` of them zeros */
    int64_t rank;
    int64_t first; /* element of the sum that the rows begin at */
} add_parts_attributes;

/* sum, absent: zeros; must -> sum, f32; parts (ranks, n), f32, where the sum has n elements, or more if it is
 * not absent. */
extern const op_def op_add_parts;
extern const op_kernel add_parts_cpu[];
extern const op_kernel add_parts_cuda[];

tensor_id add_parts_apply(graph *g, tensor_id sum, tensor_id parts, shape s);
tensor_id add_piece_apply(graph *g, tensor_id sum, tensor_id parts, int64_t first);
