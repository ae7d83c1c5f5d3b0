#define _GNU_SOURCE
#include "lower/measure_library.h"

#include "base/clock.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/units.h"
#include "lower/lower.h"
#include "ops/attention_library/attention_library.h"
#include "ops/library_matmul/library_matmul.h"

/* ---- what is measured ---- */

typedef struct {
    device_library by;
    const char *what;
    dtype type;
    bool gradient;
    int64_t sizes[4];
} shape_of_work;

/* Small ones first: where all is slow, these are done. */
static const shape_of_work shapes[] = {
    { DEVICE_LIBRARY_PRODUCTS, "f32", DTYPE_F32, false, { 32, 32, 32 } },
    { DEVICE_LIBRARY_PRODUCTS, "bf16", DTYPE_BF16, false, { 32, 32, 32 } },
    { DEVICE_LIBRARY_PRODUCTS, "f32", DTYPE_F32, false, { 256, 768, 768 } },
    { DEVICE_LIBRARY_PRODUCTS, "bf16", DTYPE_BF16, false, { 256, 768, 768 } },
    { DEVICE_LIBRARY_PRODUCTS, "f32", DTYPE_F32, false, { 1024, 3072, 768 } },
    { DEVICE_LIBRARY_PRODUCTS, "bf16", DTYPE_BF16, false, { 1024, 3072, 768 } },
    { DEVICE_LIBRARY_PRODUCTS, "f32", DTYPE_F32, false, { 8192, 768, 768 } },
    { DEVICE_LIBRARY_PRODUCTS, "bf16", DTYPE_BF16, false, { 8192, 768, 768 } },
    { DEVICE_LIBRARY_PRODUCTS, "f32", DTYPE_F32, false, { 768, 3072, 8192 } },
    { DEVICE_LIBRARY_PRODUCTS, "bf16", DTYPE_BF16, false, { 768, 3072, 8192 } },
    { DEVICE_LIBRARY_PRODUCTS, "f32", DTYPE_F32, false, { 4096, 4096, 4096 } },
    { DEVICE_LIBRARY_PRODUCTS, "bf16", DTYPE_BF16, false, { 4096, 4096, 4096 } },
    { DEVICE_LIBRARY_PRODUCTS, "bf16", DTYPE_BF16, false, { 8192, 14336, 4096 } },
    { DEVICE_LIBRARY_ATTENTION, "bf16 forward", DTYPE_BF16, false, { 1, 32, 1, 32 } },
    { DEVICE_LIBRARY_ATTENTION, "bf16 gradient", DTYPE_BF16, true, { 1, 32, 1, 32 } },
    { DEVICE_LIBRARY_ATTENTION, "bf16 forward", DTYPE_BF16, false, { 4, 1024, 12, 64 } },
    { DEVICE_LIBRARY_ATTENTION, "bf16 gradient", DTYPE_BF16, true, { 4, 1024, 12, 64 } },
    { DEVICE_LIBRARY_ATTENTION, "bf16 forward", DTYPE_BF16, false, { 32, 1024, 12, 64 } },
    { DEVICE_LIBRARY_ATTENTION, "bf16 gradient", DTYPE_BF16, true, { 32, 1024, 12, 64 } },
    { DEVICE_LIBRARY_ATTENTION, "bf16 forward", DTYPE_BF16, false, { 1, 8192, 32, 128 } },
    { DEVICE_LIBRARY_ATTENTION, "bf16 gradient", DTYPE_BF16, true, { 1, 8192, 32, 128 } },
};
enum { SHAPES = sizeof shapes / sizeof *shapes, INPUTS = 16 /* of a node: more than there are */ };
_Static_assert(2 * SHAPES <= DEVICE_SHAPES, "of each shape two times are kept, our kernels' and a library's");

static tensor_id operand(graph *g, dtype type, shape s) {
    return graph_add_source(g, &(graph_source){ .shape = s, .dtype = (uint8_t)type, .role = ROLE_INPUT });
}

typedef union {
    matmul_attributes product;
    attention_attributes attention;
} node_form;

