#include "snapshot/remedies.h"

#include <stdlib.h>

#include "base/memory.h"

/* Less than this part of the peak is not worth a look: recordings have many small allocations. */
static const uint64_t WORTH = 20000;

enum { CHUNKS = 8, SMALLER = 4 };

const char *remedies_name(remedies_kind k) {
    static const char *const names[REMEDIES_COUNT] = { "checkpointing", "half-batch", "fused-loss",
                                                       "fused-update", "small-state" };
    return names[k];
}

typedef struct {
    uint32_t at;
    int64_t change;
} step_change;

/* A block's forward: what it makes and keeps, and how far it goes up meanwhile. */
typedef struct {
    uint32_t run, begins, ends, output; /* instants; output: the piece that it hands on */
    uint32_t needed;                    /* when backward frees the first of what it kept */
    uint64_t kept;                      /* without the output */
    uint64_t from, climbs;
} block_call;

typedef struct {
    const course *course;
    const levels *levels;
    const roles *roles;
    uint32_t blocks, count; /* of pieces */
    uint8_t *role;          /* by piece */
    uint32_t *block;        /* by piece: call of a block, counted from 1; 0: in none */
    block_call *calls;
    uint32_t call_count;
    uint64_t worth, loss; /* loss: bytes of the largest that it makes */
    step_change *changes;
    uint32_t change_count, room;
    remedies_kind kind;
} finding;

/* ---- calls of blocks ---- */

static const snapshot_piece *piece_at(const finding *f, uint32_t i) {
    return snapshot_piece_at(&f->course->trace->pieces, i);
}

/* Without what was said of it: blocks may be told by name. */
static uint32_t stack_of(const finding *f, uint32_t i) {
    return stacks_plain(&f->course->snapshot->stacks, piece_at(f, i)->stack);
}

static bool is_kept(const finding *f, uint32_t i) { return f->role[i] == ROLES_ACTIVATION; }

static void join_call(finding *f, uint32_t first, uint32_t call, uint32_t i) {
    const snapshot_piece *p = piece_at(f, i);
    block_call *b = &f->calls[first + call];
    f->block[i] = first + call + 1;
    if (!b->begins) b->begins = p->born, b->needed = SNAPSHOT_NEVER;
    b->ends = p->born;
    b->output = i;
    b->kept += p->bytes;
}

/* Allocations of one stack, in their order, are those of the blocks. */
static status find_calls_of_run(finding *f, uint32_t run, uint32_t from, uint32_t to, uint32_t *scratch) {
    uint32_t *calls = scratch, *seen = scratch + f->course->traits->count + 1, first = f->call_count;
    for (uint32_t i = from; i < to; i++) calls[stack_of(f, i)] = seen[stack_of(f, i)] = 0;
    for (uint32_t i = from; i < to; i++) calls[stack_of(f, i)]++;
    bool any = false; /* a forward without blocks gets no room for them: a recording may have many such */
    for (uint32_t i = from; i < to && !any; i++)
        any = calls[stack_of(f, i)] % f->blocks == 0 && is_kept(f, i);
    if (!any) return STATUS_OK;
    block_call *more = memory_resize(f->calls, f->call_count + f->blocks, sizeof *more);
    if (!more) return status_set(STATUS_FAILED, "no memory for the blocks of the model");
    f->calls = more;
    for (uint32_t i = 0; i < f->blocks; i++) f->calls[f->call_count++] = (block_call){ .run = run };
    for (uint32_t i = from; i < to; i++) {
        uint32_t stack = stack_of(f, i), share = calls[stack] / f->blocks, k = seen[stack]++;
        if (calls[stack] % f->blocks == 0 && is_kept(f, i)) join_call(f, first, k / share, i);
    }
    return STATUS_OK;
}

static void finish_calls(finding *f) {
    for (uint32_t i = 0; i < f->call_count; i++)
        if (f->calls[i].begins) f->calls[i].kept -= piece_at(f, f->calls[i].output)->bytes;
    for (uint32_t i = 0; i < f->count; i++) {
        if (!f->block[i]) continue;
        block_call *b = &f->calls[f->block[i] - 1];
        if (b->output != i && piece_at(f, i)->died < b->needed) b->needed = piece_at(f, i)->died;
    }
}

