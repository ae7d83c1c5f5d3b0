/* Instructions of tensor cores and what feeds them, one wrapper each, for capability 8.0 and later: products
 * of 16 x 16 by 16 x 8 numbers of 16 bits, sums in f32 (mma.sync m16n8k16); eight rows of 16 bytes from
 * shared memory into the registers that these want (ldmatrix); copies of 16 bytes from global to shared
 * memory that go on beside the kernel (cp.async); two floats to 16 bits each (cvt), and powers of 2 (ex2).
 * Twins for emulation follow the layouts that the PTX ISA documents. A kernel that uses them has a body for
 * these capabilities alone: #if GPU_HAS_MMA.
 *
 * Registers of a lane (g = lane / 4, t = lane % 4), two numbers in each, the lower half first:
 *   a  rows g, g + 8, g, g + 8 at depths 2t, 2t, 2t + 8, 2t + 8
 *   b  column g at depths 2t, 2t + 8
 *   d  row g at columns 2t, 2t + 1, then row g + 8
 * Of codes of 8 bits, and of floats of 8, (m16n8k32) a register has four, at depths 4t .. 4t + 3 and 4t + 16
 * .. 4t + 19.
 *
 * The order of the sums within one mma is the hardware's; the twin adds in f64 and rounds once. So both have
 * the same bits only where every sum is exact.
 *
 * Floats of 8 bits are multiplied by units of their own on 8.9 and on 12.0. For 9.0, and for 10.0, ptxas
 * makes conversions to f16 and two mma of f16 of each, as fast as 16 bits at best (nvcc 13.0: F2FP and HMMA
 * where the others have QMMA). That leaves kernels with many sums too few registers, so there are none; 9.0
 * has its units for groups of warps (mma_group.h). Units for 8 bits keep less of a sum: those that 9.0 has
 * for groups of warps align products to the largest of them, and some 14 bits remain, from one instruction
 * to the next as well (DeepSeek-AI, "DeepSeek-V3 technical report", arXiv:2412.19437, section 3.3.2). What
 * 8.9 and 12.0 keep is not known here. The twin knows nothing of that: it assumes sums as exact as those of
 * 16 bits. What a GPU adds is nearer to the twin the fewer mma follow each other on one sum, so who uses
 * them adds short sums on in f32. */
#pragma once

#include "device/cuda/gpu.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define GPU_HAS_MMA 1
#else
#define GPU_HAS_MMA 0
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1200 || (__CUDA_ARCH__ >= 890 && __CUDA_ARCH__ < 900)
#define GPU_HAS_MMA_FP8 1
#else
#define GPU_HAS_MMA_FP8 0
#endif

enum { GPU_MMA_LEAST = 80 /* capability */ };

/* Of floats of 8 bits. */
static inline bool gpu_mma_fp8_known(uint32_t capability) { return capability >= 120 || capability == 89; }

/* The types of numbers, as tags. */
struct gpu_bf16 {};
struct gpu_f16 {};
struct gpu_e4m3 {}; /* floats of 8 bits, as ops/fp8.h has them */
struct gpu_e5m2 {};

#ifdef __CUDACC__

#define GPU_MMA(SHAPE, A, B)                                                                                 \
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." A "." B ".f32 "                                   \
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"                                        \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
GPU_INLINE void gpu_mma(gpu_bf16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    GPU_MMA("m16n8k16", "bf16", "bf16");
}
GPU_INLINE void gpu_mma(gpu_f16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    GPU_MMA("m16n8k16", "f16", "f16");
}

/* Floats of 8 bits: the tag is a's type, and b is e4m3. */
#if GPU_HAS_MMA_FP8
GPU_INLINE void gpu_mma(gpu_e4m3, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    GPU_MMA("m16n8k32", "e4m3", "e4m3");
}
GPU_INLINE void gpu_mma(gpu_e5m2, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    GPU_MMA("m16n8k32", "e5m2", "e4m3");
}
#endif
#undef GPU_MMA

/* Codes of 8 bits, four in a register, sums of 32 bits: exact in any order. */
GPU_INLINE void gpu_mma_codes(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

GPU_INLINE unsigned gpu_shared_at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

/* Four matrices of 8 x 8: lane 8 m + r gives the address of row r of the m-th; of it a lane gets row g at
 * columns 2t, 2t + 1, or with `across` column g at rows 2t, 2t + 1. */
GPU_INLINE void gpu_ldmatrix(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(gpu_shared_at(row))
                 : "memory");
}
GPU_INLINE void gpu_ldmatrix_across(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(gpu_shared_at(row))
                 : "memory");
}

/* The first `bytes` of 16 (0 .. 16), zeros behind; both addresses are multiples of 16. Copies since the last
 * commit are a group; a wait leaves the LEFT youngest groups under way, and is for the thread's own copies.
 */
GPU_INLINE void gpu_copy16(void *shared, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(gpu_shared_at(shared)), "l"(from),
                 "r"(bytes)
                 : "memory");
}
GPU_INLINE void gpu_copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT>
GPU_INLINE void gpu_copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* Sixteen bytes from any address on, in two steps, so that other work stands between them: what is read are
 * the 16 bytes around the first and the next 16, of both only what holds one of the `bytes` asked for (0 ..
 * 16); zeros are behind those.
 */
struct gpu_bytes {
    uint4 low, high;
    unsigned shift; /* bits */
};
GPU_INLINE gpu_bytes gpu_bytes_read(const void *at, int bytes) {
    gpu_bytes e = { { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, (unsigned)((uintptr_t)at & 15) * 8 };
    const uint4 *line = (const uint4 *)((uintptr_t)at & ~(uintptr_t)15);
    if (bytes > 0) e.low = __ldg(line);
    if (bytes * 8 + (int)e.shift > 128) e.high = __ldg(line + 1);
    return e;
}
GPU_INLINE void gpu_bytes_words(const gpu_bytes &e, int bytes, uint32_t (&w)[4]) {
    uint32_t x[8] = { e.low.x, e.low.y, e.low.z, e.low.w, e.high.x, e.high.y, e.high.z, e.high.w };
    if (e.shift & 64) x[0] = x[2], x[1] = x[3], x[2] = x[4], x[3] = x[5], x[4] = x[6], x[5] = x[7];
    if (e.shift & 32) x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = x[4], x[4] = x[5];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        w[i] = __funnelshift_r(x[i], x[i + 1], e.shift & 31);
        int left = bytes - 4 * i;
        w[i] = left >= 4 ? w[i] : left > 0 ? w[i] & (1u << 8 * left) - 1 : 0;
    }
}
/* Sixteen bytes of any memory, at a multiple of 16. */
GPU_INLINE void gpu_set16(void *at, const uint32_t (&w)[4]) {
    *(uint4 *)at = make_uint4(w[0], w[1], w[2], w[3]);
}
GPU_INLINE void gpu_get16(const void *at, uint32_t (&w)[4]) {
    uint4 all = *(const uint4 *)at;
    w[0] = all.x, w[1] = all.y, w[2] = all.z, w[3] = all.w;
}

/* 2^x within 2^-22 of its value, 0 below 2^-126: of units beside those that multiply. Bits may differ between
 * capabilities. */
GPU_INLINE float gpu_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two numbers, rounded to the nearest even as base/half.h rounds; the first in the lower half. */
GPU_INLINE uint32_t gpu_pack(gpu_bf16, float low, float high) {
    uint32_t two;
    asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}
GPU_INLINE uint32_t gpu_pack(gpu_f16, float low, float high) {
    uint32_t two;
    asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}

#else
#include "device/cuda/emulate_mma.h"
#endif
