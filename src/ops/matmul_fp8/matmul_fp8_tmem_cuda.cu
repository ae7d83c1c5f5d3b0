/* Products of floats of 8 bits in tensor memory (tcgen05, capability 10.0): what matmul_fp8_tensor_cuda.h
 * has, in the tiles of matmul_tmem_cuda.h. 10.0 has units for these floats there alone.
 *
 * A weight that lies as (in, out) is turned while it becomes codes, as for groups of warps
 * (matmul_fp8_group_cuda.cu): so all codes lie along the depth, and come by the same maps. A stage is a slice
 * of FP8_TILE depths: four products, behind which the other half of tensor memory takes the next ones, while
 * a thread adds its row's sums on with one fused multiply-add each. Its columns are half of a tile's at most,
 * so they have one scale of the weight.
 *
 * Over rows four warps widen codes to bf16 on their way into shared memory.
 *
 * What bounds it, reckoned as in matmul_tmem_cuda.h: of a slice's 128 depths in 128 x 256 products take 512
 * cycles, shared memory 384 + 384, and the 32,768 multiply-adds of its end 256 of the units of f32, beside
 * 128 KiB that are read of tensor memory. Nothing of it was measured: no GPU has run this kernel. */
#include "ops/matmul/matmul_tmem_cuda.h"
#include "ops/matmul_fp8/matmul_fp8_tensor_cuda.h"

struct matmul_fp8_in_tmem {
    template <class P, class N, class E>
    static void along(const P &p, const N &numbers, const E &e) {
        static_assert(FP8_TILE % (int)tmem_wide::OWN == 0 && FP8_TILE % (int)tmem_small::OWN == 0,
                      "a thread's columns have one scale");
        tensor_in_tmem::choose<false, false>(p, numbers, e);
    }
    template <class P, class N, class E>
    static void over_rows(const P &p, const N &numbers, const E &e) {
        tmem_launch<tmem_least, matmul_fp8_widens, true, true>(p, numbers, e);
    }
};

void matmul_fp8_tmem_run(const op_call *c) { matmul_fp8_run<matmul_fp8_in_tmem>(c); }
