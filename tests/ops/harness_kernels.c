/* Kernels against the reference.
 *
 * A run binds every input and output to a block of its own, save one alias claim (or all must-aliases at
 * once), fills the inputs, poisons outputs and scratch, runs, and looks at everything: walls, inputs that
 * were not to be touched, outputs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/instructions.h"
#include "base/threads.h"
#include "device/cuda/emulate_order.h"
#include "harness_case.h"
#include "ops/reference.h"
#include "sanitized.h"

enum { MAX_OUTPUTS = 16, ALIAS_NONE = -1, ALIAS_ALL_MUST = -2 };

/* As if an update had run on other pieces of its weight before: its random bits must belong to the element.
 */
enum { PIECE_BEGINS = 12345 };

typedef struct {
    op_arg in[OP_CASE_INPUTS], out[MAX_OUTPUTS];
    op_call call;
    int alias[MAX_OUTPUTS]; /* input whose memory the output has, or -1 */
} bound;

static bool claims(const op_alias *alias, int index, int chosen, const bound *b) {
    if (alias->out >= b->call.out_count || alias->in >= b->call.in_count || !b->in[alias->in].data)
        return false;
    if (!alias->must && b->in[alias->in].dtype != b->out[alias->out].dtype) return false; /* another size */
    return chosen == ALIAS_ALL_MUST ? alias->must : index == chosen;
}

enum { LATEST = 90 /* the capability that kernels are asked with */, TENSOR_MEMORY = 100 /* and then */ };

/* `filled`: a binding of the same case whose inputs are as they were filled; NULL: they are to be filled. */
static bool bind(bound *b, const harness_place *p, const harness_case *h, int chosen, uint32_t shift,
                 const bound *filled) {
    const graph *g = &h->g;
    const node *n = graph_node(g, h->node);
    *b = (bound){ .call = { .in = b->in,
                            .out = b->out,
                            .in_count = n->in_count,
                            .out_count = n->out_count,
                            .capability = LATEST,
                            .attributes = node_attributes(g, n),
                            .first = PIECE_BEGINS } };
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (!node_in(g, n, i)) continue;
        const tensor *x = graph_tensor(g, node_in(g, n, i));
        void *block =
            harness_block_new(graph_tensor_bytes(g, node_in(g, n, i)), shift * dtype_bytes(x->dtype));
        if (!block) return false;
        b->in[i] = (op_arg){ .data = block, .shape = x->shape, .dtype = (dtype)x->dtype };
        if (filled)
            memcpy(block, filled->in[i].data, harness_block_bytes(block));
        else
            harness_case_fill(p->one, i, &b->in[i]);
    }
    for (uint32_t o = 0; o < n->out_count; o++) {
        const tensor *y = graph_tensor(g, node_out(g, n, o));
        b->out[o] = (op_arg){ .shape = y->shape, .dtype = (dtype)y->dtype };
        b->alias[o] = -1;
        for (int a = 0; a < p->op->alias_count; a++)
            if (p->op->aliases[a].out == o && claims(&p->op->aliases[a], a, chosen, b))
                b->alias[o] = p->op->aliases[a].in;
        b->out[o].data = b->alias[o] >= 0 ? b->in[b->alias[o]].data
                                          : harness_block_new(graph_tensor_bytes(g, node_out(g, n, o)),
                                                              shift * dtype_bytes(y->dtype));
        if (!b->out[o].data) return false;
    }
    return true;
}

static void unbind(bound *b) {
    for (uint32_t o = 0; o < b->call.out_count; o++)
        if (b->alias[o] < 0) harness_block_free(b->out[o].data);
    for (uint32_t i = 0; i < b->call.in_count; i++) harness_block_free(b->in[i].data);
}

static bool is_aliased(const bound *b, uint32_t in) {
    for (uint32_t o = 0; o < b->call.out_count; o++)
        if (b->alias[o] == (int)in) return true;
    return false;
}

/* Whether input i is what it was filled with. */
static bool is_unchanged(const harness_place *p, const bound *b, uint32_t i, const bound *filled) {
    uint64_t bytes = harness_block_bytes(b->in[i].data);
    if (filled) return memcmp(filled->in[i].data, b->in[i].data, bytes) == 0;
    op_arg fresh = b->in[i];
    fresh.data = harness_block_new(bytes, 0);
    if (!fresh.data) return false;
    harness_case_fill(p->one, i, &fresh);
    bool same = memcmp(fresh.data, b->in[i].data, bytes) == 0;
    harness_block_free(fresh.data);
    return same;
}

/* After a run: nothing but the outputs may have changed. */
static void check_surroundings(harness_place *p, const bound *b, const bound *filled) {
    for (uint32_t o = 0; o < b->call.out_count; o++)
        if (!harness_block_intact(b->out[o].data)) harness_fail(p, "wrote beyond output %u", o);
    for (uint32_t i = 0; i < b->call.in_count; i++) {
        if (!b->in[i].data || is_aliased(b, i)) continue;
        if (!harness_block_intact(b->in[i].data)) harness_fail(p, "wrote beyond input %u", i);
        if (!is_unchanged(p, b, i, filled))
            harness_fail(p, "changed input %u ('%s')", i,
                         p->op->inputs[i < p->op->in_count ? i : p->op->in_count - 1u].name);
    }
}

