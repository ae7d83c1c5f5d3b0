/* Products of few rows with weights that no cache holds: bench-few_rows TYPE [SET].
 *
 * A line "rows columns depth tb threads" is answered by "seconds bytes" of one product, over as many copies
 * of the weight as fill an arena larger than any cache, each read once. bytes: of the weight as it is stored,
 * its scales included. "read threads" is answered so for reading parts of the arena and nothing else. Seconds
 * are longer than a quarter of the calls took: others on the machine disturb the more the longer one looks.
 * TYPE: f32; bf16 and f16, operands and result; bf16-alone, f16-alone, the weight alone; int8 and int4, codes
 * by codes (ops/matmul_int8, ops/matmul_int4, whose weights always lie as (out, in)); codes8, codes4, floats
 * by codes (ops/matmul_coded). SET: of instructions, as --instructions of 'snug train' has it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/instructions.h"
#include "base/threads.h"
#include "bench.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/matmul_int4/matmul_int4.h"
#include "ops/matmul_int8/matmul_int8.h"
#include "ops/nf4.h"
#include "ops/vector_math.h"

enum { ARENA = 320 << 20, SCALES = ARENA / 8 };

typedef struct {
    const char *name;
    dtype a, b;
    bool by_codes;
} form;

static const form forms[] = {
    { "f32", DTYPE_F32, DTYPE_F32, false },       { "bf16", DTYPE_BF16, DTYPE_BF16, false },
    { "f16", DTYPE_F16, DTYPE_F16, false },       { "bf16-alone", DTYPE_F32, DTYPE_BF16, false },
    { "f16-alone", DTYPE_F32, DTYPE_F16, false }, { "int8", DTYPE_F32, DTYPE_I8, true },
    { "int4", DTYPE_F32, DTYPE_U8, true },        { "codes8", DTYPE_F32, DTYPE_I8, false },
    { "codes4", DTYPE_F32, DTYPE_U8, false }
};
enum { FORMS = sizeof forms / sizeof *forms };

static const form *chosen;
static char *arena;
static float *scales;

/* ---- calls ---- */

enum { MOST_CALLS = 4096 };
static double took[MOST_CALLS];

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double usual(int64_t calls) {
    qsort(took, (size_t)calls, sizeof *took, by_size);
    return took[calls / 4];
}

/* ---- reading ---- */

enum { PART = 64 << 20, PIECE = 256 << 10, STREAMS = 4 };
static volatile uint64_t sums[PART / PIECE]; /* so that reading is not left out */
static const uint64_t *part;

/* As integers, whose sums may be reordered, so that the compiler can take the widest vectors. */
VECTOR_CLONES static uint64_t sum_words(const uint64_t *v, int64_t count) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (int64_t i = 0; i < count / STREAMS; i++) {
        a += v[i], b += v[i + count / STREAMS];
        c += v[i + 2 * count / STREAMS], d += v[i + 3 * count / STREAMS];
    }
    return a + b + c + d;
}

static void read_piece(void *context, int64_t piece, int thread) {
    (void)context, (void)thread;
    sums[piece] = sum_words(part + piece * (PIECE / 8), PIECE / 8);
}

static void answer_reading(int threads) {
    threads_set(threads);
    threads_pin();
    int calls = 0;
    for (; calls < 4 * (ARENA / PART); calls++) {
        part = (const uint64_t *)(void *)(arena + (int64_t)(calls % (ARENA / PART)) * PART);
        double begin = bench_seconds();
        threads_for(PART / PIECE, read_piece, NULL);
        took[calls] = bench_seconds() - begin;
    }
    threads_unpin();
    printf("%.9f %d\n", usual(calls), PART);
}

/* ---- products ---- */

typedef struct {
    int64_t rows, columns, depth;
    int tb, threads;
    int64_t bytes, scale_count, scale_bytes; /* of one weight; of one scale */
} product;

static bool is_int4(void) { return chosen->by_codes && chosen->b == DTYPE_U8; }

