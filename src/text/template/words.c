#define _GNU_SOURCE
#include "text/template/words.h"

#include <string.h>

#include "base/utf8.h"
#include "text/template/lex.h"
#include "text/template/stream.h"

/* ---- cases ---- */

/* A capital sigma at a word's end has a small letter of its own. */
static bool final_sigma(const value_text *t, size_t at, uint32_t n) {
    bool before = false;
    unsigned long p;
    for (size_t i = at; i > 0;) {
        i--;
        while (i > 0 && ((unsigned char)t->bytes[i] & 0xc0) == 0x80) i--;
        value_point(t->bytes + i, &p);
        if (LETTERS_IS(ignorable, p)) continue;
        before = letters_cased((uint32_t)p);
        break;
    }
    for (size_t i = at + n; before && i < t->length;) {
        i += value_point(t->bytes + i, &p);
        if (!LETTERS_IS(ignorable, p)) return !letters_cased((uint32_t)p);
    }
    return before;
}

static status change_letter(run *r, builder *b, const value *of, size_t at, letters_case c) {
    unsigned long p;
    uint32_t to[3], n = value_point(of->text->bytes + at, &p), count;
    char bytes[12];
    size_t length = 0;
    if (c == LETTERS_LOWER && p == 0x3a3)
        to[0] = final_sigma(of->text, at, n) ? 0x3c2 : 0x3c3, count = 1;
    else
        count = letters_change(c, (uint32_t)p, to);
    for (uint32_t i = 0; i < count; i++) length += utf8_encode(to[i], bytes + length);
    return builder_add(r, b, bytes, length, value_origin_at(of, at));
}

status words_change(run *r, const value *of, words_case c, value *out) {
    builder b = { 0 };
    bool after = false; /* a cased letter stands before */
    for (size_t at = 0; at < of->text->length;) {
        unsigned long p;
        uint32_t n = value_point(of->text->bytes + at, &p);
        letters_case to = c == WORDS_UPPER ? LETTERS_UPPER : LETTERS_LOWER;
        if (c == WORDS_CAPITALIZE) to = at == 0 ? LETTERS_TITLE : LETTERS_LOWER;
        if (c == WORDS_TITLE) to = after ? LETTERS_LOWER : LETTERS_TITLE;
        if (c == WORDS_SWAP) to = LETTERS_IS(upper, p) ? LETTERS_LOWER : LETTERS_UPPER;
        bool same = c == WORDS_SWAP && !LETTERS_IS(upper, p) && !LETTERS_IS(lower, p);
        TRY(run_steps(r, 1));
        TRY(same ? builder_add_part(r, &b, of, at, at + n) : change_letter(r, &b, of, at, to));
        after = letters_cased((uint32_t)p);
        at += n;
    }
    return builder_value(r, &b, out);
}

/* ---- pieces ---- */

/* The letter that ends at `end`. */
static size_t letter_before(const value_text *t, size_t end) {
    size_t at = end - 1;
    while (at > 0 && ((unsigned char)t->bytes[at] & 0xc0) == 0x80) at--;
    return at;
}

static bool strips(const value_text *t, size_t at, size_t n, const value *chars) {
    if (!chars) return lex_blank(t->bytes + at, n) == n;
    return memmem(chars->text->bytes, chars->text->length, t->bytes + at, n) != NULL;
}

status words_strip(run *r, const value *of, const value *chars, unsigned sides, value *out) {
    const value_text *t = of->text;
    size_t begin = 0, end = t->length;
    unsigned long p;
    if (chars && (!run_given(chars) || chars->kind == VALUE_NONE)) chars = NULL;
    if (chars) TRY(run_text("what strip takes", chars));
    while ((sides & 1) && begin < end) {
        size_t n = value_point(t->bytes + begin, &p);
        if (!strips(t, begin, n, chars)) break;
        begin += n;
    }
    while ((sides & 2) && end > begin) {
        size_t at = letter_before(t, end);
        if (!strips(t, at, end - at, chars)) break;
        end = at;
    }
    TRY(run_steps(r, (begin + t->length - end) / 64));
    return value_part(r, of, begin, end, out);
}

