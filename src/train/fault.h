/* What is said of a step whose loss or gradients are not finite: where that began. */
#pragma once

#include "train/feed.h"

/* STATUS_FAILED with a sentence: step, block, op. The step's update was not applied (autodiff/optimizer.h),
 * so it is computed again from the same weights and the same samples. Counting from 0, as all of training
 * does; the sentence counts from 1. */
status fault_of_step(feed *f, const plan *p, const loader_batch *batch, int64_t step, double learning_rate);
