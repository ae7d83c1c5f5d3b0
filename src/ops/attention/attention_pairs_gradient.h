/* The gradient of attention with products of bf16 as it is, on tiles (ops/attention/attention_pairs.h), for
 * both ops.
 *
 * The tiles of attention_tile.h and their order, with keys as rows and queries side by side. Products are
 * added up in f32 by the instruction; what is between them is in f32. Probabilities and slopes of scores are
 * rounded to bf16 before they are multiplied again. Threads share out heads of keys, whose operands come into
 * the forms of tiles once. So bits depend on no number of threads and on no cut between samples.
 *
 * Where probabilities were kept a block of queries goes over its tiles twice: the first time gathers
 * probabilities and their slopes in strips (S,64) and sums their products, the second one reads the strips.
 */
#pragma once

#include "ops/attention/attention_gradient.h"
#include "ops/attention/attention_pairs.h"

/* Bytes of scratch for so many threads; of operands of bf16. `probs`: they were kept. */
uint64_t attention_pairs_gradient_scratch(const attention_view *v, bool probs, int threads);

/* Without a gradient for a bias. */
void attention_pairs_gradient(const attention_gradient *a, const attention_pairs_kernel *kernel);
