/* Do ops in 16 bits take the time of half the bytes? bench-sixteen_bits.
 *
 * A line "OP ROWS ROUNDS" is answered by "f32 bf16 f16": nanoseconds for an element of each type, medians
 * over the rounds, in which the types take turns, in processor time of one thread. Rows are 768 wide, those
 * of the loss 16384, and those of the optimizer count weights. "?" is answered by the names of all ops. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/half.h"
#include "base/threads.h"
#include "bench.h"
#include "ops/adamw/adamw.h"
#include "ops/add/add.h"
#include "ops/attention_flash/attention_flash.h"
#include "ops/cast/cast.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/gated/gated.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/multiply/multiply.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rotary/rotary.h"
#include "ops/silu/silu.h"
#include "ops/softmax/softmax.h"
#include "ops/state.h"
#include "ops/sum_rows/sum_rows.h"
#include "ops/sum_squares/sum_squares.h"

enum { WIDTH = 768, CLASSES = 16384, HEADS = 12, TOKENS = 256 };

/* ---- inputs ---- */

static bench_input numbers(dtype type, shape s) { return (bench_input){ s, type, NULL }; }

static void *held(uint64_t bytes) {
    void *data = calloc(1, bytes);
    if (!data) exit(1);
    return data;
}

static bench_input whole(int64_t count, int32_t below) {
    int32_t *x = held((uint64_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) x[i] = (int32_t)(i * 7919 % below);
    return (bench_input){ SHAPE(count), DTYPE_I32, x };
}

static bench_input one(float value) {
    float *x = held(sizeof *x);
    *x = value;
    return (bench_input){ SHAPE(1), DTYPE_F32, x };
}

/* ---- ops: what each is called with, for a type ---- */

typedef struct {
    const op_def *op;
    bench_input in[BENCH_INPUTS];
    char attributes[256];
    bool in_place;
    double elements;
} made;

static void attributes_of(made *m, const void *a, size_t bytes) { memcpy(m->attributes, a, bytes); }

static void some(made *m, const op_def *op, int64_t rows, dtype type, int inputs) {
    m->op = op;
    for (int i = 0; i < inputs; i++) m->in[i] = numbers(type, SHAPE(rows, WIDTH));
}

static void make_add(made *m, int64_t rows, dtype type) { some(m, &op_add, rows, type, 2); }
static void make_multiply(made *m, int64_t rows, dtype type) { some(m, &op_multiply, rows, type, 2); }
static void make_silu(made *m, int64_t rows, dtype type) { some(m, &op_silu, rows, type, 1); }
static void make_gated(made *m, int64_t rows, dtype type) { some(m, &op_gated, rows, type, 2); }
static void make_gated_backward(made *m, int64_t rows, dtype type) {
    some(m, &op_gated_backward, rows, type, 3);
}
static void make_softmax(made *m, int64_t rows, dtype type) { some(m, &op_softmax, rows, type, 1); }
static void make_softmax_backward(made *m, int64_t rows, dtype type) {
    some(m, &op_softmax_backward, rows, type, 2);
}
static void make_sum_rows(made *m, int64_t rows, dtype type) { some(m, &op_sum_rows, rows, type, 1); }
static void make_sum_squares(made *m, int64_t rows, dtype type) { some(m, &op_sum_squares, rows, type, 1); }

/* To f32 and back: what f32 does is a copy that there is no op for, so its column is that of f64. */
static void make_cast_wide(made *m, int64_t rows, dtype type) {
    some(m, &op_cast, rows, type == DTYPE_F32 ? DTYPE_F64 : type, 1);
    attributes_of(m, &(cast_attributes){ DTYPE_F32 }, sizeof(cast_attributes));
}
static void make_cast_narrow(made *m, int64_t rows, dtype type) {
    some(m, &op_cast, rows, DTYPE_F32, 1);
    attributes_of(m, &(cast_attributes){ type == DTYPE_F32 ? DTYPE_F64 : (int32_t)type },
                  sizeof(cast_attributes));
}

static void make_gelu(made *m, int64_t rows, dtype type) {
    some(m, &op_gelu, rows, type, 1);
    attributes_of(m, &(gelu_attributes){ 1 }, sizeof(gelu_attributes));
}
static void make_gelu_backward(made *m, int64_t rows, dtype type) {
    some(m, &op_gelu_backward, rows, type, 2);
    attributes_of(m, &(gelu_attributes){ 1 }, sizeof(gelu_attributes));
}

static void make_layernorm(made *m, int64_t rows, dtype type) {
    some(m, &op_layernorm, rows, type, 1);
    m->in[1] = m->in[2] = numbers(DTYPE_F32, SHAPE(WIDTH));
    attributes_of(m, &(layernorm_attributes){ .eps = 1e-5f }, sizeof(layernorm_attributes));
}
static void make_layernorm_backward(made *m, int64_t rows, dtype type) {
    some(m, &op_layernorm_backward, rows, type, 1);
    m->in[1] = numbers(DTYPE_F32, SHAPE(WIDTH));
    m->in[2] = m->in[3] = numbers(DTYPE_F32, SHAPE(rows));
    m->in[4] = numbers(type, SHAPE(rows, WIDTH));
}
static void make_rmsnorm(made *m, int64_t rows, dtype type) {
    some(m, &op_rmsnorm, rows, type, 1);
    m->in[1] = numbers(DTYPE_F32, SHAPE(WIDTH));
    attributes_of(m, &(rmsnorm_attributes){ .eps = 1e-5f }, sizeof(rmsnorm_attributes));
}
static void make_rmsnorm_backward(made *m, int64_t rows, dtype type) {
    some(m, &op_rmsnorm_backward, rows, type, 1);
    m->in[1] = numbers(DTYPE_F32, SHAPE(WIDTH));
    m->in[2] = numbers(DTYPE_F32, SHAPE(rows));
    m->in[3] = numbers(type, SHAPE(rows, WIDTH));
}

static void make_dropout(made *m, int64_t rows, dtype type) {
    some(m, &op_dropout, rows, type, 1);
    m->in[1] = whole(4, 100);
    attributes_of(m, &(dropout_attributes){ 0.1f, 1 }, sizeof(dropout_attributes));
}

static void make_embedding(made *m, int64_t rows, dtype type) {
    m->op = &op_embedding;
    m->in[0] = whole(rows, 50257);
    m->in[1] = numbers(type, SHAPE(50257, WIDTH));
}
static void make_embedding_backward(made *m, int64_t rows, dtype type) {
    m->op = &op_embedding_backward;
    m->in[0] = whole(rows, 50257);
    m->in[1] = numbers(type, SHAPE(rows, WIDTH));
    m->in[2] = numbers(type, SHAPE(50257, WIDTH));
    attributes_of(m, &(embedding_backward_attributes){ 50257, 0 }, sizeof(embedding_backward_attributes));
}

static void make_rotary(made *m, int64_t rows, dtype type) {
    m->op = &op_rotary;
    m->in[0] = numbers(type, SHAPE(rows / TOKENS, TOKENS, WIDTH));
    m->in[1] = numbers(DTYPE_F32, SHAPE(TOKENS, WIDTH / HEADS));
    attributes_of(m, &(rotary_attributes){ HEADS, WIDTH / HEADS, WIDTH / HEADS, 0, 0 },
                  sizeof(rotary_attributes));
}

static void make_cross_entropy(made *m, int64_t rows, dtype type) {
    m->op = &op_cross_entropy;
    m->in[0] = numbers(type, SHAPE(rows, CLASSES));
    m->in[1] = whole(rows, CLASSES), m->in[2] = one(1);
    m->elements = (double)rows * CLASSES;
}
static void make_cross_entropy_backward(made *m, int64_t rows, dtype type) {
    make_cross_entropy(m, rows, type);
    m->op = &op_cross_entropy_backward;
    m->in[3] = numbers(DTYPE_F32, SHAPE(rows)), m->in[4] = one(1);
}

/* rows / TOKENS samples of 256 tokens, 12 heads of 64 */
static void attention_of(made *m, int64_t rows, dtype type, const op_def *op) {
    attention_attributes a = { .heads = HEADS, .causal = 1, .scale = 0.125f };
    m->op = op;
    m->in[0] = numbers(type, SHAPE(rows / TOKENS, TOKENS, 3 * WIDTH));
    attributes_of(m, &a, sizeof a);
}
static void make_attention(made *m, int64_t rows, dtype type) { attention_of(m, rows, type, &op_attention); }
static void make_attention_backward(made *m, int64_t rows, dtype type) {
    attention_of(m, rows, type, &op_attention_backward);
    m->in[3] = numbers(DTYPE_F32, SHAPE(rows / TOKENS, HEADS, TOKENS, TOKENS));
    m->in[4] = numbers(type, SHAPE(rows / TOKENS, TOKENS, WIDTH));
}
static void make_attention_flash(made *m, int64_t rows, dtype type) {
    attention_of(m, rows, type, &op_attention_flash);
}
static void make_attention_flash_backward(made *m, int64_t rows, dtype type) {
    attention_of(m, rows, type, &op_attention_flash_backward);
    m->in[3] = m->in[5] = numbers(type, SHAPE(rows / TOKENS, TOKENS, WIDTH));
    m->in[4] = numbers(DTYPE_F32, SHAPE(rows / TOKENS, HEADS, TOKENS));
}

/* Weights and gradients of the type; moments of the type, or of 8 bits. */
static void adamw_with(made *m, int64_t rows, dtype type, dtype state, bool drawn) {
    shape s = SHAPE(rows * WIDTH), scales = SHAPE(state_scales(rows * WIDTH));
    m->op = &op_adamw;
    m->in[0] = m->in[1] = numbers(type, s);
    m->in[2] = m->in[3] = numbers(state, s);
    m->in[4] = one(1e-4f), m->in[5] = whole(1, 10);
    ((int32_t *)m->in[5].data)[0] = 3;
    if (state == DTYPE_U8) m->in[8] = m->in[9] = numbers(DTYPE_F32, scales);
    if (drawn) m->in[10] = whole(4, 100);
    attributes_of(m, &(adamw_attributes){ 0.9f, 0.95f, 1e-8f, 0.1f, 0 }, sizeof(adamw_attributes));
    m->in_place = true;
}
static void make_adamw(made *m, int64_t rows, dtype type) { adamw_with(m, rows, type, type, false); }
static void make_adamw_drawn(made *m, int64_t rows, dtype type) {
    adamw_with(m, rows, type, type, type == DTYPE_BF16);
}
static void make_adamw_8bit(made *m, int64_t rows, dtype type) {
    adamw_with(m, rows, type, DTYPE_U8, type == DTYPE_BF16);
}

static const struct {
    const char *name;
    void (*make)(made *m, int64_t rows, dtype type);
} ops[] = { { "cast_to_f32", make_cast_wide },
            { "cast_from_f32", make_cast_narrow },
            { "add", make_add },
            { "multiply", make_multiply },
            { "layernorm", make_layernorm },
            { "layernorm_backward", make_layernorm_backward },
            { "rmsnorm", make_rmsnorm },
            { "rmsnorm_backward", make_rmsnorm_backward },
            { "gelu", make_gelu },
            { "gelu_backward", make_gelu_backward },
            { "silu", make_silu },
            { "gated", make_gated },
            { "gated_backward", make_gated_backward },
            { "softmax", make_softmax },
            { "softmax_backward", make_softmax_backward },
            { "cross_entropy", make_cross_entropy },
            { "cross_entropy_backward", make_cross_entropy_backward },
            { "sum_rows", make_sum_rows },
            { "sum_squares", make_sum_squares },
            { "dropout", make_dropout },
            { "embedding", make_embedding },
            { "embedding_backward", make_embedding_backward },
            { "rotary", make_rotary },
            { "attention", make_attention },
            { "attention_backward", make_attention_backward },
            { "attention_flash", make_attention_flash },
            { "attention_flash_backward", make_attention_flash_backward },
            { "adamw", make_adamw },
            { "adamw_drawn", make_adamw_drawn },
            { "adamw_8bit", make_adamw_8bit } };
enum { OPS = sizeof ops / sizeof *ops };

/* ---- times ---- */

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Small numbers in all that was taken, whatever their type. */
static void fill(bench_op *o) {
    for (uint32_t i = 0; i < o->call.in_count; i++) {
        op_arg *x = &o->args[i];
        int64_t n = x->data ? shape_elements(&x->shape) : 0;
        for (int64_t k = 0; k < n && o->taken[i]; k++) {
            float value = 0.01f * (float)(1 + k % 97);
            if (x->dtype == DTYPE_F64) ((double *)x->data)[k] = (double)value;
            if (x->dtype == DTYPE_F32) ((float *)x->data)[k] = value;
            if (x->dtype == DTYPE_BF16) ((uint16_t *)x->data)[k] = half_to_bf16(value);
            if (x->dtype == DTYPE_F16) ((uint16_t *)x->data)[k] = half_to_f16(value);
            if (x->dtype == DTYPE_U8) ((uint8_t *)x->data)[k] = (uint8_t)(1 + k % 97);
        }
    }
}

static double time_of(bench_op *o) {
    const double least = 2e-3;
    double begin = processor_seconds(), took = 0;
    int runs = 0;
    for (; runs == 0 || took < least; runs++) {
        o->program.steps[0].kernel->run(&o->call);
        took = processor_seconds() - begin;
    }
    return took / runs;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { TYPES = 3, MOST_ROUNDS = 99 };
static void measure(int op, int64_t rows, int rounds) {
    static const dtype types[TYPES] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    static double took[TYPES][MOST_ROUNDS];
    bench_op o[TYPES];
    made m[TYPES];
    for (int t = 0; t < TYPES; t++) {
        m[t] = (made){ .elements = (double)rows * WIDTH };
        ops[op].make(&m[t], rows, types[t]);
        bench_op_open(&o[t], m[t].op, m[t].in, m[t].op->attribute_bytes ? m[t].attributes : NULL,
                      m[t].in_place);
        fill(&o[t]);
    }
    for (int r = -1; r < rounds; r++)
        for (int t = 0; t < TYPES; t++) took[t][r < 0 ? 0 : r] = time_of(&o[t]);
    for (int t = 0; t < TYPES; t++) {
        qsort(took[t], (size_t)rounds, sizeof **took, by_size);
        printf("%.5f%c", took[t][rounds / 2] * 1e9 / m[t].elements, t + 1 < TYPES ? ' ' : '\n');
        bench_op_close(&o[t]);
        for (uint32_t i = 0; i < BENCH_INPUTS; i++) free(m[t].in[i].data);
    }
}

static void answer(const char *line) {
    char name[64] = "";
    long rows = 0;
    int rounds = 0;
    int fields = sscanf(line, "%63s %ld %d", name, &rows, &rounds);
    for (int i = 0; i < OPS && fields == 1; i++) printf("%s%c", ops[i].name, i + 1 < OPS ? ' ' : '\n');
    if (fields == 1) return;
    for (int i = 0; i < OPS && rounds > 0 && rounds <= MOST_ROUNDS; i++)
        if (strcmp(ops[i].name, name) == 0) {
            measure(i, rows, rounds);
            return;
        }
    puts("0 0 0");
}

int main(void) {
    threads_set(1);
    bench_serve(answer, "sixteen bits");
    return 0;
}
