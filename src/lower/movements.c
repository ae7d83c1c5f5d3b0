#include "lower/movements.h"

#include "base/memory.h"

/* One rank alone sends, of a sum that goes from rank to rank; what counts as sent is the mean of all. */
static bool is_alone(const op_cost *c) {
    return !c->apart && (c->way == WAY_AROUND || c->way == WAY_FROM_LAST);
}

/* To how many others of those that move together a rank sends on a link, and how many share it: those of a
 * host; or one alone sends as much as all of them would. */
typedef struct {
    double peers[LINK_COUNT], sharing;
} layout;

static layout layout_of(const links *l, const op_cost *c) {
    int64_t all = l->ranks > 1 ? l->ranks : 1,
            of_host = l->of_host >= 1 && l->of_host < all ? l->of_host : all,
            ranks = c->ranks ? c->ranks : all, near = of_host / (c->apart ? c->apart : 1);
    if (near < 1) near = 1;
    if (near > ranks) near = ranks;
    return (layout){ .peers = { (double)(near - 1), (double)(ranks - near) },
                     .sharing = (double)(is_alone(c) ? ranks : of_host) };
}

/* Places of a host that follow each other; of groups those that it has whole. */
static int64_t places_of_host(const links *l, const op_cost *c) {
    int64_t all = c->ranks ? c->ranks : 1, of_host = l->of_host >= 1 ? l->of_host : l->ranks;
    int64_t near = of_host / (c->apart ? c->apart : 1);
    return near < 1 ? 1 : near > all ? all : near;
}

/* One place to the next one, which has the link between hosts for itself, but for ranks beside it in a group.
 * Within a host the rate is that of all ranks together, of which each has its part. */
static double seconds_to_next(const links *l, const op_cost *c, bool across) {
    double of_host = (double)(l->of_host >= 1 && l->of_host < l->ranks ? l->of_host : l->ranks),
           group = (double)(c->apart ? c->apart : 1), beside = across && group < of_host ? group : of_host;
    if (across && !c->apart) beside = 1;
    double bytes = c->sent * (double)(c->ranks > 1 ? c->ranks - 1 : 1);
    const link_rates *x = &l->of[across ? LINK_BETWEEN : LINK_WITHIN];
    return x->rate > 0 ? x->seconds + beside * bytes / x->rate : 0;
}

static double seconds_of_way(const links *l, const op_cost *c) {
    double within = 0, across = 0;
    int64_t near = places_of_host(l, c);
    if (near > 1) within = seconds_to_next(l, c, false);
    if (near < c->ranks) across = seconds_to_next(l, c, true);
    return within > across ? within : across;
}

/* From the last rank to the first, and nothing else. */
static double seconds_around(const links *l, const op_cost *c) {
    const link_rates *x = &l->of[places_of_host(l, c) < c->ranks ? LINK_BETWEEN : LINK_WITHIN];
    double pairs = (double)c->ranks * (double)(c->ranks - 1);
    return c->ranks > 1 && x->rate > 0 ? x->seconds + pairs * c->sent / x->rate : 0;
}

double movements_seconds(const links *l, const op_cost *c) {
    if (c->way == WAY_FROM_BEFORE) return seconds_of_way(l, c);
    if (c->way == WAY_AROUND && !c->apart) return seconds_around(l, c);
    layout y = layout_of(l, c);
    double longest = 0, bytes = c->sent;
    for (int i = 0; i < LINK_COUNT; i++) {
        if (y.peers[i] <= 0 || l->of[i].rate <= 0) continue;
        double seconds = l->of[i].seconds + y.sharing * y.peers[i] * bytes / l->of[i].rate;
        if (seconds > longest) longest = seconds;
    }
    return longest;
}

double movements_busy(const links *l, const op_cost *c) {
    layout y = layout_of(l, c);
    double seconds = 0, bytes = c->sent;
    for (int i = 0; i < LINK_COUNT; i++)
        if (y.peers[i] > 0) seconds += l->of[i].busy + y.peers[i] * bytes * l->of[i].busy_seconds;
    return seconds;
}

bool movements_is_wait(const op_def *op, const op_cost *c) {
    return op->traits & OP_COLLECTIVE && c->sent <= 0 && c->way == WAY_ALL;
}

bool movements_any(const op_cost *costs, uint32_t count) {
    for (uint32_t s = 0; s < count; s++)
        if (costs[s].sent > 0) return true;
    return false;
}

/* ---- which step begins a movement, and which waits for it ---- */

enum { NONE = -1 };

/* A movement as all begin it, one after the other. */
typedef struct {
    op_way way;
    bool together; /* of WAY_ALL: between those of all places, and not of one alone */
    double seconds, busy;
    /* Of a sum on its way from one place to the next: the first of `near` ones gets it from another host; to
     * the others it takes these seconds, and this of a processor. */
    int64_t near;
    double within, busy_within;
} movement;

typedef struct {
    const program *p;
    movement *list; /* in the order in which they begin */
    uint32_t count;
    int32_t *begun, *awaited; /* by step: which movement, or NONE */
    int64_t places; /* that a sum goes through, from one to the next: ranks or groups; 1: all do the same at
                       the same time */
} course;

