/* Causal attention, forward and backward, of packed q, k, v with heads of 64: bench-attention flash | plain |
 * flash-bf16 | plain-bf16.
 *
 * A line "batch context heads threads" is answered by "seconds bytes": of both passes together, after one
 * untimed call; bytes are what lives between and within the passes beside q, k, v and their gradient: y, what
 * forward keeps for backward, scratch. */
#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "bench.h"
#include "ops/attention_flash/attention_flash.h"

enum { SIZE = 64 };

static bool flash;
static dtype type = DTYPE_F32;

typedef struct {
    bench_op forward, backward;
} passes;

static void open_passes(passes *p, int64_t batch, int64_t context, int32_t heads) {
    attention_attributes attributes = { .heads = heads, .causal = 1 };
    bench_input in[BENCH_INPUTS] = { { SHAPE(batch, context, 3 * heads * SIZE), type, NULL } };
    bench_op_open(&p->forward, flash ? &op_attention_flash : &op_attention, in, &attributes, false);
    const op_call *f = &p->forward.call;
    bench_input none = { .data = NULL };
    bench_input packed = { f->in[0].shape, type, f->in[0].data };
    bench_input y = { f->out[0].shape, type, f->out[0].data };
    bench_input kept = { f->out[1].shape, DTYPE_F32, f->out[1].data };
    bench_input dy = { f->out[0].shape, type, NULL };
    bench_input of_flash[BENCH_INPUTS] = { packed, none, none, y, kept, dy };
    bench_input of_plain[BENCH_INPUTS] = { packed, none, none, kept, dy };
    bench_op_open(&p->backward, flash ? &op_attention_flash_backward : &op_attention_backward,
                  flash ? of_flash : of_plain, &attributes, false);
}

static uint64_t bytes_of(const op_arg *arg) {
    return (uint64_t)shape_elements(&arg->shape) * dtype_bytes(arg->dtype);
}

static void answer(const char *line) {
    long long batch, context;
    int heads, threads;
    if (sscanf(line, "%lld %lld %d %d", &batch, &context, &heads, &threads) != 4) {
        puts("0 0");
        return;
    }
    threads_set(threads);
    passes p;
    open_passes(&p, batch, context, heads);
    double seconds = 0;
    for (int i = 0; i < 2; i++) seconds = bench_op_run(&p.forward) + bench_op_run(&p.backward);
    uint64_t scratch = p.forward.scratch_bytes;
    if (p.backward.scratch_bytes > scratch) scratch = p.backward.scratch_bytes;
    uint64_t bytes = bytes_of(&p.forward.call.out[0]) + bytes_of(&p.forward.call.out[1]) + scratch;
    printf("%.9f %llu\n", seconds, (unsigned long long)bytes);
    bench_op_close(&p.backward);
    bench_op_close(&p.forward);
}

int main(int count, char **arguments) {
    const char *kind = count > 1 ? arguments[1] : "";
    bool narrow = strstr(kind, "-bf16") != NULL;
    type = narrow ? DTYPE_BF16 : DTYPE_F32;
    flash = strcmp(kind, narrow ? "flash-bf16" : "flash") == 0;
    if (!flash && strcmp(kind, narrow ? "plain-bf16" : "plain") != 0) {
        fputs("usage: bench-attention flash | plain | flash-bf16 | plain-bf16\n", stderr);
        return 2;
    }
    bench_serve(answer, kind);
    return 0;
}
