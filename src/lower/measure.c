#define _GNU_SOURCE
#include "lower/measure.h"

#include <stdlib.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "lower/lower.h"
#include "lower/measure_fit.h"
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

static tensor_id operand_of(graph *g, dtype type, shape s) {
    return graph_add_source(g, &(graph_source){ .shape = s, .dtype = (uint8_t)type, .role = ROLE_INPUT });
}
static tensor_id operand(graph *g, shape s) { return operand_of(g, DTYPE_F32, s); }
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

/* Of one type; parameters and what rows have one of are f32. */
static void add_layernorm(graph *g, dtype type, const int64_t *n) {
    tensor_id x = operand_of(g, type, SHAPE(n[0], n[1])), gamma = operand(g, SHAPE(n[1]));
    layernorm_apply(g, x, gamma, operand(g, SHAPE(n[1])), 1e-5f);
}

static void add_layernorm_backward(graph *g, dtype type, const int64_t *n) {
    layernorm_backward_inputs in = { .x = operand_of(g, type, SHAPE(n[0], n[1])),
                                     .gamma = operand(g, SHAPE(n[1])) };
    in.mean = operand(g, SHAPE(n[0])), in.rstd = operand(g, SHAPE(n[0]));
    in.dy = operand_of(g, type, SHAPE(n[0], n[1]));
    layernorm_backward_apply(g, in);
}

static void add_gelu(graph *g, dtype type, const int64_t *n) {
    gelu_apply(g, operand_of(g, type, SHAPE(n[0])), true);
}

static void add_gelu_backward(graph *g, dtype type, const int64_t *n) {
    tensor_id in[] = { operand_of(g, type, SHAPE(n[0])), operand_of(g, type, SHAPE(n[0])) };
    graph_add(g, &op_gelu_backward, in, 2, &(gelu_attributes){ 1 });
}

static void add_cross_entropy(graph *g, dtype type, const int64_t *n) {
    tensor_id logits = operand_of(g, type, SHAPE(n[0], n[1])), labels = integers(g, n[0]);
    cross_entropy_apply(g, logits, labels, operand(g, SHAPE(1)), 0);
}

#define OF_BOTH_TYPES(name)                                                                                  \
    static void build_##name(graph *g, const int64_t *n) { add_##name(g, DTYPE_F32, n); }                    \
    static void build_##name##_half(graph *g, const int64_t *n) { add_##name(g, DTYPE_BF16, n); }
OF_BOTH_TYPES(layernorm)
OF_BOTH_TYPES(layernorm_backward)
OF_BOTH_TYPES(gelu)
OF_BOTH_TYPES(gelu_backward)
OF_BOTH_TYPES(cross_entropy)

static void build_dropout(graph *g, const int64_t *n) {
    tensor_id x = operand(g, SHAPE(n[0], n[1]));
    dropout_apply(g, x, integers(g, 4), 0.1f, 1);
}

/* rows, columns, depth, 1 for ta and 2 for tb */
static void add_product(graph *g, dtype type, const int64_t *n) {
    bool ta = n[3] & 1, tb = n[3] & 2;
    tensor_id a = operand_of(g, type, ta ? SHAPE(n[2], n[0]) : SHAPE(n[0], n[2]));
    tensor_id b = operand_of(g, type, tb ? SHAPE(n[1], n[2]) : SHAPE(n[2], n[1]));
    matmul_apply(g, &(matmul_inputs){ .a = a, .b = b, .ta = ta, .tb = tb });
}
OF_BOTH_TYPES(product)

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
static void add_attention(graph *g, dtype type, const int64_t *n) {
    attention_attributes a = { .heads = (int32_t)n[2], .causal = 1, .scale = 0.125f };
    tensor_id q = operand_of(g, type, SHAPE(n[0], n[1], 3 * n[2] * n[3]));
    attention_flash_apply(g, &(attention_inputs){ .q = q }, &a);
}
OF_BOTH_TYPES(attention)