/* Owners of storage are asked, so that it may be waited for by any view of what arrives. */
static tensor_id owner_of(const graph *g, tensor_id t) { return t ? graph_storage(g, t, NULL) : 0; }

/* To one other place: what it sends of its bytes, and what that takes of a processor. */
static double busy_to_next(const links *l, const op_cost *c, int link) {
    double bytes = c->sent * (double)(c->ranks > 1 ? c->ranks - 1 : 1);
    return l->of[link].busy + bytes * l->of[link].busy_seconds;
}

/* How far a sum goes is said by the half of the one that gets it. */
static movement movement_of(const op_cost *c, const links *l) {
    movement m = {
        .way = c->way, .together = !c->ranks, .seconds = movements_seconds(l, c), .busy = movements_busy(l, c)
    };
    if (c->way != WAY_FROM_BEFORE && c->way != WAY_TO_NEXT) return m;
    m.near = places_of_host(l, c);
    bool across = m.near < c->ranks;
    m.busy_within = busy_to_next(l, c, LINK_WITHIN);
    m.busy = across ? busy_to_next(l, c, LINK_BETWEEN) : m.busy_within;
    if (c->way == WAY_FROM_BEFORE) m.within = seconds_to_next(l, c, false);
    m.seconds = c->way == WAY_TO_NEXT ? 0 : across ? seconds_to_next(l, c, true) : m.within;
    return m;
}

/* Is it on a link within a host, as place `at` has it? */
static bool is_within(const movement *m, int64_t at) {
    return m->near && (m->way == WAY_TO_NEXT ? at + 1 : at) % m->near;
}

static double seconds_at(const movement *m, int64_t at) { return is_within(m, at) ? m->within : m->seconds; }

static double busy_at(const movement *m, int64_t at) { return is_within(m, at) ? m->busy_within : m->busy; }

static void find_movements(course *k, const op_cost *costs, const links *l, int32_t *under_way) {
    const graph *g = &k->p->graph;
    for (tensor_id t = 0; t < g->tensors.count; t++) under_way[t] = NONE;
    for (uint32_t s = 0; s < k->p->count; s++) {
        const node *n = graph_node(g, k->p->steps[s].node);
        k->begun[s] = k->awaited[s] = NONE;
        if (movements_is_wait(n->op, &costs[s])) {
            int32_t *which = &under_way[owner_of(g, node_in(g, n, 0))];
            k->awaited[s] = *which, *which = NONE; /* it is over */
        } else if (n->op->traits & OP_COLLECTIVE) {
            k->begun[s] = under_way[owner_of(g, node_out(g, n, 0))] = (int32_t)k->count;
            k->list[k->count++] = movement_of(&costs[s], l);
            if (costs[s].way) k->places = costs[s].ranks;
        }
    }
}

static void close_course(course *k) {
    memory_free(k->list);
    memory_free(k->begun);
    memory_free(k->awaited);
}

static status open_course(course *k, const program *p, const op_cost *costs, const links *l) {
    int32_t *under_way = memory_new(p->graph.tensors.count, sizeof *under_way); /* by owner of what arrives */
    *k = (course){ .p = p,
                   .list = memory_new(p->count + 1u, sizeof *k->list),
                   .begun = memory_new(p->count + 1u, sizeof *k->begun),
                   .awaited = memory_new(p->count + 1u, sizeof *k->awaited),
                   .places = 1 };
    bool enough = under_way && k->list && k->begun && k->awaited;
    if (enough) find_movements(k, costs, l, under_way);
    memory_free(under_way);
    if (enough) return STATUS_OK;
    close_course(k);
    return status_set(STATUS_FAILED, "no memory to predict times");
}

/* ---- the same program on all places ---- */

/* A rank, or one of each group, on its way through the program. What moves does so on a lane of its own, one
 * movement after the other. */
typedef struct {
    uint32_t step, given, moved; /* the next one; movements that were begun; that are over */
    double now, lane;
    double *asked, *begins, *ends; /* by movement; asked: when it was begun */
} place;

/* At moment `now` of those that compute: what they have lost to it by then, and what is left to wait for. */
static double waited_for(const place *x, uint32_t m, double busy) {
    double begins = x->begins[m], ends = x->ends[m], now = x->now;
    if (ends <= begins) return ends > now ? ends - now : 0;
    double beside = (now < ends ? now : ends) - begins;
    double lost = beside > 0 ? busy * beside / (ends - begins) : 0;
    return now + lost < ends ? ends - now : lost;
}

/* Place `at`, until it has to wait for what is not over. `waits`: by step, or NULL. */
static bool compute(const course *k, place *x, int64_t at, double *waits) {
    uint32_t before = x->step;
    for (; x->step < k->p->count; x->step++) {
        int32_t awaited = k->awaited[x->step], begun = k->begun[x->step];
        if (awaited >= (int32_t)x->moved) break;
        double wait = awaited >= 0 ? waited_for(x, (uint32_t)awaited, busy_at(&k->list[awaited], at)) : 0;
        if (waits) waits[x->step] = wait;
        x->now += wait + k->p->steps[x->step].seconds;
        if (begun >= 0) x->asked[x->given++] = x->now;
    }
    return x->step > before;
}

