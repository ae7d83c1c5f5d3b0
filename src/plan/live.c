#include "plan/live.h"

#include "base/memory.h"
#include "base/units.h"
#include "schedule/sweep.h"

/* What is known of a tensor. All but `owner` are kept for owners only. */
typedef struct {
    tensor_id owner;      /* whose storage it shares by the graph's aliases */
    tensor_id home;       /* whose storage this owner lives in (may-alias); 0: it has its own */
    uint32_t first, last; /* steps; first == NEVER: unused */
    bool crosses;         /* made by forward and read in a later phase */
} use;

typedef struct {
    const program *p;
    use *uses;          /* by tensor */
    uint16_t *together; /* by step: schedule/sweep.h */
} survey;

static const uint32_t NEVER = UINT32_MAX;

static status survey_open(survey *s, const program *p) {
    uint32_t n = p->graph.tensors.count;
    *s = (survey){ .p = p, .uses = memory_room(1, n * sizeof *s->uses + p->count * sizeof *s->together) };
    if (!s->uses) return status_set(STATUS_FAILED, "no memory to plan a program");
    s->together = (uint16_t *)(s->uses + n);
    for (tensor_id t = 0; t < n; t++)
        s->uses[t] = (use){ .owner = graph_storage(&p->graph, t, NULL), .first = NEVER };
    status result = sweep_find(p, s->together);
    if (result != STATUS_OK) memory_free(s->uses);
    return result;
}

static use *owner_of(const survey *s, tensor_id t) { return &s->uses[s->uses[t].owner]; }

static use *touch(survey *s, tensor_id t, uint32_t step) {
    use *u = owner_of(s, t);
    if (u->first == NEVER) u->first = step;
    u->last = step;
    return u;
}

static bool made_by_forward(const graph *g, tensor_id owner) {
    node_id producer = graph_tensor(g, owner)->producer;
    return producer && graph_node(g, producer)->phase == PHASE_FORWARD;
}

/* Lives of all owners, from first to last use, those of inputs from the first step, of what is kept beyond
 * the last one, which may not write over it either; and whether they cross from forward. */
static void find_uses(survey *s) {
    const graph *g = &s->p->graph;
    for (uint32_t step = 0; step < s->p->count; step++) {
        const node *n = graph_node(g, s->p->steps[step].node);
        for (uint32_t i = 0; i < n->in_count; i++) {
            tensor_id t = node_in(g, n, i);
            if (!t) continue;
            use *u = touch(s, t, step);
            if (n->phase != PHASE_FORWARD && !u->crosses) u->crosses = made_by_forward(g, s->uses[t].owner);
        }
        for (uint32_t i = 0; i < n->out_count; i++) touch(s, node_out(g, n, i), step);
    }
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        use *u = owner_of(s, t);
        if (u->first == NEVER) continue;
        if (x->role == ROLE_INPUT && !x->producer) u->first = 0;
        if (x->flags & TENSOR_KEEP) u->last = s->p->count; /* no step has this number */
    }
}

static tensor_id home_of(const survey *s, tensor_id owner) {
    while (s->uses[owner].home) owner = s->uses[owner].home;
    return owner;
}

static uint32_t inputs_in(const survey *s, const node *n, tensor_id home) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(&s->p->graph, n, i);
        count += t && home_of(s, s->uses[t].owner) == home;
    }
    return count;
}

/* May `out`, which is first used here and owns a storage that it has not given up, take over that of `in`?
 * Only if this step is the last to use `in`, through one input only, all have the same size, and none is
 * persistent. */
static bool may_move_in(const survey *s, const node *n, tensor_id in, tensor_id out, uint32_t step) {
    const graph *g = &s->p->graph;
    const use *u = &s->uses[out];
    tensor_id home = home_of(s, s->uses[in].owner);
    if (u->owner != out || u->home || home == out || u->first != step) return false;
    if (role_persistent(graph_tensor(g, home)->role) || role_persistent(graph_tensor(g, out)->role))
        return false;
    if (s->uses[home].last != step || inputs_in(s, n, home) != 1) return false;
    uint64_t bytes = graph_tensor_bytes(g, out);
    return bytes == graph_tensor_bytes(g, in) && bytes == graph_tensor_bytes(g, home);
}

static void move_in(survey *s) {
    const graph *g = &s->p->graph;
    for (uint32_t step = 0; step < s->p->count; step++) {
        const node *n = graph_node(g, s->p->steps[step].node);
        for (uint32_t a = 0; a < n->op->alias_count; a++) {
            const op_alias *alias = &n->op->aliases[a];
            tensor_id in = node_in(g, n, alias->in);
            if (alias->must || !in || alias->out >= n->out_count) continue;
            tensor_id out = node_out(g, n, alias->out);
            if (!may_move_in(s, n, in, out, step)) continue;
            tensor_id home = home_of(s, s->uses[in].owner);
            s->uses[out].home = home;
            if (s->uses[out].last > s->uses[home].last) s->uses[home].last = s->uses[out].last;
        }
    }
}

