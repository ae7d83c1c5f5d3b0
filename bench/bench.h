/* What the measuring programs share: memory as a run has it, one op as a call with its buffers, and the
 * talk with whoever measures.
 *
 * A measuring program waits for a line on stdin, does what it says once, and answers with one line that
 * begins with seconds. So the script beside it can let several programs, ours and a peer's, take turns: each
 * in a process and with a thread runtime of its own, asleep while another one runs. */
#pragma once

#include "device/device.h"
#include "lower/lower.h"

double bench_seconds(void);

/* As the pool of a run: zeroed and resident. Ends the program when there is none. */
void *bench_memory(uint64_t bytes);
void bench_release(void *data, uint64_t bytes);

/* Uniform numbers in [low, high), the same for one seed. */
void bench_fill(float *x, int64_t count, uint64_t seed, float low, float high);

/* Prints "ready ..." and calls `answer` for every line until stdin ends. */
void bench_serve(void (*answer)(const char *line), const char *ready);

/* One op with buffers for all it reads and writes. */
enum { BENCH_INPUTS = 12, BENCH_OUTPUTS = 5 };
typedef struct {
    shape shape; /* rank 0: absent */
    dtype dtype;
    void *data; /* NULL: memory is taken and, for f32, filled with numbers in [-1, 1) */
} bench_input;

typedef struct {
    program program;
    op_call call;
    op_arg args[BENCH_INPUTS + BENCH_OUTPUTS];
    bool taken[BENCH_INPUTS + BENCH_OUTPUTS];
    double flops, bytes;                  /* as the op's cost says */
    uint64_t buffer_bytes, scratch_bytes; /* what it has taken of its own */
} bench_op;

/* Outputs that must or may share an input's memory do so when `in_place`; must-aliases always. Ends the
 * program when the op refuses the inputs. */
void bench_op_open(bench_op *o, const op_def *op, const bench_input *in, const void *attributes,
                   bool in_place);
double bench_op_run(bench_op *o); /* seconds */
void bench_op_close(bench_op *o);
