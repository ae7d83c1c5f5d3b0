#include "data/transcript.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { GUARD = 4096, PLACES = 4096 };

static void add_string(text *out, const char *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            text_add(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            text_add(out, "\\u%04x", c);
        else
            text_add(out, "%c", c);
    }
}

static void check_piece(const document_options *o, const document_piece *p) {
    uint32_t most = o->piece_bytes ? o->piece_bytes : DOCUMENT_PIECE;
    assert_true(p->count <= most);
    assert_true(p->column < o->column_count);
    for (uint32_t at = 0; at < p->count;) {
        size_t length = utf8_length(p->bytes + at, p->count - at);
        assert_true(length > 0);
        at += (uint32_t)length;
    }
}

static void add_piece(text *out, const document_piece *p, bool *inside) {
    if (!*inside) text_add(out, " %u", p->column);
    if (!*inside && p->member) text_add(out, "[%u.%s]", p->item, p->member);
    if (!*inside) text_add(out, p->json ? ":json \"" : ":\"");
    add_string(out, p->bytes, p->count);
    if (p->last) text_add(out, "\"");
    *inside = !p->last;
}

static status read_all(documents *d, const document_options *o, transcript_places *places, text *out) {
    bool inside = false;
    document_piece p;
    for (;;) {
        TRY(documents_next(d, &p));
        switch (p.event) {
        case DOCUMENT_RECORD:
            if (places->places && places->count < places->most)
                places->places[places->count++] = documents_place(d);
            text_add(out, "#%llu", (unsigned long long)documents_place(d).record);
            break;
        case DOCUMENT_ITEM: text_add(out, " %u[%u]", p.column, p.item); break;
        case DOCUMENT_STRING:
            check_piece(o, &p);
            add_piece(out, &p, &inside);
            break;
        case DOCUMENT_RECORD_END: text_add(out, "\n"); break;
        case DOCUMENT_END:
            assert_int_equal(documents_next(d, &p), STATUS_OK);
            assert_int_equal(p.event, DOCUMENT_END);
            return STATUS_OK;
        }
        assert_true(!inside || p.event == DOCUMENT_STRING);
    }
}

status transcript(const document_options *o, transcript_places *places, text *out) {
    uint64_t bytes;
    documents *d;
    transcript_places none = { 0 };
    *out = (text){ 0 };
    text_add(out, "%s", "");
    TRY(documents_need(o, &bytes));
    char *room = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    memset(room, 0xa5, bytes + GUARD);
    assert_int_equal(documents_open(o, room, bytes - 64, &d), STATUS_INVALID);
    assert_null(d);
    status result = documents_open(o, room, bytes, &d);
    if (result == STATUS_OK && places && places->from) result = documents_seek(d, *places->from);
    if (result == STATUS_OK) result = read_all(d, o, places ? places : &none, out);
    documents_close(d);
    for (int i = 0; i < GUARD; i++) assert_int_equal((unsigned char)room[bytes + (uint64_t)i], 0xa5);
    free(room);
    return result;
}

static void check_seeks(const document_options *o, const document_place *places, uint32_t count,
                        const char *all) {
    uint32_t step = count / 4 + 1;
    for (uint32_t i = 0; i < count; i += step) {
        char begins[32];
        text out;
        transcript_places from = { .from = &places[i] };
        snprintf(begins, sizeof begins, "%s#%u", i ? "\n" : "", i);
        const char *rest = strstr(all, begins);
        assert_non_null(rest);
        if (transcript(o, &from, &out) != STATUS_OK) fail_msg("%s", status_message());
        assert_string_equal(out.data, rest + (i ? 1 : 0));
        text_close(&out);
    }
}

void transcript_check(document_options o, const char *expected) {
    static const uint32_t sizes[] = { 0, 64, 65, 71, 257, 100000 };
    static document_place places[PLACES];
    char *first = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        text out;
        transcript_places at = { .places = places, .most = PLACES };
        o.piece_bytes = sizes[i];
        if (transcript(&o, &at, &out) != STATUS_OK) fail_msg("pieces of %u: %s", sizes[i], status_message());
        if (!first) first = strdup(out.data);
        if (expected) assert_string_equal(out.data, expected);
        assert_string_equal(out.data, first);
        if (i < 2) check_seeks(&o, places, at.count, out.data);
        text_close(&out);
    }
    free(first);
}
