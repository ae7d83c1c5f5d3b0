/* Models that are not BPE: WordLevel, WordPiece and Unigram. */
#include <stdlib.h>
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

/* ---- WordLevel: a word is a token ---- */

static status word_level(const part *p, tokenizer_work *w, span text) {
    uint32_t id = vocabulary_find(&w->t->words, text.data, text.bytes);
    if (id == TOKENIZER_NONE) TRY(unknown_id(w->t, p, &id));
    return add_token(w, id, text.data, text.bytes);
}

static const part_field word_level_fields[] = {
    { PART_FIELD("unk_token", FIELD_TEXT, unknown), .required = true }, { 0 }
};
static const part_kind kind_word_level = {
    .name = "WordLevel", .fields = word_level_fields, .known_by = "vocab", .encode = word_level
};

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

static const part_field word_piece_fields[] = {
    { PART_FIELD("unk_token", FIELD_TEXT, unknown), .required = true },
    { PART_FIELD("continuing_subword_prefix", FIELD_TEXT, prefix), .required = true },
    { PART_FIELD("max_input_chars_per_word", FIELD_WHOLE, length), .required = true },
    { 0 }
};
static const part_kind kind_word_piece = {
    .name = "WordPiece", .fields = word_piece_fields, .known_by = "vocab", .encode = word_piece
};

/* ---- Unigram: the tokens whose scores add up to most ---- */

/* Tokens are ordered by their bytes; walking down them narrows a range, byte after byte. */
static const char *token_at(const tokenizer *t, uint32_t place) {
    return t->words.text + t->words.start[t->sorted[place]];
}
static uint32_t length_at(const tokenizer *t, uint32_t place) { return t->words.length[t->sorted[place]]; }

/* The first place of low .. high whose token has at `depth` a byte of at least `byte`. Those that end there
 * come first. */
