#include "snapshot/twin.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/units.h"
#include "estimate/torch/allocator.h"
#include "snapshot/gaps.h"
#include "snapshot/levels.h"

enum { ROUNDING = 512, UNSPLIT = 1 << 20 }; /* what is left of a large block and not split off */

typedef struct {
    const snapshot *snapshot;
    const snapshot_trace *trace;
    allocator allocator;
    uint32_t *blocks, *before; /* by piece: of the allocator; the same of those of before the recording */
    levels order;              /* of deaths */
    uint32_t dead, turn;       /* how many deaths and turns are done */
    uint32_t instant;
    bool looked; /* the instant that is looked at has passed */
    twin *twin;
} playing;

/* ---- beside the recording ---- */

static void compare(playing *p, uint32_t at, uint32_t turns, uint64_t recorded, uint64_t made) {
    twin *w = p->twin;
    if (w->differs_at) return;
    if (recorded == made) {
        w->equal += turns;
        return;
    }
    w->differs_at = at, w->recorded = recorded, w->made = made;
}

/* What is looked at is how it was before anything later. */
static void pass(playing *p, uint32_t until) {
    if (p->looked || until <= p->instant) return;
    p->looked = true;
    p->twin->taken = p->allocator.taken;
    p->twin->reserved = p->allocator.reserved;
}

static void bury(playing *p, uint32_t until) {
    for (; p->dead < p->order.count; p->dead++) {
        uint32_t at = (uint32_t)(p->order.deaths[p->dead] >> 32), piece = (uint32_t)p->order.deaths[p->dead];
        if (at > until) break;
        pass(p, at);
        allocator_give(&p->allocator,
                       piece & LEVELS_BEFORE ? p->before[piece & ~LEVELS_BEFORE] : p->blocks[piece]);
    }
}

/* Turns that give back, one after the other. */
typedef struct {
    uint32_t count, at, first; /* how many; the instant of the last; the first one's number */
    uint64_t bytes;
} given;

/* With max_split_size_mb what is not split goes first, of the request's own pool, and the rest where that is
 * not enough: how much was recorded tells which it was. */
static bool give_unsplit(playing *p, const given *g, const snapshot_piece *request) {
    allocator *a = &p->allocator;
    if (!a->most_split || !request) return false;
    uint8_t lane = (uint8_t)request->lane;
    uint64_t unsplit = allocator_release_unsplit(a, request->bytes, lane, false);
    bool both = a->keeps[lane] && g->bytes == unsplit + allocator_releasable(a);
    if (g->bytes != unsplit && !both) return false;
    allocator_release_unsplit(a, request->bytes, lane, true);
    if (both) allocator_release(a);
    return true;
}

/* Segments are given back where the device is full, or the program asks for it: all that are free as a whole,
 * but for those of private pools that are in use, of which none is recorded then. `request`: who found no
 * room; NULL: it was asked for. */
static void give_back(playing *p, given *g, const snapshot_piece *request) {
    allocator *a = &p->allocator;
    if (!g->count) return;
    bury(p, g->at);
    pass(p, g->at);
    for (uint32_t i = 0; i < ALLOCATOR_STREAMS && i < snapshot_count(&p->snapshot->lanes); i++)
        a->keeps[i] = snapshot_lane_at(p->snapshot, i)->pool != 0;
    uint64_t before = a->reserved;
    if (!give_unsplit(p, g, request)) {
        for (uint32_t i = g->first; i < p->turn; i++)
            a->keeps[snapshot_turn_at(p->trace, i)->lane & 0xff] = false;
        allocator_release(a);
    }
    compare(p, g->at, g->count, g->bytes, before - a->reserved);
    *g = (given){ 0 };
}

/* Turns before the instant, at which something is asked for (NULL: nothing is). Says how many segments were
 * taken, and bytes of them. */
