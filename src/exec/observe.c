/* Measuring from the outside: which buffers the kernels were handed, when first written, when last read.
 * Knows the graph (what shares storage by definition) and the addresses (what shares storage by the plan's
 * choice), but none of the plan's lifetimes or sizes, so that a wrong one shows up as a difference. */
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "exec/exec_internal.h"

static const uint32_t NEVER = UINT32_MAX;

status observe_open(observation *o, const program *p) {
    uint32_t n = p->graph.tensors.count;
    *o = (observation){ .host = memory_new(n, sizeof(tensor_id)),
                        .first = memory_new(n, sizeof(uint32_t)),
                        .last = memory_new(n, sizeof(uint32_t)),
                        .crosses = memory_new(n, sizeof(bool)) };
    if (!o->host || !o->first || !o->last || !o->crosses)
        return status_set(STATUS_FAILED, "no memory to observe a run");
    memset(o->first, 0xff, n * sizeof *o->first);
    return STATUS_OK;
}

void observe_close(observation *o) {
    memory_free(o->host);
    memory_free(o->first);
    memory_free(o->last);
    memory_free(o->crosses);
    *o = (observation){ 0 };
}

static tensor_id host_of(const observation *o, tensor_id owner) {
    while (o->host[owner]) owner = o->host[owner];
    return owner;
}

static void used(observation *o, tensor_id buffer, uint32_t step) {
    if (o->first[buffer] == NEVER) o->first[buffer] = step;
    o->last[buffer] = step;
}

/* A result at the address of an input, where the graph does not say so: it took over that buffer. */
static void take_over(observation *o, const graph *g, const node *n, uint32_t output, const op_call *call) {
    tensor_id owner = graph_storage(g, node_out(g, n, output), NULL);
    if (role_persistent(graph_tensor(g, owner)->role) || o->host[owner]) return;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(g, n, i);
        if (!t || call->in[i].data != call->out[output].data) continue;
        tensor_id host = host_of(o, graph_storage(g, t, NULL));
        if (host != owner) o->host[owner] = host;
        return;
    }
}

void observe_call(observation *o, const program *p, uint32_t step, const op_call *call) {
    const graph *g = &p->graph;
    const node *n = graph_node(g, p->steps[step].node);
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (!node_in(g, n, i)) continue;
        tensor_id owner = graph_storage(g, node_in(g, n, i), NULL);
        node_id maker = graph_tensor(g, owner)->producer;
        used(o, host_of(o, owner), step);
        if (maker && graph_node(g, maker)->phase == PHASE_FORWARD && n->phase != PHASE_FORWARD)
            o->crosses[owner] = true;
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
        take_over(o, g, n, i, call);
        used(o, host_of(o, graph_storage(g, node_out(g, n, i), NULL)), step);
    }
}

/* The observed uses as a set of storages, to be summed like any other. */
void observe_finish(observation *o, const program *p) {
    const graph *g = &p->graph;
    live_set set = { .storages = memory_new((size_t)g->tensors.count + p->count, sizeof(live_storage)) };
    if (!set.storages) return;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        tensor_id buffer = host_of(o, graph_storage(g, t, NULL));
        if (o->first[buffer] == NEVER) continue;
        if (x->role == ROLE_INPUT && !x->producer) o->first[buffer] = 0; /* the host wrote it before */
        if (x->flags & TENSOR_KEEP) o->last[buffer] = p->count - 1;      /* the host reads it after */
    }
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        if (o->first[t] == NEVER || role_persistent(graph_tensor(g, t)->role)) continue;
        if (graph_tensor(g, t)->pool == POOL_FILE) continue;
        set.storages[set.count++] =
            (live_storage){ .owner = t,
                            .first = o->first[t],
                            .last = o->last[t],
                            .bytes = units_align(graph_tensor_bytes(g, t), LIVE_ALIGN),
                            .category = category_of(g, t, o->crosses[t]) };
    }
    for (uint32_t s = 0; s < p->count; s++) {
        uint64_t bytes = units_align(p->steps[s].scratch_bytes, LIVE_ALIGN);
        if (bytes)
            set.storages[set.count++] =
                (live_storage){ .first = s, .last = s, .bytes = bytes, .category = CATEGORY_SCRATCH };
    }
    o->done = live_find_peak(&set, p->count, &o->peak) == STATUS_OK;
    memory_free(set.storages);
}

/* Persistent tensors that programs were bound to, each once; buffers of the run as well. */
static void add_persistent(const exec *e, exec_measured *m) {
    for (uint32_t i = 0; i < e->plan->persistent_count; i++) {
        const plan_persistent *p = &e->plan->persistent[i];
        if (p->in_file) continue;
        uint64_t bytes =
            p->shape.rank ? (uint64_t)shape_elements(&p->shape) * dtype_bytes(p->dtype) : p->bytes;
        m->by_category[p->category] += units_align(bytes, LIVE_ALIGN);
    }
}

exec_measured exec_measure(const exec *e) {
    exec_measured m = { 0 };
    for (int k = 0; k < PROGRAM_COUNT; k++) {
        const observation *o = &e->programs[k].seen;
        if (!e->programs[k].plan || !o->done || o->peak.bytes <= m.arena_live_bytes) continue;
        m.arena_live_bytes = o->peak.bytes;
        m.program = (program_kind)k;
        m.step = o->peak.step;
        memcpy(m.by_category, o->peak.by_category, sizeof m.by_category);
    }
    add_persistent(e, &m);
    m.by_category[CATEGORY_GAPS] = e->plan->arena_bytes - m.arena_live_bytes;
    return m;
}

/* ---- beside the pool ---- */

status exec_check_reserve(const exec *e, uint64_t *bytes) {
    uint64_t resident = device_resident(), pool = exec_pool_bytes(e), reserve = plan_runtime_bytes(e->plan);
    *bytes = resident > pool ? resident - pool : 0;
    if (*bytes <= reserve) return STATUS_OK;
    return status_set(
        STATUS_NO_FIT,
        "the program itself holds %llu bytes before it begins, more than the %llu bytes reserved for it; use "
        "fewer --threads or a larger --memory",
        (unsigned long long)*bytes, (unsigned long long)reserve);
}
