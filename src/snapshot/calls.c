#include "snapshot/calls.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"

enum { MOST_CALLS = 1 << 29, MOST_DEPTH = 1 << 14, MOST_FRAMES = 512 };

status calls_start(calls *c) {
    *c = (calls){ 0 };
    return array_open(&c->all, sizeof(calls_call), MOST_CALLS);
}

void calls_close(calls *c) {
    for (uint32_t i = 0; i < c->thread_count; i++) memory_free(c->threads[i].open);
    memory_free(c->threads);
    array_close(&c->all);
    *c = (calls){ 0 };
}

uint64_t calls_bytes(const calls *c) { return (uint64_t)c->all.count * c->all.item_bytes; }

static status add_thread(calls *c, uint64_t name) {
    uint32_t i = c->thread_count;
    if (i == CALLS_THREADS) return status_set(STATUS_INVALID, "the trace has more threads than are held");
    if (i == c->thread_room) {
        uint32_t room = i ? 2 * i : 16;
        calls_thread *more = memory_resize(c->threads, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory for the threads of the trace");
        c->threads = more, c->thread_room = room;
    }
    c->threads[c->thread_count++] = (calls_thread){ .name = name };
    return STATUS_OK;
}

status calls_thread_of(calls *c, uint64_t name, uint16_t *thread) {
    if (c->last_thread >= c->thread_count || c->threads[c->last_thread].name != name) {
        const uint32_t room = 2 * CALLS_THREADS;
        uint32_t at = hash_bytes(&name, sizeof name) % room;
        while (c->by_name[at] && c->threads[c->by_name[at] - 1].name != name) at = (at + 1) % room;
        if (!c->by_name[at]) {
            TRY(add_thread(c, name));
            c->by_name[at] = (uint16_t)c->thread_count;
        }
        c->last_thread = c->by_name[at] - 1u;
    }
    *thread = (uint16_t)c->last_thread;
    return STATUS_OK;
}

status calls_add(calls *c, const calls_call *call) {
    uint32_t i;
    TRY(snapshot_add(&c->all, &i));
    ((calls_call *)c->all.data)[1 + i] = *call;
    return STATUS_OK;
}

static uint64_t end_of(const calls_call *x) { return x->begins + x->lasts; }

/* Those of one beginning: the longest is the outer one. */
static int by_time(const void *a, const void *b) {
    const calls_call *x = a, *y = b;
    if (x->begins != y->begins) return x->begins < y->begins ? -1 : 1;
    if (x->lasts != y->lasts) return x->lasts > y->lasts ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

void calls_sort(calls *c) {
    calls_call *all = (calls_call *)c->all.data + 1;
    qsort(all, snapshot_count(&c->all), sizeof *all, by_time);
}

static const calls_call *call_at(const calls *c, uint32_t i) {
    return (const calls_call *)c->all.data + 1 + i;
}

/* ---- those that go on ---- */

/* Of those that end together the inner one comes first. */
static bool ends_before(const calls *c, const calls_thread *t, uint32_t x, uint32_t y) {
    uint64_t a = end_of(call_at(c, t->open[x].call)), b = end_of(call_at(c, t->open[y].call));
    return a != b ? a < b : x > y;
}

static void push_end(const calls *c, calls_thread *t, uint32_t place) {
    uint32_t at = t->live++;
    for (; at && ends_before(c, t, place, t->open[(at - 1) / 2].heap); at = (at - 1) / 2)
        t->open[at].heap = t->open[(at - 1) / 2].heap;
    t->open[at].heap = place;
}

static uint32_t pop_end(const calls *c, calls_thread *t) {
    uint32_t first = t->open[0].heap, place = t->open[--t->live].heap, at = 0;
    for (uint32_t next; (next = 2 * at + 1) < t->live; at = next) {
        if (next + 1 < t->live && ends_before(c, t, t->open[next + 1].heap, t->open[next].heap)) next++;
        if (!ends_before(c, t, t->open[next].heap, place)) break;
        t->open[at].heap = t->open[next].heap;
    }
    t->open[at].heap = place;
    return first;
}

/* Leaves out those that have ended. Places keep their order, so the heap stays one; until the end `stack` is
 * the new place. */
static void close_up(calls_thread *t) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        t->open[i].stack = kept;
        kept += t->open[i].call != UINT32_MAX;
    }
    for (uint32_t i = 0; i < t->live; i++) t->open[i].heap = t->open[t->open[i].heap].stack;
    for (uint32_t i = 0; i < t->count; i++) {
        calls_open_call *to = &t->open[t->open[i].stack];
        if (t->open[i].call != UINT32_MAX) to->call = t->open[i].call, to->made = UINT32_MAX;
    }
    t->count = kept;
}

