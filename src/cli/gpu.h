/* --gpu: the GPU that is planned for, wherever it is. */
#pragma once

#include "cli/options.h"
#include "device/device_gpu.h"
#include "estimate/hardware.h"

/* What its file says of it; capability 0: it is not NVIDIA's. */
device_gpu gpu_of(const hardware *h);

/* Has it kernels, and do we know its rates? Then o->run.on is `at`, as if by --gpu, and with it the budget:
 * its memory, or where `overhead` says what a process takes there, what that leaves. */
bool gpu_elsewhere(const hardware *h, options *o, device_elsewhere *at);
/* What plans count of its memory beside what they plan. */
uint64_t gpu_beside(const hardware *h, const device_elsewhere *at);

/* Sets o->run.on, which is `at` from then on, and without --memory the budget: all of its memory. What plans
 * only needs no such GPU; what `runs` takes the one that is here and refuses another. Without --gpu it does
 * nothing. */
status gpu_choose(options *o, bool runs, device_elsewhere *at);
