/* Dynamic loss scaling: all gradients are made so many times larger that those of 16 bits do not vanish, and
 * the update divides by the same. The scale is state that ops write: halved where a gradient was not finite
 * (that step is skipped), doubled after `interval` good steps, always a power of two.
 * Paper: Micikevicius et al., "Mixed precision training", arXiv:1710.03740.
 *
 *   gradient_scale_now     state (1) f32 -> its value, or GRADIENT_SCALE_FIRST where it is still 0
 *   gradient_scale         x, scale (1) f32 -> x, a view; what flows back is multiplied by the scale (it
 * carries the attributes of the update, for whoever appends that) gradient_scale_update  state (1) f32 must,
 * good steps (1) i32 must, ok (1) i32 -> both, as they go on */
#pragma once

#include "ir/op.h"

enum { GRADIENT_SCALE_FIRST = 1 << 16, GRADIENT_SCALE_INTERVAL = 2000 };

typedef struct {
    int32_t interval;
} gradient_scale_attributes;

extern const op_def op_gradient_scale_now, op_gradient_scale, op_gradient_scale_update;
extern const op_kernel gradient_scale_now_cpu[], gradient_scale_update_cpu[];
extern const op_kernel gradient_scale_now_cuda[], gradient_scale_update_cuda[];

tensor_id gradient_scale_now_apply(graph *g, tensor_id state);
tensor_id gradient_scale_apply(graph *g, tensor_id x, tensor_id scale, int32_t interval);
tensor_id gradient_scale_update_apply(graph *g, tensor_id state, tensor_id good, tensor_id ok,
                                      int32_t interval);
