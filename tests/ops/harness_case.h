/* One case of one op as a graph of its own, and the checks that are made on it. */
#pragma once

#include "harness_memory.h"

/* Where a check is, and how often it failed there: every failing check prints one line. */
typedef struct {
    const op_def *op;
    const op_case *one;
    const char *kernel; /* or what is being done */
    bool here_only;     /* kernels for GPUs are left out: the CPU's have other bits now */
    int failures;
} harness_place;

void harness_fail(harness_place *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef struct {
    graph g;
    node_id node;                     /* of the op */
    tensor_id source[OP_CASE_INPUTS]; /* by input, 0: absent */
    uint32_t in_count;
} harness_case;

/* Float inputs are trainable parameters of dtype `floats`. False (and a line) when the op refuses the case.
 */
bool harness_case_open(harness_case *h, harness_place *p, dtype floats);
/* The same for an op that may refuse this dtype: without a line. */
bool harness_case_try(harness_case *h, const harness_place *p, dtype floats);
void harness_case_close(harness_case *h);
/* Input i of the case into x: the same values at every call. */
void harness_case_fill(const op_case *one, uint32_t i, const op_arg *x);

/* Every kernel against the reference: values, bits at any thread count and address, aliases, guards. */
void harness_check_kernels(harness_place *p, const harness_case *h);
/* Every kernel for GPUs once, and once for each alias: for who watches them. */
void harness_run_kernels(harness_place *p, const harness_case *h);
/* The gradient against central differences, in double; with and without a gradient gathered before. */
void harness_check_gradient(harness_place *p);
