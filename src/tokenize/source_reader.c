#include "tokenize/source_reader.h"

source_reader source_reader_begin(const sources *s, void *room) {
    return (source_reader){ .of = s, .room = room };
}

/* A file that is no longer the one of the digest is nothing to go on with, also where its opening failed:
 * what it failed for is then of no interest. While it is open every read looks whether it changes. */
static status open_file(source_reader *r) {
    document_options o = sources_reading(r->of, r->file);
    status result = documents_open(&o, r->room, r->of->reader_bytes, &r->open),
           same = sources_check_same(r->of, r->file);
    return same == STATUS_OK ? result : same;
}

void source_reader_close(source_reader *r) {
    documents_close(r->open);
    r->open = NULL;
}

static void next_file(source_reader *r) {
    source_reader_close(r);
    r->file++;
}

status source_reader_seek(source_reader *r, source_place place) {
    source_reader_close(r);
    r->file = place.file;
    if (r->file == r->of->file_count) return STATUS_OK;
    TRY(open_file(r));
    return documents_seek(r->open, place.in);
}

status source_reader_next(source_reader *r, document_piece *p) {
    for (; r->file < r->of->file_count; next_file(r)) {
        if (!r->open) TRY(open_file(r));
        TRY(documents_next(r->open, p));
        if (p->event != DOCUMENT_END) return STATUS_OK;
    }
    *p = (document_piece){ .event = DOCUMENT_END };
    return STATUS_OK;
}

status source_reader_gather(source_reader *r, void *room, uint64_t bytes, document_record *record,
                            bool *more) {
    for (; r->file < r->of->file_count; next_file(r)) {
        if (!r->open) TRY(open_file(r));
        TRY(documents_gather(r->open, room, bytes, record, more));
        if (*more) return STATUS_OK;
    }
    *more = false;
    return STATUS_OK;
}

/* Where a file has been read to its end the place is behind its last record. */
source_place source_reader_place(const source_reader *r) {
    return (source_place){ r->file, r->open ? documents_place(r->open) : (document_place){ .line = 1 } };
}
