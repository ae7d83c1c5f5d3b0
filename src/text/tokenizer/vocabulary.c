/* The tokens of a model and the pairs that merge: counted in the first reading, kept in tables in the second.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer/hash_words.h"
#include "text/tokenizer/tokenizer_internal.h"

enum { MOST_IDS = 1 << 24, MOST_POWER = 100000 };

/* A power of two of which at most two thirds are taken. */
uint64_t vocabulary_slots(uint64_t count) {
    uint64_t slots = 16;
    while (slots * 2 < count * 3) slots *= 2;
    return slots;
}

bool vocabulary_is(const vocabulary *v, uint32_t id, const char *token, size_t bytes) {
    return v->length[id] == bytes && memcmp(v->text + v->start[id], token, bytes) == 0;
}

/* What a slot has beside its id: the token itself is looked at only where these bits of its hash are equal.
 */
static uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> 57) * VOCABULARY_SLOT_IDS; }

/* The slot of a token, or the free one that it would have. */
static uint32_t *slot_of(const vocabulary *v, const char *token, size_t bytes, uint64_t hash) {
    for (uint64_t i = hash;; i++) {
        uint32_t *slot = &v->slots[i & v->mask];
        if (!*slot) return slot;
        if (*slot / VOCABULARY_SLOT_IDS * VOCABULARY_SLOT_IDS == tag_of(hash) &&
            vocabulary_is(v, vocabulary_slot_id(*slot), token, bytes))
            return slot;
    }
}

void vocabulary_expect(const vocabulary *v, const char *token, size_t bytes) {
    __builtin_prefetch(&v->slots[hash_words(token, bytes) & v->mask]);
}

uint32_t vocabulary_find(const vocabulary *v, const char *token, size_t bytes) {
    const uint32_t *slot = slot_of(v, token, bytes, hash_words(token, bytes));
    return *slot ? vocabulary_slot_id(*slot) : TOKENIZER_NONE;
}

/* ---- scores ---- */

/* Digits as serde_json keeps them: in 64 bits, and those that do not fit only as places. */
typedef struct {
    uint64_t digits;
    int64_t power; /* of ten */
} decimal;

static bool fits(decimal *d, unsigned digit) {
    if (d->digits > (UINT64_MAX - digit) / 10) return false;
    d->digits = d->digits * 10 + digit;
    return true;
}

/* A score as the library has it, which is the nearest double of a few digits, and off by one in the last
 * place of some with more: its JSON reader rounds the digits first, and what it divides or multiplies by then
 * again. In long texts paths that are as good as each other differ by that. */
static double library_score(const char *text) {
    decimal d = { 0, 0 };
    bool room = true;
    const char *c = text + (*text == '-');
    for (; *c >= '0' && *c <= '9'; c++)
        if (!room || !(room = fits(&d, (unsigned)(*c - '0')))) d.power++;
    room = true;
    if (*c == '.')
        for (c++; *c >= '0' && *c <= '9'; c++)
            if (room && (room = fits(&d, (unsigned)(*c - '0')))) d.power--;
    long said = *c ? strtol(c + 1, NULL, 10) : 0;
    d.power += said > MOST_POWER ? MOST_POWER : said < -MOST_POWER ? -MOST_POWER : said;
    double value = (double)d.digits;
    for (; d.power < -308 && value != 0; d.power += 308) value /= 1e308;
    char ten[32];
    snprintf(ten, sizeof ten, "1e%d", (int)(d.power < 0 ? -d.power : d.power));
    if (value != 0) value = d.power < 0 ? value / strtod(ten, NULL) : value * strtod(ten, NULL);
    return *text == '-' ? -value : value;
}

static status read_score(json_reader *r, double *out) {
    char text[JSON_READER_NUMBER];
    TRY(json_reader_digits(r, text));
    *out = library_score(text);
    return isfinite(*out) ? STATUS_OK : json_reader_wrong(r, "a number is too large");
}

/* ---- tokens ---- */

/* How the tokens stand in the file: {"token": id, ...}, or [["token", score], ...] in the order of ids. */
typedef struct {
    bool list, more;
    uint64_t next; /* id of a list */
    span token;    /* the last one that was read */
    uint64_t id;
    double score;
} form;

static status form_begin(opener *o, form *f) {
    json_reader *r = &o->json;
    *f = (form){ .list = json_reader_peek(r) == '[' };
    TRY(json_reader_expect(r, f->list ? '[' : '{'));
    f->more = !json_reader_take(r, f->list ? ']' : '}');
    return STATUS_OK;
}

