/* The product of few rows, as generating has it: each weight takes part in a few multiplications only, so
 * time is what reading b takes. b is read once, where it lies and as it is stored (f32, 16 bits, codes), and
 * widened in registers; nothing of it is packed. The order of sums, and so every bit, is that of the panels.
 *
 * Memory gives the most to a thread that reads on and on from one place: then the processor itself looks far
 * ahead. So a b that lies across goes slice by slice of the depth, each of them a range of memory of one
 * thread; sums of slices wait in scratch until all are there. One row is read from end to end on processors
 * that look ahead well. More rows would spend their time on loading and storing sums: they walk some depths
 * at once, and ask for what comes next, into the second cache. Into the first one it would be slower: fewer
 * such requests can be on their way than the processor's own. Codes, and what is too large for this, go by
 * ranges of columns instead. */
#pragma once

#include "ops/matmul/matmul_kernel.h"

/* By the shape: may it go this way? It does where there is no accumulator and the kernel streams b's type. */
bool matmul_may_stream(const matmul_problem *p);

/* So many rows of which micro-kernels have a body of their own, or the next of these numbers: rows are filled
 * up with whatever. */
int64_t matmul_stream_width(int64_t rows);

/* For at most so many threads. */
uint64_t matmul_stream_scratch(const matmul_problem *p, int threads);
void matmul_stream_run(const matmul_problem *p, const matmul_kernel *kernel, void *scratch);

/* Bytes of numbers as they are stored: f32, f16, bf16, i8, u8, where two are a byte. */
static inline __attribute__((always_inline)) int64_t matmul_stored_bytes(const dtype type, int64_t numbers) {
    switch (type) {
    case DTYPE_U8: return numbers / 2;
    case DTYPE_I8: return numbers;
    case DTYPE_F16:
    case DTYPE_BF16: return numbers * 2;
    default: return numbers * 4;
    }
}

/* ---- micro-kernels ---- */

/* Where a micro-kernel reads neighbouring columns of b, which lies across. */
typedef struct {
    const char *at;
    int64_t stride; /* bytes to the next depth */
    const matmul_operand *o;
    int64_t column, depth; /* within the matrix */
    int64_t depths;        /* that there are from here on */
} matmul_unit;

bool matmul_streams_avx512(dtype b), matmul_streams_avx512_bf16(dtype b), matmul_streams_avx2(dtype b),
    matmul_streams_amx(dtype b);
void matmul_stream_avx512(const matmul_strip *s);
void matmul_stream_avx512_bf16(const matmul_strip *s);
void matmul_stream_avx2(const matmul_strip *s);
void matmul_stream_amx(const matmul_strip *s);
