/* Products by groups of warps, for capability 9.0 alone (wgmma, which ptxas knows for sm_90a): four warps
 * that begin at a multiple of four multiply 64 lines of a by 64, 128 or 192 lines of b, 16 numbers of 16 bits
 * deep, or 32 floats of 8 bits, with sums in f32. Both operands lie in shared memory, which the units read by
 * themselves: a kernel says where, by a descriptor for each, and goes on. Twins for emulation
 * (emulate_mma_group.h) follow what the PTX ISA documents (9.7.15, "asynchronous warpgroup level matrix
 * instructions").
 *
 * A kernel keeps to this order, all 128 threads of a group together:
 *
 *   gpu_group_show     a thread has written what will be multiplied; then all that wrote meet (__syncthreads)
 *   gpu_group_fence    the threads' registers are those that products are added to
 *   gpu_group_mma ...  products on the same registers one after the other; nobody touches these
 *   gpu_group_commit   the products since the last one are a set
 *   gpu_group_wait     but for the LEFT youngest sets all are done: registers may be read, and after a
 * meeting of all groups that read it shared memory may be written
 *
 * Sums in registers are those of mma.h: warp w of a group has lines 16 w .. 16 w + 15 of the 64, fragment j
 * columns 8 j .. 8 j + 7, and of a fragment a lane has row g at columns 2t, 2t + 1, then row g + 8.
 *
 * An operand's numbers lie along the depth, or (CROSSED, of 16 bits alone) along its lines. Either way it is
 * made of rows of 128 bytes, one after the other, that begin at a multiple of 1024 and whose pieces of 16 are
 * swizzled by eight rows: piece c of row r is at c ^ r % 8.
 *
 *   along the depth   a row is a line: 64 numbers of 16 bits. `stride`: from eight lines to the next eight
 *   CROSSED           a row is a depth: 64 lines of it. `stride`: from eight depths to the next eight;
 *                     `leading`: from 64 lines to the next 64
 *
 * Units for 8 bits keep some 14 bits of a sum (mma.h says whence). The twin adds 16 or 32 products in f64 and
 * rounds once, as that of mma.sync does, so in emulation both have the same bits; a GPU may have others. */
#pragma once

#include "device/cuda/mma.h"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GPU_HAS_GROUPS 1
#else
#define GPU_HAS_GROUPS 0
#endif

enum { GPU_GROUP = 128 /* threads */, GPU_GROUP_ROW = 128 /* bytes */, GPU_GROUP_ALIGNED = 1024 };

/* Has a GPU of this capability such products, and this build code for them? A build for GPUs names 90a among
 * its architectures for it (cmake/cuda.cmake). */
#if defined(__CUDACC__) && !defined(SNUG_CUDA_GROUPS)
enum { GPU_GROUP_BUILT = false };
#else
enum { GPU_GROUP_BUILT = true };
#endif
static inline bool gpu_group_known(uint32_t capability) { return GPU_GROUP_BUILT && capability == 90; }

#ifdef __CUDACC__

/* What this thread has written to shared memory is what products that begin later read. */
GPU_INLINE void gpu_group_show() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
GPU_INLINE void gpu_group_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
GPU_INLINE void gpu_group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/* And then `d` is read: the compiler may move no use of it before the wait. */
template <int LEFT>
GPU_INLINE void gpu_group_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
template <int LEFT, int FRAGMENTS>
GPU_INLINE void gpu_group_wait(float (&d)[FRAGMENTS][4]) {
    gpu_group_wait<LEFT>();
#pragma unroll
    for (int j = 0; j < FRAGMENTS; j++)
        asm volatile("" : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])::"memory");
}

/* d = a b, or with `onto` d += a b: T is the type of a's numbers; b's are the same, and e4m3 where a's have 8
 * bits. The asm's operands are d's sums, then a, b, onto, and what is crossed. */
#if GPU_HAS_GROUPS
#define GPU_GROUP_ONE(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define GPU_GROUP_TWO(j) GPU_GROUP_ONE(j), GPU_GROUP_ONE(j + 1)
#define GPU_GROUP_EIGHT(j) GPU_GROUP_TWO(j), GPU_GROUP_TWO(j + 2), GPU_GROUP_TWO(j + 4), GPU_GROUP_TWO(j + 6)
#define GPU_GROUP_TEN(t)                                                                                     \
    "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9"
#define GPU_GROUP_THIRTY "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," GPU_GROUP_TEN(1) "," GPU_GROUP_TEN(2)
#define GPU_GROUP_SIXTY GPU_GROUP_THIRTY "," GPU_GROUP_TEN(3) "," GPU_GROUP_TEN(4) "," GPU_GROUP_TEN(5)

