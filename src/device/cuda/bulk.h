/* Copies of whole tiles by a multiprocessor's copy engine (cp.async.bulk.tensor, capability 9.0 and later),
 * and barriers in shared memory that count what has come (mbarrier). One thread begins a copy. The engine
 * finds the addresses, swizzles rows of 128 bytes as products by groups of warps want them (mma_group.h),
 * writes zeros for what is outside of the matrix, and tells the barrier how many bytes have come. Twins for
 * emulation (emulate_bulk.h) follow the PTX ISA ("tensors", "cp.async.bulk.tensor", "mbarrier").
 *
 * A map says what the matrix is and how high a tile of it is; a tile is 128 bytes wide. The host makes it
 * before the launch, and it is an argument of the kernel: `const __grid_constant__`, so that the engine reads
 * it where arguments lie, and a captured program keeps a copy.
 *
 * A barrier has phases, from 0 on. One is over when as many threads have arrived as it was made for, and as
 * many bytes have come as were expected. Who waits gives the parity of the phase that is to be over, so it
 * may lag behind by one, and parity 1 of a new barrier is over at once.
 *
 *   gpu_barrier_make     by one thread; then it shows them (gpu_group_show), and all meet
 *   gpu_barrier_expect   the thread arrives, and so many bytes come in this phase: those of whole tiles, also
 *                        where zeros are written
 *   gpu_bulk_copy ...    of this phase
 *   gpu_barrier_wait     each thread for itself: what came is here for it, and for the products it begins
 *   gpu_barrier_arrive   e.g. at another barrier, when what came has been multiplied (gpu_group_wait)
 *
 * What threads have written is overwritten by a copy only after they have shown it and met. */
#pragma once

#include "device/cuda/mma_group.h"

enum { GPU_BULK_MOST = 256 /* rows of a tile */, GPU_BULK_ALIGNED = 16 /* bytes, of all lines */ };

typedef uint64_t gpu_barrier; /* in shared memory; its bits are the hardware's */

/* Rows of `wide` numbers of `bytes` each, `stride` bytes apart; a tile has `tile_high` of them. */
struct gpu_bulk_matrix {
    const void *data;
    int64_t wide, high, stride;
    unsigned bytes, tile_high;
};

/* Can the engine read it? All lines begin at 16 bytes; coordinates have 31 bits, also those behind the end
 * that a tile of its last lines has. */
static inline bool gpu_bulk_reads(const gpu_bulk_matrix &m) {
    const int64_t most = INT32_MAX - GPU_BULK_MOST;
    return m.wide >= 1 && m.high >= 1 && m.wide <= most && m.high <= most && m.stride >= m.wide * m.bytes &&
           m.stride % GPU_BULK_ALIGNED == 0 && (uintptr_t)m.data % GPU_BULK_ALIGNED == 0 &&
           m.tile_high >= 1 && m.tile_high <= GPU_BULK_MOST;
}

/* A block has as many registers for all of its threads when it begins. A group of warps that takes few gives
 * the others back, and a group that takes more has them then: MOST is a multiple of 8, and all threads of a
 * group come by. */
enum { GPU_REGISTERS_FEW = 24 };

#ifdef __CUDACC__

#if GPU_HAS_GROUPS || defined(__CUDA_ARCH_FEAT_SM100_ALL)
template <int MOST>
GPU_INLINE void gpu_registers_give() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(MOST));
}
template <int MOST>
GPU_INLINE void gpu_registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MOST));
}
#endif

/* The driver's CUtensorMap. */
struct alignas(128) gpu_bulk_map {
    uint64_t opaque[16];
};

/* False: the engine can't read this matrix, or the driver makes no maps. */
extern "C" bool cuda_bulk_map(gpu_bulk_map *map, const gpu_bulk_matrix *m);
static inline bool gpu_bulk_map_make(gpu_bulk_map *map, const gpu_bulk_matrix &m) {
    return gpu_bulk_reads(m) && cuda_bulk_map(map, &m);
}

/* `count`: of threads that arrive in a phase. */
GPU_INLINE void gpu_barrier_make(gpu_barrier *b, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(gpu_shared_at(b)), "r"(count) : "memory");
}
GPU_INLINE void gpu_barrier_expect(gpu_barrier *b, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(gpu_shared_at(b)), "r"(bytes)
                 : "memory");
}
GPU_INLINE void gpu_barrier_arrive(gpu_barrier *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(gpu_shared_at(b)) : "memory");
}
GPU_INLINE void gpu_barrier_wait(gpu_barrier *b, unsigned parity) {
    unsigned over;
    do
        asm volatile("{.reg .pred p;mbarrier.try_wait.parity.shared::cta.b64 p,[%1],%2;selp.u32 %0,1,0,p;}"
                     : "=r"(over)
                     : "r"(gpu_shared_at(b)), "r"(parity)
                     : "memory");
    while (!over);
}

/* The tile whose first number is number x of row y, to `to`, a multiple of GPU_GROUP_ALIGNED. */
GPU_INLINE void gpu_bulk_copy(void *to, const gpu_bulk_map *map, int x, int y, gpu_barrier *b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0],[%1,{%2,%3}],[%4];" ::"r"(gpu_shared_at(to)),
                 "l"(map), "r"(x), "r"(y), "r"(gpu_shared_at(b))
                 : "memory");
}

/* The first copy finds the map in a cache. */
GPU_INLINE void gpu_bulk_prefetch(const gpu_bulk_map *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

#else
#include "device/cuda/emulate_bulk.h"
#endif
