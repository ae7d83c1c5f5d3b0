#define _GNU_SOURCE /* memmem */
/* The decoders: each makes another list of strings out of a list of strings, and what the last one leaves is
 * put together. */
#include "text/tokenizer/decoders.h"

#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

/* ---- lists ---- */

void decoders_begin(tokenizer_work *w, int which) {
    w->strings[which].count = 0;
    w->strings[which].text.used = 0;
}

status decoders_add(tokenizer_work *w, int which, const char *text, size_t bytes) {
    return work_add(w, &w->strings[which].text, text, bytes);
}

status decoders_end(tokenizer_work *w, int which) {
    string_list *l = &w->strings[which];
    if (l->text.used >= UINT32_MAX) return status_set(STATUS_INVALID, "a decoded text is longer than 4 GiB");
    if (l->count == l->room) {
        uint32_t room = l->room + l->room / 2 + 64;
        uint32_t *ends = work_grow(w, l->ends, l->room, room, sizeof *ends);
        if (!ends) return status_set(STATUS_NO_FIT, "no memory for %u strings", room);
        l->ends = ends, l->room = room;
    }
    l->ends[l->count++] = (uint32_t)l->text.used;
    return STATUS_OK;
}

static status add_whole(tokenizer_work *w, int which, const char *text, size_t bytes) {
    TRY(decoders_add(w, which, text, bytes));
    return decoders_end(w, which);
}

span decoders_at(const tokenizer_work *w, int which, uint32_t i) {
    const string_list *l = &w->strings[which];
    uint32_t start = i ? l->ends[i - 1] : 0;
    return (span){ l->text.data ? l->text.data + start : "", l->ends[i] - start };
}

/* A decoder reads list 0 and writes list 1; then they change places. */
static void turn(tokenizer_work *w) {
    string_list l = w->strings[0];
    w->strings[0] = w->strings[1], w->strings[1] = l;
}

status decoders_apply(tokenizer_work *w) {
    const part_list *list = &w->t->decoders;
    for (uint32_t i = 0; i < list->count; i++) {
        decoders_begin(w, 1);
        TRY(list->items[i].kind->decode(&list->items[i], w));
        turn(w);
    }
    return STATUS_OK;
}

/* ---- bytes ---- */

/* How many bytes of what is no character are replaced by one sign, as Rust has it: the longest beginning of a
 * character that could have gone on, or one byte. */
static size_t broken_bytes(const unsigned char *b, size_t n) {
    size_t whole = b[0] >= 0xc2 && b[0] < 0xe0   ? 2
                   : b[0] >= 0xe0 && b[0] < 0xf0 ? 3
                   : b[0] >= 0xf0 && b[0] < 0xf5 ? 4
                                                 : 1;
    size_t i = 1;
    for (; i < whole && i < n; i++) {
        unsigned low = i > 1 ? 0x80 : b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
        unsigned high = i > 1 ? 0xbf : b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
        if (b[i] < low || b[i] > high) break;
    }
    return i;
}

static status add_lossy(tokenizer_work *w, const char *text, size_t bytes) {
    for (size_t at = 0, n; at < bytes; at += n) {
        n = utf8_length(text + at, bytes - at);
        if (n > 0) {
            TRY(decoders_add(w, 1, text + at, n));
            continue;
        }
        n = broken_bytes((const unsigned char *)text + at, bytes - at);
        TRY(decoders_add(w, 1, "\xef\xbf\xbd", 3));
    }
    return STATUS_OK;
}

/* A token whose letters all stand for bytes is those bytes; another one is its text. */
static status add_bytes(tokenizer_work *w, buffer *b, span token) {
    size_t before = b->used, n;
    TRY(work_room(w, b, b->used + token.bytes));
    for (uint32_t at = 0; at < token.bytes; at += (uint32_t)n) {
        int byte = byte_letters_read(unicode_read(token.data + at, &n));
        if (byte < 0) {
            b->used = before;
            return work_add(w, b, token.data, token.bytes);
        }
        b->data[b->used++] = (char)byte;
    }
    return STATUS_OK;
}

