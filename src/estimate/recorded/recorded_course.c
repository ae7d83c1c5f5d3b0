#include "estimate/recorded/recorded_course.h"

#include <string.h>

#include "base/memory.h"
#include "estimate/recorded/recorded_regions.h"

typedef struct {
    recorded_holds holds;
    recorded_course *out;
    const recording_program *p;
    const recorded_again *again;
    uint32_t *operand_of, *event_of; /* by call: where its operands begin, and the events behind it */
    /* Which die behind a call of the step, and of what is run again: lists that are linked by `next`, 0 at
     * the end. Storages are those of the course. */
    uint32_t *dies, *dies_again, *next;
    uint32_t *begins, *next_region; /* regions that are run again behind a call; likewise */
    uint32_t *until;                /* by storage of the program: held to behind which call */
    /* Results that stay (recorded_again.saves): by call the region that finds them when it is run again, 0:
     * none does; by storage of such a call how long it is held beside what that region does with it. */
    uint32_t *finder, *beside;
    bool failed;
} weaving;

static uint32_t most_of(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void put(weaving *w, int64_t event) {
    recording_column *e = &w->out->events;
    if (e->count == e->room) {
        uint32_t more = e->room ? 2 * e->room : 1024;
        void *grown = more > e->room ? memory_resize(e->of, more, sizeof *e->of) : NULL;
        if (!grown) {
            w->failed = true;
            return;
        }
        e->of = grown, e->room = more;
    }
    e->of[e->count++] = event;
}

/* ---- who holds what, to when ---- */

static void die(weaving *w, uint32_t *dies, uint32_t call, uint32_t storage) {
    if (call == RECORDED_NEVER) return;
    w->next[storage] = dies[call], dies[call] = storage;
}

static void put_dead(weaving *w, uint32_t *dies, uint32_t call) {
    for (uint32_t i = dies[call]; i; i = w->next[i]) put(w, -(int64_t)i);
    dies[call] = 0;
}

static void hold(weaving *w, uint32_t storage, uint32_t call) {
    w->until[storage] = most_of(w->until[storage], call);
}

static bool made_in(const weaving *w, const recorded_region *g, uint32_t storage) {
    uint32_t born = w->holds.born[storage];
    return g->first <= born && born <= g->last;
}

/* What a region reads that was not made in it is held. */
static void hold_given(weaving *w, const recorded_region *g, uint32_t call) {
    for (uint32_t c = g->first; c <= g->last; c++) {
        const int64_t *operands = w->p->operands.of + w->operand_of[c];
        for (int64_t k = 0; k < w->p->reads.of[c - 1]; k++)
            if (!made_in(w, g, (uint32_t)operands[k])) hold(w, (uint32_t)operands[k], call);
    }
}

/* The region that lets go of what is saved there, for it is run again; 0: none. */
static uint32_t lets_go(const weaving *w, uint32_t region) {
    while (region && !w->holds.regions[region].end) region = w->holds.regions[region].parent;
    return region;
}

/* ---- results that stay ---- */

static bool saves(const weaving *w, const recorded_region *g, uint32_t call) {
    return g->end && w->again->saves[g->block] & recorded_kind_bit(w->again->kind_of[call]);
}

/* The innermost region that comes to the call when it is run again finds what it made. Those that stop before
 * have it to their end. */
static void keep_results(weaving *w, uint32_t call, uint32_t region) {
    uint32_t end = 0;
    for (uint32_t n = region; n; n = w->holds.regions[n].parent) {
        const recorded_region *g = &w->holds.regions[n];
        if (!saves(w, g, call)) continue;
        if (call > g->stop)
            end = most_of(end, g->end);
        else if (!w->finder[call])
            w->finder[call] = n;
    }
    const int64_t *made = w->p->operands.of + w->operand_of[call] + w->p->reads.of[call - 1];
    for (int64_t k = 0; end && k < w->p->makes.of[call - 1]; k++)
        if (w->holds.born[made[k]] == call) hold(w, (uint32_t)made[k], end);
}

static void find_results(weaving *w) {
    const recorded_holds *h = &w->holds;
    uint32_t region = 0, next = 1;
    for (uint32_t call = 1; w->again->saves && call <= w->p->call_name.count; call++) {
        while (region && h->regions[region].last < call) region = h->regions[region].parent;
        while (next <= h->region_count && h->regions[next].first == call) region = next++;
        if (w->again->kind_of[call]) keep_results(w, call, region);
    }
}

static bool is_result(const weaving *w, uint32_t storage, uint32_t call) {
    const int64_t *made = w->p->operands.of + w->operand_of[call] + w->p->reads.of[call - 1];
    for (int64_t k = 0; k < w->p->makes.of[call - 1]; k++)
        if (made[k] == storage) return true;
    return false;
}

/* Of forward and backward themselves. What a region keeps does not count, what it was given does. */
static void find_deaths(weaving *w) {
    recorded_holds *h = &w->holds;
    for (uint32_t s = 1; s <= recording_storages(w->p); s++) w->until[s] = h->died[s];
    for (uint32_t i = 0; i < h->save_count; i++) {
        uint32_t s = h->saves[i].storage;
        h->saves[i].region = lets_go(w, h->saves[i].region);
        if (h->saves[i].region && h->born[s]) w->until[s] = h->left[s];
    }
    for (uint32_t i = 0; i < h->save_count; i++)
        if (!h->saves[i].region) hold(w, h->saves[i].storage, h->saves[i].until);
    for (uint32_t n = 1; n <= h->region_count; n++) {
        const recorded_region *g = &h->regions[n];
        if (g->end && !lets_go(w, g->parent)) hold_given(w, g, g->end);
    }
    find_results(w);
    for (uint32_t s = 1; s <= recording_storages(w->p); s++) {
        uint32_t born = h->born[s];
        if (born && w->finder[born] && is_result(w, s, born))
            w->beside[s] = w->until[s];
        else
            die(w, w->dies, w->until[s], s);
        w->until[s] = 0;
    }
}

/* ---- what is run again ---- */

/* Autograd keeps of it what it kept, and what regions within it are given: each until that is wanted. */
static void hold_again(weaving *w, uint32_t region) {
    const recorded_holds *h = &w->holds;
    for (uint32_t n = region + 1; n <= h->region_count && recorded_region_in(h, n, region); n++)
        if (h->regions[n].end && lets_go(w, h->regions[n].parent) == region)
            hold_given(w, &h->regions[n], h->regions[n].begin);
    for (uint32_t i = h->regions[region].saves; i < h->regions[region].saves_end; i++) {
        uint32_t n = h->saves[i].region, s = h->saves[i].storage;
        if (n == region || (h->regions[n].end && !made_in(w, &h->regions[n], s)))
            hold(w, s, h->saves[i].until);
    }
}

/* `copy` of a storage, which is it itself where it is a result that stayed, dies as the region has it. */
static void die_again(weaving *w, const recorded_region *g, uint32_t storage, uint32_t copy) {
    uint32_t left = w->holds.left[storage], until = most_of(w->until[storage], w->beside[storage]);
    if (until >= g->begin)
        die(w, w->dies, until, copy);
    else
        die(w, w->dies_again, left < g->stop ? left : g->stop, copy);
}

/* Storages that a call made, and those that die behind it. A call whose results stayed is not made again, nor
 * is what it has within itself. */
static void call_again(weaving *w, uint32_t region, uint32_t call) {
    const recorded_region *g = &w->holds.regions[region];
    int64_t first = (int64_t)g->depth * recording_storages(w->p);
    const recording_column *events = &w->p->events;
    for (uint32_t i = w->event_of[call]; i < events->count && events->of[i]; i++) {
        int64_t s = events->of[i];
        if (s < 0) continue;
        if (!w->finder[call]) {
            put(w, first + s);
            die_again(w, g, (uint32_t)s, (uint32_t)(first + s));
        } else if (is_result(w, (uint32_t)s, call)) {
            if (w->finder[call] == region) die_again(w, g, (uint32_t)s, (uint32_t)s);
            w->beside[s] = most_of(w->beside[s], w->until[s]);
        }
    }
    put_dead(w, w->dies_again, call);
}

static void run_again(weaving *w, uint32_t region) {
    const recorded_region *g = &w->holds.regions[region];
    hold_again(w, region);
    for (uint32_t call = g->first; call <= g->stop; call++) call_again(w, region, call);
    memset(w->until, 0, ((size_t)recording_storages(w->p) + 1) * sizeof *w->until);
}

/* ---- the course ---- */

/* What dropout drew from is kept for each region to the end of its backward. Returns the next region that has
 * not begun. */
static uint32_t keep_draws(weaving *w, uint32_t call, uint32_t region) {
    const recorded_holds *h = &w->holds;
    uint32_t draws = (1 + w->out->depth) * recording_storages(w->p);
    for (; region <= h->region_count && h->regions[region].first == call + 1; region++) {
        if (!h->regions[region].end) continue;
        put(w, draws + region);
        die(w, w->dies, h->regions[region].end, draws + region);
    }
    return region;
}

static void weave(weaving *w) {
    const recording_column *events = &w->p->events;
    uint32_t calls = w->p->call_name.count, region = 1;
    for (uint32_t call = 0; call <= calls && !w->failed; call++) {
        if (call) put(w, 0);
        for (uint32_t i = w->event_of[call]; i < events->count && events->of[i]; i++)
            if (events->of[i] > 0) put(w, events->of[i]);
        put_dead(w, w->dies, call);
        region = keep_draws(w, call, region);
        for (uint32_t n = w->begins[call]; n; n = w->next_region[n]) run_again(w, n);
        put_dead(w, w->dies, call);
    }
}

static void index_calls(weaving *w) {
    uint32_t call = 0, at = 0;
    for (uint32_t i = 0; i < w->p->events.count; i++)
        if (!w->p->events.of[i]) w->event_of[++call] = i + 1;
    for (call = 1; call <= w->p->call_name.count; call++) {
        w->operand_of[call] = at;
        at += (uint32_t)(w->p->reads.of[call - 1] + w->p->makes.of[call - 1]);
    }
    for (uint32_t n = w->holds.region_count; n; n--) {
        const recorded_region *g = &w->holds.regions[n];
        if (!g->end) continue;
        w->next_region[n] = w->begins[g->begin];
        w->begins[g->begin] = n;
    }
}

static status open_weaving(weaving *w) {
    size_t calls = (size_t)w->p->call_name.count + 2, storages = (size_t)recording_storages(w->p) + 1;
    w->operand_of = memory_new(calls, sizeof *w->operand_of);
    w->event_of = memory_new(calls, sizeof *w->event_of);
    w->dies = memory_new(calls, sizeof *w->dies);
    w->dies_again = memory_new(calls, sizeof *w->dies_again);
    w->begins = memory_new(calls, sizeof *w->begins);
    w->next = memory_new((size_t)recorded_course_storages(w->out) + 1, sizeof *w->next);
    w->next_region = memory_new((size_t)w->holds.region_count + 1, sizeof *w->next_region);
    w->until = memory_new(storages, sizeof *w->until);
    w->finder = memory_new(calls, sizeof *w->finder);
    w->beside = memory_new(storages, sizeof *w->beside);
    bool made = w->operand_of && w->event_of && w->dies && w->dies_again && w->begins && w->next &&
                w->next_region && w->until && w->finder && w->beside;
    return made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to estimate");
}

static void close_weaving(weaving *w) {
    void *const all[] = { w->operand_of, w->event_of,    w->dies,  w->dies_again, w->next,
                          w->begins,     w->next_region, w->until, w->finder,     w->beside };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) memory_free(all[i]);
    recorded_holds_close(&w->holds);
}

