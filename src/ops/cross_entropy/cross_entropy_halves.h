/* The loss and its gradient of logits of 16 bits, which AVX-512 widens, computes with and rounds in
 * registers: the bits are those of widened rows. */
#pragma once

#include "ir/op.h"

/* Logits and, for the gradient, what comes of them: both bf16 or both f16; all else f32. */
bool cross_entropy_accepts_halves(const op_call *c);

/* The log of a row's sum of exponentials, for rows first .. last - 1. */
void cross_entropy_halves_lse(const op_call *c, int64_t first, int64_t last);
/* Rows of the gradient. */
void cross_entropy_halves_slopes(const op_call *c, int64_t first, int64_t last);
