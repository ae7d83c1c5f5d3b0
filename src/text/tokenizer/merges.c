/* The pairs that merge: counted in the first reading, kept in a table in the second. */
#include "text/tokenizer/merges.h"

#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

/* A list of "left right", or of ["left", "right"]. */
static status merges_begin(opener *o, bool *more) {
    TRY(json_reader_expect(&o->json, '['));
    *more = !json_reader_take(&o->json, ']');
    return STATUS_OK;
}

status merges_count(opener *o) {
    bool more;
    o->merge_count = 0;
    TRY(merges_begin(o, &more));
    for (; more; o->merge_count++) {
        TRY(json_reader_skip(&o->json));
        TRY(json_reader_another(&o->json, ']', &more));
    }
    return o->merge_count < UINT32_MAX / 4 ? STATUS_OK : open_wrong(o, "too many merges");
}

typedef struct {
    char *text; /* 2 * longest + 2 bytes: left, then right */
    uint64_t room;
    span left, right;
    bool comment; /* "#version ..." */
} pair_text;

static status read_pair(opener *o, pair_text *p) {
    json_reader *r = &o->json;
    uint64_t left, right;
    p->comment = false;
    if (json_reader_take(r, '[')) {
        TRY(json_reader_text(r, p->text, p->room, &left));
        if (left > p->room) return open_wrong(o, "a merge is of no token of the vocabulary");
        TRY(json_reader_expect(r, ','));
        TRY(json_reader_text(r, p->text + left, p->room - left, &right));
        if (right > p->room - left) return open_wrong(o, "a merge is of no token of the vocabulary");
        p->left = (span){ p->text, (uint32_t)left }, p->right = (span){ p->text + left, (uint32_t)right };
        return json_reader_expect(r, ']');
    }
    TRY(json_reader_text(r, p->text, p->room, &left));
    p->comment = left >= 8 && memcmp(p->text, "#version", 8) == 0;
    if (p->comment) return STATUS_OK;
    if (left > p->room) return open_wrong(o, "a merge is of no token of the vocabulary");
    char *blank = memchr(p->text, ' ', left);
    uint64_t before = blank ? (uint64_t)(blank - p->text) : left;
    if (!blank || memchr(blank + 1, ' ', left - before - 1))
        return open_wrong(o, "a merge is two tokens with one blank between them");
    p->left = (span){ p->text, (uint32_t)before },
    p->right = (span){ blank + 1, (uint32_t)(left - before - 1) };
    return STATUS_OK;
}

static status find_token(opener *o, span token, uint32_t *id) {
    char shown[UTF8_QUOTE_BYTES] = { 0 };
    *id = vocabulary_find(&o->t->words, token.data, token.bytes);
    if (*id != TOKENIZER_NONE) return STATUS_OK;
    memcpy(shown, token.data, token.bytes < 60 ? token.bytes : 60);
    return open_wrong(o, "a merge has '%s', which is no token of the vocabulary", shown);
}

/* Of a pair that is there twice the last one counts. */
static void insert_merge(tokenizer *t, const merge *x) {
    uint64_t i = hash_pair(x->left, x->right), bit = i >> 40 & (MERGE_BITS - 1);
    t->merge_bits[bit / 64] |= (uint64_t)1 << bit % 64;
    for (;; i++) {
        merge *m = &t->merges[i & t->merge_mask];
        if (m->left != TOKENIZER_NONE && (m->left != x->left || m->right != x->right)) continue;
        *m = *x;
        return;
    }
}

/* The last merges that were read: they go into the table, in their order, when their places have had time to
 * come from memory. */
typedef struct {
    merge last[16];
    uint64_t count;
} waiting_merges;

static merge *place_of(waiting_merges *w, uint64_t i) {
    return &w->last[i % (sizeof w->last / sizeof *w->last)];
}

static void add_merge(tokenizer *t, waiting_merges *w, const merge *x) {
    merge *to = place_of(w, w->count);
    if (w->count >= sizeof w->last / sizeof *w->last) insert_merge(t, to);
    *to = *x, w->count++;
    __builtin_prefetch(&t->merges[hash_pair(x->left, x->right) & t->merge_mask], 1);
}

static void add_waiting(tokenizer *t, waiting_merges *w) {
    uint64_t most = sizeof w->last / sizeof *w->last, i = w->count > most ? w->count - most : 0;
    for (; i < w->count; i++) insert_merge(t, place_of(w, i));
}

/* Of what merges, the token is mostly the next id: that one is looked at before a table is. Not where a token
 * has two ids: the last one counts. */
static status find_merged(opener *o, span token, uint32_t *id) {
    const vocabulary *v = &o->t->words;
    uint32_t next = *id + 1;
    if (next < v->ids && v->count == o->vocabulary_count && vocabulary_is(v, next, token.data, token.bytes))
        return *id = next, STATUS_OK;
    return find_token(o, token, id);
}

/* `m` is the merge before, and then this one. */
static status read_merge(opener *o, pair_text *p, uint32_t skipped, merge *m) {
    vocabulary_expect(&o->t->words, p->left.data, p->left.bytes);
    vocabulary_expect(&o->t->words, p->right.data, p->right.bytes);
    TRY(find_token(o, p->left, &m->left));
    TRY(find_token(o, p->right, &m->right));
    if (p->right.bytes < skipped) return open_wrong(o, "a merge has a right side shorter than the prefix");
    memmove(p->text + p->left.bytes, p->right.data + skipped, p->right.bytes - skipped);
    return find_merged(o, (span){ p->text, p->left.bytes + p->right.bytes - skipped }, &m->id);
}

status merges_read(opener *o) {
    tokenizer *t = o->t;
    uint64_t slots = vocabulary_slots(o->merge_count);
    bool more;
    waiting_merges waiting = { 0 };
    merge m = { 0 };
    t->merges = open_take(o, slots * sizeof *t->merges);
    t->merge_bits = open_take(o, MERGE_BITS / 8);
    t->merge_mask = (uint32_t)slots - 1;
    if (!open_go(o, &o->model, "merges")) return open_wrong(o, "the model 'BPE' has no 'merges'");
    if (o->counting) return STATUS_OK;
    memset(t->merges, 0xff, slots * sizeof *t->merges);
    memset(t->merge_bits, 0, MERGE_BITS / 8);
    pair_text p = { .room = 2 * o->longest + 2 };
    p.text = memory_room(1, p.room + 16);
    status result = p.text ? merges_begin(o, &more) : status_set(STATUS_NO_FIT, "no memory to read merges");
    for (uint64_t n = 0; result == STATUS_OK && more; n++) {
        result =
            n < o->merge_count ? read_pair(o, &p) : open_wrong(o, "the file was changed while it was read");
        if (result == STATUS_OK && !p.comment) {
            result = read_merge(o, &p, t->model.prefix.bytes, &m);
            if (result == STATUS_OK) add_merge(t, &waiting, &m), m.rank++;
        }
        if (result == STATUS_OK) result = json_reader_another(&o->json, ']', &more);
    }
    add_waiting(t, &waiting);
    t->merge_count = m.rank;
    memory_free(p.text);
    return result;
}
