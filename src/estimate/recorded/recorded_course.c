#include "estimate/recorded/recorded_course.h"

#include <string.h>

#include "base/memory.h"

/* ---- blocks ---- */

static bool is_list(const char *class) {
    return strcmp(class, "ModuleList") == 0 || strcmp(class, "Sequential") == 0;
}

/* "h.3" is an item of "h"; `item` begins behind the dot. */
static bool is_item(const char *list, const char *module) {
    size_t n = strlen(list);
    if (strncmp(list, module, n) != 0 || (n && module[n] != '.')) return false;
    const char *item = module + n + (n > 0);
    return *item && !strchr(item, '.');
}

static bool is_within(const char *outer, const char *module) {
    size_t n = strlen(outer);
    return n ? strncmp(outer, module, n) == 0 && module[n] == '.' : *module != 0;
}

/* Two items of one class or more: what repeats. Modules stand behind the list that has them. A model that is
 * a list itself has all others within it, so all its items must be of one class. */
static bool repeats(const recording *r, uint32_t list) {
    const char *first = NULL;
    uint32_t alike = 0, items = 0;
    for (uint32_t i = list + 1; i < r->modules.count && is_within(r->modules.of[list], r->modules.of[i]);
         i++) {
        if (!is_item(r->modules.of[list], r->modules.of[i])) continue;
        if (!first) first = r->classes.of[i];
        items++;
        alike += strcmp(first, r->classes.of[i]) == 0;
    }
    return alike >= 2 && (*r->modules.of[list] || alike == items);
}

uint32_t recorded_blocks(const recording *r, uint32_t *block_of) {
    uint32_t count = 0, list = 0;
    bool in_list = false;
    memset(block_of, 0, r->modules.count * sizeof *block_of);
    for (uint32_t i = 0; i < r->modules.count; i++) {
        const char *name = r->modules.of[i];
        in_list &= is_within(r->modules.of[list], name);
        if (!in_list) {
            in_list = is_list(r->classes.of[i]) && repeats(r, i);
            list = i;
        } else if (is_item(r->modules.of[list], name)) {
            block_of[i] = ++count;
        } else {
            block_of[i] = count;
        }
    }
    return count;
}

uint32_t recorded_block_of_name(const recording *r, const uint32_t *block_of, const char *weight) {
    uint32_t found = 0;
    for (uint32_t m = 1; m < r->modules.count; m++)
        if (block_of[m] && is_within(r->modules.of[m], weight)) found = block_of[m];
    return found;
}

/* ---- what of a storage happens when ---- */

enum { NEVER = UINT32_MAX };

typedef struct {
    const recording_program *p;
    recorded_course *out;
    uint32_t *block_of;    /* by module */
    uint32_t *born, *died; /* by storage: the call that made it; the call behind which it dies */
    uint32_t *read;        /* the last call of forward that reads it */
    uint32_t *block;       /* of the call that made it */
    bool *outside;         /* forward reads it outside of that block */
    bool *again;           /* it is made again */
    bool *cached;          /* autocast's copy of a weight, which it holds until forward is over */
    uint32_t *until; /* what a block reads stays until its forward was run again: the call before which */
    uint32_t *backward, *last;  /* by block: its first call of backward; the last storage that it wants */
    uint32_t *from, *from_call; /* by block: the event that makes its first storage, and the call of it */
    uint32_t *made, *next_made; /* by block: what its forward makes, as a list of storages; 0 ends */
    uint32_t *ends, *next_end;  /* by call: what stays until it, likewise */
    bool *entered;              /* by block: its forward has begun */
    uint32_t current;           /* block that backward is in */
    bool casts;                 /* it was recorded under autocast */
    bool failed;
} weaving;

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

static uint32_t block_of_call(const weaving *w, uint32_t call) {
    return w->block_of[w->p->module.of[call - 1]];
}
static bool is_forward(const weaving *w, uint32_t call) {
    return w->p->phase.of[call - 1] == RECORDING_FORWARD;
}

