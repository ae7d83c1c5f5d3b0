/* attention_flash and its gradient with products of bf16 as it is, on tiles
 * (ops/attention/attention_pairs.h).
 *
 * The tiles of attention_tile.h and their order, with keys as rows and queries side by side. Products are
 * added up in f32 by the instruction; softmax is in f32 between them. Weights and slopes of scores are
 * rounded to bf16 before they are multiplied again, sums of weights are not. Threads share out heads, whose
 * operands come into the forms of tiles once: keys and values of a head, and the queries of 64 rows at a
 * time. So bits depend on no number of threads, on no cut between samples, and of a query on no other one. */
#pragma once

#include "ops/attention/attention_forward.h"
#include "ops/attention/attention_gradient.h"
#include "ops/attention/attention_pairs.h"

/* Bytes of scratch for so many threads; of operands of bf16. */
uint64_t attention_flash_pairs_scratch(const attention_view *v, int threads);
uint64_t attention_flash_pairs_gradient_scratch(const attention_view *v, int threads);

void attention_flash_pairs(const attention_forward *f, const attention_pairs_kernel *kernel, void *scratch);
/* Without a gradient for a bias, and without probs. */
void attention_flash_pairs_gradient(const attention_gradient *a, const attention_pairs_kernel *kernel);
