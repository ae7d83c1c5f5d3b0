/* Byte pair encoding: a word is its characters (or bytes), of which the two neighbours merge that come first
 * in the list of merges, and of equals the leftmost, until no two do.
 *
 * Short words are searched through for the best pair each time; long ones have their pairs in a heap, so that
 * none takes longer than n log n. An entry of the heap whose neighbours have merged otherwise is passed over.
 * Words of up to WORD_BYTES are remembered in a table of fixed size.
 *
 * Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units", ACL 2016. */
#include <string.h>

#include "text/tokenizer/cuts.h"
#include "text/tokenizer/hash_words.h"
#include "text/tokenizer/merges.h"
#include "text/tokenizer/models.h"
#include "text/tokenizer/settle.h"
#include "text/tokenizer/spans.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/whole_letters.h"
#include "text/tokenizer/word_cache.h"

enum { SHORT = 64 }; /* symbols */

typedef struct {
    uint32_t id;
    uint32_t before, next; /* places; NONE: the edge */
} symbol;

enum { NONE = UINT32_MAX };

/* Bytes of the word that a symbol stands for. */
typedef struct {
    uint32_t begin, end;
} range;

/* ---- symbols of a word ---- */

typedef struct {
    symbol *at;
    range *of; /* of each symbol; NULL: nobody asks */
    uint32_t count;
    bool unknown;     /* some are, and the last of them waits to be joined by more */
    range now, waits; /* of the letter that is added, and of what waits */
} symbols;

static void add(symbols *s, uint32_t id, range of) {
    s->at[s->count].id = id;
    if (s->of) s->of[s->count] = of;
    s->count++;
}

/* An unknown character. What is unknown side by side is one symbol where the model says so; bytes that stand
 * for a character do not end such a row. */
static status add_unknown(const part *p, const tokenizer *t, symbols *s) {
    uint32_t id;
    if (!p->unknown.data) return STATUS_OK; /* dropped, as the library does */
    id = vocabulary_find(&t->words, p->unknown.data, p->unknown.bytes);
    if (id == TOKENIZER_NONE)
        return status_set(STATUS_INVALID,
                          "the text has what no token of the vocabulary holds, and its unknown token "
                          "('unk_token') is missing from it");
    if (s->unknown && !p->joins_unknown) add(s, id, s->waits);
    if (!s->unknown || !p->joins_unknown) s->waits.begin = s->now.begin;
    s->waits.end = s->now.end;
    s->unknown = true;
    return STATUS_OK;
}

static void end_unknown(const part *p, const tokenizer *t, symbols *s) {
    if (!s->unknown) return;
    add(s, vocabulary_find(&t->words, p->unknown.data, p->unknown.bytes), s->waits);
    s->unknown = false;
}

/* The bytes of a character (with its prefix and suffix) as <0x41>; false: not all of them are tokens. */
static bool add_bytes(const tokenizer *t, symbols *s, span text) {
    for (uint32_t i = 0; i < text.bytes; i++)
        if (t->byte_ids[(unsigned char)text.data[i]] == TOKENIZER_NONE) return false;
    for (uint32_t i = 0; i < text.bytes; i++) add(s, t->byte_ids[(unsigned char)text.data[i]], s->now);
    return true;
}

/* A character as the vocabulary has it: inside of a word with a prefix, at its end with a suffix. */
static span dressed(const part *p, char *room, span letter, bool inside, bool last) {
    uint32_t n = 0;
    inside = inside && p->prefix.bytes, last = last && p->suffix.bytes;
    if (!inside && !last) return letter;
    if (inside) memcpy(room, p->prefix.data, p->prefix.bytes), n = p->prefix.bytes;
    memcpy(room + n, letter.data, letter.bytes), n += letter.bytes;
    if (last) memcpy(room + n, p->suffix.data, p->suffix.bytes), n += p->suffix.bytes;
    return (span){ room, n };
}

static status add_letter(const part *p, const tokenizer *t, symbols *s, span letter) {
    uint32_t id = vocabulary_find(&t->words, letter.data, letter.bytes);
    if (id != TOKENIZER_NONE) {
        end_unknown(p, t, s);
        return add(s, id, s->now), STATUS_OK;
    }
    return p->bytes && add_bytes(t, s, letter) ? STATUS_OK : add_unknown(p, t, s);
}

