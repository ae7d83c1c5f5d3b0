/* Products of floats of 8 bits on tensor cores by groups of warps (wgmma, capability 9.0): what
 * matmul_fp8_tensor_cuda.h has, in the tiles of matmul_group_cuda.h. 9.0 has units for these floats in such
 * groups alone.
 *
 * The units read operands along the depth only. a's codes lie so. A weight that lies as (in, out) is turned
 * while it becomes codes, in scratch: in a sweep that there is anyway, and for all blocks at once, where a
 * kernel that turned it on its way into shared memory would do so for each tile of rows again. Over rows
 * codes become bf16 on their way into shared memory, which may lie across the depth.
 *
 * A stage is a slice of FP8_TILE depths: four products, then one fused multiply-add for each sum, with the
 * scales. A warp's columns have one scale of the weight, so no tile has more than FP8_TILE of them. */
#include "ops/matmul/matmul_group_cuda.h"
#include "ops/matmul_fp8/matmul_fp8_tensor_cuda.h"

struct matmul_fp8_by_groups {
    template <class P, class N, class E>
    static void along(const P &p, const N &numbers, const E &e) {
        tensor_by_groups<false>::choose<false, false>(p, numbers, e);
    }
    template <class P, class N, class E>
    static void over_rows(const P &p, const N &numbers, const E &e) {
        group_sized<group_large, GROUP_WORK_LARGE, matmul_fp8_widens, true, true>(p, numbers, e);
    }
};

void matmul_fp8_group_run(const op_call *c) { matmul_fp8_run<matmul_fp8_by_groups>(c); }
