#define _GNU_SOURCE
#include "lower/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "lower/predict.h"
#include "ops/adamw/adamw.h"
#include "ops/add/add.h"
#include "ops/attention_flash/attention_flash.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_int8/matmul_int8.h"

/* ---- what is measured: each builder makes a graph whose one node is the call ---- */

static tensor_id operand(graph *g, shape s) {
    return graph_add_source(g, &(graph_source){ .shape = s, .dtype = DTYPE_F32, .role = ROLE_INPUT });
}
static tensor_id integers(graph *g, int64_t count) {
    return graph_add_source(g,
                            &(graph_source){ .shape = SHAPE(count), .dtype = DTYPE_I32, .role = ROLE_INPUT });
}

static void build_add(graph *g, const int64_t *n) {
    tensor_id a = operand(g, SHAPE(n[0]));
    add_apply(g, a, operand(g, SHAPE(n[0])));
}

static void build_adamw(graph *g, const int64_t *n) {
    adamw_inputs in = { .w = operand(g, SHAPE(n[0])), .g = operand(g, SHAPE(n[0])) };
    in.m = operand(g, SHAPE(n[0])), in.v = operand(g, SHAPE(n[0]));
    in.lr = operand(g, SHAPE(1)), in.t = integers(g, 1);
    adamw_apply(g, in, &(adamw_attributes){ 0.9f, 0.95f, 1e-8f, 0.1f, 0 });
}

static void build_layernorm(graph *g, const int64_t *n) {
    tensor_id x = operand(g, SHAPE(n[0], n[1])), gamma = operand(g, SHAPE(n[1]));
    layernorm_apply(g, x, gamma, operand(g, SHAPE(n[1])), 1e-5f);
}

static void build_layernorm_backward(graph *g, const int64_t *n) {
    layernorm_backward_inputs in = { .x = operand(g, SHAPE(n[0], n[1])), .gamma = operand(g, SHAPE(n[1])) };
    in.mean = operand(g, SHAPE(n[0])), in.rstd = operand(g, SHAPE(n[0]));
    in.dy = operand(g, SHAPE(n[0], n[1]));
    layernorm_backward_apply(g, in);
}

static void build_gelu(graph *g, const int64_t *n) { gelu_apply(g, operand(g, SHAPE(n[0])), true); }

static void build_gelu_backward(graph *g, const int64_t *n) {
    tensor_id in[] = { operand(g, SHAPE(n[0])), operand(g, SHAPE(n[0])) };
    graph_add(g, &op_gelu_backward, in, 2, &(gelu_attributes){ 1 });
}

static void build_cross_entropy(graph *g, const int64_t *n) {
    tensor_id logits = operand(g, SHAPE(n[0], n[1])), labels = integers(g, n[0]);
    cross_entropy_apply(g, logits, labels, operand(g, SHAPE(1)), 0);
}

static void build_dropout(graph *g, const int64_t *n) {
    tensor_id x = operand(g, SHAPE(n[0], n[1]));
    dropout_apply(g, x, integers(g, 4), 0.1f, 1);
}

/* rows, columns, depth, 1 for ta and 2 for tb */
static void build_product(graph *g, const int64_t *n) {
    bool ta = n[3] & 1, tb = n[3] & 2;
    tensor_id a = operand(g, ta ? SHAPE(n[2], n[0]) : SHAPE(n[0], n[2]));
    tensor_id b = operand(g, tb ? SHAPE(n[1], n[2]) : SHAPE(n[2], n[1]));
    matmul_apply(g, &(matmul_inputs){ .a = a, .b = b, .ta = ta, .tb = tb });
}

/* The same on codes: those of b are stored, or in a sum over rows made of floats. */
static void build_codes(graph *g, const int64_t *n) {
    bool ta = n[3] & 1, tb = n[3] & 2;
    graph_source stored = { .shape = tb ? SHAPE(n[1], n[2]) : SHAPE(n[2], n[1]),
                            .dtype = DTYPE_I8,
                            .role = ROLE_INPUT };
    matmul_int8_inputs in = { .a = operand(g, ta ? SHAPE(n[2], n[0]) : SHAPE(n[0], n[2])),
                              .b = ta ? operand(g, SHAPE(n[2], n[1])) : graph_add_source(g, &stored),
                              .ta = ta,
                              .tb = tb,
                              .folded = tb };
    if (ta) in.key = integers(g, 4);
    if (!ta) in.scales = operand(g, SHAPE(tb ? n[2] : n[1]));
    matmul_int8_apply(g, &in);
}

