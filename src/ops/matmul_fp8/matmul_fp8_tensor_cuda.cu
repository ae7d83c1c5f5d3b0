/* The product of floats of 8 bits on tensor cores: in a file of its own, since compiling it takes long. Those
 * by groups of warps and in tensor memory are in others (matmul_fp8_group_cuda.cu, matmul_fp8_tmem_cuda.cu),
 * for the same reason. */
#include "ops/matmul_fp8/matmul_fp8_tensor_cuda.h"

#include "device/cuda/mma_tmem.h"

static bool codes_are_multiplied(const op_call *c) {
    return !matmul_fp8_of(c)->ta && matmul_fp8_of(c)->b_form == FP8_E4M3;
}

static bool accepts(const op_call *c) {
    bool known = codes_are_multiplied(c) && gpu_mma_fp8_known(c->capability);
    return instructions_tensor(CONFIRM_FLOATS, c->capability) &&
           (matmul_fp8_of(c)->ta ? c->capability >= GPU_MMA_LEAST : known) && cuda_accepts(c);
}

/* What one generation alone has: of numbers of 16 bits, which those over rows are, and of floats of 8. */
static bool own_accepts(const op_call *c, confirm_kind halves, confirm_kind floats) {
    return instructions_groups(halves, c->capability) && instructions_groups(floats, c->capability) &&
           (matmul_fp8_of(c)->ta || codes_are_multiplied(c)) && cuda_accepts(c);
}

static bool group_accepts(const op_call *c) {
    return gpu_group_known(c->capability) && own_accepts(c, CONFIRM_GROUPS, CONFIRM_GROUPS_FLOATS);
}

static bool tmem_accepts(const op_call *c) {
    return gpu_tmem_known(c->capability) && own_accepts(c, CONFIRM_TMEM, CONFIRM_TMEM_FLOATS);
}

CUDA_KERNELS(matmul_fp8_tensor,
             { "matmul_fp8_cuda_group", group_accepts, matmul_fp8_tensor_scratch, matmul_fp8_group_run },
             { "matmul_fp8_cuda_tmem", tmem_accepts, matmul_fp8_tensor_scratch, matmul_fp8_tmem_run },
             { "matmul_fp8_cuda_tensor", accepts, matmul_fp8_tensor_scratch,
               matmul_fp8_run<matmul_fp8_by_warps> });
