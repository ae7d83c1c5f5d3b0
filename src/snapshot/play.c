#include "snapshot/play.h"

#include <string.h>

#include "snapshot/times.h"

enum { MOST_PIECES = 1 << 30, MOST_TURNS = 1 << 24 };

static const uint32_t MOST_TICKS = UINT32_C(4000000000);
static const uint64_t MOST_BYTES = UINT64_C(1) << 40, MOST_ADDRESS = UINT64_C(1) << 48;
static const int64_t MOST_SUM = INT64_C(1)
                                << 60; /* of any of a trace's sums: sums of some of them are signed */

play_action play_action_of(const char *word) {
    static const struct {
        const char *word;
        play_action action;
    } words[] = {
        { "alloc", PLAY_ALLOC },
        { "free_requested", PLAY_FREE_REQUESTED },
        { "free_completed", PLAY_FREE_COMPLETED },
        { "free", PLAY_FREE_COMPLETED },
        { "segment_alloc", PLAY_SEGMENT_ALLOC },
        { "segment_free", PLAY_SEGMENT_FREE },
        { "segment_map", PLAY_SEGMENT_MAP },
        { "segment_unmap", PLAY_SEGMENT_UNMAP },
        { "oom", PLAY_OOM },
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i].word) == 0) return words[i].action;
    return PLAY_OTHER;
}

status play_open(snapshot_trace *t) {
    status result = array_open(&t->pieces, sizeof(snapshot_piece), MOST_PIECES);
    if (result == STATUS_OK) result = array_open(&t->before, sizeof(snapshot_piece), MOST_PIECES);
    if (result == STATUS_OK) result = array_open(&t->turns, sizeof(snapshot_turn), MOST_TURNS);
    if (result == STATUS_OK) result = array_open(&t->ticks, 1, MOST_TICKS);
    return result;
}

void play_close(snapshot_trace *t) {
    array_close(&t->pieces);
    array_close(&t->before);
    array_close(&t->turns);
    array_close(&t->ticks);
    addresses_close(&t->live);
}

static void change(snapshot_trace *t, int64_t bytes) {
    t->net += bytes;
    if (t->net <= t->top) return;
    t->top = t->net;
    t->top_at = t->events;
}

static void end_piece(snapshot_trace *t, uint32_t i) {
    snapshot_piece *p = snapshot_piece_at(&t->pieces, i);
    p->died = t->events;
    change(t, -(int64_t)p->bytes);
}

static status play_alloc(snapshot_trace *t, const play_event *e) {
    uint32_t old = addresses_find(&t->live, e->address), i;
    if (old != UINT32_MAX) {
        t->replaced++;
        end_piece(t, old);
    }
    TRY(snapshot_add(&t->pieces, &i));
    *snapshot_piece_at(&t->pieces, i) = (snapshot_piece){ .born = t->events,
                                                          .died = SNAPSHOT_NEVER,
                                                          .bytes = e->bytes & (MOST_BYTES - 1),
                                                          .stack = e->stack & 0xffffff,
                                                          .address = e->address & (MOST_ADDRESS - 1),
                                                          .lane = e->lane & 0x7fffu };
    t->allocs++;
    TRY(addresses_put(&t->live, e->address, i));
    change(t, (int64_t)e->bytes);
    return STATUS_OK;
}

/* What nobody saw begin was there before. */
static status play_free(snapshot_trace *t, const play_event *e) {
    uint32_t i = addresses_find(&t->live, e->address);
    t->frees++;
    if (i != UINT32_MAX) {
        end_piece(t, i);
        addresses_take(&t->live, e->address);
        return STATUS_OK;
    }
    TRY(snapshot_add(&t->before, &i));
    *snapshot_piece_at(&t->before, i) = (snapshot_piece){ .died = t->events,
                                                          .bytes = e->bytes & (MOST_BYTES - 1),
                                                          .address = e->address & (MOST_ADDRESS - 1),
                                                          .lane = e->lane & 0x7fffu };
    t->base += e->bytes;
    change(t, -(int64_t)e->bytes);
    return STATUS_OK;
}

/* A piece that another stream still reads is freed when that has come so far, at a later event. */
static void play_request(snapshot_trace *t, const play_event *e) {
    uint32_t i = addresses_find(&t->live, e->address);
    if (i != UINT32_MAX) snapshot_piece_at(&t->pieces, i)->waited = true;
}

static status play_turn(snapshot_trace *t, const play_event *e) {
    static const snapshot_turn_kind kinds[] = { [PLAY_SEGMENT_ALLOC] = SNAPSHOT_SEGMENT_ALLOC,
                                                [PLAY_SEGMENT_FREE] = SNAPSHOT_SEGMENT_FREE,
                                                [PLAY_SEGMENT_MAP] = SNAPSHOT_SEGMENT_MAP,
                                                [PLAY_SEGMENT_UNMAP] = SNAPSHOT_SEGMENT_UNMAP,
                                                [PLAY_OOM] = SNAPSHOT_OOM };
    uint32_t i;
    if (e->action != PLAY_OOM) t->turned += e->bytes;
    TRY(snapshot_add(&t->turns, &i));
    *snapshot_turn_at(t, i) = (snapshot_turn){ .at = t->events,
                                               .stack = e->stack,
                                               .address = e->action == PLAY_OOM ? e->device_free : e->address,
                                               .bytes = e->bytes,
                                               .lane = e->lane,
                                               .kind = (uint8_t)kinds[e->action],
                                               .free_known = e->free_known };
    return STATUS_OK;
}

