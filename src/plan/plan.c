#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "lower/pieces.h"
#include "plan/check.h"
#include "plan/pack.h"
#include "plan/plan_internal.h"
#include "plan/scalars.h"

const plan_persistent *plan_find(const plan *p, const char *name) {
    for (uint32_t i = 0; i < p->persistent_count; i++)
        if (strcmp(p->persistent[i].name, name) == 0) return &p->persistent[i];
    return NULL;
}

plan_persistent *plan_find_from(plan *p, uint32_t count, const char *name, uint32_t *cursor) {
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = (*cursor + k) % count;
        if (strcmp(p->persistent[i].name, name) == 0) {
            *cursor = i + 1;
            return &p->persistent[i];
        }
    }
    return NULL;
}

plan_persistent *plan_add(plan *p, const char *name, uint64_t bytes, category c, int pool) {
    plan_persistent *x = &p->persistent[p->persistent_count++];
    *x = (plan_persistent){ .pool = (uint8_t)pool,
                            .bytes = units_align(bytes, LIVE_ALIGN),
                            .offset = p->pools[pool].persistent_bytes,
                            .category = c };
    memcpy(x->name, name, strlen(name) + 1); /* what is longer has been refused */
    p->pools[pool].persistent_bytes += x->bytes;
    if (pool == POOL_MEMORY) p->by_category[c] += x->bytes;
    return x;
}

static void add_tensor(plan *p, const char *name, uint64_t bytes, category c, const tensor *t) {
    int pool = t->away ? plan_away_pool(p) : POOL_MEMORY;
    if (t->away) bytes = units_align(bytes, PIECES_PAGE);
    plan_persistent *x = plan_add(p, name, bytes, c, pool);
    x->shape = t->shape, x->global = t->global, x->dtype = t->dtype,
    x->by_rows = (t->flags & TENSOR_ROWS) != 0;
    x->panels = (t->flags & TENSOR_PANELS) != 0;
}

static status add_persistents_of(plan *p, plan_program *pp) {
    const graph *g = &pp->program.graph;
    uint32_t cursor = 0, earlier = p->persistent_count; /* of programs before this one */
    if (g->group) p->group = g->group;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (x->producer || !role_persistent(x->role)) continue;
        const char *name = graph_name(g, t);
        if (strlen(name) >= sizeof p->persistent->name)
            return status_set(STATUS_INVALID, "the tensor name '%.40s...' is longer than %zu characters",
                              name, sizeof p->persistent->name - 1);
        plan_persistent *known = plan_find_from(p, earlier, name, &cursor);
        if (!known) {
            add_tensor(p, name, graph_tensor_bytes(g, t), category_of(g, t, false), x);
            known = &p->persistent[p->persistent_count - 1];
        } else if (!shape_equal(&known->shape, &x->shape) || !shape_equal(&known->global, &x->global) ||
                   known->dtype != (dtype)x->dtype || (known->pool != POOL_MEMORY) != x->away) {
            return status_set(STATUS_FAILED, "plan: the programs disagree about the shape of '%s'", name);
        }
        pp->offset[t] = known->offset;
    }
    return STATUS_OK;
}

/* Of a device apart a few numbers have their places before all others. */
static status pack_program(plan_program *pp, bool apart) {
    uint32_t n = pp->live.count;
    uint64_t first = 0, *at = memory_new(n, sizeof *at);
    pack_interval *intervals = memory_new(n, sizeof *intervals);
    status result = intervals && at ? STATUS_OK : status_set(STATUS_FAILED, "no memory to plan a program");
    if (result == STATUS_OK && apart) first = scalars_place(pp, at);
    for (uint32_t i = 0; i < n && result == STATUS_OK; i++) {
        const live_storage *s = &pp->live.storages[i];
        bool packed = !apart || at[i] == UINT64_MAX;
        intervals[i] = (pack_interval){ .bytes = packed ? s->bytes : 0, .first = s->first, .last = s->last };
    }
    if (result == STATUS_OK) result = pack_intervals(intervals, n, &pp->arena_bytes);
    if (result == STATUS_OK) result = check_packing(intervals, n, pp->arena_bytes);
    pp->arena_bytes += first;
    for (uint32_t i = 0; i < n && result == STATUS_OK; i++)
        intervals[i].offset = apart && at[i] != UINT64_MAX ? at[i] : intervals[i].offset + first;
    const graph *g = &pp->program.graph;
    for (tensor_id t = 1; result == STATUS_OK && t < g->tensors.count; t++)
        if (pp->live.of_tensor[t] != LIVE_NONE) pp->offset[t] = intervals[pp->live.of_tensor[t]].offset;
    for (uint32_t i = 0; i < n && result == STATUS_OK; i++)
        if (!pp->live.storages[i].owner) pp->scratch[pp->live.storages[i].first] = intervals[i].offset;
    memory_free(intervals);
    memory_free(at);
    return result;
}

