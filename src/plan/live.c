#include "plan/live.h"

#include "base/memory.h"
#include "base/units.h"

/* Work in progress, all by tensor; only entries of owners count. */
typedef struct {
    const program *p;
    tensor_id *owner;       /* by the graph's aliases */
    tensor_id *host;        /* of an owner: whom it moved in with (may-alias); 0: nobody */
    uint32_t *first, *last; /* of an owner; first == NEVER: unused */
    bool *crosses;
} survey;

static const uint32_t NEVER = UINT32_MAX;

static status survey_open(survey *s, const program *p) {
    uint32_t n = p->graph.tensors.count;
    *s = (survey){ .p = p,
                   .owner = memory_new(n, sizeof(tensor_id)),
                   .host = memory_new(n, sizeof(tensor_id)),
                   .first = memory_new(n, sizeof(uint32_t)),
                   .last = memory_new(n, sizeof(uint32_t)),
                   .crosses = memory_new(n, sizeof(bool)) };
    if (!s->owner || !s->host || !s->first || !s->last || !s->crosses)
        return status_set(STATUS_FAILED, "no memory to plan a program");
    for (tensor_id t = 1; t < n; t++) {
        s->owner[t] = graph_storage(&p->graph, t, NULL);
        s->first[t] = NEVER;
    }
    return STATUS_OK;
}

static void survey_close(survey *s) {
    memory_free(s->owner);
    memory_free(s->host);
    memory_free(s->first);
    memory_free(s->last);
    memory_free(s->crosses);
}

static void touch(survey *s, tensor_id t, uint32_t step) {
    tensor_id o = s->owner[t];
    if (s->first[o] == NEVER) s->first[o] = step;
    s->last[o] = step;
}

/* First and last use of every owner. */
static void find_uses(survey *s) {
    const graph *g = &s->p->graph;
    for (uint32_t step = 0; step < s->p->count; step++) {
        const node *n = graph_node(g, s->p->steps[step].node);
        for (uint32_t i = 0; i < n->in_count; i++) {
            tensor_id t = node_in(g, n, i);
            if (!t) continue;
            touch(s, t, step);
            node_id producer = graph_tensor(g, s->owner[t])->producer;
            if (producer && graph_node(g, producer)->phase == PHASE_FORWARD && n->phase != PHASE_FORWARD)
                s->crosses[s->owner[t]] = true;
        }
        for (uint32_t i = 0; i < n->out_count; i++) touch(s, node_out(g, n, i), step);
    }
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        tensor_id o = s->owner[t];
        if (s->first[o] == NEVER) continue;
        if (x->role == ROLE_INPUT && !x->producer) s->first[o] = 0;
        if (x->flags & TENSOR_KEEP) s->last[o] = s->p->count - 1;
    }
}

static tensor_id host_of(const survey *s, tensor_id owner) {
    while (s->host[owner]) owner = s->host[owner];
    return owner;
}

static uint32_t inputs_in(const survey *s, const node *n, tensor_id host) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(&s->p->graph, n, i);
        count += t && host_of(s, s->owner[t]) == host;
    }
    return count;
}

/* May `out` (an owner) live on in the storage of `in`, which this step reads last? */
static bool may_move_in(const survey *s, const node *n, tensor_id in, tensor_id out, uint32_t step) {
    const graph *g = &s->p->graph;
    tensor_id host = host_of(s, s->owner[in]);
    if (s->owner[out] != out || s->host[out] || host == out || s->first[out] != step) return false;
    if (role_persistent(graph_tensor(g, host)->role) || role_persistent(graph_tensor(g, out)->role))
        return false;
    if (s->last[host] != step || inputs_in(s, n, host) != 1) return false;
    uint64_t bytes = graph_tensor_bytes(g, out);
    return bytes == graph_tensor_bytes(g, in) && bytes == graph_tensor_bytes(g, host);
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
            tensor_id host = host_of(s, s->owner[in]);
            s->host[out] = host;
            if (s->last[out] > s->last[host]) s->last[host] = s->last[out];
        }
    }
}

static void list_storages(survey *s, live_set *set) {
    const graph *g = &s->p->graph;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        set->of_tensor[t] = LIVE_NONE;
        if (s->owner[t] != t || s->host[t] || s->first[t] == NEVER) continue;
        if (role_persistent(graph_tensor(g, t)->role) || graph_tensor(g, t)->pool == POOL_FILE) continue;
        set->of_tensor[t] = set->count;
        set->storages[set->count++] =
            (live_storage){ .owner = t,
                            .first = s->first[t],
                            .last = s->last[t],
                            .bytes = units_align(graph_tensor_bytes(g, t), LIVE_ALIGN),
                            .category = category_of(g, t, s->crosses[t]) };
    }
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        tensor_id host = host_of(s, s->owner[t]);
        if (host != t) set->of_tensor[t] = set->of_tensor[host];
    }
    for (uint32_t step = 0; step < s->p->count; step++) {
        if (!s->p->steps[step].scratch_bytes) continue;
        set->storages[set->count++] =
            (live_storage){ .first = step,
                            .last = step,
                            .category = CATEGORY_SCRATCH,
                            .bytes = units_align(s->p->steps[step].scratch_bytes, LIVE_ALIGN) };
    }
}

status live_of_program(const program *p, live_set *set) {
    survey s;
    status result = survey_open(&s, p);
    uint32_t tensors = p->graph.tensors.count;
    *set = (live_set){ .storages = memory_new((size_t)tensors + p->count, sizeof(live_storage)),
                       .of_tensor = memory_new(tensors, sizeof(uint32_t)) };
    if (result == STATUS_OK && (!set->storages || !set->of_tensor))
        result = status_set(STATUS_FAILED, "no memory to plan a program");
    if (result == STATUS_OK) {
        find_uses(&s);
        move_in(&s);
        list_storages(&s, set);
    } else {
        live_close(set);
    }
    survey_close(&s);
    return result;
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
