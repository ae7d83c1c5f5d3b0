/* Which micro-kernel this processor gets: looked up once. */
#include "ops/matmul/matmul_kernel.h"

#include <stdatomic.h>
#include <stddef.h>

const matmul_kernel *const matmul_kernels[] = {
#if defined(__x86_64__)
    &matmul_kernel_avx512, &matmul_kernel_avx2,
#endif
    &matmul_kernel_portable, NULL
};

static _Atomic(const matmul_kernel *) chosen;

const matmul_kernel *matmul_kernel_chosen(void) {
    const matmul_kernel *kernel = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (kernel) return kernel;
    const matmul_kernel *const *candidate = matmul_kernels;
    while (!(*candidate)->available()) candidate++;
    matmul_kernel_choose(*candidate);
    return *candidate;
}

void matmul_kernel_choose(const matmul_kernel *kernel) {
    atomic_store_explicit(&chosen, kernel, memory_order_relaxed);
}
