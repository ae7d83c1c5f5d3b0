/* The first reading of the data. */
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "text/template/template_json.h"
#include "tokenize/source_reader.h"

static status digest_file(const char *path, digest *d) {
    enum { BLOCK = 32 << 10 };
    char block[BLOCK];
    uint64_t bytes;
    int file;
    TRY(io_open(path, &file, &bytes));
    status result = STATUS_OK;
    for (uint64_t at = 0; at < bytes && result == STATUS_OK; at += BLOCK) {
        uint64_t n = bytes - at < BLOCK ? bytes - at : BLOCK;
        result = io_read_at(file, path, at, block, n);
        if (result == STATUS_OK) digest_add(d, block, n);
    }
    close(file);
    digest_add(d, &bytes, sizeof bytes);
    return result;
}

/* What a record takes that is gathered (documents_gather); an item of a list counts as a string. */
static uint64_t piece_bytes(const document_piece *p, bool begins) {
    uint64_t bytes = p->count;
    if (begins) bytes += sizeof(document_string) + (p->member ? strlen(p->member) + 1 : 0);
    return bytes;
}

/* Of the string that is read: what its JSON takes as values. */
typedef struct {
    uint64_t count, marks;
} seen_json;

/* The bytes, behind the last piece; 0 before. */
static uint64_t add_json(seen_json *j, const document_piece *p) {
    j->count += p->count;
    for (uint32_t i = 0; i < p->count; i++) j->marks += template_json_is_mark(p->bytes[i]);
    if (!p->last) return 0;
    uint64_t bytes = template_json_most(j->count, j->marks);
    *j = (seen_json){ 0 };
    return bytes;
}

static status look_through(source_reader *r, const source_watch *watch, source_counts *counts) {
    document_piece p;
    uint64_t record = 0, values = 0;
    seen_json json = { 0 };
    bool inside = false, chats = r->of->kind == SOURCE_MESSAGES;
    for (;;) {
        TRY(source_reader_next(r, &p));
        switch (p.event) {
        case DOCUMENT_END: return STATUS_OK;
        case DOCUMENT_RECORD: record = values = 0, counts->records++; break;
        case DOCUMENT_ITEM: record += sizeof(document_string); break;
        case DOCUMENT_STRING:
            record += piece_bytes(&p, !inside), counts->bytes += p.count;
            if (chats && (p.json || p.column == SOURCE_TOOLS)) values += add_json(&json, &p);
            counts->tools += chats && p.column == SOURCE_TOOLS && p.last;
            inside = !p.last;
            break;
        case DOCUMENT_RECORD_END:
            if (record > counts->longest) counts->longest = record;
            if (values > counts->values) counts->values = values;
            break;
        }
        if (watch->stop(watch->context))
            return status_set(STATUS_INTERRUPTED, "stopped while reading the data");
        watch->seen(watch->context, counts->bytes);
    }
}

status sources_look(const sources *s, void *room, const source_watch *watch, source_counts *counts) {
    digest d = digest_begin();
    *counts = (source_counts){ .files = s->file_count };
    for (uint32_t f = 0; f < s->file_count; f++) {
        document_options o = sources_reading(s, f);
        const char *format =
            document_format_name(o.format == DOCUMENT_AUTO ? document_format_of(o.path) : o.format);
        digest_text(&d, format);
        TRY(digest_file(o.path, &d));
        if (watch->stop(watch->context))
            return status_set(STATUS_INTERRUPTED, "stopped while reading the data");
    }
    counts->digest = digest_value(&d);
    source_reader r = source_reader_begin(s, room);
    status result = look_through(&r, watch, counts);
    source_reader_close(&r);
    if (result == STATUS_OK && s->tools_named && counts->records && !counts->tools)
        return status_set(STATUS_INVALID, "--columns %s: no record has %s", s->options->columns,
                          s->columns[SOURCE_TOOLS].name);
    return result;
}