static uint32_t take_turns(playing *p, uint32_t until, const snapshot_piece *request, uint64_t *taken) {
    uint32_t count = 0;
    given g = { 0 };
    *taken = 0;
    for (; p->turn < snapshot_count(&p->trace->turns); p->turn++) {
        const snapshot_turn *x = snapshot_turn_at(p->trace, p->turn);
        if (x->at > until) break;
        switch (x->kind) {
        case SNAPSHOT_SEGMENT_FREE:
            if (!g.count) g.first = p->turn;
            g.count++, g.bytes += x->bytes, g.at = x->at;
            break;
        case SNAPSHOT_SEGMENT_ALLOC:
        case SNAPSHOT_SEGMENT_MAP:
            give_back(p, &g, request);
            count++, *taken += x->bytes;
            break;
        case SNAPSHOT_OOM:
            give_back(p, &g,
                      &(snapshot_piece){ .bytes = x->bytes & ((UINT64_C(1) << 40) - 1),
                                         .lane = x->lane & 0x7fffu });
            break;
        default: break;
        }
    }
    give_back(p, &g, NULL);
    return count;
}

static status play(playing *p) {
    allocator *a = &p->allocator;
    uint64_t recorded;
    for (uint32_t i = 0; i < snapshot_count(&p->trace->pieces); i++) {
        const snapshot_piece *x = snapshot_piece_at(&p->trace->pieces, i);
        uint32_t taken = take_turns(p, x->born, x, &recorded);
        bury(p, x->born);
        pass(p, x->born);
        uint64_t before = a->reserved;
        p->blocks[i] = allocator_take(a, x->bytes ? x->bytes : 1, (uint8_t)x->lane);
        if (a->failed || !p->blocks[i])
            return status_set(STATUS_FAILED, "no memory to play the allocations of the snapshot");
        if (taken || a->reserved != before) compare(p, x->born, taken, recorded, a->reserved - before);
        if (a->taken > p->twin->taken_peak) p->twin->taken_peak = a->taken;
    }
    take_turns(p, p->trace->events, NULL, &recorded);
    if (recorded) compare(p, p->trace->events, 0, recorded, 0);
    bury(p, p->trace->events);
    pass(p, SNAPSHOT_NEVER);
    return STATUS_OK;
}

static uint32_t count_turns(const snapshot_trace *t) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < snapshot_count(&t->turns); i++)
        count += snapshot_turn_at(t, i)->kind < SNAPSHOT_OOM;
    return count;
}

/* ---- how it begins ---- */

/* A block takes what is left behind it where that is not split off. */
static uint64_t bytes_of_block(const playing *p, const gaps_range *segment, const snapshot_piece *x,
                               uint64_t end) {
    uint64_t rounded = units_align(x->bytes ? x->bytes : 1, ROUNDING), room = end - x->address;
    if (rounded >= room) return room;
    bool splits = segment->small || p->allocator.expandable ? true : room - rounded > UNSPLIT;
    if (p->allocator.most_split && !segment->small && rounded >= p->allocator.most_split) splits = false;
    return splits ? rounded : room;
}

/* One segment, with the pieces that lie in it: `*next` is the first of these. */
static void place_segment(playing *p, const gaps_range *g, const snapshot_piece **pieces, uint32_t count,
                          uint32_t *next) {
    uint64_t at = g->address, end = g->address + g->bytes;
    const snapshot_piece *first = snapshot_piece_at(&p->trace->before, 0);
    allocator_block b = { .stream = (uint8_t)g->lane, .small = g->small };
    uint32_t last = 0;
    while (at < end) {
        bool any = *next < count && pieces[*next]->address < end;
        uint64_t begins = any ? pieces[*next]->address : end;
        if (begins > at) {
            b.address = at, b.bytes = begins - at, b.taken = false;
            last = allocator_place(&p->allocator, last, &b);
        }
        if (!any) return;
        const snapshot_piece *x = pieces[(*next)++];
        uint64_t until = *next < count && pieces[*next]->address < end ? pieces[*next]->address : end;
        b.address = begins, b.bytes = bytes_of_block(p, g, x, until), b.taken = true;
        last = allocator_place(&p->allocator, last, &b);
        p->before[x - first] = last;
        at = begins + b.bytes;
    }
}

