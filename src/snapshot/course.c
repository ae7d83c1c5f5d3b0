#include "snapshot/course.h"

#include <string.h>

#include "base/memory.h"
#include "snapshot/times.h"

const char *course_phase_name(course_phase p) {
    static const char *const names[COURSE_PHASES] = { "other", "forward", "backward", "update" };
    return names[p];
}

/* ---- annotated updates ---- */

typedef struct {
    uint32_t begins, ends;
} span;

typedef struct {
    span *spans;
    uint32_t count;
} updates;

static bool is_update(const snapshot *s, const snapshot_note *n, const snapshot_trace *t) {
    return n->device == t->device && strncmp(pickle_texts_at(&s->texts, n->name), "Optimizer.step#", 15) == 0;
}

/* Times of notes grow, and so do those of events: both are gone through once. */
static status find_updates(const snapshot *s, const snapshot_trace *t, updates *u) {
    uint32_t notes = snapshot_count(&s->notes);
    *u = (updates){ 0 };
    if (!t->first || !notes || t->host) return STATUS_OK;
    u->spans = memory_new(notes, sizeof *u->spans);
    if (!u->spans) return status_set(STATUS_FAILED, "no memory for annotations");
    times_reader r = times_begin(t);
    bool more = times_next(&r), open = false;
    for (uint32_t i = 0; i < notes; i++) {
        const snapshot_note *n = snapshot_note_at(s, i);
        if (!is_update(s, n, t)) continue;
        while (more && r.time < n->time) more = times_next(&r);
        uint32_t at = more ? r.at : t->events + 1;
        if (!n->ends) {
            u->spans[u->count++] = (span){ .begins = at, .ends = t->events };
            open = true;
        } else if (open) {
            u->spans[u->count - 1].ends = at ? at - 1 : 0;
            open = false;
        }
    }
    return STATUS_OK;
}

/* ---- runs ---- */

course_phase course_phase_of(const course *c, const snapshot_piece *p) {
    uint32_t bits = c->traits->of[p->stack];
    if (bits & (TRAIT_LOADING | TRAIT_TRIES)) return COURSE_OTHER;
    if (bits & TRAIT_RECOMPUTING) return COURSE_BACKWARD;
    if (bits & TRAIT_UPDATE) return bits & TRAIT_CLEARS ? COURSE_OTHER : COURSE_UPDATE;
    if (bits & TRAIT_BACKWARD) return COURSE_BACKWARD;
    if (bits & TRAIT_MODULE) return COURSE_FORWARD;
    return p->stack == 0 && c->traits->any && !c->traits->native ? COURSE_BACKWARD : COURSE_OTHER;
}

