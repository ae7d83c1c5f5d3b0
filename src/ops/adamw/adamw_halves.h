/* AdamW where weight, gradient and moments are bf16, in one loop by AVX-512: random bits are drawn, and
 * results rounded, while an update waits for the processor's root and quotient. */
#pragma once

#include "ops/adamw/adamw_math.h"

/* Updates elements from `first` on, below `last`, and says where it left off: at `first` where the processor
 * has no such instructions. */
int64_t adamw_update_halves(const op_call *c, const adamw_step *step, int64_t first, int64_t last);
