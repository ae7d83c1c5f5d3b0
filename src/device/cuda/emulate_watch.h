/* Watches what emulated kernels read and write, for tests: mistakes that an emulation, which runs threads one
 * after the other, does not show, and that a GPU shows now and then.
 *
 * - Races. Two threads touch one byte, one of them writes it, and nothing is between them: no __syncthreads
 *   in a block, no __syncwarp in a warp, no atomics. Blocks of a launch are never in order. Shuffles order
 *   no memory.
 * - What a kernel touches and is no memory of its own: beyond an operand's end, beyond its shared memory, or
 *   the host's.
 * - What it reads and nobody has written: scratch, results. (Shared memory is NaN at first, which shows.)
 * - Traffic: the bytes that threads ask for, and the sectors of 32 bytes that the requests of warps touch.
 *   What the lanes of a warp read or write at one place of the program, the k-th time each, is a request; of
 *   the copy engine a row of 128 bytes is one.
 * - Conflicts of shared memory's 32 banks, of 4 bytes each: a request takes as many turns as the lanes want
 *   words of one bank. Of 8 bytes a lane sixteen lanes are a request, of 16 bytes, as ldmatrix reads and
 *   cp.async writes, eight. Lanes at one word are no conflict. What units do beside the kernel is none.
 *
 * Kernels have to be compiled so that they call before each access (the target snug-watched); others are not
 * seen. Blocks run on the thread that launches. One thread watches at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    bool traffic;         /* count it; else look for mistakes */
    unsigned most_blocks; /* of a launch are run, evenly spaced; 0: all */
} emulate_watch_options;
void emulate_watch_begin(const emulate_watch_options *o);

typedef enum {
    EMULATE_WATCH_FILLED,  /* an operand that has values */
    EMULATE_WATCH_RAW,     /* one that is to be written before it is read */
    EMULATE_WATCH_SCRATCH, /* raw, and no operand */
} emulate_watch_kind;
/* Memory of the device. Ranges may overlap: what one of them allows is allowed. */
void emulate_watch_memory(const void *at, uint64_t bytes, emulate_watch_kind kind);

typedef struct {
    uint64_t asked[2], sectors[2];   /* read, written: bytes, and sectors of 32 */
    uint64_t operands[2];            /* bytes of operands that were read, written: each once */
    uint64_t turns[2], conflicts[2]; /* of banks: what requests need at least, and turns beyond that */
    uint64_t accesses, launches;
} emulate_traffic;
/* Ends watching. How many accesses were mistakes; `t` may be NULL. */
uint64_t emulate_watch_end(emulate_traffic *t);
/* The first mistake since the last beginning, in a sentence; "" for none. */
const char *emulate_watch_said(void);
/* The n-th place in the program with conflicts since then, most first: where it is, as the sources have it
 * where the build has lines. False: there are no more. */
typedef struct {
    char where[160];
    uint64_t turns, conflicts;
} emulate_conflicts;
bool emulate_watch_conflicts(unsigned n, emulate_conflicts *c);

#ifdef __cplusplus
}
#endif
