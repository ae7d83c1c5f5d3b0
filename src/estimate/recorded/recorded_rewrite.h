/* What settings make of a recorded step before it is played: another precision, adapters, several devices. */
#pragma once

#include "estimate/recorded/edit.h"
#include "estimate/recorded/recorded_chunks.h"

/* Do these settings ask for another step than was recorded? */
bool recorded_is_rewritten(const recording *r, const torch_settings *s);

/* The settings that are rewritten with and played: where shares are of f32 and all else has 16 bits, there
 * are masters (torch.c). */
torch_settings recorded_prepared(const torch_settings *s);

/* `sizes` are then of the program that is written to `out`, which edit_close_program closes in any
 * case, and after `sizes`. Without a wish nothing changes. */
status recorded_rewrite(const recording *r, const torch_settings *s, recorded_sizes *sizes,
                        recording_program *out);

/* With --loss-chunks: what is computed in pieces, of a step in the types of `s`. */
status recorded_head_of(const recording *r, const torch_settings *s, recorded_head *h);