/* Each region looks through storages: 126 blocks of 405 billion weights through some 10 million together. */
static const double most_work = 4e9;

static status check_work(const recording *r, const recording_program *p, double regions, double depth) {
    double events = (double)p->events.count, storages = recording_storages(p);
    if (regions * storages + depth * events <= most_work && (1 + depth) * storages < INT32_MAX / 2)
        return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--gradient-checkpointing: %.0f calls of modules in a step of %s with %u events and %u "
                      "tensors are more than a step has",
                      regions, r->model, p->events.count, recording_storages(p));
}

static status compute_again(const recording *r, weaving *w) {
    TRY(check_work(r, w->p, w->out->blocks, 1));
    TRY(recorded_holds_find(w->p, w->again->block_of, r->autocast && *r->autocast, &w->holds));
    w->out->blocks = w->holds.region_count;
    if (w->holds.depth > 1) w->out->depth = w->holds.depth;
    TRY(check_work(r, w->p, w->holds.region_count, w->out->depth));
    TRY(open_weaving(w));
    index_calls(w);
    find_deaths(w);
    weave(w);
    return STATUS_OK;
}

static status note_forward(recorded_course *c) {
    const recording_program *p = c->program;
    uint32_t call = 0, storages = recording_storages(p);
    c->by_forward = memory_new((1 + c->depth) * (size_t)storages + 1, sizeof *c->by_forward);
    if (!c->by_forward) return status_set(STATUS_FAILED, "no memory to estimate");
    for (uint32_t i = 0; i < p->events.count; i++) {
        int64_t e = p->events.of[i];
        call += !e;
        for (uint32_t k = 0; e > 0 && k <= c->depth; k++)
            c->by_forward[e + (int64_t)k * storages] = p->phase.of[call - 1] == RECORDING_FORWARD;
    }
    return STATUS_OK;
}

