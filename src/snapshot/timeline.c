#include "snapshot/timeline.h"

#include <string.h>

#include "base/memory.h"
#include "snapshot/play.h"
#include "snapshot/times.h"

enum { CATEGORIES = 8, PREEXISTING = 1, CREATE, CHANGE, DESTROY, FIRST = 4, MOST_TICKS = 1 << 30 };

static const struct {
    const char *name; /* as the profiler calls it */
    roles_role role;
} categories[CATEGORIES] = {
    { "PARAMETER", ROLES_WEIGHT },
    { "OPTIMIZER_STATE", ROLES_STATE },
    { "INPUT", ROLES_INPUT },
    { "TEMPORARY", ROLES_TEMPORARY },
    { "ACTIVATION", ROLES_ACTIVATION },
    { "GRADIENT", ROLES_GRADIENT },
    { "AUTOGRAD_DETAIL", ROLES_TEMPORARY },
    { "no category", ROLES_UNKNOWN },
};

typedef struct {
    json_stream *j;
    snapshot *s;
    snapshot_trace *t;
    array below;        /* uint32_t, by address, which is the piece's number from 1: of a size and category
                           the one that is older; 0: none */
    address_table tops; /* of raw ones: by size and category, the address of the youngest */
    uint32_t top[CATEGORIES]; /* of the others */
    snapshot_trace times;     /* its ticks alone */
    json_decimal first[FIRST];
    uint32_t rows;
} reading;

roles_role timeline_role(uint32_t stack) {
    return stack >= 1 && stack <= CATEGORIES ? categories[stack - 1].role : ROLES_UNKNOWN;
}

static status add_categories(snapshot *s) {
    uint32_t frame, stack;
    for (int i = 0; i < CATEGORIES; i++) {
        stacks_frame f = { 0 };
        TRY(pickle_texts_add(&s->texts, categories[i].name, strlen(categories[i].name), &f.name));
        TRY(stacks_add_frame(&s->stacks, f, &frame));
        TRY(stacks_add(&s->stacks, &frame, 1, &stack));
    }
    return STATUS_OK;
}

static status check_room(const reading *r) {
    uint64_t held = snapshot_held(r->s) + (uint64_t)r->below.count * sizeof(uint32_t) + r->times.ticks.count +
                    (uint64_t)r->tops.room * sizeof *r->tops.entries;
    return snapshot_check_room(held, json_stream_place(r->j));
}

/* ---- what is born and dies ---- */

static status bear(reading *r, uint64_t bytes, unsigned category, uint64_t time, uint32_t *top) {
    uint32_t i;
    TRY(snapshot_add(&r->below, &i));
    ((uint32_t *)r->below.data)[1 + i] = *top;
    *top = 1 + i;
    return play_add(
        r->t,
        &(play_event){
            .action = PLAY_ALLOC, .stack = 1 + category, .address = *top, .bytes = bytes, .time = time });
}

static uint64_t bytes_of(const reading *r, uint32_t piece) {
    return snapshot_piece_at(&r->t->pieces, piece - 1)->bytes;
}

static status bury(reading *r, uint64_t time, uint32_t *top) {
    play_event e = {
        .action = PLAY_FREE_COMPLETED, .address = *top, .bytes = bytes_of(r, *top), .time = time
    };
    *top = ((const uint32_t *)r->below.data)[*top];
    return play_add(r->t, &e);
}

/* ---- rows of what happens ---- */

static status whole(const json_stream *j, const json_decimal *d, uint64_t most) {
    if (d->thousandths || d->whole > most)
        return json_stream_wrong(j, "a number that no memory timeline has there");
    return STATUS_OK;
}

static status pass(reading *r, uint64_t time) {
    return play_add(r->t, &(play_event){ .action = PLAY_OTHER, .time = time });
}

static status play_row(reading *r, const json_decimal row[FIRST]) {
    uint64_t time = row[0].negative ? 0 : row[0].whole / 1000, bytes = row[2].whole;
    TRY(whole(r->j, &row[1], DESTROY));
    TRY(whole(r->j, &row[2], (UINT64_C(1) << 40) - 1));
    TRY(whole(r->j, &row[3], CATEGORIES - 1));
    unsigned category = (unsigned)row[3].whole;
    if (row[1].whole < PREEXISTING) return json_stream_wrong(r->j, "an action that no memory timeline has");
    if (!bytes) return pass(r, time);
    uint64_t key = bytes * CATEGORIES + category;
    uint32_t top = addresses_find(&r->tops, key);
    if (top == UINT32_MAX) top = 0;
    if (row[2].negative && !top) return pass(r, time); /* nobody saw it begin */
    if (row[2].negative)
        TRY(bury(r, time, &top));
    else
        TRY(bear(r, bytes, category, time, &top));
    return addresses_put(&r->tops, key, top);
}

static status read_row(reading *r, json_decimal row[FIRST]) {
    bool more = true;
    TRY(json_stream_expect(r->j, '['));
    for (int i = 0; i < FIRST; i++) {
        TRY(json_stream_decimal(r->j, &row[i]));
        TRY(json_stream_another(r->j, ']', &more));
        if (more != (i + 1 < FIRST))
            return json_stream_wrong(r->j, "a row of a memory timeline has four numbers");
    }
    return STATUS_OK;
}

