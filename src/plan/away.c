#include "plan/away.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/units.h"
#include "lower/predict.h"
#include "plan/plan_internal.h"

/* Buffers have no rank, and nothing else of the host's is away. */
static bool is_away(const plan_persistent *x) { return x->pool == POOL_HOST && x->shape.rank; }

uint64_t away_hosted(const plan *p) {
    uint64_t bytes = 0;
    if (!p->device->apart) return 0;
    for (uint32_t i = 0; i < p->persistent_count; i++)
        if (is_away(&p->persistent[i])) bytes += p->persistent[i].bytes;
    return bytes + p->values_bytes;
}

/* ---- how often it is moved ---- */

typedef struct {
    uint32_t index; /* in plan.persistent */
    double moves;   /* of each byte, in a step */
} place;

/* By tensor of a program: its entry in plan.persistent, counted from 1; 0: it is none that is away. */
static uint32_t *entries_of(plan *p, const graph *g) {
    uint32_t *entry = memory_new(g->tensors.count, sizeof *entry), cursor = 0;
    for (tensor_id t = 1; entry && t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (x->producer || !x->away || !role_persistent(x->role)) continue;
        entry[t] =
            (uint32_t)(plan_find_from(p, p->persistent_count, graph_name(g, t), &cursor) - p->persistent) + 1;
    }
    return entry;
}

static void add_moves(const program *p, const uint32_t *entry, place *places) {
    for (uint32_t s = 0; s < p->count; s++) {
        piece_part parts[PIECES_PARTS];
        if (!pieces_step(p, s)) continue;
        uint32_t count = pieces_parts(p, &(piece){ .step = s }, parts);
        for (uint32_t i = 0; i < count; i++)
            if (entry[parts[i].owner])
                places[entry[parts[i].owner] - 1].moves +=
                    (double)p->shape.calls * (parts[i].read + parts[i].written);
    }
}

static int often_first(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->moves > y->moves || x->moves < y->moves) return x->moves > y->moves ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* What is persistent, the most often moved first. NULL: no memory. */
static place *places_of(plan *p) {
    bool training = plan_calls(p, TASK_TRAIN) > 0, enough = true;
    place *places = memory_new(p->persistent_count, sizeof *places);
    for (uint32_t i = 0; places && i < p->persistent_count; i++) places[i].index = i;
    for (uint32_t k = 0; places && enough && k < p->program_count; k++) {
        const program *x = &p->programs[k].program;
        if (training && x->shape.task != TASK_TRAIN) continue;
        uint32_t *entry = entries_of(p, &x->graph);
        enough = entry != NULL;
        if (entry) add_moves(x, entry, places);
        memory_free(entry);
    }
    if (places && enough) {
        qsort(places, p->persistent_count, sizeof *places, often_first);
        return places;
    }
    memory_free(places);
    return NULL;
}

/* ---- who stays ---- */

static bool is_value(const graph *g, tensor_id t) {
    const tensor *x = graph_tensor(g, t);
    return x->away && !x->base && !role_persistent(x->role);
}

/* Of a program's values: those stay that come first and have room. Programs run one at a time, so all begin
 * at the same place. Returns whether all stay. */
static bool file_values(plan_program *pp, uint64_t room, uint64_t *hosted, uint64_t *filed) {
    graph *g = &pp->program.graph;
    uint64_t here = 0, there = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        if (!is_value(g, t)) continue;
        uint64_t bytes = units_align(graph_tensor_bytes(g, t), PIECES_PAGE);
        bool stays = !there && here + bytes <= room;
        pp->offset[t] = stays ? here : there; /* from where values begin, in their pool */
        if (!stays) graph_tensor(g, t)->away = PIECES_FILED;
        *(stays ? &here : &there) += bytes;
    }
    if (here > *hosted) *hosted = here;
    if (there > *filed) *filed = there;
    return !there;
}

/* `count`: of the places, which were made before the ring became one more. */
static void file_persistents(plan *p, const place *places, uint32_t count, uint64_t room) {
    bool stays = true;
    for (uint32_t i = 0; i < count; i++) {
        plan_persistent *x = &p->persistent[places[i].index];
        if (!is_away(x)) continue;
        stays = stays && x->bytes <= room;
        if (stays)
            room -= x->bytes;
        else
            x->pool = POOL_FILE;
    }
}

