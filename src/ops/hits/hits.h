/* How many rows of logits are largest at their label; between equals the first counts. The number is exact up
 * to 2^24 rows. A label outside of the vocabulary is never met. It has no gradient. */
#pragma once

#include "ir/op.h"

extern const op_def
    op_hits; /* logits (...,V), labels (...) i32 -> hits (1), in the wide type of the logits */
extern const op_kernel hits_cpu[];
extern const op_kernel hits_cuda[];

tensor_id hits_apply(graph *g, tensor_id logits, tensor_id labels);
