/* Which micro-kernel this processor gets. */
#include "ops/matmul_int8/matmul_int8_kernel.h"

#include <stdatomic.h>
#include <stddef.h>

const matmul_int8_kernel *const matmul_int8_kernels[] = {
#if defined(__x86_64__)
    &matmul_int8_kernel_amx,      &matmul_int8_kernel_vnni,
    &matmul_int8_kernel_avx_vnni, &matmul_int8_kernel_avx2,
#endif
    &matmul_int8_kernel_portable, NULL
};

static _Atomic(const matmul_int8_kernel *) chosen;

const matmul_int8_kernel *matmul_int8_kernel_chosen(void) {
    const matmul_int8_kernel *kernel = atomic_load_explicit(&chosen, memory_order_relaxed);
    const matmul_int8_kernel *const *candidate = matmul_int8_kernels;
    while (!kernel && !(*candidate)->available()) candidate++;
    return kernel ? kernel : *candidate;
}

void matmul_int8_kernel_choose(const matmul_int8_kernel *kernel) {
    atomic_store_explicit(&chosen, kernel, memory_order_relaxed);
}