/* Whose next movement is the same as that of place `at`: of places [first, last] those two, or all between.
 */
typedef struct {
    int64_t first, last;
} company;

static company company_of(const movement *m, int64_t at, int64_t places) {
    company alone = { at, at }, all = { 0, places - 1 };
    switch (m->way) {
    case WAY_ALL: return m->together ? all : alone;
    case WAY_FROM_BEFORE: return at ? (company){ at - 1, at } : alone;
    case WAY_TO_NEXT: return at + 1 < places ? (company){ at, at + 1 } : alone;
    case WAY_AROUND: return at == 0 || at == places - 1 ? all : alone;
    case WAY_FROM_LAST: return all;
    }
    return alone;
}

/* Is this place's next movement the other half of m, as place `other` has it? */
static bool is_half(const course *k, const place *x, const movement *m) {
    if (x->moved == x->given) return false; /* it has not come so far */
    const movement *own = &k->list[x->moved];
    if (m->way == WAY_TO_NEXT) return own->way == WAY_FROM_BEFORE;
    return m->way == WAY_FROM_BEFORE ? own->way == WAY_TO_NEXT : own == m;
}

static double later(double a, double b) { return a > b ? a : b; }

static double ready(const place *x) { return later(x->asked[x->moved], x->lane); }

static void end_movement(place *x, double begins, double seconds) {
    x->begins[x->moved] = begins, x->ends[x->moved] = x->lane = begins + seconds;
    x->moved++;
}

/* The next movement of a place, where all whom it needs have come to it. */
static bool move_next(const course *k, place *all, int64_t at, int64_t places) {
    place *x = &all[at];
    if (x->moved == x->given) return false;
    const movement *m = &k->list[x->moved];
    company with = company_of(m, at, places);
    bool ends_meet = m->way == WAY_AROUND; /* the first and the last alone */
    int64_t next = ends_meet && places > 1 ? places - 1 : 1;
    double begins = ready(x), seconds = seconds_at(m, at);
    for (int64_t q = with.first; q <= with.last; q += next) {
        if (q != at && !is_half(k, &all[q], m)) return false;
        begins = later(begins, ready(&all[q]));
        seconds = later(seconds, seconds_at(&k->list[all[q].moved], q));
    }
    if (m->way && places > 1 && with.first == with.last) seconds = 0; /* it keeps what it has */
    for (int64_t q = with.first; q <= with.last; q += next) end_movement(&all[q], begins, seconds);
    return true;
}

/* The moment when the last place has come to the end of the program; `waits` are those of the first. */
static status run(const course *k, int64_t places, double *waits, double *end) {
    place *all = memory_new((size_t)places, sizeof *all);
    double *moments = memory_new((size_t)places * (k->count + 1u), 3 * sizeof *moments);
    bool goes_on = all && moments;
    *end = 0;
    for (int64_t r = 0; goes_on && r < places; r++) {
        double *own = moments + (size_t)r * 3 * (k->count + 1u);
        all[r] = (place){ .asked = own, .begins = own + k->count, .ends = own + 2 * (size_t)k->count };
    }
    while (goes_on) {
        goes_on = false;
        for (int64_t r = 0; r < places; r++) goes_on |= compute(k, &all[r], r, r ? NULL : waits);
        for (int64_t r = 0; r < places; r++) goes_on |= move_next(k, all, r, places);
    }
    for (int64_t r = 0; all && moments && r < places; r++) *end = later(*end, all[r].now);
    bool enough = all && moments;
    memory_free(moments);
    memory_free(all);
    return enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to predict times");
}

/* Of very many places some are looked at: what each further one adds is what those add. */
static status run_all(const course *k, double *waits, double *end) {
    enum { FEW = 8, SOME = 16 };
    double of_few;
    if (k->places <= SOME) return run(k, k->places, waits, end);
    TRY(run(k, FEW, waits, &of_few));
    TRY(run(k, SOME, waits, end));
    *end += (double)(k->places - SOME) * (*end - of_few) / (SOME - FEW);
    return STATUS_OK;
}

status movements_wait(const program *p, const op_cost *costs, const device_rates *rates, double *waits,
                      double *all) {
    course k;
    double end = 0, computed = 0, waited = 0;
    TRY(open_course(&k, p, costs, &rates->links));
    status result = run_all(&k, waits, &end);
    close_course(&k);
    for (uint32_t s = 0; s < p->count; s++) computed += p->steps[s].seconds, waited += waits[s];
    /* What the last place is behind the first at the end is waited for in whatever comes next. */
    double behind = k.places > 1 ? end - computed - waited : 0;
    if (p->count && behind > 0) waits[p->count - 1] += behind;
    *all = waited + (behind > 0 ? behind : 0);
    return result;
}
