/* One matrix product at a time, by snug or by a library: bench-matmul snug | bf16 | f16 | int8 | int8-mixed |
 * openblas FILE | onednn FILE | onednn-bf16 FILE | peak. bf16 and f16 are snug with operands and result of 16
 * bits; All of these take a set of instructions, as in avx2, as --instructions of 'snug train' does. int8 and
 * int8-mixed are its product on codes of 8 bits, quantizing included: a's, and b's in sums over rows (ta) as
 * training has them, rounded stochastically; other b are stored codes, or in int8-mixed floats too.
 *
 * A line "rows columns depth ta tb threads" is answered by "seconds scratch": the best of a few calls in a
 * row where they are short, one call where it is long; scratch is what snug's kernel asks the plan for, 0 for
 * the others. `peak` answers with what the same arithmetic would take at the rate of multiply-adds in
 * registers. Libraries are opened at run time, so building needs none of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/instructions.h"
#include "base/threads.h"
#include "bench.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_kernel.h"
#include "ops/matmul_int8/matmul_int8.h"

typedef struct {
    int64_t rows, columns, depth;
    int ta, tb, threads;
} product;

enum { LARGEST = 50257 * 1024, ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };

static float *a, *b, *y;

static dtype type = DTYPE_F32; /* of operands and result */

static double (*once)(const product *p, uint64_t *scratch);

/* ---- snug ---- */

static double by_snug(const product *p, uint64_t *scratch) {
    threads_set(p->threads);
    bench_input in[BENCH_INPUTS] = { { p->ta ? SHAPE(p->depth, p->rows) : SHAPE(p->rows, p->depth), type, a },
                                     { p->tb ? SHAPE(p->columns, p->depth) : SHAPE(p->depth, p->columns),
                                       type, b } };
    bench_op o;
    bench_op_open(&o, &op_matmul, in, &(matmul_attributes){ .ta = p->ta, .tb = p->tb }, false);
    double seconds = bench_op_run(&o), limit = 0.03;
    for (double spent = seconds, next; spent < limit; spent += next) {
        next = bench_op_run(&o);
        if (next < seconds) seconds = next;
    }
    *scratch = o.scratch_bytes;
    bench_op_close(&o);
    return seconds;
}

static bool codes_stored;

static double by_int8(const product *p, uint64_t *scratch) {
    static int32_t key[4] = { 1, 2, 3, 4 };
    threads_set(p->threads);
    bool stored = codes_stored && !p->ta;
    shape of_b = p->tb ? SHAPE(p->columns, p->depth) : SHAPE(p->depth, p->columns);
    bench_input in[BENCH_INPUTS] = { { p->ta ? SHAPE(p->depth, p->rows) : SHAPE(p->rows, p->depth), DTYPE_F32,
                                       a },
                                     { of_b, stored ? DTYPE_I8 : DTYPE_F32, b } };
    if (stored)
        in[MATMUL_INT8_SCALES] = (bench_input){ SHAPE(p->tb ? p->depth : p->columns), DTYPE_F32, NULL };
    if (p->ta) in[MATMUL_INT8_KEY] = (bench_input){ SHAPE(4), DTYPE_I32, key };
    bench_op o;
    bench_op_open(&o, &op_matmul_int8, in,
                  &(matmul_int8_attributes){ .ta = p->ta, .tb = p->tb, .folded = stored && p->tb }, false);
    double seconds = bench_op_run(&o), limit = 0.03;
    for (double spent = seconds, next; spent < limit; spent += next) {
        next = bench_op_run(&o);
        if (next < seconds) seconds = next;
    }
    *scratch = o.scratch_bytes;
    bench_op_close(&o);
    return seconds;
}

/* ---- libraries ---- */

static void (*set_threads)(int);
static void (*cblas)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                     float *, int);
static int (*dnnl)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                   int64_t, float, float *, int64_t);

