/* Offline packing of intervals into one arena: at or near the lower bound, and fast enough for a search that
 * packs every candidate.
 *
 * Idea. First fit: one interval after the other goes to the lowest offset that is free for its whole life.
 * What matters is the order. All intervals alive at the peak overlap, so they make a stack without gaps
 * whichever comes first; placing them before the others makes the arena exact at the peak. A stack ordered by
 * birth has no holes to the left of the peak, one ordered by death none to the right; where lives nest, as
 * saved activations do, both are the same. With the longest lives at its bottom the stack stands on the
 * floor, and what comes later lies on it. Turned upside down it hangs from the lower bound, and long lives
 * from before or after the peak, gradients for instance, gather at the floor; what is free in between stays
 * in one piece. The others follow by size, by life, or by pressure: the most that is alive at any time during
 * their lives. A few such strategies are tried. If none reaches the bound, what sticks out above it moves
 * forward, right behind the stack, for another round.
 *
 * Time. Steps become sections (steps at which something is born), sections are cut into strips. A strip knows
 * the offsets in use at any of its sections, those in use at all of them (both as ranges, which melt together
 * when they touch and so stay few), and the pieces that are in use at some sections, with a bit per section.
 * Whoever covers the strip asks the first, whoever covers a part of it asks the other two.
 *
 * Invariants. What is tried depends on the set of intervals only: every order is total up to equal intervals,
 * and effort is counted in attempts, not in time. Each attempt by itself is a valid packing.
 *
 * Paper: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020,
 * arXiv:2001.03288, for first fit by size; the rest is our own. */
#include "plan/pack.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

enum {
    STRIP_SECTIONS = 48, /* at most 64 */
    STRATEGIES = 7,
    ATTEMPTS_MOST = 256,           /* on a set that stays more than 1 % above the bound; */
    ATTEMPTS_TIMES_ITEMS = 131072, /* fewer on a large one */
    SMALL_PART = 1024              /* of the bound: too small to matter */
};

typedef struct {
    uint64_t bytes, offset;
    uint32_t first, last; /* sections */
    uint32_t source;      /* index of the interval */
    bool peak;            /* alive at the peak */
} item;

typedef struct {
    uint64_t major, minor; /* ascending */
    uint32_t index;
} sort_key;

typedef struct {
    uint64_t low, high;
} range;

/* Ranges of offsets, ascending, apart from each other. */
typedef struct {
    range *at;
    uint32_t count, capacity;
} ranges;

typedef struct {
    uint64_t low, high;
    uint64_t sections; /* a bit for each section of the strip */
} piece;

typedef struct {
    uint64_t whole;    /* a bit for each section there is */
    uint64_t pressure; /* most bytes alive at one of them */
    ranges any, all;   /* in use at one of them, in use at all of them */
    uint32_t piece_count;
    piece *pieces; /* ascending by low */
} strip;

typedef struct {
    item *items; /* in canonical order: first ascending, then last descending, then bytes descending */
    uint32_t count, sections, strip_count;
    uint32_t peak, peak_items; /* section; items alive there */
    uint64_t bound;            /* bytes alive there */
    uint64_t *live;            /* by section */
    sort_key *keys, *spare;    /* room to sort */
    uint32_t *orders;          /* one of `count` items per strategy; those alive at the peak come first */
    uint32_t *list;            /* room for a list of items */
    uint64_t *answer;          /* offsets of the best attempt, by item */
    strip *strips;
    piece *pieces; /* of all strips */
} packing;

static status no_memory(void) {
    return status_set(STATUS_FAILED, "the host has no memory left to plan the offsets of buffers");
}

/* Sorting: bottom-up merges, which skip what is in order already. */

static bool key_before(const sort_key *a, const sort_key *b) {
    return a->major != b->major ? a->major < b->major : a->minor < b->minor;
}

static void keys_merge(const sort_key *from, sort_key *to, size_t begin, size_t middle, size_t end) {
    size_t a = begin, b = middle, out = begin;
    if (middle < end && key_before(&from[middle], &from[middle - 1]))
        while (a < middle && b < end) to[out++] = key_before(&from[b], &from[a]) ? from[b++] : from[a++];
    memcpy(&to[out], &from[a], (middle - a) * sizeof *to);
    memcpy(&to[out + middle - a], &from[b], (end - b) * sizeof *to);
}

static void keys_sort(packing *p, size_t n) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n;
            keys_merge(p->keys, p->spare, begin, middle, middle + width < n ? middle + width : n);
        }
        sort_key *sorted = p->spare;
        p->spare = p->keys;
        p->keys = sorted;
    }
}

