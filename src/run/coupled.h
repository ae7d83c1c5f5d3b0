/* Models whose samples see each other, in the mean and variance of a batch or in the load of experts: what is
 * said of their batches. */
#pragma once

#include "run/setup.h"

/* STATUS_INVALID where a batch of one sample would have no statistics, and where micro-batches were asked for
 * that change what is trained, and nobody has said that this is meant. */
status coupled_check(const setup *s);