static status outline_one(plan *p, plan_program *pp) {
    pp->offset = memory_new(pp->program.graph.tensors.count, sizeof *pp->offset);
    pp->scratch = memory_new(pp->program.count + 1u, sizeof *pp->scratch);
    if (!pp->offset || !pp->scratch) return status_set(STATUS_FAILED, "no memory to plan a program");
    TRY(add_persistents_of(p, pp));
    TRY(live_of_program(&pp->program, &pp->live));
    TRY(live_find_peak(&pp->live, pp->program.count, &pp->peak));
    pp->arena_bytes = pp->peak.bytes; /* until it is packed */
    if (p->device->apart) TRY(scalars_arena(pp, &pp->arena_bytes));
    return STATUS_OK;
}

/* Turns offsets in the arena, and in storages, into offsets in the pool. */
static void settle_offsets(const plan *p, plan_program *pp) {
    const graph *g = &pp->program.graph;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        int64_t inside;
        tensor_id owner = graph_storage(g, t, &inside);
        bool persistent = role_persistent(graph_tensor(g, owner)->role);
        if (persistent) /* in its own pool */
            pp->offset[t] = pp->offset[owner] + (uint64_t)inside;
        else if (pp->live.of_tensor[t] != LIVE_NONE)
            pp->offset[t] += p->pools[POOL_MEMORY].persistent_bytes + (uint64_t)inside;
    }
    for (uint32_t s = 0; s < pp->program.count; s++) pp->scratch[s] += p->pools[POOL_MEMORY].persistent_bytes;
}

/* Bytes of bookkeeping for a tensor, a node and an edge: graph, lifetimes, offsets, the calls that exec/
 * binds, and what it observes. */
enum {
    TENSOR_TABLES = sizeof(tensor) + sizeof(live_storage) + 2 * sizeof(uint64_t) + 5 * sizeof(uint32_t),
    NODE_TABLES = sizeof(node) + sizeof(lower_step) + sizeof(op_call) + sizeof(uint64_t),
    EDGE_TABLES = sizeof(tensor_id) + sizeof(op_arg)
};

static const graph_room tables_of_each = { .tensor = TENSOR_TABLES,
                                           .node = NODE_TABLES,
                                           .edge = EDGE_TABLES };

uint64_t plan_graph_bytes(const graph *g) {
    graph_size size = graph_size_of(g);
    return graph_size_bytes(&size, &tables_of_each);
}

uint64_t plan_growing_bytes(const graph *g) {
    graph_size size = graph_size_larger(graph_size_of(g), g->parent);
    return graph_size_bytes(&size, &tables_of_each);
}

graph_room plan_graph_room(uint64_t memory) {
    graph_room room = tables_of_each;
    uint64_t code = device_runtime_reserve(0).code;
    room.bytes = memory > code ? (memory - code) / 2 : 0;
    room.bytes += !room.bytes;
    return room;
}

/* Bookkeeping for a persistent tensor while it is saved: lists and headers. */
enum { SAVING_BYTES = 512 };

/* Programs are kept once more by a device that starts each as one, and by its driver. */
static uint64_t captured_bytes(const plan *p) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; device_captures(p->device) && k < p->program_count; k++)
        if (lower_capturable(&p->programs[k].program))
            bytes += p->device->capture_bytes(p->device, p->programs[k].program.count);
    return bytes;
}

static void sum_up(plan *p, int threads) {
    uint64_t highest = 0, *arena = &p->pools[POOL_MEMORY].arena_bytes;
    for (uint32_t k = 0; k < p->program_count; k++) {
        const plan_program *pp = &p->programs[k];
        if (pp->arena_bytes > *arena) *arena = pp->arena_bytes;
        if (pp->peak.bytes > highest) highest = pp->peak.bytes, p->peak_program = k;
    }
    p->lower_bound_bytes = highest;
    for (int c = 0; p->program_count && c < CATEGORY_COUNT; c++)
        p->by_category[c] += p->programs[p->peak_program].peak.by_category[c];
    p->by_category[CATEGORY_GAPS] = *arena - highest;
    if (p->device->apart) p->beside = device_reserve(p->device);
    p->beside.captured = captured_bytes(p);
    p->pools[POOL_MEMORY].runtime_bytes = device_parts_sum(&p->beside);
    p->runtime = device_runtime_reserve(threads);
    if (p->device->driver) p->runtime.code += p->device->driver(p->device);
    uint64_t tables = p->persistent_count * (sizeof *p->persistent + SAVING_BYTES);
    for (uint32_t k = 0; k < p->program_count; k++) tables += plan_graph_bytes(&p->programs[k].program.graph);
    if (p->pools[POOL_FILE].persistent_bytes) tables += TRANSFER_BYTES;
    p->runtime.tables += tables + p->beside.captured; /* the host keeps them as well */
    p->table_bytes = tables;
    p->planning_bytes = p->runtime.code + p->runtime.threads + plan_making_bytes(tables);
    plan_reserve(p, 0);
}

