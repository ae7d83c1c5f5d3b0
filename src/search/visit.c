#include "search/visit.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/threads.h"
#include "chain/known.h"

/* A failure that says nothing of the choice: no memory for a table, or a mistake of ours. It ends the visit.
 */
typedef struct {
    bool any;
    char sentence[480];
} visit_failure;

typedef struct {
    const visit *v;
    compose_stem *stems;     /* the open ones */
    compose_trunk *trunks;   /* by thread */
    sketcher *sketchers;     /* by thread; they open stems of their own */
    uint32_t *first;         /* by stem: its first index in the list; the last entry is the list's length */
    compose_least *found;    /* by thread: smallest peak and largest tables, for v->memory */
    uint32_t begin, open;    /* the first open stem, and how many are open */
    uint32_t at, end;        /* the indexes of this round: [at, end) */
    uint32_t workers;        /* threads that work on them */
    bool tight;              /* there is no memory for one candidate more */
    uint32_t kept;           /* graphs that a thread keeps, */
    uint32_t each;           /* and the candidates whose memory it takes with them */
    visit_failure *failures; /* by thread */
    uint32_t batch; /* so many indexes in a row go to one thread: their graphs grow from each other's */
} walk;

static _Atomic uint64_t looked_at;

uint64_t visit_looked_at(void) { return atomic_load_explicit(&looked_at, memory_order_relaxed); }

/* A graph that takes more memory than a candidate within reach may is not built to its end. */
static void limit_graphs(const visit *v) {
    const compose_reach *r = &v->reach;
    uint64_t most = r->peak_bytes > r->budget ? r->peak_bytes : r->budget;
    if (compose_apart(v->run)) most = UINT64_MAX;
    if (v->run->memory && v->run->memory < most) most = v->run->memory;
    graph_room none = { 0 }, room = plan_graph_room(most);
    graph_limit(most < UINT64_MAX ? &room : &none);
}

/* `refused`: what memory_refused() was before. What cannot be planned is no failure of the visit. */
static void note_failure(const walk *w, int thread, status result, uint64_t refused) {
    visit_failure *f = &w->failures[thread];
    if (f->any || (result != STATUS_FAILED && memory_refused() == refused)) return;
    f->any = true;
    snprintf(f->sentence, sizeof f->sentence, "%s",
             result == STATUS_FAILED ? status_message() : "there is no memory to look for a plan");
}

static void open_stem(void *context, int64_t index, int thread) {
    const walk *w = context;
    compose_choice c;
    uint64_t refused = memory_refused();
    if (w->v->sketch) return;
    w->v->choice(w->v->context, w->first[w->begin + index], &c);
    /* A failure stays in the stem: all candidates of the stem fail with it. */
    limit_graphs(w->v);
    w->stems[index].made = compose_stem_open(w->v->run, &c, &w->stems[index]);
    graph_limit(&(graph_room){ 0 });
    note_failure(w, thread, w->stems[index].made, refused);
}

static status planned(const visit *v, const compose_choice *c, compose_trunk *trunk, compose_least *found) {
    plan p;
    *found = (compose_least){ 0 };
    TRY(compose_plan_on(v->run, c, trunk, &p));
    found->peak_bytes = p.peak_bytes;
    found->away_bytes = plan_away_bytes(&p);
    found->seconds = compose_seconds(v->run, &p);
    found->table_bytes = p.table_bytes;
    plan_close(&p);
    return STATUS_OK;
}

static void remember(compose_least *all, const compose_least *found) {
    if (found->table_bytes > all->table_bytes) all->table_bytes = found->table_bytes;
    if (found->peak_bytes && !found->given_up && found->peak_bytes < all->peak_bytes)
        all->peak_bytes = found->peak_bytes;
}

static status outlined(const walk *w, const compose_choice *c, const compose_reach *reach, int thread,
                       compose_least *found) {
    if (!w->v->sketch) return compose_bound(w->v->run, c, &w->trunks[thread], reach, found);
    w->sketchers[thread].most = w->kept;
    return sketch_bound(&w->sketchers[thread], w->v->run, c, reach, found);
}

static void look_at_batch(const walk *w, uint32_t batch, int thread) {
    const visit *v = w->v;
    compose_trunk *trunk = &w->trunks[thread];
    compose_reach reach = v->reach;
    reach.context = v->context;
    limit_graphs(v);
    uint32_t at = w->at + batch * w->batch, last = at + w->batch < w->end ? at + w->batch : w->end;
    for (uint32_t stem = w->begin; at < last; at++) {
        compose_choice c;
        while (w->first[stem + 1] <= at) stem++;
        if (trunk->stem != &w->stems[stem - w->begin]) compose_trunk_close(trunk);
        trunk->stem = &w->stems[stem - w->begin];
        trunk->most = w->kept;
        v->choice(v->context, at, &c);
        reach.index = at;
        compose_least found;
        uint64_t refused = memory_refused();
        status result = v->plan ? planned(v, &c, trunk, &found) : outlined(w, &c, &reach, thread, &found);
        note_failure(w, thread, result, refused);
        if (result != STATUS_OK) found = (compose_least){ 0 };
        remember(&w->found[thread], &found);
        v->take(v->context, at, &found);
        atomic_fetch_add_explicit(&looked_at, 1, memory_order_relaxed);
    }
    graph_limit(&(graph_room){ 0 });
}

static uint32_t batches_of(const walk *w) { return (w->end - w->at + w->batch - 1) / w->batch; }

static void look_at(void *context, int64_t index, int thread) {
    look_at_batch(context, (uint32_t)index, thread);
}

