/* Gradients against central differences, in double, with reference kernels.
 *
 * The number that is differentiated is sum(seed * output 0) with a random seed. Other outputs (means,
 * log-sum-exps) are what the gradient needs, not what gradients flow back from. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "base/memory.h"
#include "harness_case.h"
#include "ir/verify.h"
#include "ops/reference.h"
#include "sanitized.h"

enum { SAMPLES = SANITIZED ? 4 : 40 };

typedef struct {
    harness_place *p;
    harness_case h;
    node_id forward; /* nodes below belong to the forward graph */
    tensor_id out, seed;
    tensor_id before[OP_CASE_INPUTS];   /* gathered gradients to begin with, 0: none */
    tensor_id gradient[OP_CASE_INPUTS]; /* results */
    harness_memory memory;
    void *fresh[OP_CASE_INPUTS];    /* what the inputs hold before a run */
    double *result[OP_CASE_INPUTS]; /* gradients with nothing gathered before */
} check;

static bool wants(const check *k, uint32_t i) {
    tensor_id t = k->h.source[i];
    return t && dtype_is_float((dtype)graph_tensor(&k->h.g, t)->dtype) && !(k->p->op->constants >> i & 1u);
}

static tensor_id like(graph *g, tensor_id t, const char *name) {
    return graph_add_source(g, &(graph_source){ .name = name,
                                                .shape = *graph_shape(g, t),
                                                .dtype = (dtype)graph_tensor(g, t)->dtype,
                                                .role = ROLE_INPUT });
}

static bool differentiate(check *k, bool gathered) {
    graph *g = &k->h.g;
    autodiff_seed seeds[OP_CASE_INPUTS + 1];
    uint32_t count = 0;
    k->forward = g->nodes.count;
    k->out = node_out(g, graph_node(g, k->h.node), 0);
    k->seed = like(g, k->out, "seed");
    seeds[count++] = (autodiff_seed){ k->out, k->seed };
    for (uint32_t i = 0; i < k->h.in_count; i++) {
        if (!wants(k, i) || !gathered) continue;
        char name[24];
        snprintf(name, sizeof name, "before%u", i);
        k->before[i] = like(g, k->h.source[i], name);
        seeds[count++] = (autodiff_seed){ k->h.source[i], k->before[i] };
    }
    tensor_id *gradient = memory_new(g->tensors.count, sizeof *gradient);
    status result = gradient ? autodiff_run(g, seeds, count, NULL, gradient) : STATUS_FAILED;
    if (result == STATUS_OK) result = verify_graph(g);
    if (result != STATUS_OK) harness_fail(k->p, "%s", status_message());
    for (uint32_t i = 0; i < k->h.in_count && result == STATUS_OK; i++)
        if (wants(k, i)) k->gradient[i] = gradient[k->h.source[i]];
    memory_free(gradient);
    return result == STATUS_OK;
}

/* Sources may be written over (must-aliases), so they are filled before every run. */
static bool keep_sources(check *k) {
    for (uint32_t i = 0; i < k->h.in_count; i++) {
        op_arg x = harness_memory_arg(&k->memory, k->h.source[i]);
        if (!x.data) continue;
        k->fresh[i] = memory_new(harness_block_bytes(x.data), 1);
        if (!k->fresh[i]) return false;
        harness_case_fill(k->p->one, i, &x);
        memcpy(k->fresh[i], x.data, harness_block_bytes(x.data));
    }
    op_arg seed = harness_memory_arg(&k->memory, k->seed);
    harness_fill(&seed, -1, 1, 0x5eed);
    return true;
}

static void fill_sources(const check *k) {
    for (uint32_t i = 0; i < k->h.in_count; i++) {
        op_arg x = harness_memory_arg(&k->memory, k->h.source[i]);
        if (x.data) memcpy(x.data, k->fresh[i], harness_block_bytes(x.data));
        op_arg before = harness_memory_arg(&k->memory, k->before[i]);
        if (before.data) harness_fill(&before, -1, 1, 0xbef0 + i);
    }
}

/* sum(seed * output 0) with element e of input i moved by `step`. */
static double value_at(const check *k, uint32_t i, int64_t e, double step) {
    fill_sources(k);
    op_arg x = harness_memory_arg(&k->memory, k->h.source[i]);
    ((double *)x.data)[e] += step;
    harness_memory_run(&k->memory, 1, k->forward);
    op_arg y = harness_memory_arg(&k->memory, k->out), seed = harness_memory_arg(&k->memory, k->seed);
    double sum = 0;
    for (int64_t j = 0, n = shape_elements(&y.shape); j < n; j++)
        sum += reference_get(&y, j) * reference_get(&seed, j);
    return sum;
}

