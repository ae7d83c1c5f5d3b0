/* What modules save, moved to the host: a course of events becomes another one. */
#include <string.h>

#include "base/memory.h"
#include "estimate/recorded/plan_tree.h"

enum { NOBODY = UINT32_MAX };

typedef struct {
    const plan_tree *t;
    const recording_program *p;
    recorded_course *course;
    plan_moved *out;
    recording_column events;
    uint32_t *away, *again;      /* by module: the chosen one that it lies in, from 1; 0: in none */
    uint32_t *released;          /* by storage: the call behind which it dies; 0: it stays */
    uint32_t *first, *next;      /* by call: the storages that it releases, as lists */
    uint32_t *operands;          /* by call: where its operands begin */
    uint32_t *present, presents; /* copies that are there for the node that backward is at */
    bool *copied;                /* by storage: its copy is there */
    bool failed;
} moving;

static void put(moving *m, int64_t event) {
    recording_column *e = &m->events;
    if (e->count == e->room) {
        uint32_t more = e->room ? 2 * e->room : 1024;
        void *grown = more > e->room ? memory_resize(e->of, more, sizeof *e->of) : NULL;
        if (!grown) {
            m->failed = true;
            return;
        }
        e->of = grown, e->room = more;
    }
    e->of[e->count++] = event;
}

static void note_modules(moving *m, const uint8_t *action) {
    for (uint32_t i = 0; i < m->t->recording->modules.count; i++) {
        uint32_t up = m->t->parent[i];
        m->away[i] = action[i] == PLAN_AWAY ? i + 1 : i ? m->away[up] : 0;
        m->again[i] = action[i] == PLAN_AGAIN ? i + 1 : i ? m->again[up] : 0;
    }
}

static uint32_t module_of(const moving *m, uint32_t call) { return (uint32_t)m->p->module.of[call - 1]; }

static bool is_forward(const moving *m, uint32_t call) {
    return m->p->phase.of[call - 1] == RECORDING_FORWARD;
}

/* What a module was given it has until it returns, so a storage stays for the outermost module that reads it
 * last and did not make it. */
static uint32_t last_use(const moving *m, const plan_storage *x) {
    const plan_tree *t = m->t;
    if (!x->read) return x->born;
    uint32_t reader = module_of(m, x->read);
    if (reader == x->home) return x->read;
    while (t->parent[reader] != x->home) reader = t->parent[reader];
    return t->last_call[reader];
}

/* It goes to the host where every module that saves it is one of those, and no module that is computed again
 * holds it as its input. Until its module returns it stays: the policy keeps it to know it again. */
static void note_saved(moving *m) {
    const recording_column *saved = &m->p->saved;
    for (uint32_t i = 0; i < saved->count; i += 2) {
        uint32_t unit = m->away[saved->of[i]], s = (uint32_t)saved->of[i + 1];
        const plan_storage *x = &m->t->storages[s];
        if (!unit || !plan_tree_moves(m->t, s)) continue;
        uint32_t last = m->t->last_call[unit - 1], use = x->born && x->stays ? last_use(m, x) : 0,
                 until = use && last > use ? last : use;
        if (until > m->released[s]) m->released[s] = until;
    }
    for (uint32_t i = 0; i < saved->count; i += 2)
        if (!m->away[saved->of[i]]) m->released[saved->of[i + 1]] = 0;
}

static void keep_inputs(moving *m) {
    for (uint32_t call = 1; call <= m->p->call_name.count; call++) {
        uint32_t unit = m->again[module_of(m, call)];
        for (int64_t k = 0; unit && is_forward(m, call) && k < m->p->reads.of[call - 1]; k++) {
            uint32_t s = (uint32_t)m->p->operands.of[m->operands[call] + k], born = m->t->storages[s].born;
            if (born && m->again[module_of(m, born)] != unit) m->released[s] = 0;
        }
    }
}

/* Results that a module which is computed again keeps stay with it. */
static void keep_results(moving *m, const uint64_t *keeps) {
    for (uint32_t call = 1; call <= m->p->call_name.count; call++) {
        uint32_t unit = m->again[module_of(m, call)];
        const int64_t *made = m->p->operands.of + m->operands[call] + m->p->reads.of[call - 1];
        if (!unit || !(keeps[unit - 1] & recorded_kind_bit(m->t->kind_of[call]))) continue;
        for (int64_t k = 0; k < m->p->makes.of[call - 1]; k++) m->released[made[k]] = 0;
    }
}

/* Each module copies what it saves once. */
static void count_copies(moving *m) {
    const recording_column *saved = &m->p->saved;
    uint32_t *last = m->present; /* by storage: the module that copied it last */
    for (uint32_t i = 0; i < saved->count; i += 2) {
        uint32_t unit = m->away[saved->of[i]], s = (uint32_t)saved->of[i + 1];
        if (!unit || !plan_tree_moves(m->t, s) || last[s] == unit) continue;
        last[s] = unit;
        m->out->there += (double)m->t->sizes->bytes[s], m->out->transferred++;
        m->out->host += m->t->sizes->bytes[s];
    }
    memset(last, 0, ((size_t)recording_storages(m->p) + 1) * sizeof *last);
}