/* Bytes as ByteLevel writes them, each one letter, or what those of a character merge to in any case. */
static status add_raw(const part *p, const tokenizer *t, symbols *s, span text) {
    for (uint32_t i = 0, n; i < text.bytes; i += n) {
        uint32_t id = whole_letters_at(t, text, i, &n);
        s->now = (range){ i, i + n };
        if (id == TOKENIZER_NONE)
            TRY(add_unknown(p, t, s));
        else
            end_unknown(p, t, s), add(s, id, s->now);
    }
    end_unknown(p, t, s);
    return STATUS_OK;
}

static status add_letters(const part *p, const tokenizer *t, symbols *s, span text, char *room) {
    if (t->direct_bytes) return add_raw(p, t, s, text);
    for (uint32_t at = 0, n; at < text.bytes; at += n) {
        n = (uint32_t)unicode_bytes((unsigned char)text.data[at]);
        span letter = { text.data + at, n };
        s->now = (range){ at, at + n };
        TRY(add_letter(p, t, s, dressed(p, room, letter, at > 0, at + n == text.bytes)));
    }
    end_unknown(p, t, s);
    return STATUS_OK;
}

/* ---- short words ---- */

typedef struct {
    uint32_t rank, id;
} offer;

static offer look(const tokenizer *t, uint32_t left, uint32_t right) {
    const merge *m = merges_find(t, left, right);
    return m ? (offer){ m->rank, m->id } : (offer){ NONE, NONE };
}

/* `count` symbols in s[]; what is left of them in its front. */
static uint32_t merge_short(const tokenizer *t, symbol *s, uint32_t count) {
    uint32_t id[SHORT];
    offer offers[SHORT];
    for (uint32_t i = 0; i < count; i++) id[i] = s[i].id;
    for (uint32_t i = 0; i + 1 < count; i++) offers[i] = look(t, id[i], id[i + 1]);
    for (;;) {
        uint32_t best = NONE, at = 0;
        for (uint32_t i = 0; i + 1 < count; i++)
            if (offers[i].rank < best) best = offers[i].rank, at = i;
        if (best == NONE) break;
        id[at] = offers[at].id;
        count--;
        for (uint32_t i = at + 1; i < count; i++) id[i] = id[i + 1];
        for (uint32_t i = at + 1; i + 1 < count; i++) offers[i] = offers[i + 1];
        if (at + 1 < count) offers[at] = look(t, id[at], id[at + 1]);
        if (at > 0) offers[at - 1] = look(t, id[at - 1], id[at]);
    }
    for (uint32_t i = 0; i < count; i++) s[i].id = id[i];
    return count;
}

/* ---- long ones ---- */

typedef struct {
    uint32_t rank, place, id;
} entry;

typedef struct {
    entry *at;
    size_t count;
} heap;

static bool sooner(entry a, entry b) { return a.rank < b.rank || (a.rank == b.rank && a.place < b.place); }

static void push(heap *h, entry e) {
    size_t i = h->count++;
    for (; i > 0 && sooner(e, h->at[(i - 1) / 2]); i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = e;
}

static entry pop(heap *h) {
    entry first = h->at[0], last = h->at[--h->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && sooner(h->at[child + 1], h->at[child])) child++;
        if (!sooner(h->at[child], last)) break;
        h->at[i] = h->at[child];
    }
    h->at[i] = last;
    return first;
}

static void push_pair(const tokenizer *t, heap *h, const symbol *s, uint32_t place) {
    if (place == NONE || s[place].next == NONE) return;
    const merge *m = merges_find(t, s[place].id, s[s[place].next].id);
    if (m) push(h, (entry){ m->rank, place, m->id });
}

/* The range of a symbol that others merged into, up to the next one. */
static range range_of(const range *of, uint32_t first, uint32_t next) {
    range all = of[first];
    for (uint32_t i = first + 1; i < next; i++) {
        if (of[i].begin < all.begin) all.begin = of[i].begin;
        if (of[i].end > all.end) all.end = of[i].end;
    }
    return all;
}

/* Every merge takes one entry away and adds two at most, of which there are as many as symbols but one: a
 * heap of twice as many is enough. A symbol that is gone has the id NONE. */
