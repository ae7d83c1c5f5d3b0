/* Kernels with one mistake each, and their mended twins: what a watch has to find, and to leave alone. */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MISTAKEN_NUMBERS = 256 };

typedef struct {
    const char *name;
    const char *said; /* of the mistake, when it is found */
    /* x and y have MISTAKEN_NUMBERS numbers each; `host` is not the device's. */
    void (*run)(bool mended, float *x, float *y, float *host);
} mistaken_kernel;
extern const mistaken_kernel mistaken_kernels[]; /* to a name of NULL */

#ifdef __cplusplus
}
#endif