int64_t words_find(const value_text *t, const value_text *what, size_t begin, size_t end, bool last) {
    if (what->length > end - begin || begin > end) return -1;
    if (!last) {
        const char *found = memmem(t->bytes + begin, end - begin, what->bytes, what->length);
        return found ? found - t->bytes : -1;
    }
    for (size_t at = end - what->length + 1; at-- > begin;)
        if (memcmp(t->bytes + at, what->bytes, what->length) == 0) return (int64_t)at;
    return -1;
}

uint64_t words_cost(size_t length, size_t what, bool last) {
    return length / 64 * (last ? 1 + (uint64_t)what / 64 : 1);
}

typedef struct {
    run *r;
    const value *of;
    value *items;
    uint32_t count, room;
} pieces;

static status add_piece(pieces *p, size_t begin, size_t end) {
    TRY(run_steps(p->r, 1));
    if (p->count == p->room) {
        uint32_t room = p->room * 2 + 8;
        value *items;
        TRY(run_take(p->r, room * sizeof *items, &items));
        if (p->count) memcpy(items, p->items, p->count * sizeof *items);
        p->items = items;
        p->room = room;
    }
    return value_part(p->r, p->of, begin, end, &p->items[p->count++]);
}

static status pieces_list(pieces *p, bool reversed, value *out) {
    TRY(value_list_new(p->r, VALUE_LIST, p->count, out));
    for (uint32_t i = 0; i < p->count; i++) out->list->items[i] = p->items[reversed ? p->count - 1 - i : i];
    return STATUS_OK;
}

static status split_at(pieces *p, const value_text *between, int64_t most, bool right) {
    const value_text *t = p->of->text;
    size_t begin = 0, end = t->length;
    TRY(run_steps(p->r, words_cost(t->length, between->length, right)));
    for (; most != 0; most--) {
        int64_t found = words_find(t, between, begin, end, right);
        if (found < 0) break;
        size_t at = (size_t)found;
        TRY(right ? add_piece(p, at + between->length, end) : add_piece(p, begin, at));
        if (right)
            end = at;
        else
            begin = at + between->length;
    }
    return add_piece(p, begin, end);
}

static size_t skip_blanks(const value_text *t, size_t at, bool right) {
    for (;;) {
        if (right ? at == 0 : at >= t->length) return at;
        size_t first = right ? letter_before(t, at) : at;
        uint32_t n = lex_blank(t->bytes + first, (right ? at : t->length) - first);
        if (!n || (right && first + n != at)) return at;
        at = right ? first : at + n;
    }
}

static size_t skip_letters(const value_text *t, size_t at, bool right) {
    unsigned long p;
    for (;;) {
        if (right ? at == 0 : at >= t->length) return at;
        size_t first = right ? letter_before(t, at) : at;
        if (lex_blank(t->bytes + first, (right ? at : t->length) - first)) return at;
        at = right ? first : at + value_point(t->bytes + at, &p);
    }
}

static status split_blanks(pieces *p, int64_t most, bool right) {
    const value_text *t = p->of->text;
    size_t at = skip_blanks(t, right ? t->length : 0, right);
    for (; right ? at > 0 : at < t->length; most--) {
        size_t end = most == 0 ? right ? 0 : t->length : skip_letters(t, at, right);
        if (most == 0 && right) {
            TRY(add_piece(p, 0, at)); /* with the blanks at its beginning */
        } else if (most == 0) {
            TRY(add_piece(p, at, t->length));
        } else
            TRY(right ? add_piece(p, end, at) : add_piece(p, at, end));
        if (most == 0) break;
        at = skip_blanks(t, end, right);
    }
    return STATUS_OK;
}

