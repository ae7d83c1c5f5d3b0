#include "text/tokenizer/normal_forms.h"

#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer/unicode.h"

enum { FEW = 16, MOST = 32 /* characters that one becomes */ };

/* Characters that may still change places or join, in w->model. */
typedef struct {
    tokenizer_work *w;
    buffer *out;
    int form;
    size_t count;
} pending;

static int32_t *points(const pending *p) { return (int32_t *)(void *)p->w->model.data; }

static unsigned class_of(int32_t point) { return (unsigned)utf8proc_get_property(point)->combining_class; }

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

static status flush(pending *p) {
    if (p->count == 0) return STATUS_OK;
    size_t n = p->count;
    p->count = 0;
    TRY(work_room(p->w, &p->w->model, 2 * n * sizeof(int32_t)));
    int32_t *at = points(p);
    order(at, n, at + n);
    if (p->form & NORMAL_COMPOSE) {
        utf8proc_ssize_t left =
            utf8proc_normalize_utf32(at, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (left < 0) return status_set(STATUS_INVALID, "utf8proc fails: %s", utf8proc_errmsg(left));
        n = (size_t)left;
    }
    for (size_t i = 0; i < n; i++) TRY(work_add_point(p->w, p->out, (uint32_t)at[i]));
    return STATUS_OK;
}

static status add_point(pending *p, uint32_t point) {
    int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (p->form & NORMAL_COMPAT ? UTF8PROC_COMPAT : 0);
    TRY(work_room(p->w, &p->w->model, (p->count + MOST) * sizeof(int32_t)));
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)point, points(p) + p->count, MOST,
                                                 (utf8proc_option_t)options, NULL);
    if (n < 0 || n > MOST) return status_set(STATUS_INVALID, "utf8proc can't take U+%04X apart", point);
    p->count += (size_t)n;
    return STATUS_OK;
}

/* Nothing joins with what is before an ASCII character, and none of them is taken apart; only what follows it
 * may join with it. So the last of a row of them is put where it may, and the others go out as they are. */
status normal_forms_add(tokenizer_work *w, int form, span text, buffer *out) {
    pending p = { .w = w, .out = out, .form = form };
    for (uint32_t at = 0; at < text.bytes;) {
        size_t length = 1;
        uint32_t end = at;
        while (end < text.bytes && (unsigned char)text.data[end] < 0x80) end++;
        if (end > at) {
            TRY(flush(&p));
            TRY(work_add(w, out, text.data + at, end - at - 1));
            TRY(add_point(&p, (unsigned char)text.data[end - 1]));
            at = end;
            continue;
        }
        uint32_t point = unicode_read(text.data + at, &length);
        if (unicode_is(point, UNICODE_NORMAL)) {
            TRY(flush(&p));
            TRY(work_add(w, out, text.data + at, length));
        } else {
            TRY(add_point(&p, point));
        }
        at += (uint32_t)length;
    }
    return flush(&p);
}
