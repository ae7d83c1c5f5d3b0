/* From the keys of a snapshot to what it says. Dicts are told apart by the keys that they have. */
#include <string.h>

#include "base/memory.h"
#include "snapshot/open_pickle.h"
#include "snapshot/play.h"

/* In the order of `words`, and a field is the number of its text. */
typedef enum {
    FIELD_NONE,
    FIELD_ACTION,
    FIELD_ADDR,
    FIELD_SIZE,
    FIELD_STREAM,
    FIELD_TIME,
    FIELD_FRAMES,
    FIELD_DEVICE_FREE,
    FIELD_METADATA,
    FIELD_NAME,
    FIELD_FILE,
    FIELD_LINE,
    FIELD_STATE,
    FIELD_ADDRESS,
    FIELD_REQUESTED,
    FIELD_HISTORY,
    FIELD_REAL_SIZE,
    FIELD_TOTAL,
    FIELD_ACTIVE,
    FIELD_BLOCKS,
    FIELD_DEVICE,
    FIELD_TYPE,
    FIELD_EXPANDABLE,
    FIELD_POOL,
    FIELD_STAGE,
    FIELD_SEGMENTS,
    FIELD_TRACES,
    FIELD_HOST_TRACES,
    FIELD_EXPANDS,
    FIELD_SPLIT,
    FIELD_OWN_POOL,
    FIELDS
} field;

static const char *const words[FIELDS] = {
    "",
    "action",
    "addr",
    "size",
    "stream",
    "time_us",
    "frames",
    "device_free",
    "user_metadata",
    "name",
    "filename",
    "line",
    "state",
    "address",
    "requested_size",
    "history",
    "real_size",
    "total_size",
    "active_size",
    "blocks",
    "device",
    "segment_type",
    "is_expandable",
    "segment_pool_id",
    "stage",
    "segments",
    "device_traces",
    "host_traces",
    "expandable_segments",
    "max_split_size",
    "pool_id",
};

typedef enum {
    KIND_FRAME = PICKLE_OWN,
    KIND_STACK,  /* bits: its number */
    KIND_EVENT,  /* of those that wait */
    KIND_BLOCK,  /* its number */
    KIND_BLOCKS, /* the first one's number */
    KIND_SEGMENT,
    KIND_HISTORY, /* of a block, as files of 2022 and 2023 have it */
} kind;

typedef struct {
    uint64_t real;
    uint32_t stack;
} history;

typedef struct {
    uint32_t list, count;
} outer_list;

enum { MOST_LISTS = 1 << 16, LANES = SNAPSHOT_STREAMS, WAITING = 4 * PICKLE_ITEMS };

typedef struct {
    snapshot *s;
    play_event *waiting; /* WAITING of them: those whose list has not shown them yet */
    uint64_t events;     /* so far */
    array members;       /* uint32_t: frames of a stack that came in several pieces */
    array outers;        /* outer_list: lists of lists, and how many of these were seen */
    history old;         /* the last one that was read */
    uint32_t device_list, host_list;
    uint32_t blocks_end; /* of the last segment: a block is in one only */
    bool found, whole;   /* segments or traces; the root has its keys */
} reading;

static status refuse(const reading *r, const char *why) {
    (void)r;
    return status_set(STATUS_INVALID, "%s", why);
}

/* ---- one dict ---- */

typedef struct {
    pickle_value of[FIELDS];
    uint32_t has; /* a bit per field */
} pairs;

static bool has(const pairs *p, field f) { return p->has >> f & 1; }
static uint64_t number(const pairs *p, field f) {
    return has(p, f) && p->of[f].kind == PICKLE_INTEGER ? p->of[f].bits : 0;
}
static uint32_t text_of(const pairs *p, field f) {
    return has(p, f) && p->of[f].kind == PICKLE_TEXT ? (uint32_t)p->of[f].bits : 0;
}
static uint32_t stack_of(const pairs *p) {
    return has(p, FIELD_FRAMES) && p->of[FIELD_FRAMES].kind == KIND_STACK ? (uint32_t)p->of[FIELD_FRAMES].bits
                                                                          : 0;
}
static bool is_true(const pairs *p, field f) {
    return has(p, f) && p->of[f].kind == PICKLE_BOOL && p->of[f].bits;
}
static bool says(const reading *r, const pairs *p, field f, const char *word) {
    return strcmp(pickle_texts_at(&r->s->texts, text_of(p, f)), word) == 0;
}

/* (0, 0) is the one that all share. */
static uint32_t pool_of(const pairs *p) {
    field f = has(p, FIELD_POOL) ? FIELD_POOL : FIELD_OWN_POOL;
    return has(p, f) && p->of[f].kind == PICKLE_TUPLE ? (uint32_t)p->of[f].bits : 0;
}

