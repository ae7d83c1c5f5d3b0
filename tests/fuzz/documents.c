/* Any file read as documents. */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/utf8.h"
#include "data/documents/documents.h"
#include "fuzz/fuzz.h"

enum { GUARD = 64, MOST_BYTES = 32 << 20, MOST_EVENTS = 200000, WINDOW = 64 << 10 };

/* What a reading came to, so that two can be compared. */
typedef struct {
    status result;
    uint64_t digest, records;
    document_place last;
} reading;

static void check(const document_options *o, const document_piece *p) {
    FUZZ_EXPECT(p->count <= (o->piece_bytes ? o->piece_bytes : DOCUMENT_PIECE));
    FUZZ_EXPECT(p->column < o->column_count);
    bool of_file = o->bytes >> p->column & 1;
    FUZZ_EXPECT((o->columns[p->column].is_list || of_file) == (p->member != NULL));
    if (of_file && strcmp(p->member, "bytes") == 0) return;
    for (uint32_t at = 0; at < p->count;) {
        size_t length = utf8_length(p->bytes + at, p->count - at);
        FUZZ_EXPECT(length > 0);
        at += (uint32_t)length;
    }
}

/* What was read is the same when it is read again by its place, in the bytes that this says it takes. */
static void check_cell(const documents *d, const document_piece *p) {
    parquet_cell cell = documents_cell(d);
    uint64_t bytes = parquet_cell_scratch(&cell);
    const unsigned char *again;
    if (bytes > MOST_BYTES) return;
    unsigned char *room = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    memset(room + bytes, 0x77, GUARD);
    FUZZ_EXPECT(fuzz_said(parquet_cell_read(documents_file(d), &cell, room, &again)) == STATUS_OK);
    FUZZ_EXPECT(p->count <= cell.bytes && p->last == (p->count == cell.bytes));
    FUZZ_EXPECT(memcmp(again, p->bytes, p->count) == 0);
    for (int i = 0; i < GUARD; i++) FUZZ_EXPECT(room[bytes + (uint64_t)i] == 0x77);
    free(room);
}

static void add(digest *sum, const document_piece *p, bool *inside) {
    if (!*inside) digest_add(sum, &p->column, sizeof p->column);
    if (!*inside) digest_add(sum, &p->item, sizeof p->item);
    if (!*inside && p->member) digest_text(sum, p->member);
    if (!*inside) digest_add(sum, &p->json, sizeof p->json);
    digest_add(sum, p->bytes, p->count);
    *inside = !p->last;
}

/* The digest is that of the records that were read to their end. */
static reading read_from(const document_options *o, const document_place *from) {
    reading r = { .result = STATUS_INVALID };
    uint64_t bytes;
    documents *d;
    document_piece p;
    digest sum = digest_begin();
    bool inside = false, record = false;
    if (fuzz_said(documents_need(o, &bytes)) != STATUS_OK || bytes > MOST_BYTES) return r;
    char *room = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    memset(room + bytes, 0x77, GUARD);
    r.result = fuzz_said(documents_open(o, room, bytes, &d));
    if (r.result == STATUS_OK && from) r.result = fuzz_said(documents_seek(d, *from));
    for (int i = 0; r.result == STATUS_OK && i < MOST_EVENTS; i++) {
        r.result = fuzz_said(documents_next(d, &p));
        if (r.result != STATUS_OK || p.event == DOCUMENT_END) break;
        FUZZ_EXPECT(record == (p.event != DOCUMENT_RECORD));
        FUZZ_EXPECT(!inside || p.event == DOCUMENT_STRING);
        if (p.event == DOCUMENT_RECORD) r.last = documents_place(d);
        if (p.event == DOCUMENT_STRING) check(o, &p);
        if (p.event == DOCUMENT_STRING && o->bytes >> p.column & 1 && !inside) check_cell(d, &p);
        if (p.event == DOCUMENT_STRING) add(&sum, &p, &inside);
        record = p.event != DOCUMENT_RECORD_END;
        if (!record) r.records++, r.digest = digest_value(&sum);
    }
    for (int i = 0; i < GUARD; i++) FUZZ_EXPECT(room[bytes + (uint64_t)i] == 0x77);
    documents_close(d);
    free(room);
    return r;
}

static void read_with(document_options o) {
    const char *path = o.path;
    o.window = WINDOW;
    reading large = read_from(&o, NULL);
    o.piece_bytes = 64;
    reading small = read_from(&o, NULL);
    /* Of damaged packed bytes it depends on how many are unpacked at once what comes before the damage; and
     * whether libzstd sees at all that a frame says another length than it has. */
    bool same = document_packing_of(path) == DOCUMENT_UNPACKED;
    if (large.result == STATUS_OK && small.result == STATUS_OK) same = true;
    FUZZ_EXPECT(!same || small.result == large.result);
    FUZZ_EXPECT(!same || (small.records == large.records && small.digest == large.digest));
    if (!large.records) return;
    reading rest = read_from(&o, &large.last);
    FUZZ_EXPECT(!same || (rest.result == large.result && rest.records <= 1));
}

static void read_as(const char *path, const document_column *columns, uint32_t count, bool replace) {
    document_options o = { .path = path, .columns = columns, .column_count = count, .replace = replace };
    read_with(o);
}

void fuzz_documents(const char *path) {
    static const char *const members[] = { "role", "content", NULL };
    static const document_column one[] = { { "text", false, NULL } },
                                 two[] = { { "prompt", false, NULL }, { "completion", false, NULL } },
                                 chat[] = { { "messages", true, NULL } },
                                 some[] = { { "messages", true, members } },
                                 tools[] = { { "messages", true, NULL }, { "tools", false, NULL } };
    read_as(path, one, 1, false);
    read_as(path, one, 1, true);
    read_as(path, two, 2, false);
    read_as(path, chat, 1, false);
    read_as(path, some, 1, true);
    document_options any = { .path = path, .columns = tools, .column_count = 2, .json = 3, .optional = 2 };
    read_with(any);
    any.replace = true;
    read_with(any);
    static const document_column pictures[] = { { .name = "label" }, { .name = "image" } };
    read_with((document_options){
        .path = path, .columns = pictures, .column_count = 2, .plain = 1, .classes = 1, .bytes = 2 });
    static const document_column labels[] = {
        { .name = "label" }, { .name = "n0" }, { .name = "n4" }, { .name = "n8" }, { .name = "n10" }
    };
    read_with((document_options){
        .path = path, .columns = labels, .column_count = 5, .plain = 31, .optional = 31, .classes = 1 });
}
