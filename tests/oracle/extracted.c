#include "oracle/extracted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { GUARD = 256 };

/* In exactly the bytes that it says it takes. */
static void read_again(const documents *d, const document_piece *p) {
    parquet_cell cell = documents_cell(d);
    uint64_t bytes = parquet_cell_scratch(&cell);
    unsigned char *room = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    const unsigned char *again;
    data_file closed = *documents_file(d);
    memset(room + bytes, 0xa5, GUARD);
    closed.handle = -1;
    if (parquet_cell_read(&closed, &cell, room, &again) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(cell.bytes, p->count);
    assert_memory_equal(again, p->bytes, p->count);
    assert_true(again >= room && again + cell.bytes <= room + bytes);
    for (int i = 0; i < GUARD; i++) assert_int_equal(room[bytes + (uint64_t)i], 0xa5);
    free(room);
}

static void take(char *to, const document_piece *p) {
    assert_true(p->count < 64);
    memcpy(to, p->bytes, p->count);
    to[p->count] = 0;
}

void extracted_visit(const char *parquet, extracted_each *each, void *context) {
    static const document_column columns[] = { { .name = "label" }, { .name = "image" } };
    document_options o = { .path = parquet,
                           .columns = columns,
                           .column_count = 2,
                           .plain = 1,
                           .classes = 1,
                           .bytes = 2,
                           .piece_bytes = INT32_MAX };
    uint64_t bytes;
    documents *d;
    document_piece p, picture = { 0 };
    char class[64] = "", path[64] = "";
    if (documents_need(&o, &bytes) != STATUS_OK) fail_msg("%s", status_message());
    void *room = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (documents_open(&o, room, bytes, &d) != STATUS_OK) fail_msg("%s", status_message());
    do {
        if (documents_next(d, &p) != STATUS_OK) fail_msg("%s", status_message());
        if (p.event == DOCUMENT_STRING && p.column == 0) take(class, &p);
        if (p.event == DOCUMENT_STRING && p.column == 1 && strcmp(p.member, "path") == 0) take(path, &p);
        if (p.event == DOCUMENT_STRING && p.column == 1 && strcmp(p.member, "bytes") == 0) {
            read_again(d, &p);
            picture = p; /* its page stays until the next one is taken */
        }
        if (p.event == DOCUMENT_RECORD_END) each(context, &picture, class, path);
    } while (p.event != DOCUMENT_END);
    documents_close(d);
    free(room);
}

static void write_picture(void *context, const document_piece *bytes, const char *class, const char *path) {
    char to[256];
    const char *name = strrchr(path, '/');
    snprintf(to, sizeof to, "%s/%s", (const char *)context, class);
    mkdir(to, 0777);
    snprintf(to, sizeof to, "%s/%s/%s", (const char *)context, class, name ? name + 1 : path);
    FILE *file = fopen(to, "wb");
    if (!file || fwrite(bytes->bytes, 1, bytes->count, file) != bytes->count || fclose(file) != 0)
        fail_msg("cannot write %s", to);
}

void extracted_pictures(const char *parquet, const char *folder) {
    char name[256];
    mkdir(folder, 0777);
    snprintf(name, sizeof name, "%s", folder);
    extracted_visit(parquet, write_picture, name);
}
