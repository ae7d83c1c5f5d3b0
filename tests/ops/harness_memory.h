/* Guarded blocks of memory, their filling, and a plain interpreter that runs the nodes of a graph with
 * reference kernels. What every check of the op harness stands on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ir/op.h"

/* A block between two walls of known bytes. `shift` bytes are added to an address aligned to 64: kernels see
 * parts of larger buffers, so they must give the same bits at every address. NULL when there is no memory. */
void *harness_block_new(uint64_t bytes, uint32_t shift);
bool harness_block_intact(const void *block);
void harness_block_free(void *block); /* fine with NULL */
uint64_t harness_block_bytes(const void *block);

enum { HARNESS_POISON = 0xFF }; /* of every byte: NaN as a float of either width, -1 as an integer */

/* Element i is a function of (seed, i): uniform in [low, high), whole numbers for integers. Floats are
 * rounded to f32 whatever their type, so that the f32 and the f64 form of a case have the same values. */
void harness_fill(const op_arg *x, double low, double high, uint64_t seed);

/* The last kernel of an op's list; NULL when it has none (views). */
const op_kernel *harness_reference(const op_def *op);

/* What is called around each kernel that the next function runs, where somebody looks at it. */
typedef struct {
    void (*before)(const op_call *c);
    void (*after)(const op_call *c);
} harness_watch;
extern const harness_watch *harness_watching; /* NULL: nobody does */

/* Runs one kernel with poisoned, guarded scratch. False when the scratch was overrun. */
bool harness_run_kernel(const op_kernel *k, op_call *c);

/* A buffer for every tensor of a graph that owns its storage. */
typedef struct {
    const graph *g;
    void **data; /* by tensor; views and aliases point into their owners */
} harness_memory;

bool harness_memory_open(harness_memory *m, const graph *g);
void harness_memory_close(harness_memory *m);
op_arg harness_memory_arg(const harness_memory *m, tensor_id t); /* absent for 0 */

/* Runs nodes first .. last-1 with their reference kernels. False when a block was overrun. */
bool harness_memory_run(const harness_memory *m, node_id first, node_id last);