static status lane_of(reading *r, const pairs *p, uint32_t *lane) {
    snapshot_lane l = { .stream = number(p, FIELD_STREAM), .pool = pool_of(p) }, *all = r->s->lanes.data;
    for (*lane = 0; *lane < snapshot_count(&r->s->lanes); ++*lane)
        if (all[1 + *lane].stream == l.stream && all[1 + *lane].pool == l.pool) return STATUS_OK;
    if (*lane == LANES) return refuse(r, "the snapshot has more streams than are held");
    TRY(snapshot_add(&r->s->lanes, lane));
    all[1 + *lane] = l;
    return STATUS_OK;
}

static status read_event(reading *r, const pairs *p, pickle_value *out) {
    uint32_t lane, frame, stack = stack_of(p), said = text_of(p, FIELD_METADATA);
    TRY(lane_of(r, p, &lane));
    if (has(p, FIELD_OWN_POOL)) r->s->tells_pools = true;
    if (said && pickle_texts_length(&r->s->texts, said)) {
        TRY(stacks_add_frame(&r->s->stacks, (stacks_frame){ .name = said }, &frame));
        TRY(stacks_add_inner(&r->s->stacks, stack, frame, &stack));
    }
    r->waiting[r->events % WAITING] =
        (play_event){ .action = play_action_of(pickle_texts_at(&r->s->texts, text_of(p, FIELD_ACTION))),
                      .stack = stack,
                      .address = number(p, has(p, FIELD_ADDR) ? FIELD_ADDR : FIELD_ADDRESS),
                      .bytes = number(p, FIELD_SIZE),
                      .time = number(p, FIELD_TIME),
                      .device_free = number(p, FIELD_DEVICE_FREE),
                      .lane = (uint16_t)lane,
                      .free_known = has(p, FIELD_DEVICE_FREE) };
    *out = (pickle_value){ .kind = KIND_EVENT, .bits = r->events++, .memo = out->memo };
    return STATUS_OK;
}

static status read_frame(reading *r, const pairs *p, pickle_value *out) {
    uint32_t index;
    stacks_frame f = { .name = text_of(p, FIELD_NAME),
                       .file = text_of(p, FIELD_FILE),
                       .line = (uint32_t)number(p, FIELD_LINE) };
    TRY(stacks_add_frame(&r->s->stacks, f, &index));
    *out = (pickle_value){ .kind = KIND_FRAME, .bits = index, .memo = out->memo };
    return STATUS_OK;
}

/* In old files a block has no address, and says in its history what was asked for, and by whom. */
static status read_block(reading *r, const pairs *p, pickle_value *out) {
    uint32_t index;
    bool old = has(p, FIELD_HISTORY) && r->old.real;
    uint64_t bytes = number(p, FIELD_SIZE);
    TRY(snapshot_add(&r->s->blocks, &index));
    snapshot_block *b = snapshot_block_at(r->s, index);
    *b = (snapshot_block){ .address = number(p, FIELD_ADDRESS), .bytes = bytes, .asked = bytes };
    b->asked = has(p, FIELD_REQUESTED) ? number(p, FIELD_REQUESTED) : old ? r->old.real : bytes;
    b->stack = old ? r->old.stack : stack_of(p);
    b->state = says(r, p, FIELD_STATE, "active_allocated") ? SNAPSHOT_ACTIVE
               : says(r, p, FIELD_STATE, "inactive")       ? SNAPSHOT_FREE
                                                           : SNAPSHOT_WAITING;
    r->old = (history){ 0 };
    *out = (pickle_value){ .kind = KIND_BLOCK, .bits = index, .memo = out->memo };
    return STATUS_OK;
}

/* Blocks lie one behind the other from the segment's address on. */
static void place_blocks(const reading *r, const snapshot_segment *g) {
    uint64_t address = g->address;
    for (uint32_t i = 0; i < g->blocks; i++) {
        snapshot_block *b = snapshot_block_at(r->s, g->first_block + i);
        if (!b->address) b->address = address;
        address += b->bytes;
    }
}

static status read_segment(reading *r, const pairs *p, pickle_value *out) {
    uint32_t index, lane, blocks = snapshot_count(&r->s->blocks), first = blocks;
    TRY(lane_of(r, p, &lane));
    if (has(p, FIELD_BLOCKS) && p->of[FIELD_BLOCKS].kind == KIND_BLOCKS)
        first = (uint32_t)p->of[FIELD_BLOCKS].bits;
    if (first < r->blocks_end) return refuse(r, "a block of the snapshot is in two segments");
    r->blocks_end = blocks;
    TRY(snapshot_add(&r->s->segments, &index));
    *snapshot_segment_at(r->s, index) = (snapshot_segment){ .address = number(p, FIELD_ADDRESS),
                                                            .bytes = number(p, FIELD_TOTAL),
                                                            .active = number(p, FIELD_ACTIVE),
                                                            .stream = lane,
                                                            .first_block = first,
                                                            .blocks = blocks - first,
                                                            .device = (int32_t)number(p, FIELD_DEVICE),
                                                            .small = says(r, p, FIELD_TYPE, "small"),
                                                            .expandable = is_true(p, FIELD_EXPANDABLE) };
    place_blocks(r, snapshot_segment_at(r->s, index));
    r->found = true;
    *out = (pickle_value){ .kind = KIND_SEGMENT, .bits = index, .memo = out->memo };
    return STATUS_OK;
}

