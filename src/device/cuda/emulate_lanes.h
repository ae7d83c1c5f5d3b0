/* Between the emulation of kernels and that of a device: launches that a device's lane of kernels takes. */
#pragma once

#include "device/cuda/emulate.h"

namespace emulate {
/* Puts a launch on the lane of the device that runs a plan; false where none does, as in tests of kernels. */
bool lanes_take(const launch_shape &shape, void (*thread)(const void *), const void *arguments, size_t bytes);
/* Runs a launch now. */
void run(const launch_shape &shape, void (*thread)(const void *), const void *arguments, size_t bytes);
} // namespace emulate
