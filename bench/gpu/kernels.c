/* Every kernel for GPUs on a device, beside the CPU's: bench-gpu-kernels DEVICE [OP]. Each case of the op
 * harness (tests/ops) is run in f32, bf16 and f16 by the kernel that the device would take, and by the one
 * that the CPU would where bf16 is widened; products of 16 bits also by the kernels for tensor cores,
 * by warps and by groups of warps, whose bits are their own. One line an op says how many cases had the same
 * bits, were within the case's tolerance, or were wrong. Exit 0: none was wrong.
 *
 * Values are put into a pool of the device and got from it, as a run does; what is not an input is NaN
 * before. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/instructions.h"
#include "base/units.h"
#include "device/device.h"
#include "harness_case.h"
#include "ops/reference.h"

enum { SIDES = 32, MOST_OUTPUTS = 16 };

/* One call with its buffers in the host's memory; `on` the same in the device's. */
typedef struct {
    op_arg in[OP_CASE_INPUTS], out[MOST_OUTPUTS];
    op_call call;
} bound;

typedef struct {
    int same, near, wrong;
} outcome;

static const device *gpu;

static void *room(uint64_t bytes) {
    void *data = aligned_alloc(64, units_align(bytes ? bytes : 1, 64));
    if (!data) fputs("no memory\n", stderr), exit(2);
    memset(data, HARNESS_POISON, bytes);
    return data;
}

static bool must_live_in(const op_def *op, uint32_t o, const bound *b, uint32_t *in) {
    for (uint32_t a = 0; a < op->alias_count; a++)
        if (op->aliases[a].out == o && op->aliases[a].must && op->aliases[a].in < b->call.in_count &&
            b->in[op->aliases[a].in].data) {
            *in = op->aliases[a].in;
            return true;
        }
    return false;
}

static void bind(bound *b, const harness_place *p, const harness_case *h) {
    const graph *g = &h->g;
    const node *n = graph_node(g, h->node);
    *b = (bound){
        .call = { .in_count = n->in_count, .out_count = n->out_count, .attributes = node_attributes(g, n) }
    };
    b->call.in = b->in, b->call.out = b->out;
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (!node_in(g, n, i)) continue;
        const tensor *x = graph_tensor(g, node_in(g, n, i));
        b->in[i] = (op_arg){ room(graph_tensor_bytes(g, node_in(g, n, i))), x->shape, (dtype)x->dtype };
        harness_case_fill(p->one, i, &b->in[i]);
    }
    for (uint32_t o = 0; o < n->out_count; o++) {
        const tensor *y = graph_tensor(g, node_out(g, n, o));
        uint32_t in;
        b->out[o] = (op_arg){ NULL, y->shape, (dtype)y->dtype };
        b->out[o].data =
            must_live_in(p->op, o, b, &in) ? b->in[in].data : room(graph_tensor_bytes(g, node_out(g, n, o)));
    }
}

static bool is_input(const bound *b, const void *data) {
    for (uint32_t i = 0; i < b->call.in_count; i++)
        if (b->in[i].data == data) return true;
    return false;
}

static void unbind(bound *b) {
    for (uint32_t o = 0; o < b->call.out_count; o++)
        if (!is_input(b, b->out[o].data)) free(b->out[o].data);
    for (uint32_t i = 0; i < b->call.in_count; i++) free(b->in[i].data);
}

static uint64_t bytes_of(const op_arg *x) {
    return (uint64_t)shape_elements(&x->shape) * dtype_bytes(x->dtype);
}

static const op_kernel *first_of(const op_kernel *k, const op_call *call) {
    while (k && k->name && k->accepts && !k->accepts(call)) k++;
    return k && k->name ? k : NULL;
}

/* ---- the two devices ---- */

static void run_here(const op_kernel *k, bound *b) {
    b->call.scratch_bytes = k->scratch ? k->scratch(&b->call, 1) : 0;
    b->call.scratch = room(b->call.scratch_bytes);
    k->run(&b->call);
    free(b->call.scratch);
}

/* Where the device has what the host has at `data`. */
typedef struct {
    const void *data;
    char *there;
    uint64_t bytes;
} pair;

static char *place(pair *pairs, int *count, const op_arg *x, char **next) {
    for (int i = 0; i < *count; i++)
        if (pairs[i].data == x->data) return pairs[i].there;
    pairs[(*count)++] = (pair){ x->data, *next, bytes_of(x) };
    *next += units_align(bytes_of(x), 256) + 256;
    return pairs[*count - 1].there;
}

/* The call with the device's addresses; what it reads is put there, what it made is got into the host's. */
static bool run_there(const op_kernel *k, bound *b) {
    op_arg in[OP_CASE_INPUTS] = { 0 }, out[MOST_OUTPUTS];
    pair pairs[SIDES];
    int count = 0;
    op_call call = b->call;
    call.in = in, call.out = out, call.capability = gpu->capability;
    memcpy(in, b->in, sizeof in), memcpy(out, b->out, call.out_count * sizeof *out);
    call.scratch_bytes = k->scratch ? k->scratch(&call, 1) : 0;
    uint64_t bytes = call.scratch_bytes + 1024;
    for (uint32_t i = 0; i < call.in_count; i++) bytes += bytes_of(&b->in[i]) + 512;
    for (uint32_t o = 0; o < call.out_count; o++) bytes += bytes_of(&b->out[o]) + 512;
    device_pool pool;
    if (gpu->open(gpu, &pool, bytes) != STATUS_OK) fprintf(stderr, "%s\n", status_message()), exit(2);
    char *next = (char *)pool.data + units_align(call.scratch_bytes, 256);
    call.scratch = pool.data;
    for (uint32_t i = 0; i < call.in_count; i++)
        if (in[i].data) in[i].data = place(pairs, &count, &b->in[i], &next);
    for (uint32_t o = 0; o < call.out_count; o++) out[o].data = place(pairs, &count, &b->out[o], &next);
    for (int i = 0; i < count; i++) gpu->put(gpu, pairs[i].there, pairs[i].data, pairs[i].bytes);
    gpu->begin(gpu);
    if (call.scratch_bytes) gpu->fill(gpu, call.scratch, HARNESS_POISON, call.scratch_bytes);
    k->run(&call);
    gpu->end(gpu);
    for (uint32_t o = 0; o < call.out_count; o++)
        gpu->get(gpu, b->out[o].data, out[o].data, bytes_of(&b->out[o]));
    gpu->close(gpu, &pool);
    bool failed = gpu->failed && gpu->failed(gpu) != STATUS_OK;
    if (failed) fprintf(stderr, "%s: %s\n", k->name, status_message());
    return !failed;
}