/* Strips. */

/* The sections of strip s during which the item lives. */
static uint64_t strip_bits(const item *it, uint32_t s) {
    uint32_t begin = s * STRIP_SECTIONS;
    uint32_t from = it->first > begin ? it->first - begin : 0;
    uint32_t to = it->last - begin < STRIP_SECTIONS ? it->last - begin : STRIP_SECTIONS - 1;
    return ~UINT64_C(0) >> (63 - to) & ~UINT64_C(0) << from;
}

/* The first range that ends at `offset` or above. */
static uint32_t ranges_find(const ranges *r, uint64_t offset) {
    uint32_t low = 0, high = r->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (r->at[middle].high < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static status ranges_add(ranges *r, uint64_t low, uint64_t high) {
    uint32_t begin = ranges_find(r, low), end = begin;
    while (end < r->count && r->at[end].low <= high) end++; /* begin .. end-1 touch what is added */
    if (begin < end) {
        if (r->at[begin].low < low) low = r->at[begin].low;
        if (r->at[end - 1].high > high) high = r->at[end - 1].high;
    } else if (r->count == r->capacity) {
        uint32_t capacity = r->capacity ? 2 * r->capacity : 8;
        range *grown = memory_resize(r->at, capacity, sizeof *grown);
        if (!grown) return no_memory();
        r->at = grown;
        r->capacity = capacity;
    }
    memmove(&r->at[begin + 1], &r->at[end], (r->count - end) * sizeof *r->at);
    r->at[begin] = (range){ low, high };
    r->count = r->count + begin + 1 - end;
    return STATUS_OK;
}

/* The lowest offset from `offset` on where `bytes` bytes are free. */
static uint64_t ranges_fit(const ranges *r, uint64_t offset, uint64_t bytes) {
    for (uint32_t i = ranges_find(r, offset); i < r->count && r->at[i].low < offset + bytes; i++)
        if (r->at[i].high > offset) offset = r->at[i].high;
    return offset;
}

static uint64_t strip_fit(const strip *s, uint64_t bits, uint64_t offset, uint64_t bytes) {
    if (bits == s->whole) return ranges_fit(&s->any, offset, bytes);
    for (uint64_t before = UINT64_MAX; before != offset;) {
        before = offset;
        offset = ranges_fit(&s->all, offset, bytes);
        for (const piece *q = s->pieces, *end = q + s->piece_count; q < end && q->low < offset + bytes; q++)
            if ((q->sections & bits) && q->high > offset) offset = q->high;
    }
    return offset;
}

static status strip_add(strip *s, uint64_t bits, uint64_t low, uint64_t high) {
    TRY(ranges_add(&s->any, low, high));
    if (bits == s->whole) return ranges_add(&s->all, low, high);
    uint32_t at = s->piece_count++;
    for (; at && s->pieces[at - 1].low > low; at--) s->pieces[at] = s->pieces[at - 1];
    s->pieces[at] = (piece){ low, high, bits };
    return STATUS_OK;
}

/* Attempts. */

/* First fit. The strips of a life take turns in raising the offset until all of them agree. */
static uint64_t item_fit(const packing *p, const item *it) {
    uint32_t begin = it->first / STRIP_SECTIONS, end = it->last / STRIP_SECTIONS;
    uint64_t offset = 0;
    for (uint32_t s = begin, agreed = 0; agreed <= end - begin; s = s == end ? begin : s + 1) {
        uint64_t higher = strip_fit(&p->strips[s], strip_bits(it, s), offset, it->bytes);
        agreed = higher == offset ? agreed + 1 : 1;
        offset = higher;
    }
    return offset;
}

static status item_place(packing *p, item *it, uint64_t offset) {
    it->offset = offset;
    for (uint32_t s = it->first / STRIP_SECTIONS; s <= it->last / STRIP_SECTIONS; s++)
        TRY(strip_add(&p->strips[s], strip_bits(it, s), offset, offset + it->bytes));
    return STATUS_OK;
}

/* Places all items; the arena they take. */
static status attempt(packing *p, const uint32_t *order, uint64_t *arena) {
    for (uint32_t s = 0; s < p->strip_count; s++)
        p->strips[s].any.count = p->strips[s].all.count = p->strips[s].piece_count = 0;
    uint64_t stack = 0; /* its height so far */
    *arena = p->bound;
    for (uint32_t i = 0; i < p->count; i++) {
        item *it = &p->items[order[i]];
        TRY(item_place(p, it, it->peak ? stack : item_fit(p, it)));
        if (it->peak) stack += it->bytes;
        if (it->offset + it->bytes > *arena) *arena = it->offset + it->bytes;
    }
    return STATUS_OK;
}

/* Orders. */

static uint64_t item_pressure(const packing *p, const item *it) {
    uint64_t most = 0;
    for (uint32_t s = it->first; s <= it->last;) {
        bool whole = s % STRIP_SECTIONS == 0 && it->last - s >= STRIP_SECTIONS - 1;
        uint64_t here = whole ? p->strips[s / STRIP_SECTIONS].pressure : p->live[s];
        if (here > most) most = here;
        s += whole ? STRIP_SECTIONS : 1;
    }
    return most;
}

typedef enum { BY_SIZE, BY_PRESSURE_AND_LIFE, BY_LIFE_AND_SIZE, BY_DISTANCE_AND_SIZE } rest_rule;

/* A way to order the items. Ties keep the canonical order. */
typedef struct {
    bool hang;     /* the stack is turned upside down */
    bool by_birth; /* the stack by earliest birth, or by latest death */
    bool apart; /* what is too small to matter goes to one end of the stack, where it splits no free space */
    rest_rule rest; /* those that are not alive at the peak */
} strategy;

/* Most likely to succeed first; the others were found to help where these fail. */
static const strategy strategies[STRATEGIES] = {
    { .hang = true, .rest = BY_PRESSURE_AND_LIFE },
    { .by_birth = true, .rest = BY_SIZE },
    { .rest = BY_SIZE },
    { .hang = true, .by_birth = true, .rest = BY_PRESSURE_AND_LIFE },
    { .apart = true, .rest = BY_LIFE_AND_SIZE },
    { .hang = true, .by_birth = true, .apart = true, .rest = BY_DISTANCE_AND_SIZE },
    { .hang = true, .rest = BY_LIFE_AND_SIZE },
};

static sort_key stack_key(const packing *p, const item *it, strategy how) {
    if (how.apart && it->bytes < p->bound / SMALL_PART) return (sort_key){ 0 };
    return (sort_key){ .major = how.by_birth ? 1 : 1 + (uint64_t)(UINT32_MAX - it->last) };
}

/* Behind every stack_key. */
static sort_key rest_key(const packing *p, const item *it, rest_rule rule) {
    uint64_t life = it->last - it->first, size = ~it->bytes;
    uint64_t distance = it->first > p->peak ? it->first - p->peak : p->peak - it->last;
    switch (rule) {
    case BY_PRESSURE_AND_LIFE: return (sort_key){ ~item_pressure(p, it), ~life, 0 };
    case BY_LIFE_AND_SIZE: return (sort_key){ ~life, size, 0 };
    case BY_DISTANCE_AND_SIZE: return (sort_key){ UINT64_C(1) << 63 | distance, size, 0 };
    case BY_SIZE: break;
    }
    return (sort_key){ size, 0, 0 };
}

static void make_order(packing *p, strategy how, uint32_t *order) {
    uint32_t stack = 0, rest = p->peak_items;
    for (uint32_t i = 0; i < p->count; i++) {
        const item *it = &p->items[i];
        sort_key *key = &p->keys[it->peak ? stack++ : rest++];
        *key = it->peak ? stack_key(p, it, how) : rest_key(p, it, how.rest);
        key->index = i;
    }
    keys_sort(p, p->count);
    for (uint32_t i = 0; i < p->count; i++)
        order[how.hang && i < stack ? stack - 1 - i : i] = p->keys[i].index;
}

/* What ended above the bound moves forward, right behind the stack; false if it is there already. */
static bool promote(packing *p, uint32_t *order) {
    uint32_t n = p->peak_items, behind = 0;
    bool moved = false;
    for (uint32_t i = n; i < p->count; i++) {
        const item *it = &p->items[order[i]];
        if (it->offset + it->bytes > p->bound) {
            moved |= behind > 0;
            order[n++] = order[i];
        } else
            p->list[behind++] = order[i];
    }
    memcpy(&order[n], p->list, behind * sizeof *order);
    return moved;
}

/* The strategies take turns; one whose order can't change any more is stuck. After the first round effort is
 * limited, the more so when there is little left to gain. */
static status search(packing *p, uint64_t *arena) {
    bool stuck[STRATEGIES] = { false };
    uint32_t idle = 0; /* turns in a row that were skipped */
    uint32_t effort = 0, most = ATTEMPTS_TIMES_ITEMS / p->count;
    if (most > ATTEMPTS_MOST) most = ATTEMPTS_MOST;
    *arena = UINT64_MAX;
    for (uint32_t turn = 0; *arena > p->bound && idle < STRATEGIES; turn++) {
        uint32_t i = turn % STRATEGIES, *order = &p->orders[(size_t)i * p->count];
        if (turn >= STRATEGIES && effort >= most) break;
        idle = stuck[i] ? idle + 1 : 0;
        if (stuck[i]) continue;
        if (turn < STRATEGIES) make_order(p, strategies[i], order);
        uint64_t size;
        TRY(attempt(p, order, &size));
        if (size < *arena) {
            *arena = size;
            for (uint32_t k = 0; k < p->count; k++) p->answer[k] = p->items[k].offset;
        }
        uint64_t excess = *arena - p->bound;
        effort += excess > p->bound / 100 ? 1 : excess > p->bound / 1000 ? 4 : 16;
        stuck[i] = !promote(p, order);
    }
    return STATUS_OK;
}

/* Preparing. */

static status input_check(const pack_interval *v, uint32_t count) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (v[i].first > v[i].last || v[i].bytes % PACK_ALIGNMENT)
            return status_set(
                STATUS_INVALID,
                "interval %u (%llu bytes, steps %u to %u) can't be packed: sizes must be multiples of %d and "
                "lives must not end before they begin",
                i, (unsigned long long)v[i].bytes, v[i].first, v[i].last, PACK_ALIGNMENT);
        if (v[i].bytes >> 62 || (total += v[i].bytes) >> 62)
            return status_set(STATUS_INVALID, "the intervals up to number %u add up to 2^62 bytes or more",
                              i);
    }
    return STATUS_OK;
}