static void list_released(moving *m) {
    for (uint32_t s = recording_storages(m->p); s > 0; s--) {
        uint32_t call = m->released[s];
        if (call) m->next[s] = m->first[call], m->first[call] = s;
    }
}

/* ---- backward ---- */

static uint32_t node_of(const moving *m, uint32_t call) { return (uint32_t)m->p->of.of[call - 1]; }

static void end_copies(moving *m) {
    int64_t count = recording_storages(m->p);
    for (uint32_t i = 0; i < m->presents; i++) {
        put(m, -(int64_t)m->present[i] - count);
        m->copied[m->present[i]] = false;
    }
    m->presents = 0;
}

static void copy_back(moving *m, uint32_t call) {
    for (int64_t k = 0; k < m->p->reads.of[call - 1]; k++) {
        uint32_t s = (uint32_t)m->p->operands.of[m->operands[call] + k];
        const plan_storage *x = &m->t->storages[s];
        if (x->saver == NOBODY || m->copied[s] || !plan_tree_moves(m->t, s)) continue;
        m->copied[s] = true;
        m->present[m->presents++] = s;
        put(m, (int64_t)s + recording_storages(m->p));
        m->out->back += (double)m->t->sizes->bytes[s], m->out->transferred++;
    }
}

/* A node takes back all that it saved before its first call, and lets it go behind its last one. */
static void begin_call(moving *m, uint32_t call) {
    bool goes_on = call > 1 && node_of(m, call) && node_of(m, call) == node_of(m, call - 1);
    if (goes_on) return;
    end_copies(m);
    if (m->p->phase.of[call - 1] != RECORDING_BACKWARD || !m->away[module_of(m, call)]) return;
    copy_back(m, call);
    for (uint32_t c = call + 1;
         c <= m->p->call_name.count && node_of(m, call) && node_of(m, c) == node_of(m, call); c++)
        copy_back(m, c);
}

static void walk(moving *m) {
    uint32_t call = 0;
    const recording_column *events = &m->course->events;
    for (uint32_t i = 0; i < events->count && !m->failed; i++) {
        int64_t e = events->of[i];
        bool dies = e < 0 && -e <= recording_storages(m->p) && m->released[-e];
        if (!e) {
            for (uint32_t s = call ? m->first[call] : 0; s; s = m->next[s]) put(m, -(int64_t)s);
            begin_call(m, ++call);
        }
        if (!dies) put(m, e);
    }
    end_copies(m);
}

/* ---- the whole ---- */

static status open_moving(moving *m) {
    size_t storages = (size_t)recording_storages(m->p) + 1, calls = (size_t)m->p->call_name.count + 1,
           modules = (size_t)m->t->recording->modules.count + 1;
    m->away = memory_new(modules, sizeof *m->away), m->again = memory_new(modules, sizeof *m->again);
    m->released = memory_new(storages, sizeof *m->released);
    m->first = memory_new(calls, sizeof *m->first), m->next = memory_new(storages, sizeof *m->next);
    m->operands = memory_new(calls, sizeof *m->operands);
    m->present = memory_new(storages, sizeof *m->present);
    m->copied = memory_new(storages, sizeof *m->copied);
    bool made =
        m->away && m->again && m->released && m->first && m->next && m->operands && m->present && m->copied;
    for (uint32_t c = 1, at = 0; made && c < calls; c++) {
        m->operands[c] = at;
        at += (uint32_t)(m->p->reads.of[c - 1] + m->p->makes.of[c - 1]);
    }
    return made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to plan");
}

static void close_moving(moving *m) {
    void *const all[] = { m->away,     m->again,   m->released, m->first,    m->next,
                          m->operands, m->present, m->copied,   m->events.of };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) memory_free(all[i]);
}

status plan_move(const plan_tree *t, const uint8_t *action, const uint64_t *keeps, recorded_course *course,
                 plan_moved *out) {
    moving m = { .t = t, .p = t->program, .course = course, .out = out };
    *out = (plan_moved){ 0 };
    status result = open_moving(&m);
    if (result == STATUS_OK) {
        note_modules(&m, action);
        note_saved(&m);
        keep_inputs(&m);
        keep_results(&m, keeps);
        count_copies(&m);
        list_released(&m);
        walk(&m);
    }
    if (result == STATUS_OK && m.failed) result = status_set(STATUS_FAILED, "no memory to plan");
    if (result == STATUS_OK) {
        recording_column old = course->events;
        course->events = m.events, m.events = old;
    }
    close_moving(&m);
    return result;
}