/* Has t a storage of its own in the arena? */
static bool is_stored(const survey *s, tensor_id t) {
    const use *u = &s->uses[t];
    const tensor *x = graph_tensor(&s->p->graph, t);
    return u->owner == t && !u->home && u->first != NEVER && !role_persistent(x->role) && !x->away;
}

static uint32_t count_storages(const survey *s) {
    uint32_t count = 0;
    for (tensor_id t = 1; t < s->p->graph.tensors.count; t++) count += is_stored(s, t);
    for (uint32_t step = 0; step < s->p->count; step++) count += s->p->steps[step].scratch_bytes > 0;
    return count;
}

static void list_storages(const survey *s, live_set *set) {
    const graph *g = &s->p->graph;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const use *u = &s->uses[t];
        set->of_tensor[t] = LIVE_NONE;
        if (!is_stored(s, t)) continue;
        set->of_tensor[t] = set->count;
        set->storages[set->count++] =
            (live_storage){ .owner = t,
                            .first = u->first,
                            .last = u->last < s->p->count ? u->last : s->p->count - 1,
                            .bytes = units_align(graph_tensor_bytes(g, t), LIVE_ALIGN),
                            .category = category_of(g, t, u->crosses) };
    }
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        tensor_id home = home_of(s, s->uses[t].owner);
        if (home != t) set->of_tensor[t] = set->of_tensor[home];
    }
    for (uint32_t step = 0; step < s->p->count; step++) {
        if (!s->p->steps[step].scratch_bytes) continue;
        set->storages[set->count++] =
            (live_storage){ .first = step,
                            .last = step + s->together[step] - 1u,
                            .category = CATEGORY_SCRATCH,
                            .bytes = units_align(s->p->steps[step].scratch_bytes, LIVE_ALIGN) };
    }
}

status live_of_program(const program *p, live_set *set) {
    survey s;
    *set = (live_set){ 0 };
    TRY(survey_open(&s, p));
    find_uses(&s);
    move_in(&s);
    *set = (live_set){ .storages = memory_room(count_storages(&s), sizeof(live_storage)),
                       .of_tensor = memory_new(p->graph.tensors.count, sizeof(uint32_t)) };
    bool enough = set->storages && set->of_tensor;
    if (enough)
        list_storages(&s, set);
    else
        live_close(set);
    memory_free(s.uses);
    return enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to plan a program");
}

void live_close(live_set *set) {
    memory_free(set->storages);
    memory_free(set->of_tensor);
    *set = (live_set){ 0 };
}

status live_find_peak(const live_set *set, uint32_t steps, live_peak *peak) {
    *peak = (live_peak){ 0 };
    int64_t *change = memory_new((size_t)steps + 1, sizeof *change);
    if (!change) return status_set(STATUS_FAILED, "no memory to plan a program");
    for (uint32_t i = 0; i < set->count; i++) {
        change[set->storages[i].first] += (int64_t)set->storages[i].bytes;
        change[set->storages[i].last + 1] -= (int64_t)set->storages[i].bytes;
    }
    int64_t alive = 0;
    for (uint32_t s = 0; s < steps; s++) {
        alive += change[s];
        if ((uint64_t)alive > peak->bytes) peak->bytes = (uint64_t)alive, peak->step = s;
    }
    memory_free(change);
    for (uint32_t i = 0; i < set->count; i++) {
        const live_storage *x = &set->storages[i];
        if (x->first <= peak->step && peak->step <= x->last) peak->by_category[x->category] += x->bytes;
    }
    return STATUS_OK;
}

status live_find_values(const live_set *set, const program *p, live_values *most) {
    enum { VALUES, GRADIENTS, BORN, SERIES }; /* BORN: gradients at the step that makes them */
    int64_t alive[SERIES] = { 0 }, (*change)[SERIES] = memory_new((size_t)p->count + 1, sizeof *change);
    *most = (live_values){ 0 };
    if (!change) return status_set(STATUS_FAILED, "no memory to plan a program");
    for (uint32_t i = 0; i < set->count; i++) {
        const live_storage *x = &set->storages[i];
        bool gradient = x->category == CATEGORY_GRADIENTS;
        change[x->first][gradient ? GRADIENTS : VALUES] += (int64_t)x->bytes;
        change[x->last + 1][gradient ? GRADIENTS : VALUES] -= (int64_t)x->bytes;
        if (!gradient) continue;
        change[x->first][BORN] += (int64_t)x->bytes;
        change[x->first + 1][BORN] -= (int64_t)x->bytes;
    }
    for (uint32_t s = 0; s < p->count; s++) {
        for (int k = 0; k < SERIES; k++) alive[k] += change[s][k];
        if (graph_node(&p->graph, p->steps[s].node)->phase == PHASE_UPDATE) continue;
        uint64_t all = (uint64_t)(alive[VALUES] + alive[GRADIENTS]),
                 least = (uint64_t)(alive[VALUES] + alive[BORN]);
        if (least > most->but_gradients) most->but_gradients = least;
        if (all > most->all) most->all = all;
    }
    memory_free(change);
    return STATUS_OK;
}