static status check_sums(const snapshot_trace *t) {
    if (t->net <= MOST_SUM && t->net >= -MOST_SUM && t->base <= (uint64_t)MOST_SUM &&
        t->turned <= (uint64_t)MOST_SUM && t->reserved <= (uint64_t)MOST_SUM)
        return STATUS_OK;
    return status_set(STATUS_INVALID, "the sizes of the snapshot are together more than any device has");
}

static bool is_turn(play_action a) { return a >= PLAY_SEGMENT_ALLOC && a <= PLAY_SEGMENT_UNMAP; }

status play_add(snapshot_trace *t, const play_event *e) {
    if (t->events == SNAPSHOT_NEVER - 1)
        return status_set(STATUS_INVALID, "the snapshot has more events than are held");
    /* A request that fails may be of any size. */
    bool sized = e->action != PLAY_OTHER && e->action != PLAY_OOM;
    if (sized && e->bytes >= MOST_BYTES)
        return status_set(STATUS_INVALID,
                          "event %u of the snapshot is of %llu bytes, more than any device has",
                          t->events + 1, (unsigned long long)e->bytes);
    if (is_turn(e->action) && e->address > UINT64_MAX - MOST_BYTES)
        return status_set(STATUS_INVALID, "a segment of the snapshot ends behind the last address");
    t->events++;
    TRY(check_sums(t));
    TRY(times_add(t, e->time));
    switch (e->action) {
    case PLAY_OTHER: return STATUS_OK;
    case PLAY_ALLOC: return play_alloc(t, e);
    case PLAY_FREE_REQUESTED: play_request(t, e); return STATUS_OK;
    case PLAY_FREE_COMPLETED: return play_free(t, e);
    case PLAY_SEGMENT_ALLOC:
    case PLAY_SEGMENT_FREE:
    case PLAY_SEGMENT_MAP:
    case PLAY_SEGMENT_UNMAP:
    case PLAY_OOM: return play_turn(t, e);
    }
    return STATUS_OK;
}

/* ---- what is told beside events ---- */

status play_before(snapshot_trace *t, uint64_t bytes) {
    uint32_t i;
    TRY(snapshot_add(&t->before, &i));
    *snapshot_piece_at(&t->before, i) =
        (snapshot_piece){ .died = SNAPSHOT_NEVER, .bytes = bytes & (MOST_BYTES - 1) };
    t->base += bytes & (MOST_BYTES - 1);
    return check_sums(t);
}

status play_reserved(snapshot_trace *t, uint64_t bytes) {
    uint32_t i;
    if (bytes >= MOST_BYTES)
        return status_set(STATUS_INVALID,
                          "event %u tells of more bytes that are reserved than any device has", t->events);
    t->told = true;
    if (bytes == t->reserved) return STATUS_OK;
    bool more = bytes > t->reserved;
    uint64_t by = more ? bytes - t->reserved : t->reserved - bytes;
    t->turned += by;
    t->reserved = bytes;
    TRY(snapshot_add(&t->turns, &i));
    *snapshot_turn_at(t, i) =
        (snapshot_turn){ .at = t->events, .bytes = by, .kind = more ? SNAPSHOT_MORE : SNAPSHOT_LESS };
    return check_sums(t);
}

/* ---- the end ---- */

static status finish_block(const snapshot_segment *g, snapshot_trace *t, const snapshot_block *b) {
    uint32_t i;
    if (b->state == SNAPSHOT_FREE) return STATUS_OK;
    if (addresses_find(&t->live, b->address) != UINT32_MAX) {
        addresses_take(&t->live, b->address);
        return STATUS_OK;
    }
    if (b->asked >= MOST_BYTES)
        return status_set(STATUS_INVALID,
                          "a block of the snapshot is of %llu bytes, more than any device has",
                          (unsigned long long)b->asked);
    TRY(snapshot_add(&t->before, &i));
    *snapshot_piece_at(&t->before, i) = (snapshot_piece){ .died = SNAPSHOT_NEVER,
                                                          .bytes = b->asked & (MOST_BYTES - 1),
                                                          .stack = b->stack & 0xffffff,
                                                          .address = b->address & (MOST_ADDRESS - 1),
                                                          .lane = g->stream & 0x7fffu };
    t->base += b->asked;
    return check_sums(t);
}

static status finish_segment(const snapshot *s, const snapshot_segment *g, snapshot_trace *t) {
    if (g->bytes >= MOST_BYTES)
        return status_set(STATUS_INVALID,
                          "a segment of the snapshot is of %llu bytes, more than any device has",
                          (unsigned long long)g->bytes);
    if (g->address > UINT64_MAX - MOST_BYTES)
        return status_set(STATUS_INVALID, "a segment of the snapshot ends behind the last address");
    t->reserved += g->bytes;
    TRY(check_sums(t));
    for (uint32_t k = 0; k < g->blocks; k++)
        TRY(finish_block(g, t, snapshot_block_at(s, g->first_block + k)));
    return STATUS_OK;
}

status play_finish(const snapshot *s, snapshot_trace *t) {
    bool any = false;
    TRY(check_sums(t));
    for (uint32_t i = 0; i < snapshot_count(&s->segments) && !t->host; i++) {
        const snapshot_segment *g = snapshot_segment_at(s, i);
        if (g->device != t->device) continue;
        any = true;
        TRY(finish_segment(s, g, t));
    }
    if (any) t->unlike = t->live.count;
    addresses_close(&t->live);
    return STATUS_OK;
}