static void call_library(const product *p) {
    int64_t lda = p->ta ? p->rows : p->depth, ldb = p->tb ? p->depth : p->columns;
    if (cblas)
        cblas(ROW_MAJOR, p->ta ? TRANSPOSED : AS_IT_IS, p->tb ? TRANSPOSED : AS_IT_IS, (int)p->rows,
              (int)p->columns, (int)p->depth, 1, a, (int)lda, b, (int)ldb, 0, y, (int)p->columns);
    else
        dnnl(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->rows, p->columns, p->depth, 1, a, lda, b, ldb, 0, y,
             p->columns);
}

static double by_library(const product *p, uint64_t *scratch) {
    *scratch = 0;
    set_threads(p->threads);
    double best = 0, limit = 0.03;
    for (double spent = 0; best == 0 || spent < limit;) {
        double begin = bench_seconds();
        call_library(p);
        double seconds = bench_seconds() - begin;
        if (best == 0 || seconds < best) best = seconds;
        spent += seconds;
    }
    return best;
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) fprintf(stderr, "the library has no %s\n", name), exit(1);
    return found;
}

static void open_library(const char *kind, const char *file) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror()), exit(1);
    if (strcmp(kind, "openblas") == 0) {
        *(void **)&cblas = symbol(library, "cblas_sgemm");
        *(void **)&set_threads = symbol(library, "openblas_set_num_threads");
    } else {
        /* of bf16 with an f32 result: for numbers of two bytes it is called in the same way */
        *(void **)&dnnl =
            symbol(library, strcmp(kind, "onednn") == 0 ? "dnnl_sgemm" : "dnnl_gemm_bf16bf16f32");
        *(void **)&set_threads = symbol(library, "omp_set_num_threads");
    }
}

/* ---- the machine ---- */

#if defined(__x86_64__)
#include <immintrin.h>

/* Twelve independent sums of one register each: as many as the latency of two units takes. */
#define SUMS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define SET_512(i) __m512 s##i = _mm512_set1_ps((float)i);
#define ADD_512(i) s##i = _mm512_fmadd_ps(x, z, s##i);
#define GATHER_512(i) sum = _mm512_add_ps(sum, s##i);
#define SET_256(i) __m256 s##i = _mm256_set1_ps((float)i);
#define ADD_256(i) s##i = _mm256_fmadd_ps(x, z, s##i);
#define GATHER_256(i) sum = _mm256_add_ps(sum, s##i);

__attribute__((target("avx512f"))) static double multiply_512(int64_t turns) {
    __m512 x = _mm512_set1_ps(0.5f), z = _mm512_set1_ps(0.25f), sum = _mm512_setzero_ps();
    SUMS(SET_512)
    for (int64_t i = 0; i < turns; i++) {
        SUMS(ADD_512)
        __asm__ volatile("" : "+v"(x), "+v"(z));
    }
    SUMS(GATHER_512)
    return (double)_mm512_reduce_add_ps(sum);
}

__attribute__((target("avx2,fma"))) static double multiply_256(int64_t turns) {
    __m256 x = _mm256_set1_ps(0.5f), z = _mm256_set1_ps(0.25f), sum = _mm256_setzero_ps();
    SUMS(SET_256)
    for (int64_t i = 0; i < turns; i++) {
        SUMS(ADD_256)
        __asm__ volatile("" : "+x"(x), "+x"(z));
    }
    SUMS(GATHER_256)
    return (double)_mm256_cvtss_f32(sum);
}

static void *multiply(void *result) {
    enum { TURNS = 8 << 20 };
    bool wide = __builtin_cpu_supports("avx512f");
    double begin = bench_seconds();
    volatile double sum = wide ? multiply_512(TURNS) : multiply_256(TURNS);
    (void)sum;
    *(double *)result = 24.0 * (wide ? 16 : 8) * TURNS / (bench_seconds() - begin);
    return NULL;
}

static void stay_on(pthread_t thread, int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)processor, &set);
    pthread_setaffinity_np(thread, sizeof set, &set); /* where it is refused, the scheduler decides */
}

