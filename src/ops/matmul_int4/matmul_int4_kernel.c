/* Which micro-kernel this processor gets. */
#include "ops/matmul_int4/matmul_int4_kernel.h"

#include <stdatomic.h>
#include <stddef.h>

const matmul_int4_kernel *const matmul_int4_kernels[] = {
#if defined(__x86_64__)
    &matmul_int4_kernel_amx,      &matmul_int4_kernel_vnni,
    &matmul_int4_kernel_avx_vnni, &matmul_int4_kernel_avx2,
#endif
    &matmul_int4_kernel_portable, NULL
};

static _Atomic(const matmul_int4_kernel *) chosen;

const matmul_int4_kernel *matmul_int4_kernel_chosen(void) {
    const matmul_int4_kernel *kernel = atomic_load_explicit(&chosen, memory_order_relaxed);
    const matmul_int4_kernel *const *candidate = matmul_int4_kernels;
    while (!kernel && !(*candidate)->available()) candidate++;
    return kernel ? kernel : *candidate;
}

void matmul_int4_kernel_choose(const matmul_int4_kernel *kernel) {
    atomic_store_explicit(&chosen, kernel, memory_order_relaxed);
}
