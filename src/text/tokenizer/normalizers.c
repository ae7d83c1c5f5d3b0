/* The normalizers: each reads a text and writes another one. */
#include <string.h>

#include "text/tokenizer/normal_forms.h"
#include "text/tokenizer/precompiled.h"
#include "text/tokenizer/spans.h"
#include "text/tokenizer/unicode.h"

static status written(span *text, const buffer *out) {
    if (out->used >= UINT32_MAX)
        return status_set(STATUS_INVALID, "a text is longer than 4 GiB when normalized");
    *text = (span){ out->data ? out->data : "", (uint32_t)out->used };
    return STATUS_OK;
}

/* ---- normal forms ---- */

static bool all_below(span text, unsigned limit) {
    for (uint32_t i = 0; i < text.bytes; i++)
        if ((unsigned char)text.data[i] >= limit) return false;
    return true;
}

static status apply_form(tokenizer_work *w, int form, span *text, buffer *out) {
    if (all_below(*text, 0x80)) return STATUS_OK; /* ASCII is its own form */
    TRY(normal_forms_add(w, form, *text, out));
    return written(text, out);
}

static status nfd(const part *p, tokenizer_work *w, span *text, buffer *out) {
    (void)p;
    return apply_form(w, 0, text, out);
}
static status nfc(const part *p, tokenizer_work *w, span *text, buffer *out) {
    (void)p;
    if (all_below(*text, 0xcc)) return STATUS_OK; /* below U+0300 nothing joins */
    return apply_form(w, NORMAL_COMPOSE, text, out);
}
static status nfkd(const part *p, tokenizer_work *w, span *text, buffer *out) {
    (void)p;
    return apply_form(w, NORMAL_COMPAT, text, out);
}
static status nfkc(const part *p, tokenizer_work *w, span *text, buffer *out) {
    (void)p;
    return apply_form(w, NORMAL_COMPOSE | NORMAL_COMPAT, text, out);
}

/* ---- character by character ---- */

/* What becomes of a character; it is not written if this adds nothing. */
typedef status each_point(const part *p, tokenizer_work *w, uint32_t point, buffer *out);

static status map_with_spans(const part *p, tokenizer_work *w, span text, buffer *out, each_point *each) {
    for (uint32_t at = 0; at < text.bytes;) {
        size_t length, before = out->used;
        TRY(each(p, w, unicode_read(text.data + at, &length), out));
        TRY(spans_made(w, out, before, spans_origin(w, text.data + at)));
        at += (uint32_t)length;
    }
    return STATUS_OK;
}

static status map_points(const part *p, tokenizer_work *w, span *text, buffer *out, each_point *each) {
    if (w->spans.on) {
        TRY(map_with_spans(p, w, *text, out, each));
        return written(text, out);
    }
    for (uint32_t at = 0; at < text->bytes;) {
        size_t length;
        uint32_t point = unicode_read(text->data + at, &length);
        TRY(each(p, w, point, out));
        at += (uint32_t)length;
    }
    return written(text, out);
}

static status add_small(const part *p, tokenizer_work *w, uint32_t point, buffer *out) {
    uint32_t small[2], n = unicode_small(point, small);
    (void)p;
    for (uint32_t i = 0; i < n; i++) TRY(work_add_point(w, out, small[i]));
    return STATUS_OK;
}

static status lowercase(const part *p, tokenizer_work *w, span *text, buffer *out) {
    return map_points(p, w, text, out, add_small);
}

static status add_unless_mark(const part *p, tokenizer_work *w, uint32_t point, buffer *out) {
    (void)p;
    return point >= 0x300 && unicode_is(point, UNICODE_MARK) ? STATUS_OK : work_add_point(w, out, point);
}

static status strip_accents(const part *p, tokenizer_work *w, span *text, buffer *out) {
    return map_points(p, w, text, out, add_unless_mark);
}

