/* What a thread works with: its buffers and their growth, and the way of a piece from part to part. */
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer/added.h"
#include "text/tokenizer/word_cache.h"

/* ---- memory ---- */

status work_room(tokenizer_work *w, buffer *b, size_t bytes) {
    if (bytes <= b->room) return STATUS_OK;
    size_t room = b->room + b->room / 2;
    if (room < bytes) room = bytes;
    room = (room + 255) & ~(size_t)255;
    char *data = memory_resize(b->data, room, 1);
    if (!data) return status_set(STATUS_NO_FIT, "no memory for %zu bytes of text", room);
    w->bytes += room - b->room;
    b->data = data, b->room = room;
    return STATUS_OK;
}

status work_add(tokenizer_work *w, buffer *b, const char *data, size_t bytes) {
    if (b->room - b->used < bytes) TRY(work_room(w, b, b->used + bytes));
    if (bytes) memcpy(b->data + b->used, data, bytes);
    b->used += bytes;
    return STATUS_OK;
}

status work_add_point(tokenizer_work *w, buffer *b, uint32_t point) {
    char bytes[4];
    return work_add(w, b, bytes, utf8_encode(point, bytes));
}

status work_more_ids(tokenizer_work *w, size_t most) {
    size_t room = w->id_room + w->id_room / 2 + 256;
    if (room < most) room = most;
    uint32_t *ids = memory_resize(w->ids, room, sizeof *ids);
    if (!ids) return status_set(STATUS_NO_FIT, "no memory for %zu tokens", room);
    w->bytes += (room - w->id_room) * sizeof *ids;
    w->ids = ids, w->id_room = room;
    return STATUS_OK;
}

status work_id(tokenizer_work *w, uint32_t id) {
    if (w->id_count == w->id_room) TRY(work_more_ids(w, 0));
    w->ids[w->id_count++] = id;
    return STATUS_OK;
}

status tokenizer_work_open(const tokenizer *t, tokenizer_work **out) {
    tokenizer_work *w = *out = memory_new(1, sizeof *w);
    if (!w) return status_set(STATUS_NO_FIT, "no memory for a tokenizer's work");
    w->t = t;
    w->cache = memory_new(1, sizeof *w->cache);
    status result = w->cache ? pattern_match_open(&w->match)
                             : status_set(STATUS_NO_FIT, "no memory for a tokenizer's cache of words");
    w->bytes = sizeof *w + sizeof *w->cache + pattern_match_bytes();
    if (result == STATUS_OK) return result;
    tokenizer_work_close(w);
    *out = NULL;
    return result;
}

void tokenizer_work_close(tokenizer_work *w) {
    if (!w) return;
    for (size_t i = 0; i < sizeof w->normal / sizeof *w->normal; i++) memory_free(w->normal[i].data);
    for (size_t i = 0; i < TOKENIZER_STAGES; i++) memory_free(w->stages[i].data);
    for (size_t i = 0; i < 2; i++) memory_free(w->strings[i].text.data), memory_free(w->strings[i].ends);
    memory_free(w->model.data);
    memory_free(w->heap.data);
    memory_free(w->ids);
    memory_free(w->cache);
    pattern_match_close(w->match);
    memory_free(w);
}

uint64_t tokenizer_work_bytes(const tokenizer_work *w) { return w->bytes; }

/* ---- the way of a text ---- */

status work_piece(tokenizer_work *w, uint32_t stage, span text, bool first) {
    const tokenizer *t = w->t;
    if (text.bytes == 0) return STATUS_OK;
    if (stage == t->pre_tokenizers.count) return t->model.kind->encode(&t->model, w, text);
    const part *p = &t->pre_tokenizers.items[stage];
    return p->kind->cut(p, w, stage, text, first);
}

/* The text is in one of the two buffers or outside of them; the next normalizer writes to the other. */
status work_normalize(tokenizer_work *w, span *text) {
    const part_list *list = &w->t->normalizers;
    for (uint32_t i = 0; i < list->count; i++) {
        buffer *out = &w->normal[text->data == w->normal[0].data];
        out->used = 0;
        TRY(list->items[i].kind->normalize(&list->items[i], w, text, out));
    }
    return STATUS_OK;
}
