/* A merge joins what stands side by side in a token. So where a document has two known characters side by
 * side that no token has so, no merge crosses, and the ids on both sides are what they are alone. Which pairs
 * tokens have is remembered in bits by their hash: a pair that shares its bit with another one is only taken
 * for one of a token.
 *
 * Normalizers must change characters one by one, and what splits must be single characters too, which no cut
 * touches. */
#include "text/tokenizer/cuts.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/hash_words.h"
#include "text/tokenizer/models.h"
#include "text/tokenizer/unicode.h"

static uint32_t bit_of(uint32_t a, uint32_t b) { return (uint32_t)hash_pair(a, b) & (CUTS_BITS - 1); }

static void remember(tokenizer *t, span token) {
    size_t length;
    uint32_t before = 0;
    for (uint32_t at = 0; at < token.bytes; at += (uint32_t)length) {
        uint32_t point = unicode_read(token.data + at, &length);
        uint32_t bit = bit_of(before, point);
        if (at) t->neighbours[bit / 64] |= (uint64_t)1 << bit % 64;
        before = point;
    }
}

static bool is_one_letter(span s) {
    return s.bytes > 0 && unicode_bytes((unsigned char)s.data[0]) == s.bytes;
}

static bool parts_allow(const tokenizer *t) {
    for (uint32_t i = 0; i < t->normalizers.count; i++) {
        const part *p = &t->normalizers.items[i];
        if (!p->kind->at_beginning && !(p->kind->replaces && p->letter && is_one_letter(p->content)))
            return false;
    }
    for (uint32_t i = 0; i < t->pre_tokenizers.count; i++)
        if (!t->pre_tokenizers.items[i].letter || !t->pre_tokenizers.items[i].find) return false;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].single_word || t->added[i].lstrip || t->added[i].rstrip) return false;
    return true;
}

bool cuts_prepare(tokenizer *t) {
    const part *m = &t->model;
    if (m->kind != &bpe_kind || t->direct_bytes || m->prefix.bytes || m->suffix.bytes) return false;
    if (m->whole_words) return false; /* a part may be a token that the word is not */
    memset(t->neighbours, 0, CUTS_BITS / 8);
    for (uint32_t id = 0; id < t->words.ids; id++)
        if (t->words.length[id] != UINT32_MAX)
            remember(t, (span){ t->words.text + t->words.start[id], t->words.length[id] });
    for (uint32_t i = 0; i < t->added_count; i++) {
        remember(t, t->added[i].content);
        remember(t, t->added[i].seen);
    }
    t->cuts_words = true;
    return parts_allow(t) && !t->truncates;
}

/* What the normalizers make of a character. */
static uint32_t normal_letter(const tokenizer *t, uint32_t point) {
    size_t length;
    for (uint32_t i = 0; i < t->normalizers.count; i++) {
        const part *p = &t->normalizers.items[i];
        if (p->kind->replaces && p->letter == point) point = unicode_read(p->content.data, &length);
    }
    return point;
}

/* Is it a token by itself? What is unknown may be joined with its like. */
static bool is_token(const tokenizer *t, uint32_t point) {
    char bytes[4];
    return vocabulary_find(&t->words, bytes, utf8_encode(point, bytes)) != TOKENIZER_NONE;
}

/* And nothing that pre-tokenizers look for? */
static bool is_known(const tokenizer *t, uint32_t point) {
    for (uint32_t i = 0; i < t->pre_tokenizers.count; i++)
        if (t->pre_tokenizers.items[i].letter == point) return false;
    return is_token(t, point);
}

static bool may_join(const tokenizer *t, uint32_t a, uint32_t b) {
    uint32_t bit = bit_of(a, b);
    return (t->neighbours[bit / 64] >> bit % 64 & 1) != 0;
}

uint32_t cuts_word(const tokenizer *t, span text) {
    size_t length;
    uint32_t before = unicode_read(text.data, &length);
    for (uint32_t at = (uint32_t)length; at < text.bytes; at += (uint32_t)length) {
        uint32_t point = unicode_read(text.data + at, &length);
        if (!may_join(t, before, point) && is_token(t, before) && is_token(t, point)) return at;
        before = point;
    }
    return text.bytes;
}

size_t cuts_find(const tokenizer *t, span text) {
    size_t length, at = text.bytes;
    if (at == 0) return 0;
    at = unicode_before(text.data, at);
    for (size_t before; at > 0; at = before) {
        before = unicode_before(text.data, at);
        uint32_t a = unicode_read(text.data + before, &length), b = unicode_read(text.data + at, &length);
        uint32_t left = normal_letter(t, a), right = normal_letter(t, b);
        if (may_join(t, left, right) || may_join(t, a, b)) continue;
        if (is_known(t, left) && is_known(t, right)) return at;
    }
    return 0;
}