/* Items in canonical order, steps turned into sections: two lives overlap as sections if they do as steps. */
static void make_items(packing *p, const pack_interval *v, uint32_t count) {
    uint32_t *steps = p->list, n = 0, sections = 0; /* where each section begins */
    for (uint32_t i = 0; i < count; i++)
        if (v[i].bytes)
            p->keys[n++] =
                (sort_key){ (uint64_t)v[i].first << 32 | (UINT32_MAX - v[i].last), ~v[i].bytes, i };
    keys_sort(p, n);
    for (uint32_t i = 0; i < n; i++) {
        const pack_interval *from = &v[p->keys[i].index];
        if (!sections || steps[sections - 1] != from->first) steps[sections++] = from->first;
        p->items[i] = (item){ .bytes = from->bytes, .first = sections - 1, .source = p->keys[i].index };
    }
    for (uint32_t i = 0; i < n; i++) { /* the last section that begins by the last step: gallop, then halve */
        uint32_t at = p->items[i].first, last = v[p->items[i].source].last, jump = 1;
        for (; jump < sections - at && steps[at + jump] <= last; jump *= 2) at += jump;
        for (; jump; jump /= 2)
            if (jump < sections - at && steps[at + jump] <= last) at += jump;
        p->items[i].last = at;
    }
    p->count = n;
    p->sections = sections;
}

