#include "plan/scalars.h"

#include "base/memory.h"

/* ---- in the arena ---- */

static bool is_scalar(const plan_program *pp, tensor_id t, bool kept) {
    const tensor *x = graph_tensor(&pp->program.graph, t);
    uint32_t storage = pp->live.of_tensor[t];
    if (storage == LIVE_NONE || pp->live.storages[storage].bytes > LIVE_ALIGN) return false;
    return kept ? (x->flags & TENSOR_KEEP) != 0 : x->role == ROLE_INPUT && !x->producer && x->shape.rank < 2;
}

uint64_t scalars_place(const plan_program *pp, uint64_t *at) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pp->live.count; i++) at[i] = UINT64_MAX;
    for (int kept = 1; kept >= 0; kept--)
        for (tensor_id t = 1; t < pp->program.graph.tensors.count; t++) {
            if (!is_scalar(pp, t, kept) || at[pp->live.of_tensor[t]] != UINT64_MAX) continue;
            at[pp->live.of_tensor[t]] = bytes;
            bytes += LIVE_ALIGN;
        }
    return bytes;
}

status scalars_arena(const plan_program *pp, uint64_t *bytes) {
    uint64_t *at = memory_new(pp->live.count, sizeof *at), first = 0;
    live_storage *others = memory_new(pp->live.count, sizeof *others);
    status result = at && others ? STATUS_OK : status_set(STATUS_FAILED, "no memory to plan a program");
    if (result == STATUS_OK) {
        live_peak peak;
        first = scalars_place(pp, at);
        for (uint32_t i = 0; i < pp->live.count; i++) {
            others[i] = pp->live.storages[i];
            if (at[i] != UINT64_MAX) others[i].bytes = 0;
        }
        result = live_find_peak(&(live_set){ others, pp->live.count, NULL }, pp->program.count, &peak);
        *bytes = peak.bytes + first;
    }
    memory_free(at);
    memory_free(others);
    return result;
}

/* ---- behind the others ---- */

/* A place in the pool before, and after. */
typedef struct {
    uint64_t before, after;
} moved;

static bool is_last(const plan_persistent *x) { return x->shape.rank && shape_elements(&x->shape) == 1; }

/* Of persistent tensors that are in memory; the list rises with `before`. */
static uint64_t place_after(const moved *list, uint32_t count, uint64_t before) {
    uint32_t first = 0;
    for (uint32_t end = count; first + 1 < end;) {
        uint32_t middle = first + (end - first) / 2;
        if (list[middle].before <= before)
            first = middle;
        else
            end = middle;
    }
    return list[first].after + (before - list[first].before);
}

static uint32_t move_all(plan *p, moved *list) {
    uint64_t end = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++)
        if (p->persistent[i].pool == POOL_MEMORY) list[count++].before = p->persistent[i].offset;
    for (int last = 0; last < 2; last++)
        for (uint32_t i = 0, k = 0; i < p->persistent_count; i++) {
            plan_persistent *x = &p->persistent[i];
            if (x->pool != POOL_MEMORY) continue;
            if (is_last(x) == (last != 0)) list[k].after = x->offset = end, end += x->bytes;
            k++;
        }
    return count;
}

status scalars_last(plan *p) {
    moved *list = memory_room(p->persistent_count + 1u, sizeof *list);
    if (!list) return status_set(STATUS_FAILED, "no memory to plan a run");
    uint32_t count = move_all(p, list);
    for (uint32_t k = 0; k < p->program_count; k++) {
        plan_program *pp = &p->programs[k];
        const graph *g = &pp->program.graph;
        for (tensor_id t = 1; t < g->tensors.count; t++) {
            const tensor *x = graph_tensor(g, t);
            if (!x->producer && role_persistent(x->role) && !x->away)
                pp->offset[t] = place_after(list, count, pp->offset[t]);
        }
    }
    memory_free(list);
    return STATUS_OK;
}
