/* Waits until what a collective has begun to move is there. It mentions what is sent as well, which so lives
 * until then. */
#pragma once

#include "ir/op.h"

extern const op_def op_arrive; /* received must -> received; sent */
extern const op_kernel arrive_cpu[];

tensor_id arrive_apply(graph *g, tensor_id received, tensor_id sent);
