/* The product of ops/matmul, made by a library of the GPU's maker (device/library.h): the same operands and
 * results, in the library's order of summation. The algorithm stands in the node, so it is part of the plan.
 * Without one, and on a CPU, it is the product of ops/matmul by its own kernels.
 *
 * passes/library_products puts it in when all else is done to a program: it has no gradient. */
#pragma once

#include "device/library.h"
#include "ops/matmul/matmul.h"

typedef struct {
    matmul_attributes product;
    int32_t chosen; /* 1: `algorithm` is the library's; 0: there is none */
    library_algorithm algorithm;
} library_matmul_attributes;

extern const op_def op_library_matmul;
extern const op_kernel library_matmul_cuda[];

/* The product y of these inputs, in the places of ops/matmul (0: absent), as the library is asked for it.
 * LIBRARY_PLACES: one of them is a part of something else that does not begin at a multiple of 16 bytes;
 * then, and with LIBRARY_TYPES, it is not to be asked. */
library_answer library_matmul_of(const graph *g, const tensor_id *in, tensor_id y, const matmul_attributes *t,
                                 library_product *p);

/* The same of a call. */
library_product library_matmul_called(const op_call *c, const matmul_attributes *t);