static status read_rows(reading *r, bool more) {
    json_decimal row[FIRST];
    while (more) {
        TRY(read_row(r, row));
        TRY(play_row(r, row));
        if (++r->rows % 4096 == 0) TRY(check_room(r));
        TRY(json_stream_another(r->j, ']', &more));
    }
    return STATUS_OK;
}

/* ---- times, and sizes at each ---- */

static status change_to(reading *r, unsigned category, uint64_t now, uint64_t bytes, uint64_t time) {
    uint32_t *top = &r->top[category];
    while (now > bytes) {
        now -= bytes_of(r, *top);
        TRY(bury(r, time, top));
    }
    return now < bytes ? bear(r, bytes - now, category, time, top) : STATUS_OK;
}

/* What shrinks comes first, so that no sum is more than that before or after. */
static status play_sizes(reading *r, const uint64_t before[CATEGORIES], const uint64_t sizes[CATEGORIES],
                         uint64_t time) {
    for (int grows = 0; grows < 2; grows++)
        for (unsigned i = 0; i < CATEGORIES; i++)
            if (sizes[i] != before[i] && (sizes[i] > before[i]) == grows)
                TRY(change_to(r, i, before[i], sizes[i], time));
    return STATUS_OK;
}

/* A column of nothing, and one for each category. */
static status read_sizes(reading *r, uint64_t sizes[CATEGORIES]) {
    json_decimal d;
    bool more = true;
    TRY(json_stream_expect(r->j, '['));
    for (int i = 0; i <= CATEGORIES; i++) {
        TRY(json_stream_decimal(r->j, &d));
        TRY(whole(r->j, &d, (UINT64_C(1) << 40) - 1));
        if (d.negative && d.whole) return json_stream_wrong(r->j, "a size below 0");
        if (i > 0) sizes[i - 1] = d.whole;
        TRY(json_stream_another(r->j, ']', &more));
        if (more != (i < CATEGORIES))
            return json_stream_wrong(r->j, "sizes of a memory timeline are nine numbers");
    }
    return STATUS_OK;
}

static status read_all_sizes(reading *r) {
    uint64_t sizes[2][CATEGORIES] = { { 0 } };
    times_reader times = times_begin(&r->times);
    bool more;
    TRY(json_stream_expect(r->j, '['));
    TRY(json_stream_first(r->j, ']', &more));
    for (; more; r->rows++) {
        if (!times_next(&times)) return json_stream_wrong(r->j, "there are more sizes than times");
        TRY(read_sizes(r, sizes[1]));
        TRY(play_sizes(r, sizes[0], sizes[1], times.time));
        memcpy(sizes[0], sizes[1], sizeof sizes[0]);
        if (r->rows % 4096 == 0) TRY(check_room(r));
        TRY(json_stream_another(r->j, ']', &more));
    }
    if (times_next(&times)) return json_stream_wrong(r->j, "there are more times than sizes");
    return json_stream_expect(r->j, ']');
}

/* ---- which of them it is ---- */

/* The first list: of times, or a row. Its numbers are kept as times, and the first four as they are. */
static status read_first(reading *r, uint32_t *count) {
    bool more;
    *count = 0;
    TRY(json_stream_expect(r->j, '['));
    TRY(json_stream_first(r->j, ']', &more));
    for (; more; ++*count) {
        json_decimal d;
        TRY(json_stream_decimal(r->j, &d));
        if (*count < FIRST) r->first[*count] = d;
        TRY(times_add(&r->times, d.negative ? 0 : d.whole));
        r->times.events++;
        if (*count % 4096 == 0) TRY(check_room(r));
        TRY(json_stream_another(r->j, ']', &more));
    }
    return STATUS_OK;
}

static status read_either(reading *r) {
    uint32_t count;
    bool more;
    TRY(read_first(r, &count));
    TRY(json_stream_another(r->j, ']', &more));
    if (more) TRY(json_stream_look(r->j));
    /* Behind times come lists of sizes: two brackets. */
    if (more && json_stream_is_nested(r->j)) return read_all_sizes(r);
    if (count != FIRST)
        return json_stream_wrong(r->j, "lists of numbers, which are neither [times, sizes] nor rows of four");
    TRY(play_row(r, r->first));
    return read_rows(r, more);
}

status timeline_read(json_stream *j, snapshot *s) {
    reading *r = memory_new(1, sizeof *r);
    if (!r) return status_set(STATUS_FAILED, "no memory to read with");
    *r = (reading){ .j = j, .s = s };
    s->form = SNAPSHOT_TIMELINE;
    status result = add_categories(s);
    if (result == STATUS_OK) result = snapshot_add_trace(s, &r->t);
    if (result == STATUS_OK) r->t->device = -1;
    if (result == STATUS_OK) result = array_open(&r->below, sizeof(uint32_t), 1 << 30);
    if (result == STATUS_OK) result = array_open(&r->times.ticks, 1, MOST_TICKS);
    if (result == STATUS_OK) result = read_either(r);
    array_close(&r->below);
    array_close(&r->times.ticks);
    addresses_close(&r->tops);
    memory_free(r);
    return result;
}
