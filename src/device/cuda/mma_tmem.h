/* Products whose sums lie in tensor memory, for capability 10.0 alone (tcgen05, which ptxas knows for
 * sm_100a): one thread begins products of 128 lines of a by so many of b, 32 bytes deep: 16 numbers of 16
 * bits (kind::f16), or 32 floats of 8, which lie along the depth (kind::f8f6f4). Both operands lie in shared
 * memory as groups of warps want them (mma_group.h); the sums, in f32, are 128 lanes of so many columns, lane
 * i those of line i. Twins for emulation (emulate_tmem.h) follow what the PTX ISA documents (9.7.16,
 * "tensorcore 5th generation family instructions"; its parts are named below).
 *
 *   gpu_tmem_take     by a warp: columns, a power of two from 32 to 512, whose address it writes to shared
 *                     memory; the block takes no more. Where others have them, it waits (9.7.16.7.1)
 *   gpu_tmem_give     by the same warp, before the block ends, when all have read
 *   gpu_tmem_mma ...  by one thread, always the same: one after the other, beside the threads (9.7.16.10)
 *   gpu_tmem_commit   when all products that this thread has begun are done, the barrier counts one arrival
 *   gpu_tmem_read     by a warp, that has waited for such a barrier: 32 columns of its lanes, which are
 *                     32 (w % 4) .. + 31 of warp w; thread t has lane t (9.7.16.8, shape 32x32b)
 *   gpu_tmem_wait     what was read is in its registers
 *
 * Barriers order no tensor memory by themselves (9.7.16.6): before a thread tells others that it has read, or
 * taken columns, it calls gpu_tmem_before; after a thread was told, and before it reads or multiplies,
 * gpu_tmem_after. A commit needs no gpu_tmem_before.
 *
 * An address has its lane in the upper half and its column in the lower one. */
#pragma once

#include "device/cuda/bulk.h"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)
#define GPU_HAS_TMEM 1
#else
#define GPU_HAS_TMEM 0
#endif

enum { GPU_TMEM_LINES = 128, GPU_TMEM_COLUMNS = 512, GPU_TMEM_READ = 32 /* columns */ };
enum { GPU_TMEM_REGISTERS = 64 << 10 /* of a multiprocessor's threads */ };

/* As gpu_group_known: a build for GPUs names 100a among its architectures for it. 10.3 can't run that code,
 * though it has such instructions. */
#if defined(__CUDACC__) && !defined(SNUG_CUDA_TMEM)
enum { GPU_TMEM_BUILT = false };
#else
enum { GPU_TMEM_BUILT = true };
#endif
static inline bool gpu_tmem_known(uint32_t capability) { return GPU_TMEM_BUILT && capability == 100; }

#ifdef __CUDACC__

#if GPU_HAS_TMEM
template <int COLUMNS>
GPU_INLINE void gpu_tmem_take(uint32_t *address) {
    asm volatile(
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0],%1;" ::"r"(gpu_shared_at(address)),
        "n"(COLUMNS)
        : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
template <int COLUMNS>
GPU_INLINE void gpu_tmem_give(uint32_t address) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0,%1;" ::"r"(address), "n"(COLUMNS)
                 : "memory");
}
GPU_INLINE void gpu_tmem_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
GPU_INLINE void gpu_tmem_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

/* BYTES of a number. `form`: gpu_tmem_form; not `onto` what is there: d = a b. */
#define GPU_TMEM_MMA(KIND)                                                                                   \
    asm volatile("{.reg .pred p;setp.ne.b32 p,%4,0;tcgen05.mma.cta_group::1.kind::" KIND                     \
                 " [%0],%1,%2,%3,p;}" ::"r"(d),                                                              \
                 "l"(a), "l"(b), "r"(form), "r"(onto)                                                        \
                 : "memory")
template <int BYTES>
GPU_INLINE void gpu_tmem_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t form, int onto) {
    if constexpr (BYTES == 1)
        GPU_TMEM_MMA("f8f6f4");
    else
        GPU_TMEM_MMA("f16");
}
#undef GPU_TMEM_MMA
GPU_INLINE void gpu_tmem_commit(gpu_barrier *b) {
    asm volatile(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(gpu_shared_at(b))
        : "memory");
}

#define GPU_TMEM_FOUR(i) "=f"(x[i]), "=f"(x[i + 1]), "=f"(x[i + 2]), "=f"(x[i + 3])
GPU_INLINE void gpu_tmem_read(float (&x)[GPU_TMEM_READ], uint32_t address) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,"
                 "%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},[%32];"
                 : GPU_TMEM_FOUR(0), GPU_TMEM_FOUR(4), GPU_TMEM_FOUR(8), GPU_TMEM_FOUR(12), GPU_TMEM_FOUR(16),
                   GPU_TMEM_FOUR(20), GPU_TMEM_FOUR(24), GPU_TMEM_FOUR(28)
                 : "r"(address)
                 : "memory");
}
#undef GPU_TMEM_FOUR
/* The compiler may move no use of `x` before it. */
GPU_INLINE void gpu_tmem_wait(float (&x)[GPU_TMEM_READ]) {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < GPU_TMEM_READ; i += 4)
        asm volatile("" : "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3])::"memory");
}
#endif

#else
#include "device/cuda/emulate_tmem.h"
#endif

/* What is multiplied (9.7.16.4.2, table 42, .kind::f16 and .kind::f8f6f4): sums of f32 (1) from bit 4; a's
 * type and b's, f16 (0) or bf16 (1), e4m3 (0) or e5m2 (1, by e4m3), from 7 and 10; CROSSED operands at 15 and
 * 16; b's lines / 8 from 17; a's / 16 from 24. */
template <class T>
struct gpu_tmem_type;
template <>
struct gpu_tmem_type<gpu_f16> {
    enum { OF_A = 0, OF_B = 0 };
};
template <>
struct gpu_tmem_type<gpu_bf16> {
    enum { OF_A = 1, OF_B = 1 };
};
template <>
struct gpu_tmem_type<gpu_e4m3> {
    enum { OF_A = 0, OF_B = 0 };
};
template <>
struct gpu_tmem_type<gpu_e5m2> {
    enum { OF_A = 1, OF_B = 0 };
};
template <class T, int COLUMNS, bool A_CROSSED, bool B_CROSSED>
GPU_INLINE uint32_t gpu_tmem_form() {
    static_assert(COLUMNS % 16 == 0 && COLUMNS >= 16 && COLUMNS <= 256, "of 128 lines");
    return 1u << 4 | (uint32_t)gpu_tmem_type<T>::OF_A << 7 | (uint32_t)gpu_tmem_type<T>::OF_B << 10 |
           (uint32_t)A_CROSSED << 15 | (uint32_t)B_CROSSED << 16 | (uint32_t)COLUMNS / 8 << 17 |
           (uint32_t)GPU_TMEM_LINES / 16 << 24;
}

/* An operand that begins here, in rows of 128 bytes (9.7.16.4.1, table 40). The first three fields are those
 * of gpu_group_operand; 1 from bit 46 is fixed, and 2 from bit 61 says how rows are swizzled. */
GPU_INLINE uint64_t gpu_tmem_operand(const void *at, unsigned leading, unsigned stride) {
    return (uint64_t)((gpu_shared_at(at) & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | 1ull << 46 | 2ull << 61;
}
