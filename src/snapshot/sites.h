/* Where in the model's code memory that is in use was asked for, and in which of its blocks.
 *
 * A place is a line of the model's own code. Blocks of one code are told apart by repetition: in a forward as
 * many allocations of one stack as there are blocks, or a multiple, belong to the blocks in their order. */
#pragma once

#include "snapshot/alive.h"
#include "snapshot/roles.h"

typedef struct {
    roles_role role;
    uint32_t stack, frame; /* the frame of one of its stacks; UINT32_MAX: no code is known */
    uint32_t count;
    uint32_t said;  /* frame: what was said of the first that something was said of; 0: nothing */
    bool differs;   /* of others something else, or nothing */
    bool in_blocks; /* as often as there are blocks, or a multiple */
    uint64_t bytes;
} sites_place;

typedef struct {
    sites_place *places; /* largest first */
    uint32_t count;
    uint32_t blocks;    /* of the model; 0: none repeat */
    uint64_t *by_block; /* activations */
    uint64_t outside;   /* activations outside of blocks */
} sites;

/* How many blocks the model has, by the forward that keeps most; 0: none repeat. */
status sites_blocks(const course *c, const roles *r, uint32_t *blocks);

/* The block of each piece of the trace, by repetition in the forward that made it; -1: of none, or no
 * activation of a forward. `block` has room for all pieces. */
status sites_number(const course *c, uint32_t blocks, int32_t *block);

/* `verdicts` are those of the pieces of `a`, `blocks` as sites_blocks found them. */
status sites_open(const course *c, const alive *a, const verdict *verdicts, uint32_t blocks, sites *s);
void sites_close(sites *s); /* fine on a zeroed one */
