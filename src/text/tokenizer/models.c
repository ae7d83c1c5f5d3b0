/* WordLevel and WordPiece. */
#include <string.h>

#include "text/tokenizer/models.h"
#include "text/tokenizer/spans.h"
#include "text/tokenizer/unicode.h"

/* The id of the unknown token, or what is missing. */
static status unknown_id(const tokenizer *t, const part *p, uint32_t *id) {
    *id = vocabulary_find(&t->words, p->unknown.data, p->unknown.bytes);
    if (*id != TOKENIZER_NONE) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "the text has what no token of the vocabulary holds, and its unknown token "
                      "('unk_token') is missing from it");
}

/* A token of a part of the piece. */
static status add_token(tokenizer_work *w, uint32_t id, const char *data, size_t bytes) {
    TRY(work_id(w, id));
    return w->spans.on ? spans_set(w, w->id_count - 1, (span){ data, (uint32_t)bytes }) : STATUS_OK;
}

/* Does the word go on with one that an earlier window had, which is too long to be known? */
static bool goes_on(tokenizer_work *w) {
    bool within = w->window.within;
    w->window.within = false;
    return within;
}

/* A word that goes on behind the window: `known` if it is too long for anything but the unknown token. */
static status settle_unknown(const part *p, tokenizer_work *w, span text, bool known) {
    uint32_t id;
    if (goes_on(w)) return STATUS_OK;
    w->window.stuck = !known;
    if (!known) return STATUS_OK;
    TRY(unknown_id(w->t, p, &id));
    return add_token(w, id, text.data, text.bytes);
}

/* ---- WordLevel: a word is a token ---- */

static status word_level(const part *p, tokenizer_work *w, span text) {
    if (goes_on(w)) return STATUS_OK;
    uint32_t id = vocabulary_find(&w->t->words, text.data, text.bytes);
    if (id == TOKENIZER_NONE) TRY(unknown_id(w->t, p, &id));
    return add_token(w, id, text.data, text.bytes);
}

static status settle_word_level(const part *p, tokenizer_work *w, span text) {
    return settle_unknown(p, w, text, text.bytes > w->t->words.longest);
}

static const part_field word_level_fields[] = {
    { PART_FIELD("unk_token", FIELD_TEXT, unknown), .required = true }, { 0 }
};
static const part_kind kind_word_level = { .name = "WordLevel",
                                           .fields = word_level_fields,
                                           .known_by = "vocab",
                                           .encode = word_level,
                                           .settle = settle_word_level };

/* ---- WordPiece: the longest beginning, again and again; a word that does not come out is unknown ---- */

/* The longest token that the text begins with; 0: none. Behind the beginning of a word the prefix stands
 * before it. */
static size_t longest_token(const part *p, tokenizer_work *w, span text, bool inside, uint32_t *id) {
    const vocabulary *v = &w->t->words;
    size_t lead = inside ? p->prefix.bytes : 0, end = text.bytes;
    const char *from = text.data;
    if (inside) { /* room was made by word_piece */
        memcpy(w->model.data, p->prefix.data, lead);
        memcpy(w->model.data + lead, text.data, end < v->longest ? end : v->longest);
        from = w->model.data;
    }
    if (end + lead > v->longest) {
        if (lead > v->longest) return 0;
        end = v->longest - lead;
        while (end > 0 && end < text.bytes && (text.data[end] & 0xc0) == 0x80) end--;
    }
    for (; end > 0; end = unicode_before(text.data, end))
        if ((*id = vocabulary_find(v, from, lead + end)) != TOKENIZER_NONE) return end;
    return 0;
}

static size_t count_characters(span text) {
    size_t n = 0;
    for (uint32_t i = 0; i < text.bytes; i++) n += (text.data[i] & 0xc0) != 0x80;
    return n;
}

static status word_piece(const part *p, tokenizer_work *w, span text) {
    if (goes_on(w)) return STATUS_OK;
    size_t before = w->id_count;
    uint32_t id;
    bool known = count_characters(text) <= p->length;
    TRY(work_room(w, &w->model, p->prefix.bytes + w->t->words.longest + 16));
    for (uint32_t at = 0; known && at < text.bytes;) {
        size_t n = longest_token(p, w, (span){ text.data + at, text.bytes - at }, at > 0, &id);
        known = n > 0;
        if (known) TRY(add_token(w, id, text.data + at, n));
        at += (uint32_t)n;
    }
    if (known) return STATUS_OK;
    w->id_count = before;
    TRY(unknown_id(w->t, p, &id));
    return add_token(w, id, text.data, text.bytes);
}

static status settle_word_piece(const part *p, tokenizer_work *w, span text) {
    return settle_unknown(p, w, text, count_characters(text) > p->length);
}

static const part_field word_piece_fields[] = {
    { PART_FIELD("unk_token", FIELD_TEXT, unknown), .required = true },
    { PART_FIELD("continuing_subword_prefix", FIELD_TEXT, prefix), .required = true },
    { PART_FIELD("max_input_chars_per_word", FIELD_WHOLE, length), .required = true },
    { 0 }
};
static const part_kind kind_word_piece = { .name = "WordPiece",
                                           .fields = word_piece_fields,
                                           .known_by = "vocab",
                                           .encode = word_piece,
                                           .settle = settle_word_piece };

/* ---- all of them ---- */

void models_byte_ids(tokenizer *t) {
    static const char digits[] = "0123456789ABCDEF";
    for (int b = 0; b < 256; b++) {
        char name[] = { '<', '0', 'x', digits[b >> 4], digits[b & 15], '>' };
        t->byte_ids[b] = vocabulary_find(&t->words, name, sizeof name);
    }
}

const part_kind *const model_kinds[] = { &bpe_kind, &kind_word_piece, &kind_word_level, &unigram_kind, NULL };