status recorded_course_weave(const recording *r, const recording_program *p, const recorded_again *again,
                             recorded_course *c) {
    *c = (recorded_course){ .program = p, .blocks = again->blocks, .depth = 1 };
    weaving w = { .p = p, .again = again, .out = c };
    status result = STATUS_OK;
    if (again->blocks) result = compute_again(r, &w);
    for (uint32_t i = 0; !again->blocks && i < p->events.count; i++) put(&w, p->events.of[i]);
    if (result == STATUS_OK && w.failed) result = status_set(STATUS_FAILED, "no memory to estimate");
    if (result == STATUS_OK) result = note_forward(c);
    close_weaving(&w);
    return result;
}

/* By storage, what of it is there: it was made in forward, and its block keeps it. */
enum { WAS_MADE = 1, IS_KEPT = 2 };

/* False: the call changes in place what is kept, or keeps what it changes. */
static bool leaves_results(const recording_program *p, const int64_t *made, int64_t count, bool keeps,
                           uint8_t *there) {
    for (int64_t k = 0; k < count; k++) {
        bool own = p->role.of[made[k] - 1] == RECORDING_MADE && !there[made[k]];
        if (!own && (keeps || there[made[k]] & IS_KEPT)) return false;
        there[made[k]] |= WAS_MADE | (keeps ? IS_KEPT : 0);
    }
    return true;
}