static status find_calls(finding *f) {
    const course *c = f->course;
    uint32_t *scratch = memory_new(2 * ((size_t)c->traits->count + 1), sizeof *scratch), next = 0;
    status result = scratch ? STATUS_OK : status_set(STATUS_FAILED, "no memory for the blocks of the model");
    for (uint32_t r = 0; r < c->count && result == STATUS_OK && f->blocks; r++) {
        if (c->runs[r].phase != COURSE_FORWARD) continue;
        while (next < f->count && piece_at(f, next)->born < c->runs[r].begins) next++;
        uint32_t from = next;
        while (next < f->count && piece_at(f, next)->born <= c->runs[r].ends) next++;
        result = find_calls_of_run(f, r, from, next, scratch);
    }
    memory_free(scratch);
    if (result == STATUS_OK) finish_calls(f);
    return result;
}

/* How far the forward of each block goes above where it begins. */
typedef struct {
    finding *finding;
    uint32_t next;
    uint64_t level;
} climbing;

static void climb(void *context, uint32_t instant, uint64_t level) {
    climbing *x = context;
    finding *f = x->finding;
    while (x->next < f->call_count && (!f->calls[x->next].begins || f->calls[x->next].ends < instant))
        x->next++;
    if (x->next < f->call_count && instant >= f->calls[x->next].begins) {
        block_call *b = &f->calls[x->next];
        if (!b->from) b->from = x->level;
        if (level > b->from && level - b->from > b->climbs) b->climbs = level - b->from;
    }
    x->level = level;
}

/* ---- changes ---- */

static status change(finding *f, uint32_t at, int64_t by) {
    if (f->change_count == f->room) {
        uint32_t room = f->room ? 2 * f->room : 1024;
        step_change *more = memory_resize(f->changes, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory to play a remedy");
        f->changes = more, f->room = room;
    }
    f->changes[f->change_count++] = (step_change){ at, by };
    return STATUS_OK;
}

/* The part of it that the remedy leaves out, for as long as it lives. */
static uint64_t left_out(const finding *f, uint32_t i) {
    const snapshot_piece *p = piece_at(f, i);
    uint32_t bits = f->course->traits->of[p->stack], run = course_run_at(f->course, p->born);
    course_phase phase = run == UINT32_MAX ? COURSE_OTHER : f->course->runs[run].phase;
    bool steps = phase == COURSE_FORWARD || phase == COURSE_BACKWARD, brief = f->role[i] == ROLES_TEMPORARY;
    switch (f->kind) {
    case REMEDIES_HALF_BATCH:
        if (f->role[i] == ROLES_INPUT) return p->bytes / 2;
        return steps && (brief || is_kept(f, i)) && !roles_is_weight_size(f->roles, p->bytes) ? p->bytes / 2
                                                                                              : 0;
    case REMEDIES_FUSED_LOSS:
        if (!steps || !(brief || is_kept(f, i)) || f->block[i]) return 0;
        return bits & TRAIT_LOSS || (f->loss && p->bytes * 2 >= f->loss && p->bytes <= 2 * f->loss)
                   ? p->bytes - p->bytes / CHUNKS
                   : 0;
    case REMEDIES_FUSED_UPDATE: return brief && phase == COURSE_UPDATE ? p->bytes : 0;
    case REMEDIES_SMALL_STATE:
        return f->role[i] == ROLES_STATE && p->bytes > 256 ? p->bytes - p->bytes / SMALLER : 0;
    default: return 0;
    }
}

static status leave_out(finding *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t bytes = piece_at(f, i)->bytes >= f->worth ? left_out(f, i) : 0;
        if (!bytes) continue;
        TRY(change(f, piece_at(f, i)->born, -(int64_t)bytes));
        if (piece_at(f, i)->died != SNAPSHOT_NEVER) TRY(change(f, piece_at(f, i)->died, (int64_t)bytes));
    }
    return STATUS_OK;
}

/* What a block keeps is gone from its end to the first that backward frees of it. Just before that its
 * forward runs once more, and goes as far up as the first time. */
static status checkpoint(finding *f) {
    for (uint32_t i = 0; i < f->call_count; i++) {
        const block_call *b = &f->calls[i];
        if (!b->begins || !b->kept) continue;
        TRY(change(f, b->ends + 1, -(int64_t)b->kept));
        if (b->needed == SNAPSHOT_NEVER) continue;
        uint64_t climbs = b->climbs > b->kept ? b->climbs : b->kept;
        TRY(change(f, b->needed - 1, (int64_t)climbs));
        TRY(change(f, b->needed, (int64_t)b->kept - (int64_t)climbs));
    }
    return STATUS_OK;
}

/* ---- playing ---- */

static int by_instant(const void *a, const void *b) {
    uint32_t x = ((const step_change *)a)->at, y = ((const step_change *)b)->at;
    return x < y ? -1 : x > y;
}

