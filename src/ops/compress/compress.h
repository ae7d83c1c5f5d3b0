/* Floats as codes of 8 bits (ops/codes.h) with one f32 scale for each block of COMPRESS_BLOCK consecutive
 * elements of a row (the rest of a row is a block as well), so that a row's codes don't depend on its
 * neighbours: the scale is the block's largest absolute value / 127, a code the nearest multiple of it. A
 * block without any value of normal size is all zeros. Paper: Chen et al., "ActNN: reducing training memory
 * footprint via 2-bit activation compressed training", arXiv:2104.14129, with 8 bits, symmetric. */
#pragma once

#include "ir/op.h"

enum { COMPRESS_BLOCK = 256 };

typedef struct {
    int32_t type; /* dtype of y */
} decompress_attributes;

extern const op_def op_compress;   /* x -> codes (i8, of x's shape), scales (one for each block) */
extern const op_def op_decompress; /* codes, scales -> y */
extern const op_kernel compress_cpu[], decompress_cpu[];
extern const op_kernel compress_cuda[], decompress_cuda[];

tensor_id compress_apply(graph *g, tensor_id x); /* codes; the scales follow */
tensor_id compress_widen(graph *g, tensor_id codes, dtype type);

/* Blocks in a tensor of this shape. */
int64_t compress_blocks(const shape *s);