/* One token, of which `room` bytes are kept. */
static status form_next(opener *o, form *f, char *to, uint64_t room) {
    json_reader *r = &o->json;
    uint64_t bytes;
    if (f->list) TRY(json_reader_expect(r, '['));
    TRY(json_reader_text(r, to, room, &bytes));
    if (bytes > UINT32_MAX) return open_wrong(o, "a token is longer than 4 GiB");
    f->token = (span){ to, (uint32_t)bytes };
    TRY(json_reader_expect(r, f->list ? ',' : ':'));
    if (f->list) {
        TRY(read_score(r, &f->score));
        TRY(json_reader_expect(r, ']'));
        f->id = f->next++;
    } else {
        TRY(json_reader_whole(r, &f->id));
    }
    if (f->id >= MOST_IDS) return open_wrong(o, "an id is above %d", MOST_IDS - 1);
    return json_reader_another(r, f->list ? ']' : '}', &f->more);
}

status vocabulary_count(opener *o) {
    form f;
    o->vocabulary_text = o->vocabulary_count = o->vocabulary_ids = o->longest = 0;
    TRY(form_begin(o, &f));
    o->vocabulary_scores = f.list;
    while (f.more) {
        TRY(form_next(o, &f, NULL, 0));
        o->vocabulary_count++;
        o->vocabulary_text += f.token.bytes;
        if (f.token.bytes > o->longest) o->longest = f.token.bytes;
        if (f.id >= o->vocabulary_ids) o->vocabulary_ids = f.id + 1;
    }
    return o->vocabulary_text <= UINT32_MAX ? STATUS_OK : open_wrong(o, "the tokens take more than 4 GiB");
}

/* Puts a token into the table; of one that is there twice the last id counts. */
static void insert(vocabulary *v, uint32_t id) {
    const char *token = v->text + v->start[id];
    uint64_t hash = hash_words(token, v->length[id]);
    uint32_t *slot = slot_of(v, token, v->length[id], hash);
    v->count += !*slot;
    *slot = tag_of(hash) | (id + 1);
}

/* The last tokens that were read: they go into the table, in their order, when their places have had time to
 * come from memory. */
typedef struct {
    uint32_t last[16];
    uint64_t count;
} waiting_tokens;

static uint32_t *place_of(waiting_tokens *w, uint64_t i) {
    return &w->last[i % (sizeof w->last / sizeof *w->last)];
}

static void add_token(vocabulary *v, waiting_tokens *w, span token, uint32_t id) {
    uint32_t *to = place_of(w, w->count);
    if (w->count >= sizeof w->last / sizeof *w->last) insert(v, *to);
    *to = id, w->count++;
    v->start[id] = (uint32_t)(token.data - v->text), v->length[id] = token.bytes;
    vocabulary_expect(v, token.data, token.bytes);
}

static void add_waiting(vocabulary *v, waiting_tokens *w) {
    uint64_t most = sizeof w->last / sizeof *w->last, i = w->count > most ? w->count - most : 0;
    for (; i < w->count; i++) insert(v, *place_of(w, i));
}

static void take_tables(opener *o, uint64_t slots) {
    vocabulary *v = &o->t->words;
    uint64_t ids = o->vocabulary_ids;
    v->text = open_take(o, o->vocabulary_text + 1);
    v->start = open_take(o, ids * sizeof *v->start);
    v->length = open_take(o, ids * sizeof *v->length);
    v->slots = open_take(o, slots * sizeof *v->slots);
    if (o->vocabulary_scores) o->t->scores = open_take(o, ids * sizeof *o->t->scores);
    v->ids = (uint32_t)ids, v->mask = (uint32_t)slots - 1, v->longest = (uint32_t)o->longest;
    if (o->counting) return;
    memset(v->start, 0, ids * sizeof *v->start);
    memset(v->length, 0xff, ids * sizeof *v->length);
    memset(v->slots, 0, slots * sizeof *v->slots);
}

status vocabulary_read(opener *o) {
    vocabulary *v = &o->t->words;
    form f;
    waiting_tokens waiting = { 0 };
    uint64_t used = 0, count = 0;
    take_tables(o, vocabulary_slots(o->vocabulary_count));
    if (!open_go(o, &o->model, "vocab")) return open_wrong(o, "the model has no 'vocab'");
    if (o->counting) return STATUS_OK;
    TRY(form_begin(o, &f));
    while (f.more) {
        TRY(form_next(o, &f, v->text + used, o->vocabulary_text - used));
        if (f.token.bytes > o->vocabulary_text - used || f.id >= v->ids || ++count > o->vocabulary_count)
            return open_wrong(o, "the file was changed while it was read");
        if (v->length[f.id] != UINT32_MAX) return open_wrong(o, "two tokens have the id %" PRIu64, f.id);
        used += f.token.bytes;
        add_token(v, &waiting, f.token, (uint32_t)f.id);
        if (o->t->scores) o->t->scores[f.id] = f.score;
    }
    add_waiting(v, &waiting);
    return STATUS_OK;
}

uint32_t tokenizer_size(const tokenizer *t) {
    uint32_t size = t->words.ids;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].id >= size) size = t->added[i].id + 1;
    return size;
}
