/* A block of attention's forward with products of bf16 as it is (ops/attention/attention_pairs_forward.h),
 * where probabilities are kept: in f32, before dropout, as widened operands have them.
 *
 * A strip (S,64) holds the scores of all keys. So the maximum of a query is there before the first
 * exponential is, and each is made once; the products of all tiles come together. */
#pragma once

#include "ops/attention/attention_pairs_forward.h"

extern const attention_pairs_way attention_pairs_kept;