static status put_run(course *c, course_run run) {
    if (c->count == c->room) {
        uint32_t room = c->room ? 2 * c->room : 64;
        course_run *more = memory_resize(c->runs, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory for the course of the recording");
        c->runs = more, c->room = room;
    }
    c->runs[c->count++] = run;
    return STATUS_OK;
}

static status add_run(course *c, course_phase phase, uint32_t at) {
    uint32_t step = 1;
    if (c->count) {
        const course_run *last = &c->runs[c->count - 1];
        step = last->step + (last->phase == COURSE_UPDATE);
    }
    return put_run(c, (course_run){ .phase = phase, .begins = at, .ends = at, .step = step });
}

/* Without frames, and without a forward before it, it is no backward: any thread may have asked. */
static status extend(course *c, course_phase phase, uint32_t at, bool sure) {
    course_run *last = c->count ? &c->runs[c->count - 1] : NULL;
    if (last && last->phase == phase) {
        last->ends = at;
        return STATUS_OK;
    }
    if (phase == COURSE_BACKWARD && !sure && (!last || last->phase == COURSE_UPDATE)) return STATUS_OK;
    return add_run(c, phase, at);
}

static status extend_by_note(course *c, const updates *u, uint32_t *next, uint32_t until) {
    for (; *next < u->count && u->spans[*next].begins <= until; ++*next) {
        TRY(extend(c, COURSE_UPDATE, u->spans[*next].begins, true));
        c->runs[c->count - 1].ends = u->spans[*next].ends;
    }
    return STATUS_OK;
}

static status find_runs(course *c, const updates *u) {
    uint32_t next = 0, inside = 0;
    for (uint32_t i = 0; i < snapshot_count(&c->trace->pieces); i++) {
        const snapshot_piece *p = snapshot_piece_at(&c->trace->pieces, i);
        course_phase phase = course_phase_of(c, p);
        TRY(extend_by_note(c, u, &next, p->born));
        inside = next ? u->spans[next - 1].ends : 0;
        if (p->born <= inside || phase == COURSE_OTHER) continue;
        if (phase == COURSE_UPDATE && u->count) continue; /* schedulers and the like beside the noted ones */
        TRY(extend(c, phase, p->born, p->stack != 0));
    }
    return extend_by_note(c, u, &next, c->trace->events);
}

/* ---- forward by functions alone ---- */

/* The first piece that was born after the instant. */
static uint32_t first_after(const snapshot_trace *t, uint32_t instant) {
    uint32_t low = 0, high = snapshot_count(&t->pieces);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (snapshot_piece_at(&t->pieces, middle)->born <= instant)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where no module is called, what is freed in a backward tells that there was a forward before it. */
static uint32_t first_kept_for(const course *c, uint32_t run) {
    uint32_t after = run ? c->runs[run - 1].ends : 0, until = c->runs[run].begins,
             end = run + 1 < c->count ? c->runs[run + 1].begins : c->trace->events + 1;
    for (uint32_t i = first_after(c->trace, after); i < snapshot_count(&c->trace->pieces); i++) {
        const snapshot_piece *p = snapshot_piece_at(&c->trace->pieces, i);
        if (p->born >= until) break;
        if (p->died > until && p->died < end) return p->born;
    }
    return 0;
}

static status add_forward_of(course *c, const course *found, uint32_t i) {
    const course_run *run = &found->runs[i];
    bool alone = run->phase == COURSE_BACKWARD && (i == 0 || found->runs[i - 1].phase == COURSE_UPDATE);
    uint32_t first = alone ? first_kept_for(found, i) : 0;
    return first ? put_run(c, (course_run){ COURSE_FORWARD, first, run->begins - 1, run->step }) : STATUS_OK;
}

/* To a list of its own: a recording may have very many steps. */
static status add_forwards(course *c) {
    course found = *c;
    status result = STATUS_OK;
    c->runs = NULL, c->count = c->room = 0;
    for (uint32_t i = 0; i < found.count && result == STATUS_OK; i++) {
        result = add_forward_of(c, &found, i);
        if (result == STATUS_OK) result = put_run(c, found.runs[i]);
    }
    memory_free(found.runs);
    return result;
}

status course_open(const snapshot *s, const snapshot_trace *t, const traits *known, course *c) {
    updates u;
    *c = (course){ .snapshot = s, .trace = t, .traits = known };
    status result = find_updates(s, t, &u);
    if (result == STATUS_OK) result = find_runs(c, &u);
    if (result == STATUS_OK) result = add_forwards(c);
    c->noted = u.count > 0;
    memory_free(u.spans);
    for (uint32_t i = 0; i < c->count; i++) c->updates += c->runs[i].phase == COURSE_UPDATE;
    if (result != STATUS_OK) course_close(c);
    return result;
}

void course_close(course *c) {
    memory_free(c->runs);
    *c = (course){ 0 };
}

uint32_t course_run_at(const course *c, uint32_t instant) {
    uint32_t low = 0, high = c->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (c->runs[middle].begins <= instant)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

course_moment course_moment_of(const course *c, uint32_t instant) {
    uint32_t run = course_run_at(c, instant);
    if (run == UINT32_MAX) return (course_moment){ COURSE_OTHER, 0 };
    const course_run *r = &c->runs[run];
    bool past = r->phase == COURSE_UPDATE && instant > r->ends;
    return (course_moment){ past ? COURSE_OTHER : r->phase, r->step + past };
}
