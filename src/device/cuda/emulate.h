/* CUDA's words for a C++ compiler: kernels of GPUs run on the CPU, for tests. A block's threads are fibers
 * of one thread of the host, so whatever order they run in is chosen here and can be chosen otherwise:
 * forward, reversed, shuffled. Barriers and shuffles are places where fibers wait for each other; a wait
 * that can never end, and threads that wait for each other at different places, end the program with a
 * sentence. Shared memory is NaN when a block begins.
 *
 * What a GPU would do at the same time is done one after the other, so a race does not show as such: it
 * shows as a result that depends on the order, and to who watches each access (emulate_watch.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tuple>
#include <utility>

#include "device/cuda/emulate_order.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

namespace emulate {
/* Where the thread that runs is. */
struct place {
    dim3 thread, block, threads, blocks;
    unsigned lane; /* of its warp */
};
extern thread_local place here __attribute__((tls_model("initial-exec")));

/* Where threads meet: what they call, and in which line. */
struct site {
    const char *what, *file;
    int line;
};

unsigned char *shared();
/* A GPU's accesses are aligned to their size; this processor's need not be. */
[[noreturn]] void misaligned(const void *at, size_t bytes);
template <class T>
inline T *wide(void *at) {
    if ((uintptr_t)at % sizeof(T) != 0) misaligned(at, sizeof(T));
    return (T *)at;
}
void barrier(site at);
/* Until it is said otherwise the running thread does what a unit does beside the kernel, as a copy that
 * lands: that takes no turns of shared memory's banks, for who counts these (emulate_watch.h). */
void aside(bool yes);
/* Each thread in `lanes` (bit per lane; it must be in them itself) gives up to SLOT bytes; what lane l gave
 * then stands at l * SLOT of the result, until this thread's next but one exchange. */
enum { SLOT = 16 };
const unsigned char *exchange(unsigned lanes, const void *value, size_t bytes, site at);

struct launch_shape {
    const char *kernel;
    dim3 blocks, threads;
    size_t shared; /* bytes of a block */
    bool apart;    /* its threads never meet */
};
/* Runs, now or when the device's lane of kernels comes to it, `thread(arguments)` for every thread of every
 * block; `arguments` are copied. */
void launch(const launch_shape &shape, void (*thread)(const void *), const void *arguments, size_t bytes);

template <class... P>
struct bound {
    void (*kernel)(P...);
    std::tuple<P...> with;
    static void thread(const void *at) {
        const bound *b = (const bound *)at;
        std::apply(b->kernel, b->with);
    }
};
template <class... P, class... A>
void launch_kernel(const launch_shape &shape, void (*kernel)(P...), A &&...with) {
    static_assert((std::is_trivially_copyable<P>::value && ...), "a GPU copies arguments byte by byte");
    bound<P...> b = { kernel, std::tuple<P...>(std::forward<A>(with)...) };
    launch(shape, bound<P...>::thread, &b, sizeof b);
}

template <class T>
T from_lane(unsigned lanes, T value, unsigned lane, site at) {
    static_assert(sizeof(T) <= SLOT, "an exchange takes as much");
    T got;
    memcpy(&got, exchange(lanes, &value, sizeof value, at) + lane * SLOT, sizeof got);
    return got;
}
} // namespace emulate

#define threadIdx (emulate::here.thread)
#define blockIdx (emulate::here.block)
#define blockDim (emulate::here.threads)
#define gridDim (emulate::here.blocks)

#define GPU_NAME(...) __VA_ARGS__
#define GPU_LAUNCH_MADE(kernel, blocks, threads, shared, ...)                                                \
    emulate::launch_kernel({ #kernel, blocks, threads, shared, false }, kernel, __VA_ARGS__)
#define GPU_LAUNCH_APART_MADE(kernel, blocks, threads, ...)                                                  \
    emulate::launch_kernel({ #kernel, blocks, threads, 0, true }, kernel, __VA_ARGS__)
#define GPU_SHARED_MOST(kernel, bytes) (void)(bytes)
#define GPU_SHARED(type, name) type *name = (type *)emulate::shared()
#define GPU_WIDE(type, at) (emulate::wide<type>(at))
/* A compiler takes a struct apart; a vector is one access, as on a GPU. */
typedef float gpu_four __attribute__((vector_size(16), may_alias));
inline void gpu_get4(const float *at, float x[4]) {
    gpu_four four = *emulate::wide<gpu_four>((float *)at);
    for (int k = 0; k < 4; k++) x[k] = four[k];
}
inline void gpu_set4(float *at, const float x[4]) {
    *emulate::wide<gpu_four>(at) = gpu_four{ x[0], x[1], x[2], x[3] };
}

#define EMULATE_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
inline void __syncthreads(EMULATE_SITE) { emulate::barrier({ "__syncthreads", file, line }); }
inline void __syncwarp(unsigned lanes = ~0u, EMULATE_SITE) {
    emulate::exchange(lanes, "", 1, { "__syncwarp", file, line });
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T value, int mask, EMULATE_SITE) {
    return emulate::from_lane(lanes, value, emulate::here.lane ^ (unsigned)mask,
                              { "__shfl_xor_sync", file, line });
}
template <class T>
T __shfl_sync(unsigned lanes, T value, int lane, EMULATE_SITE) {
    return emulate::from_lane(lanes, value, (unsigned)lane % 32, { "__shfl_sync", file, line });
}
template <class T>
T __shfl_up_sync(unsigned lanes, T value, unsigned by, EMULATE_SITE) {
    unsigned lane = emulate::here.lane;
    return emulate::from_lane(lanes, value, lane >= by ? lane - by : lane, { "__shfl_up_sync", file, line });
}

/* In any order of threads the same at the end; blocks run on threads of the host. */
inline int atomicMax(int *at, int value) {
    int before = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (before < value &&
           !__atomic_compare_exchange_n(at, &before, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return before;
}

/* A GPU that is full soon, so that tests have large tiles too. */
struct gpu_size {
    unsigned multiprocessors, shared; /* shared: bytes of each */
};
inline gpu_size gpu_size_of_device() { return { 1, 100 << 10 }; }
