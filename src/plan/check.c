/* The proof: a sweep over time. At each birth the dead are taken out of the set of ranges in use and the
 * newborn's range goes in; the set is sorted and free of overlap, so only the neighbours have to be looked
 * at.
 *
 * Two heaps give births and deaths in order. */
#include "plan/check.h"

#include <string.h>

#include "base/memory.h"

typedef struct {
    uint32_t step, index; /* of a birth or a death; the interval */
} event;

typedef struct {
    event *at; /* smallest step first */
    uint32_t count;
} heap;

typedef struct {
    uint64_t low, high;
    uint32_t index;
} used_range;

typedef struct {
    const pack_interval *intervals;
    heap births, deaths;
    used_range *used; /* ascending */
    uint32_t used_count;
} sweep;

static void heap_push(heap *h, event e) {
    uint32_t at = h->count++;
    for (uint32_t parent; at && h->at[parent = (at - 1) / 2].step > e.step; at = parent)
        h->at[at] = h->at[parent];
    h->at[at] = e;
}

static event heap_pop(heap *h) {
    event top = h->at[0], moved = h->at[--h->count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && h->at[child + 1].step < h->at[child].step) child++;
        if (h->at[child].step >= moved.step) break;
        h->at[at] = h->at[child];
    }
    h->at[at] = moved;
    return top;
}

/* How many ranges in use begin below `offset`. */
static uint32_t used_below(const sweep *s, uint64_t offset) {
    uint32_t begin = 0, end = s->used_count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (s->used[middle].low < offset)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static void bury(sweep *s, uint32_t index) {
    uint32_t at = used_below(s, s->intervals[index].offset);
    s->used_count--;
    memmove(&s->used[at], &s->used[at + 1], (s->used_count - at) * sizeof *s->used);
}

static status collision(const sweep *s, uint32_t a, uint32_t b) {
    const pack_interval *x = &s->intervals[a], *y = &s->intervals[b];
    return status_set(
        STATUS_FAILED,
        "packing is wrong: interval %u (%llu bytes at %llu, steps %u to %u) overlaps interval %u "
        "(%llu bytes at %llu, steps %u to %u)",
        a, (unsigned long long)x->bytes, (unsigned long long)x->offset, x->first, x->last, b,
        (unsigned long long)y->bytes, (unsigned long long)y->offset, y->first, y->last);
}

static status give_birth(sweep *s, uint32_t index, uint64_t arena_bytes) {
    const pack_interval *v = &s->intervals[index];
    if (v->first > v->last || v->offset % PACK_ALIGNMENT || v->bytes > arena_bytes ||
        v->offset > arena_bytes - v->bytes)
        return status_set(
            STATUS_FAILED,
            "packing is wrong: interval %u (%llu bytes at %llu, steps %u to %u) is not aligned, "
            "ends before it begins or leaves the arena of %llu bytes",
            index, (unsigned long long)v->bytes, (unsigned long long)v->offset, v->first, v->last,
            (unsigned long long)arena_bytes);
    uint64_t high = v->offset + v->bytes;
    uint32_t at = used_below(s, v->offset);
    if (at && s->used[at - 1].high > v->offset) return collision(s, index, s->used[at - 1].index);
    if (at < s->used_count && s->used[at].low < high) return collision(s, index, s->used[at].index);
    memmove(&s->used[at + 1], &s->used[at], (s->used_count - at) * sizeof *s->used);
    s->used[at] = (used_range){ v->offset, high, index };
    s->used_count++;
    heap_push(&s->deaths, (event){ v->last, index });
    return STATUS_OK;
}

status check_packing(const pack_interval *intervals, uint32_t count, uint64_t arena_bytes) {
    status result = STATUS_OK;
    sweep s = { .intervals = intervals };
    s.births.at = memory_new(count, sizeof *s.births.at);
    s.deaths.at = memory_new(count, sizeof *s.deaths.at);
    s.used = memory_new(count, sizeof *s.used);
    if (!s.births.at || !s.deaths.at || !s.used) {
        result = status_set(STATUS_FAILED, "the host has no memory left to check the packing of %u intervals",
                            count);
        goto done;
    }
    for (uint32_t i = 0; i < count; i++)
        if (intervals[i].bytes) heap_push(&s.births, (event){ intervals[i].first, i });
    while (s.births.count) {
        event birth = heap_pop(&s.births);
        while (s.deaths.count && s.deaths.at[0].step < birth.step) bury(&s, heap_pop(&s.deaths).index);
        TRY_OR(done, give_birth(&s, birth.index, arena_bytes));
    }
done:
    memory_free(s.births.at);
    memory_free(s.deaths.at);
    memory_free(s.used);
    return result;
}
