/* What a kernel's code would start on a GPU, told instead of done. While a thread is told, its launches are
 * noted here and none is made (device/cuda/gpu.h), so the code that starts kernels is also what plans count
 * them by: there is no table beside it that could go wrong, and no GPU has to be here. Kernels look at no
 * data on the host, so their arguments may have any addresses.
 *
 * A GPU gives blocks to its multiprocessors, and is done when the one that has the most of them is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    unsigned multiprocessors, shared; /* of the GPU; shared: bytes of each of them. 0: not known */
    uint32_t count;                   /* launches */
    double threads;                   /* of all their blocks */
    double taken;                     /* threads there would be if all multiprocessors had what one has */
} launches;

/* Until launches_end this thread's launches are added to *l, which says the GPU. Not to be nested. */
void launches_begin(launches *l);
void launches_end(void);

/* How many times as long the work of these launches takes as if it were spread over the whole GPU: 1 or more.
 */
double launches_stretch(const launches *l);

/* For the words of kernels. True: it was noted, and is not to be made. */
bool launches_note(uint64_t blocks, uint64_t threads);

/* The GPU that this thread is told for; NULL: launches are made. */
const launches *launches_told(void);
