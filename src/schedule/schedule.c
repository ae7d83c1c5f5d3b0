#include "schedule/schedule.h"

#include "base/memory.h"

/* A step may sink when it reads only persistent values that nobody writes in this program, or nothing at all:
 * then running it later can only shorten its result's life. */
static bool may_sink(const graph *g, const node *n, const bool *written) {
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(g, n, i);
        if (!t) continue;
        tensor_id owner = graph_storage(g, t, NULL);
        if (!role_persistent(graph_tensor(g, owner)->role) || written[owner]) return false;
    }
    for (uint32_t i = 0; i < n->out_count; i++)
        if (graph_tensor(g, node_out(g, n, i))->base) return false;
    return true;
}

/* Where each result is first read, by tensor: the index of the reading step; views count as their reader. */
static void first_readers(const program *p, uint32_t *first) {
    const graph *g = &p->graph;
    for (tensor_id t = 0; t < g->tensors.count; t++) first[t] = p->count;
    for (uint32_t s = p->count; s-- > 0;) {
        const node *n = graph_node(g, p->steps[s].node);
        for (uint32_t i = 0; i < n->in_count; i++)
            if (node_in(g, n, i)) first[graph_storage(g, node_in(g, n, i), NULL)] = s;
    }
}

status schedule_program(program *p) {
    const graph *g = &p->graph;
    uint32_t *first = memory_new(g->tensors.count, sizeof *first);
    bool *written = memory_new(g->tensors.count, sizeof *written);
    lower_step *order = memory_new(p->count, sizeof *order);
    /* heads[s]: the sunk steps that run right before step s, as a list through `next` */
    uint32_t *heads = memory_new(p->count + 1u, sizeof *heads), *next = memory_new(p->count + 1u, sizeof *next);
    status result = STATUS_OK;
    if (!first || !written || !order || !heads || !next) {
        result = status_set(STATUS_FAILED, "no memory to schedule a program");
        goto done;
    }
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (graph_tensor(g, t)->producer && graph_tensor(g, t)->base) written[graph_storage(g, t, NULL)] = true;
    first_readers(p, first);
    for (uint32_t s = 0; s < p->count; s++) {
        const node *n = graph_node(g, p->steps[s].node);
        uint32_t reader = p->count;
        for (uint32_t i = 0; i < n->out_count; i++)
            if (first[node_out(g, n, i)] < reader) reader = first[node_out(g, n, i)];
        if (reader > s + 1 && reader < p->count && may_sink(g, n, written)) {
            next[s + 1] = heads[reader];
            heads[reader] = s + 1;
            written[0] = true;
        } else {
            next[s + 1] = UINT32_MAX; /* stays */
        }
    }
    uint32_t filled = 0;
    for (uint32_t s = 0; s < p->count; s++) {
        for (uint32_t sunk = heads[s]; sunk; sunk = next[sunk]) order[filled++] = p->steps[sunk - 1];
        if (next[s + 1] == UINT32_MAX) order[filled++] = p->steps[s];
    }
    for (uint32_t s = 0; s < filled; s++) p->steps[s] = order[s];
done:
    memory_free(first);
    memory_free(written);
    memory_free(order);
    memory_free(heads);
    memory_free(next);
    return result;
}