static void check_bits(harness_place *p, const bound *b, const bound *expected) {
    for (uint32_t o = 0; o < b->call.out_count; o++) {
        uint64_t item = dtype_bytes(b->out[o].dtype);
        for (int64_t i = 0, n = shape_elements(&b->out[o].shape); i < n; i++)
            if (memcmp((char *)b->out[o].data + (uint64_t)i * item,
                       (char *)expected->out[o].data + (uint64_t)i * item, item) != 0) {
                harness_fail(p, "output %u, element %lld is %.9g, not bit for bit %.9g", o, (long long)i,
                             reference_get(&b->out[o], i), reference_get(&expected->out[o], i));
                break;
            }
    }
}

/* By how much results may differ. Of 16 bits at least two units in the last place: one for the kernel's, one
 * for its reference's; of bytes, where a tolerance is stated, a step, as both round to them. */
static double allowance(const op_case *one, dtype type, double largest) {
    double tolerance = one->tolerance > 0 ? one->tolerance : 1e-5;
    double rounding = type == DTYPE_BF16 ? 0x1p-7 : type == DTYPE_F16 ? 0x1p-10 : 0;
    bool byte = type == DTYPE_U8 || type == DTYPE_I8;
    return byte && one->tolerance > 0 ? 1 : fmax(tolerance, rounding) * largest;
}

static void check_values(harness_place *p, const bound *b, const bound *expected) {
    for (uint32_t o = 0; o < b->call.out_count; o++) {
        double largest = 0;
        int64_t n = shape_elements(&b->out[o].shape);
        for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(reference_get(&expected->out[o], i)));
        double allowed = allowance(p->one, b->out[o].dtype, largest);
        for (int64_t i = 0; i < n; i++) {
            double is = reference_get(&b->out[o], i), should = reference_get(&expected->out[o], i);
            if (fabs(is - should) <= allowed) continue; /* not so for NaN */
            harness_fail(p, "output %u, element %lld of %lld is %.9g, should be %.9g (give or take %.2g)", o,
                         (long long)i, (long long)n, is, should, allowed);
            break;
        }
    }
}

static void run_bound(harness_place *p, const op_kernel *k, bound *b, const bound *filled) {
    if (!harness_run_kernel(k, &b->call)) harness_fail(p, "overran its scratch");
    check_surroundings(p, b, filled);
}

/* The kernel once more, bound in another way, `shift` elements further; the bits must be those of `expected`.
 */
static void check_again(harness_place *p, const harness_case *h, const op_kernel *k, const bound *expected,
                        int alias, uint32_t shift) {
    bound b;
    if (!bind(&b, p, h, alias, shift, expected)) {
        harness_fail(p, "no memory");
        return;
    }
    run_bound(p, k, &b, expected);
    check_bits(p, &b, expected);
    unbind(&b);
}

static void check_aliases(harness_place *p, const harness_case *h, const op_kernel *k,
                          const bound *expected) {
    const char *name = p->kernel;
    char what[128];
    for (int a = 0; a < p->op->alias_count; a++) {
        if (!claims(&p->op->aliases[a], a, a, expected)) continue;
        snprintf(what, sizeof what, "%s with output %u in input %u", name, p->op->aliases[a].out,
                 p->op->aliases[a].in);
        p->kernel = what;
        check_again(p, h, k, expected, a, 0);
    }
    snprintf(what, sizeof what, "%s with all must-aliases", name);
    p->kernel = what;
    if (p->op->alias_count) check_again(p, h, k, expected, ALIAS_ALL_MUST, 0);
    p->kernel = name;
}

/* The reference has no threads, so one of their numbers will do. */
static void check_kernel(harness_place *p, const harness_case *h, const op_kernel *k, const bound *expected) {
    char what[128];
    int most = k == harness_reference(p->op) ? 1 : 3;
    p->kernel = k->name;
    threads_set(1);
    bound b;
    if (!bind(&b, p, h, ALIAS_NONE, 0, expected)) {
        harness_fail(p, "no memory");
        return;
    }
    run_bound(p, k, &b, expected);
    check_values(p, &b, expected);
    for (int threads = 1; threads <= most; threads++) {
        snprintf(what, sizeof what, "%s again, %d thread%s", k->name, threads, threads > 1 ? "s" : "");
        p->kernel = what;
        threads_set(threads);
        check_again(p, h, k, &b, ALIAS_NONE, 0);
        check_again(p, h, k, &b, ALIAS_NONE, 1);
    }
    threads_set(2);
    p->kernel = k->name;
    check_aliases(p, h, k, &b);
    unbind(&b);
    threads_set(1);
}

/* ---- kernels for GPUs, emulated ---- */