static int by_address(const void *a, const void *b) {
    const snapshot_piece *x = *(const snapshot_piece *const *)a, *y = *(const snapshot_piece *const *)b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Each piece of before lies in a segment of before, and no two on each other; else why it is not so. */
static const char *place_all(playing *p, const gaps *g, alive *a) {
    uint32_t next = 0;
    if (a->count) qsort(a->pieces, a->count, sizeof *a->pieces, by_address);
    for (uint32_t i = 1; i < a->count; i++)
        if (a->pieces[i]->address < a->pieces[i - 1]->address + a->pieces[i - 1]->bytes)
            return "what is in use when the recording begins overlaps";
    for (uint32_t i = 0; i < g->segment_count; i++) {
        const gaps_range *x = &g->segments[i];
        if (next < a->count && a->pieces[next]->address < x->address) break;
        place_segment(p, x, a->pieces, a->count, &next);
    }
    return next == a->count ? NULL
                            : "memory is in use when the recording begins, in segments that are not told";
}

static status begin(playing *p) {
    alive a;
    gaps g;
    TRY(alive_at(p->trace, 0, &a));
    status result = gaps_at(p->snapshot, p->trace, 0, &a, &g);
    if (result == STATUS_OK) p->twin->why = place_all(p, &g, &a);
    if (result == STATUS_OK) gaps_close(&g);
    alive_close(&a);
    p->twin->taken_peak = p->allocator.taken;
    return result;
}

static const char *exception(const snapshot *s, const snapshot_trace *t) {
    if (s->form == SNAPSHOT_TIMELINE) return "a timeline has no addresses";
    if (s->form == SNAPSHOT_TRACE) return "a trace has no segments";
    if (t->host) return "it is the host's memory, which has another allocator";
    if (!t->pieces.count || snapshot_count(&t->pieces) == 0) return "no allocation was recorded";
    if (!count_turns(t)) return "no segment was recorded";
    if (snapshot_count(&s->lanes) > ALLOCATOR_STREAMS)
        return "there are more streams and pools than the model tells apart";
    for (uint32_t i = 0; i < snapshot_count(&t->turns); i++)
        if (snapshot_turn_at(t, i)->kind == SNAPSHOT_SEGMENT_UNMAP)
            return "pages of expandable segments were given back";
    return NULL;
}

static bool is_expandable(const snapshot *s, const snapshot_trace *t) {
    for (uint32_t i = 0; i < snapshot_count(&t->turns); i++)
        if (snapshot_turn_at(t, i)->kind == SNAPSHOT_SEGMENT_MAP) return true;
    return s->expandable && !snapshot_count(&t->turns);
}

static status play_all(playing *p) {
    uint32_t count = snapshot_count(&p->trace->pieces), before = snapshot_count(&p->trace->before);
    p->blocks = memory_new(count + 1, sizeof *p->blocks);
    p->before = memory_new(before + 1, sizeof *p->before);
    if (!p->blocks || !p->before)
        return status_set(STATUS_FAILED, "no memory to play the allocations of the snapshot");
    TRY(levels_open(p->trace, &p->order));
    TRY(begin(p));
    if (p->twin->why) return STATUS_OK;
    return play(p);
}

status twin_play(const snapshot *s, const snapshot_trace *t, uint32_t instant, twin *w) {
    *w = (twin){ .why = exception(s, t), .turns = count_turns(t) };
    if (w->why) return STATUS_OK;
    playing p = { .snapshot = s, .trace = t, .instant = instant, .twin = w };
    TRY(allocator_open(&p.allocator));
    p.allocator.expandable = is_expandable(s, t);
    p.allocator.most_split = s->most_split;
    status result = play_all(&p);
    if (w->why) w->taken_peak = 0;
    levels_close(&p.order);
    allocator_close(&p.allocator);
    memory_free(p.blocks);
    memory_free(p.before);
    return result;
}