/* The op that snug's kernels make, and its inputs. */
static const op_def *own_op(const shape_of_work *w, graph *g, tensor_id in[INPUTS], node_form *form) {
    const int64_t *n = w->sizes;
    *form = (node_form){ 0 };
    if (w->by == DEVICE_LIBRARY_PRODUCTS) {
        in[0] = operand(g, w->type, SHAPE(n[0], n[2])), in[1] = operand(g, w->type, SHAPE(n[2], n[1]));
        return &op_matmul;
    }
    form->attention = (attention_attributes){ .heads = (int32_t)n[2], .causal = 1 };
    in[0] = operand(g, w->type, SHAPE(n[0], n[1], 3 * n[2] * n[3]));
    if (!w->gradient) return &op_attention_flash;
    in[3] = operand(g, w->type, SHAPE(n[0], n[1], n[2] * n[3]));
    in[4] = operand(g, DTYPE_F32, SHAPE(n[0], n[2], n[1])); /* logarithms are f32 whatever the rest is */
    in[5] = operand(g, w->type, SHAPE(n[0], n[1], n[2] * n[3]));
    return &op_attention_flash_backward;
}

/* The same by the library, beside the own node that makes y; nothing where it declines that. */
static void add_library_node(const shape_of_work *w, graph *g, const tensor_id in[INPUTS], tensor_id y,
                             const node_form *form) {
    if (w->by == DEVICE_LIBRARY_PRODUCTS) {
        library_product p;
        library_matmul_attributes t = { .product = form->product, .chosen = 1 };
        bool makes = library_matmul_of(g, in, y, &t.product, &p) == LIBRARY_MAKES &&
                     library_choose(&p, &t.algorithm) == LIBRARY_MAKES;
        if (makes) graph_add(g, &op_library_matmul, in, op_library_matmul.in_count, &t);
        return;
    }
    const node *n = graph_node(g, graph_tensor(g, y)->producer);
    library_attention p;
    attention_library_attributes t = { .attention = form->attention, .chosen = 1 };
    const op_def *op = w->gradient ? &op_attention_library_backward : &op_attention_library;
    bool makes = attention_library_of(g, n, w->gradient, &p) == LIBRARY_ATTENTION_MAKES &&
                 library_attention_choose(&p, &t.algorithm) == LIBRARY_ATTENTION_MAKES;
    if (makes) graph_add(g, op, in, op->in_count, &t);
}

/* ---- running ---- */

/* Places of the graph's tensors in the pool, one after the other; returns what they take. */
static uint64_t place(const graph *g, uint64_t *at) {
    uint64_t used = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        at[t] = used;
        used += units_align(graph_tensor_bytes(g, t), 256);
    }
    return used;
}

/* Small positive numbers, through a block of the host's. */
static status fill(const device *d, const graph *g, const uint64_t *at, char *pool) {
    enum { BLOCK = 1 << 20 };
    uint16_t *block = memory_new(BLOCK, 1);
    if (!block) return status_set(STATUS_FAILED, "no memory for operands");
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        for (uint32_t i = 0; i < BLOCK / 4 && x->dtype == DTYPE_F32; i++)
            ((float *)(void *)block)[i] = 0.01f * (float)(1 + i % 97);
        for (uint32_t i = 0; i < BLOCK / 2 && x->dtype != DTYPE_F32; i++)
            block[i] = half_to_bf16(0.01f * (float)(1 + i % 97));
        for (uint64_t done = 0, all = graph_tensor_bytes(g, t); !x->producer && done < all; done += BLOCK)
            d->put(d, pool + at[t] + done, block, all - done < BLOCK ? all - done : BLOCK);
    }
    memory_free(block);
    return STATUS_OK;
}

/* Seconds of a call: more and more of them, until what starting and waiting take is little beside. */
static double seconds_of(const device *d, const op_kernel *k, const op_call *c) {
    const double enough = 0.02;
    double took = 0;
    for (int runs = 1;; runs *= 4) {
        d->begin(d);
        double at = clock_seconds();
        for (int i = 0; i < runs; i++) k->run(c);
        d->end(d);
        took = clock_seconds() - at;
        if (runs > 1 && (took >= enough || runs >= 4096)) return took / runs;
        if (took >= 10 * enough) return took / runs; /* the first call, where all is slow */
    }
}

/* Where a program's tensors are in the pool, by id, and the scratch of its calls. */
typedef struct {
    char *pool;
    const uint64_t *at;
    uint64_t scratch;
} places;

