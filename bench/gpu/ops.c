/* Kernels for GPUs that are no products, timed on gpt2's shapes: bench-gpu-ops DEVICE [small]
 *
 * One line a call: milliseconds, the median of nine rounds of so many launches that each takes about 20 ms;
 * TFLOP/s, or GB/s of operands, each counted once; and a hash of its results. Two builds, or two variants of
 * a kernel, have the same bits where they print the same hashes: the order of sums is no variant's to choose.
 * `small` has shapes that an emulated device is done with in seconds: there the hashes mean something, and
 * times nothing. Takes up to 2 GiB of the GPU and as much of the host. Exit 0: all ran. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/adamw/adamw.h"
#include "ops/attention_flash/attention_flash.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/layernorm/layernorm.h"
#include "ops/sum_rows/sum_rows.h"
#include "ops/sum_squares/sum_squares.h"
#include "room.h"

enum { SIDES = 16, OUTPUTS = 4, ROUNDS = 9 };

typedef struct {
    op_arg in[SIDES], out[OUTPUTS];
    op_call call;
} bound;

static op_arg number(float value) {
    op_arg x = room(DTYPE_F32, SHAPE(1));
    gpu->put(gpu, x.data, &value, sizeof value);
    return x;
}

/* ---- one call ---- */

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of(const op_kernel *k, const op_call *c, int launches) {
    double began = seconds_now();
    gpu->begin(gpu);
    for (int i = 0; i < launches; i++) k->run(c);
    gpu->end(gpu);
    return (seconds_now() - began) / launches;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t hash_of(const op_call *c) {
    uint64_t hash = ROOM_HASH;
    for (uint32_t o = 0; o < c->out_count; o++) hash = room_hash(&c->out[o], hash);
    return hash;
}

/* `flops` 0: what matters are bytes. The hash is that of the first launch: updates go on from it. */
static void run(const char *name, const op_kernel *k, bound *b, double flops) {
    double all[ROUNDS], bytes = 0;
    b->call.in = b->in, b->call.out = b->out, b->call.capability = gpu->capability;
    b->call.scratch_bytes = k->scratch ? k->scratch(&b->call, 1) : 0;
    if (b->call.scratch_bytes) {
        op_arg scratch = room(DTYPE_U8, SHAPE((int64_t)b->call.scratch_bytes));
        b->call.scratch = scratch.data;
    }
    seconds_of(k, &b->call, 1);
    uint64_t hash = hash_of(&b->call);
    double once = seconds_of(k, &b->call, 1);
    int launches = once > 0.02 ? 1 : (int)fmin(0.02 / once, 500) + 1;
    for (int i = 0; i < ROUNDS; i++) all[i] = seconds_of(k, &b->call, launches);
    qsort(all, ROUNDS, sizeof *all, ascending);
    for (uint32_t i = 0; i < b->call.in_count; i++)
        if (b->in[i].data) bytes += (double)room_bytes(&b->in[i]);
    for (uint32_t o = 0; o < b->call.out_count; o++) bytes += (double)room_bytes(&b->out[o]);
    double rate = (flops > 0 ? flops : bytes * 1e3) / all[ROUNDS / 2] * 1e-12;
    printf("%-52s %9.4f ms %8.2f %-8s %016llx\n", name, all[ROUNDS / 2] * 1e3, rate,
           flops > 0 ? "TFLOP/s" : "GB/s", (unsigned long long)hash);
    fflush(stdout);
    if (gpu->failed && gpu->failed(gpu) != STATUS_OK) die(status_message());
}

/* ---- calls ---- */

static void attention(dtype type, int64_t batch, int64_t length, int32_t heads, int64_t size) {
    attention_attributes a = { .heads = heads, .causal = 1 };
    char name[80];
    bound f = { .call = { .in_count = 8, .out_count = 2, .attributes = &a } };
    room_used = 0;
    f.in[0] = room_numbers(type, SHAPE(batch, length, 3 * heads * size), 1);
    f.out[0] = room(type, SHAPE(batch, length, heads * size));
    f.out[1] = room(DTYPE_F32, SHAPE(batch, heads, length));
    bound b = { .call = { .in_count = 11, .out_count = 1, .attributes = &a } };
    b.in[0] = f.in[0], b.in[3] = f.out[0], b.in[4] = f.out[1];
    b.in[5] = room_numbers(type, f.out[0].shape, 0.1f);
    b.out[0] = room(type, f.in[0].shape);
    double product = (double)(batch * heads * size) * (double)length * (double)(length + 1); /* flops */
    const char *kind = type == DTYPE_F32 ? "f32" : "bf16";
    snprintf(name, sizeof name, "attention_flash %s, %lld x %lld, %d heads of %lld", kind, (long long)batch,
             (long long)length, heads, (long long)size);
    run(name, attention_flash_cuda, &f, 2 * product);
    snprintf(name, sizeof name, "attention_flash_backward, the same");
    run(name, attention_flash_backward_cuda, &b, 5 * product);
}

static void norms(int64_t rows, int64_t width) {
    layernorm_attributes a = { .eps = 1e-5f };
    char name[80];
    bound f = { .call = { .in_count = 3, .out_count = 3, .attributes = &a } };
    room_used = 0;
    f.in[0] = room_numbers(DTYPE_F32, SHAPE(rows, width), 1);
    f.in[1] = room_numbers(DTYPE_F32, SHAPE(width), 1), f.in[2] = room_numbers(DTYPE_F32, SHAPE(width), 1);
    f.out[0] = room(DTYPE_F32, SHAPE(rows, width));
    f.out[1] = room(DTYPE_F32, SHAPE(rows)), f.out[2] = room(DTYPE_F32, SHAPE(rows));
    snprintf(name, sizeof name, "layernorm, %lld x %lld", (long long)rows, (long long)width);
    run(name, layernorm_cuda, &f, 0);
    bound b = { .call = { .in_count = 8, .out_count = 3, .attributes = &a } };
    b.in[0] = f.in[0], b.in[1] = f.in[1], b.in[2] = f.out[1], b.in[3] = f.out[2];
    b.in[4] = room_numbers(DTYPE_F32, SHAPE(rows, width), 1),
    b.in[5] = room_numbers(DTYPE_F32, SHAPE(rows, width), 1);
    b.out[0] = room(DTYPE_F32, SHAPE(rows, width));
    b.out[1] = room(DTYPE_F32, SHAPE(width)), b.out[2] = room(DTYPE_F32, SHAPE(width));
    snprintf(name, sizeof name, "layernorm_backward, the same");
    run(name, layernorm_backward_cuda, &b, 0);
}

static void rows_summed(int64_t rows, int64_t width) {
    char name[80];
    bound b = { .call = { .in_count = 2, .out_count = 1 } };
    room_used = 0;
    b.in[0] = room_numbers(DTYPE_F32, SHAPE(rows, width), 1);
    b.out[0] = room(DTYPE_F32, SHAPE(width));
    snprintf(name, sizeof name, "sum_rows, %lld x %lld", (long long)rows, (long long)width);
    run(name, sum_rows_cuda, &b, 0);
}

static void update(int64_t n) {
    char name[80];
    bound s = { .call = { .in_count = 1, .out_count = 1 } };
    room_used = 0;
    s.in[0] = room_numbers(DTYPE_F32, SHAPE(n), 1), s.out[0] = room(DTYPE_F32, SHAPE(1));
    snprintf(name, sizeof name, "sum_squares of %lld", (long long)n);
    run(name, sum_squares_cuda, &s, 0);
    adamw_attributes a = { .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .weight_decay = 0.1f };
    bound b = { .call = { .in_count = 11, .out_count = 3, .attributes = &a } };
    int32_t first = 1;
    b.in[1] = s.in[0], b.in[0] = room_numbers(DTYPE_F32, SHAPE(n), 1);
    b.in[2] = room_numbers(DTYPE_F32, SHAPE(n), 0), b.in[3] = room_numbers(DTYPE_F32, SHAPE(n), 0);
    b.in[4] = number(1e-3f), b.in[5] = room(DTYPE_I32, SHAPE(1)), b.in[6] = number(0.5f);
    gpu->put(gpu, b.in[5].data, &first, sizeof first);
    for (int o = 0; o < 3; o++) b.out[o] = b.in[o ? o + 1 : 0];
    snprintf(name, sizeof name, "adamw of %lld", (long long)n);
    run(name, adamw_cuda, &b, 0);
}

static void loss(int64_t rows, int64_t classes) {
    char name[80];
    bound f = { .call = { .in_count = 4, .out_count = 2 } };
    room_used = 0;
    f.in[0] = room_numbers(DTYPE_F32, SHAPE(rows, classes), 4);
    f.in[1] = room_numbers(DTYPE_I32, SHAPE(rows), (float)classes), f.in[2] = number(1.0f / (float)rows);
    f.out[0] = room(DTYPE_F32, SHAPE(1)), f.out[1] = room(DTYPE_F32, SHAPE(rows));
    snprintf(name, sizeof name, "cross_entropy, %lld x %lld", (long long)rows, (long long)classes);
    run(name, cross_entropy_cuda, &f, 0);
    bound b = { .call = { .in_count = 5, .out_count = 1 } };
    b.in[0] = f.in[0], b.in[1] = f.in[1], b.in[2] = f.in[2], b.in[3] = f.out[1], b.in[4] = number(1);
    b.out[0] = room(DTYPE_F32, SHAPE(rows, classes));
    snprintf(name, sizeof name, "cross_entropy_backward, the same");
    run(name, cross_entropy_backward_cuda, &b, 0);
}

static void small_ones(void) {
    for (int64_t size = 16; size <= 144; size += 32) attention(DTYPE_F32, 1, 150, 2, size);
    attention(DTYPE_BF16, 1, 130, 1, 80);
    norms(70, 100), norms(40, 1030), norms(33, 2100);
    rows_summed(300, 70), update(70000), update(768), loss(20, 5000), loss(20, 65);
}

static void gpt2(void) {
    attention(DTYPE_F32, 4, 1024, 12, 64), attention(DTYPE_F32, 8, 1024, 12, 64);
    attention(DTYPE_F32, 32, 256, 6, 64), attention(DTYPE_F32, 8, 128, 4, 32);
    attention(DTYPE_F32, 4, 1024, 6, 128), attention(DTYPE_F32, 4, 1024, 10, 80);
    attention(DTYPE_BF16, 4, 1024, 12, 64);
    norms(4096, 768), norms(8192, 384), norms(1024, 128), norms(4096, 1600), norms(2048, 4096);
    rows_summed(4096, 768), rows_summed(4096, 3072), rows_summed(1024, 128);
    update((int64_t)50257 * 768), update(3072 * 768), update(768 * 768), update(768);
    loss(4096, 50257), loss(8192, 65);
}

int main(int count, char **arguments) {
    bool small = count == 3 && strcmp(arguments[2], "small") == 0;
    if (count < 2 || count > 3 || (count == 3 && !small)) die("usage: bench-gpu-ops DEVICE [small]");
    room_open(arguments[1], small ? 16 << 20 : (uint64_t)2 << 30);
    if (small)
        small_ones();
    else
        gpt2();
    room_close();
    return 0;
}