static void find_peak(packing *p) {
    for (uint32_t i = 0; i < p->count; i++) { /* differences first, wrapping around below zero */
        const item *it = &p->items[i];
        p->live[it->first] += it->bytes;
        if (it->last + 1 < p->sections) p->live[it->last + 1] -= it->bytes;
    }
    for (uint32_t s = 0; s < p->sections; s++) {
        if (s) p->live[s] += p->live[s - 1];
        if (p->live[s] > p->bound) p->bound = p->live[s], p->peak = s;
        uint64_t *pressure = &p->strips[s / STRIP_SECTIONS].pressure;
        if (p->live[s] > *pressure) *pressure = p->live[s];
    }
    for (uint32_t i = 0; i < p->count; i++) {
        item *it = &p->items[i];
        it->peak = it->first <= p->peak && p->peak <= it->last;
        p->peak_items += it->peak;
    }
}

/* How many pieces each strip may have to hold: an item makes one at most at either end of its life. */
static void make_strips(packing *p) {
    p->strip_count = (p->sections + STRIP_SECTIONS - 1) / STRIP_SECTIONS;
    for (uint32_t s = 0; s < p->strip_count; s++) {
        uint32_t rest = p->sections - s * STRIP_SECTIONS;
        p->strips[s].whole = ~UINT64_C(0) >> (64 - (rest < STRIP_SECTIONS ? rest : STRIP_SECTIONS));
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const item *it = &p->items[i];
        uint32_t begin = it->first / STRIP_SECTIONS, end = it->last / STRIP_SECTIONS;
        p->strips[begin].piece_count++;
        if (begin != end) p->strips[end].piece_count++;
    }
    piece *next = p->pieces;
    for (uint32_t s = 0; s < p->strip_count; s++) {
        p->strips[s].pieces = next;
        next += p->strips[s].piece_count;
    }
}

