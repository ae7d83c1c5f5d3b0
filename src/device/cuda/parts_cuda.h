/* What a process takes of a GPU's memory beside pools, measured part by part while it is taken: the driver's
 * context, the code of kernels, streams with their events. All of it is taken at once, so that nothing is
 * taken within a run.
 *
 * The driver and its library of counters are opened when the program runs. Where the counters are not there
 * (no libnvidia-ml, or a container that hides processes), what others take of the GPU meanwhile counts too.
 */
#pragma once

#include <cuda_runtime.h>

extern "C" {
#include "device/device.h"
}

/* To be called before anything of CUDA: code is loaded as a whole, not kernel by kernel when they are called.
 */
void cuda_parts_begin(void);

/* Opens GPU `number`; `handles` makes its streams and events, and launches something on each. */
cudaError_t cuda_parts_open(int number, cudaError_t (*handles)(void), device_parts *parts);

/* Waits for a kernel that does nothing. cudaErrorNoKernelImageForDevice: there is no code for this GPU. */
cudaError_t cuda_parts_touch(cudaStream_t lane);

/* What this process holds of the GPU now, pools as well; where nobody counts processes, what others have
 * taken since it was opened counts too. */
uint64_t cuda_parts_own(void);

/* What the process holds now, of which `pool_bytes` are pools and `parts` was measured when it was opened:
 * what has been added since counts as code, or, with ranks that a library has `joined`, as theirs. */
device_parts cuda_parts_now(const device_parts *parts, uint64_t pool_bytes, bool joined);