/* As sentencepiece prepares text for translation. */
static status add_nmt(const part *p, tokenizer_work *w, uint32_t c, buffer *out) {
    (void)p;
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
        return STATUS_OK;
    bool blank = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    return work_add_point(w, out, blank ? ' ' : c);
}

static status nmt(const part *p, tokenizer_work *w, span *text, buffer *out) {
    return map_points(p, w, text, out, add_nmt);
}

static status byte_level(const part *p, tokenizer_work *w, span *text, buffer *out) {
    (void)p;
    TRY(work_room(w, out, 2 * (size_t)text->bytes));
    for (uint32_t i = 0; i < text->bytes; i++)
        out->used += byte_letters_write((unsigned char)text->data[i], out->data + out->used);
    if (w->spans.on) TRY(spans_letters(w, out, *text));
    return written(text, out);
}

/* ---- BertNormalizer ---- */

/* The blocks that BERT cuts into single characters. */
static bool is_chinese(uint32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static status add_clean(const part *p, tokenizer_work *w, uint32_t c, buffer *out) {
    if (p->clean_text) {
        unsigned flags = unicode_of(c)->flags;
        if (flags & UNICODE_CONTROL) return STATUS_OK;
        if (flags & UNICODE_SPACE) c = ' ';
    }
    if (p->chinese && is_chinese(c)) {
        TRY(work_add(w, out, " ", 1));
        TRY(work_add_point(w, out, c));
        return work_add(w, out, " ", 1);
    }
    return work_add_point(w, out, c);
}

static status add_unless_nonspacing(const part *p, tokenizer_work *w, uint32_t c, buffer *out) {
    if (c >= 0x300 && unicode_is(c, UNICODE_NONSPACING)) return STATUS_OK;
    return p->lowercase ? add_small(p, w, c, out) : work_add_point(w, out, c);
}

static status bert(const part *p, tokenizer_work *w, span *text, buffer *out) {
    bool strip = p->accents == UNSAID ? p->lowercase : p->accents;
    buffer *between = &w->normal[2];
    TRY(map_points(p, w, text, out, add_clean));
    if (strip && !all_below(*text, 0x80)) {
        between->used = 0;
        TRY(normal_forms_add(w, 0, *text, between));
        TRY(written(text, between));
        out->used = 0;
        return map_points(p, w, text, out, add_unless_nonspacing);
    }
    if (!p->lowercase) return STATUS_OK;
    between->used = 0;
    TRY(map_points(p, w, text, between, add_small));
    out->used = 0;
    TRY(work_add(w, out, between->data, between->used));
    if (w->spans.on) TRY(spans_copied(w, out, between->data, between->used));
    return written(text, out);
}

/* ---- the rest ---- */

static status strip(const part *p, tokenizer_work *w, span *text, buffer *out) {
    (void)w, (void)out;
    size_t first = p->left ? unicode_blanks_first(text->data, text->bytes) : 0;
    text->data += first, text->bytes -= (uint32_t)first;
    if (p->right) text->bytes -= (uint32_t)unicode_blanks_last(text->data, text->bytes);
    return STATUS_OK;
}

static status prepend(const part *p, tokenizer_work *w, span *text, buffer *out) {
    if (text->bytes == 0 || w->window.goes_on) return STATUS_OK;
    TRY(work_put_before(w, out, p->content, *text));
    return written(text, out);
}

/* What is put in a match's place stands for its last character; where nothing was matched at the beginning,
 * for no byte there. */
static status replaced(tokenizer_work *w, buffer *out, const span *text, size_t end, size_t content) {
    origin of = spans_origin(w, text->data + (end ? end - 1 : 0));
    if (end == 0) of.end = of.begin;
    return spans_made(w, out, out->used - content, of);
}

static status add_copy(tokenizer_work *w, buffer *out, const char *data, size_t bytes) {
    TRY(work_add(w, out, data, bytes));
    return w->spans.on ? spans_copied(w, out, data, bytes) : STATUS_OK;
}

static status replace(const part *p, tokenizer_work *w, span *text, buffer *out) {
    if (text->bytes == 0) return STATUS_OK;
    pattern_walk walk = pattern_begin(p->find, w->match, text->data, text->bytes);
    size_t done = 0, start, end;
    bool found;
    for (;;) {
        TRY(pattern_next(&walk, &found, &start, &end));
        if (!found) break;
        TRY(add_copy(w, out, text->data + done, start - done));
        TRY(work_add(w, out, p->content.data, p->content.bytes));
        if (w->spans.on) TRY(replaced(w, out, text, end, p->content.bytes));
        done = end;
    }
    if (done == 0 && out->used == 0) return STATUS_OK;
    TRY(add_copy(w, out, text->data + done, text->bytes - done));
    return written(text, out);
}

static status precompiled(const part *p, tokenizer_work *w, span *text, buffer *out) {
    TRY(precompiled_apply(p->map, w, *text, out));
    return written(text, out);
}

/* ---- what is read for them ---- */

static const part_field bert_fields[] = {
    { PART_FIELD("clean_text", FIELD_BOOL, clean_text), .required = true },
    { PART_FIELD("handle_chinese_chars", FIELD_BOOL, chinese), .required = true },
    { PART_FIELD("strip_accents", FIELD_MAYBE, accents) },
    { PART_FIELD("lowercase", FIELD_BOOL, lowercase), .required = true },
    { 0 }
};
static const part_field strip_fields[] = { { PART_FIELD("strip_left", FIELD_BOOL, left), .required = true },
                                           { PART_FIELD("strip_right", FIELD_BOOL, right), .required = true },
                                           { 0 } };
static const part_field prepend_fields[] = { { PART_FIELD("prepend", FIELD_TEXT, content), .required = true },
                                             { 0 } };
static const part_field replace_fields[] = { { PART_FIELD("pattern", FIELD_PATTERN, find), .required = true },
                                             { PART_FIELD("content", FIELD_TEXT, content), .required = true },
                                             { 0 } };
static const part_field precompiled_fields[] = {
    { .name = "precompiled_charsmap", .type = FIELD_SPECIAL, .required = true, .read = precompiled_read },
    { 0 }
};

static const part_kind kinds[] = {
    { .name = "BertNormalizer",
      .fields = bert_fields,
      .init = { .accents = UNSAID },
      .before_blank = true,
      .reach = REACH_DECOMPOSES,
      .normalize = bert },
    { .name = "Strip", .fields = strip_fields, .trims = true, .normalize = strip },
    { .name = "StripAccents", .before_blank = true, .normalize = strip_accents },
    { .name = "NFC", .before_blank = true, .reach = REACH_JOINS, .before_ascii = true, .normalize = nfc },
    { .name = "NFD",
      .before_blank = true,
      .reach = REACH_DECOMPOSES,
      .before_ascii = true,
      .normalize = nfd },
    { .name = "NFKC", .before_blank = true, .reach = REACH_JOINS, .before_ascii = true, .normalize = nfkc },
    { .name = "NFKD",
      .before_blank = true,
      .reach = REACH_DECOMPOSES,
      .before_ascii = true,
      .normalize = nfkd },
    { .name = "Lowercase", .before_blank = true, .normalize = lowercase },
    { .name = "Nmt", .before_blank = true, .normalize = nmt },
    { .name = "Precompiled",
      .fields = precompiled_fields,
      .before_blank = true,
      .reach = REACH_JOINS,
      .normalize = precompiled },
    { .name = "Replace", .replaces = true, .fields = replace_fields, .normalize = replace },
    { .name = "Prepend", .at_beginning = true, .fields = prepend_fields, .normalize = prepend },
    { .name = "ByteLevel", .normalize = byte_level },
};
const part_kind *const normalizer_kinds[] = { &kinds[0],  &kinds[1],  &kinds[2],  &kinds[3], &kinds[4],
                                              &kinds[5],  &kinds[6],  &kinds[7],  &kinds[8], &kinds[9],
                                              &kinds[10], &kinds[11], &kinds[12], NULL };
