/* The first reading of the data. */
#include <string.h>

#include "io/file.h"
#include "text/template/template_json.h"
#include "tokenize/source_reader.h"

typedef struct {
    const sources *of;
    const source_watch *watch;
    source_counts *counts;
    digest digest;
    uint64_t read;
} looking;

static status go_on(looking *l, uint64_t bytes) {
    l->read += bytes;
    if (l->watch->stop(l->watch->context))
        return status_set(STATUS_INTERRUPTED, "stopped while reading the data");
    l->watch->seen(l->watch->context, l->read);
    return STATUS_OK;
}

/* ---- the digest ---- */

static status take_piece(void *context, const void *piece, uint64_t bytes) {
    looking *l = context;
    digest_add(&l->digest, piece, bytes);
    return go_on(l, bytes);
}

/* The bytes, and what the file's name says of reading them. */
static status digest_file(looking *l, uint32_t file) {
    document_options o = sources_reading(l->of, file);
    document_format format = o.format == DOCUMENT_AUTO ? document_format_of(o.path) : o.format;
    const uint64_t read_as[] = { document_packing_of(o.path),
                                 format == DOCUMENT_CSV ? (uint64_t)document_separator_of(o.path) : 0 };
    uint64_t bytes;
    digest_text(&l->digest, document_format_name(format));
    digest_add(&l->digest, read_as, sizeof read_as);
    sources_remember(l->of, file);
    TRY(io_pass_file(o.path, take_piece, l, &bytes));
    digest_add(&l->digest, &bytes, sizeof bytes);
    return sources_check_same(l->of, file);
}

/* ---- the records ---- */

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

static status look_through(looking *l, source_reader *r) {
    source_counts *counts = l->counts;
    document_piece p;
    uint64_t record = 0, values = 0;
    seen_json json = { 0 };
    bool inside = false, chats = r->of->kind == SOURCE_MESSAGES;
    for (;;) {
        TRY(source_reader_next(r, &p));
        uint64_t text = 0;
        switch (p.event) {
        case DOCUMENT_END: return STATUS_OK;
        case DOCUMENT_RECORD: record = values = 0, counts->records++; break;
        case DOCUMENT_ITEM: record += sizeof(document_string); break;
        case DOCUMENT_STRING:
            text = p.count;
            record += piece_bytes(&p, !inside), counts->bytes += text;
            if (chats && (p.json || p.column == SOURCE_TOOLS)) values += add_json(&json, &p);
            counts->tools += chats && p.column == SOURCE_TOOLS && p.last;
            inside = !p.last;
            break;
        case DOCUMENT_RECORD_END:
            if (record > counts->longest) counts->longest = record;
            if (values > counts->values) counts->values = values;
            break;
        }
        TRY(go_on(l, text));
    }
}

status sources_look(const sources *s, void *room, const source_watch *watch, source_counts *counts) {
    looking l = { .of = s, .watch = watch, .counts = counts, .digest = digest_begin() };
    *counts = (source_counts){ .files = s->file_count };
    for (uint32_t f = 0; f < s->file_count; f++) {
        TRY(digest_file(&l, f));
        TRY(go_on(&l, 0)); /* one may be empty, and there may be many */
    }
    counts->digest = digest_value(&l.digest);
    source_reader r = source_reader_begin(s, room);
    status result = look_through(&l, &r);
    source_reader_close(&r);
    if (result == STATUS_OK && s->tools_named && counts->records && !counts->tools)
        return status_set(STATUS_INVALID, "--columns %s: no record has %s", s->options->columns,
                          s->columns[SOURCE_TOOLS].name);
    return result;
}
