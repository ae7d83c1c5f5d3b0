#include "lower/launched.h"

#include "base/memory.h"
#include "device/device_gpu.h"
#include "ops/sweeps.h"

launches launched_on(const device *d) {
    const device_gpu *g = d->gpu;
    if (!g || g->multiprocessors <= 0) return (launches){ 0 };
    return (launches){ .multiprocessors = (unsigned)g->multiprocessors,
                       .shared = device_gpu_shared(g->capability) };
}

static bool is_in(const op_kernel *k, const op_kernel *list) {
    while (list && list->name && list != k) list++;
    return list && list == k;
}

bool launched_here(const graph *g, const lower_step *step, const op_cost *cost) {
    const op_def *op = graph_node(g, step->node)->op;
    if (step->by_host || cost->by_library || op->traits & OP_COLLECTIVE) return false;
    return is_in(step->kernel, op->cuda) || is_in(step->kernel, op->tensor);
}

/* Kernels ask whether data is there, where it is aligned, and whether two operands are one, and look at none
 * of it. So each storage has a place of its own, and its views theirs in it. */
static void *address_of(uintptr_t storage, int64_t offset) {
    return (void *)((storage << 40) + (uintptr_t)offset);
}

static void *place_of(const graph *g, tensor_id t) {
    int64_t offset = 0;
    if (!t) return NULL;
    tensor_id owner = graph_storage(g, t, &offset);
    return address_of(owner, offset);
}

static void place(const graph *g, const node *n, op_arg *args) {
    for (uint32_t i = 0; i < n->in_count; i++) args[i].data = place_of(g, node_in(g, n, i));
    for (uint32_t i = 0; i < n->out_count; i++) args[n->in_count + i].data = place_of(g, node_out(g, n, i));
}

static uint32_t sides_of(const graph *g, const lower_step *step) {
    const node *n = graph_node(g, step->node);
    return (uint32_t)n->in_count + n->out_count;
}

status launched_tell(const graph *g, const lower_step *steps, uint32_t count, const device *d, launches *l) {
    enum { FEW = 32 };
    op_arg few[FEW];
    op_call one;
    size_t sides = 0;
    for (uint32_t s = 0; s < count; s++) sides += sides_of(g, &steps[s]);
    op_arg *all = sides <= FEW ? few : memory_new(sides, sizeof *all), *args = all;
    op_call *calls = count == 1 ? &one : memory_new(count, sizeof *calls);
    bool enough = all && calls;
    for (uint32_t s = 0; enough && s < count; s++) {
        lower_call(g, graph_node(g, steps[s].node), d, args, &calls[s]);
        place(g, graph_node(g, steps[s].node), args);
        args += sides_of(g, &steps[s]);
        calls[s].scratch_bytes = steps[s].scratch_bytes;
        if (steps[s].scratch_bytes) calls[s].scratch = address_of(g->tensors.count, 0);
    }
    if (enough) {
        launches_begin(l);
        if (count > 1)
            op_sweep_of(steps->kernel)(calls, count);
        else
            steps->kernel->run(calls);
        launches_end();
    }
    if (all != few) memory_free(all);
    if (calls != &one) memory_free(calls);
    return enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to count launches");
}

status launched_cost(const graph *g, lower_step *step, const device *d, bool joins, op_cost *cost) {
    launches l = launched_on(d);
    step->starts = d->kind == DEVICE_CUDA && !step->by_host;
    if (d->kind != DEVICE_CUDA || !launched_here(g, step, cost)) return STATUS_OK;
    cost->joined = joins && op_sweep_of(step->kernel);
    if (cost->joined) return STATUS_OK;
    TRY(launched_tell(g, step, 1, d, &l));
    step->starts = l.count < UINT16_MAX ? (uint16_t)l.count : UINT16_MAX;
    cost->starts = step->starts;
    cost->stretch = launches_stretch(&l);
    return STATUS_OK;
}
