/* Which form a file has is told by how it begins. */
#include <string.h>

#include "base/memory.h"
#include "snapshot/kineto.h"
#include "snapshot/open_pickle.h"
#include "snapshot/play.h"
#include "snapshot/pools.h"
#include "snapshot/timeline.h"

enum { MOST_TRACES = 256 };

/* ---- for readers ---- */

status snapshot_add(array *a, uint32_t *index) {
    if (array_add(a, 1, index) != STATUS_OK)
        return a->capacity < a->wanted
                   ? status_set(STATUS_FAILED, "the limit on address space leaves no room for more of the "
                                               "snapshot; raise it (ulimit -v)")
                   : status_set(STATUS_INVALID, "the snapshot holds more than is held of it");
    --*index;
    return STATUS_OK;
}

status snapshot_add_trace(snapshot *s, snapshot_trace **out) {
    if (s->trace_count == s->trace_room) {
        uint32_t room = s->trace_room ? 2 * s->trace_room : 4;
        if (room > MOST_TRACES)
            return status_set(STATUS_INVALID, "the snapshot has more devices than are held");
        snapshot_trace *more = memory_resize(s->traces, room, sizeof *more);
        if (!more) return status_set(STATUS_FAILED, "no memory for the events of the snapshot");
        s->traces = more, s->trace_room = room;
    }
    *out = &s->traces[s->trace_count];
    **out = (snapshot_trace){ .type = SNAPSHOT_UNTOLD };
    status result = play_open(*out);
    s->trace_count++;
    return result;
}

static uint64_t bytes_of(const array *a) { return (uint64_t)a->count * a->item_bytes; }

uint64_t snapshot_held(const snapshot *s) {
    uint64_t bytes =
        stacks_bytes(&s->stacks) + bytes_of(&s->segments) + bytes_of(&s->blocks) + bytes_of(&s->notes);
    for (uint32_t i = 0; i < s->trace_count; i++) {
        const snapshot_trace *t = &s->traces[i];
        bytes += bytes_of(&t->pieces) + bytes_of(&t->before) + bytes_of(&t->turns) + bytes_of(&t->ticks);
        bytes += (uint64_t)t->live.room * sizeof *t->live.entries;
    }
    return bytes;
}

status snapshot_check_room(uint64_t held, uint64_t read) {
    if (held <= PICKLE_ROOM + read / 2) return STATUS_OK;
    return status_set(STATUS_INVALID, "what is kept of it takes more memory than a trace's would");
}

/* ---- the forms ---- */

static status open_tables(snapshot *s) {
    uint32_t lane;
    TRY(pickle_texts_open(&s->texts));
    TRY(stacks_open(&s->stacks));
    TRY(array_open(&s->lanes, sizeof(snapshot_lane), SNAPSHOT_STREAMS + 1));
    TRY(array_open(&s->segments, sizeof(snapshot_segment), 1 << 24));
    TRY(array_open(&s->blocks, sizeof(snapshot_block), 1 << PICKLE_BITS));
    TRY(array_open(&s->notes, sizeof(snapshot_note), 1 << 24));
    return snapshot_add(&s->lanes, &lane); /* the first is the one that everybody begins with, 0 */
}

static status read_json_on(json_stream *j, snapshot *s) {
    TRY(json_stream_look(j));
    bool list = j->after == '[';
    TRY(json_stream_expect(j, list ? '[' : '{'));
    TRY(json_stream_look(j));
    TRY(list && j->after == '[' ? timeline_read(j, s) : kineto_read(j, list, s));
    return json_stream_end(j);
}

static status read_json(source *from, snapshot *s) {
    json_stream j = { .buffer = NULL };
    const json_feed feed = { .read = source_read, .from = from, .path = from->path };
    status result = json_stream_open(&j, &feed);
    if (result == STATUS_OK) result = read_json_on(&j, s);
    s->bytes = json_stream_place(&j);
    json_stream_close(&j);
    return result;
}

/* Its first field is a list of messages that begin with a number. */
static bool is_pprof(const source *from) {
    return from->head_end > 2 && from->head[0] == 0x0a && from->head[2] == 0x08;
}

static status read_form(source *from, snapshot *s) {
    switch (from->begins) {
    case '{':
    case '[': return read_json(from, s);
    case '<':
        return status_set(
            STATUS_INVALID,
            "%s: a page, as export_memory_timeline writes for a name that ends in .html: a picture "
            "has no bytes; export it to a name that ends in .raw.json.gz",
            from->path);
    default: break;
    }
    if (is_pprof(from))
        return status_set(
            STATUS_INVALID,
            "%s: a profile of pprof, as JAX's save_device_memory_profile writes: it has one moment "
            "and no course of time, and is not read; 'go tool pprof' and 'pprof' show it",
            from->path);
    return open_pickle(from, s);
}

static status finish(const char *path, snapshot *s) {
    bool any = false;
    TRY(pools_infer(s));
    for (uint32_t i = 0; i < s->trace_count; i++) {
        TRY(play_finish(s, &s->traces[i]));
        any = any || s->traces[i].allocs || s->traces[i].base;
    }
    if (any) return STATUS_OK;
    return s->form == SNAPSHOT_PICKLE
               ? status_set(STATUS_INVALID,
                            "%s: the snapshot has neither events nor memory in use; record with "
                            "torch.cuda.memory._record_memory_history() before the model is made",
                            path)
               : status_set(STATUS_INVALID, "%s: nothing is allocated in it", path);
}

status snapshot_open(const char *path, snapshot *s) {
    *s = (snapshot){ 0 };
    source from;
    TRY(source_open(path, &from));
    status result = open_tables(s);
    if (result == STATUS_OK) result = read_form(&from, s);
    source_close(&from);
    if (result == STATUS_OK) result = finish(path, s);
    if (result != STATUS_OK && strncmp(status_message(), path, strlen(path)) != 0)
        result = status_prefix(result, "%s", path);
    if (result != STATUS_OK) snapshot_close(s);
    return result;
}

void snapshot_close(snapshot *s) {
    for (uint32_t i = 0; i < s->trace_count; i++) play_close(&s->traces[i]);
    memory_free(s->traces);
    pickle_texts_close(&s->texts);
    stacks_close(&s->stacks);
    array_close(&s->lanes);
    array_close(&s->segments);
    array_close(&s->blocks);
    array_close(&s->notes);
    *s = (snapshot){ 0 };
}
