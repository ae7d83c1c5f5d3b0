/* Of a device apart the numbers that pass between it and the host in a step lie side by side, so that one
 * copy takes several: behind all other persistent tensors those of one number (the loss, the scale of
 * gradients), and next to them, where the arena begins, a program's: what it keeps for the host (the norm),
 * and what it reads from it (the learning rate, the place in the batch). */
#pragma once

#include "plan/plan.h"

/* Gives these storages places from the arena's beginning on, in `at` (by storage; UINT64_MAX: it is none of
 * them), for the whole program. Returns their bytes. */
uint64_t scalars_place(const plan_program *pp, uint64_t *at);

/* The least that the arena has with them: the most bytes of all others alive at once, and these. */
status scalars_arena(const plan_program *pp, uint64_t *bytes);

/* Moves persistent tensors of one number behind all others of POOL_MEMORY. */
status scalars_last(plan *p);
