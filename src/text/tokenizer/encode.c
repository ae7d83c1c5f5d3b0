/* From text to ids: added tokens are cut out, what is between them is normalized, cut by the pre-tokenizers
 * and handed to the model, and the post-processors put theirs around. */
#include <string.h>

#include "text/tokenizer/added.h"
#include "text/tokenizer/blanks.h"
#include "text/tokenizer/cuts.h"
#include "text/tokenizer/places.h"
#include "text/tokenizer/spans.h"
#include "text/tokenizer/unicode.h"

typedef struct {
    tokenizer_work *w;
    span text;
    bool first; /* the segment begins where the text begins */
    bool last;  /* and reaches to the end of a window */
} segment;

static status add_token(tokenizer_work *w, uint32_t id, span text) {
    TRY(work_id(w, id));
    return w->spans.on ? spans_set(w, w->id_count - 1, text) : STATUS_OK;
}

/* Where documents are cut between characters that nothing joins, the model has the text as one word: what
 * pre-tokenizers look for is none of it (runs_inside). */
static uint32_t open_stage(const tokenizer *t) { return t->takes_cuts ? t->pre_tokenizers.count : 0; }

static status normal_segment(void *context, const char *data, size_t bytes, size_t start, uint32_t id) {
    const segment *s = context;
    tokenizer_work *w = s->w;
    bool last = s->last && id == TOKENIZER_NONE && start + bytes == s->text.bytes;
    w->window.base = start, w->window.data = data, w->window.copy = NULL;
    w->window.last = last;
    if (id != TOKENIZER_NONE)
        TRY(add_token(w, id, (span){ data, (uint32_t)bytes }));
    else
        TRY(work_piece(w, last ? open_stage(w->t) : 0, (span){ data, (uint32_t)bytes },
                       s->first && start == 0));
    w->window.goes_on = w->window.within = w->window.last = false;
    w->window.data = s->text.data, w->window.base = 0, w->window.copy = NULL;
    if (s->last && !last && !w->window.places) work_decide(w, data + bytes, false);
    return STATUS_OK;
}

/* Of the last segment of a window the places in the text are found by origins where normalizing changed it.
 */
static bool same_text(span a, const char *data, size_t bytes) {
    return a.bytes == bytes && (a.data == data || memcmp(a.data, data, bytes) == 0);
}

/* All of a window that ends at a place, without what the model left of the last word. */
static void decide_place(tokenizer_work *w, span text) {
    work_window *k = &w->window;
    if (k->stuck || k->back >= text.bytes) return;
    k->decided = text.bytes - k->back, k->ids = w->id_count;
}

static status text_segment(tokenizer_work *w, span text, bool first, bool last) {
    span normal = text;
    TRY(work_normalize(w, &normal));
    w->window.decided = 0, w->window.ids = w->id_count, w->window.inside = false;
    w->window.mapped = last && !w->window.places && !same_text(normal, text.data, text.bytes);
    if (w->window.mapped) { /* once more */
        normal = text;
        w->spans.on = true;
        status result = work_normalize(w, &normal);
        w->spans.on = false;
        TRY(result);
        w->window.segment = (size_t)(text.data - w->spans.text);
    }
    if (normal.bytes == 0) return STATUS_OK;
    w->window.end = w->window.limit = normal.data + normal.bytes;
    if (last && w->t->normalizers.count) w->window.limit = normal.data + added_begun(w->t, normal);
    segment s = { w, normal, first, last };
    TRY(added_split(w->t, &w->t->normal, normal, normal_segment, &s));
    if (last && w->window.places) decide_place(w, text);
    return STATUS_OK;
}

static status plain_segment(void *context, const char *data, size_t bytes, size_t start, uint32_t id) {
    tokenizer_work *w = context;
    if (id != TOKENIZER_NONE) return add_token(w, id, (span){ data, (uint32_t)bytes });
    return text_segment(w, (span){ data, (uint32_t)bytes }, start == 0, false);
}

/* ---- around it ---- */

/* One post-processor at most puts ids around a text (post_processors.c). */
tokenizer_frame tokenizer_around(const tokenizer *t) {
    tokenizer_frame f = { 0 };
    for (uint32_t i = 0; i < t->post_processors.count; i++) {
        const part *p = &t->post_processors.items[i];
        if (p->before_count) f.before = (tokenizer_ids){ p->before, p->before_count };
        if (p->after_count) f.behind = (tokenizer_ids){ p->after, p->after_count };
    }
    return f;
}

