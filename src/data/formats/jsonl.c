/* JSON lines: the texts of all records, read as bytes, a newline behind each.
 *
 * Tokens can't be reached by counting bytes, so the file is read through once, which also finds every damaged
 * line before a run begins, and a mark is kept for each stretch of text. A window is read from the mark
 * before it. */
#include <inttypes.h>

#include "base/memory.h"
#include "data/formats/jsonl_reader.h"

enum { STRETCH = 64 << 10, FIRST_MARKS = 4 };

static status no_memory(const data_file *f) {
    return status_set(STATUS_FAILED, "%s: no memory to note its places", f->path);
}

static status add_mark(data_file *f, uint64_t *capacity, data_mark mark) {
    if (f->mark_count == *capacity) {
        uint64_t larger = *capacity ? *capacity * 2 : FIRST_MARKS;
        data_mark *marks = memory_resize(f->marks, larger, sizeof *marks);
        if (!marks) return no_memory(f);
        f->marks = marks;
        *capacity = larger;
    }
    f->marks[f->mark_count++] = mark;
    return STATUS_OK;
}

static status read_through(data_file *f, void *buffer) {
    jsonl_reader r = jsonl_reader_begin(f, buffer);
    jsonl_run run;
    uint64_t capacity = 0;
    while (true) {
        TRY(jsonl_reader_next(&r, &run));
        if (!run.count) break;
        if (!f->mark_count || f->tokens - f->marks[f->mark_count - 1].token >= STRETCH)
            TRY(add_mark(f, &capacity, (data_mark){ .token = f->tokens, .offset = run.offset }));
        f->tokens += run.count;
        f->documents += run.ends;
    }
    return STATUS_OK;
}

static status inspect(data_file *f, bool asked) {
    (void)asked;
    f->ceiling = 256;
    void *buffer = memory_new(JSONL_BUFFER, 1);
    if (!buffer) return no_memory(f);
    status result = read_through(f, buffer);
    memory_free(buffer);
    return result;
}

/* The last mark at or before the token. */
static data_mark mark_before(const data_file *f, uint64_t token) {
    uint64_t low = 0, high = f->mark_count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (f->marks[middle].token <= token)
            low = middle;
        else
            high = middle;
    }
    return f->marks[low];
}

static status read(const data_file *f, uint64_t first, uint64_t count, data_window *to) {
    data_mark mark = mark_before(f, first);
    jsonl_reader r = jsonl_reader_at(f, mark.offset, to->scratch);
    uint64_t at = mark.token, end = first + count;
    while (at < end) {
        jsonl_run run;
        TRY(jsonl_reader_next(&r, &run));
        if (!run.count)
            return status_set(STATUS_FAILED, "%s has become shorter: its text ended at byte %" PRIu64,
                              f->path, at);
        uint64_t skipped = first > at ? first - at : 0;
        for (uint64_t i = skipped; i < run.count && at + i < end; i++) {
            uint8_t id = (uint8_t)run.bytes[i];
            if (id >= to->vocabulary) return format_wrong_id(f, at + i, id, false, to->vocabulary);
            if (to->tokens) format_put(to, id);
        }
        at += run.count;
        if (run.ends && at > first) format_begin(to);
    }
    return STATUS_OK;
}

const data_format format_jsonl = { .name = "jsonl",
                                   .about = "texts of JSON lines read as bytes",
                                   .suffixes = { ".jsonl", ".ndjson" },
                                   .is_text = true,
                                   .scratch_bytes = JSONL_BUFFER,
                                   .inspect = inspect,
                                   .read = read };
