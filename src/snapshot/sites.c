#include "snapshot/sites.h"

#include <stdlib.h>

#include "base/memory.h"

enum { MOST_BLOCKS = 4096 };

static uint32_t plain(const course *c, const snapshot_piece *p) {
    return stacks_plain(&c->snapshot->stacks, p->stack);
}

typedef struct {
    const course *course;
    const alive *alive;
    const verdict *verdicts;
    uint32_t *own;   /* by stack: number of its own frame, counted from 1; 0: none */
    uint32_t *calls; /* by stack: allocations in the forward that is looked at */
    uint32_t run;    /* that forward; UINT32_MAX: none */
} looking;

/* ---- blocks ---- */

/* The forward that made most of the activations. */
static uint32_t main_forward(const looking *l) {
    uint64_t best = 0, *bytes = memory_new(l->course->count + 1, sizeof *bytes);
    uint32_t run = UINT32_MAX;
    for (uint32_t i = 0; bytes && i < l->alive->count; i++) {
        const snapshot_piece *p = l->alive->pieces[i];
        uint32_t r = course_run_at(l->course, p->born);
        if (l->verdicts[i].role != ROLES_ACTIVATION || r == UINT32_MAX) continue;
        bytes[r] += p->bytes;
        if (bytes[r] > best) best = bytes[r], run = r;
    }
    memory_free(bytes);
    return run;
}

/* A forward that was not finished counts by the last one that was. */
static const course_run *whole_forward(const looking *l) {
    const course *c = l->course;
    uint32_t run = l->run;
    if (run + 1 < c->count) return &c->runs[run];
    for (uint32_t i = run; i-- > 0;)
        if (c->runs[i].phase == COURSE_FORWARD && c->runs[i + 1].phase == COURSE_BACKWARD) return &c->runs[i];
    return &c->runs[run];
}

static void count_calls(const looking *l) {
    const course_run *r = whole_forward(l);
    const array *pieces = &l->course->trace->pieces;
    for (uint32_t i = 0; i < snapshot_count(pieces); i++) {
        const snapshot_piece *p = snapshot_piece_at(pieces, i);
        if (p->born > r->ends) break;
        if (p->born >= r->begins) l->calls[plain(l->course, p)]++;
    }
}

/* The largest number that the calls of nearly all that is kept are multiples of; `bytes` by calls. */
static uint32_t most_common(const uint64_t *bytes) {
    uint64_t all = 0, best = 0;
    uint32_t blocks = 0;
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t k = 2; k <= MOST_BLOCKS; k++) {
            for (uint32_t m = k; m <= MOST_BLOCKS; m += k) all += bytes[m];
            if (pass == 0 && all > best) best = all;
            if (pass == 1 && all && (double)all >= 0.9 * (double)best) blocks = k;
            all = 0;
        }
    return blocks;
}

static bool is_finished(const course *c, uint32_t run) {
    return run + 1 < c->count && c->runs[run + 1].phase == COURSE_BACKWARD;
}

/* What of each run is kept, and the run of most. Where one was finished, those that were cut don't count:
 * their temporaries look like what is kept. */
static uint32_t fullest_run(const course *c, const roles *r, uint64_t *bytes) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < snapshot_count(&c->trace->pieces); i++) {
        const snapshot_piece *p = snapshot_piece_at(&c->trace->pieces, i);
        uint32_t run = course_run_at(c, p->born);
        if (run == UINT32_MAX || roles_of(r, p).role != ROLES_ACTIVATION) continue;
        bytes[run] += p->bytes;
    }
    for (uint32_t run = 0; run < c->count; run++) {
        bool whole = is_finished(c, run), before = best != UINT32_MAX && is_finished(c, best);
        if (!bytes[run] || (before && !whole)) continue;
        if (best == UINT32_MAX || whole != before || bytes[run] > bytes[best]) best = run;
    }
    return best;
}

/* The loss is behind all blocks, and large. */
static void count_kept(const looking *l, const roles *r, uint64_t *bytes) {
    const course_run *run = &l->course->runs[l->run];
    const array *pieces = &l->course->trace->pieces;
    for (uint32_t i = 0; i < snapshot_count(pieces); i++) {
        const snapshot_piece *p = snapshot_piece_at(pieces, i);
        if (p->born > run->ends) break;
        if (p->born < run->begins || roles_of(r, p).role != ROLES_ACTIVATION) continue;
        if (l->course->traits->of[p->stack] & TRAIT_LOSS) continue;
        uint32_t calls = l->calls[plain(l->course, p)];
        if (calls <= MOST_BLOCKS) bytes[calls] += p->bytes;
    }
}

