#include "snapshot/gaps.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"

enum { ROUNDING = 512, SMALL = 1 << 20 };

typedef struct {
    gaps_range *all;
    uint32_t count, room;
} ranges;

static status add(ranges *r, gaps_range x) {
    if (r->count == r->room) {
        uint32_t room = r->room ? 2 * r->room : 64;
        gaps_range *more = memory_resize(r->all, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory for the segments of the snapshot");
        r->all = more, r->room = room;
    }
    r->all[r->count++] = x;
    return STATUS_OK;
}

/* ---- segments at an instant ---- */

static bool is_taken(const snapshot_turn *x) {
    return x->kind == SNAPSHOT_SEGMENT_ALLOC || x->kind == SNAPSHOT_SEGMENT_MAP;
}

static bool is_given(const snapshot_turn *x) {
    return x->kind == SNAPSHOT_SEGMENT_FREE || x->kind == SNAPSHOT_SEGMENT_UNMAP;
}

/* What the first turn after the instant says of addresses, or where there is none a segment of the end. Of
 * all that tell of one the lowest rank is right. */
typedef struct {
    gaps_range range;
    uint32_t rank;
    bool there; /* it was given back later, or is there at the end; else it was taken later */
} telling;

typedef struct {
    telling *all; /* by address */
    uint32_t count, room;
    uint32_t *heap, height; /* of those that the sweep is in, the lowest rank on top */
} sweep;

static status tell(sweep *w, gaps_range range, uint32_t rank, bool there) {
    if (!range.bytes) return STATUS_OK;
    if (w->count == w->room) {
        uint32_t room = w->room ? 2 * w->room : 64;
        telling *more = memory_resize(w->all, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory for the segments of the snapshot");
        w->all = more, w->room = room;
    }
    w->all[w->count++] = (telling){ range, rank, there };
    return STATUS_OK;
}

static status tell_all(const snapshot *s, const snapshot_trace *t, uint32_t instant, sweep *w) {
    uint32_t turns = snapshot_count(&t->turns);
    for (uint32_t i = 0; i < snapshot_count(&s->segments); i++) {
        const snapshot_segment *g = snapshot_segment_at(s, i);
        if (g->device != t->device) continue;
        TRY(tell(w,
                 (gaps_range){ .address = g->address,
                               .bytes = g->bytes,
                               .lane = (uint16_t)g->stream,
                               .small = g->small,
                               .pool = snapshot_lane_at(s, g->stream)->pool },
                 turns, true));
    }
    for (uint32_t i = turns; i-- > 0;) {
        const snapshot_turn *x = snapshot_turn_at(t, i);
        if (x->at <= instant) break;
        if (!is_taken(x) && !is_given(x)) continue;
        TRY(tell(w,
                 (gaps_range){ .address = x->address,
                               .bytes = x->bytes,
                               .lane = x->lane,
                               .small = x->bytes <= 2 * SMALL,
                               .pool = snapshot_lane_at(s, x->lane)->pool },
                 i, is_given(x)));
    }
    return STATUS_OK;
}

static int by_beginning(const void *a, const void *b) {
    const telling *x = a, *y = b;
    if (x->range.address != y->range.address) return x->range.address < y->range.address ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void sink(sweep *w, uint32_t at) {
    for (uint32_t child; (child = 2 * at + 1) < w->height; at = child) {
        if (child + 1 < w->height && w->all[w->heap[child + 1]].rank < w->all[w->heap[child]].rank) child++;
        if (w->all[w->heap[at]].rank <= w->all[w->heap[child]].rank) return;
        uint32_t moved = w->heap[at];
        w->heap[at] = w->heap[child], w->heap[child] = moved;
    }
}

static void rise(sweep *w, uint32_t at) {
    for (; at && w->all[w->heap[at]].rank < w->all[w->heap[(at - 1) / 2]].rank; at = (at - 1) / 2) {
        uint32_t moved = w->heap[at];
        w->heap[at] = w->heap[(at - 1) / 2], w->heap[(at - 1) / 2] = moved;
    }
}

static uint64_t end_of(const gaps_range *x) { return x->address + x->bytes; }

/* Goes through the addresses once. */
static status sweep_over(sweep *w, ranges *r) {
    uint64_t at = 0;
    uint32_t told = UINT32_MAX; /* whose stretch the last range is */
    for (uint32_t next = 0; next < w->count || w->height;) {
        if (!w->height && at < w->all[next].range.address) at = w->all[next].range.address;
        for (; next < w->count && w->all[next].range.address <= at; rise(w, w->height - 1))
            w->heap[w->height++] = next++;
        while (w->height && end_of(&w->all[w->heap[0]].range) <= at)
            w->heap[0] = w->heap[--w->height], sink(w, 0);
        if (!w->height) continue;
        uint32_t top = w->heap[0];
        uint64_t end = end_of(&w->all[top].range);
        if (next < w->count && w->all[next].range.address < end) end = w->all[next].range.address;
        gaps_range x = w->all[top].range;
        x.address = at, x.bytes = end - at;
        bool joins = told == top && r->count && end_of(&r->all[r->count - 1]) == at;
        if (w->all[top].there && joins) r->all[r->count - 1].bytes += x.bytes;
        if (w->all[top].there && !joins) TRY(add(r, x));
        told = top, at = end;
    }
    return STATUS_OK;
}

static status find_segments(const snapshot *s, const snapshot_trace *t, uint32_t instant, ranges *r) {
    sweep w = { 0 };
    status result = tell_all(s, t, instant, &w);
    if (result == STATUS_OK && w.count) {
        w.heap = memory_room(w.count, sizeof *w.heap);
        if (!w.heap) result = status_set(STATUS_FAILED, "no memory for the segments of the snapshot");
        qsort(w.all, w.count, sizeof *w.all, by_beginning);
    }
    if (result == STATUS_OK) result = sweep_over(&w, r);
    memory_free(w.all);
    memory_free(w.heap);
    return result;
}

/* ---- what is free in them ---- */

static int by_address(const void *a, const void *b) {
    uint64_t x = ((const gaps_range *)a)->address, y = ((const gaps_range *)b)->address;
    return x < y ? -1 : x > y;
}

static status add_piece(ranges *pieces, const gaps_range *segment, uint64_t from, uint64_t end) {
    gaps_range x = *segment;
    x.address = from, x.bytes = end - from;
    return add(pieces, x);
}

static status find_pieces(const ranges *segments, const ranges *taken, ranges *pieces) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < segments->count; i++) {
        gaps_range g = segments->all[i];
        uint64_t free_from = g.address, end = g.address + g.bytes;
        while (at < taken->count && taken->all[at].address < g.address) at++;
        for (; at < taken->count && taken->all[at].address < end; at++) {
            const gaps_range *x = &taken->all[at];
            if (x->address > free_from) TRY(add_piece(pieces, &g, free_from, x->address));
            if (x->address + x->bytes > free_from) free_from = x->address + x->bytes;
        }
        if (free_from < end) TRY(add_piece(pieces, &g, free_from, end));
    }
    return STATUS_OK;
}

static void sort(ranges *r) {
    if (r->count) qsort(r->all, r->count, sizeof *r->all, by_address);
}

static void sum_up(gaps *g) {
    for (uint32_t i = 0; i < g->segment_count; i++) g->reserved += g->segments[i].bytes;
    for (uint32_t i = 0; i < g->piece_count; i++) {
        g->free += g->pieces[i].bytes;
        if (g->pieces[i].bytes > g->largest) g->largest = g->pieces[i].bytes;
    }
}

/* The profiler tells how much is reserved, and not where. */
static void sum_told(const snapshot_trace *t, uint32_t instant, const alive *a, gaps *g) {
    int64_t now = 0;
    for (uint32_t i = 0; i < snapshot_count(&t->turns) && snapshot_turn_at(t, i)->at <= instant; i++)
        now += gaps_change(snapshot_turn_at(t, i));
    g->told = true;
    g->reserved = (uint64_t)now;
    g->free = g->reserved > a->bytes ? g->reserved - a->bytes : 0;
}

static bool knows_segments(const snapshot *s, const snapshot_trace *t) {
    if (t->host || t->told) return false;
    for (uint32_t i = 0; i < snapshot_count(&s->segments); i++)
        if (snapshot_segment_at(s, i)->device == t->device) return true;
    return t->turned > 0;
}

status gaps_at(const snapshot *s, const snapshot_trace *t, uint32_t instant, const alive *a, gaps *g) {
    ranges segments = { 0 }, taken = { 0 }, pieces = { 0 };
    *g = (gaps){ 0 };
    status result = t->host ? STATUS_OK : find_segments(s, t, instant, &segments);
    for (uint32_t i = 0; i < a->count && result == STATUS_OK; i++)
        result = add(&taken, (gaps_range){ .address = a->pieces[i]->address,
                                           .bytes = units_align(a->pieces[i]->bytes, ROUNDING) });
    sort(&segments), sort(&taken);
    if (result == STATUS_OK) result = find_pieces(&segments, &taken, &pieces);
    memory_free(taken.all);
    *g = (gaps){ .segments = segments.all,
                 .segment_count = segments.count,
                 .pieces = pieces.all,
                 .piece_count = pieces.count };
    if (result != STATUS_OK) {
        gaps_close(g);
        return result;
    }
    sum_up(g);
    if (t->told) sum_told(t, instant, a, g);
    g->known = knows_segments(s, t);
    return STATUS_OK;
}

void gaps_close(gaps *g) {
    memory_free(g->segments);
    memory_free(g->pieces);
    *g = (gaps){ 0 };
}

int64_t gaps_change(const snapshot_turn *x) {
    bool more = is_taken(x) || x->kind == SNAPSHOT_MORE, less = is_given(x) || x->kind == SNAPSHOT_LESS;
    return more ? (int64_t)x->bytes : less ? -(int64_t)x->bytes : 0;
}

uint64_t gaps_reserved_at(gaps_reader *r, uint32_t instant) {
    uint32_t turns = snapshot_count(&r->trace->turns);
    for (; r->turn < turns && snapshot_turn_at(r->trace, r->turn)->at <= instant; r->turn++)
        r->reserved += (uint64_t)gaps_change(snapshot_turn_at(r->trace, r->turn));
    return r->reserved;
}

gaps_course gaps_course_of(const snapshot_trace *t) {
    int64_t now = (int64_t)t->reserved;
    for (uint32_t i = 0; i < snapshot_count(&t->turns); i++) now -= gaps_change(snapshot_turn_at(t, i));
    if (now < 0) now = 0; /* events were lost */
    gaps_course c = { .begin = (uint64_t)now, .most = (uint64_t)now };
    for (uint32_t i = 0; i < snapshot_count(&t->turns); i++) {
        const snapshot_turn *x = snapshot_turn_at(t, i);
        now += gaps_change(x);
        if (now > (int64_t)c.most) c.most = (uint64_t)now, c.at = x->at;
    }
    return c;
}

gaps_request gaps_meet(const gaps *g, uint64_t bytes, uint16_t lane, uint32_t pool) {
    bool over = bytes > UINT64_MAX - ROUNDING; /* such a request fails, and is recorded as it was made */
    gaps_request r = { .asked = bytes,
                       .rounded = over ? bytes : units_align(bytes, ROUNDING),
                       .is_private = pool != 0 };
    bool small = r.rounded <= SMALL;
    for (uint32_t i = 0; i < g->piece_count; i++) {
        const gaps_range *x = &g->pieces[i];
        if (x->pool != pool) {
            r.private_pools += x->bytes;
        } else if (x->small != small) {
            r.other_pool += x->bytes;
        } else if (x->lane != lane) {
            r.other_streams += x->bytes;
        } else {
            r.own += x->bytes;
            if (x->bytes > r.largest) r.largest = x->bytes;
        }
    }
    return r;
}
