/* Sweeps: steps that follow each other and have the same kernel are run at once, where the kernel can do that
 * (ops/sweeps.h) and nothing is different for it: many small tensors cost one start then, not one each.
 *
 * The order stays as it is, and so does memory, but for scratch, which is kept until the last step of its
 * sweep (plan/live.h). So a step joins those before it only if it writes nothing that these touch and reads
 * nothing that they write, and if nothing can have taken the place of what they were the last to read: where
 * something has died within the sweep, nothing is born. Programs of which something is away are left as they
 * are, since it comes and goes between steps. */
#pragma once

#include "lower/lower.h"

/* By step of a scheduled program: how many steps, from this one on, are run at once; at least 1. `together`
 * has room for p->count. */
status sweep_find(const program *p, uint16_t *together);

/* Counts what sweeps start: in their first steps, in their seconds and in the program's. Until then steps
 * that can be swept have none of it, which is a lower bound and left so where seconds are to be one
 * (o->unwaited). What ranks wait for does not see it. */
status sweep_predict(program *p, const lower_options *o);
