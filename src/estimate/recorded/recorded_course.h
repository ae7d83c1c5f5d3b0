/* In which order the storages of a recorded step come and go: as recorded, or with modules that are computed
 * again (recorded_regions.h says how). What such a module kept is made a second time, and what one within it
 * kept a third time. */
#pragma once

#include "estimate/recorded/recorded_kinds.h"
#include "estimate/recorded/recording.h"

typedef struct {
    const recording_program *program;
    /* As a program's: 0 a call, n a storage, -n its end. Storages beyond the program's count are those that
     * are made again: n + k * count is n made again in the k-th of modules that lie within one another, k up
     * to `depth`; (1 + depth) * count + b is the state of random numbers that call b of such a module is
     * computed again with (torch.utils.checkpoint, preserve_rng_state). */
    recording_column events;
    bool *by_forward; /* by storage of the course but those states: forward made it */
    uint32_t depth;   /* at least 1 */
    uint32_t blocks;  /* calls of modules that are computed again */
} recorded_course;

/* `again`: the blocks are computed again: those that the recording names, or the items of the model's
 * outermost lists of modules of one class; where it has none, nothing. `saves`: but results of operations of
 * these kinds stay (recorded_kinds.h); NULL: all is computed again. STATUS_INVALID where there is no such
 * kind or PyTorch refuses to keep it. Close it in any case. */
status recorded_course_find(const recording *r, const recording_program *p, bool again, const char *saves,
                            recorded_course *c);

/* Blocks that somebody else chose. What a call makes whose kind its block saves stays from forward on, and
 * where the block is run again it is found there. */
typedef struct {
    const uint32_t *block_of; /* by module: the innermost block, from 1; 0: it is in none */
    uint32_t blocks;          /* 0: as recorded */
    const uint8_t *kind_of;   /* recorded_kinds_of the program */
    const uint64_t *saves;    /* by block, from 1: kinds, as a set; NULL: none */
} recorded_again;
status recorded_course_weave(const recording *r, const recording_program *p, const recorded_again *again,
                             recorded_course *c);
void recorded_course_close(recorded_course *c);

/* Is it a state of random numbers? It is with the host, where there is a GPU. */
static inline bool recorded_course_is_draws(const recorded_course *c, uint32_t storage) {
    return storage > (1 + c->depth) * recording_storages(c->program);
}

/* Of the program; not of a state of random numbers. */
static inline uint32_t recorded_course_of(const recorded_course *c, uint32_t storage) {
    uint32_t count = recording_storages(c->program);
    return storage ? (storage - 1) % count + 1 : 0;
}

/* How many there are. */
static inline uint32_t recorded_course_storages(const recorded_course *c) {
    return (1 + c->depth) * recording_storages(c->program) + c->blocks;
}

/* Marks modules: the block that each lies in, from 1; 0: none. Blocks are the items of the model's outermost
 * lists of modules of one class. Returns how many there are. `block_of` has room for all modules. */
uint32_t recorded_blocks(const recording *r, uint32_t *block_of);
/* The same of the blocks that are computed again, which may lie within one another: the innermost one. They
 * are those that the model's own library computes again, where the recording names some. */
uint32_t recorded_blocks_again(const recording *r, uint32_t *block_of);
/* Are there any? */
bool recorded_computes_again(const recording *r);
/* The block of the module that has a weight of that name, as "model.layers.0.mlp.up.weight"; 0: none. */
uint32_t recorded_block_of_name(const recording *r, const uint32_t *block_of, const char *weight);