/* The CPU widens bf16 here; kernels for tensor cores are looked at none the less. */
static bool accepts(const op_kernel *k, const op_call *call) {
    op_call other = *call;
    if (!k->accepts) return true;
    if (instructions_pin(INSTRUCTIONS_GROUPS) != STATUS_OK) return false;
    other.capability = TENSOR_MEMORY;
    bool taken = k->accepts(call) || k->accepts(&other);
    return instructions_pin("widened") == STATUS_OK && taken;
}

#ifdef SNUG_CUDA_EMULATED

/* The kernel that the CPU would run; NULL: only its reference takes the call, though the op has others. Where
 * the reference is all there is, in double, a kernel's bits are still those: it rounds once, or as often. */
static const op_kernel *fast_of(const op_def *op, const op_call *empty) {
    const op_kernel *k = op->cpu;
    while (k->name && k->accepts && !k->accepts(empty)) k++;
    return k == harness_reference(op) && k != op->cpu ? NULL : k;
}

/* Like any other kernel; in every order of threads; and with the bits of the CPU's fast kernel, or where bits
 * are its own (`fast` NULL), in every order those. */
static void check_twin(harness_place *p, const harness_case *h, const op_kernel *k, const op_kernel *fast,
                       const bound *expected) {
    static const char *const orders[EMULATE_ORDERS] = { "forward", "reversed", "shuffled" };
    check_kernel(p, h, k, expected);
    bound b;
    if (!bind(&b, p, h, ALIAS_NONE, 0, expected)) {
        harness_fail(p, "no memory");
        return;
    }
    run_bound(p, fast ? fast : k, &b, expected);
    for (int order = EMULATE_FORWARD; order < EMULATE_ORDERS; order++) {
        char what[128];
        snprintf(what, sizeof what, "%s, threads %s, beside %s", k->name, orders[order],
                 fast ? fast->name : "itself");
        p->kernel = what;
        emulate_order_set((emulate_order)order);
        check_again(p, h, k, &b, ALIAS_NONE, 0);
    }
    emulate_order_set(EMULATE_FORWARD);
    unbind(&b);
}

static void check_twins(harness_place *p, const harness_case *h, const op_call *empty,
                        const bound *expected) {
    if (SANITIZED) harness_run_kernels(p, h); /* the plain build compares them */
    for (const op_kernel *k = p->op->cuda; !SANITIZED && k && k->name; k++)
        if (accepts(k, empty)) check_twin(p, h, k, fast_of(p->op, empty), expected);
    for (const op_kernel *k = p->op->tensor; !SANITIZED && k && k->name; k++)
        if (accepts(k, empty)) check_twin(p, h, k, NULL, expected);
}

#else

static void check_twins(harness_place *p, const harness_case *h, const op_call *empty,
                        const bound *expected) {
    (void)p, (void)h, (void)empty, (void)expected;
}

#endif

/* The case as kernels are asked before anything is bound. */
static bound empty_of(const bound *b) {
    bound empty = *b;
    for (uint32_t i = 0; i < empty.call.in_count; i++) empty.in[i].data = NULL;
    for (uint32_t o = 0; o < empty.call.out_count; o++) empty.out[o].data = NULL;
    return empty;
}

static void run_each(harness_place *p, const harness_case *h, const op_kernel *k, const op_call *empty,
                     const bound *filled) {
    for (; k && k->name; k++) {
        if (!accepts(k, empty)) continue;
        bound b;
        p->kernel = k->name;
        if (!bind(&b, p, h, ALIAS_NONE, 0, filled)) {
            harness_fail(p, "no memory");
            break;
        }
        run_bound(p, k, &b, filled);
        check_aliases(p, h, k, &b);
        unbind(&b);
    }
}

void harness_run_kernels(harness_place *p, const harness_case *h) {
    bound filled;
    p->kernel = "filling";
    if (!bind(&filled, p, h, ALIAS_NONE, 0, NULL)) {
        harness_fail(p, "no memory");
        return;
    }
    bound empty = empty_of(&filled);
    empty.call.in = empty.in, empty.call.out = empty.out;
    run_each(p, h, p->op->tensor, &empty.call, &filled);
    run_each(p, h, p->op->cuda, &empty.call, &filled);
    unbind(&filled);
}

void harness_check_kernels(harness_place *p, const harness_case *h) {
    const op_kernel *reference = harness_reference(p->op);
    bound expected;
    p->kernel = "reference";
    if (!bind(&expected, p, h, ALIAS_NONE, 0, NULL)) {
        harness_fail(p, "no memory");
        return;
    }
    bound empty = empty_of(&expected);
    empty.call.in = empty.in, empty.call.out = empty.out;
    if (reference->accepts && !reference->accepts(&empty.call)) harness_fail(p, "the reference declines");
    run_bound(p, reference, &expected, NULL);
    for (const op_kernel *k = p->op->cpu; k->name; k++)
        if (!k->accepts || k->accepts(&empty.call)) check_kernel(p, h, k, &expected);
    if (!p->here_only) check_twins(p, h, &empty.call, &expected);
    unbind(&expected);
}