static status merge_long(tokenizer_work *w, symbol *s, range *of, uint32_t *count) {
    const tokenizer *t = w->t;
    TRY(work_room(w, &w->heap, 2 * (size_t)*count * sizeof(entry)));
    heap h = { (entry *)(void *)w->heap.data, 0 };
    for (uint32_t i = 0; i < *count; i++)
        s[i].before = i ? i - 1 : NONE, s[i].next = i + 1 < *count ? i + 1 : NONE;
    for (uint32_t i = 0; i + 1 < *count; i++) push_pair(t, &h, s, i);
    while (h.count) {
        entry e = pop(&h);
        uint32_t right = s[e.place].next;
        if (s[e.place].id == NONE || right == NONE) continue;
        const merge *m = merges_find(t, s[e.place].id, s[right].id);
        if (!m || m->id != e.id) continue;
        s[e.place].id = e.id, s[right].id = NONE;
        s[e.place].next = s[right].next;
        if (s[right].next != NONE) s[s[right].next].before = e.place;
        push_pair(t, &h, s, s[e.place].before);
        push_pair(t, &h, s, e.place);
    }
    uint32_t left = 0;
    for (uint32_t i = 0, next; i != NONE && *count; i = next) {
        next = s[i].next;
        if (of) of[left] = range_of(of, i, next == NONE ? *count : next);
        s[left++].id = s[i].id;
    }
    *count = left;
    return STATUS_OK;
}

/* ---- a word ---- */

/* The word as the vocabulary would have it, where it is one token. */
static uint32_t whole_word(tokenizer_work *w, span text) {
    const tokenizer *t = w->t;
    char letters[2 * WORD_BYTES];
    size_t n = 0;
    if (text.bytes > t->words.longest) return TOKENIZER_NONE;
    if (!t->direct_bytes) return vocabulary_find(&t->words, text.data, text.bytes);
    if (text.bytes > WORD_BYTES) {
        if (work_room(w, &w->model, 2 * (size_t)text.bytes) != STATUS_OK) return TOKENIZER_NONE;
        for (uint32_t i = 0; i < text.bytes; i++)
            n += byte_letters_write((unsigned char)text.data[i], w->model.data + n);
        return vocabulary_find(&t->words, w->model.data, n);
    }
    for (uint32_t i = 0; i < text.bytes; i++)
        n += byte_letters_write((unsigned char)text.data[i], letters + n);
    return vocabulary_find(&t->words, letters, n);
}

/* `follows`: spans are set as well, for which each symbol's range goes with it through all merges. */
static status encode_word(const part *p, tokenizer_work *w, span text, bool follows) {
    const tokenizer *t = w->t;
    size_t first = w->id_count;
    bool inside = w->window.within && text.data == w->window.data;
    uint32_t whole = p->whole_words && !inside ? whole_word(w, text) : TOKENIZER_NONE;
    if (whole != TOKENIZER_NONE) {
        TRY(work_id(w, whole));
        return follows ? spans_set(w, first, text) : STATUS_OK;
    }
    size_t dress = (size_t)p->prefix.bytes + p->suffix.bytes;
    size_t most = (size_t)text.bytes + (p->bytes ? dress * text.bytes : 0) + 1;
    size_t room = most * (sizeof(symbol) + (follows ? sizeof(range) : 0));
    TRY(work_room(w, &w->model, room + dress + 8));
    symbols s = { .at = (symbol *)(void *)w->model.data };
    if (follows) s.of = (range *)(void *)(s.at + most);
    TRY(add_letters(p, t, &s, text, w->model.data + room));
    if (s.count > SHORT || follows)
        TRY(merge_long(w, s.at, s.of, &s.count));
    else
        s.count = merge_short(t, s.at, s.count);
    for (uint32_t i = 0; i < s.count; i++) TRY(work_id(w, s.at[i].id));
    for (uint32_t i = 0; follows && i < s.count; i++)
        TRY(spans_set(w, first + i, (span){ text.data + s.of[i].begin, s.of[i].end - s.of[i].begin }));
    return STATUS_OK;
}

/* A word, or a part of one that nothing joins with the next part. */
static status encode_part(const part *p, tokenizer_work *w, span text) {
    word_cache_entry *known = word_cache_find(w->cache, text);
    if (!known || (w->window.within && text.data == w->window.data)) return encode_word(p, w, text, false);
    if (word_cache_is(known, text)) {
        for (uint32_t i = 0; i < known->count; i++) TRY(work_id(w, known->ids[i]));
        return STATUS_OK;
    }
    size_t before = w->id_count;
    TRY(encode_word(p, w, text, false));
    word_cache_put(known, text, w->ids + before, w->id_count - before);
    return STATUS_OK;
}

status bpe_encode_inside(tokenizer_work *w, span text) {
    const char *data = w->window.data;
    bool within = w->window.within;
    w->window.within = true, w->window.data = text.data;
    status result = encode_word(&w->t->model, w, text, false);
    w->window.within = within, w->window.data = data;
    return result;
}

/* ---- with spans ---- */