static status run_step(const device *d, const graph *g, const lower_step *s, const places *in,
                       double *seconds) {
    op_arg args[INPUTS + 4] = { 0 };
    op_call c;
    const node *n = graph_node(g, s->node);
    lower_call(g, n, d, args, &c);
    for (uint32_t i = 0; i < (uint32_t)n->in_count + n->out_count; i++) {
        tensor_id t = i < n->in_count ? node_in(g, n, i) : node_out(g, n, i - n->in_count);
        if (t) args[i].data = in->pool + in->at[t];
    }
    c.scratch = s->scratch_bytes ? in->pool + in->scratch : NULL;
    c.scratch_bytes = s->scratch_bytes;
    TRY(op_prepare(n->op, &c));
    *seconds = seconds_of(d, s->kernel, &c);
    return STATUS_OK;
}

/* The program's first call is the own one. No memory for it: both stay 0. */
static status run_both(const device *d, const program *p, measure_pair *out) {
    uint64_t *at = memory_new(p->graph.tensors.count, sizeof *at), scratch = 0;
    device_pool pool;
    if (!at) return status_set(STATUS_FAILED, "no memory to measure");
    uint64_t operands = place(&p->graph, at);
    for (uint32_t i = 0; i < p->count; i++)
        if (p->steps[i].scratch_bytes > scratch) scratch = p->steps[i].scratch_bytes;
    status result = STATUS_OK;
    if (d->open(d, &pool, operands + scratch) == STATUS_OK) {
        result = fill(d, &p->graph, at, pool.data);
        for (uint32_t i = 0; i < p->count && result == STATUS_OK; i++)
            result = run_step(d, &p->graph, &p->steps[i], &(places){ pool.data, at, operands },
                              i ? &out->by_library : &out->own);
    }
    d->close(d, &pool);
    memory_free(at);
    return result == STATUS_OK ? d->failed(d) : result;
}

/* Of the program's first call. */
static device_shape shape_of(const program *p) {
    op_cost c = lower_cost(&p->graph, p->steps);
    bool attends = c.kind == WORK_ATTENTION || c.kind == WORK_ATTENTION_HALF;
    return (device_shape){ .work = !attends     ? DEVICE_PRODUCT
                                   : c.backward ? DEVICE_ATTENTION_BACKWARD
                                                : DEVICE_ATTENTION,
                           .half = c.half,
                           .tensor = c.kind == WORK_PRODUCTS_HALF || c.kind == WORK_ATTENTION_HALF,
                           .tiles = c.tiles,
                           .flops = c.flops };
}

static status measure_one(const device *d, const shape_of_work *w, measure_pair *out) {
    graph g;
    program p = { 0 };
    tensor_id in[INPUTS] = { 0 };
    node_form form;
    *out = (measure_pair){ .by = w->by, .what = w->what };
    for (int i = 0; i < 4; i++) out->sizes[i] = w->sizes[i];
    TRY(graph_open(&g));
    const op_def *op = own_op(w, &g, in, &form);
    tensor_id y = graph_add(&g, op, in, op->in_count, &form);
    if (y) add_library_node(w, &g, in, y, &form);
    status result = graph_status(&g);
    lower_options o = { .device = d, .threads = 1, .rates = d->rates(d, 1) };
    if (result == STATUS_OK)
        result = lower_program(&g, &o, &p);
    else
        graph_close(&g);
    if (result == STATUS_OK) out->shape = shape_of(&p);
    if (result == STATUS_OK) result = run_both(d, &p, out);
    lower_close(&p);
    return result;
}

static double flops_of(const shape_of_work *w) {
    const int64_t *n = w->sizes;
    double all = 2;
    for (int i = 0; i < 4 && n[i]; i++) all *= (double)n[i];
    return w->by == DEVICE_LIBRARY_PRODUCTS ? all : 2 * all * (double)n[1];
}

/* Whether a shape will be done in time is told by the one before, which is smaller, and slower for its size.
 */
status measure_library(const device *d, device_library by, double seconds, measure_pair pairs[MEASURE_PAIRS],
                       int *count) {
    double end = clock_seconds() + seconds, seconds_a_flop = 0;
    *count = 0;
    for (int i = 0; i < SHAPES && *count < MEASURE_PAIRS; i++) {
        double flops = flops_of(&shapes[i]);
        if (shapes[i].by != by) continue;
        if (*count && clock_seconds() + flops * seconds_a_flop > end) break;
        TRY(measure_one(d, &shapes[i], &pairs[*count]));
        measure_pair *x = &pairs[*count];
        *count += x->own > 0;
        seconds_a_flop = (x->own + x->by_library) / flops;
    }
    return STATUS_OK;
}
