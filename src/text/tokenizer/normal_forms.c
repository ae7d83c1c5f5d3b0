#include "text/tokenizer/normal_forms.h"

#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer/spans.h"
#include "text/tokenizer/unicode.h"

enum {
    FEW = 16,
    MOST = 32,         /* characters that one becomes */
    NO_LETTER = 0x11a7 /* stands before the Korean letters that end a syllable, and joins nothing */
};

/* Of a point: it is not the first that came of its character. */
enum { FURTHER = 1 << 24, POINT = FURTHER - 1 };

/* Characters that may still change places or join, in w->model. */
typedef struct {
    tokenizer_work *w;
    buffer *out;
    int form;
    size_t count;
    const char *begin; /* of the characters that they come of */
} pending;

static int32_t *points(const pending *p) { return (int32_t *)(void *)p->w->model.data; }

static unsigned class_of(int32_t point) {
    return (unsigned)utf8proc_get_property(point & POINT)->combining_class;
}

/* Marks of a row in the order of their classes, equal ones as they were: by insertion, or where there are
 * many by counting, so that no text takes long. `other` has room for as many. */
static void order_row(int32_t *row, size_t n, int32_t *other) {
    uint32_t begins[257] = { 0 };
    if (n <= FEW) {
        for (size_t i = 1; i < n; i++)
            for (size_t j = i; j > 0 && class_of(row[j - 1]) > class_of(row[j]); j--) {
                int32_t point = row[j];
                row[j] = row[j - 1], row[j - 1] = point;
            }
        return;
    }
    for (size_t i = 0; i < n; i++) begins[(class_of(row[i]) & 255u) + 1]++;
    for (int i = 0; i < 256; i++) begins[i + 1] += begins[i];
    for (size_t i = 0; i < n; i++) other[begins[class_of(row[i]) & 255u]++] = row[i];
    memcpy(row, other, n * sizeof *row);
}

static void order(int32_t *at, size_t n, int32_t *other) {
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && class_of(at[end]) > 0; end++) {}
        if (end > i + 1) order_row(at + i, end - i, other);
        if (end == i) end++;
    }
}

/* ---- with origins: as the library counts them, so that marks that changed places have each other's ---- */

/* One character instead of two; 0: they don't join. */
static int32_t joined(int32_t a, int32_t b) {
    int32_t pair[2] = { a, b };
    return utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == 1 ? pair[0] : 0;
}

/* Joins points and adds up how many characters each of them takes: `takes` is 1 of the first point that comes
 * of a character, 0 of a further one. Returns how many are left. */
static size_t join(int32_t *at, int32_t *takes, size_t n) {
    size_t left = 0, starter = SIZE_MAX;
    unsigned last = 0; /* the class of the mark behind the starter; 0: none is left between */
    for (size_t i = 0; i < n; i++) {
        unsigned class = class_of(at[i]);
        bool reaches = starter != SIZE_MAX && (last == 0 ? starter + 1 == left : last < class);
        int32_t both = reaches ? joined(at[starter], at[i]) : 0;
        if (both) {
            at[starter] = both, takes[starter] += takes[i];
            continue;
        }
        last = class;
        if (class == 0) starter = left;
        at[left] = at[i], takes[left++] = takes[i];
    }
    return left;
}

/* A point that takes no character is of the one before it; one that takes some, of the first of them. */
static status write_origins(pending *p, const int32_t *at, const int32_t *takes, size_t n) {
    const char *from = p->begin;
    for (size_t i = 0; i < n; i++) {
        size_t before = p->out->used;
        TRY(work_add_point(p->w, p->out, (uint32_t)at[i]));
        TRY(spans_made(p->w, p->out, before,
                       spans_origin(p->w, takes[i] || from == p->begin ? from : from - 1)));
        for (int32_t k = 0; k < takes[i]; k++) from += unicode_bytes((unsigned char)*from);
    }
    return STATUS_OK;
}

static status flush_origins(pending *p, int32_t *at, int32_t *takes, size_t n) {
    for (size_t i = 0; i < n; i++) takes[i] = (at[i] & FURTHER) == 0, at[i] &= POINT;
    if (p->form & NORMAL_COMPOSE) n = join(at, takes, n);
    return write_origins(p, at, takes, n);
}

