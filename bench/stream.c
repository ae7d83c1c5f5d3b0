/* What passes over memory once: bench-stream.
 *
 * A line "NAME threads" is answered by "seconds bytes": the least traffic that the operation can do (every
 * input read once, every result written once), and how long it took. Names: read, triad, update (memory
 * itself), layernorm, layernorm_backward, add, adamw, adamw_8bit and adamw_bf16 (whose moments are kept so),
 * cross_entropy, cross_entropy_backward. All buffers are far larger than the caches of most machines: 16384
 * rows of 768, 40 million weights, 1024 rows of 50257 logits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "bench.h"
#include "ops/adamw/adamw.h"
#include "ops/add/add.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/layernorm/layernorm.h"
#include "ops/state.h"
#include "ops/vector_math.h"

enum { ROWS = 16384, COLUMNS = 768, WEIGHTS = 40000000, LABELS = 1024, VOCABULARY = 50257 };

/* ---- memory itself ---- */

enum { FLOATS = 1 << 26, TILES = 256, PART = FLOATS / TILES };
static float *x, *y, *z;
static volatile uint64_t sums[TILES]; /* so that reading is not left out */

/* As integers, whose sums may be reordered, so that the compiler can take the widest vectors. */
VECTOR_CLONES static uint64_t sum_words(const uint64_t *v, int64_t count) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (int64_t i = 0; i < count / 4; i++) {
        a += v[i], b += v[i + count / 4];
        c += v[i + count / 2], d += v[i + count / 4 * 3];
    }
    return a + b + c + d;
}

static void read_part(void *context, int64_t tile, int thread) {
    (void)context;
    (void)thread;
    sums[tile] = sum_words((const uint64_t *)(y + tile * PART), PART / 2);
}

#if defined(__x86_64__)
#include <immintrin.h>
static void store(float *to, __m128 value) { _mm_stream_ps(to, value); }
static __m128 sum_of(const float *a, const float *b) {
    return _mm_add_ps(_mm_load_ps(a), _mm_mul_ps(_mm_set1_ps(3), _mm_load_ps(b)));
}
#endif

/* Written past the caches where the machine can: nothing is read that is then overwritten. */
static void triad_part(void *context, int64_t tile, int thread) {
    (void)context;
    (void)thread;
    float *to = x + tile * PART;
    const float *a = y + tile * PART, *b = z + tile * PART;
#if defined(__x86_64__)
    for (int64_t i = 0; i < PART; i += 4) store(to + i, sum_of(a + i, b + i));
    _mm_sfence();
#else
    for (int64_t i = 0; i < PART; i++) to[i] = a[i] + 3 * b[i];
#endif
}

VECTOR_CLONES static void halve(float *v, int64_t count) {
    for (int64_t i = 0; i < count; i++) v[i] *= 0.5f;
}

/* Read and written in place, as the optimizer does. */
static void update_part(void *context, int64_t tile, int thread) {
    (void)context;
    (void)thread;
    halve(x + tile * PART, PART);
}

static double memory_seconds(const char *name, double *bytes) {
    static const struct {
        const char *name;
        threads_body body;
        double arrays;
    } ways[] = { { "read", read_part, 1 }, { "triad", triad_part, 3 }, { "update", update_part, 2 } };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, name) != 0) continue;
        if (!x) {
            uint64_t size = FLOATS * sizeof *x;
            x = bench_memory(size), y = bench_memory(size), z = bench_memory(size);
        }
        *bytes = ways[i].arrays * 4.0 * FLOATS;
        threads_pin();
        double begin = bench_seconds();
        threads_for(TILES, ways[i].body, NULL);
        double took = bench_seconds() - begin;
        threads_unpin();
        return took;
    }
    return 0;
}

/* ---- operations ---- */

static bench_op layernorm, layernorm_backward, add, adamw, adamw_8bit, adamw_bf16, cross_entropy,
    cross_entropy_backward;

static bench_input real(shape s) { return (bench_input){ s, DTYPE_F32, NULL }; }
static bench_input held(const op_arg *arg) { return (bench_input){ arg->shape, arg->dtype, arg->data }; }

static void open_norms(void) {
    shape rows = SHAPE(ROWS, COLUMNS), row = SHAPE(COLUMNS);
    bench_input in[BENCH_INPUTS] = { real(rows), real(row), real(row) };
    bench_op_open(&layernorm, &op_layernorm, in, &(layernorm_attributes){ .eps = 1e-5f }, false);
    const op_call *f = &layernorm.call;
    bench_input back[BENCH_INPUTS] = { held(&f->in[0]), held(&f->in[1]), held(&f->out[1]), held(&f->out[2]),
                                       real(rows) };
    bench_op_open(&layernorm_backward, &op_layernorm_backward, back, NULL, false);
    bench_input both[BENCH_INPUTS] = { real(rows), real(rows) };
    bench_op_open(&add, &op_add, both, NULL, false);
}

