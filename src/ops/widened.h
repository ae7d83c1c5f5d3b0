/* Fast kernels compute in f32. For data of 16 bits they are given some rows at a time, widened into the
 * scratch of their thread, and what they write there is narrowed: the same body, no whole wide copy. */
#pragma once

#include "ops/fast.h"

/* How a body that was written for f32 goes over a call. Row r of an input or output is its r-th part of
 * `rows` equal ones; what is marked as whole (bit per input, per output) every body gets all of. */
typedef struct {
    int64_t rows;
    uint32_t whole_in, whole_out;
    uint64_t own; /* bytes of scratch at its start that are the kernel's own; a multiple of 64 */
} widened;

/* All floats are f32, f16 or bf16, and one of them is not f32. */
bool widened_accepts(const op_call *c);
/* Rows that are widened at a time, and bytes of scratch for all threads, `own` included. */
int64_t widened_step(const op_call *c, const widened *how);
uint64_t widened_scratch(const op_call *c, const widened *how, int threads);
/* Calls `body` for all rows, on all threads: with a call whose rows 0 .. last-1 are those at hand. */
void widened_run(const op_call *c, const widened *how, fast_body body);

/* Where every element is a row; inputs of one element are whole. */
uint64_t widened_elements_scratch(const op_call *c, int threads);
void widened_elements(const op_call *c, fast_body body);

/* For kernels with a loop of their own: rows first .. first+count-1, at most widened_step of them, in f32. */
enum { WIDENED_SIDES = 12 };
typedef struct {
    op_arg in[WIDENED_SIDES], out[WIDENED_SIDES];
    op_call call;
    const op_call *of;
    int64_t first, count;
    const widened *how;
} widened_rows;
void widened_open(widened_rows *w, const op_call *c, const widened *how, int64_t first, int64_t count,
                  int thread);
void widened_close(const widened_rows *w); /* narrows the outputs to their places */