static void note_events(weaving *w) {
    uint32_t call = 0;
    for (uint32_t i = 1; i <= recording_storages(w->p); i++) w->died[i] = NEVER;
    for (uint32_t i = 0; i < w->p->events.count; i++) {
        int64_t e = w->p->events.of[i];
        if (!e) call++;
        if (e < 0) w->died[-e] = call;
        if (e < 0 || !e || !is_forward(w, call)) continue;
        uint32_t block = w->block[e] = block_of_call(w, call);
        w->born[e] = call;
        if (!w->from_call[block]) w->from[block] = i, w->from_call[block] = call;
    }
}

static void note_copies(weaving *w, uint32_t call, const int64_t *operands) {
    const char *name = w->p->strings.of[w->p->call_name.of[call - 1]];
    bool of_weight = w->p->reads.of[call - 1] > 0 && w->p->makes.of[call - 1] > 0 &&
                     w->p->role.of[operands[0] - 1] == RECORDING_PARAMETER;
    if (w->casts && of_weight && is_forward(w, call) && strncmp(name, "_to_copy", 8) == 0)
        w->cached[operands[w->p->reads.of[call - 1]]] = true;
}

static void note_calls(weaving *w) {
    uint32_t at = 0;
    for (uint32_t call = 1; call <= w->p->call_name.count; call++) {
        int64_t reads = w->p->reads.of[call - 1], block = block_of_call(w, call);
        note_copies(w, call, w->p->operands.of + at);
        for (int64_t k = 0; k < reads; k++) {
            int64_t s = w->p->operands.of[at + k];
            if (!is_forward(w, call)) continue;
            w->read[s] = call;
            if (w->born[s] && w->block[s] != block) w->outside[s] = true;
        }
        at += (uint32_t)(reads + w->p->makes.of[call - 1]);
        bool backward = w->p->phase.of[call - 1] == RECORDING_BACKWARD;
        if (backward && block && !w->backward[block]) w->backward[block] = call;
    }
}

/* What was made in a block and lives beyond forward for its own backward. */
static void choose(weaving *w) {
    for (uint32_t s = 1; s <= recording_storages(w->p); s++) {
        uint32_t b = w->block[s];
        if (!b || !w->backward[b] || w->outside[s] || w->died[s] == NEVER || w->died[s] < w->backward[b])
            continue;
        w->again[s] = true;
        w->last[b] = s;
    }
}

/* What a block reads of others must be there when it is run again. */
static void extend(weaving *w) {
    uint32_t at = 0;
    for (uint32_t call = 1; call <= w->p->call_name.count; call++) {
        int64_t reads = w->p->reads.of[call - 1];
        uint32_t block = block_of_call(w, call), need = block ? w->backward[block] : 0;
        for (int64_t k = 0; k < reads && is_forward(w, call) && need; k++) {
            int64_t s = w->p->operands.of[at + k];
            if (w->block[s] != block && w->born[s] && w->died[s] < need && w->until[s] < need &&
                w->last[block])
                w->until[s] = need;
        }
        at += (uint32_t)(reads + w->p->makes.of[call - 1]);
    }
}

static void list(weaving *w) {
    for (uint32_t s = recording_storages(w->p); s > 0; s--) {
        uint32_t block = w->block[s], call = w->until[s];
        if (block) w->next_made[s] = w->made[block], w->made[block] = s;
        if (call) w->next_end[s] = w->ends[call], w->ends[call] = s;
    }
}

/* ---- the course ---- */

/* Forward of a block once more, up to the last storage that its backward wants. */
static void run_again(weaving *w, uint32_t block) {
    int64_t count = recording_storages(w->p);
    uint32_t call = w->from_call[block];
    bool done = !w->last[block];
    for (uint32_t i = w->from[block]; i < w->p->events.count && !done; i++) {
        int64_t e = w->p->events.of[i], s = e < 0 ? -e : e;
        if (!e) call++;
        if (!e && !is_forward(w, call)) break;
        if (!e || w->block[s] != block || (e < 0 && w->again[s])) continue;
        put(w, e < 0 ? e - count : e + count);
        done = e > 0 && (uint32_t)e == w->last[block];
    }
    /* what it made beside, and what only others read */
    for (uint32_t s = w->made[block]; s; s = w->next_made[s])
        if (!w->again[s]) put(w, -(int64_t)s - count);
}

