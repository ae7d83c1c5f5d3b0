/* An independent proof that a packing is valid. It shares nothing with plan/pack.c but the type of its input.
 */
#pragma once

#include "plan/pack.h"

/* STATUS_OK if no two intervals that are alive at the same step overlap, all of them lie inside the arena and
 * all offsets are multiples of PACK_ALIGNMENT. Else STATUS_FAILED, with a sentence that names the first
 * interval in time that is wrong, and the one it collides with. Intervals of 0 bytes take no place. */
status check_packing(const pack_interval *intervals, uint32_t count, uint64_t arena_bytes);