bool tokenizer_around_pair(const tokenizer *t, tokenizer_pair *out) {
    *out = (tokenizer_pair){ .second = 1 };
    tokenizer_typed *const runs[] = { &out->before, &out->between, &out->behind };
    for (uint32_t i = 0; i < t->post_processors.count; i++) {
        const part *p = &t->post_processors.items[i];
        if (p->odd_pair) return false;
        if (!p->adds_pair) continue;
        size_t all = p->pair_counts[0] + p->pair_counts[1] + p->pair_counts[2], at = 0;
        for (int k = 0; k < 3; at += p->pair_counts[k++])
            if (p->pair_counts[k])
                *runs[k] = (tokenizer_typed){ p->pair + at, p->pair + all + at, p->pair_counts[k] };
        out->first = p->pair_types[0], out->second = p->pair_types[1];
    }
    return true;
}

static status truncate_ids(const tokenizer *t, tokenizer_work *w, bool special) {
    tokenizer_frame f = tokenizer_around(t);
    uint64_t around = special ? (uint64_t)f.before.count + f.behind.count : 0;
    if (!t->truncates) return STATUS_OK;
    if (around > t->most_ids)
        return status_set(STATUS_INVALID,
                          "the tokenizer cuts texts to fewer tokens than it puts around each");
    size_t most = (size_t)(t->most_ids - around);
    if (w->id_count <= most) return STATUS_OK;
    if (t->truncates_second)
        return status_set(
            STATUS_INVALID,
            "the text has %zu tokens, and the tokenizer takes %zu: it cuts the second of two texts "
            "alone ('OnlySecond')",
            w->id_count, most);
    size_t over = t->truncates_left ? w->id_count - most : 0;
    if (over) memmove(w->ids, w->ids + over, most * sizeof *w->ids);
    if (over && w->spans.on) memmove(w->spans.at, w->spans.at + over, most * sizeof *w->spans.at);
    w->id_count = most;
    return STATUS_OK;
}

/* Makes room for `n` more ids at the beginning, which stand for nothing in the text. */
static status shift_ids(tokenizer_work *w, size_t n) {
    if (w->id_room - w->id_count < n) TRY(work_more_ids(w, w->id_count + n));
    if (w->id_count) memmove(w->ids + n, w->ids, w->id_count * sizeof *w->ids);
    w->id_count += n;
    if (!w->spans.on || n == 0) return STATUS_OK;
    TRY(spans_set(w, w->id_count - 1, (span){ 0 }));
    memmove(w->spans.at + n, w->spans.at, (w->id_count - n) * sizeof *w->spans.at);
    memset(w->spans.at, 0, n * sizeof *w->spans.at);
    return STATUS_OK;
}

static status put_around(tokenizer_work *w, const part *p) {
    TRY(shift_ids(w, p->before_count));
    if (p->before_count) memcpy(w->ids, p->before, p->before_count * sizeof *w->ids);
    for (uint32_t i = 0; i < p->after_count; i++) TRY(add_token(w, p->after[i], (span){ 0 }));
    return STATUS_OK;
}

static status pad_ids(const tokenizer *t, tokenizer_work *w) {
    if (!t->pads) return STATUS_OK;
    uint64_t length = t->pad_length ? t->pad_length : w->id_count, over;
    if (t->pad_multiple && (over = length % t->pad_multiple) > 0) length += t->pad_multiple - over;
    if (length <= w->id_count) return STATUS_OK;
    size_t missing = (size_t)length - w->id_count;
    if (t->pads_left) {
        TRY(shift_ids(w, missing));
        for (size_t i = 0; i < missing; i++) w->ids[i] = t->pad_id;
    }
    while (w->id_count < length) TRY(add_token(w, t->pad_id, (span){ 0 }));
    return STATUS_OK;
}

status tokenizer_encode(const tokenizer *t, tokenizer_work *w, const char *text, size_t bytes, bool special,
                        tokenizer_ids *ids) {
    size_t place;
    w->id_count = 0;
    w->window = (work_window){ 0 };
    *ids = (tokenizer_ids){ 0 };
    if (bytes >= UINT32_MAX)
        return status_set(STATUS_INVALID, "a text of %zu bytes is too long to be one", bytes);
    if (!unicode_valid(text, bytes, &place))
        return status_set(STATUS_INVALID, "the text is not UTF-8 at byte %zu", place);
    TRY(added_split(t, &t->plain, (span){ text, (uint32_t)bytes }, plain_segment, w));
    TRY(truncate_ids(t, w, special));
    for (uint32_t i = 0; special && i < t->post_processors.count; i++)
        TRY(put_around(w, &t->post_processors.items[i]));
    TRY(pad_ids(t, w));
    *ids = (tokenizer_ids){ w->ids, w->id_count };
    return STATUS_OK;
}

