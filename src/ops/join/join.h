/* Rows one beside the other: y (...,sum of W_i) of parts (...,W_i). Unlike op_concat the parts are copied, so
 * that they may be anything. The gradients are columns of dy. */
#pragma once

#include "ir/op.h"

enum { JOIN_MOST = 64 /* parts */ };

extern const op_def op_join; /* parts (...,W_i) -> y */
extern const op_kernel join_cpu[];
extern const op_kernel join_cuda[];

tensor_id join_apply(graph *g, const tensor_id *parts, uint32_t count);