/* Its graphs on their way through the passes, with what is lowered and packed of them: up to 1.85 times the
 * tables were seen where memory is tight (search/visit.c), beside all code that is reserved. */
uint64_t plan_making_bytes(uint64_t table_bytes) { return 2 * table_bytes; }

/* The peak is the larger of planning and running. In models that are deep and narrow, planning takes more.
 * What it takes more is counted as tables of the runtime, so that categories add up to the peak. Planning is
 * the host's: a device apart has none of it. */
void plan_reserve(plan *p, uint64_t bytes) {
    int host = plan_host_pool(p);
    p->runtime.tables -= p->above_run;
    p->runtime.tables += bytes;
    p->pools[host].runtime_bytes = plan_runtime_bytes(p);
    p->run_bytes = plan_taken(p, POOL_MEMORY);
    uint64_t running = plan_taken(p, host);
    p->above_run = running < p->planning_bytes ? p->planning_bytes - running : 0;
    p->runtime.tables += p->above_run;
    p->pools[host].runtime_bytes = plan_runtime_bytes(p);
    p->by_category[CATEGORY_RUNTIME] = p->pools[POOL_MEMORY].runtime_bytes;
    p->peak_bytes = plan_taken(p, POOL_MEMORY);
}

void plan_hold(plan *p, uint64_t bytes) {
    if (bytes > p->planning_bytes) p->planning_bytes = bytes;
    plan_reserve(p, 0);
}

/* Places a program's values that are away, one after the other behind the state. Programs run one at a time,
 * so all begin at the same place. */
static uint64_t place_away(const plan *p, plan_program *pp) {
    const graph *g = &pp->program.graph;
    uint64_t end = p->pools[plan_away_pool(p)].persistent_bytes;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->away || x->base || role_persistent(x->role)) continue;
        pp->offset[t] = end;
        end += units_align(graph_tensor_bytes(g, t), PIECES_PAGE);
    }
    return end;
}

uint64_t plan_slots_bytes(uint64_t pieces, uint64_t slot_bytes) {
    return (pieces < PIECES_SLOTS ? pieces : PIECES_SLOTS) * slot_bytes + PIECES_PAGE;
}

static void raise_pieces(pieces_size *most, const pieces_size *x) {
    if (x->count > most->count) most->count = x->count;
    if (x->slot_bytes > most->slot_bytes) most->slot_bytes = x->slot_bytes;
    if (x->updates > most->updates) most->updates = x->updates;
    if (x->update_bytes > most->update_bytes) most->update_bytes = x->update_bytes;
}

/* Adds the slots: as many as there may be pieces in memory at once, each as large as the largest piece. */
static void add_slots(plan *p) {
    uint64_t *away = &p->pools[plan_away_pool(p)].persistent_bytes, end = *away;
    for (uint32_t k = 0; k < p->program_count; k++) {
        uint64_t own = place_away(p, &p->programs[k]);
        pieces_size size = pieces_measure(&p->programs[k].program);
        uint32_t slots = size.count < PIECES_SLOTS ? (uint32_t)size.count : PIECES_SLOTS;
        if (own > end) end = own;
        if (slots > p->slots) p->slots = slots;
        raise_pieces(&p->pieces, &size);
        if (size.slot_bytes > p->slot_bytes) p->slot_bytes = size.slot_bytes;
    }
    p->values_bytes = end - *away;
    *away = end;
    if (end)
        plan_add(p, PLAN_SLOTS, plan_slots_bytes(p->slots, p->slot_bytes), CATEGORY_SCRATCH, POOL_MEMORY);
}

/* The plan becomes the programs' owner; without memory for its list they are closed. */
static status take_over(plan *p, program *programs, uint32_t count) {
    p->programs = memory_new(count, sizeof *p->programs);
    for (uint32_t k = 0; k < count; k++)
        if (p->programs)
            p->programs[k].program = programs[k];
        else
            lower_close(&programs[k]);
    memset(programs, 0, count * sizeof *programs);
    if (p->programs) p->program_count = count;
    return p->programs ? STATUS_OK : status_set(STATUS_FAILED, "no memory to plan a program");
}

plan_whole plan_whole_of(const plan *p, category c) {
    plan_whole whole = { 0 };
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != c) continue;
        whole.tensors++, whole.bytes += (uint64_t)shape_elements(&x->global) * dtype_bytes(x->dtype);
    }
    return whole;
}

bool plan_has_shares(const plan *p) {
    for (uint32_t i = 0; i < p->persistent_count; i++)
        if (plan_is_share(&p->persistent[i])) return true;
    return false;
}