/* Places in both pools anew, one after the other. */
static void settle_pools(plan *p) {
    p->pools[POOL_HOST].persistent_bytes = p->pools[POOL_FILE].persistent_bytes = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        plan_persistent *x = &p->persistent[i];
        if (x->pool == POOL_MEMORY) continue;
        x->offset = p->pools[x->pool].persistent_bytes;
        p->pools[x->pool].persistent_bytes += x->bytes;
    }
}

static status settle_program(plan *p, plan_program *pp) {
    graph *g = &pp->program.graph;
    uint32_t *entry = entries_of(p, g);
    if (!entry) return status_set(STATUS_FAILED, "no memory to plan a program");
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        int64_t inside;
        tensor_id owner = graph_storage(g, t, &inside);
        if (is_value(g, t))
            pp->offset[t] +=
                p->pools[graph_tensor(g, t)->away == PIECES_FILED ? POOL_FILE : POOL_HOST].persistent_bytes;
        if (!entry[owner]) continue;
        const plan_persistent *x = &p->persistent[entry[owner] - 1];
        pp->offset[t] = x->offset + (uint64_t)inside;
        if (t == owner && x->pool == POOL_FILE) graph_tensor(g, t)->away = PIECES_FILED;
    }
    memory_free(entry);
    return STATUS_OK;
}

/* ---- all of it ---- */

/* Three calls for each piece: to read it, to wait for that, to write it. */
static uint64_t most_calls(const plan *p) {
    uint64_t most = 0, step = 0;
    for (uint32_t k = 0; k < p->program_count; k++) {
        const program *x = &p->programs[k].program;
        uint64_t pieces = pieces_measure(x).count;
        if (pieces > most) most = pieces;
        if (x->shape.task == TASK_TRAIN) step += pieces * (uint64_t)x->shape.calls;
    }
    return 3 * (step > most ? step : most);
}

/* Adds the ring: a small part of what is away, or there would be nothing to gain. Returns its bytes. */
static uint64_t add_ring(plan *p) {
    enum { LEAST = 2, PART = 4 };
    uint64_t slots_of_part = away_hosted(p) / PART / p->slot_bytes;
    p->ring = slots_of_part < LEAST         ? LEAST
              : slots_of_part < PIECES_RING ? (uint32_t)slots_of_part
                                            : PIECES_RING;
    p->ring_calls = most_calls(p);
    uint64_t slots = p->ring * p->slot_bytes + PIECES_PAGE;
    return plan_add(p, PLAN_RING, slots, CATEGORY_SCRATCH, POOL_HOST)->bytes;
}

static status settle(plan *p, const place *places, uint32_t count, uint64_t room) {
    uint64_t hosted = 0, filed = 0;
    bool all = true;
    for (uint32_t k = 0; k < p->program_count; k++)
        all &= file_values(&p->programs[k], room, &hosted, &filed);
    file_persistents(p, places, count, all ? room - hosted : 0);
    settle_pools(p);
    for (uint32_t k = 0; k < p->program_count; k++) TRY(settle_program(p, &p->programs[k]));
    p->pools[POOL_HOST].persistent_bytes += hosted;
    p->pools[POOL_FILE].persistent_bytes += filed;
    p->values_bytes = hosted;
    return STATUS_OK;
}

status away_file(plan *p, uint64_t limit, const device_rates *rates) {
    uint64_t running = plan_taken(p, POOL_HOST) - p->above_run, hosted = away_hosted(p);
    if (running <= limit || !hosted) return STATUS_OK;
    uint32_t count = p->persistent_count;
    place *places = places_of(p);
    if (!places) return status_set(STATUS_FAILED, "no memory to plan a run");
    uint64_t ring = add_ring(p), moving = TRANSFER_BYTES + p->ring_calls * PLAN_CALL_BYTES,
             fixed = running - hosted + ring + moving;
    status result = settle(p, places, count, limit > fixed ? limit - fixed : 0);
    memory_free(places);
    for (uint32_t k = 0; k < p->program_count && result == STATUS_OK; k++)
        result = predict_filed(&p->programs[k].program, p->device, rates);
    if (result == STATUS_OK) plan_reserve(p, moving);
    return result;
}