static void open_adamw(void) {
    static float rate = 1e-4f;
    static int32_t step = 3;
    shape s = SHAPE(WEIGHTS);
    bench_input in[BENCH_INPUTS] = {
        real(s), real(s), real(s), real(s), { SHAPE(1), DTYPE_F32, &rate }, { SHAPE(1), DTYPE_I32, &step }
    };
    bench_op_open(&adamw, &op_adamw, in, &(adamw_attributes){ 0.9f, 0.95f, 1e-8f, 0.1f, 0 }, true);
    float *v = adamw.args[3].data;
    for (int64_t i = 0; i < WEIGHTS; i++) v[i] = v[i] * v[i];
    in[2].dtype = in[3].dtype = DTYPE_BF16;
    bench_op_open(&adamw_bf16, &op_adamw, in, &(adamw_attributes){ 0.9f, 0.95f, 1e-8f, 0.1f, 0 }, true);
    in[2].dtype = in[3].dtype = DTYPE_U8;
    in[8] = in[9] = real(SHAPE(state_scales(WEIGHTS)));
    bench_op_open(&adamw_8bit, &op_adamw, in, &(adamw_attributes){ 0.9f, 0.95f, 1e-8f, 0.1f, 0 }, true);
}

static void open_loss(void) {
    static int32_t labels[LABELS];
    static float one = 1;
    for (int32_t i = 0; i < LABELS; i++) labels[i] = i * 49 % VOCABULARY;
    bench_input in[BENCH_INPUTS] = { real(SHAPE(LABELS, VOCABULARY)),
                                     { SHAPE(LABELS), DTYPE_I32, labels },
                                     { SHAPE(1), DTYPE_F32, &one } };
    bench_op_open(&cross_entropy, &op_cross_entropy, in, NULL, false);
    bench_input back[BENCH_INPUTS] = { held(&cross_entropy.call.in[0]),
                                       in[1],
                                       in[2],
                                       held(&cross_entropy.call.out[1]),
                                       { SHAPE(1), DTYPE_F32, &one } };
    bench_op_open(&cross_entropy_backward, &op_cross_entropy_backward, back, NULL, true);
}

static double operation_seconds(const char *name, double *bytes) {
    const double rows = 4.0 * ROWS * COLUMNS, logits = 4.0 * LABELS * VOCABULARY;
    const struct {
        const char *name;
        bench_op *op;
        double bytes;
    } operations[] = { { "layernorm", &layernorm, 2 * rows },
                       { "layernorm_backward", &layernorm_backward, 3 * rows },
                       { "add", &add, 3 * rows },
                       { "adamw", &adamw, 7 * 4.0 * WEIGHTS },
                       { "adamw_8bit", &adamw_8bit, (3 * 4.0 + 4 * 1.0) * WEIGHTS },
                       { "adamw_bf16", &adamw_bf16, (3 * 4.0 + 4 * 2.0) * WEIGHTS },
                       { "cross_entropy", &cross_entropy, logits },
                       { "cross_entropy_backward", &cross_entropy_backward, 2 * logits } };
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (strcmp(operations[i].name, name) != 0) continue;
        *bytes = operations[i].bytes;
        return bench_op_run(operations[i].op);
    }
    return 0;
}

/* The gradient of the loss lives where the logits did: they are drawn anew, or exp would have little to do.
 */
static void draw_logits(void) {
    bench_fill(cross_entropy.args[0].data, (int64_t)LABELS * VOCABULARY, 7, -4, 4);
}

static void answer(const char *line) {
    char name[32];
    int threads;
    double bytes = 0;
    if (sscanf(line, "%31s %d", name, &threads) != 2) {
        puts("0 0");
        return;
    }
    threads_set(threads);
    if (strncmp(name, "cross_entropy", 13) == 0) draw_logits();
    double seconds = memory_seconds(name, &bytes);
    if (bytes == 0) seconds = operation_seconds(name, &bytes);
    printf("%.9f %.0f\n", seconds, bytes);
}

int main(int count, char **arguments) {
    threads_set(count > 1 ? atoi(arguments[1]) : threads_available());
    open_norms();
    open_adamw();
    open_loss();
    bench_serve(answer, "stream");
    return 0;
}
