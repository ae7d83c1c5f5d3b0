#include "data/fill.h"

#include <string.h>

uint64_t fill_bytes(uint32_t most) { return most * (sizeof(uint32_t) + 4 * sizeof(uint16_t)); }

fill fill_lists(void *memory, uint32_t most) {
    uint32_t *room = memory;
    uint16_t *rest = (uint16_t *)(room + most);
    return (fill){ .room = room,
                   .opens = rest,
                   .next = rest + most,
                   .home = rest + 2 * (uint64_t)most,
                   .order = rest + 3 * (uint64_t)most };
}

/* Longer is larger. Of one length a mixed number decides: by their order the last of many like pieces would
 * open windows, and what is in those would stand late in the data. */
static uint64_t key_of(const uint32_t *lengths, uint32_t piece) {
    return (uint64_t)lengths[piece] << 8 | (uint8_t)(piece * 0x9e3779b1u >> 24);
}

/* From the largest key to the smallest, by digits of 256, the lowest first. Of each pass the result is the
 * other list; `next` serves as one. */
static const uint16_t *sort(const fill *f, const uint32_t *lengths, uint32_t count, uint32_t longest) {
    uint16_t *from = f->order, *to = f->next;
    for (uint32_t i = 0; i < count; i++) from[i] = (uint16_t)i;
    for (uint32_t shift = 0; shift < 40 && (uint64_t)longest << 8 >> shift; shift += 8) {
        uint32_t begins[257] = { 0 }; /* begins[255 - digit]: of the pieces with that digit */
        for (uint32_t i = 0; i < count; i++) begins[256 - (key_of(lengths, i) >> shift & 255)]++;
        for (uint32_t digit = 0; digit < 256; digit++) begins[digit + 1] += begins[digit];
        for (uint32_t i = 0; i < count; i++)
            to[begins[255 - (key_of(lengths, from[i]) >> shift & 255)]++] = from[i];
        uint16_t *swapped = from;
        from = to, to = swapped;
    }
    return from;
}

/* The first of the ascending rooms that has as much; `count`: none. Without branches: what is found is
 * anybody's guess. */
static uint32_t lower_bound(const uint32_t *room, uint32_t count, uint32_t wanted) {
    uint32_t low = 0;
    while (count > 1) {
        uint32_t half = count / 2;
        low += room[low + half - 1] < wanted ? half : 0;
        count -= half;
    }
    return count && room[low] < wanted ? low + 1 : low;
}

/* Windows are listed by their room, the fullest first, each named by the piece that opened it: `names` is the
 * list of sorted pieces, of which as many are taken as windows can be open. */
static uint32_t best_fit(const fill *f, const uint32_t *lengths, uint32_t count, uint32_t context,
                         uint16_t *names, const uint16_t *sorted) {
    uint32_t open = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t piece = sorted[i];
        uint32_t at = lower_bound(f->room, open, lengths[piece]);
        if (at == open) f->room[at] = context, names[at] = piece, open++;
        uint16_t name = names[at];
        uint32_t left = f->room[at] - lengths[piece], to = lower_bound(f->room, at, left);
        memmove(f->room + to + 1, f->room + to, (at - to) * sizeof *f->room);
        memmove(names + to + 1, names + to, (at - to) * sizeof *names);
        f->room[to] = left, names[to] = name;
        f->home[piece] = name;
    }
    return open;
}

static uint32_t next_fit(const fill *f, const uint32_t *lengths, uint32_t count, uint32_t context) {
    uint32_t windows = 0, room = 0, name = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (lengths[i] > room) windows++, name = i, room = context;
        room -= lengths[i];
        f->home[i] = (uint16_t)name;
    }
    return windows;
}

/* Each piece knows who opened its window: the pieces of a window in their order. */
static void link_up(const fill *f, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) f->opens[i] = FILL_NONE;
    for (uint32_t i = count; i-- > 0;) {
        uint16_t *first = &f->opens[f->home[i]];
        f->next[i] = *first;
        *first = (uint16_t)i;
    }
}

uint32_t fill_alone(const fill *f, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) f->home[i] = (uint16_t)i;
    link_up(f, count);
    return count;
}

uint32_t fill_windows(const fill *f, const uint32_t *lengths, uint32_t count, uint32_t context) {
    uint32_t longest = 0;
    uint64_t all = 0;
    for (uint32_t i = 0; i < count; i++) {
        all += lengths[i];
        if (lengths[i] > longest) longest = lengths[i];
    }
    uint32_t inorder = next_fit(f, lengths, count, context), best = inorder;
    if ((all + context - 1) / context < inorder) {
        best = best_fit(f, lengths, count, context, f->opens, sort(f, lengths, count, longest));
        if (best >= inorder) best = next_fit(f, lengths, count, context);
    }
    link_up(f, count);
    return best;
}
