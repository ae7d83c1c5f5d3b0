/* What ops that make one number of each number share: y = f(x), and the gradient dx = f'(x) dy, which reads
 * x, or y where the slope is told from that. Results may live in any operand. */
#pragma once

#include "ir/op.h"

enum { UNARY_BACKWARD_INPUTS = 2 };

extern const op_input unary_inputs[1];
extern const op_alias unary_aliases[1];
extern const op_input unary_backward_by_x[UNARY_BACKWARD_INPUTS], unary_backward_by_y[UNARY_BACKWARD_INPUTS];
extern const op_alias unary_backward_aliases[UNARY_BACKWARD_INPUTS];

status unary_infer(const graph *g, const node *n, tensor *out);
status unary_infer_backward(const graph *g, const node *n, tensor *out);