static void end_extended(weaving *w, uint32_t call) {
    for (uint32_t s = w->ends[call]; s; s = w->next_end[s]) put(w, -(int64_t)s);
}

/* Storages that a call reads or makes for the last time before backward. */
static void end_early(weaving *w, uint32_t call, uint32_t first_operand) {
    int64_t operands = w->p->reads.of[call - 1] + w->p->makes.of[call - 1];
    for (int64_t k = 0; k < operands; k++) {
        int64_t s = w->p->operands.of[first_operand + k];
        if (w->again[s] && !w->cached[s] && (w->read[s] > w->born[s] ? w->read[s] : w->born[s]) == call)
            put(w, -s);
    }
}

static void end_cached(weaving *w, uint32_t call) {
    bool over = !is_forward(w, call) && (call == 1 || is_forward(w, call - 1));
    for (uint32_t s = 1; over && s <= recording_storages(w->p); s++)
        if (w->cached[s] && w->again[s]) put(w, -(int64_t)s);
}

/* What dropout drew from is kept for each block from its forward to the end of its backward. */
static void keep_draws(weaving *w, uint32_t call, uint32_t block) {
    int64_t first = 2 * (int64_t)recording_storages(w->p);
    if (is_forward(w, call) && block && w->backward[block] && !w->entered[block]) {
        w->entered[block] = true;
        put(w, first + block);
    }
    bool again = block && w->backward[block] == call, over = w->p->phase.of[call - 1] == RECORDING_UPDATE;
    if ((again || over) && w->current) put(w, -first - w->current);
    if (again || over) w->current = over ? 0 : block;
}

static void weave(weaving *w) {
    int64_t count = recording_storages(w->p);
    uint32_t call = 0, at = 0;
    for (uint32_t i = 0; i < w->p->events.count && !w->failed; i++) {
        int64_t e = w->p->events.of[i];
        if (!e && call) {
            if (is_forward(w, call)) end_early(w, call, at);
            at += (uint32_t)(w->p->reads.of[call - 1] + w->p->makes.of[call - 1]);
        }
        if (!e) {
            uint32_t block = block_of_call(w, ++call);
            end_cached(w, call);
            keep_draws(w, call, block);
            if (block && w->backward[block] == call) {
                run_again(w, block);
                end_extended(w, call);
            }
        }
        if (e >= 0)
            put(w, e);
        else if (w->again[-e])
            put(w, e - count);
        else if (!w->until[-e])
            put(w, e);
    }
}

static status open_weaving(weaving *w, const recording *r) {
    size_t storages = (size_t)recording_storages(w->p) + 1, modules = (size_t)r->modules.count + 1;
    w->block_of = memory_new(modules, sizeof *w->block_of);
    w->backward = memory_new(modules, sizeof *w->backward);
    w->last = memory_new(modules, sizeof *w->last);
    w->entered = memory_new(modules, sizeof *w->entered);
    w->born = memory_new(storages, sizeof *w->born);
    w->died = memory_new(storages, sizeof *w->died);
    w->read = memory_new(storages, sizeof *w->read);
    w->block = memory_new(storages, sizeof *w->block);
    w->until = memory_new(storages, sizeof *w->until);
    w->outside = memory_new(storages, sizeof *w->outside);
    w->again = memory_new(storages, sizeof *w->again);
    w->cached = memory_new(storages, sizeof *w->cached);
    w->made = memory_new(modules, sizeof *w->made);
    w->next_made = memory_new(storages, sizeof *w->next_made);
    w->ends = memory_new((size_t)w->p->call_name.count + 1, sizeof *w->ends);
    w->next_end = memory_new(storages, sizeof *w->next_end);
    w->from = memory_new(modules, sizeof *w->from);
    w->from_call = memory_new(modules, sizeof *w->from_call);
    w->casts = r->autocast && *r->autocast;
    bool made = w->block_of && w->backward && w->last && w->born && w->died && w->read && w->block &&
                w->until && w->outside && w->again && w->cached && w->entered && w->from && w->from_call;
    return made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to estimate");
}