static uint32_t narrow(const tokenizer *t, uint32_t low, uint32_t high, uint32_t depth, unsigned byte) {
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (length_at(t, middle) <= depth || (unsigned char)token_at(t, middle)[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef struct {
    double score;
    uint32_t id, from; /* from UINT32_MAX: nothing ends here yet */
} path;

static void offer(path *to, double score, uint32_t id, uint32_t from) {
    if (to->from == UINT32_MAX || score > to->score) *to = (path){ score, id, from };
}

/* All tokens that the text has at `at`; true where one of them is a single character. */
static bool walk_tokens(const tokenizer *t, span text, uint32_t at, size_t character, path *paths) {
    const unsigned char *s = (const unsigned char *)text.data + at;
    uint32_t left = text.bytes - at, depth = 0, low = 0, high = t->words.count;
    bool single = false;
    if (left >= 2 && t->pairs) { /* the first two bytes at once, and before them the token of one byte */
        uint32_t one = t->pairs[s[0] << 8];
        while (one < high && length_at(t, one) == 0) one++;
        if (one < high && length_at(t, one) == 1 && (unsigned char)token_at(t, one)[0] == s[0]) {
            offer(&paths[at + 1], paths[at].score + t->scores[t->sorted[one]], t->sorted[one], at);
            single = character == 1;
        }
        low = t->pairs[s[0] << 8 | s[1]], high = t->pairs[(s[0] << 8 | s[1]) + 1];
        depth = 2;
        while (low < high && length_at(t, low) < 2) low++; /* of the next pair's first byte alone */
        if (low < high && length_at(t, low) == 2) {
            offer(&paths[at + 2], paths[at].score + t->scores[t->sorted[low]], t->sorted[low], at);
            single |= character == 2;
        }
    }
    for (; depth < left && low < high; depth++) {
        low = narrow(t, low, high, depth, s[depth]);
        high = narrow(t, low, high, depth, s[depth] + 1u);
        if (low == high || length_at(t, low) != depth + 1) continue;
        uint32_t id = t->sorted[low];
        offer(&paths[at + depth + 1], paths[at].score + t->scores[id], id, at);
        single |= depth + 1 == character;
    }
    return single;
}

/* Each of the bytes stands for all of the text, as the library has it. */
static status unknown_bytes(const part *p, tokenizer_work *w, span text) {
    size_t before = w->id_count;
    for (uint32_t i = 0; p->bytes && i < text.bytes; i++) {
        uint32_t id = w->t->byte_ids[(unsigned char)text.data[i]];
        if (id == TOKENIZER_NONE) {
            w->id_count = before;
            break;
        }
        TRY(add_token(w, id, text.data, text.bytes));
    }
    if (p->bytes && w->id_count > before) return STATUS_OK;
    if (p->unknown_id == TOKENIZER_NONE)
        return status_set(STATUS_INVALID,
                          "the text has what no token of the vocabulary holds, and the model has no "
                          "'unk_id'");
    return add_token(w, p->unknown_id, text.data, text.bytes);
}

/* The best path from its end, turned around: from[] is rewritten to where the next piece ends. */
static status follow(const part *p, tokenizer_work *w, span text, path *paths) {
    const tokenizer *t = w->t;
    uint32_t end = text.bytes, next = UINT32_MAX;
    while (end > 0) { /* turn the links around: from now on `from` of a place is the end of the piece there */
        uint32_t from = paths[end].from;
        paths[end].from = next;
        next = end, end = from;
    }
    for (uint32_t at = 0, to = next; to != UINT32_MAX; at = to, to = next) {
        bool unknown = paths[to].id == p->unknown_id;
        next = paths[to].from;
        for (; unknown && next != UINT32_MAX && paths[next].id == p->unknown_id; next = paths[next].from)
            to = next;
        span piece = { text.data + at, to - at };
        uint32_t id = vocabulary_find(&t->words, piece.data, piece.bytes);
        TRY(id != TOKENIZER_NONE ? add_token(w, id, piece.data, piece.bytes) : unknown_bytes(p, w, piece));
    }
    return STATUS_OK;
}

static status unigram(const part *p, tokenizer_work *w, span text) {
    const tokenizer *t = w->t;
    TRY(work_room(w, &w->model, ((size_t)text.bytes + 1) * sizeof(path)));
    path *paths = (path *)(void *)w->model.data;
    for (uint32_t i = 1; i <= text.bytes; i++) paths[i].from = UINT32_MAX;
    paths[0] = (path){ 0, 0, 0 };
    for (uint32_t at = 0; at < text.bytes;) {
        size_t character = unicode_bytes((unsigned char)text.data[at]);
        if (!walk_tokens(t, text, at, character, paths)) {
            if (p->unknown_id == TOKENIZER_NONE)
                return unknown_bytes(&(part){ .unknown_id = TOKENIZER_NONE }, w, text);
            offer(&paths[at + character], t->least_score - 10 + paths[at].score, p->unknown_id, at);
        }
        at += (uint32_t)character;
    }
    return follow(p, w, text, paths);
}

/* ---- its tables ---- */

/* Order by bytes, from `depth` on where all agree before it: quicksort by one byte, in three parts. The two
 * outer parts are the same task, smaller by at least one; the middle one goes on with the next byte. */
typedef struct {
    const vocabulary *v;
    uint32_t *order;
} sorting;

static int byte_at(const sorting *s, uint32_t place, uint32_t depth) {
    uint32_t id = s->order[place];
    return depth < s->v->length[id] ? (unsigned char)s->v->text[s->v->start[id] + depth] : -1;
}

static void exchange(const sorting *s, uint32_t a, uint32_t b) {
    uint32_t id = s->order[a];
    s->order[a] = s->order[b], s->order[b] = id;
}

/* Some bytes in common may be very many, so those are a loop; each call sorts at most half of its caller's,
 * and the largest part is the loop's too. */
static void sort_tokens(const sorting *s, uint32_t low, uint32_t high, uint32_t depth) {
    while (high - low > 1) {
        int pivot = byte_at(s, low + (high - low) / 2, depth);
        uint32_t less = low, at = low, more = high;
        while (at < more) {
            int c = byte_at(s, at, depth);
            if (c < pivot)
                exchange(s, less++, at++);
            else if (c > pivot)
                exchange(s, at, --more);
            else
                at++;
        }
        struct {
            uint32_t low, high, depth;
        } parts[3] = { { low, less, depth },
                       { more, high, depth },
                       { less, more, pivot < 0 ? 0 : depth + 1 } };
        if (pivot < 0) parts[2].high = less; /* equal to their end */
        uint32_t largest = 0;
        for (uint32_t i = 1; i < 3; i++)
            if (parts[i].high - parts[i].low > parts[largest].high - parts[largest].low) largest = i;
        for (uint32_t i = 0; i < 3; i++)
            if (i != largest) sort_tokens(s, parts[i].low, parts[i].high, parts[i].depth);
        low = parts[largest].low, high = parts[largest].high, depth = parts[largest].depth;
    }
}

static void find_pairs(tokenizer *t) {
    uint32_t at = 0, count = t->words.count;
    for (uint32_t pair = 0; pair <= 0x10000; pair++) {
        while (at < count) {
            const unsigned char *c = (const unsigned char *)token_at(t, at);
            uint32_t n = length_at(t, at);
            uint32_t own = n == 0 ? 0 : n == 1 ? (uint32_t)c[0] << 8 : (uint32_t)c[0] << 8 | c[1];
            if (own >= pair) break;
            at++;
        }
        t->pairs[pair] = at;
    }
}

void models_byte_ids(tokenizer *t) {
    static const char digits[] = "0123456789ABCDEF";
    for (int b = 0; b < 256; b++) {
        char name[] = { '<', '0', 'x', digits[b >> 4], digits[b & 15], '>' };
        t->byte_ids[b] = vocabulary_find(&t->words, name, sizeof name);
    }
}

static status check_unigram(opener *o, part *p) {
    tokenizer *t = o->t;
    if (!t->scores && !(o->counting && o->vocabulary_scores))
        return open_wrong(o, "the vocabulary of a Unigram is a list of tokens with scores");
    if (p->unknown_id != TOKENIZER_NONE && p->unknown_id >= o->vocabulary_ids)
        return open_wrong(o, "'unk_id' is larger than the vocabulary");
    t->sorted = open_take(o, o->vocabulary_count * sizeof *t->sorted);
    t->pairs = open_take(o, (0x10000 + 1) * sizeof *t->pairs);
    if (o->counting) return STATUS_OK;
    uint32_t n = 0;
    t->least_score = t->words.ids ? t->scores[0] : 0;
    for (uint32_t id = 0; id < t->words.ids; id++)
        if (t->scores[id] < t->least_score) t->least_score = t->scores[id];
    for (uint32_t i = 0; i <= t->words.mask;
         i++) /* of tokens that are there twice only the one that is found */
        if (t->words.slots[i]) t->sorted[n++] = t->words.slots[i] - 1;
    sort_tokens(&(sorting){ &t->words, t->sorted }, 0, n, 0);
    find_pairs(t);
    models_byte_ids(t);
    return STATUS_OK;
}

static status read_unknown_id(opener *o, part *p) {
    bool null;
    uint64_t id;
    TRY(json_reader_null(&o->json, &null));
    if (null) return STATUS_OK;
    TRY(json_reader_whole(&o->json, &id));
    if (id >= TOKENIZER_NONE) return open_wrong(o, "'unk_id' is larger than the vocabulary");
    p->unknown_id = (uint32_t)id;
    return STATUS_OK;
}

static const part_field unigram_fields[] = {
    { .name = "unk_id", .type = FIELD_SPECIAL, .read = read_unknown_id },
    { PART_FIELD("byte_fallback", FIELD_BOOL, bytes) },
    { 0 }
};
static const part_kind kind_unigram = { .name = "Unigram",
                                        .fields = unigram_fields,
                                        .known_by = "unk_id",
                                        .init = { .unknown_id = TOKENIZER_NONE },
                                        .check = check_unigram,
                                        .encode = unigram };

const part_kind *const model_kinds[] = { &bpe_kind, &kind_word_piece, &kind_word_level, &kind_unigram, NULL };