/* The host of a device apart reads and writes in parts of this size, and a kept result whole. Files have what
 * ranks share whole: each other's parts pass through as well. */
static void add_staging(plan *p) {
    enum { PART_BYTES = 1 << 20 };
    if (!p->device->apart && !plan_has_shares(p)) return;
    p->staging_bytes = PART_BYTES;
    for (uint32_t k = 0; k < p->program_count; k++) {
        const graph *g = &p->programs[k].program.graph;
        for (tensor_id t = 1; t < g->tensors.count; t++)
            if (p->device->apart && graph_tensor(g, t)->flags & TENSOR_KEEP &&
                graph_tensor_bytes(g, t) > p->staging_bytes)
                p->staging_bytes = graph_tensor_bytes(g, t);
    }
    plan_add(p, PLAN_STAGING, p->staging_bytes, CATEGORY_INPUTS, plan_host_pool(p));
}

/* Everything but places in the arena. */
static status outline(program *programs, uint32_t program_count, const plan_options *o, plan *p) {
    enum { OWN_BUFFERS = 3 }; /* PLAN_SLOTS, PLAN_STAGING, PLAN_RING */
    *p = (plan){ .threads = o->threads, .device = o->device ? o->device : device_default() };
    TRY(take_over(p, programs, program_count));
    size_t most = o->buffer_count + OWN_BUFFERS;
    for (uint32_t k = 0; k < program_count; k++) most += p->programs[k].program.graph.tensors.count;
    p->persistent = memory_room(most, sizeof *p->persistent);
    if (!p->persistent) return status_set(STATUS_FAILED, "no memory to plan a run");
    for (uint32_t k = 0; k < program_count; k++) TRY(outline_one(p, &p->programs[k]));
    add_slots(p);
    add_staging(p);
    for (uint32_t i = 0; i < o->buffer_count; i++)
        plan_add(p, o->buffers[i].name, o->buffers[i].bytes, CATEGORY_INPUTS, plan_host_pool(p));
    return STATUS_OK;
}

status plan_outline(program *programs, uint32_t program_count, const plan_options *o, plan *p) {
    status result = outline(programs, program_count, o, p);
    if (result == STATUS_OK)
        sum_up(p, o->threads);
    else
        plan_close(p);
    return result;
}

status plan_make(program *programs, uint32_t program_count, const plan_options *o, plan *p) {
    status result = outline(programs, program_count, o, p);
    for (uint32_t k = 0; k < p->program_count && result == STATUS_OK; k++)
        result = pack_program(&p->programs[k], p->device->apart);
    if (result == STATUS_OK && p->device->apart) result = scalars_last(p);
    if (result != STATUS_OK) {
        plan_close(p);
        return result;
    }
    for (uint32_t k = 0; k < p->program_count; k++) settle_offsets(p, &p->programs[k]);
    sum_up(p, o->threads);
    return STATUS_OK;
}

/* ---- calls ---- */

int64_t plan_calls(const plan *p, program_task task) {
    int64_t calls = 0;
    for (uint32_t k = 0; k < p->program_count; k++)
        if (p->programs[k].program.shape.task == task) calls += p->programs[k].program.shape.calls;
    return calls;
}

/* Of the programs of the task that may begin at sample `at`, the one whose first sample comes last. */
static uint32_t program_at(const plan *p, program_task task, int64_t at) {
    uint32_t found = p->program_count;
    int64_t latest = -1;
    for (uint32_t k = 0; k < p->program_count; k++) {
        const program_shape *x = &p->programs[k].program.shape;
        bool begins = at >= x->first && (at - x->first) % (x->every ? x->every : x->batch) == 0;
        if (x->task == task && begins && x->first > latest) found = k, latest = x->first;
    }
    return found;
}

/* All calls of a task but the last take as many samples as the largest. */
static int64_t common_batch(const plan *p, program_task task) {
    int64_t most = 0;
    for (uint32_t k = 0; k < p->program_count; k++) {
        const program_shape *x = &p->programs[k].program.shape;
        if (x->task == task && x->batch > most) most = x->batch;
    }
    return most;
}

plan_call plan_call_of(const plan *p, program_task task, int64_t number) {
    int64_t at = number * common_batch(p, task);
    if (number >= plan_calls(p, task)) return (plan_call){ p->program_count, 0 };
    return (plan_call){ program_at(p, task, at), at };
}

void plan_close(plan *p) {
    for (uint32_t k = 0; k < p->program_count; k++) {
        plan_program *pp = &p->programs[k];
        lower_close(&pp->program);
        live_close(&pp->live);
        memory_free(pp->offset);
        memory_free(pp->scratch);
    }
    memory_free(p->programs);
    memory_free(p->persistent);
    *p = (plan){ 0 };
}
