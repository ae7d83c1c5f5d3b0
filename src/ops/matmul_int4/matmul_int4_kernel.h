/* The inside of the product with codes of 4 bits: what instruction sets do, a panel or two at a time.
 *
 * Processors multiply unsigned bytes by signed ones: codes of 4 bits are unsigned as they are stored, from 0
 * on, and what CODES4_ZERO adds to a sum is known before it begins (codes4_encode_row). A group is
 * CODES4_WORDS words of an output, each of which becomes two by a mask and a shift. With AVX2, whose products
 * of bytes add pairs up in 16 bits, a whole group stays below 2^15: 8 * 2 * 15 * 127 = 30480. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ops/matmul_int4/matmul_int4.h"

enum { MATMUL_INT4_ROWS = 16 }; /* of a block at most; rows of a tile */

/* Some rows by a panel, or by two that follow each other. By row: a (depth), scales_a and starts (groups);
 * sum[row * stride + output]. */
typedef struct {
    int64_t rows, panels, groups;
    int64_t lanes; /* of a panel */
    const uint8_t *codes;
    const uint16_t *scales;
    const int8_t *a;
    const float *scales_a;
    const int32_t *starts;
    float *sum;
    int64_t stride;
} matmul_int4_block;

typedef struct {
    const char *name;
    bool (*available)(void);                   /* on this processor */
    void (*block)(const matmul_int4_block *b); /* with CODES4_PANEL lanes; the portable one with any */
} matmul_int4_kernel;

/* Those of this architecture and the portable one; best first, ends with NULL. */
extern const matmul_int4_kernel *const matmul_int4_kernels[];
extern const matmul_int4_kernel matmul_int4_kernel_amx, matmul_int4_kernel_vnni, matmul_int4_kernel_avx_vnni,
    matmul_int4_kernel_avx2, matmul_int4_kernel_portable;

/* The best one that this processor has. */
const matmul_int4_kernel *matmul_int4_kernel_chosen(void);
/* For tests: use this one from now on; NULL: the best again. */
void matmul_int4_kernel_choose(const matmul_int4_kernel *kernel);
