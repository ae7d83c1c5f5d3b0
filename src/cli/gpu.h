/* --gpu: the GPU that is planned for, wherever it is. */
#pragma once

#include "cli/options.h"
#include "device/device_gpu.h"
#include "estimate/hardware.h"

/* What its file says of it; capability 0: it is not NVIDIA's. */
device_gpu gpu_of(const hardware *h);

/* Sets o->run.on, which is `at` from then on, and without --memory the budget: all of its memory. What plans
 * only needs no such GPU; what `runs` takes the one that is here and refuses another. Without --gpu it does
 * nothing. */
status gpu_choose(options *o, bool runs, device_elsewhere *at);
