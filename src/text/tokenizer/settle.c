/* A word that goes on is encoded as far as is certain. No later text changes this: a boundary between two
 * tokens of a word stays one for what is before it, because no merge crossed it, so the merges there were
 * those of that text alone. Some token of the word lies across (or ends at) any place `edge`, so the word has
 * a boundary at it or where a token begins that goes on behind it. With each of these places the text before
 * is encoded; what all begin with is certain. Only the last ids are made anew for each: encode_behind.
 * Further parts begin at a certain boundary and are words by themselves in the same way.
 *
 * Where tokens may begin is looked up in bits of a hash: other places than those cost time alone. */
#include "text/tokenizer/settle.h"

#include <string.h>

#include "text/tokenizer/hash_words.h"
#include "text/tokenizer/models.h"
#include "text/tokenizer/runs.h"
#include "text/tokenizer/unicode.h"

enum {
    PART = 4096,  /* bytes that are encoded at once */
    CHOICES = 24, /* edges of which the one with the fewest places is taken */
    BEHIND = 2,   /* characters of the run that stay behind the last edge: see runs.c */
};

static uint64_t add_byte(uint64_t h, unsigned char byte) { return hash_mix(h, byte + 1u); }
static uint32_t bit_of(uint64_t h) { return (uint32_t)(h >> 20 ^ h) & (SETTLE_BITS - 1); }

static void remember(tokenizer *t, span token) {
    uint64_t h = 0;
    size_t length;
    for (uint32_t at = 0; at < token.bytes; at += (uint32_t)length) {
        uint32_t point = unicode_read(token.data + at, &length);
        int byte = t->direct_bytes ? byte_letters_read(point) : 0;
        if (byte < 0) return; /* of no text that comes as bytes */
        for (size_t i = 0; i < (t->direct_bytes ? 1 : length); i++) {
            h = add_byte(h, t->direct_bytes ? (unsigned char)byte : (unsigned char)token.data[at + i]);
            t->beginnings[bit_of(h) / 64] |= (uint64_t)1 << bit_of(h) % 64;
        }
    }
}

void settle_prepare(tokenizer *t) {
    const part *m = &t->model;
    if (m->kind != &bpe_kind || m->prefix.bytes || m->suffix.bytes) return;
    for (int b = 0; (t->direct_bytes || m->bytes) && b < 256; b++)
        if (t->byte_ids[b] == TOKENIZER_NONE) return; /* what is unknown waits for more of its like */
    memset(t->beginnings, 0, SETTLE_BITS / 8);
    for (uint32_t id = 0; id < t->words.ids; id++)
        if (t->words.length[id] != UINT32_MAX)
            remember(t, (span){ t->words.text + t->words.start[id], t->words.length[id] });
    t->settles = true;
}

/* ---- places ---- */

typedef struct {
    const tokenizer *t;
    span text;
    uint32_t begin; /* of the part */
} word_part;

static bool is_character(span text, uint32_t at) { return (text.data[at] & 0xc0) != 0x80; }

/* May a token begin at `at` and go on behind `edge`? */
static bool may_cross(const word_part *k, uint32_t at, uint32_t edge) {
    uint64_t h = 0;
    for (uint32_t i = at; i <= edge; i++) {
        h = add_byte(h, (unsigned char)k->text.data[i]);
        if (!(k->t->beginnings[bit_of(h) / 64] >> bit_of(h) % 64 & 1)) return false;
    }
    return true;
}

/* The place before `at` from which a token may cross the edge; the part's beginning: no more. */
static uint32_t place_before(const word_part *k, uint32_t at, uint32_t edge) {
    uint32_t first = edge - k->begin > k->t->words.longest ? edge - k->t->words.longest : k->begin;
    while (--at > first)
        if ((k->t->direct_bytes || is_character(k->text, at)) && may_cross(k, at, edge)) return at;
    return k->begin;
}

static uint32_t count_places(const word_part *k, uint32_t edge) {
    uint32_t n = 0;
    for (uint32_t at = edge; (at = place_before(k, at, edge)) > k->begin;) n++;
    return n;
}

/* An edge near `near` with few places. */
static uint32_t choose_edge(const word_part *k, uint32_t near) {
    uint32_t best = 0, fewest = UINT32_MAX, at = near;
    for (int i = 0; i < CHOICES && at > k->begin && fewest > 0; i++, at--) {
        while (!k->t->direct_bytes && at > k->begin && !is_character(k->text, at)) at--;
        uint32_t n = at > k->begin ? count_places(k, at) : UINT32_MAX;
        if (n < fewest) fewest = n, best = at;
    }
    return best;
}

/* ---- ids ---- */

static status encode(const word_part *k, tokenizer_work *w, uint32_t end) {
    return bpe_encode_inside(w, (span){ k->text.data + k->begin, end - k->begin });
}

/* The bytes at `at` that the id at `i` says. */
static uint32_t says(const word_part *k, const tokenizer_work *w, size_t i, uint32_t at) {
    return bpe_says(k->t, w->ids[i], (span){ k->text.data + at, k->text.bytes - at });
}

/* The bytes of an unknown character that the ids from `i` on stand for; 0: they don't. */
static uint32_t bytes_say(const word_part *k, const tokenizer_work *w, size_t i, uint32_t at) {
    uint32_t n = (uint32_t)unicode_bytes((unsigned char)k->text.data[at]);
    if (!k->t->model.bytes || w->id_count - i < n) return 0;
    for (uint32_t b = 0; b < n; b++)
        if (w->ids[i + b] != k->t->byte_ids[(unsigned char)k->text.data[at + b]]) return 0;
    return n;
}