status sites_blocks(const course *c, const roles *r, uint32_t *blocks) {
    *blocks = 0;
    if (!c->traits->modules || !c->count) return STATUS_OK;
    looking l = { .course = c };
    uint64_t *of_runs = memory_new(c->count, sizeof *of_runs),
             *by_calls = memory_new(MOST_BLOCKS + 1, sizeof *by_calls);
    l.calls = memory_new(c->traits->count + 1, sizeof *l.calls);
    bool there = of_runs && by_calls && l.calls;
    l.run = there ? fullest_run(c, r, of_runs) : UINT32_MAX;
    if (l.run != UINT32_MAX) {
        count_calls(&l);
        count_kept(&l, r, by_calls);
        *blocks = most_common(by_calls);
    }
    memory_free(of_runs), memory_free(by_calls), memory_free(l.calls);
    return there ? STATUS_OK : status_set(STATUS_FAILED, "no memory for the blocks of the model");
}

static bool is_in_blocks(const looking *l, const sites *s, uint32_t stack) {
    return s->blocks && l->calls[stack] && l->calls[stack] % s->blocks == 0;
}

/* Goes through the forward once more, and counts the calls of each stack anew. */
static status share_out(const looking *l, sites *s) {
    uint32_t *seen = memory_new(l->course->traits->count + 1, sizeof *seen);
    s->by_block = memory_new(s->blocks + 1, sizeof *s->by_block);
    status result = seen && s->by_block ? STATUS_OK : status_set(STATUS_FAILED, "no memory for blocks");
    const array *pieces = &l->course->trace->pieces;
    const course_run *r = l->run == UINT32_MAX ? NULL : &l->course->runs[l->run];
    uint32_t at = 0;
    for (uint32_t i = 0; result == STATUS_OK && i < l->alive->count; i++) {
        const snapshot_piece *p = l->alive->pieces[i];
        if (l->verdicts[i].role != ROLES_ACTIVATION) continue;
        bool here =
            r && p->born >= r->begins && p->born <= r->ends && is_in_blocks(l, s, plain(l->course, p));
        if (!here) {
            s->outside += p->bytes;
            continue;
        }
        for (; at < snapshot_count(pieces) && snapshot_piece_at(pieces, at) < p; at++)
            if (snapshot_piece_at(pieces, at)->born >= r->begins)
                seen[plain(l->course, snapshot_piece_at(pieces, at))]++;
        uint32_t own = plain(l->course, p), block = seen[own] / (l->calls[own] / s->blocks);
        *(block < s->blocks ? &s->by_block[block] : &s->outside) += p->bytes;
    }
    memory_free(seen);
    return result;
}

/* Pieces from..end are those of one forward. */
static void number_run(const array *pieces, const uint32_t range[2], uint32_t blocks, uint32_t *counts[2],
                       int32_t *block) {
    uint32_t *calls = counts[0], *seen = counts[1];
    for (uint32_t i = range[0]; i < range[1]; i++) calls[snapshot_piece_at(pieces, i)->stack]++;
    for (uint32_t i = range[0]; i < range[1]; i++) {
        uint32_t stack = snapshot_piece_at(pieces, i)->stack;
        if (calls[stack] % blocks == 0) block[i] = (int32_t)(seen[stack]++ / (calls[stack] / blocks));
    }
    for (uint32_t i = range[0]; i < range[1]; i++) {
        uint32_t stack = snapshot_piece_at(pieces, i)->stack;
        calls[stack] = seen[stack] = 0;
    }
}

status sites_number(const course *c, uint32_t blocks, int32_t *block) {
    const array *pieces = &c->trace->pieces;
    uint32_t all = snapshot_count(pieces), at = 0;
    for (uint32_t i = 0; i < all; i++) block[i] = -1;
    if (!blocks) return STATUS_OK;
    uint32_t *calls = memory_new(c->traits->count + 1, sizeof *calls),
             *seen = memory_new(c->traits->count + 1, sizeof *seen);
    for (uint32_t r = 0; calls && seen && r < c->count; r++) {
        if (c->runs[r].phase != COURSE_FORWARD) continue;
        uint32_t range[2];
        while (at < all && snapshot_piece_at(pieces, at)->born < c->runs[r].begins) at++;
        range[0] = at;
        while (at < all && snapshot_piece_at(pieces, at)->born <= c->runs[r].ends) at++;
        range[1] = at;
        number_run(pieces, range, blocks, (uint32_t *[]){ calls, seen }, block);
    }
    bool there = calls && seen;
    memory_free(calls), memory_free(seen);
    return there ? STATUS_OK : status_set(STATUS_FAILED, "no memory for the blocks of the model");
}