/* batch, tokens, heads, size */
static void build_attention(graph *g, const int64_t *n) {
    attention_attributes a = { .heads = (int32_t)n[2], .causal = 1, .scale = 0.125f };
    attention_flash_apply(g, &(attention_inputs){ .q = operand(g, SHAPE(n[0], n[1], 3 * n[2] * n[3])) }, &a);
}

static void build_attention_backward(graph *g, const int64_t *n) {
    attention_attributes a = { .heads = (int32_t)n[2], .causal = 1, .scale = 0.125f };
    tensor_id in[6] = { operand(g, SHAPE(n[0], n[1], 3 * n[2] * n[3])) };
    in[3] = operand(g, SHAPE(n[0], n[1], n[2] * n[3]));
    in[4] = operand(g, SHAPE(n[0], n[2], n[1]));
    in[5] = operand(g, SHAPE(n[0], n[1], n[2] * n[3]));
    graph_add(g, &op_attention_flash_backward, in, 6, &a);
}

/* Which rate the sample is for. */
typedef enum { OF_CALL, OF_CACHE, OF_WORK, OF_DRAWS, OF_MEMORY, OF_PRODUCTS, OF_CODES, OF_FETCH } purpose;

typedef struct {
    purpose of;
    const char *what;
    void (*build)(graph *g, const int64_t *sizes);
    int64_t sizes[4];
} sample;

/* Small enough to end within one turn that the system gives a process, large enough for the clock. */
static const sample samples[] = {
    { OF_CALL, "calls", build_add, { 64 } },
    { OF_MEMORY, "memory", build_adamw, { 12 << 20 } },
    { OF_CACHE, "caches", build_add, { 512 << 10 } },
    { OF_DRAWS, "random numbers", build_dropout, { 64, 4096 } },
    { OF_WORK, "arithmetic", build_layernorm, { 256, 768 } },
    { OF_WORK, "arithmetic", build_layernorm_backward, { 256, 768 } },
    { OF_WORK, "functions", build_gelu, { 256 << 10 } },
    { OF_WORK, "functions", build_gelu_backward, { 256 << 10 } },
    { OF_WORK, "functions", build_cross_entropy, { 256, 1024 } },
    { OF_WORK, "attention", build_attention, { 1, 256, 8, 64 } },
    { OF_WORK, "attention", build_attention, { 1, 512, 2, 64 } },
    { OF_WORK, "attention", build_attention_backward, { 1, 256, 8, 64 } },
    { OF_WORK, "attention", build_attention_backward, { 1, 512, 2, 64 } },
    { OF_PRODUCTS, "products", build_product, { 256, 768, 768, 0 } },
    { OF_PRODUCTS, "products", build_product, { 256, 768, 768, 2 } },
    { OF_PRODUCTS, "products", build_product, { 768, 768, 256, 1 } },
    { OF_PRODUCTS, "products", build_product, { 1024, 1536, 768, 0 } },
    { OF_PRODUCTS, "products", build_product, { 1024, 768, 1536, 2 } },
    { OF_PRODUCTS, "products", build_product, { 768, 1536, 1024, 1 } },
    { OF_PRODUCTS, "products", build_product, { 512, 1024, 512, 2 } },
    { OF_PRODUCTS, "products", build_product, { 1024, 256, 256, 0 } },
    { OF_PRODUCTS, "products", build_product, { 256, 1024, 128, 1 } },
    { OF_PRODUCTS, "products", build_product, { 512, 512, 64, 0 } },
    { OF_PRODUCTS, "products", build_product, { 64, 768, 768, 2 } },
    { OF_PRODUCTS, "products", build_product, { 16, 1024, 512, 0 } },
    { OF_CODES, "products on 8 bits", build_codes, { 256, 768, 768, 0 } },
    { OF_CODES, "products on 8 bits", build_codes, { 256, 768, 768, 2 } },
    { OF_CODES, "products on 8 bits", build_codes, { 768, 768, 512, 1 } },
    { OF_CODES, "products on 8 bits", build_codes, { 1024, 1536, 768, 0 } },
    { OF_CODES, "products on 8 bits", build_codes, { 1024, 256, 256, 2 } },
    { OF_FETCH, "products from memory", build_product, { 64, 16384, 768, 0 } },
    { OF_FETCH, "products from memory", build_product, { 64, 16384, 768, 2 } },
    { OF_FETCH, "products from memory", build_product, { 16384, 768, 64, 1 } },
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* ---- one sample ---- */

typedef struct {
    op_cost cost;
    double seconds;
} measured;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of at least five runs, for as long as `seconds`: longer than a quarter of them took. The best would be what
 * a processor does now and then, the median what others on the machine let it do. */
static double usual_time(const op_kernel *k, const op_call *call, double seconds) {
    enum { MOST = 1000 };
    double took[MOST], begin = now();
    int runs = 0;
    threads_pin(); /* as the executor does */
    for (; runs < 5 || (runs < MOST && now() - begin < seconds); runs++) {
        double at = now();
        k->run(call);
        took[runs] = now() - at;
    }
    threads_unpin();
    qsort(took, (size_t)runs, sizeof *took, by_size);
    double usual = took[runs / 4];
    return usual > 1e-9 ? usual : 1e-9;
}

/* Small positive numbers everywhere, so that nothing overflows, and integers that are labels and keys. */
static void fill(const graph *g, tensor_id t, void *data) {
    uint64_t n = graph_tensor_bytes(g, t) / 4;
    bool real = graph_tensor(g, t)->dtype == DTYPE_F32; /* bytes of codes may be any */
    for (uint64_t i = 0; i < n; i++) {
        if (real)
            ((float *)data)[i] = 0.01f * (float)(1 + i % 97);
        else
            ((int32_t *)data)[i] = (int32_t)(1 + i % 97);
    }
}

/* Every storage gets its place in the pool; scratch comes last. */
static uint64_t lay_out(const graph *g, char *data, op_arg *args, const node *n) {
    uint64_t used = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        if (graph_tensor(g, t)->base) continue;
        for (uint32_t i = 0; data && i < (uint32_t)n->in_count + n->out_count; i++) {
            tensor_id of = i < n->in_count ? node_in(g, n, i) : node_out(g, n, i - n->in_count);
            if (of && graph_storage(g, of, NULL) == t) args[i].data = data + used;
        }
        if (data) fill(g, t, data + used);
        used += units_align(graph_tensor_bytes(g, t), 4096) + 4096; /* apart, as in a plan of many */
    }
    return used;
}

