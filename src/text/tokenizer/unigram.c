/* Unigram: the tokens whose scores add up to most.
 *
 * A word that goes on behind a window is settled (tokenizer.h). The best way to each place depends on what is
 * before it alone, and whatever follows, the way to the end has a token that ends at one of the last places,
 * so far back as the longest token reaches: up to where the ways to all of these are one, it is known. The
 * next window begins at a token of it with the sum of the scores so far: ways that pass by that place cannot
 * win there, since rounding keeps the order of sums, and what is left of them is added in the same order.
 *
 * Unknown characters side by side are one token. Where the row of them is longer than any token it is unknown
 * whatever follows, so it may be parted if the next window knows that it goes on. */
#include <string.h>

#include "text/tokenizer/models.h"
#include "text/tokenizer/spans.h"
#include "text/tokenizer/unicode.h"

static status add_token(tokenizer_work *w, uint32_t id, span text) {
    TRY(work_id(w, id));
    return w->spans.on ? spans_set(w, w->id_count - 1, text) : STATUS_OK;
}

/* ---- ways through a word ---- */

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
        TRY(add_token(w, id, text));
    }
    if (p->bytes && w->id_count > before) return STATUS_OK;
    if (p->unknown_id == TOKENIZER_NONE)
        return status_set(STATUS_INVALID,
                          "the text has what no token of the vocabulary holds, and the model has no "
                          "'unk_id'");
    return add_token(w, p->unknown_id, text);
}

/* A row of unknown characters. Where it goes on with one of the last window, its token is there. */
static status unknown_row(const part *p, tokenizer_work *w, span row, bool goes_on) {
    if (goes_on) return p->bytes ? unknown_bytes(p, w, row) : STATUS_OK;
    uint32_t id = vocabulary_find(&w->t->words, row.data, row.bytes);
    return id != TOKENIZER_NONE ? add_token(w, id, row) : unknown_bytes(p, w, row);
}

/* The ids of the best way to `end`, turned around: from[] is rewritten to where the next piece ends. */
static status follow(const part *p, tokenizer_work *w, span text, path *paths, bool goes_on) {
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
        if (unknown) {
            TRY(unknown_row(p, w, piece, goes_on && at == 0));
            continue;
        }
        uint32_t id = vocabulary_find(&t->words, piece.data, piece.bytes);
        TRY(id != TOKENIZER_NONE ? add_token(w, id, piece) : unknown_bytes(p, w, piece));
    }
    return STATUS_OK;
}

/* The best way to each place, in w->model; `*found` is false where a character has no token and there is no
 * unknown one. */
static status walk(const part *p, tokenizer_work *w, span text, double score, bool *found) {
    const tokenizer *t = w->t;
    TRY(work_room(w, &w->model, ((size_t)text.bytes + 1) * sizeof(path)));
    path *paths = (path *)(void *)w->model.data;
    for (uint32_t i = 1; i <= text.bytes; i++) paths[i].from = UINT32_MAX;
    paths[0] = (path){ score, 0, 0 };
    *found = true;
    for (uint32_t at = 0; at < text.bytes;) {
        size_t character = unicode_bytes((unsigned char)text.data[at]);
        if (!walk_tokens(t, text, at, character, paths)) {
            if (p->unknown_id == TOKENIZER_NONE) return *found = false, STATUS_OK;
            offer(&paths[at + character], t->least_score - 10 + paths[at].score, p->unknown_id, at);
        }
        at += (uint32_t)character;
    }
    return STATUS_OK;
}

/* What is known of the word's beginning in earlier windows. */
typedef struct {
    double score;
    bool unknown;
} beginning;

static beginning begin(tokenizer_work *w) {
    beginning b = { 0 };
    if (w->window.within) b = (beginning){ w->window.score, w->window.unknown };
    w->window.within = false;
    return b;
}

static status no_token(tokenizer_work *w, span text) {
    return unknown_bytes(&(part){ .unknown_id = TOKENIZER_NONE }, w, text);
}

static status unigram(const part *p, tokenizer_work *w, span text) {
    beginning b = begin(w);
    bool found;
    TRY(walk(p, w, text, b.score, &found));
    if (!found) return no_token(w, text);
    return follow(p, w, text, (path *)(void *)w->model.data, b.unknown);
}

/* ---- a word that goes on ---- */

/* Where the best ways to all places that a further token may begin at have come from. */
static uint32_t meet(const tokenizer *t, span text, const path *paths) {
    uint32_t met = text.bytes, lowest = met > t->words.longest ? met - t->words.longest : 0;
    for (uint32_t at = met; at-- > lowest;) {
        if (at > 0 && paths[at].from == UINT32_MAX) continue; /* within a character */
        for (uint32_t other = at; met != other;) {
            if (met > other)
                met = paths[met].from;
            else
                other = paths[other].from;
        }
    }
    return met;
}

static bool says_all_bytes(const tokenizer *t) {
    for (int b = 0; b < 256; b++)
        if (t->byte_ids[b] == TOKENIZER_NONE) return false;
    return true;
}

/* May the row of unknown characters that ends at `at` be parted there? */
static bool row_parts(const part *p, const tokenizer *t, const path *paths, uint32_t at, bool goes_on) {
    uint32_t begin = at;
    if (p->bytes && !says_all_bytes(t)) return false;
    while (begin > 0 && at - begin <= t->words.longest && paths[begin].id == p->unknown_id)
        begin = paths[begin].from;
    return at - begin > t->words.longest || (begin == 0 && goes_on);
}

/* The last place of the window's list at which a token of the way to `met` ends. */
static const work_place *choose(const part *p, tokenizer_work *w, span text, uint32_t met, bool goes_on) {
    const path *paths = (const path *)(const void *)w->model.data;
    uint32_t next = 0;
    for (uint32_t i = 0; i < w->place_count; i++) {
        const work_place *place = &w->places[i];
        if (place->normal >= text.bytes) break;
        uint32_t at = text.bytes - place->normal;
        while (met > at) next = met, met = paths[met].from;
        if (met < at) continue;
        bool ends = paths[at].id != p->unknown_id || (next && paths[next].id != p->unknown_id);
        if (!ends && !row_parts(p, w->t, paths, at, goes_on)) continue;
        w->window.unknown = !ends;
        return place;
    }
    return NULL;
}

static status settle(const part *p, tokenizer_work *w, span text) {
    beginning b = begin(w);
    bool found;
    TRY(walk(p, w, text, b.score, &found));
    if (!found) return no_token(w, text);
    path *paths = (path *)(void *)w->model.data;
    const work_place *place = choose(p, w, text, meet(w->t, text, paths), b.unknown);
    w->window.stuck = !place;
    if (!place) return STATUS_OK;
    span known = { text.data, text.bytes - place->normal };
    w->window.score = paths[known.bytes].score, w->window.back = place->text;
    return follow(p, w, known, paths, b.unknown);
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
        if (t->words.slots[i]) t->sorted[n++] = vocabulary_slot_id(t->words.slots[i]);
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
const part_kind unigram_kind = { .name = "Unigram",
                                 .fields = unigram_fields,
                                 .known_by = "unk_id",
                                 .init = { .unknown_id = TOKENIZER_NONE },
                                 .check = check_unigram,
                                 .encode = unigram,
                                 .settle = settle };
