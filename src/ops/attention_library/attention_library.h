/* Attention of ops/attention_flash, made by a library of the GPU's maker (device/library_attention.h): the
 * same operands and results, in the library's order of summation. The engine stands in the node, so it is
 * part of the plan. Without one, and on a CPU, it is attention_flash by its own kernels.
 *
 * passes/library_attention puts it in when all else is done to a program: it has no gradient. Either
 * direction reads the logarithms as the other would have written them, so each may be the library's alone. */
#pragma once

#include "device/library_attention.h"
#include "ops/attention_flash/attention_flash.h"

typedef struct {
    attention_attributes attention;
    int32_t chosen; /* 1: `algorithm` is the library's; 0: there is none */
    int32_t unused; /* 0 */
    library_algorithm algorithm;
} attention_library_attributes;

/* Inputs and outputs of op_attention_flash and of op_attention_flash_backward. */
extern const op_def op_attention_library;
extern const op_def op_attention_library_backward;
extern const op_kernel attention_library_cuda[], attention_library_backward_cuda[];

/* A node of either op of attention_flash, as the library is asked for it. LIBRARY_ATTENTION_SIGHTS and
 * LIBRARY_ATTENTION_PLACES: it is not to be asked. */
library_attention_answer attention_library_of(const graph *g, const node *n, bool gradient,
                                              library_attention *p);

/* The same of a call. */
library_attention attention_library_called(const op_call *c, bool gradient);