/* The rate of `threads` threads at once, each on a processor of its own. */
static double peak_rate(int threads) {
    enum { MOST = 256 };
    pthread_t others[MOST];
    double rates[MOST], sum = 0;
    stay_on(pthread_self(), 0);
    for (int i = 1; i < threads; i++) {
        pthread_create(&others[i], NULL, multiply, &rates[i]);
        stay_on(others[i], i);
    }
    multiply(&rates[0]);
    for (int i = 1; i < threads; i++) pthread_join(others[i], NULL);
    for (int i = 0; i < threads; i++) sum += rates[i];
    return sum;
}

static bool can_peak(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
static double peak_rate(int threads) { return threads; }
static bool can_peak(void) { return false; }
#endif

static double by_peak(const product *p, uint64_t *scratch) {
    *scratch = 0;
    return 2.0 * (double)p->rows * (double)p->columns * (double)p->depth / peak_rate(p->threads);
}

/* ---- the talk ---- */

/* Place i of an array of 16 bits lies before place i of the floats. */
static void narrow(float *x, int64_t i) {
    float value = x[i];
    uint16_t half = type == DTYPE_BF16 ? half_to_bf16(value) : half_to_f16(value);
    memcpy((uint16_t *)(void *)x + i, &half, sizeof half);
}

static void answer(const char *line) {
    product p;
    long long rows, columns, depth;
    if (sscanf(line, "%lld %lld %lld %d %d %d", &rows, &columns, &depth, &p.ta, &p.tb, &p.threads) != 6) {
        puts("0 0");
        return;
    }
    p.rows = rows, p.columns = columns, p.depth = depth;
    uint64_t scratch;
    double seconds = once(&p, &scratch);
    printf("%.9f %llu\n", seconds, (unsigned long long)scratch);
}

static void choose_instructions(const char *name) {
    if (instructions_pin(name) != STATUS_OK) fprintf(stderr, "%s\n", status_message()), exit(1);
}

int main(int count, char **arguments) {
    const char *kind = count > 1 ? arguments[1] : "";
    bool library = count == 3 && (strcmp(kind, "openblas") == 0 || strncmp(kind, "onednn", 6) == 0);
    bool peak = strcmp(kind, "peak") == 0,
         bf16 = strcmp(kind, "bf16") == 0 || strcmp(kind, "onednn-bf16") == 0, f16 = strcmp(kind, "f16") == 0;
    bool int8 = strcmp(kind, "int8") == 0 || strcmp(kind, "int8-mixed") == 0;
    codes_stored = strcmp(kind, "int8") == 0;
    if (!library && !peak && !bf16 && !f16 && !int8 && strcmp(kind, "snug") != 0) {
        fputs(
            "usage: bench-matmul snug [SET] | bf16 [SET] | f16 [SET] | int8 [SET] | int8-mixed [SET] | peak\n"
            "       bench-matmul openblas FILE | onednn FILE | onednn-bf16 FILE\n",
            stderr);
        return 2;
    }
    if (peak && !can_peak()) return fputs("no way to measure the peak of this processor\n", stderr), 1;
    if (library) open_library(kind, arguments[2]);
    if (count == 3 && !library) choose_instructions(arguments[2]);
    once = library ? by_library : peak ? by_peak : int8 ? by_int8 : by_snug;
    if (!peak) {
        a = bench_memory(LARGEST * sizeof *a), b = bench_memory(LARGEST * sizeof *b);
        if (library) y = bench_memory(LARGEST * sizeof *y);
        bench_fill(a, LARGEST, 1, -1, 1);
        bench_fill(b, LARGEST, 2, -1, 1);
    }
    if (bf16 || f16) {
        type = bf16 ? DTYPE_BF16 : DTYPE_F16;
        for (int64_t i = 0; i < LARGEST; i++) narrow(a, i), narrow(b, i);
    }
    bench_serve(answer, kind);
    return 0;
}
