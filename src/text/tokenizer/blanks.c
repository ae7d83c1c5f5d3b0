/* Where a plain letter, one blank and another such letter follow each other, no normalizer that is allowed
 * here looks across: normal forms join nothing with a blank or with these letters, what people see as one
 * character ends there, others look at one character; and the first pre-tokenizer ends a piece before the
 * blank, whatever stands around. That the normalizers leave a blank a blank and make one letter of a letter
 * is tried out.
 *
 * Where they put blanks around each ideograph, the same holds between two of these. */
#include "text/tokenizer/blanks.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/added.h"
#include "text/tokenizer/pre_tokenizers.h"
#include "text/tokenizer/unicode.h"

static bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool is_ideograph(uint32_t c) { return c >= 0x4e00 && c <= 0x9fff; }

/* Letters that join neither what stands before them nor what follows. */
static bool is_plain_letter(uint32_t c) {
    static const struct {
        uint32_t first, last;
    } blocks[] = { { 'A', 'Z' },      { 'a', 'z' },       { 0xc0, 0xd6 },     { 0xd8, 0xf6 },
                   { 0xf8, 0x24f },   { 0x391, 0x3a1 },   { 0x3a3, 0x3c9 },   { 0x400, 0x481 },
                   { 0x48a, 0x52f },  { 0x5d0, 0x5ea },   { 0x621, 0x63a },   { 0x641, 0x64a },
                   { 0x904, 0x939 },  { 0x3041, 0x3096 }, { 0x30a1, 0x30fa }, { 0x4e00, 0x9fff },
                   { 0xac00, 0xd7a3 } };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks && c >= blocks[i].first; i++)
        if (c <= blocks[i].last) return true;
    return false;
}

/* The character at `at` begins such a place; the one before it is `before`. */
static bool is_place(span text, size_t at, uint32_t before, bool ideographs) {
    size_t length;
    uint32_t c = unicode_read(text.data + at, &length);
    if (ideographs && is_ideograph(c) && is_ideograph(before)) return true;
    if (c != ' ' || at + 1 >= text.bytes || !is_plain_letter(before)) return false;
    return is_plain_letter(unicode_read(text.data + at + 1, &length));
}

static size_t find(span text, bool ideographs) {
    size_t length;
    for (size_t at = text.bytes ? unicode_before(text.data, text.bytes) : 0, before; at > 0; at = before) {
        before = unicode_before(text.data, at);
        if (is_place(text, at, unicode_read(text.data + before, &length), ideographs)) return at;
    }
    return 0;
}

size_t blanks_find(const tokenizer *t, span text) { return find(text, t->takes_ideographs); }

/* Would a cut go through the token, where it stands in a text? It may end with the blank that is cut before.
 */
static bool is_cut(span token, bool ideographs) {
    if (find(token, ideographs)) return true;
    uint32_t n = token.bytes;
    if (n < 2 || token.data[n - 1] != ' ') return false;
    size_t length;
    return is_plain_letter(unicode_read(token.data + unicode_before(token.data, n - 1), &length));
}

/* Of one that is looked for in normalized text a cut may part what is around any blank but its first byte,
 * and two blanks side by side, which may be those of two ideographs. */
static bool is_cut_normalized(span token, bool ideographs) {
    for (uint32_t i = 1; i < token.bytes; i++)
        if (token.data[i] == ' ' && (!ideographs || token.data[i - 1] == ' ')) return true;
    return false;
}

static bool added_allow(const tokenizer *t, bool ideographs) {
    for (uint32_t i = 0; i < t->added_count; i++) {
        const added_token *a = &t->added[i];
        bool normalized = a->normalized && t->normalizers.count;
        if (a->single_word || a->lstrip || a->rstrip) return false;
        if (is_cut(a->content, ideographs) || is_cut(a->seen, ideographs)) return false;
        if (normalized && (is_cut_normalized(a->content, false) || is_cut_normalized(a->seen, ideographs)))
            return false;
    }
    return true;
}

static bool normalizers_allow(const tokenizer *t) {
    for (uint32_t i = 0; i < t->normalizers.count; i++)
        if (!t->normalizers.items[i].kind->before_blank) return false;
    return true;
}

/* "a b" for all letters: is one letter left of each? */
static status try_letters(tokenizer_work *w, bool *same) {
    for (char c = 'A'; c <= 'z' && *same; c++) {
        char text[3] = { c, ' ', c };
        span normal = { text, sizeof text };
        if (!is_ascii_letter(c)) continue;
        TRY(work_normalize(w, &normal));
        *same = normal.bytes == 3 && normal.data[1] == ' ' && is_ascii_letter(normal.data[0]) &&
                is_ascii_letter(normal.data[2]);
    }
    return STATUS_OK;
}

/* Is each ideograph itself, with a blank on both sides? */
static status try_ideographs(tokenizer_work *w, bool *same) {
    for (uint32_t c = 0x4e00; c <= 0x9fff && *same; c++) {
        char text[4];
        size_t bytes = utf8_encode(c, text);
        span normal = { text, (uint32_t)bytes };
        TRY(work_normalize(w, &normal));
        *same = normal.bytes == bytes + 2 && normal.data[0] == ' ' && normal.data[bytes + 1] == ' ' &&
                memcmp(normal.data + 1, text, bytes) == 0;
    }
    return STATUS_OK;
}

status blanks_prepare(tokenizer *t) {
    tokenizer_work *w;
    t->takes_blanks = t->takes_ideographs = false;
    if (!pre_tokenizers_end_before_blank(t) || t->truncates) return STATUS_OK;
    if (!normalizers_allow(t) || !added_allow(t, false)) return STATUS_OK;
    bool blanks = true, ideographs = added_allow(t, true);
    TRY(tokenizer_work_open(t, &w));
    status result = try_letters(w, &blanks);
    if (result == STATUS_OK && blanks && ideographs) result = try_ideographs(w, &ideographs);
    tokenizer_work_close(w);
    t->takes_blanks = blanks, t->takes_ideographs = blanks && ideographs;
    return result;
}
