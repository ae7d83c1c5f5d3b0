/* The language of kernels for GPUs: CUDA itself where nvcc compiles, its emulation on the CPU elsewhere
 * (emulate.h). A kernel is written once. What it may use beyond plain C++ stands here and in emulate.h.
 *
 *   GPU_LAUNCH(kernel, blocks, threads, shared, ...)   threads of a block may meet: in barriers and shuffles
 *   GPU_LAUNCH_APART(kernel, blocks, threads, ...)     they never do, and need no shared memory
 *   GPU_SHARED(type, name)                             the block's shared memory: there is no other way to it
 *   GPU_SHARED_MOST(kernel, bytes)                     before a launch with more than 48 KiB of it
 *   gpu_get4, gpu_set4                                 four floats in one access
 *   GPU_WIDE(type, at)                                 an address as one of `type`, more than one number wide
 *   gpu_size_here()                                    of the GPU that launches go to, asked by the host
 *
 * A kernel's name stands in parentheses, as nvcc wants it: GPU_LAUNCH((f<float>), ...).
 * Launches are put on the lane of kernels, in order; arguments are copied when a launch is made. Where they
 * are told instead (device/launches.h), nothing is launched, and the size is that of the GPU of the plan. */
#pragma once

#include <math.h>
#include <stdint.h>

extern "C" {
#include "device/launches.h"
}

#ifdef __CUDACC__
#include <cuda_runtime.h>

extern "C" cudaStream_t device_cuda_stream(void); /* of the device that runs plans: its lane of kernels */

#define GPU_LAUNCH_MADE(kernel, blocks, threads, shared, ...)                                                \
    GPU_NAME kernel<<<blocks, threads, shared, device_cuda_stream()>>>(__VA_ARGS__)
#define GPU_LAUNCH_APART_MADE(kernel, blocks, threads, ...)                                                  \
    GPU_NAME kernel<<<blocks, threads, 0, device_cuda_stream()>>>(__VA_ARGS__)
#define GPU_NAME(...) __VA_ARGS__
#define GPU_SHARED(type, name)                                                                               \
    extern __shared__ __align__(16) unsigned char gpu_shared_bytes[];                                        \
    type *name = (type *)gpu_shared_bytes
/* Said once for each kernel. */
template <class K>
static inline void gpu_shared_most(K *kernel, int bytes) {
    if (bytes > 48 << 10)
        cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
#define GPU_SHARED_MOST(kernel, bytes)                                                                       \
    do {                                                                                                     \
        if (launches_told()) break;                                                                          \
        static const bool said = (gpu_shared_most(GPU_NAME kernel, bytes), true);                            \
        (void)said;                                                                                          \
    } while (0)
#define GPU_WIDE(type, at) ((type *)(at))
static __device__ __forceinline__ void gpu_get4(const float *at, float x[4]) {
    float4 four = *(const float4 *)at;
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}
static __device__ __forceinline__ void gpu_set4(float *at, const float x[4]) {
    *(float4 *)at = make_float4(x[0], x[1], x[2], x[3]);
}
struct gpu_size {
    unsigned multiprocessors, shared; /* shared: bytes of each */
};
static inline gpu_size gpu_size_of_device(void) {
    int gpu = 0, multiprocessors = 1, shared = 0;
    cudaGetDevice(&gpu);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu);
    cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, gpu);
    return { (unsigned)multiprocessors, (unsigned)shared };
}
#else
#include "device/cuda/emulate.h"
#endif

/* No device is built: kernels are known, with what they take and the scratch that they want, and none is
 * compiled (cmake/cuda_planned.cmake). */
#ifdef SNUG_CUDA_PLANNED
#undef __global__
#undef GPU_LAUNCH_MADE
#undef GPU_LAUNCH_APART_MADE
#undef GPU_SHARED_MOST
#define __global__ static
template <class... A>
static inline void gpu_planned(const A &...) {}
#define GPU_LAUNCH_MADE(kernel, ...) gpu_planned(__VA_ARGS__)
#define GPU_LAUNCH_APART_MADE(kernel, ...) gpu_planned(__VA_ARGS__)
#define GPU_SHARED_MOST(kernel, bytes) (void)(bytes)
#endif

static inline bool gpu_told(const dim3 &blocks, const dim3 &threads) {
    return launches_note((uint64_t)blocks.x * blocks.y * blocks.z,
                         (uint64_t)threads.x * threads.y * threads.z);
}
#define GPU_LAUNCH(kernel, blocks, threads, ...)                                                             \
    do {                                                                                                     \
        if (!gpu_told(blocks, threads)) GPU_LAUNCH_MADE(kernel, blocks, threads, __VA_ARGS__);               \
    } while (0)
#define GPU_LAUNCH_APART(kernel, blocks, threads, ...)                                                       \
    do {                                                                                                     \
        if (!gpu_told(blocks, threads)) GPU_LAUNCH_APART_MADE(kernel, blocks, threads, __VA_ARGS__);         \
    } while (0)

static inline gpu_size gpu_size_here(void) {
    const launches *told = launches_told();
    if (told && told->multiprocessors) return { told->multiprocessors, told->shared };
    return gpu_size_of_device();
}

#define GPU_INLINE static __device__ __forceinline__
#define GPU_MEMBER static __device__ __forceinline__ /* of a struct that names a formula */

enum { GPU_WARP = 32, GPU_BLOCK = 256 /* threads, where nothing speaks for another number */ };

/* How many blocks of `each` cover n. */
static inline unsigned gpu_blocks(int64_t n, int64_t each) { return (unsigned)((n + each - 1) / each); }