status words_split(run *r, const value *of, const value *separator, int64_t most, bool right, value *out) {
    pieces p = { .r = r, .of = of };
    if (!run_given(separator) || separator->kind == VALUE_NONE) {
        TRY(split_blanks(&p, most, right));
        return pieces_list(&p, right, out);
    }
    TRY(run_text("what is split at", separator));
    if (!separator->text->length) return status_set(STATUS_INVALID, "nothing can be split at an empty text");
    TRY(split_at(&p, separator->text, most, right));
    return pieces_list(&p, right, out);
}

/* What ends a line for str.splitlines: the length at `s`, or 0. */
static uint32_t line_end(const char *s, size_t n) {
    unsigned char a = (unsigned char)s[0], b = n > 1 ? (unsigned char)s[1] : 0,
                  c = n > 2 ? (unsigned char)s[2] : 0;
    if (a == '\r') return b == '\n' ? 2 : 1;
    if ((a >= 10 && a <= 12) || (a >= 28 && a <= 30)) return 1;
    if (a == 0xc2 && b == 0x85) return 2;
    return a == 0xe2 && b == 0x80 && (c == 0xa8 || c == 0xa9) ? 3 : 0;
}

status words_lines(run *r, const value *of, bool keep_ends, value *out) {
    pieces p = { .r = r, .of = of };
    const value_text *t = of->text;
    size_t begin = 0;
    for (size_t at = 0; at < t->length;) {
        uint32_t n = line_end(t->bytes + at, t->length - at);
        if (n) {
            TRY(add_piece(&p, begin, at + (keep_ends ? n : 0)));
            begin = at + n;
        }
        at += n ? n : 1;
    }
    if (begin < t->length) TRY(add_piece(&p, begin, t->length));
    return pieces_list(&p, false, out);
}

/* ---- put together ---- */

status words_replace(run *r, const value *of, const value *from, const value *to, int64_t most, value *out) {
    const value_text *t = of->text;
    builder b = { 0 };
    size_t at = 0;
    unsigned long p;
    TRY(run_steps(r, t->length / 64));
    while (most != 0) {
        int64_t found = words_find(t, from->text, at, t->length, false);
        if (found < 0) break;
        TRY(run_steps(r, 1));
        TRY(builder_add_part(r, &b, of, at, (size_t)found));
        TRY(builder_add_text(r, &b, to));
        at = (size_t)found + from->text->length;
        most--;
        if (from->text->length) continue;
        if (at >= t->length) break; /* between letters, and at both ends */
        uint32_t n = value_point(t->bytes + at, &p);
        TRY(builder_add_part(r, &b, of, at, at + n));
        at += n;
    }
    TRY(builder_add_part(r, &b, of, at, t->length));
    return builder_value(r, &b, out);
}

status words_join(run *r, const value *between, const value *items, bool any, value *out) {
    builder b = { 0 };
    stream *s;
    value item;
    bool first = true, more;
    TRY(stream_open(r, items, &s));
    for (;; first = false) {
        TRY(stream_next(r, s, &item, &more));
        if (!more) break;
        if (!any && item.kind != VALUE_TEXT)
            return status_set(STATUS_INVALID, "only texts can be joined, not a %s", value_type(&item));
        if (!first) TRY(builder_add_text(r, &b, between));
        TRY(value_add_shown(r, &b, &item));
    }
    return builder_value(r, &b, out);
}

static status add_fill(run *r, builder *b, int64_t times, const char *fill) {
    for (int64_t i = 0; i < times; i++) {
        TRY(run_steps(r, 1));
        TRY(builder_add_word(r, b, fill, 0));
    }
    return STATUS_OK;
}

status words_field(run *r, const value *of, int64_t width, int where, const char *fill, value *out) {
    int64_t room = width - of->text->points;
    if (room <= 0) {
        *out = *of;
        return STATUS_OK;
    }
    int64_t left = where > 0 ? room : where < 0 ? 0 : room / 2 + (room & width & 1);
    builder b = { 0 };
    TRY(add_fill(r, &b, left, fill));
    TRY(builder_add_text(r, &b, of));
    TRY(add_fill(r, &b, room - left, fill));
    return builder_value(r, &b, out);
}
