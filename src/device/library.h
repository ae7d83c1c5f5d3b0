/* Products of matrices by a library of the GPU's maker (cuBLASLt): opened when the program runs, so that a
 * build needs neither the library nor its header. Who does not ask for it loads nothing.
 *
 * y = op(a) op(b) + bias + added, of matrices that lie row by row. Sums are f32, in the library's own order.
 * It may not split them among blocks, so a result does not depend on which block is first. What it makes a
 * product by is the first algorithm that its heuristic names: of one version, on GPUs of one kind, that is
 * always the same, and no clock takes part. What of the library's interface is used stands in
 * library_calls.h.
 *
 * Choosing may be done by several threads at a time, all else by one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Two are the same product where their bytes are: there is no padding. */
typedef struct {
    int64_t rows, columns, depth;
    int32_t ta, tb;   /* whether a lies as (depth, rows), b as (columns, depth) */
    int32_t type;     /* dtype of a and b: f32, bf16 or f16 */
    int32_t result;   /* of y and of what is added: that of a, or f32 */
    int32_t bias;     /* of the bias; DTYPE_NONE: there is none */
    int32_t addition; /* 1: something of y's shape is added; y may live in it */
} library_product;

typedef struct {
    uint64_t words[8]; /* the library's, as it may be kept for the same version; zeros: none */
    uint64_t workspace_bytes;
} library_algorithm;

/* Why the library does not make a product. */
typedef enum {
    LIBRARY_MAKES,
    LIBRARY_TYPES,  /* none that it is asked for */
    LIBRARY_PLACES, /* lines of a matrix don't begin at multiples of 16 bytes */
    LIBRARY_NO_WAY, /* the heuristic names no algorithm without split sums, within the workspace */
    LIBRARY_ANSWERS
} library_answer;

enum { LIBRARY_ALIGNMENT = 16, LIBRARY_WORKSPACE = 32 << 20 /* bytes, at most, of one product */ };

/* Opens it for the GPU that is current; what is multiplied goes to `stream`, a cudaStream_t. `emulated`: only
 * a stand-in will do, since the library's own kernels would be given memory of the host's. STATUS_INVALID: it
 * is not to be had, with a sentence. A second call does nothing. */
status library_open(void *stream, bool emulated);

/* "cuBLASLt 13.1.0"; "": it is not open. */
const char *library_name(void);

/* The algorithm of a product, and its workspace. */
library_answer library_choose(const library_product *p, library_algorithm *out);

/* Addresses on the device; those of absent operands are NULL. */
typedef struct {
    const void *a, *b, *bias, *added;
    void *y, *workspace;
} library_operands;

/* Puts the product onto the stream. `a` is what library_choose said in this process. */
void library_multiply(const library_product *p, const library_algorithm *a, const library_operands *at);

/* The first error of a product; an operand that does not lie where it was said to counts. */
status library_failed(void);