static status run_program(const program *p, double seconds, measured *m) {
    const graph *g = &p->graph;
    const lower_step *step = &p->steps[p->count - 1];
    const node *n = graph_node(g, step->node);
    op_arg args[32] = { 0 };
    op_call call;
    lower_call(g, n, args, &call);
    uint64_t operands = lay_out(g, NULL, NULL, n);
    device_pool pool;
    TRY(device_pool_open(&pool, operands + step->scratch_bytes));
    lay_out(g, pool.data, args, n);
    call.scratch = (char *)pool.data + operands, call.scratch_bytes = step->scratch_bytes;
    *m = (measured){ .cost = n->op->cost(g, n), .seconds = usual_time(step->kernel, &call, seconds) };
    device_pool_close(&pool);
    return STATUS_OK;
}

static status run_sample(const sample *s, int threads, double seconds, measured *m) {
    graph g;
    program p = { 0 };
    TRY(graph_open(&g));
    s->build(&g, s->sizes);
    status result = graph_status(&g);
    lower_options o = { .threads = threads, .rates = device_rates_default(threads) };
    if (result == STATUS_OK)
        result = lower_program(&g, &o, &p);
    else
        graph_close(&g);
    if (result == STATUS_OK) result = run_program(&p, seconds, m);
    lower_close(&p);
    return result;
}

/* ---- rates of samples ---- */

static double bytes_of(const measured *m) { return m->cost.bytes_read + m->cost.bytes_written; }

/* seconds = flops * a + moved * b, by least squares of relative errors; neither may be negative. */
static void fit_products(const measured *m, device_rates *r) {
    double ff = 0, fm = 0, mm = 0, f = 0, v = 0;
    for (int i = 0; i < SAMPLES; i++) {
        if (samples[i].of != OF_PRODUCTS) continue;
        double seconds = m[i].seconds - r->call_seconds;
        if (seconds <= 0) continue;
        double x = m[i].cost.flops / seconds, y = m[i].cost.bytes_moved / seconds;
        ff += x * x, fm += x * y, mm += y * y, f += x, v += y;
    }
    double determinant = ff * mm - fm * fm;
    double a = (f * mm - v * fm) / determinant, b = (v * ff - f * fm) / determinant;
    bool sound = determinant > 0 && a > 0 && b > 0;
    r->flops[WORK_PRODUCTS] = sound ? 1 / a : ff / f;
    r->moved = sound ? 1 / b : 1e12;
}