static status read_note(reading *r, const pairs *p, pickle_value *out) {
    uint32_t index;
    TRY(snapshot_add(&r->s->notes, &index));
    *snapshot_note_at(r->s, index) = (snapshot_note){ .time = number(p, FIELD_TIME),
                                                      .name = text_of(p, FIELD_NAME),
                                                      .device = (int32_t)number(p, FIELD_DEVICE),
                                                      .ends = says(r, p, FIELD_STAGE, "END") };
    out->kind = PICKLE_GONE;
    return STATUS_OK;
}

static status read_history(reading *r, const pairs *p, pickle_value *out) {
    if (!r->old.real) r->old = (history){ .real = number(p, FIELD_REAL_SIZE), .stack = stack_of(p) };
    *out = (pickle_value){ .kind = KIND_HISTORY, .memo = out->memo };
    return STATUS_OK;
}

static void read_root(reading *r, const pairs *p) {
    r->whole = true;
    if (has(p, FIELD_TRACES) && p->of[FIELD_TRACES].kind == PICKLE_LIST)
        r->device_list = (uint32_t)p->of[FIELD_TRACES].bits, r->found = true;
    if (has(p, FIELD_HOST_TRACES) && p->of[FIELD_HOST_TRACES].kind == PICKLE_LIST)
        r->host_list = (uint32_t)p->of[FIELD_HOST_TRACES].bits;
}

static void read_settings(const reading *r, const pairs *p) {
    if (is_true(p, FIELD_EXPANDS)) r->s->expandable = true;
    if (has(p, FIELD_SPLIT) && number(p, FIELD_SPLIT) && number(p, FIELD_SPLIT) < INT64_MAX)
        r->s->most_split = number(p, FIELD_SPLIT);
}

static status read_pairs(void *context, const pickle_value *all, size_t count, pickle_value *dict) {
    reading *r = context;
    pairs p;
    p.has = 0;
    if (dict->kind != PICKLE_DICT) return STATUS_OK; /* more of one that is known */
    for (size_t i = 0; i < count; i += 2) {
        if (all[i].kind != PICKLE_TEXT || all[i].bits >= FIELDS) continue;
        p.of[all[i].bits] = all[i + 1];
        p.has |= 1u << all[i].bits;
    }
    if (has(&p, FIELD_ACTION)) return read_event(r, &p, dict);
    if (has(&p, FIELD_STAGE)) return read_note(r, &p, dict);
    if (has(&p, FIELD_FILE) && has(&p, FIELD_LINE)) return read_frame(r, &p, dict);
    if (has(&p, FIELD_STATE)) return read_block(r, &p, dict);
    if (has(&p, FIELD_TOTAL)) return read_segment(r, &p, dict);
    if (has(&p, FIELD_REAL_SIZE)) return read_history(r, &p, dict);
    if (has(&p, FIELD_TRACES) || has(&p, FIELD_SEGMENTS)) read_root(r, &p);
    if (has(&p, FIELD_EXPANDS) || has(&p, FIELD_SPLIT)) read_settings(r, &p);
    return STATUS_OK;
}

/* ---- lists ---- */

static status read_stack(reading *r, const pickle_value *items, size_t count, pickle_value *list) {
    uint32_t index;
    if (list->kind == PICKLE_LIST) r->members.count = 1;
    for (size_t i = 0; i < count; i++) {
        if (items[i].kind != KIND_FRAME) return refuse(r, "a list of frames holds other things");
        TRY(snapshot_add(&r->members, &index));
        ((uint32_t *)r->members.data)[1 + index] = (uint32_t)items[i].bits;
    }
    TRY(stacks_add(&r->s->stacks, (const uint32_t *)r->members.data + 1, snapshot_count(&r->members),
                   &index));
    *list = (pickle_value){ .kind = KIND_STACK, .bits = index, .memo = list->memo };
    return STATUS_OK;
}

static status trace_of(reading *r, uint32_t list, snapshot_trace **out) {
    snapshot *s = r->s;
    for (uint32_t i = s->trace_count; i-- > 0;)
        if (s->traces[i].list == list) return *out = &s->traces[i], STATUS_OK;
    TRY(snapshot_add_trace(s, out));
    (*out)->list = list;
    return STATUS_OK;
}

