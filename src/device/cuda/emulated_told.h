/* What SNUG_EMULATED has the emulated GPU be, for tests of whole processes: words like `lost=100`, with
 * blanks between them.
 *
 *   order=forward|reversed|shuffled               of threads (emulate_order.h)
 *   pace=eager|late-copies|late-kernels|random    of lanes (device_emulated.h)
 *   seed=N                                        of a random pace
 *   lost=N                                        the GPU is lost at the N-th operation that it is given
 *   memory=BYTES, pinned=BYTES                    the most that its pools get, and those of the host
 *   capture=N                                     so many programs are captured, and the next one is refused
 *   gpu=N                                         which it is: processes that say the same have one GPU
 *   capability=N                                  ten times its version: 90 for 9.0, where nothing is said
 *   transport=BYTES                               what the transport between ranks takes of its memory
 *   counts=FILE                                   emulated_seen as JSON, at the end of the process */
#pragma once

#include <stdint.h>

struct emulated_told {
    uint64_t lost;           /* 0: never */
    uint64_t memory, pinned; /* UINT64_MAX: whatever there is */
    uint64_t capture;        /* UINT64_MAX: all */
    uint64_t gpu, transport; /* gpu 0: one of its own */
    uint32_t capability;
};
const emulated_told &
emulated_told_get(); /* read when first asked for; a word that is none ends the process */