static void open_product(const product *p, bench_op *o) {
    shape b = p->tb ? SHAPE(p->columns, p->depth) : SHAPE(p->depth, p->columns);
    bench_input in[BENCH_INPUTS] = { { SHAPE(p->rows, p->depth), chosen->a, NULL } };
    if (chosen->b == DTYPE_U8) b.dim[1] /= 2;
    in[1] = (bench_input){ b, chosen->b, arena };
    if (is_int4()) {
        in[MATMUL_INT4_CODES].shape = codes4_shape(p->columns, p->depth);
        in[MATMUL_INT4_SCALES] =
            (bench_input){ codes4_scales_shape(p->columns, p->depth), DTYPE_F16, scales };
        bench_op_open(o, &op_matmul_int4, in, &(matmul_int4_attributes){ 0 }, false);
    } else if (chosen->by_codes) {
        in[MATMUL_INT8_SCALES] = (bench_input){ SHAPE(p->scale_count), DTYPE_F32, scales };
        bench_op_open(o, &op_matmul_int8, in, &(matmul_int8_attributes){ .tb = p->tb }, false);
    } else if (p->scale_count) {
        in[MATMUL_CODED_SCALES] = (bench_input){ SHAPE(p->scale_count), DTYPE_F32, scales };
        bench_op_open(o, &op_matmul_coded, in, &(matmul_coded_attributes){ .tb = p->tb, .rows = p->tb },
                      false);
    } else
        bench_op_open(o, &op_matmul, in, &(matmul_attributes){ .tb = p->tb, .type = (int32_t)chosen->a },
                      false);
}

static void answer(const char *line) {
    product p = { 0 };
    long long rows, columns, depth;
    if (sscanf(line, "read %d", &p.threads) == 1) {
        answer_reading(p.threads);
        return;
    }
    if (sscanf(line, "%lld %lld %lld %d %d", &rows, &columns, &depth, &p.tb, &p.threads) != 5) {
        puts("0 0");
        return;
    }
    p.rows = rows, p.columns = columns, p.depth = depth;
    int64_t numbers = p.columns * p.depth;
    p.bytes = chosen->b == DTYPE_U8 ? numbers / 2 : numbers * (int64_t)dtype_bytes(chosen->b);
    if (chosen->b == DTYPE_I8) p.scale_count = p.columns;
    if (chosen->b == DTYPE_U8)
        p.scale_count = p.tb ? p.columns * nf4_blocks(p.depth) : p.depth * nf4_blocks(p.columns);
    if (is_int4()) p.scale_count = p.columns * codes4_groups(p.depth);
    p.scale_bytes = is_int4() ? 2 : 4;
    int64_t copies = ARENA / p.bytes, sets = p.scale_count ? SCALES / p.scale_bytes / p.scale_count : 1;
    bench_op o;
    threads_set(p.threads);
    open_product(&p, &o);
    threads_pin(); /* as the executor does */
    int64_t calls = copies < 8 ? 8 : copies > MOST_CALLS ? MOST_CALLS : copies;
    for (int64_t i = 0; i < calls; i++) {
        o.args[1].data = arena + i % copies * p.bytes;
        if (p.scale_count) o.args[2].data = (char *)scales + i % sets * p.scale_count * p.scale_bytes;
        double begin = bench_seconds();
        o.program.steps[0].kernel->run(&o.call);
        took[i] = bench_seconds() - begin;
    }
    threads_unpin();
    bench_op_close(&o);
    printf("%.9f %lld\n", usual(calls), (long long)(p.bytes + p.scale_count * p.scale_bytes));
}

static void fill(void) {
    uint64_t state = 1, *words = (uint64_t *)(void *)arena;
    bench_fill(scales, SCALES / 4, 3, 0.5f, 1);
    for (int64_t i = 0; i < ARENA / 8; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        words[i] = (state & 0x0f7f0f7f0f7f0f7fu) | 0x3000300030003000u; /* fine numbers of any type */
    }
}

int main(int count, char **arguments) {
    for (int i = 0; i < FORMS && count > 1; i++)
        if (strcmp(arguments[1], forms[i].name) == 0) chosen = &forms[i];
    if (!chosen || count > 3) {
        fputs("usage: bench-few_rows f32 | bf16 | f16 | bf16-alone | f16-alone | int8 | int4 | codes8 | "
              "codes4 [SET]\n",
              stderr);
        return 2;
    }
    if (count == 3 && instructions_pin(arguments[2]) != STATUS_OK)
        return fprintf(stderr, "%s\n", status_message()), 1;
    arena = bench_memory(ARENA), scales = bench_memory(SCALES);
    fill();
    bench_serve(answer, chosen->name);
    return 0;
}