typedef struct {
    const finding *finding;
    uint32_t next, piece;         /* of changes; of what stays */
    int64_t changed, stays, born; /* stays: bytes of what the first step leaves; born: of them so far */
    uint32_t begins, ends;        /* the first step's forward and backward; ends 0: no step is played on */
    uint64_t peak, second;
} playing;

static bool is_left(const finding *f, uint32_t i, uint32_t begins) {
    const snapshot_piece *p = piece_at(f, i);
    bool role = f->role[i] == ROLES_STATE || f->role[i] == ROLES_WORKSPACE;
    return role && p->born >= begins && p->died == SNAPSHOT_NEVER;
}

static int64_t left_bytes(const finding *f, uint32_t i) {
    return (int64_t)(piece_at(f, i)->bytes - (f->kind < REMEDIES_COUNT ? left_out(f, i) : 0));
}

static void play(void *context, uint32_t instant, uint64_t level) {
    playing *p = context;
    const finding *f = p->finding;
    for (; p->next < f->change_count && f->changes[p->next].at <= instant; p->next++)
        p->changed += f->changes[p->next].change;
    int64_t now = (int64_t)level + p->changed;
    if (now > (int64_t)p->peak) p->peak = (uint64_t)now;
    if (!p->ends || instant < p->begins || instant > p->ends) return;
    for (; p->piece < f->count && piece_at(f, p->piece)->born <= instant; p->piece++)
        if (is_left(f, p->piece, p->begins)) p->born += left_bytes(f, p->piece);
    if (now + p->stays - p->born > (int64_t)p->second) p->second = (uint64_t)(now + p->stays - p->born);
}

/* Only the first update was seen, and no backward after it. */
static void find_first_step(const course *c, playing *p) {
    if (c->updates != 1) return;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->runs[i].phase == COURSE_BACKWARD && c->runs[i].step > 1) return;
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->runs[i].phase == COURSE_FORWARD && !p->begins) p->begins = c->runs[i].begins;
        if (c->runs[i].phase == COURSE_UPDATE) p->ends = c->runs[i].begins - 1;
    }
}

static playing play_all(const finding *f) {
    playing p = { .finding = f };
    find_first_step(f->course, &p);
    for (uint32_t i = 0; i < f->count && p.ends; i++)
        if (is_left(f, i, p.begins)) p.stays += left_bytes(f, i);
    levels_run(f->levels, &(levels_play){ .each = play, .context = &p });
    return p;
}

static status try_remedy(finding *f, remedies_kind kind, remedies *out) {
    f->kind = kind, f->change_count = 0;
    TRY(kind == REMEDIES_CHECKPOINTING ? checkpoint(f) : leave_out(f));
    if (f->change_count) qsort(f->changes, f->change_count, sizeof *f->changes, by_instant);
    playing p = play_all(f);
    uint64_t peak = p.peak > p.second ? p.peak : p.second;
    out->rows[kind] = (remedies_row){ .peak = peak, .saves = out->peak > peak ? out->peak - peak : 0 };
    return STATUS_OK;
}

static void judge(finding *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        f->role[i] = (uint8_t)roles_of(f->roles, piece_at(f, i)).role;
        if (f->course->traits->of[piece_at(f, i)->stack] & TRAIT_LOSS && piece_at(f, i)->bytes > f->loss)
            f->loss = piece_at(f, i)->bytes;
    }
}

static status find_all(finding *f, remedies *out) {
    judge(f);
    TRY(find_calls(f));
    climbing x = { .finding = f };
    levels_run(f->levels, &(levels_play){ .each = climb, .context = &x });
    f->kind = REMEDIES_COUNT;
    playing p = play_all(f);
    out->second = p.second;
    out->peak = p.peak > p.second ? p.peak : p.second;
    f->worth = out->peak / WORTH;
    for (int k = 0; k < REMEDIES_COUNT; k++) TRY(try_remedy(f, (remedies_kind)k, out));
    return STATUS_OK;
}

status remedies_find(const course *c, const levels *l, const roles *r, uint32_t blocks, remedies *out) {
    *out = (remedies){ 0 };
    finding f = { .course = c, .levels = l, .roles = r, .blocks = blocks };
    f.count = snapshot_count(&c->trace->pieces);
    f.role = memory_new(f.count + 1, sizeof *f.role);
    f.block = memory_new(f.count + 1, sizeof *f.block);
    status result =
        f.role && f.block ? find_all(&f, out) : status_set(STATUS_FAILED, "no memory for remedies");
    memory_free(f.role);
    memory_free(f.block);
    memory_free(f.calls);
    memory_free(f.changes);
    return result;
}