static void packing_close(packing *p) {
    memory_free(p->items);
    memory_free(p->live);
    memory_free(p->keys);
    memory_free(p->spare);
    memory_free(p->orders);
    memory_free(p->list);
    memory_free(p->answer);
    for (uint32_t s = 0; s < p->strip_count; s++) {
        memory_free(p->strips[s].any.at);
        memory_free(p->strips[s].all.at);
    }
    memory_free(p->strips);
    memory_free(p->pieces);
}

static status packing_open(packing *p, const pack_interval *intervals, uint32_t count) {
    *p = (packing){ 0 };
    size_t n = count;
    p->items = memory_new(n, sizeof *p->items);
    p->live = memory_new(n, sizeof *p->live);
    p->keys = memory_new(n, sizeof *p->keys);
    p->spare = memory_new(n, sizeof *p->spare);
    p->orders = memory_new(n * STRATEGIES, sizeof *p->orders);
    p->list = memory_new(n, sizeof *p->list);
    p->answer = memory_new(n, sizeof *p->answer);
    p->strips = memory_new(n / STRIP_SECTIONS + 1, sizeof *p->strips);
    p->pieces = memory_new(2 * n, sizeof *p->pieces);
    if (!p->items || !p->live || !p->keys || !p->spare || !p->orders || !p->list || !p->answer ||
        !p->strips || !p->pieces) {
        packing_close(p);
        return no_memory();
    }
    make_items(p, intervals, count);
    make_strips(p);
    find_peak(p);
    return STATUS_OK;
}

status pack_intervals(pack_interval *intervals, uint32_t count, uint64_t *arena_bytes) {
    packing p;
    status result = STATUS_OK;
    *arena_bytes = 0;
    TRY(input_check(intervals, count));
    TRY(packing_open(&p, intervals, count));
    if (p.count) TRY_OR(done, search(&p, arena_bytes));
    for (uint32_t i = 0; i < count; i++) intervals[i].offset = 0;
    for (uint32_t i = 0; i < p.count; i++) intervals[p.items[i].source].offset = p.answer[i];
done:
    packing_close(&p);
    return result;
}

/* The lower bound. */

/* Needs no memory, but quadratic time. */
static uint64_t bound_by_births(const pack_interval *v, uint32_t count, uint32_t *peak) {
    uint64_t bound = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t live = 0;
        for (uint32_t k = 0; k < count; k++)
            if (v[k].first <= v[i].first && v[i].first <= v[k].last) live += v[k].bytes;
        if (live > bound || (live == bound && live && v[i].first < *peak)) bound = live, *peak = v[i].first;
    }
    return bound;
}

/* `change`: room for one number per step and one more, zeroed. */
static uint64_t bound_by_steps(const pack_interval *v, uint32_t count, uint64_t *change, uint64_t steps,
                               uint32_t *peak) {
    uint64_t bound = 0, live = 0;
    for (uint32_t i = 0; i < count; i++) { /* differences, wrapping around below zero */
        change[v[i].first] += v[i].bytes;
        change[(uint64_t)v[i].last + 1] -= v[i].bytes;
    }
    for (uint64_t s = 0; s < steps; s++) {
        live += change[s];
        if (live > bound) bound = live, *peak = (uint32_t)s;
    }
    return bound;
}

uint64_t pack_lower_bound(const pack_interval *intervals, uint32_t count, uint32_t *peak_step) {
    uint64_t steps = 0, bound;
    uint32_t peak = 0;
    for (uint32_t i = 0; i < count; i++)
        if (intervals[i].last >= steps) steps = (uint64_t)intervals[i].last + 1;
    bool dense = steps <= 64 * (uint64_t)count;
    uint64_t *change = dense ? memory_new(steps + 1, sizeof *change) : NULL;
    if (change)
        bound = bound_by_steps(intervals, count, change, steps, &peak);
    else
        bound = bound_by_births(intervals, count, &peak);
    memory_free(change);
    if (peak_step) *peak_step = peak;
    return bound;
}
