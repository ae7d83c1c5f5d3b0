/* What holds the tensors of a recorded step, and which parts of its forward are run again.
 *
 * A storage lives as long as the code has it (`left`) or autograd keeps it (`saves`). A region is one call of
 * a module that is computed again (torch.utils.checkpoint, use_reentrant=False): what autograd would keep of
 * it is let go, what it was given is kept in its stead, and where the first of what was kept is wanted its
 * forward is run again up to the last that was. Regions may lie within one another. */
#pragma once

#include "estimate/recorded/recording.h"

/* Calls are numbered from 1; "behind call n" is between it and the next one. */
enum { RECORDED_NEVER = UINT32_MAX };

typedef struct {
    uint32_t block;  /* whose calls these are */
    uint32_t parent; /* the region that it lies in, from 1; 0: none. Parents stand before what lies in them */
    uint32_t depth;  /* 1: it lies in none */
    uint32_t first, last;      /* its calls of forward */
    uint32_t stop;             /* where it is run again: up to this call, which may be before the first */
    uint32_t begin;            /* it is run again behind this call */
    uint32_t saves, saves_end; /* which of `saves` may be its own or of what lies in it */
    uint32_t end; /* behind this call nothing that it was given is held any more; 0: it is not run again */
} recorded_region;

typedef struct {
    uint32_t storage, at, used,
        until;       /* kept behind call `at`, wanted behind `used`, let go behind `until` */
    uint32_t region; /* the innermost; 0: none */
} recorded_save;

typedef struct {
    const recording_program *p;
    uint32_t *born, *died, *left; /* by storage; born: the call of forward that made it, or 0 */
    recorded_save *saves;
    recorded_region *regions; /* from 1 */
    uint32_t save_count, region_count, depth;
} recorded_holds;

/* `block_of`: of each module the innermost block that it lies in, from 1; 0: none. Where a program has no
 * columns of what is kept and which module ran when, as one that settings have rewritten, that is guessed
 * from what its calls read; `casts`: they ran under autocast. Close it in any case. */
status recorded_holds_find(const recording_program *p, const uint32_t *block_of, bool casts,
                           recorded_holds *h);
void recorded_holds_close(recorded_holds *h);

/* Does a region lie in another, or is it that? */
static inline bool recorded_region_in(const recorded_holds *h, uint32_t inner, uint32_t outer) {
    while (inner > outer) inner = h->regions[inner].parent;
    return inner == outer;
}