/* PyTorch refuses to find a result that was changed in the meantime. */
static status check_unchanged(const recording *r, const recording_program *p, const recorded_again *a) {
    uint8_t *there = memory_new((size_t)recording_storages(p) + 1, sizeof *there);
    status result = there ? STATUS_OK : status_set(STATUS_FAILED, "no memory to estimate");
    uint32_t at = 0;
    for (uint32_t call = 1; result == STATUS_OK && call <= p->call_name.count; call++) {
        uint32_t module = (uint32_t)p->module.of[call - 1], block = a->block_of[module];
        bool keeps = block && a->saves[block] & recorded_kind_bit(a->kind_of[call]);
        const int64_t *made = p->operands.of + at + p->reads.of[call - 1];
        at += (uint32_t)(p->reads.of[call - 1] + p->makes.of[call - 1]);
        if (p->phase.of[call - 1] == RECORDING_FORWARD &&
            !leaves_results(p, made, p->makes.of[call - 1], keeps, there))
            result = status_set(STATUS_INVALID,
                                "--checkpoint-saves: in module '%s' %s changes in place what was to be kept, "
                                "which PyTorch refuses; leave the operation out whose result that is",
                                r->modules.of[module], p->strings.of[p->call_name.of[call - 1]]);
    }
    memory_free(there);
    return result;
}

/* All blocks save the same. */
static status weave_saving(const recording *r, const recording_program *p, recorded_again *a,
                           const char *words, recorded_course *c) {
    recorded_kinds kinds;
    uint64_t set;
    recorded_kinds_find(r, &kinds);
    TRY(recorded_kinds_read(&kinds, words, &set));
    uint8_t *kind_of = recorded_kinds_of(&kinds, p);
    uint64_t *saves = memory_new((size_t)a->blocks + 1, sizeof *saves);
    status result = kind_of && saves ? STATUS_OK : status_set(STATUS_FAILED, "no memory to estimate");
    for (uint32_t i = 1; saves && i <= a->blocks; i++) saves[i] = set;
    a->kind_of = kind_of, a->saves = saves;
    if (result == STATUS_OK) result = check_unchanged(r, p, a);
    if (result == STATUS_OK) result = recorded_course_weave(r, p, a, c);
    memory_free(kind_of);
    memory_free(saves);
    return result;
}

status recorded_course_find(const recording *r, const recording_program *p, bool again, const char *saves,
                            recorded_course *c) {
    *c = (recorded_course){ .program = p, .depth = 1 };
    recorded_again a = { 0 };
    if (!again) return recorded_course_weave(r, p, &a, c);
    uint32_t *block_of = memory_new((size_t)r->modules.count + 1, sizeof *block_of);
    if (!block_of) return status_set(STATUS_FAILED, "no memory to estimate");
    a.block_of = block_of, a.blocks = recorded_blocks_again(r, block_of);
    status result = saves && *saves ? weave_saving(r, p, &a, saves, c) : recorded_course_weave(r, p, &a, c);
    memory_free(block_of);
    return result;
}

void recorded_course_close(recorded_course *c) {
    memory_free(c->events.of);
    memory_free(c->by_forward);
    *c = (recorded_course){ 0 };
}
