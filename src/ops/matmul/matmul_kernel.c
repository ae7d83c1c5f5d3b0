/* Which micro-kernel this processor gets. */
#include "ops/matmul/matmul_kernel.h"

#include <stdatomic.h>
#include <stddef.h>

const matmul_kernel *const matmul_kernels[] = {
#if defined(__x86_64__)
    &matmul_kernel_avx512, &matmul_kernel_avx2,
#endif
    &matmul_kernel_portable, NULL
};

const matmul_kernel *const matmul_kernels_pairs[] = {
#if defined(__x86_64__)
    &matmul_kernel_amx, &matmul_kernel_avx512_bf16,
#endif
    NULL
};

static _Atomic(const matmul_kernel *) chosen, chosen_pairs;

static const matmul_kernel *best_of(const matmul_kernel *const *candidate) {
    while (*candidate && !(*candidate)->available()) candidate++;
    return *candidate;
}

const matmul_kernel *matmul_kernel_chosen(void) {
    const matmul_kernel *kernel = atomic_load_explicit(&chosen, memory_order_relaxed);
    return kernel ? kernel : best_of(matmul_kernels);
}

const matmul_kernel *matmul_kernel_chosen_pairs(void) {
    const matmul_kernel *kernel = atomic_load_explicit(&chosen_pairs, memory_order_relaxed);
    return kernel ? kernel : best_of(matmul_kernels_pairs);
}

void matmul_kernel_choose(const matmul_kernel *kernel) {
    if (!kernel || kernel->type == DTYPE_F32) atomic_store_explicit(&chosen, kernel, memory_order_relaxed);
    if (!kernel || kernel->type == DTYPE_BF16)
        atomic_store_explicit(&chosen_pairs, kernel, memory_order_relaxed);
}
