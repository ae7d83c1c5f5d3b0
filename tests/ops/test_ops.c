/* The harness that every op goes through by being in the table: each of its cases is built, shape-checked and
 * costed, each kernel is compared with the reference, each gradient with finite differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/instructions.h"
#include "base/memory.h"
#include "harness_case.h"
#include "ir/verify.h"
#include "ops/matmul/matmul_kernel.h"

static void check_shapes(harness_place *p, const harness_case *h) {
    p->kernel = "shapes";
    const graph *g = &h->g;
    const node *n = graph_node(g, h->node);
    if (n->out_count == 0) harness_fail(p, "has no outputs");
    for (uint32_t o = 0; o < n->out_count; o++) {
        const tensor *y = graph_tensor(g, node_out(g, n, o));
        if (!y->dtype) harness_fail(p, "output %u has no dtype", o);
    }
    for (uint32_t a = 0; a < p->op->alias_count; a++) {
        const op_alias *alias = &p->op->aliases[a];
        tensor_id from = node_in(g, n, alias->in);
        if (!from || alias->out >= n->out_count) continue;
        const tensor *x = graph_tensor(g, from), *y = graph_tensor(g, node_out(g, n, alias->out));
        if ((x->dtype != y->dtype && alias->must) || !shape_equal(&x->shape, &y->shape))
            harness_fail(p, "output %u cannot live in input %u", alias->out, alias->in);
    }
    if (p->op->traits & OP_VIEW) {
        tensor_id from = node_in(g, n, 0), to = node_out(g, n, 0);
        const tensor *y = graph_tensor(g, to);
        if (y->base != from) harness_fail(p, "is a view, but not of its input");
        if (y->offset < 0 || (uint64_t)y->offset + graph_tensor_bytes(g, to) > graph_tensor_bytes(g, from))
            harness_fail(p, "the view reaches beyond its input");
    }
    if (verify_graph(g) != STATUS_OK) harness_fail(p, "%s", status_message());
}

static bool must_live_in_input(const graph *g, const node *n, uint32_t o) {
    for (uint32_t a = 0; a < n->op->alias_count; a++)
        if (n->op->aliases[a].out == o && n->op->aliases[a].must && node_in(g, n, n->op->aliases[a].in))
            return true;
    return false;
}

static void check_cost(harness_place *p, const harness_case *h) {
    p->kernel = "cost";
    const graph *g = &h->g;
    const node *n = graph_node(g, h->node);
    if (!p->op->cost) {
        harness_fail(p, "has no cost");
        return;
    }
    op_cost cost = p->op->cost(g, n);
    double parts[] = { cost.flops, cost.bytes_read, cost.bytes_written, cost.sent };
    for (int i = 0; i < 4; i++)
        if (!isfinite(parts[i]) || parts[i] < 0) harness_fail(p, "part %d is %g", i, parts[i]);
    if (p->op->traits & (OP_VIEW | OP_GATHER | OP_COLLECTIVE)) return; /* others write, beside computing */
    double outputs = 0; /* what lives in an input may be written in part only */
    for (uint32_t o = 0; o < n->out_count; o++)
        if (!must_live_in_input(g, n, o)) outputs += (double)graph_tensor_bytes(g, node_out(g, n, o));
    bool begins = p->op->traits & OP_COLLECTIVE && outputs > 0; /* what comes is written by who sends it */
    if (begins != (cost.sent > 0)) harness_fail(p, "sends %g bytes to each rank", cost.sent);
    if (!begins && cost.bytes_written < outputs)
        harness_fail(p, "writes %g bytes, its outputs have %g", cost.bytes_written, outputs);
}

/* Products of bf16 by each of the instructions that multiply it as it is, and by their twins. */
static void check_pairs(harness_place *p, const harness_case *h) {
    static const struct {
        const matmul_kernel *kernel;
        instruction_set needs;
    } ways[] = {
        { &matmul_kernel_avx512_bf16_twin, INSTRUCTIONS_PLAIN },
        { &matmul_kernel_amx_twin, INSTRUCTIONS_PLAIN },
#if defined(__x86_64__)
        { &matmul_kernel_avx512_bf16, INSTRUCTIONS_AVX512_BF16 },
        { &matmul_kernel_amx, INSTRUCTIONS_AMX }
#endif
    };
    p->here_only = true;
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        if (!instructions_present(ways[k].needs)) continue;
        matmul_kernel_choose(ways[k].kernel);
        harness_check_kernels(p, h);
    }
    matmul_kernel_choose(NULL);
    p->here_only = false;
}

/* The case once more with its f32 in 16 bits, where the op takes them so. */
static void check_half(harness_place *p, dtype half) {
    harness_case h;
    p->kernel = dtype_name(half);
    if (!harness_case_try(&h, p, half)) return;
    check_cost(p, &h);
    harness_check_kernels(p, &h);
    if (half == DTYPE_BF16 && (p->op->pairs || p->op->traits & OP_PAIRS)) check_pairs(p, &h);
    harness_case_close(&h);
}

static bool has_floats(const op_case *one) {
    for (uint32_t i = 0; i < OP_CASE_INPUTS; i++)
        if (one->in[i].dtype == DTYPE_F32) return true;
    return false;
}

static void check_case(harness_place *p) {
    harness_case h;
    p->kernel = "building";
    if (!harness_case_open(&h, p, DTYPE_F32)) return;
    check_shapes(p, &h);
    check_cost(p, &h);
    if (harness_reference(p->op))
        harness_check_kernels(p, &h);
    else if (!(p->op->traits & (OP_VIEW | OP_GATHER)))
        harness_fail(p, "has no kernel");
    harness_case_close(&h);
    if (has_floats(p->one) && harness_reference(p->op)) check_half(p, DTYPE_BF16), check_half(p, DTYPE_F16);
    if (p->op->grad && !p->one->no_gradient) harness_check_gradient(p);
}

static void op_holds(void **state) {
    const op_def *op = *state;
    int failures = 0, cases = 0;
    for (const op_case *one = op->cases; one && one->name; one++, cases++) {
        harness_place p = { .op = op, .one = one };
        check_case(&p);
        failures += p.failures;
    }
    if (!cases) print_error("%s has no cases\n", op->name);
#ifdef SNUG_CUDA
    if (op->cpu) assert_non_null(op->cuda); /* whoever adds an op adds its kernels */
#endif
    assert_true(cases > 0);
    assert_int_equal(failures, 0);
}

/* One test per op; with an argument, of the op of that name only. */
int main(int argc, char **argv) {
    size_t count = 0, chosen = 0;
    while (op_table[count]) count++;
    struct CMUnitTest *tests = memory_new(count, sizeof *tests);
    if (!tests) return 1;
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (instructions_pin("widened") != STATUS_OK) return 1; /* kernels for GPUs have the bits of these */
    for (; chosen < count; chosen++)
        tests[chosen] = (struct CMUnitTest){ .name = op_table[chosen]->name,
                                             .test_func = op_holds,
                                             .initial_state = (void *)(uintptr_t)op_table[chosen] };
    int failed = _cmocka_run_group_tests("ops", tests, count, NULL, NULL);
    memory_free(tests);
    return failed;
}
