/* Waits until what a collective has begun to move is there. It mentions what is sent as well, which so lives
 * until then; 0: that is what is received, in its place. */
#pragma once

#include "ir/op.h"

extern const op_def op_arrive; /* received must -> received; sent, may be absent */
extern const op_kernel arrive_cpu[];
extern const op_kernel arrive_cuda[];

tensor_id arrive_apply(graph *g, tensor_id received, tensor_id sent);
