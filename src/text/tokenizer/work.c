/* What a thread works with: its buffers and their growth, and the way of a piece from part to part. */
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer/added.h"
#include "text/tokenizer/settle.h"
#include "text/tokenizer/spans.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/word_cache.h"

/* ---- memory ---- */

void *work_grow(tokenizer_work *w, void *block, size_t from, size_t to, size_t size) {
    uint64_t more = (uint64_t)(to - from) * size;
    if (w->most && w->bytes + more > w->most) return NULL;
    void *larger = memory_resize(block, to, size);
    if (larger) w->bytes += more;
    return larger;
}

status work_room(tokenizer_work *w, buffer *b, size_t bytes) {
    if (bytes <= b->room) return STATUS_OK;
    size_t room = b->room + b->room / 2;
    if (room < bytes) room = bytes;
    room = (room + 255) & ~(size_t)255;
    char *data = work_grow(w, b->data, b->room, room, 1);
    if (!data) return status_set(STATUS_NO_FIT, "no memory for %zu bytes of text", room);
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

status work_put_before(tokenizer_work *w, buffer *out, span before, span text) {
    TRY(work_add(w, out, before.data, before.bytes));
    if (w->spans.on) TRY(spans_made(w, out, 0, spans_origin(w, text.data)));
    TRY(work_add(w, out, text.data, text.bytes));
    return w->spans.on ? spans_copied(w, out, text.data, text.bytes) : STATUS_OK;
}

status work_more_ids(tokenizer_work *w, size_t most) {
    size_t room = w->id_room + w->id_room / 2 + 256;
    if (room < most) room = most;
    uint32_t *ids = work_grow(w, w->ids, w->id_room, room, sizeof *ids);
    if (!ids) return status_set(STATUS_NO_FIT, "no memory for %zu tokens", room);
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
    for (size_t i = 0; i < sizeof w->normal / sizeof *w->normal; i++)
        memory_free(w->normal[i].data), memory_free(w->normal[i].from);
    for (size_t i = 0; i < TOKENIZER_STAGES; i++)
        memory_free(w->stages[i].data), memory_free(w->stages[i].from);
    memory_free(w->spans.at);
    for (size_t i = 0; i < 2; i++) memory_free(w->strings[i].text.data), memory_free(w->strings[i].ends);
    memory_free(w->model.data);
    memory_free(w->heap.data);
    memory_free(w->ids);
    memory_free(w->cache);
    pattern_match_close(w->match);
    memory_free(w);
}

uint64_t tokenizer_work_bytes(const tokenizer_work *w) { return w->bytes; }

void tokenizer_work_limit(tokenizer_work *w, uint64_t bytes) { w->most = bytes; }
/* ---- where a window may end ---- */

/* Nothing joins what is before a character with it, whatever the normal form: those that may are marks,
 * vowels and ends of Korean syllables and what compatibility makes such. */
bool work_begins_anew(uint32_t c) {
    if (unicode_table_categories[unicode_of(c)->category][0] == 'M') return false;
    return !(c >= 0x1160 && c <= 0x11ff) && !(c >= 0x3130 && c <= 0x318f) && !(c >= 0xff9e && c <= 0xffdc);
}

void work_decide(tokenizer_work *w, const char *at, bool inside) {
    work_window *k = &w->window;
    if (k->copy) at = at > k->copy ? k->data + (at - k->copy) : k->data;
    size_t place = k->base + (size_t)(at - k->data), length;
    if (at <= k->data || at > k->limit) return;
    if (w->t->normalizers.count && at == k->end) return;
    if (w->t->normalizers.count && !w->t->takes_cuts && !work_begins_anew(unicode_read(at, &length))) return;
    if (k->mapped) { /* between two characters of the text? */
        origin before = spans_origin(w, at - 1), here = spans_origin(w, at);
        if (before.end > here.begin || here.begin <= k->segment) return;
        place = here.begin - k->segment;
    }
    k->decided = place, k->ids = w->id_count, k->inside = inside;
}

/* ---- the way of a text ---- */

status work_piece(tokenizer_work *w, uint32_t stage, span text, bool first) {
    const tokenizer *t = w->t;
    if (text.bytes == 0) return STATUS_OK;
    if (stage == t->pre_tokenizers.count) {
        if (!w->window.last) return t->model.kind->encode(&t->model, w, text);
        if (w->window.places) {
            w->window.inside = true; /* else the text ends with an added token */
            return t->model.kind->settle(&t->model, w, text);
        }
        return w->window.decided ? STATUS_OK : settle_word(w, text);
    }
    const part *p = &t->pre_tokenizers.items[stage];
    return p->kind->cut(p, w, stage, text, first);
}

/* The text is in one of the two buffers (perhaps not at its beginning) or outside of them; the next
 * normalizer writes to the other. */
static bool lies_in(const char *text, const buffer *b) {
    uintptr_t data = (uintptr_t)b->data, at = (uintptr_t)text;
    return b->data && at >= data && at - data < b->room;
}

status work_normalize_by(tokenizer_work *w, uint32_t i, span *text) {
    const part *p = &w->t->normalizers.items[i];
    buffer *out = &w->normal[lies_in(text->data, &w->normal[0])];
    out->used = 0;
    return p->kind->normalize(p, w, text, out);
}

status work_normalize(tokenizer_work *w, span *text) {
    for (uint32_t i = 0; i < w->t->normalizers.count; i++) TRY(work_normalize_by(w, i, text));
    return STATUS_OK;
}
