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

enum { SAMPLES = 40, MAX_TENSORS = 4096 };

typedef struct {
    harness_place *p;
    harness_case h;
    node_id forward; /* nodes below belong to the forward graph */
    tensor_id out, seed;
    tensor_id before[OP_CASE_INPUTS];   /* gathered gradients to begin with, 0: none */
    tensor_id gradient[OP_CASE_INPUTS]; /* results */
    harness_memory memory;
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
static void fill_sources(const check *k) {
    for (uint32_t i = 0; i < k->h.in_count; i++) {
        op_arg x = harness_memory_arg(&k->memory, k->h.source[i]);
        if (x.data) harness_case_fill(k->p->one, i, &x);
        op_arg before = harness_memory_arg(&k->memory, k->before[i]);
        if (before.data) harness_fill(&before, -1, 1, 0xbef0 + i);
    }
    op_arg seed = harness_memory_arg(&k->memory, k->seed);
    harness_fill(&seed, -1, 1, 0x5eed);
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

static void check_input(const check *k, uint32_t i, const double *gradient, int64_t n) {
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

/* What came out for input i, less what was there before; NULL without memory. */
static double *result_of(const check *k, uint32_t i) {
    op_arg d = harness_memory_arg(&k->memory, k->gradient[i]);
    int64_t n = shape_elements(&d.shape);
    double *gradient = memory_new((size_t)n, sizeof *gradient);
    if (!gradient) return NULL;
    for (int64_t e = 0; e < n; e++) gradient[e] = reference_get(&d, e);
    op_arg before = harness_memory_arg(&k->memory, k->before[i]);
    if (!before.data) return gradient;
    harness_fill(&before, -1, 1, 0xbef0 + i); /* the gradient may have been gathered in it */
    for (int64_t e = 0; e < n; e++) gradient[e] -= reference_get(&before, e);
    return gradient;
}

static void check_results(check *k) {
    double *gradient[OP_CASE_INPUTS] = { 0 };
    fill_sources(k);
    if (!harness_memory_run(&k->memory, 1, k->h.g.nodes.count)) harness_fail(k->p, "wrote beyond a buffer");
    for (uint32_t i = 0; i < k->h.in_count; i++) {
        if (!wants(k, i)) continue;
        if (!k->gradient[i])
            harness_fail(k->p, "no gradient for input %u", i);
        else if (!shape_equal(graph_shape(&k->h.g, k->gradient[i]), graph_shape(&k->h.g, k->h.source[i])))
            harness_fail(k->p, "the gradient of input %u has another shape", i);
        else
            gradient[i] = result_of(k, i);
    }
    /* all results are taken before the inputs are moved */
    for (uint32_t i = 0; i < k->h.in_count; i++) {
        if (gradient[i]) check_input(k, i, gradient[i], shape_elements(graph_shape(&k->h.g, k->h.source[i])));
        memory_free(gradient[i]);
    }
}

static void check_one(harness_place *p, bool gathered) {
    check k = { .p = p };
    p->kernel = gathered ? "gradient, added to another" : "gradient";
    if (!harness_case_open(&k.h, p, DTYPE_F64)) return;
    if (differentiate(&k, gathered)) {
        if (harness_memory_open(&k.memory, &k.h.g))
            check_results(&k);
        else
            harness_fail(p, "no memory");
        harness_memory_close(&k.memory);
    }
    harness_case_close(&k.h);
}

void harness_check_gradient(harness_place *p) {
    check_one(p, false);
    check_one(p, true);
}
