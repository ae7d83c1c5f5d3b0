/* What is said of a run whose numbers are not finite any more: where that began. */
#pragma once

#include "train/feed.h"

/* STATUS_FAILED with a sentence: step, block, op, and of several ranks which. The step's update was not
 * applied (autodiff/optimizer.h), so all ranks compute it again from the same weights and the same samples.
 * Counting from 0, as all of training does; the sentence counts from 1. */
status fault_of_step(feed *f, const plan *p, const loader_batch *batch, int64_t step, double learning_rate);

/* After `done` steps: STATUS_FAILED names a weight, or what the optimizer remembers of one, that is not
 * finite; STATUS_OK: all are. */
status fault_of_update(exec *e, const plan *p, int64_t done);
