/* In which order the storages of a recorded step come and go: as recorded, or with modules that are computed
 * again.
 *
 * Such a module keeps nothing of its forward for backward but what it reads and what others read of it;
 * before the first call of its backward its forward is run again, up to the last storage that backward wants
 * (torch.utils.checkpoint, use_reentrant=False). What was kept then is made a second time. */
#pragma once

#include "estimate/recorded/recording.h"

typedef struct {
    const recording_program *program;
    /* As a program's: 0 a call, n a storage, -n its end. Storages beyond the program's count are those that
     * are made again: n + count is n for the second time; 2 * count + b is the state of random numbers that
     * block b is computed again with (torch.utils.checkpoint, preserve_rng_state). */
    recording_column events;
    bool *by_forward; /* by storage of the course: forward made it */
    uint32_t blocks;  /* modules that are computed again, where that is asked for */
} recorded_course;

/* `again`: the blocks are computed again: the items of the model's outermost lists of modules of one class.
 * STATUS_INVALID where it has none. Close it in any case. */
status recorded_course_find(const recording *r, const recording_program *p, bool again, recorded_course *c);
/* The same with blocks that somebody else chose: `block_of` has the block of each module, from 1; 0: it is in
 * none. No block lies in another. */
status recorded_course_weave(const recording *r, const recording_program *p, const uint32_t *block_of,
                             uint32_t blocks, recorded_course *c);
void recorded_course_close(recorded_course *c);

/* Is it a state of random numbers? It is with the host, where there is a GPU. */
static inline bool recorded_course_is_draws(const recorded_course *c, uint32_t storage) {
    return storage > 2 * recording_storages(c->program);
}

static inline uint32_t recorded_course_of(const recorded_course *c, uint32_t storage) {
    uint32_t count = recording_storages(c->program);
    return storage > count ? storage - count : storage;
}

/* Marks modules: the block that each lies in, from 1; 0: none. Returns how many there are. `block_of` has
 * room for all modules. */
uint32_t recorded_blocks(const recording *r, uint32_t *block_of);
/* The block of the module that has a weight of that name, as "model.layers.0.mlp.up.weight"; 0: none. */
uint32_t recorded_block_of_name(const recording *r, const uint32_t *block_of, const char *weight);
