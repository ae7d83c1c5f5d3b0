/* The two ways of both ops: operands multiplied as bf16 on tiles, where this process multiplies bf16 so
 * (attention_pairs_chosen), or widened to f32. A plan does not depend on the instructions: scratch of
 * operands of bf16 has room for either. */
#pragma once

#include "ops/attention/attention_forward.h"
#include "ops/attention/attention_gradient.h"
#include "ops/attention/attention_pairs_forward.h"

uint64_t attention_either_scratch(const op_call *c, const attention_forward_way *widened,
                                  const attention_pairs_way *pairs, int threads);
void attention_either_run(const op_call *c, const attention_forward_way *widened,
                          const attention_pairs_way *pairs);

/* probs: they were kept. The gradient of a bias is made of widened operands, and so is then all. */
uint64_t attention_either_gradient_scratch(const attention_view *v, bool probs, int threads);
void attention_either_gradient_run(const attention_gradient *a);
