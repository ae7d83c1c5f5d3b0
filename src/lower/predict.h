/* The model of time: what each step of a program will take, from what its op says it costs, the device's
 * rates, and what has been touched before.
 *
 * A call takes its start, its work and its traffic. They do overlap, but what shows in whole steps is nearer
 * to their sum than to the larger one. Work is the flops at the rate of their kind, random numbers, and what
 * products copy (from caches, so those have no other traffic with them, but for few rows, which copy next to
 * nothing and read weights as other ops read). Traffic is divided into what a cache
 * still holds and what comes from memory, by the traffic since an operand was last touched (its reuse
 * distance: Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9, 1970).
 *
 * A GPU gives a call's blocks to its multiprocessors, and the one that has the most of them is done last:
 * work takes as much longer as the others have less (device/launches.h). A call may start several kernels,
 * and many calls one (schedule/sweep.h).
 *
 * Seconds grow with every count and with the distance, for any rates. They decide between plans and never
 * about results. */
#pragma once

#include "lower/lower.h"

/* Of one call without its traffic. */
double predict_work(const op_cost *cost, const device_rates *rates);

/* What its arithmetic can't be faster than: at the rate of products, of floats or of codes. */
double predict_arithmetic(const op_cost *cost, const device_rates *rates);

/* Of one call; `missed` in 0..1 is the part of what it reads and writes that comes from memory. */
double predict_call(const op_cost *cost, double missed_read, double missed_written,
                    const device_rates *rates);

/* Fills in the seconds of all steps and of the program. Those of a step have what it waits for: pieces, and
 * what other ranks send (lower/movements.h), which goes on while other steps run. `costs`: by step, what
 * their ops say. `apart`: what is away is in the host's memory, not in a file. */
status predict_program(program *p, const op_cost *costs, bool apart, const device_rates *rates);

/* Computing, and what each step alone waits for its pieces at least: p->seconds are a lower bound of what
 * predict_program fills in, and the same where nothing is waited for. Seconds of steps are of computing
 * alone.
 */
status predict_unwaited(program *p, const op_cost *costs, bool apart, const device_rates *rates);

/* Of one start of a kernel in this program. */
double predict_start(const program *p, const device_rates *rates);

/* predict_program of a program whose values have become `filed` (lower/pieces.h) since, on a device apart. It
 * is never faster than before: p->computing stays, and p->seconds do not fall. */
status predict_filed(program *p, const device *d, const device_rates *rates);