uint32_t bpe_says(const tokenizer *t, uint32_t id, span text) {
    const char *token = t->words.text + t->words.start[id];
    uint32_t bytes = t->words.length[id], n = 0;
    if (!t->direct_bytes) return bytes <= text.bytes && memcmp(token, text.data, bytes) == 0 ? bytes : 0;
    for (uint32_t at = 0; at < bytes; n++) {
        char letter[2];
        if (n == text.bytes) return 0;
        size_t length = byte_letters_write((unsigned char)text.data[n], letter);
        if (bytes - at < length || memcmp(token + at, letter, length) != 0) return 0;
        at += (uint32_t)length;
    }
    return n;
}

/* Most words are what their tokens say, one after the other: the spans of the ids from `first` on. False:
 * some token says something else, as unknown ones do, or might although letters were dropped. */
static status spans_by_tokens(const part *p, tokenizer_work *w, span text, size_t first, bool *all) {
    *all = !p->prefix.bytes && !p->suffix.bytes && !(p->bytes && !p->unknown.data);
    uint32_t at = 0;
    for (size_t i = first; *all && i < w->id_count; i++) {
        uint32_t n = bpe_says(w->t, w->ids[i], (span){ text.data + at, text.bytes - at });
        if (n == 0) return *all = false, STATUS_OK;
        TRY(spans_set(w, i, (span){ text.data + at, n }));
        at += n;
    }
    return STATUS_OK;
}

/* The spans of a word whose ids are those from `first` on. */
static status add_spans(const part *p, tokenizer_work *w, span text, size_t first) {
    bool all;
    TRY(spans_by_tokens(p, w, text, first, &all));
    if (all) return STATUS_OK;
    w->id_count = first;
    return encode_word(p, w, text, true);
}

/* Long words are cut where no merge can cross, so that most of their parts are remembered and none is large.
 */
static status encode(const part *p, tokenizer_work *w, span text) {
    uint32_t n = text.bytes;
    for (uint32_t at = 0; at < text.bytes; at += n) {
        span rest = { text.data + at, text.bytes - at };
        n = w->t->cuts_words && rest.bytes > WORD_BYTES ? cuts_word(w->t, rest) : rest.bytes;
        size_t first = w->id_count;
        TRY(encode_part(p, w, (span){ rest.data, n }));
        if (w->spans.on) TRY(add_spans(p, w, (span){ rest.data, n }, first));
    }
    return STATUS_OK;
}

/* ---- opening ---- */

static void find_bytes(tokenizer *t) {
    for (int b = 0; b < 256; b++) {
        char letter[2];
        t->byte_ids[b] = vocabulary_find(&t->words, letter, byte_letters_write((unsigned char)b, letter));
    }
}

static status check(opener *o, part *p) {
    if (o->vocabulary_scores)
        return open_wrong(o, "the vocabulary of a BPE is an object of tokens with their ids");
    TRY(merges_read(o));
    o->t->neighbours = open_take(o, CUTS_BITS / 8);
    o->t->beginnings = open_take(o, SETTLE_BITS / 8);
    if (!p->bytes) o->t->letters = open_take(o, sizeof *o->t->letters);
    if (!o->counting && p->bytes) models_byte_ids(o->t);
    return STATUS_OK;
}

/* What is behind the model in the file says whether words come as bytes. */
void bpe_bytes_come(tokenizer *t) {
    const part *p = &t->model;
    if (p->kind != &bpe_kind || p->prefix.bytes || p->suffix.bytes || p->bytes) return;
    t->direct_bytes = true;
    find_bytes(t);
    whole_letters_prepare(t);
}

static status read_dropout(opener *o, part *p) {
    bool null;
    double value;
    (void)p;
    TRY(json_reader_null(&o->json, &null));
    if (null) return STATUS_OK;
    TRY(json_reader_number(&o->json, &value));
    return value == 0
               ? STATUS_OK
               : open_wrong(o, "'dropout' is %g: the same text would be other tokens each time", value);
}

static const part_field fields[] = { { .name = "dropout", .type = FIELD_SPECIAL, .read = read_dropout },
                                     { PART_FIELD("unk_token", FIELD_TEXT, unknown) },
                                     { PART_FIELD("continuing_subword_prefix", FIELD_TEXT, prefix) },
                                     { PART_FIELD("end_of_word_suffix", FIELD_TEXT, suffix) },
                                     { PART_FIELD("fuse_unk", FIELD_MAYBE, joins_unknown) },
                                     { PART_FIELD("byte_fallback", FIELD_MAYBE, bytes) },
                                     { PART_FIELD("ignore_merges", FIELD_MAYBE, whole_words) },
                                     { 0 } };

const part_kind bpe_kind = {
    .name = "BPE", .fields = fields, .known_by = "merges", .check = check, .encode = encode
};
