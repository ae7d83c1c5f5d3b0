#include "text/tokenizer/spans.h"

#include "base/memory.h"
#include "text/tokenizer/unicode.h"

static const buffer *buffer_of(const tokenizer_work *w, const char *at) {
    uintptr_t place = (uintptr_t)at;
    for (size_t i = 0; i < sizeof w->normal / sizeof *w->normal; i++) {
        uintptr_t data = (uintptr_t)w->normal[i].data;
        if (place >= data && place - data < w->normal[i].used) return &w->normal[i];
    }
    for (uint32_t i = 0; i < w->t->pre_tokenizers.count; i++) {
        uintptr_t data = (uintptr_t)w->stages[i].data;
        if (place >= data && place - data < w->stages[i].used) return &w->stages[i];
    }
    return NULL;
}

origin spans_origin(const tokenizer_work *w, const char *at) {
    const buffer *b = buffer_of(w, at);
    if (b) return b->from[at - b->data];
    uint32_t begin = (uint32_t)unicode_before(w->spans.text, (size_t)(at - w->spans.text) + 1);
    return (origin){ begin, begin + (uint32_t)unicode_bytes((unsigned char)w->spans.text[begin]) };
}

/* As many origins as the buffer has room for bytes. */
static status room_for(tokenizer_work *w, buffer *out) {
    if (out->from_room >= out->used) return STATUS_OK;
    origin *from = work_grow(w, out->from, out->from_room, out->room, sizeof *from);
    if (!from) return status_set(STATUS_NO_FIT, "no memory for where %zu bytes of text come from", out->room);
    out->from = from, out->from_room = out->room;
    return STATUS_OK;
}

status spans_copied(tokenizer_work *w, buffer *out, const char *from, size_t bytes) {
    TRY(room_for(w, out));
    for (size_t i = 0; i < bytes; i++) out->from[out->used - bytes + i] = spans_origin(w, from + i);
    return STATUS_OK;
}

status spans_made(tokenizer_work *w, buffer *out, size_t before, origin of) {
    TRY(room_for(w, out));
    for (size_t i = before; i < out->used; i++) out->from[i] = of;
    return STATUS_OK;
}

status spans_letters(tokenizer_work *w, buffer *out, span text) {
    char letter[2];
    TRY(room_for(w, out));
    for (uint32_t i = 0, at = 0; i < text.bytes; i++) {
        origin of = spans_origin(w, text.data + i);
        for (size_t n = byte_letters_write((unsigned char)text.data[i], letter); n > 0; n--)
            out->from[at++] = of;
    }
    return STATUS_OK;
}

status spans_set(tokenizer_work *w, size_t place, span bytes) {
    if (w->spans.room <= place) {
        size_t room = w->id_room > place ? w->id_room : place + 1;
        tokenizer_span *at = work_grow(w, w->spans.at, w->spans.room, room, sizeof *at);
        if (!at) return status_set(STATUS_NO_FIT, "no memory for the places of %zu tokens", room);
        w->spans.at = at, w->spans.room = room;
    }
    w->spans.at[place] = (tokenizer_span){ 0 };
    if (bytes.bytes == 0) return STATUS_OK;
    w->spans.at[place].begin = spans_origin(w, bytes.data).begin;
    w->spans.at[place].end = spans_origin(w, bytes.data + bytes.bytes - 1).end;
    return STATUS_OK;
}