#define GPU_GROUP_MMA(SHAPE, TYPES, NAMES, OPERANDS, ONTO, ...)                                              \
    asm volatile("{.reg .pred p;setp.ne.b32 p," ONTO ",0;wgmma.mma_async.sync.aligned." SHAPE ".f32." TYPES  \
                 " {" NAMES "}," OPERANDS ";}"                                                               \
                 : __VA_ARGS__                                                                               \
                 : "l"(a), "l"(b), "r"(onto), "n"((int)A_CROSSED), "n"((int)B_CROSSED))
#define GPU_GROUP_64(K, TYPES, CROSSED)                                                                      \
    GPU_GROUP_MMA("m64n64" K, TYPES, GPU_GROUP_THIRTY ",%30,%31", "%32,%33,p,1,1" CROSSED(35, 36), "%34",    \
                  GPU_GROUP_EIGHT(0))
#define GPU_GROUP_128(K, TYPES, CROSSED)                                                                     \
    GPU_GROUP_MMA("m64n128" K, TYPES, GPU_GROUP_SIXTY ",%60,%61,%62,%63", "%64,%65,p,1,1" CROSSED(67, 68),   \
                  "%66", GPU_GROUP_EIGHT(0), GPU_GROUP_EIGHT(8))
#define GPU_GROUP_192(K, TYPES, CROSSED)                                                                     \
    GPU_GROUP_MMA("m64n192" K, TYPES,                                                                        \
                  GPU_GROUP_SIXTY                                                                            \
                  "," GPU_GROUP_TEN(6) "," GPU_GROUP_TEN(7) "," GPU_GROUP_TEN(8) ",%90,%91,%92,%93,%94,%95", \
                  "%96,%97,p,1,1" CROSSED(99, 100), "%98", GPU_GROUP_EIGHT(0), GPU_GROUP_EIGHT(8),           \
                  GPU_GROUP_EIGHT(16))
#define GPU_GROUP_MAY_CROSS(a, b) ",%" #a ",%" #b
#define GPU_GROUP_ALONG(a, b) ""

#define GPU_GROUP_OF(T, COLUMNS, K, TYPES, CROSSED)                                                          \
    template <bool A_CROSSED, bool B_CROSSED>                                                                \
    GPU_INLINE void gpu_group_mma(T, float(&d)[COLUMNS / 8][4], uint64_t a, uint64_t b, int onto) {          \
        GPU_GROUP_##COLUMNS(K, TYPES, CROSSED);                                                              \
    }
#define GPU_GROUP_ALL(COLUMNS)                                                                               \
    GPU_GROUP_OF(gpu_bf16, COLUMNS, "k16", "bf16.bf16", GPU_GROUP_MAY_CROSS)                                 \
    GPU_GROUP_OF(gpu_f16, COLUMNS, "k16", "f16.f16", GPU_GROUP_MAY_CROSS)                                    \
    GPU_GROUP_OF(gpu_e4m3, COLUMNS, "k32", "e4m3.e4m3", GPU_GROUP_ALONG)                                     \
    GPU_GROUP_OF(gpu_e5m2, COLUMNS, "k32", "e5m2.e4m3", GPU_GROUP_ALONG)
GPU_GROUP_ALL(64)
GPU_GROUP_ALL(128)
GPU_GROUP_ALL(192)

#undef GPU_GROUP_ALL
#undef GPU_GROUP_OF
#undef GPU_GROUP_ALONG
#undef GPU_GROUP_MAY_CROSS
#undef GPU_GROUP_192
#undef GPU_GROUP_128
#undef GPU_GROUP_64
#undef GPU_GROUP_MMA
#undef GPU_GROUP_SIXTY
#undef GPU_GROUP_THIRTY
#undef GPU_GROUP_TEN
#undef GPU_GROUP_EIGHT
#undef GPU_GROUP_TWO
#undef GPU_GROUP_ONE
#endif

#else
#include "device/cuda/emulate_mma_group.h"
#endif

/* From an address of shared memory on: the next one where an operand may begin. */
GPU_INLINE unsigned char *gpu_group_aligned(unsigned char *shared) {
    return shared + (0u - gpu_shared_at(shared)) % GPU_GROUP_ALIGNED;
}

/* The descriptor of an operand that begins here; distances in bytes, multiples of 16. Fields are of 14 bits,
 * in units of 16 bytes: its beginning from bit 0, `leading` from 16, `stride` from 32; 1 at bit 62 says rows
 * of 128 bytes. */
GPU_INLINE uint64_t gpu_group_operand(const void *at, unsigned leading, unsigned stride) {
    return (uint64_t)((gpu_shared_at(at) & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | 1ull << 62;
}
/* The same, so many bytes further. */
GPU_INLINE uint64_t gpu_group_further(uint64_t operand, unsigned bytes) { return operand + (bytes >> 4); }
