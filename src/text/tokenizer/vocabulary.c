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

uint32_t vocabulary_find(const vocabulary *v, const char *token, size_t bytes) {
    for (uint64_t i = hash_words(token, bytes);; i++) {
        uint32_t id = v->slots[i & v->mask];
        if (id == 0) return TOKENIZER_NONE;
        if (v->length[id - 1] == bytes && memcmp(v->text + v->start[id - 1], token, bytes) == 0)
            return id - 1;
    }
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

/* Puts a token into the tables; of one that is there twice the last id counts. */
static void insert(vocabulary *v, span token, uint32_t id) {
    uint64_t i = hash_words(token.data, token.bytes);
    uint32_t old = vocabulary_find(v, token.data, token.bytes);
    v->start[id] = (uint32_t)(token.data - v->text), v->length[id] = token.bytes;
    if (old == TOKENIZER_NONE) {
        while (v->slots[i & v->mask] != 0) i++;
        v->slots[i & v->mask] = id + 1;
        v->count++;
        return;
    }
    while (v->slots[i & v->mask] != old + 1) i++;
    v->slots[i & v->mask] = id + 1;
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
        insert(v, f.token, (uint32_t)f.id);
        if (o->t->scores) o->t->scores[f.id] = f.score;
    }
    return STATUS_OK;
}

uint32_t tokenizer_size(const tokenizer *t) {
    uint32_t size = t->words.ids;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].id >= size) size = t->added[i].id + 1;
    return size;
}