static void add_attention_backward(graph *g, dtype type, const int64_t *n) {
    attention_attributes a = { .heads = (int32_t)n[2], .causal = 1, .scale = 0.125f };
    tensor_id in[6] = { operand_of(g, type, SHAPE(n[0], n[1], 3 * n[2] * n[3])) };
    in[3] = operand_of(g, type, SHAPE(n[0], n[1], n[2] * n[3]));
    in[4] = operand(g, SHAPE(n[0], n[2], n[1])); /* sums of rows are f32 whatever the rest is */
    in[5] = operand_of(g, type, SHAPE(n[0], n[1], n[2] * n[3]));
    graph_add(g, &op_attention_flash_backward, in, 6, &a);
}
OF_BOTH_TYPES(attention_backward)

typedef struct {
    measure_purpose of;
    const char *what;
    void (*build)(graph *g, const int64_t *sizes);
    int64_t sizes[4];
} sample;

/* Small enough to end within one turn that the system gives a process, large enough for the clock. */
static const sample samples[] = {
    { MEASURE_CALL, "calls", build_add, { 64 } },
    { MEASURE_MEMORY, "memory", build_adamw, { 12 << 20 } },
    { MEASURE_CACHE, "caches", build_add, { 512 << 10 } },
    { MEASURE_DRAWS, "random numbers", build_dropout, { 64, 4096 } },
    { MEASURE_WORK, "arithmetic", build_layernorm, { 256, 768 } },
    { MEASURE_WORK, "arithmetic", build_layernorm_backward, { 256, 768 } },
    { MEASURE_WORK, "functions", build_gelu, { 256 << 10 } },
    { MEASURE_WORK, "functions", build_gelu_backward, { 256 << 10 } },
    { MEASURE_WORK, "functions", build_cross_entropy, { 256, 1024 } },
    { MEASURE_WORK, "attention", build_attention, { 1, 256, 8, 64 } },
    { MEASURE_WORK, "attention", build_attention, { 1, 512, 2, 64 } },
    { MEASURE_WORK, "attention", build_attention_backward, { 1, 256, 8, 64 } },
    { MEASURE_WORK, "attention", build_attention_backward, { 1, 512, 2, 64 } },
    { MEASURE_PRODUCTS, "products", build_product, { 256, 768, 768, 0 } },
    { MEASURE_PRODUCTS, "products", build_product, { 256, 768, 768, 2 } },
    { MEASURE_PRODUCTS, "products", build_product, { 768, 768, 256, 1 } },
    { MEASURE_PRODUCTS, "products", build_product, { 1024, 1536, 768, 0 } },
    { MEASURE_PRODUCTS, "products", build_product, { 1024, 768, 1536, 2 } },
    { MEASURE_PRODUCTS, "products", build_product, { 768, 1536, 1024, 1 } },
    { MEASURE_PRODUCTS, "products", build_product, { 512, 1024, 512, 2 } },
    { MEASURE_PRODUCTS, "products", build_product, { 1024, 256, 256, 0 } },
    { MEASURE_PRODUCTS, "products", build_product, { 256, 1024, 128, 1 } },
    { MEASURE_PRODUCTS, "products", build_product, { 512, 512, 64, 0 } },
    { MEASURE_PRODUCTS, "products", build_product, { 64, 768, 768, 2 } },
    { MEASURE_PRODUCTS, "products", build_product, { 16, 1024, 512, 0 } },
    { MEASURE_OTHER_PRODUCTS, "products on 8 bits", build_codes, { 256, 768, 768, 0 } },
    { MEASURE_OTHER_PRODUCTS, "products on 8 bits", build_codes, { 256, 768, 768, 2 } },
    { MEASURE_OTHER_PRODUCTS, "products on 8 bits", build_codes, { 768, 768, 512, 1 } },
    { MEASURE_OTHER_PRODUCTS, "products on 8 bits", build_codes, { 1024, 1536, 768, 0 } },
    { MEASURE_OTHER_PRODUCTS, "products on 8 bits", build_codes, { 1024, 256, 256, 2 } },
    { MEASURE_OTHER_PRODUCTS, "products on 16 bits", build_product_half, { 256, 768, 768, 0 } },
    { MEASURE_OTHER_PRODUCTS, "products on 16 bits", build_product_half, { 256, 768, 768, 2 } },
    { MEASURE_OTHER_PRODUCTS, "products on 16 bits", build_product_half, { 768, 768, 256, 1 } },
    { MEASURE_OTHER_PRODUCTS, "products on 16 bits", build_product_half, { 1024, 1536, 768, 0 } },
    { MEASURE_WORK, "attention on 16 bits", build_attention_half, { 1, 256, 8, 64 } },
    { MEASURE_WORK, "attention on 16 bits", build_attention_backward_half, { 1, 256, 8, 64 } },
    { MEASURE_WORK, "arithmetic on 16 bits", build_layernorm_half, { 256, 768 } },
    { MEASURE_WORK, "arithmetic on 16 bits", build_layernorm_backward_half, { 256, 768 } },
    { MEASURE_WORK, "functions on 16 bits", build_gelu_half, { 256 << 10 } },
    { MEASURE_WORK, "functions on 16 bits", build_gelu_backward_half, { 256 << 10 } },
    { MEASURE_WORK, "functions on 16 bits", build_cross_entropy_half, { 256, 1024 } },
    { MEASURE_FETCH, "products from memory", build_product, { 64, 16384, 768, 0 } },
    { MEASURE_FETCH, "products from memory", build_product, { 64, 16384, 768, 2 } },
    { MEASURE_FETCH, "products from memory", build_product, { 16384, 768, 64, 1 } },
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* Of the short measurement: what decides between plans first, in case the time is over. */
static const sample short_samples[] = {
    { MEASURE_CALL, "calls", build_add, { 64 } },
    { MEASURE_PRODUCTS, "products", build_product, { 256, 384, 384, 0 } },
    { MEASURE_PRODUCTS, "products", build_product, { 256, 384, 384, 2 } },
    { MEASURE_PRODUCTS, "products", build_product, { 384, 384, 256, 1 } },
    { MEASURE_PRODUCTS, "products", build_product, { 512, 512, 64, 0 } },
    { MEASURE_PRODUCTS, "products", build_product, { 64, 512, 512, 2 } },
    { MEASURE_CACHE, "caches", build_add, { 160 << 10 } },
    { MEASURE_MEMORY, "memory", build_adamw, { 128 << 10 } },
    { MEASURE_FETCH, "products from memory", build_product, { 64, 512, 768, 2 } },
    { MEASURE_WORK, "attention", build_attention, { 1, 256, 4, 64 } },
    { MEASURE_WORK, "attention", build_attention_backward, { 1, 256, 4, 64 } },
    { MEASURE_WORK, "arithmetic", build_layernorm, { 128, 768 } },
    { MEASURE_WORK, "arithmetic", build_layernorm_backward, { 128, 768 } },
    { MEASURE_WORK, "functions", build_gelu, { 128 << 10 } },
    { MEASURE_WORK, "functions", build_gelu_backward, { 128 << 10 } },
    { MEASURE_WORK, "functions", build_cross_entropy, { 256, 1024 } },
    { MEASURE_DRAWS, "random numbers", build_dropout, { 64, 2048 } },
    { MEASURE_OTHER_PRODUCTS, "products on 8 bits", build_codes, { 256, 384, 384, 0 } },
    { MEASURE_OTHER_PRODUCTS, "products on 8 bits", build_codes, { 256, 384, 384, 2 } },
    { MEASURE_OTHER_PRODUCTS, "products on 8 bits", build_codes, { 384, 384, 256, 1 } },
    { MEASURE_OTHER_PRODUCTS, "products on 16 bits", build_product_half, { 256, 384, 384, 0 } },
    { MEASURE_OTHER_PRODUCTS, "products on 16 bits", build_product_half, { 384, 384, 256, 1 } },
    { MEASURE_WORK, "attention on 16 bits", build_attention_half, { 1, 256, 4, 64 } },
    { MEASURE_WORK, "attention on 16 bits", build_attention_backward_half, { 1, 256, 4, 64 } },
    { MEASURE_WORK, "arithmetic on 16 bits", build_layernorm_half, { 128, 768 } },
    { MEASURE_WORK, "arithmetic on 16 bits", build_layernorm_backward_half, { 128, 768 } },
    { MEASURE_WORK, "functions on 16 bits", build_gelu_half, { 128 << 10 } },
    { MEASURE_WORK, "functions on 16 bits", build_gelu_backward_half, { 128 << 10 } },
};
enum { SHORT_SAMPLES = sizeof short_samples / sizeof *short_samples };

/* ---- one sample ---- */

/* How samples are run. */
typedef struct {
    int threads;
    double asked;        /* processors that these threads can have at once */
    double seconds;      /* for each sample */
    int least_runs;      /* of a sample, however long they take */
    uint64_t most_bytes; /* that operands and scratch may take; a sample that takes more is left out */
    bool from_memory;    /* small operands stand for large ones: caches are emptied of them before each run */
    measure_result *told; /* what is said of the whole */
} manner;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Longer than a quarter of them took: the best would be what a processor does now and then, the median what
 * others on the machine let it do. */
static double usual(double *took, int runs) {
    qsort(took, (size_t)runs, sizeof *took, by_size);
    return took[runs / 4] > 1e-9 ? took[runs / 4] : 1e-9;
}

enum { MOST_RUNS = 500, UNDISTURBED_RUNS = 3 };
typedef struct {
    double undisturbed[MOST_RUNS]; /* seconds of runs that had the processors they asked for */
    double all[MOST_RUNS];         /* of every run, as long as it would have taken with them */
    int undisturbed_count, count;
} run_times;

static void note_run(run_times *t, double seconds, double processors, double asked) {
    bool whole = measure_is_undisturbed(seconds, processors, asked);
    double own = processors / asked;
    if (whole) t->undisturbed[t->undisturbed_count++] = seconds;
    t->all[t->count++] = whole || own > seconds ? seconds : own;
}

typedef struct {
    const op_kernel *kernel;
    op_call call;
    device_pool pool;
    uint64_t operands; /* bytes at the beginning of the pool */
    bool emptied;      /* out of caches before each run */
} prepared;

static double usual_time(const prepared *p, const manner *how, double asked) {
    run_times t = { .count = 0 };
    double begin = clock_seconds();
    threads_pin(); /* as the executor does */
    while (t.count < how->least_runs || (t.count < MOST_RUNS && clock_seconds() - begin < how->seconds)) {
        if (p->emptied) device_cache_drop(p->pool.data, p->operands);
        double processors = threads_seconds(), at = clock_seconds();
        p->kernel->run(&p->call);
        double took = clock_seconds() - at;
        note_run(&t, took, threads_seconds() - processors, asked);
    }
    threads_unpin();
    if (t.undisturbed_count >= UNDISTURBED_RUNS) return usual(t.undisturbed, t.undisturbed_count);
    how->told->disturbed++;
    return usual(t.all, t.count);
}

/* Small positive numbers everywhere, so that nothing overflows, and integers that are labels and keys. */
static void fill(const graph *g, tensor_id t, void *data) {
    dtype type = (dtype)graph_tensor(g, t)->dtype;
    uint64_t n = graph_tensor_bytes(g, t) / (type == DTYPE_BF16 ? 2 : 4); /* bytes of codes may be any */
    for (uint64_t i = 0; i < n; i++) {
        float x = 0.01f * (float)(1 + i % 97);
        if (type == DTYPE_F32)
            ((float *)data)[i] = x;
        else if (type == DTYPE_BF16)
            ((uint16_t *)data)[i] = half_to_bf16(x);
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

/* Of the distinct operands: each comes from memory once when none is in a cache. */
static double storage_bytes(const graph *g) {
    uint64_t bytes = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (!graph_tensor(g, t)->base) bytes += graph_tensor_bytes(g, t);
    return (double)bytes;
}

static status run_program(const program *p, const manner *how, measure_taken *m) {
    const graph *g = &p->graph;
    const lower_step *step = &p->steps[p->count - 1];
    const node *n = graph_node(g, step->node);
    op_arg args[32] = { 0 };
    prepared ready = { .kernel = step->kernel, .operands = lay_out(g, NULL, NULL, n) };
    bool memory = m->of == MEASURE_MEMORY || m->of == MEASURE_FETCH;
    m->cost = n->op->cost(g, n);
    m->memory_bytes = how->from_memory ? storage_bytes(g) : m->cost.bytes_read + m->cost.bytes_written;
    if (ready.operands + step->scratch_bytes > how->most_bytes) return STATUS_OK;
    if (memory && how->from_memory && !device_cache_drop(NULL, 0)) return STATUS_OK;
    lower_call(g, n, device_default(), args, &ready.call);
    TRY(device_pool_open(&ready.pool, ready.operands + step->scratch_bytes));
    lay_out(g, ready.pool.data, args, n);
    ready.call.scratch = (char *)ready.pool.data + ready.operands;
    ready.call.scratch_bytes = step->scratch_bytes;
    ready.emptied = memory && how->from_memory;
    m->seconds = usual_time(&ready, how, m->of == MEASURE_CALL ? 1 : how->asked); /* that is one tile */
    device_pool_close(&ready.pool);
    return STATUS_OK;
}

static status run_sample(const sample *s, const manner *how, measure_taken *m) {
    graph g;
    program p = { 0 };
    *m = (measure_taken){ .of = s->of };
    TRY(graph_open(&g));
    s->build(&g, s->sizes);
    status result = graph_status(&g);
    lower_options o = { .threads = how->threads, .rates = device_rates_default(how->threads) };
    if (result == STATUS_OK)
        result = lower_program(&g, &o, &p);
    else
        graph_close(&g);
    if (result == STATUS_OK) result = run_program(&p, how, m);
    lower_close(&p);
    return result;
}

static void nothing(void *context, int64_t tile, int thread) { (void)context, (void)tile, (void)thread; }

/* What all threads take to begin and end, beside the call itself. */
static double thread_seconds(int threads, int runs) {
    double best = 1e9;
    for (int run = 0; run < runs; run++) {
        double at = clock_seconds();
        threads_for(2 * threads, nothing, NULL);
        double took = clock_seconds() - at;
        if (took < best) best = took;
    }
    return best;
}

/* ---- all of them ---- */

bool measure_is_undisturbed(double seconds, double processors, double asked) {
    return processors >= 0.9 * asked * seconds;
}

double measure_processors(int threads) {
    double quota = cgroup_read("").processors;
    int available = threads_available();
    double most = quota > 0 && quota < available ? quota : available;
    return threads < most ? threads : most;
}

static manner make_manner(int threads, double seconds, measure_result *r) {
    *r = (measure_result){ 0 };
    threads_set(threads);
    return (manner){ .threads = threads,
                     .asked = measure_processors(threads),
                     .seconds = seconds,
                     .least_runs = 5,
                     .most_bytes = UINT64_MAX,
                     .told = r };
}

status measure_rates(int threads, const measure_observer *o, device_rates *r, measure_result *told) {
    measure_taken m[SAMPLES];
    manner how = make_manner(threads, o->seconds / SAMPLES, told);
    for (int i = 0; i < SAMPLES; i++) {
        if (o->told) o->told(o->context, samples[i].what, (double)i / SAMPLES);
        TRY(run_sample(&samples[i], &how, &m[i]));
    }
    *r = device_rates_default(threads);
    measure_fit(m, SAMPLES, thread_seconds(threads, 2000), r);
    told->samples = SAMPLES;
    return STATUS_OK;
}

/* Kernels want scratch for each thread, and so does the reserve. */
uint64_t measure_brief_bytes(int threads) { return (5u << 19) + ((uint64_t)(threads - 1) * 160 << 10); }

status measure_rates_briefly(int threads, double seconds, device_rates *r, measure_result *told) {
    measure_taken m[SHORT_SAMPLES] = { 0 };
    double end = clock_seconds() + seconds;
    manner how = make_manner(threads, 0, told);
    how.least_runs = UNDISTURBED_RUNS;
    how.most_bytes = measure_brief_bytes(threads);
    how.from_memory = true;
    for (int i = 0; i < SHORT_SAMPLES; i++) {
        double left = end - clock_seconds();
        if (left <= 0) break; /* on a slow machine the table's rates stay for the rest */
        how.seconds = left / (SHORT_SAMPLES + 1 - i);
        TRY(run_sample(&short_samples[i], &how, &m[i]));
        told->samples += m[i].seconds > 0;
    }
    *r = device_rates_default(threads);
    measure_fit(m, SHORT_SAMPLES, thread_seconds(threads, 100), r);
    memory_trim();
    return STATUS_OK;
}
