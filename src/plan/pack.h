/* Offline packing: every buffer of a program has a lifetime that is known beforehand, so offsets in one arena
 * are chosen before anything runs. The packer sees intervals only: no tensors, no ops, no devices. */
#pragma once

#include <stdint.h>

#include "base/status.h"

enum { PACK_ALIGNMENT = 64 };

typedef struct {
    uint64_t bytes;       /* a multiple of PACK_ALIGNMENT; 0 takes no place */
    uint32_t first, last; /* alive in the steps first..last, both included */
    uint64_t offset;      /* the answer, a multiple of PACK_ALIGNMENT */
} pack_interval;

/* Chooses the offsets so that intervals alive at the same step don't overlap, and tells the size of the
 * arena. Arena and offsets are functions of the set of intervals: the order in which they come does not
 * matter (equal intervals may swap places), nor does the machine. Fails (STATUS_INVALID) on first > last, on
 * sizes that are no multiple of PACK_ALIGNMENT and on a total of 2^62 bytes or more; STATUS_FAILED when the
 * host has no memory. */
status pack_intervals(pack_interval *intervals, uint32_t count, uint64_t *arena_bytes);

/* The largest sum of bytes alive at one step, below which no arena can go; `peak_step` (may be NULL) is the
 * first step that has it, 0 when there are no intervals. Expects what pack_intervals accepts. */
uint64_t pack_lower_bound(const pack_interval *intervals, uint32_t count, uint32_t *peak_step);