static status add_same(pending *p, const char *data, size_t bytes) {
    TRY(work_add(p->w, p->out, data, bytes));
    return p->w->spans.on ? spans_copied(p->w, p->out, data, bytes) : STATUS_OK;
}

/* ---- characters as they come ---- */

static status flush(pending *p) {
    if (p->count == 0) return STATUS_OK;
    size_t n = p->count;
    p->count = 0;
    TRY(work_room(p->w, &p->w->model, 2 * n * sizeof(int32_t)));
    int32_t *at = points(p);
    order(at, n, at + n);
    if (p->w->spans.on) return flush_origins(p, at, at + n, n);
    if (n > 1 && p->form & NORMAL_COMPOSE) {
        utf8proc_ssize_t left =
            utf8proc_normalize_utf32(at, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (left < 0) return status_set(STATUS_INVALID, "utf8proc fails: %s", utf8proc_errmsg(left));
        n = (size_t)left;
    }
    for (size_t i = 0; i < n; i++) TRY(work_add_point(p->w, p->out, (uint32_t)at[i]));
    return STATUS_OK;
}

static status add_point(pending *p, uint32_t point, const char *from) {
    int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (p->form & NORMAL_COMPAT ? UTF8PROC_COMPAT : 0);
    TRY(work_room(p->w, &p->w->model, (p->count + MOST) * sizeof(int32_t)));
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)point, points(p) + p->count, MOST,
                                                 (utf8proc_option_t)options, NULL);
    if (n < 0 || n > MOST) return status_set(STATUS_INVALID, "utf8proc can't take U+%04X apart", point);
    if (p->count == 0) p->begin = from;
    for (utf8proc_ssize_t i = 1; p->w->spans.on && i < n; i++) points(p)[p->count + (size_t)i] |= FURTHER;
    p->count += (size_t)n;
    return STATUS_OK;
}

/* A Korean syllable that nothing behind it joins: taken apart and put together it is what it was. The letters
 * that may join begin with the byte 0xe1. */
static bool is_whole_syllable(span text, uint32_t at, uint32_t point) {
    if (point < 0xac00 || point > 0xd7a3) return false;
    return at + 3 == text.bytes || (unsigned char)text.data[at + 3] != 0xe1;
}

/* Where the row of characters ends that are beyond ASCII and stay as they are. */
static uint32_t same_until(span text, uint32_t at, bool composes, unicode_stretch *near) {
    size_t length;
    while (at < text.bytes && (unsigned char)text.data[at] >= 0x80) {
        uint32_t point = unicode_read(text.data + at, &length);
        bool same = (composes && is_whole_syllable(text, at, point)) ||
                    unicode_near(near, point)->flags & UNICODE_NORMAL;
        if (!same) break;
        at += (uint32_t)length;
    }
    return at;
}

/* Nothing joins with what is before an ASCII character, and none of them is taken apart; only what follows it
 * may join with it. So a row of them goes out as it is, but for the last one before what may. */
status normal_forms_add(tokenizer_work *w, int form, span text, buffer *out) {
    pending p = { .w = w, .out = out, .form = form };
    unicode_stretch near = { 0 };
    for (uint32_t at = 0, end = 0, ascii; at < text.bytes; at = end) {
        ascii = at;
        while (ascii < text.bytes && (unsigned char)text.data[ascii] < 0x80) ascii++;
        end = same_until(text, ascii, form & NORMAL_COMPOSE, &near);
        if (end > ascii || end == text.bytes) {
            TRY(flush(&p));
            TRY(add_same(&p, text.data + at, end - at));
        } else if (ascii > at) {
            TRY(flush(&p));
            TRY(add_same(&p, text.data + at, ascii - at - 1));
            TRY(add_point(&p, (unsigned char)text.data[ascii - 1], text.data + ascii - 1));
        } else {
            size_t length;
            uint32_t point = unicode_read(text.data + at, &length);
            if (point == NO_LETTER) TRY(flush(&p)); /* utf8proc would drop it behind a syllable */
            TRY(add_point(&p, point, text.data + at));
            end = at + (uint32_t)length;
        }
    }
    return flush(&p);
}