/* With fewer workers than threads: worker k takes batches k, k + workers, k + 2 workers, ... */
static void look_at_some(void *context, int64_t index, int thread) {
    const walk *w = context;
    for (uint32_t b = (uint32_t)index; b < batches_of(w); b += w->workers) look_at_batch(w, b, thread);
}

/* How many candidates there is memory for at once. The plan that is chosen takes at least least_peak, and no
 * more than there is; the largest of what comes may be half as large again as what has been seen. Of the
 * first nothing is known: it is looked at alone. */
static uint64_t room_for(const visit *v) {
    const visit_memory *m = v->memory;
    uint64_t each = plan_making_bytes(m->table_bytes + m->table_bytes / 2),
             code = device_runtime_reserve(0).code + known_bytes(v->run),
             most = compose_apart(v->run) ? UINT64_MAX : m->least_peak;
    if (v->run->memory && v->run->memory < most) most = v->run->memory;
    if (v->run->room && v->run->room < most) most = v->run->room;
    return each && most > code + each ? (most - code) / each : 1;
}

/* Looks at the indexes [at, end), all of open stems. */
static void look_at_all(walk *w) {
    enum { ROUNDS = 8, MOST_IN_A_ROW = 8 }; /* several rounds a thread, so that all end at about one time */
    uint32_t threads = (uint32_t)threads_count(), count = w->end - w->at;
    visit_memory *m = w->v->memory;
    w->batch = count / (threads * ROUNDS);
    w->batch = w->batch < 1 ? 1 : w->batch > MOST_IN_A_ROW ? MOST_IN_A_ROW : w->batch;
    for (uint32_t t = 0; t < threads; t++) w->found[t] = (compose_least){ .peak_bytes = UINT64_MAX };
    if (w->workers == 1)
        look_at_some(w, 0, 0); /* on this thread: others would keep what they have freed */
    else if (w->workers < threads)
        threads_for(w->workers, look_at_some, w);
    else
        threads_for(batches_of(w), look_at, w);
    for (uint32_t t = 0; t < threads; t++) {
        compose_trunk_close(&w->trunks[t]);
        sketch_close(&w->sketchers[t]);
        if (w->found[t].table_bytes > m->table_bytes) m->table_bytes = w->found[t].table_bytes;
        if (w->found[t].peak_bytes < m->least_peak) m->least_peak = w->found[t].peak_bytes;
    }
}

/* How many threads work, and how many graphs they keep for what comes next. Two are part of a candidate; more
 * than these take no more than two candidates do. */
static void share_room(walk *w) {
    enum { FEW = 2, RICH = 3 };
    uint64_t room = room_for(w->v);
    uint32_t threads = (uint32_t)threads_count();
    w->workers = room < threads ? (uint32_t)room : threads;
    w->tight = room <= threads;
    w->each = room >= (uint64_t)RICH * threads && w->v->memory->table_bytes ? RICH : 1;
    w->kept = w->tight ? 1 : w->each == RICH ? COMPOSE_KEPT : FEW;
}

/* Looks at the next stems, as many as there are workers. The very first time it looks at one candidate alone,
 * which tells how much memory a candidate takes. */
static void next_stems(walk *w, uint32_t left) {
    visit_memory *m = w->v->memory;
    share_room(w);
    w->open = left < w->workers ? left : w->workers;
    if (w->open == 1)
        open_stem(w, 0, 0);
    else
        threads_for(w->open, open_stem, w);
    w->end = m->table_bytes ? w->first[w->begin + w->open] : w->at + 1;
    look_at_all(w);
    for (uint32_t s = 0; s < w->open; s++) compose_stem_close(&w->stems[s]);
    if (w->tight) memory_trim(); /* what is kept for later counts */
    w->at = w->end;
    uint64_t held = device_runtime_reserve(0).code + known_bytes(w->v->run) +
                    w->workers * w->each * plan_making_bytes(m->table_bytes);
    if (held > m->held) m->held = held;
    for (; w->open && w->first[w->begin + 1] <= w->at; w->open--) w->begin++;
}

static uint32_t find_stems(const visit *v, uint32_t count, uint32_t *first) {
    uint32_t stems = 0;
    compose_choice c[2];
    for (uint32_t i = 0; i < count; i++) {
        v->choice(v->context, i, &c[i % 2]);
        if (!i || !compose_same_stem(&c[0], &c[1])) first[stems++] = i;
    }
    first[stems] = count;
    return stems;
}

static status first_failure(const walk *w) {
    for (int t = 0; t < threads_count(); t++)
        if (w->failures[t].any) return status_set(STATUS_FAILED, "%s", w->failures[t].sentence);
    return STATUS_OK;
}

status visit_all(const visit *v, uint32_t count) {
    uint32_t threads = (uint32_t)threads_count();
    walk w = { .v = v,
               .stems = memory_new(threads, sizeof *w.stems),
               .trunks = memory_new(threads, sizeof *w.trunks),
               .sketchers = memory_new(threads, sizeof *w.sketchers),
               .found = memory_new(threads, sizeof *w.found),
               .failures = memory_new(threads, sizeof *w.failures),
               .first = memory_room(count + 1u, sizeof *w.first) };
    bool enough = w.stems && w.trunks && w.sketchers && w.found && w.failures && w.first;
    status result = enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to search");
    uint32_t stems = enough && count ? find_stems(v, count, w.first) : 0;
    while (w.begin < stems && result == STATUS_OK) {
        next_stems(&w, stems - w.begin);
        result = first_failure(&w);
    }
    memory_free(w.stems);
    memory_free(w.trunks);
    memory_free(w.sketchers);
    memory_free(w.found);
    memory_free(w.failures);
    memory_free(w.first);
    return result;
}