static status byte_level(const part *p, tokenizer_work *w) {
    (void)p;
    w->model.used = 0;
    for (uint32_t i = 0; i < w->strings[0].count; i++) TRY(add_bytes(w, &w->model, decoders_at(w, 0, i)));
    TRY(add_lossy(w, w->model.data, w->model.used));
    return decoders_end(w, 1);
}

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The byte of a token like <0x41>, -1: it is none. Rust's numbers may begin with a +. */
static int byte_of(span s) {
    if (s.bytes != 6 || memcmp(s.data, "<0x", 3) != 0 || s.data[5] != '>') return -1;
    int high = s.data[3] == '+' ? 0 : hex(s.data[3]), low = hex(s.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Bytes in a row are text if they are UTF-8, and else as many signs as they are. */
static status end_bytes(tokenizer_work *w) {
    size_t place;
    buffer *b = &w->model;
    if (b->used == 0) return STATUS_OK;
    if (unicode_valid(b->data, b->used, &place))
        TRY(add_whole(w, 1, b->data, b->used));
    else
        for (size_t i = 0; i < b->used; i++) TRY(add_whole(w, 1, "\xef\xbf\xbd", 3));
    b->used = 0;
    return STATUS_OK;
}

static status byte_fallback(const part *p, tokenizer_work *w) {
    (void)p;
    w->model.used = 0;
    for (uint32_t i = 0; i < w->strings[0].count; i++) {
        span s = decoders_at(w, 0, i);
        int byte = byte_of(s);
        char c = (char)byte;
        if (byte >= 0) {
            TRY(work_add(w, &w->model, &c, 1));
            continue;
        }
        TRY(end_bytes(w));
        TRY(add_whole(w, 1, s.data, s.bytes));
    }
    return end_bytes(w);
}

/* ---- strings ---- */

static status join_all(const part *p, tokenizer_work *w) {
    (void)p;
    string_list *l = &w->strings[0];
    return add_whole(w, 1, l->text.data, l->text.used);
}

static status replace(const part *p, tokenizer_work *w) {
    for (uint32_t i = 0; i < w->strings[0].count; i++) {
        span s = decoders_at(w, 0, i);
        pattern_walk walk = pattern_begin(p->find, w->match, s.data, s.bytes);
        size_t done = 0, start, end;
        bool found = s.bytes > 0;
        while (found) {
            TRY(pattern_next(&walk, &found, &start, &end));
            if (!found) break;
            TRY(decoders_add(w, 1, s.data + done, start - done));
            TRY(decoders_add(w, 1, p->content.data, p->content.bytes));
            done = end;
        }
        TRY(add_whole(w, 1, s.data + done, s.bytes - done));
    }
    return STATUS_OK;
}

/* Up to `start` of the character at the beginning, and up to `stop` at the end, which may be the same ones.
 */
static status strip(const part *p, tokenizer_work *w) {
    char letter[4];
    uint32_t n = (uint32_t)utf8_encode(p->letter, letter);
    for (uint32_t i = 0; i < w->strings[0].count; i++) {
        span s = decoders_at(w, 0, i);
        uint32_t start = 0, end = s.bytes;
        for (uint64_t k = 0; k < p->start && s.bytes - start >= n && memcmp(s.data + start, letter, n) == 0;
             k++)
            start += n;
        for (uint64_t k = 0; k < p->stop && end >= n && memcmp(s.data + end - n, letter, n) == 0; k++)
            end -= n;
        if (end < start) end = start;
        TRY(add_whole(w, 1, s.data + start, end - start));
    }
    return STATUS_OK;
}

static status metaspace(const part *p, tokenizer_work *w) {
    size_t n;
    for (uint32_t i = 0; i < w->strings[0].count; i++) {
        span s = decoders_at(w, 0, i);
        bool dropped = i == 0 && p->scheme != PREPEND_NEVER;
        for (uint32_t at = 0; at < s.bytes; at += (uint32_t)n) {
            bool blank = unicode_read(s.data + at, &n) == p->letter;
            if (!blank) TRY(decoders_add(w, 1, s.data + at, n));
            if (blank && !dropped) TRY(decoders_add(w, 1, " ", 1));
        }
        TRY(decoders_end(w, 1));
    }
    return STATUS_OK;
}

/* The string with all of `find` replaced, from left to right. */
static status add_replaced(tokenizer_work *w, buffer *to, span s, span find, const char *with) {
    uint32_t at = 0;
    to->used = 0;
    if (find.bytes == 0) return work_add(w, to, s.data, s.bytes);
    while (at < s.bytes) {
        const char *hit =
            s.bytes - at >= find.bytes ? memmem(s.data + at, s.bytes - at, find.data, find.bytes) : NULL;
        uint32_t end = hit ? (uint32_t)(hit - s.data) : s.bytes;
        TRY(work_add(w, to, s.data + at, end - at));
        if (hit) TRY(work_add(w, to, with, strlen(with)));
        at = hit ? end + find.bytes : s.bytes;
    }
    return STATUS_OK;
}

static status bpe_decoder(const part *p, tokenizer_work *w) {
    for (uint32_t i = 0; i < w->strings[0].count; i++) {
        bool last = i + 1 == w->strings[0].count;
        TRY(add_replaced(w, &w->model, decoders_at(w, 0, i), p->suffix, last ? "" : " "));
        TRY(add_whole(w, 1, w->model.data, w->model.used));
    }
    return STATUS_OK;
}

/* Blanks that are not written in English; the list and its order are the library's. */
static status clean_up(tokenizer_work *w, span *s) {
    static const char *const pairs[][2] = { { " .", "." },     { " ?", "?" },           { " !", "!" },
                                            { " ,", "," },     { " ' ", "'" },          { " n't", "n't" },
                                            { " 'm", "'m" },   { " do not", " don't" }, { " 's", "'s" },
                                            { " 've", "'ve" }, { " 're", "'re" } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        buffer *to = &w->normal[i % 2];
        span find = { pairs[i][0], (uint32_t)strlen(pairs[i][0]) };
        TRY(add_replaced(w, to, *s, find, pairs[i][1]));
        *s = (span){ to->data ? to->data : "", (uint32_t)to->used };
    }
    return STATUS_OK;
}

static status word_piece(const part *p, tokenizer_work *w) {
    for (uint32_t i = 0; i < w->strings[0].count; i++) {
        span s = decoders_at(w, 0, i);
        bool inside =
            i > 0 && s.bytes >= p->prefix.bytes && memcmp(s.data, p->prefix.data, p->prefix.bytes) == 0;
        w->model.used = 0;
        if (i > 0 && !inside) TRY(work_add(w, &w->model, " ", 1));
        uint32_t cut = inside ? p->prefix.bytes : 0;
        TRY(work_add(w, &w->model, s.data + cut, s.bytes - cut));
        s = (span){ w->model.data ? w->model.data : "", (uint32_t)w->model.used };
        if (p->cleanup) TRY(clean_up(w, &s));
        TRY(add_whole(w, 1, s.data, s.bytes));
    }
    return STATUS_OK;
}

/* ---- what is read for them ---- */

static const char *const schemes[] = { "first", "never", "always", NULL };

static status check_metaspace(opener *o, part *p) {
    if (p->old_prefix_space == false && p->scheme != PREPEND_NEVER)
        return open_wrong(o, "'add_prefix_space' and 'prepend_scheme' contradict each other");
    return STATUS_OK;
}

static status refuse_ctc(opener *o, part *p) {
    (void)p;
    return open_wrong(o, "the decoder 'CTC', which is for speech, is not known");
}

static const part_field bpe_fields[] = { { PART_FIELD("suffix", FIELD_TEXT, suffix), .required = true },
                                         { 0 } };
static const part_field word_piece_fields[] = {
    { PART_FIELD("prefix", FIELD_TEXT, prefix), .required = true },
    { PART_FIELD("cleanup", FIELD_BOOL, cleanup), .required = true },
    { 0 }
};
static const part_field metaspace_fields[] = {
    { PART_FIELD("replacement", FIELD_LETTER, letter), .required = true },
    { PART_FIELD("add_prefix_space", FIELD_MAYBE, old_prefix_space) },
    { PART_FIELD("prepend_scheme", FIELD_CHOICE, scheme), .choices = schemes },
    { 0 }
};
static const part_field replace_fields[] = { { PART_FIELD("pattern", FIELD_PATTERN, find), .required = true },
                                             { PART_FIELD("content", FIELD_TEXT, content), .required = true },
                                             { 0 } };
static const part_field strip_fields[] = { { PART_FIELD("content", FIELD_LETTER, letter), .required = true },
                                           { PART_FIELD("start", FIELD_WHOLE, start), .required = true },
                                           { PART_FIELD("stop", FIELD_WHOLE, stop), .required = true },
                                           { 0 } };

static const part_kind kinds[] = {
    { .name = "ByteLevel", .decode = byte_level },
    { .name = "ByteFallback", .decode = byte_fallback },
    { .name = "Fuse", .decode = join_all },
    { .name = "Replace", .fields = replace_fields, .decode = replace },
    { .name = "Strip", .fields = strip_fields, .decode = strip },
    { .name = "Metaspace",
      .fields = metaspace_fields,
      .init = { .scheme = PREPEND_ALWAYS, .old_prefix_space = UNSAID },
      .check = check_metaspace,
      .decode = metaspace },
    { .name = "WordPiece", .fields = word_piece_fields, .decode = word_piece },
    { .name = "BPEDecoder", .fields = bpe_fields, .decode = bpe_decoder },
    { .name = "CTC", .check = refuse_ctc },
};
const part_kind *const token_decoder_kinds[] = { &kinds[0], &kinds[1], &kinds[2], &kinds[3], &kinds[4],
                                                 &kinds[5], &kinds[6], &kinds[7], &kinds[8], NULL };

status decoders_bytes(tokenizer_work *w, span token, span *bytes) {
    const part_list *list = &w->t->decoders;
    *bytes = (span){ NULL, 0 };
    w->model.used = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        char byte = (char)byte_of(token);
        if (list->items[i].kind->decode == byte_level)
            TRY(add_bytes(w, &w->model, token));
        else if (list->items[i].kind->decode == byte_fallback && byte_of(token) >= 0)
            TRY(work_add(w, &w->model, &byte, 1));
        else
            continue;
        *bytes = (span){ w->model.data, (uint32_t)w->model.used };
        return STATUS_OK;
    }
    return STATUS_OK;
}

bool decoders_end_words(const tokenizer_work *w) {
    const part_list *list = &w->t->decoders;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].kind->decode == bpe_decoder) return true;
    return false;
}
