#include "schedule/schedule.h"

#include "base/memory.h"

/* Everything by owner of a storage, but for `place`. */
typedef struct {
    const program *p;
    bool *written;   /* it is written over, or there are views that may be */
    uint32_t *first; /* the first step that reads it; p->count: none */
    uint32_t *place; /* by step: the step that it runs right before; its own number: it stays */
} scheduler;

static const node *node_of(const scheduler *k, uint32_t step) {
    return graph_node(&k->p->graph, k->p->steps[step].node);
}

static void look_at_storages(scheduler *k) {
    const graph *g = &k->p->graph;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        k->first[t] = k->p->count;
        if (graph_tensor(g, t)->base && graph_tensor(g, t)->producer)
            k->written[graph_storage(g, t, NULL)] = true;
    }
    for (uint32_t step = k->p->count; step-- > 0;) {
        const node *n = node_of(k, step);
        for (uint32_t i = 0; i < n->in_count; i++)
            if (node_in(g, n, i)) k->first[graph_storage(g, node_in(g, n, i), NULL)] = step;
    }
}

/* Where a step runs: before the first reader of its results, if it may move at all. */
static uint32_t place_of(const scheduler *k, uint32_t step) {
    const graph *g = &k->p->graph;
    const node *n = node_of(k, step);
    uint32_t reader = k->p->count;
    if (k->p->steps[step].scratch_bytes) return step;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(g, n, i), owner = t ? graph_storage(g, t, NULL) : 0;
        if (owner && (!role_persistent(graph_tensor(g, owner)->role) || k->written[owner])) return step;
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
        tensor_id t = node_out(g, n, i);
        if (graph_tensor(g, t)->base) return step;
        if (k->first[t] < reader) reader = k->first[t];
    }
    return reader < k->p->count ? reader : step;
}

/* A counting sort by place that keeps the order of equals: movers come before the step that stays there. */
static void reorder(const scheduler *k, uint32_t *start, lower_step *sorted) {
    uint32_t count = k->p->count;
    for (uint32_t step = 0; step < count; step++) start[k->place[step] + 1]++;
    for (uint32_t step = 0; step < count; step++) start[step + 1] += start[step];
    for (uint32_t step = 0; step < count; step++) sorted[start[k->place[step]]++] = k->p->steps[step];
}

status schedule_program(program *p) {
    uint32_t tensors = p->graph.tensors.count;
    scheduler k = { .p = p,
                    .written = memory_new(tensors, sizeof *k.written),
                    .first = memory_new(tensors, sizeof *k.first),
                    .place = memory_new(p->count, sizeof *k.place) };
    uint32_t *start = memory_new(p->count + 1u, sizeof *start);
    lower_step *sorted = memory_new(p->graph.nodes.count, sizeof *sorted);
    bool enough = k.written && k.first && k.place && start && sorted;
    if (enough) {
        look_at_storages(&k);
        for (uint32_t step = 0; step < p->count; step++) k.place[step] = place_of(&k, step);
        reorder(&k, start, sorted);
        lower_step *unsorted = p->steps;
        p->steps = sorted, sorted = unsorted;
    }
    memory_free(k.written);
    memory_free(k.first);
    memory_free(k.place);
    memory_free(start);
    memory_free(sorted);
    return enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to schedule a program");
}
