/* Products of rows that are gathered, in the order of the plain product (docs/design.md), for ops that say
 * where their numbers are: slices of ORDERED_SLICE products from 0, each by one fused multiply-add, slice
 * after slice onto what was before. The kernels for GPUs have this order (ops/matmul/matmul_cuda.h). */
#pragma once

#include "ir/op.h"

enum { ORDERED_SLICE = 256, ORDERED_ROWS = 256, ORDERED_COLUMNS = 64 };

/* What is asked for: of a group's product. */
typedef struct {
    int64_t group, row, column, columns, depth, depths;
} ordered_block;

typedef struct {
    int64_t rows, columns, depth;
} ordered_extent;

typedef struct {
    const op_call *call;
    const void *of;   /* what the functions below are given */
    ordered_extent n; /* of a group, or the most */
    int64_t groups;
    void (*extent)(const void *of, int64_t group, ordered_extent *n);  /* NULL: groups are alike */
    void (*a)(const void *of, const ordered_block *at, float *to);     /* (depths) of the row */
    void (*b)(const void *of, const ordered_block *at, float *to);     /* (depths,ORDERED_COLUMNS) */
    void (*begin)(const void *of, const ordered_block *at, float *to); /* (columns) of the row; NULL: 0 */
    void (*end)(const void *of, const ordered_block *at, const float *sum); /* (columns) of the row */
} ordered_product;

/* The call's scratch is used. */
void ordered_product_run(const ordered_product *p);
uint64_t ordered_product_scratch(const op_call *c, int threads);
