#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/threads.h"

double bench_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void give_up(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

void *bench_memory(uint64_t bytes) {
    device_pool pool;
    if (device_pool_open(&pool, bytes) != STATUS_OK) give_up(status_message());
    return pool.data;
}

void bench_release(void *data, uint64_t bytes) {
    device_pool pool = { .data = data, .bytes = (bytes + 4095) / 4096 * 4096 };
    device_pool_close(&pool);
}

void bench_fill(float *x, int64_t count, uint64_t seed, float low, float high) {
    uint64_t state = seed * 2 + 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = low + (high - low) * (float)(state >> 40) * 0x1p-24f;
    }
}

void bench_serve(void (*answer)(const char *line), const char *ready) {
    char line[512];
    printf("ready %s\n", ready);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        answer(line);
        fflush(stdout);
    }
}

/* ---- one op ---- */

static void *take(bench_op *o, uint32_t at) {
    const op_arg *arg = &o->args[at];
    uint64_t bytes = (uint64_t)shape_elements(&arg->shape) * dtype_bytes(arg->dtype);
    o->taken[at] = true;
    o->buffer_bytes += bytes;
    return bench_memory(bytes);
}

static void bind_inputs(bench_op *o, const bench_input *in) {
    for (uint32_t i = 0; i < o->call.in_count; i++) {
        op_arg *arg = &o->args[i];
        if (arg->dtype == DTYPE_NONE) continue;
        arg->data = in[i].data;
        if (arg->data) continue;
        arg->data = take(o, i);
        if (arg->dtype == DTYPE_F32) bench_fill(arg->data, shape_elements(&arg->shape), i + 1, -1, 1);
    }
}

static void bind_outputs(bench_op *o, const op_def *op, bool in_place) {
    for (uint32_t i = 0; i < o->call.out_count; i++) {
        op_arg *arg = &o->args[o->call.in_count + i];
        for (uint32_t k = 0; k < op->alias_count && !arg->data; k++) {
            const op_alias *alias = &op->aliases[k];
            if (alias->out == i && (alias->must || in_place)) arg->data = op_in(&o->call, alias->in)->data;
        }
        if (!arg->data) arg->data = take(o, o->call.in_count + i);
    }
}

void bench_op_open(bench_op *o, const op_def *op, const bench_input *in, const void *attributes,
                   bool in_place) {
    *o = (bench_op){ 0 };
    graph g;
    tensor_id ids[BENCH_INPUTS] = { 0 };
    if (graph_open(&g) != STATUS_OK) give_up(status_message());
    for (uint32_t i = 0; i < op->in_count; i++)
        if (in[i].shape.rank)
            ids[i] = graph_add_source(
                &g, &(graph_source){ .shape = in[i].shape, .dtype = in[i].dtype, .role = ROLE_INPUT });
    graph_add(&g, op, ids, op->in_count, attributes);
    lower_options options = { .threads = threads_count(), .rates = device_rates_default(threads_count()) };
    if (lower_program(&g, &options, &o->program) != STATUS_OK) give_up(status_message());
    const node *n = graph_node(&o->program.graph, o->program.steps[0].node);
    op_cost cost = op->cost(&o->program.graph, n);
    o->flops = cost.flops, o->bytes = cost.bytes_read + cost.bytes_written;
    lower_call(&o->program.graph, n, &device_cpu, o->args, &o->call);
    bind_inputs(o, in);
    bind_outputs(o, op, in_place);
    o->scratch_bytes = o->program.steps[0].scratch_bytes;
    if (o->scratch_bytes) o->call.scratch = bench_memory(o->scratch_bytes);
    o->call.scratch_bytes = o->scratch_bytes;
}

double bench_op_run(bench_op *o) {
    threads_pin(); /* as the executor does */
    double begin = bench_seconds();
    o->program.steps[0].kernel->run(&o->call);
    double took = bench_seconds() - begin;
    threads_unpin();
    return took;
}

void bench_op_close(bench_op *o) {
    for (uint32_t i = 0; i < BENCH_INPUTS + BENCH_OUTPUTS; i++)
        if (o->taken[i])
            bench_release(o->args[i].data,
                          (uint64_t)shape_elements(&o->args[i].shape) * dtype_bytes(o->args[i].dtype));
    if (o->call.scratch) bench_release(o->call.scratch, o->scratch_bytes);
    lower_close(&o->program);
}