/* ---- comparing ---- */

static double allowed(const op_case *one, dtype type, double largest) {
    double tolerance = one->tolerance > 0 ? one->tolerance : 1e-5;
    double rounding = type == DTYPE_BF16 ? 0x1p-7 : type == DTYPE_F16 ? 0x1p-10 : 0;
    if ((type == DTYPE_U8 || type == DTYPE_I8) && one->tolerance > 0) return 1;
    return fmax(tolerance, rounding) * largest;
}

/* The first element that is too far away; -1: none. */
static int64_t first_wrong(const op_case *one, const op_arg *is, const op_arg *should) {
    int64_t n = shape_elements(&is->shape);
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(reference_get(should, i)));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(reference_get(is, i) - reference_get(should, i)) <= allowed(one, is->dtype, largest)))
            return i;
    return -1;
}

static void compare(const harness_place *p, const bound *there, const bound *here, outcome *all) {
    bool same = true, near = true;
    for (uint32_t o = 0; o < here->call.out_count; o++) {
        const op_arg *is = &there->out[o], *should = &here->out[o];
        bool equal = memcmp(is->data, should->data, bytes_of(should)) == 0;
        int64_t at = equal ? -1 : first_wrong(p->one, is, should);
        if (at >= 0)
            fprintf(stderr, "%s, case '%s', output %u of %s, element %lld: %.9g, and %.9g on the CPU\n",
                    p->op->name, p->one->name, o, dtype_name(is->dtype), (long long)at, reference_get(is, at),
                    reference_get(should, at));
        same &= equal, near &= at < 0;
    }
    all->same += same, all->near += !same && near, all->wrong += !near;
}

/* Kernels for tensor cores take a call only where they are asked for by name. */
static const op_kernel *first_tensor(const op_kernel *k, const op_call *call, const char *pin) {
    if (instructions_pin(pin) != STATUS_OK) return NULL;
    const op_kernel *found = first_of(k, call);
    return instructions_pin("widened") == STATUS_OK ? found : NULL;
}

/* Of the list `cuda`, or with a pin of `tensor`. */
static void check(harness_place *p, dtype floats, const char *pin, outcome *all) {
    harness_case h;
    if (!harness_case_try(&h, p, floats)) return;
    bound here, there;
    bind(&here, p, &h), bind(&there, p, &h);
    op_call asked = there.call;
    asked.capability = gpu->capability;
    const op_kernel *ours = pin ? first_tensor(p->op->tensor, &asked, pin) : first_of(p->op->cuda, &asked),
                    *cpus = first_of(p->op->cpu, &here.call);
    if (ours && cpus) {
        run_here(cpus, &here);
        if (run_there(ours, &there))
            compare(p, &there, &here, all);
        else
            all->wrong++;
    }
    unbind(&here), unbind(&there);
    harness_case_close(&h);
}

static void check_op(const op_def *op, const char *pin, outcome *sum) {
    static const dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
    outcome all = { 0 };
    char name[64];
    for (const op_case *one = op->cases; one && one->name; one++)
        for (int t = 0; t < 3; t++) check(&(harness_place){ .op = op, .one = one }, types[t], pin, &all);
    snprintf(name, sizeof name, "%s%s%s", op->name, pin ? ", " : "", pin ? pin : "");
    printf("%-34s %4d the same bits, %4d near, %4d wrong\n", name, all.same, all.near, all.wrong);
    fflush(stdout);
    sum->same += all.same, sum->near += all.near, sum->wrong += all.wrong;
}

int main(int count, char **arguments) {
    if (count < 2 || count > 3) return fputs("usage: bench-gpu-kernels DEVICE [OP]\n", stderr), 2;
    if (device_find(arguments[1], &gpu) != STATUS_OK) return fprintf(stderr, "%s\n", status_message()), 2;
    if (!gpu->apart) return fprintf(stderr, "%s is no GPU\n", gpu->name), 2;
    if (instructions_pin("widened") != STATUS_OK) return fprintf(stderr, "%s\n", status_message()), 2;
    outcome sum = { 0 };
    for (const op_def *const *op = op_table; *op; op++) {
        if (!(*op)->cuda || (count == 3 && strcmp(arguments[2], (*op)->name) != 0)) continue;
        check_op(*op, NULL, &sum);
        const op_kernel *cores = (*op)->tensor;
        if (cores) check_op(*op, INSTRUCTIONS_TENSOR, &sum);
        if (cores && cores[1].name && gpu->capability == 90) check_op(*op, INSTRUCTIONS_GROUPS, &sum);
    }
    printf("%-34s %4d the same bits, %4d near, %4d wrong\n", "all", sum.same, sum.near, sum.wrong);
    return sum.wrong > 0;
}