status tokenizer_encode_spans(const tokenizer *t, tokenizer_work *w, tokenizer_text text, bool special,
                              tokenizer_ids *ids, const tokenizer_span **spans) {
    w->spans.on = true, w->spans.text = text.data;
    status result = tokenizer_encode(t, w, text.data, text.bytes, special, ids);
    w->spans.on = false, w->spans.text = NULL;
    *spans = result == STATUS_OK && ids->count ? w->spans.at : NULL;
    return result;
}

/* ---- a long document, window by window ---- */

typedef struct {
    tokenizer_work *w;
    tokenizer_document *document;
    size_t bytes, used; /* of the window */
} window_walk;

static status window_segment(void *context, const char *data, size_t bytes, size_t start, uint32_t id) {
    window_walk *k = context;
    tokenizer_work *w = k->w;
    bool first = start == 0 && !k->document->begun, last = w->window.open && start + bytes == k->bytes;
    w->window.goes_on = start == 0 && k->document->inside;
    w->window.within = start == 0 && k->document->word;
    bool word = w->window.within; /* stays so where nothing is used */
    k->document->word = false;
    if (id != TOKENIZER_NONE) {
        k->used = start + bytes;
        k->document->inside = false;
        return work_id(w, id);
    }
    TRY(text_segment(w, (span){ data, (uint32_t)bytes }, first, last));
    if (!last) {
        k->used = start + bytes;
        k->document->inside = true;
        return STATUS_OK;
    }
    w->id_count = w->window.ids;
    k->used = start + w->window.decided;
    k->document->word = w->window.decided ? w->window.inside : word;
    if (w->window.decided) {
        k->document->inside = true;
        k->document->score = w->window.score, k->document->unknown = w->window.unknown;
    }
    return STATUS_OK;
}

/* Without the beginning of a character at its end. */
static size_t whole_characters(const char *text, size_t bytes) {
    size_t at = bytes;
    for (int i = 0; i < 3 && at > 0 && ((unsigned char)text[at - 1] & 0xc0) == 0x80; i++) at--;
    if (at == 0) return bytes;
    return (unsigned char)text[at - 1] >= 0xc0 && at - 1 + unicode_bytes((unsigned char)text[at - 1]) > bytes
               ? at - 1
               : bytes;
}

/* Before a blank, or else at another place, inside of a word only where there is none between pieces. */
static status end_window(tokenizer_work *w, span text, size_t *end) {
    w->window.open = false;
    *end = w->t->takes_blanks ? blanks_find(w->t, text) : 0;
    if (*end || !w->t->takes_places) return STATUS_OK;
    TRY(places_find(w, text, end, &w->window.places));
    w->window.open = w->window.places;
    return STATUS_OK;
}

status tokenizer_encode_window(const tokenizer *t, tokenizer_work *w, tokenizer_document *document,
                               tokenizer_window window, tokenizer_ids *ids) {
    size_t place, n = window.last ? window.bytes : whole_characters(window.data, window.bytes);
    w->id_count = 0;
    w->window = (work_window){ .open = !window.last, .score = document->score, .unknown = document->unknown };
    *ids = (tokenizer_ids){ 0 };
    document->used = 0;
    if (n >= UINT32_MAX) return status_set(STATUS_INVALID, "a window of %zu bytes is too long", n);
    if (!unicode_valid(window.data, n, &place))
        return status_set(STATUS_INVALID, "the text is not UTF-8 at byte %zu", place);
    if (!window.last && !tokenizer_takes_windows(t)) return STATUS_OK;
    if (!window.last) n = added_begun(t, (span){ window.data, (uint32_t)n });
    if (!window.last && t->takes_cuts) {
        size_t cut = cuts_find(t, (span){ window.data, (uint32_t)n });
        if (cut) n = cut, w->window.open = false; /* what is before the cut is whole in itself */
    }
    if (!window.last && (t->takes_blanks || t->takes_places))
        TRY(end_window(w, (span){ window.data, (uint32_t)n }, &n));
    w->spans.text = window.data;
    tokenizer_document next = *document; /* stays as it is where this fails */
    window_walk k = { w, &next, n, 0 };
    TRY(added_split(t, &t->plain, (span){ window.data, (uint32_t)n }, window_segment, &k));
    next.used = k.used;
    next.begun |= k.used > 0;
    *document = next;
    *ids = (tokenizer_ids){ w->ids, w->id_count };
    return STATUS_OK;
}
