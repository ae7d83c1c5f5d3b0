#include "infer/constraint/constraint.h"

#include <string.h>

static void keep_frames(constraint *c, const machine *m) {
    c->frame_count = m->frame_count;
    memcpy(c->frames, m->frames, m->frame_count * sizeof *m->frames);
}

void constraint_begin(constraint *c, const constraint_words *words) {
    machine_frame none[1] = { { 0 } };
    machine m = { .schema = &c->schema, .frames = none, .room = 1 };
    c->words = words;
    machine_begin(&m, &c->state);
    keep_frames(c, &m);
}

/* ---- masks ---- */

uint64_t constraint_mask_bytes(int64_t vocabulary) {
    uint64_t words = ((uint64_t)vocabulary + 63) / 64;
    return (sizeof(constraint_mask) + words * sizeof(uint64_t) + 63) / 64 * 64;
}

static void allow(constraint_mask *w, int32_t id) { w->bits[id / 64] |= UINT64_C(1) << id % 64; }

/* The state behind the byte at `place` of a token, from the one before it. */
static bool step(constraint_mask *w, uint32_t place, unsigned char c) {
    w->machine.frame_count = w->frame_counts[place];
    machine_step(&w->machine, &w->states[place], c, &w->states[place + 1]);
    w->frame_counts[place + 1] = w->machine.frame_count;
    return w->states[place + 1].count > 0;
}

/* Tokens from `from` to `to`, which have the first byte in common, with which states[1] is still alive. What
 * a token shares with the one before it was read already, or has failed already. */
static void walk_range(const constraint_words *v, const vocabulary_list *l, uint32_t from, uint32_t to,
                       constraint_mask *w) {
    uint32_t known = 1, failed = UINT32_MAX; /* states[known] is there; with so many bytes it had failed */
    for (uint32_t i = from; i < to; i++) {
        int32_t id = l->ids[i];
        uint32_t shared = i == from ? 1 : l->shared[i], length = v->start[id + 1] - v->start[id];
        const char *bytes = v->bytes + v->start[id];
        if (shared >= failed) continue;
        failed = UINT32_MAX;
        if (shared < known) known = shared;
        if (length > VOCABULARY_LONGEST) continue;
        while (known < length && step(w, known, (unsigned char)bytes[known])) known++;
        if (known < length)
            failed = known + 1;
        else
            allow(w, id);
    }
}

static void walk(const constraint_words *v, const vocabulary_list *l, constraint_mask *w) {
    for (int c = 0; c < 256; c++)
        if (l->first[c] < l->first[c + 1] && step(w, 0, (unsigned char)c))
            walk_range(v, l, l->first[c], l->first[c + 1], w);
}

/* Plain tokens within a text, all of them or those that are not too long. */
static void allow_plain(const constraint_words *v, uint32_t left, constraint_mask *w) {
    uint64_t words = ((uint64_t)v->count + 63) / 64;
    if (left >= v->most_characters) {
        for (uint64_t i = 0; i < words; i++) w->bits[i] |= v->plain_bits[i];
        return;
    }
    for (uint32_t i = 0; i < v->plain.first[256]; i++)
        if (v->characters[i] <= left) allow(w, v->plain.ids[i]);
}

/* Threads that stand in a text allow plain tokens without a walk; the others walk. */
static void allow_plain_ones(const constraint *c, constraint_mask *w) {
    machine_state *rest = &w->states[0];
    uint32_t left, most = 0;
    bool any = false;
    rest->count = 0;
    for (uint32_t i = 0; i < c->state.count; i++) {
        const machine_thread *t = &c->state.threads[i];
        if (!machine_in_text(&w->machine, t, &left)) {
            rest->threads[rest->count++] = *t;
            continue;
        }
        any = true;
        if (left > most) most = left;
    }
    if (any) allow_plain(c->words, most, w);
    if (rest->count) walk(c->words, &c->words->plain, w);
}

static void copy_state(const machine_state *from, machine_state *to) {
    to->count = from->count;
    memcpy(to->threads, from->threads, from->count * sizeof *from->threads);
}

void constraint_allow(const constraint *c, constraint_mask *w) {
    const constraint_words *v = c->words;
    w->machine = (machine){ .schema = &c->schema, .frames = w->frames, .room = MACHINE_FRAMES };
    memcpy(w->frames, c->frames, c->frame_count * sizeof *c->frames);
    w->frame_counts[0] = c->frame_count;
    memset(w->bits, 0, ((uint64_t)v->count + 63) / 64 * sizeof(uint64_t));
    allow_plain_ones(c, w);
    copy_state(&c->state, &w->states[0]);
    walk(v, &v->others, w);
    for (uint32_t i = 0; machine_complete(&c->state) && i < v->end_count; i++) allow(w, v->ends[i]);
}

/* ---- a token ---- */

void constraint_take(constraint *c, int32_t id) {
    const constraint_words *v = c->words;
    machine_frame frames[MACHINE_FRAMES];
    machine m = {
        .schema = &c->schema, .frames = frames, .frame_count = c->frame_count, .room = MACHINE_FRAMES
    };
    memcpy(frames, c->frames, c->frame_count * sizeof *frames);
    for (uint32_t i = v->start[id]; i < v->start[id + 1]; i++) {
        machine_state next;
        machine_step(&m, &c->state, (unsigned char)v->bytes[i], &next);
        machine_settle(&m, &next);
        copy_state(&next, &c->state);
    }
    keep_frames(c, &m);
}

bool constraint_over(const constraint *c) { return machine_over(&c->state); }