static void close_weaving(weaving *w) {
    void *const all[] = { w->block_of, w->backward,  w->last,    w->born,      w->died,   w->read,
                          w->block,    w->until,     w->outside, w->again,     w->cached, w->entered,
                          w->from,     w->from_call, w->made,    w->next_made, w->ends,   w->next_end };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) memory_free(all[i]);
}

/* Each block looks through all events and storages; 126 blocks of 405 billion weights have some 10 million of
 * them together. */
static const double most_work = 4e9;

static status compute_again(weaving *w, const recording *r) {
    if (!w->out->blocks)
        return status_set(STATUS_INVALID,
                          "--gradient-checkpointing: %s has no list of modules of one class, so nothing says "
                          "which are to be computed again; record it with torch.utils.checkpoint in it",
                          r->model);
    uint32_t storages = recording_storages(w->p);
    if (w->out->blocks * ((double)w->p->events.count + storages) > most_work)
        return status_set(
            STATUS_INVALID,
            "--gradient-checkpointing: %u modules of a step with %u events and %u tensors are more than a "
            "step has",
            w->out->blocks, w->p->events.count, storages);
    note_calls(w);
    choose(w);
    extend(w);
    list(w);
    weave(w);
    return w->failed ? status_set(STATUS_FAILED, "no memory to estimate") : STATUS_OK;
}

/* `block_of`: modules that are computed again, each with its block; NULL: none are. */
static status find(const recording *r, const recording_program *p, const uint32_t *block_of, uint32_t blocks,
                   recorded_course *c) {
    uint32_t storages = recording_storages(p);
    *c = (recorded_course){ .program = p, .blocks = blocks };
    weaving w = { .p = p, .out = c };
    status result = open_weaving(&w, r);
    c->by_forward = memory_new(2 * (size_t)storages + 1, sizeof *c->by_forward);
    if (result == STATUS_OK && !c->by_forward) result = status_set(STATUS_FAILED, "no memory to estimate");
    if (result == STATUS_OK && block_of) memcpy(w.block_of, block_of, r->modules.count * sizeof *block_of);
    if (result == STATUS_OK) note_events(&w);
    for (uint32_t s = 1; result == STATUS_OK && s <= storages; s++)
        c->by_forward[s] = c->by_forward[s + storages] = w.born[s] > 0;
    if (result == STATUS_OK && block_of) result = compute_again(&w, r);
    for (uint32_t i = 0; result == STATUS_OK && !block_of && i < p->events.count; i++)
        put(&w, p->events.of[i]);
    if (result == STATUS_OK && w.failed) result = status_set(STATUS_FAILED, "no memory to estimate");
    close_weaving(&w);
    return result;
}

status recorded_course_weave(const recording *r, const recording_program *p, const uint32_t *block_of,
                             uint32_t blocks, recorded_course *c) {
    return find(r, p, blocks ? block_of : NULL, blocks, c);
}

status recorded_course_find(const recording *r, const recording_program *p, bool again, recorded_course *c) {
    *c = (recorded_course){ .program = p };
    uint32_t *block_of = memory_new((size_t)r->modules.count + 1, sizeof *block_of);
    if (!block_of) return status_set(STATUS_FAILED, "no memory to estimate");
    uint32_t blocks = recorded_blocks(r, block_of);
    status result = find(r, p, again ? block_of : NULL, blocks, c);
    memory_free(block_of);
    return result;
}

void recorded_course_close(recorded_course *c) {
    memory_free(c->events.of);
    memory_free(c->by_forward);
    *c = (recorded_course){ 0 };
}