/* Central differences of two steps, combined so that the error is of fourth order. */
static double slope_at(const check *k, uint32_t i, int64_t e) {
    op_arg x = harness_memory_arg(&k->memory, k->h.source[i]);
    double h = 1e-4 * fmax(1, fabs(reference_get(&x, e)));
    double near = (value_at(k, i, e, h) - value_at(k, i, e, -h)) / (2 * h);
    double far = (value_at(k, i, e, 2 * h) - value_at(k, i, e, -2 * h)) / (4 * h);
    return (4 * near - far) / 3;
}

static void check_slopes(const check *k, uint32_t i, const double *gradient) {
    int64_t n = shape_elements(graph_shape(&k->h.g, k->h.source[i]));
    double largest = 1e-3;
    for (int64_t e = 0; e < n; e++) largest = fmax(largest, fabs(gradient[e]));
    int64_t step = n > SAMPLES ? n / SAMPLES : 1;
    for (int64_t e = 0; e < n; e += step) {
        double slope = slope_at(k, i, e);
        if (fabs(slope - gradient[e]) <= 1e-6 * largest) continue;
        harness_fail(k->p, "gradient of input %u, element %lld of %lld is %.12g, should be %.12g", i,
                     (long long)e, (long long)n, gradient[e], slope);
        return;
    }
}

/* `after` should be `gradient` plus what was gathered before. */
static void check_sum(const check *k, uint32_t i, const double *after, const double *gradient) {
    op_arg before = harness_memory_arg(&k->memory, k->before[i]);
    harness_fill(&before, -1, 1, 0xbef0 + i); /* the gradient may have been gathered in it */
    for (int64_t e = 0, n = shape_elements(&before.shape); e < n; e++) {
        double should = gradient[e] + reference_get(&before, e);
        if (fabs(after[e] - should) <= 1e-10 * fmax(1, fabs(should))) continue;
        harness_fail(k->p, "gradient of input %u, element %lld of %lld is %.12g, should be %.12g", i,
                     (long long)e, (long long)n, after[e], should);
        return;
    }
}

/* The gradient of input i as it came out, NULL when it did not. */
static double *result_of(const check *k, uint32_t i) {
    if (!k->gradient[i]) {
        harness_fail(k->p, "no gradient for input %u", i);
        return NULL;
    }
    op_arg d = harness_memory_arg(&k->memory, k->gradient[i]);
    if (!shape_equal(&d.shape, graph_shape(&k->h.g, k->h.source[i]))) {
        harness_fail(k->p, "the gradient of input %u has another shape", i);
        return NULL;
    }
    int64_t n = shape_elements(&d.shape);
    double *result = memory_new((size_t)n, sizeof *result);
    for (int64_t e = 0; result && e < n; e++) result[e] = reference_get(&d, e);
    return result;
}

/* Runs everything and keeps the gradients, before any input is moved. */
static bool run_all(check *k) {
    if (!keep_sources(k)) return false;
    fill_sources(k);
    if (!harness_memory_run(&k->memory, 1, k->h.g.nodes.count)) harness_fail(k->p, "wrote beyond a buffer");
    for (uint32_t i = 0; i < k->h.in_count; i++)
        if (wants(k, i)) k->result[i] = result_of(k, i);
    return true;
}

/* `plain`: the check without gathered gradients; NULL when this is the one. */
static void open_and_check(check *k, const check *plain) {
    k->p->kernel = plain ? "gradient, added to another" : "gradient";
    if (!harness_case_open(&k->h, k->p, DTYPE_F64)) return;
    if (!differentiate(k, plain != NULL)) return;
    if (!harness_memory_open(&k->memory, &k->h.g) || !run_all(k)) {
        harness_fail(k->p, "no memory");
        return;
    }
    for (uint32_t i = 0; i < k->h.in_count; i++) {
        if (!k->result[i]) continue;
        if (!plain) check_slopes(k, i, k->result[i]);
        if (plain && plain->result[i]) check_sum(k, i, k->result[i], plain->result[i]);
    }
}

static void close_check(check *k) {
    for (uint32_t i = 0; i < OP_CASE_INPUTS; i++) {
        memory_free(k->fresh[i]);
        memory_free(k->result[i]);
    }
    harness_memory_close(&k->memory);
    harness_case_close(&k->h);
}

void harness_check_gradient(harness_place *p) {
    check plain = { .p = p }, gathered = { .p = p };
    open_and_check(&plain, NULL);
    open_and_check(&gathered, &plain);
    close_check(&gathered);
    close_check(&plain);
}