/* What products on codes take beside quantizing, drawing and moving, whose rates are known by now: the mean
 * of the times per flop, at least a third of a sample's. */
static void fit_codes(const measured *m, device_rates *r) {
    double sum = 0, count = 0;
    for (int i = 0; i < SAMPLES; i++) {
        if (samples[i].of != OF_CODES) continue;
        double beside = r->call_seconds + m[i].cost.draws / r->draws + m[i].cost.bytes_moved / r->moved;
        double seconds = m[i].seconds - beside, least = m[i].seconds / 3;
        sum += (seconds > least ? seconds : least) / m[i].cost.flops, count++;
    }
    r->flops[WORK_CODES] = count / sum;
}

/* Seconds of a sample that are neither its start nor traffic with caches. */
static double seconds_of_work(const measured *m, const device_rates *r) {
    return m->seconds - r->call_seconds - bytes_of(m) / r->cached;
}

/* Of a kind: the mean of the times per flop of its samples. */
static void fit_work(const measured *m, work_kind kind, device_rates *r) {
    double sum = 0, count = 0;
    for (int i = 0; i < SAMPLES; i++) {
        if (samples[i].of != OF_WORK || m[i].cost.kind != kind) continue;
        double seconds = seconds_of_work(&m[i], r);
        if (seconds > 0) sum += seconds / (m[i].cost.work > 0 ? m[i].cost.work : m[i].cost.flops), count++;
    }
    if (count > 0) r->flops[kind] = count / sum;
}

/* What samples with operands from memory take beyond their work; at least `least` of their time. */
static double rate_of_memory(const measured *m, purpose of, const device_rates *r) {
    const double least = 0.05;
    double bytes = 0, seconds = 0;
    for (int i = 0; i < SAMPLES; i++) {
        if (samples[i].of != of) continue;
        double beyond = m[i].seconds - r->call_seconds - predict_work(&m[i].cost, r);
        bytes += bytes_of(&m[i]);
        seconds += beyond > least * m[i].seconds ? beyond : least * m[i].seconds;
    }
    return bytes / seconds;
}

static void nothing(void *context, int64_t tile, int thread) { (void)context, (void)tile, (void)thread; }

/* What all threads take to begin and end, beside the call itself. */
static double thread_seconds(int threads) {
    double best = 1e9;
    for (int run = 0; run < 2000; run++) {
        double at = now();
        threads_for(2 * threads, nothing, NULL);
        double took = now() - at;
        if (took < best) best = took;
    }
    return best;
}

static void fit(const measured *m, int threads, device_rates *r) {
    *r = device_rates_default(threads);
    for (int i = 0; i < SAMPLES; i++) {
        if (samples[i].of == OF_CALL) r->call_seconds = m[i].seconds + thread_seconds(threads);
        if (samples[i].of == OF_CACHE) r->cached = bytes_of(&m[i]) / m[i].seconds;
    }
    for (int kind = 0; kind < WORK_KINDS; kind++)
        if (kind != WORK_PRODUCTS) fit_work(m, (work_kind)kind, r);
    for (int i = 0; i < SAMPLES; i++)
        if (samples[i].of == OF_DRAWS && seconds_of_work(&m[i], r) > 0)
            r->draws = m[i].cost.draws / seconds_of_work(&m[i], r);
    fit_products(m, r);
    fit_codes(m, r);
    r->bandwidth = rate_of_memory(m, OF_MEMORY, r);
    r->fetched = rate_of_memory(m, OF_FETCH, r);
}

status measure_rates(int threads, const measure_observer *o, device_rates *r) {
    measured m[SAMPLES];
    threads_set(threads);
    for (int i = 0; i < SAMPLES; i++) {
        if (o->told) o->told(o->context, samples[i].what, (double)i / SAMPLES);
        TRY(run_sample(&samples[i], threads, o->seconds / SAMPLES, &m[i]));
    }
    fit(m, threads, r);
    return STATUS_OK;
}