/* ---- places ---- */

static uint32_t frame_number(const snapshot *s, uint32_t stack, uint32_t frame) {
    return (uint32_t)(stacks_at(&s->stacks, stack, frame) - (const stacks_frame *)s->stacks.frames.data);
}

typedef struct {
    uint64_t key; /* role and frame */
    uint32_t piece;
} keyed;

static int by_key(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static int largest_first(const void *a, const void *b) {
    const sites_place *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    return x->role < y->role ? -1 : x->role > y->role;
}

/* What was said of the pieces: the first of it, and whether there is other. */
static void note_said(const snapshot *s, sites_place *x, uint32_t stack) {
    uint32_t said = 0;
    for (uint32_t i = 0; i < stacks_depth(&s->stacks, stack) && !said; i++)
        if (stacks_is_said(stacks_at(&s->stacks, stack, i))) said = frame_number(s, stack, i);
    if (x->count > 1 && said != x->said) x->differs = true;
    if (!x->said) x->said = said;
}

static status gather(const looking *l, sites *s) {
    uint32_t n = l->alive->count;
    keyed *all = memory_room(n + 1, sizeof *all);
    s->places = memory_new(n + 1, sizeof *s->places);
    if (!all || !s->places) {
        memory_free(all);
        return status_set(STATUS_FAILED, "no memory for places in the code");
    }
    for (uint32_t i = 0; i < n; i++)
        all[i] = (keyed){ (uint64_t)l->verdicts[i].role << 32 | l->own[l->alive->pieces[i]->stack], i };
    qsort(all, n, sizeof *all, by_key);
    for (uint32_t i = 0; i < n; i++) {
        const snapshot_piece *p = l->alive->pieces[all[i].piece];
        if (i == 0 || all[i].key != all[i - 1].key)
            s->places[s->count++] =
                (sites_place){ .role = l->verdicts[all[i].piece].role,
                               .stack = p->stack,
                               .frame = traits_own_frame(l->course->snapshot, p->stack),
                               .in_blocks = l->verdicts[all[i].piece].role == ROLES_ACTIVATION };
        sites_place *x = &s->places[s->count - 1];
        x->count++, x->bytes += p->bytes;
        note_said(l->course->snapshot, x, p->stack);
        x->in_blocks = x->in_blocks && is_in_blocks(l, s, plain(l->course, p));
    }
    memory_free(all);
    qsort(s->places, s->count, sizeof *s->places, largest_first);
    return STATUS_OK;
}

static void find_own(const looking *l) {
    const snapshot *s = l->course->snapshot;
    for (uint32_t i = 0; i < l->alive->count; i++) {
        uint32_t stack = l->alive->pieces[i]->stack, frame;
        if (!stack || l->own[stack]) continue;
        frame = traits_own_frame(s, stack);
        l->own[stack] = frame == UINT32_MAX ? 0 : frame_number(s, stack, frame);
    }
}

status sites_open(const course *c, const alive *a, const verdict *verdicts, uint32_t blocks, sites *s) {
    *s = (sites){ .blocks = blocks };
    looking l = { .course = c, .alive = a, .verdicts = verdicts, .run = UINT32_MAX };
    l.own = memory_new(c->traits->count + 1, sizeof *l.own);
    l.calls = memory_new(c->traits->count + 1, sizeof *l.calls);
    status result =
        l.own && l.calls ? STATUS_OK : status_set(STATUS_FAILED, "no memory for places in the code");
    if (result == STATUS_OK) {
        l.run = main_forward(&l);
        if (l.run != UINT32_MAX) count_calls(&l);
        find_own(&l);
        result = share_out(&l, s);
    }
    if (result == STATUS_OK) result = gather(&l, s);
    memory_free(l.own);
    memory_free(l.calls);
    if (result != STATUS_OK) sites_close(s);
    return result;
}

void sites_close(sites *s) {
    memory_free(s->places);
    memory_free(s->by_block);
    *s = (sites){ 0 };
}
