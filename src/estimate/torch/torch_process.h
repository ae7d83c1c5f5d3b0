/* What a process of PyTorch takes of a device beside its allocator and the driver's context
 * (hardware.context): images of libraries' kernels, handles, buffers of collectives. In bytes. */
#pragma once

#include <stdbool.h>

#include "estimate/interval.h"

/* `images`: the model has convolutions. `gpus`: devices that work together. `at_once`: all kernels of a
 * library are loaded with it (torch_loads_at_once). */
interval torch_process(bool images, int64_t gpus, bool at_once);