/* Calls need not lie within each other: an annotation begins within the call that makes it, and outlives it.
 * Stacks are found anew then. */
static void end_before(const calls *c, calls_thread *t, uint64_t time) {
    while (t->live && end_of(call_at(c, t->open[t->open[0].heap].call)) < time) {
        uint32_t place = pop_end(c, t);
        t->passed += place + 1 != t->count;
        t->open[place].call = UINT32_MAX;
        while (t->count && t->open[t->count - 1].call == UINT32_MAX) t->count--;
    }
    if (t->count > 64 && t->live < t->count / 2) close_up(t);
}

static status begin_next(calls *c) {
    const calls_call *x = call_at(c, c->next);
    calls_thread *t = &c->threads[x->thread];
    end_before(c, t, x->begins);
    if (t->live == MOST_DEPTH)
        return status_set(STATUS_INVALID, "calls of the trace are nested deeper than is held");
    if (t->count == t->room) {
        uint32_t room = t->room ? 2 * t->room : 64;
        calls_open_call *more = memory_resize(t->open, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory for the calls of the trace");
        t->open = more, t->room = room;
    }
    t->open[t->count].call = c->next++, t->open[t->count].made = UINT32_MAX;
    push_end(c, t, t->count++);
    return STATUS_OK;
}

/* ---- stacks ---- */

/* The line that a function was at is the one that the next call within it came from. */
static status frame_at(const calls *c, snapshot *s, const calls_thread *t, uint32_t depth, uint32_t line,
                       uint32_t *frame) {
    const calls_call *x = call_at(c, t->open[depth].call);
    *frame = x->frame;
    if (!x->has_lines || !line) return STATUS_OK;
    stacks_frame f = ((const stacks_frame *)s->stacks.frames.data)[x->frame];
    f.line = line;
    return stacks_add_frame(&s->stacks, f, frame);
}

static status make_stack(const calls *c, snapshot *s, const calls_thread *t, uint32_t *stack) {
    uint32_t frames[MOST_FRAMES] = { 0 }, count = 0, line = 0, plain;
    for (uint32_t i = t->count; i-- > 0 && count < MOST_FRAMES;) {
        if (t->open[i].call == UINT32_MAX) continue;
        const calls_call *x = call_at(c, t->open[i].call);
        TRY(frame_at(c, s, t, i, line, &frames[count++]));
        if (x->has_lines || x->from) line = x->from;
    }
    *stack = 0;
    if (!count) return STATUS_OK;
    TRY(stacks_add(&s->stacks, frames, count, stack));
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!stacks_is_said((const stacks_frame *)s->stacks.frames.data + frames[i]))
            frames[kept++] = frames[i];
    if (kept == count || !kept) return STATUS_OK;
    TRY(stacks_add(&s->stacks, frames, kept, &plain));
    stacks_set_plain(&s->stacks, *stack, plain);
    return STATUS_OK;
}

status calls_stack_at(calls *c, snapshot *s, uint16_t thread, uint64_t time, uint32_t *stack) {
    calls_thread *t = &c->threads[thread];
    while (c->next < snapshot_count(&c->all) && call_at(c, c->next)->begins <= time) TRY(begin_next(c));
    end_before(c, t, time);
    *stack = 0;
    if (!t->count) return STATUS_OK;
    calls_open_call *top = &t->open[t->count - 1];
    if (top->made != t->passed) TRY(make_stack(c, s, t, &top->stack));
    top->made = t->passed;
    *stack = top->stack;
    return STATUS_OK;
}
