/* What calls start on a GPU (device/launches.h), told by the kernels' own code. */
#pragma once

#include "device/launches.h"
#include "lower/lower.h"

/* The GPU of device d, for which launches are told. */
launches launched_on(const device *d);

/* Is the step's kernel one of a GPU's, which tells what it starts? What libraries do and what moves between
 * ranks is nobody's here to tell: either counts as one start. */
bool launched_here(const graph *g, const lower_step *step, const op_cost *cost);

/* Adds what the calls of `count` steps start, one after the other, or at once where they are a sweep
 * (ops/sweeps.h): then all have its kernel. STATUS_FAILED: no memory. */
status launched_tell(const graph *g, const lower_step *steps, uint32_t count, const device *d, launches *l);

/* Of one step: what it starts, in the step and in its cost. `joins`: calls that can be started with others
 * are, and whoever joins them counts what is started (schedule/sweep.h). */
status launched_cost(const graph *g, lower_step *step, const device *d, bool joins, op_cost *cost);