/* A boundary between two ids: the first of `count` ids behind it, and its place. */
typedef struct {
    size_t id;
    uint32_t at, before; /* before: where the id before it begins */
} boundary;

/* The last one up to `limit`. */
static boundary boundary_before(const word_part *k, const tokenizer_work *w, size_t first, uint32_t limit) {
    boundary found = { first, k->begin, k->begin };
    uint32_t at = k->begin;
    for (size_t i = first; i < w->id_count;) {
        uint32_t n = says(k, w, i, at), more = n ? 0 : bytes_say(k, w, i, at);
        if (n + more == 0 || at + n + more > limit) break;
        if (n) found = (boundary){ i + 1, at + n, at };
        at += n + more, i += n ? 1 : more;
    }
    return found;
}

static size_t count_equal(const tokenizer_work *w, size_t a, size_t end, size_t b) {
    size_t n = 0;
    while (a + n < end && b + n < w->id_count && w->ids[a + n] == w->ids[b + n]) n++;
    return n;
}

/* Are the ids of the text up to `end` those before the boundary and then its own behind it, which are added?
 * So it is where the two ids at the boundary stay two if they are all there is: the first merge across a
 * boundary would be one of theirs. */
static status encode_behind(const word_part *k, tokenizer_work *w, boundary b, uint32_t end, bool *holds) {
    size_t first = w->id_count;
    TRY(bpe_encode_inside(w, (span){ k->text.data + b.at, end - b.at }));
    size_t next = w->id_count;
    uint32_t n = next > first ? says(k, w, first, b.at) : 0;
    *holds = n > 0;
    if (n == 0) return STATUS_OK;
    TRY(bpe_encode_inside(w, (span){ k->text.data + b.before, b.at + n - b.before }));
    *holds = w->id_count == next + 2 && w->ids[next] == w->ids[b.id - 1] && w->ids[next + 1] == w->ids[first];
    w->id_count = next;
    return STATUS_OK;
}

/* The ids that the text up to each place begins with stay in the work. */
static status agree(const word_part *k, tokenizer_work *w, uint32_t edge) {
    size_t first = w->id_count;
    TRY(encode(k, w, edge));
    size_t agreed = w->id_count, all = agreed;
    uint32_t lowest = edge;
    for (uint32_t at = edge; (at = place_before(k, at, edge)) > k->begin;) lowest = at;
    boundary b = boundary_before(k, w, first, 2 * lowest > edge ? 2 * lowest - edge : 0);
    for (uint32_t at = edge; (at = place_before(k, at, edge)) > k->begin && agreed > first;
         w->id_count = all) {
        bool holds = false;
        size_t from = b.id;
        if (b.id > first) TRY(encode_behind(k, w, b, at, &holds));
        if (!holds) {
            w->id_count = all, from = first;
            TRY(encode(k, w, at));
        }
        size_t same = from + count_equal(w, from, all, all);
        if (same < agreed) agreed = same;
    }
    w->id_count = agreed;
    return STATUS_OK;
}

/* Behind how much of the text the ids from `first` on end, at a character's beginning; further ids are
 * dropped. */
static uint32_t say(const word_part *k, tokenizer_work *w, size_t first) {
    uint32_t at = k->begin, good = k->begin;
    size_t count = first;
    for (size_t i = first; i < w->id_count;) {
        uint32_t n = says(k, w, i, at), ids = 1;
        if (n == 0) ids = n = bytes_say(k, w, i, at);
        if (n == 0) break; /* unknown */
        at += n, i += ids;
        if (is_character(k->text, at)) good = at, count = i;
    }
    w->id_count = count;
    return good;
}

static uint32_t longest_added(const tokenizer *t) {
    uint32_t longest = 0;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].seen.bytes > longest) longest = t->added[i].seen.bytes;
    return longest;
}

/* Up to where edges may be: the characters behind it are of the run as well, and no added token begins. */
static uint32_t last_edge(const tokenizer *t, span text) {
    uint32_t end = runs_inside(t, text), longest = longest_added(t);
    if (end + longest > text.bytes) end = text.bytes > longest ? text.bytes - longest : 0;
    while (end > 0 && end < text.bytes && !is_character(text, end)) end--;
    for (int i = 0; i < BEHIND && end > 0; i++) end = (uint32_t)unicode_before(text.data, end);
    return end;
}

status settle_word(tokenizer_work *w, span text) {
    word_part k = { w->t, text, 0 };
    uint32_t end = last_edge(w->t, text), bytes = PART + 4 * w->t->words.longest;
    while (w->t->settles && end - k.begin >= bytes) {
        size_t first = w->id_count;
        uint32_t edge = choose_edge(&k, k.begin + bytes), settled = k.begin;
        if (edge > k.begin) {
            TRY(agree(&k, w, edge));
            settled = say(&k, w, first);
        }
        if (settled == k.begin) {
            bytes *= 2; /* until the text is too short for it */
            continue;
        }
        k.begin = settled, bytes = PART + 4 * w->t->words.longest;
        work_decide(w, text.data + k.begin, true);
    }
    return STATUS_OK;
}
