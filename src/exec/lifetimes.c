/* Hands out what was observed: see lifetimes.h. */
#include "exec/lifetimes.h"

#include "base/memory.h"
#include "base/units.h"
#include "exec/exec_internal.h"

/* A tensor that may have a buffer of its own in the arena. */
static bool may_have_buffer(const graph *g, tensor_id t) {
    const tensor *x = graph_tensor(g, t);
    return !role_persistent(x->role) && !x->away && graph_storage(g, t, NULL) == t;
}

static uint32_t room_of(const program *p) {
    uint32_t room = 0;
    for (tensor_id t = 1; t < p->graph.tensors.count; t++) room += may_have_buffer(&p->graph, t);
    for (uint32_t s = 0; s < p->count; s++) room += p->steps[s].scratch_bytes > 0;
    return room;
}

uint64_t exec_lives_bytes(const plan *p) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < p->program_count; k++)
        bytes += sizeof(exec_lives) + room_of(&p->programs[k].program) * sizeof(exec_life);
    return bytes;
}

static void fill(const bound_program *b, exec_life *lives, exec_lives *l) {
    const program *p = &b->plan->program;
    const observation *o = &b->seen;
    const graph *g = &p->graph;
    l->ran = true;
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (may_have_buffer(g, t) && observe_seen(o, t))
            lives[l->tensors++] = (exec_life){ t, o->first[t], o->last[t], observe_category(o, g, t),
                                               units_align(graph_tensor_bytes(g, t), LIVE_ALIGN) };
    l->count = l->tensors;
    for (uint32_t s = 0; s < p->count; s++)
        if (p->steps[s].scratch_bytes)
            lives[l->count++] = (exec_life){ 0, s, s + b->together[s] - 1u, CATEGORY_SCRATCH,
                                             units_align(p->steps[s].scratch_bytes, LIVE_ALIGN) };
}

status exec_lives_of(const exec *e, exec_lives **out) {
    const plan *p = e->plan;
    exec_lives *l = *out = memory_new(1, exec_lives_bytes(p) + !p->program_count);
    if (!l) return status_set(STATUS_FAILED, "no memory for what was observed");
    exec_life *lives = (exec_life *)(l + p->program_count);
    for (uint32_t k = 0; k < p->program_count; k++) {
        l[k].room = room_of(&p->programs[k].program);
        l[k].lives = lives;
        if (e->programs[k].seen.done) fill(&e->programs[k], lives, &l[k]);
        lives += l[k].room;
    }
    return STATUS_OK;
}

const exec_life *exec_life_of(const exec_lives *l, const live_storage *planned) {
    uint32_t low = planned->owner ? 0 : l->tensors, end = planned->owner ? l->tensors : l->count;
    for (uint32_t high = end; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        const exec_life *x = &l->lives[middle];
        if (planned->owner ? x->owner < planned->owner : x->first < planned->first)
            low = middle + 1;
        else
            high = middle;
    }
    const exec_life *x = low < end ? &l->lives[low] : NULL;
    return x && x->owner == planned->owner && (x->owner || x->first == planned->first) ? x : NULL;
}

exec_likeness exec_lives_like(const plan *p, const exec_lives *lives) {
    exec_likeness all = { 0 };
    for (uint32_t k = 0; k < p->program_count; k++) {
        const live_set *set = &p->programs[k].live;
        uint32_t found = 0;
        for (uint32_t i = 0; lives[k].ran && i < set->count; i++) {
            const live_storage *x = &set->storages[i];
            const exec_life *seen = exec_life_of(&lives[k], x);
            found += seen != NULL;
            all.planned++;
            all.same += seen && seen->first == x->first && seen->last == x->last && seen->bytes == x->bytes &&
                        seen->category == x->category;
        }
        all.beside += lives[k].count - found;
    }
    return all;
}

void exec_lives_add(const exec_lives *l, const live_set *planned, uint64_t (*alive)[CATEGORY_COUNT],
                    uint32_t steps) {
    for (uint32_t i = 0; i < (planned ? planned->count : l->count); i++) {
        const live_storage *x = planned ? &planned->storages[i] : NULL;
        category c = x ? x->category : l->lives[i].category;
        uint64_t bytes = x ? x->bytes : l->lives[i].bytes;
        alive[x ? x->first : l->lives[i].first][c] += bytes;
        alive[(x ? x->last : l->lives[i].last) + 1][c] -= bytes; /* wraps, and back in the sum */
    }
    for (uint32_t s = 1; s <= steps; s++)
        for (int c = 0; c < CATEGORY_COUNT; c++) alive[s][c] += alive[s - 1][c];
}

status exec_lives_apart(const plan *p, const exec_lives *lives, uint64_t *most) {
    *most = 0;
    for (uint32_t k = 0; k < p->program_count; k++) {
        uint32_t steps = p->programs[k].program.count;
        if (!lives[k].ran) continue;
        uint64_t(*planned)[CATEGORY_COUNT] = memory_new(2 * ((size_t)steps + 1), sizeof *planned);
        if (!planned)
            return status_set(STATUS_FAILED, "no memory to compare what was observed with the plan");
        uint64_t(*seen)[CATEGORY_COUNT] = planned + steps + 1;
        exec_lives_add(&lives[k], &p->programs[k].live, planned, steps);
        exec_lives_add(&lives[k], NULL, seen, steps);
        for (uint32_t s = 0; s < steps; s++)
            for (int c = 0; c < CATEGORY_COUNT; c++) {
                uint64_t a = planned[s][c], b = seen[s][c], apart = a > b ? a - b : b - a;
                if (apart > *most) *most = apart;
            }
        memory_free(planned);
    }
    return STATUS_OK;
}