static status read_events(reading *r, const pickle_value *items, size_t count, const pickle_value *list) {
    snapshot_trace *t;
    TRY(trace_of(r, (uint32_t)list->bits, &t));
    for (size_t i = 0; i < count; i++) {
        bool here = items[i].kind == KIND_EVENT && r->events - items[i].bits <= WAITING;
        if (!here) return refuse(r, "a list of events holds other things");
        TRY(play_add(t, &r->waiting[items[i].bits % WAITING]));
    }
    return STATUS_OK;
}

/* Lists of events stand in the order of their devices. */
static status read_lists(reading *r, const pickle_value *items, size_t count, const pickle_value *list) {
    uint32_t n = snapshot_count(&r->outers);
    outer_list *all = (outer_list *)r->outers.data + 1;
    if (!n || all[n - 1].list != list->bits) {
        if (n == MOST_LISTS) return refuse(r, "the snapshot has more lists of lists than are held");
        TRY(snapshot_add(&r->outers, &n));
        all[n++] = (outer_list){ .list = (uint32_t)list->bits };
    }
    outer_list *o = &all[n - 1];
    for (size_t i = 0; i < count; i++, o->count++)
        for (uint32_t k = 0; k < r->s->trace_count && items[i].kind == PICKLE_LIST; k++)
            if (r->s->traces[k].list == items[i].bits)
                r->s->traces[k].outer = o->list, r->s->traces[k].device = (int32_t)o->count;
    return STATUS_OK;
}

static status read_items(void *context, const pickle_value *items, size_t count, pickle_value *list) {
    reading *r = context;
    if (list->kind == KIND_STACK || items[0].kind == KIND_FRAME) return read_stack(r, items, count, list);
    if (list->kind == KIND_BLOCKS) return STATUS_OK;
    switch (items[0].kind) {
    case KIND_EVENT: return read_events(r, items, count, list);
    case KIND_BLOCK: list->kind = KIND_BLOCKS, list->bits = items[0].bits; return STATUS_OK;
    case PICKLE_LIST: return read_lists(r, items, count, list);
    default: return STATUS_OK;
    }
}

/* ---- the whole ---- */

static uint64_t held(void *context) {
    const reading *r = context;
    return snapshot_held(r->s);
}

static void mark_hosts(const reading *r) {
    for (uint32_t i = 0; i < r->s->trace_count; i++) {
        snapshot_trace *t = &r->s->traces[i];
        t->host = r->host_list && (t->list == r->host_list || t->outer == r->host_list);
    }
}

/* Segments of a device without events: it is as it was when the snapshot was taken. */
static status add_still(reading *r) {
    for (uint32_t i = 0; i < snapshot_count(&r->s->segments); i++) {
        int32_t device = snapshot_segment_at(r->s, i)->device;
        bool there = false;
        for (uint32_t k = 0; k < r->s->trace_count; k++)
            there = there || (!r->s->traces[k].host && r->s->traces[k].device == device);
        snapshot_trace *t;
        if (there) continue;
        TRY(trace_of(r, UINT32_MAX - i, &t));
        t->device = device;
    }
    return STATUS_OK;
}

static status finish(reading *r, const char *path) {
    if (!r->found)
        return status_set(STATUS_INVALID,
                          "%s: a pickle without 'segments' and 'device_traces': it is no memory snapshot of "
                          "PyTorch, which torch.cuda.memory._dump_snapshot writes",
                          path);
    mark_hosts(r);
    return add_still(r);
}

static status open_tables(reading *r) {
    snapshot *s = r->s;
    r->waiting = memory_room(WAITING, sizeof *r->waiting);
    if (!r->waiting) return status_set(STATUS_FAILED, "no memory to read events with");
    TRY(array_open(&r->members, sizeof(uint32_t), 1 << 20));
    TRY(array_open(&r->outers, sizeof(outer_list), MOST_LISTS + 1));
    for (uint32_t i = 1, n; i < FIELDS; i++) TRY(pickle_texts_add(&s->texts, words[i], strlen(words[i]), &n));
    return STATUS_OK;
}

/* Of a pickle alone; what all forms have is there. */
status open_pickle(source *from, snapshot *s) {
    reading r = { .s = s };
    const pickle_reader reader = { .pairs = read_pairs,
                                   .items = read_items,
                                   .context = &r,
                                   .kept = 1u << KIND_FRAME | 1u << KIND_STACK,
                                   .held = held };
    pickle_source bytes = { .read = source_read, .from = from, .path = from->path };
    status result = open_tables(&r);
    if (result == STATUS_OK) result = pickle_read(&bytes, &reader, &s->texts, NULL, &s->bytes);
    if (result == STATUS_OK) result = finish(&r, from->path);
    memory_free(r.waiting);
    array_close(&r.members);
    array_close(&r.outers);
    return result;
}
