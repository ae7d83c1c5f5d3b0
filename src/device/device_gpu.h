/* GPUs by what is known of them: rates, what a process takes beside its pools, and devices for which plans
 * are made where no such GPU is. One reading serves planning elsewhere and the GPU itself, so that a run has
 * the bytes of its plan. */
#pragma once

#include "device/device.h"

/* The capabilities that kernels are made for begin here (docs/gpu.md). A build has those that its nvcc knows:
 * CUDA 12 is the last that makes code for 7.0. */
enum { DEVICE_GPU_LEAST = 70 };

/* What a context is likely to take where nobody measured it: a part for each thread that the GPU holds, for
 * which the driver keeps a stack, and a part for itself. Those that were measured lie within -35 % and +50 %.
 */
void device_gpu_context(int64_t multiprocessors, int64_t threads, uint64_t context[3]);

/* Bytes of shared memory of each multiprocessor, by generation (NVIDIA, "CUDA C++ Programming Guide", table
 * of compute capabilities). */
uint32_t device_gpu_shared(uint32_t capability);

/* By roofline: of published figures, or of those that the driver knows. Nothing of it was measured. */
device_rates device_gpu_rates(const device_gpu *g, int threads);

/* The most that a process takes there beside its pools. */
device_parts device_gpu_reserve(const device_gpu *g);

/* The same of a GPU that is here, and what the process took of it was `seen` when it was opened: that much,
 * and room for what comes later. In steps, so that processes that saw somewhat more or less have one plan. */
device_parts device_gpu_reserve_seen(const device_parts *seen);

/* What a program of so many calls takes there where it is captured (device.capture). */
uint64_t device_gpu_capture_bytes(uint64_t calls);

/* What a library's products take there beside its handle, when the first of each kind is made: their code.
 * A guess: it was not measured. */
uint64_t device_gpu_library_later(void);

/* What its driver takes of the host's memory: a guess until it was measured, and above what small programs
 * were seen to take. */
uint64_t device_gpu_driver(void);

/* "capability 9.0, 132 multiprocessors, 139.80 GiB" */
enum { DEVICE_GPU_TEXT_BYTES = 192 };
const char *device_gpu_text(const device_gpu *g, char text[DEVICE_GPU_TEXT_BYTES]);

/* A device of which `device.gpu` is here. Not to be moved. */
typedef struct {
    device device;
    device_gpu gpu;
} device_elsewhere;

/* Such a GPU where it is not: plans are made for it, and none is run. STATUS_INVALID: there are no kernels
 * for it, or none that this build knows. */
status device_elsewhere_plan(const device_gpu *g, device_elsewhere *out);

/* The device `here` with the rates and the reserve of device_elsewhere_plan, so that plans are the same.
 * STATUS_INVALID: it is another GPU. */
status device_elsewhere_here(const device_gpu *g, const device *here, device_elsewhere *out);
