/* What ranks send each other, in the model of time: an op whose cost says that it sends begins a movement,
 * which goes on beside the steps that follow, on a lane of its own and after those that were begun before; a
 * collective that sends nothing waits for the movement into its first input. */
#pragma once

#include "lower/lower.h"

/* Seconds of a movement in which each rank sends what the cost says to each of those that it says. What a
 * host's ranks send each other shares its memory, what leaves the host its way out; both go on at the same
 * time. Of a sum that passes to the next rank or group (WAY_FROM_BEFORE): the longer one of its way within a
 * host, where each rank has its part of the rate, and between hosts, which one alone takes. */
double movements_seconds(const links *l, const op_cost *c);

/* Seconds by which steps that go on beside all of it are longer, since moving takes a processor from them. */
double movements_busy(const links *l, const op_cost *c);

/* Does a step of this op and cost wait for a movement? */
bool movements_is_wait(const op_def *op, const op_cost *c);

/* Has any step something to send? */
bool movements_any(const op_cost *costs, uint32_t count);

/* How long each step waits, by step, when they take the seconds that they have; and of all. What moving takes
 * of a processor counts with whoever waits for the movement: for the part of it that steps went on beside.
 *
 * Where a sum passes from rank to rank, or from group to group, each has it only when the one before has
 * added its own. So all of them are followed through the program: waits are those of the first, and at the
 * last step by how much the last one is behind it. */
status movements_wait(const program *p, const op_cost *costs, const device_rates *rates, double *waits,
                      double *all);
