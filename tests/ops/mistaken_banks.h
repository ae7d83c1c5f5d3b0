/* Kernels of one warp whose accesses of shared memory take turns of its banks, and how many. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MISTAKEN_BANKS_FLOATS = 2048 /* that they copy from x into shared memory, and as many behind y */ };

typedef struct {
    const char *name;
    void (*run)(float *x, float *y);
    uint64_t turns[2], conflicts[2]; /* reads, writes */
} mistaken_banks;
extern const mistaken_banks mistaken_banks_all[]; /* to a name of NULL */

#ifdef __cplusplus
}
#endif
