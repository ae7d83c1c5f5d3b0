/* A BPE of bytes beside a plain one that does nothing but merge, on vocabularies drawn at random: of
 * characters of one to four bytes, with tokens that hold parts of characters, with lists of merges in and out
 * of order, and with lists of all ways in which tokens are made. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/scratch.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_internal.h"
#include "text/tokenizer/whole_letters.h"

enum { TOKENS = 900, TOKEN_BYTES = 24, MERGES = TOKENS - 256, TEXT = 400, JSON = 1 << 20 };

typedef struct {
    uint32_t count, merges;
    unsigned char bytes[TOKENS][TOKEN_BYTES];
    uint32_t length[TOKENS];
    uint32_t left[MERGES], right[MERGES], made[MERGES]; /* by rank */
} plain;

static uint64_t state;

/* ---- texts ---- */

static const char *const letters[] = { "a",  "b",  " ",  "é",  "ß",  "д",    "ж",    "ы", "д", "雪",
                                       "冷", "読", "水", "雷", "が", "🙂", "🙃", "©", "▁", "B" };

/* Bytes that tokens may hold and no text does. */
static const char *const broken[] = { "B\xa9", "\x96\x81", "\xe0\x82\xa9", "\xc3", "\xe9\x9b" };

static uint32_t make_text(unsigned char *text, uint32_t most, bool breaks) {
    uint32_t n = 0, kinds = sizeof letters / sizeof *letters;
    while (n + 4 < most) {
        const char *c = letters[scratch_random(&state) % kinds];
        if (breaks && scratch_random(&state) % 2) c = broken[scratch_random(&state) % 5];
        memcpy(text + n, c, strlen(c));
        n += (uint32_t)strlen(c);
    }
    return n;
}

/* ---- the plain one ---- */

static uint32_t find_rank(const plain *p, uint32_t left, uint32_t right) {
    for (uint32_t r = p->merges; r-- > 0;) /* of a pair that is there twice the last one counts */
        if (p->left[r] == left && p->right[r] == right) return r;
    return UINT32_MAX;
}

static uint32_t merge_all(const plain *p, uint32_t *ids, uint32_t count) {
    for (;;) {
        uint32_t best = UINT32_MAX, at = 0;
        for (uint32_t i = 0; i + 1 < count; i++) {
            uint32_t rank = find_rank(p, ids[i], ids[i + 1]);
            if (rank < best) best = rank, at = i;
        }
        if (best == UINT32_MAX) return count;
        ids[at] = p->made[best];
        memmove(ids + at + 1, ids + at + 2, (--count - at - 1) * sizeof *ids);
    }
}

static uint32_t find_token(const plain *p, const unsigned char *bytes, uint32_t length) {
    for (uint32_t i = 0; i < p->count; i++)
        if (p->length[i] == length && memcmp(p->bytes[i], bytes, length) == 0) return i;
    return UINT32_MAX;
}

/* Learns a merge of two neighbours of a text as it is by now; false: none was found that is new. */
static bool learn(plain *p) {
    unsigned char text[TEXT], both[2 * TOKEN_BYTES];
    uint32_t ids[TEXT], count = make_text(text, 60, scratch_random(&state) % 4 == 0);
    for (uint32_t i = 0; i < count; i++) ids[i] = text[i];
    count = merge_all(p, ids, count);
    for (int tries = 0; tries < 20 && count > 1; tries++) {
        uint32_t i = scratch_random(&state) % (count - 1), a = ids[i], b = ids[i + 1];
        uint32_t length = p->length[a] + p->length[b];
        if (length > TOKEN_BYTES || find_rank(p, a, b) != UINT32_MAX) continue;
        memcpy(both, p->bytes[a], p->length[a]);
        memcpy(both + p->length[a], p->bytes[b], p->length[b]);
        uint32_t made = find_token(p, both, length);
        if (made == UINT32_MAX) {
            made = p->count++;
            memcpy(p->bytes[made], both, length), p->length[made] = length;
        }
        p->left[p->merges] = a, p->right[p->merges] = b, p->made[p->merges++] = made;
        return true;
    }
    return false;
}

static void swap(uint32_t *list, uint32_t a, uint32_t b) {
    uint32_t kept = list[a];
    list[a] = list[b], list[b] = kept;
}

static void make_plain(plain *p, uint32_t merges, uint32_t swaps) {
    memset(p, 0, sizeof *p);
    for (; p->count < 256; p->count++)
        p->bytes[p->count][0] = (unsigned char)p->count, p->length[p->count] = 1;
    while (p->merges < merges) learn(p);
    for (uint32_t i = 0; i < swaps; i++) {
        uint32_t a = scratch_random(&state) % p->merges, b = scratch_random(&state) % p->merges;
        swap(p->left, a, b), swap(p->right, a, b), swap(p->made, a, b);
    }
}

/* As vocabularies without merges become lists of them: of each token all ways in which two others make it,
 * the tokens in an order that is not the one in which they were learned. */
static void list_all_ways(plain *p, uint32_t swaps) {
    uint32_t order[TOKENS];
    for (uint32_t i = 256; i < p->count; i++) order[i] = i;
    for (uint32_t i = 0; i < swaps; i++)
        swap(order, 256 + scratch_random(&state) % (p->count - 256),
             256 + scratch_random(&state) % (p->count - 256));
    p->merges = 0;
    for (uint32_t k = 256; k < p->count; k++)
        for (uint32_t made = order[k], n = 1; n < p->length[made] && p->merges < MERGES; n++) {
            uint32_t left = find_token(p, p->bytes[made], n),
                     right = find_token(p, p->bytes[made] + n, p->length[made] - n);
            if (left == UINT32_MAX || right == UINT32_MAX) continue;
            p->left[p->merges] = left, p->right[p->merges] = right, p->made[p->merges++] = made;
        }
}

/* ---- as a file ---- */

static char *add_token(char *to, const plain *p, uint32_t id) {
    *to++ = '"';
    for (uint32_t i = 0; i < p->length[id]; i++) {
        char letter[2];
        size_t n = byte_letters_write(p->bytes[id][i], letter);
        if (n == 1 && (*letter == '"' || *letter == '\\')) *to++ = '\\';
        memcpy(to, letter, n);
        to += n;
    }
    *to++ = '"';
    return to;
}

static tokenizer *open_plain(const plain *p) {
    static char text[JSON];
    tokenizer *t;
    char *to =
        text + sprintf(text, "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, "
                             "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                             "\"use_regex\": false}, \"post_processor\": null, \"decoder\": null, "
                             "\"model\": {\"type\": \"BPE\", \"vocab\": {");
    for (uint32_t i = 0; i < p->count; i++) {
        if (i) *to++ = ',';
        to = add_token(to, p, i);
        to += sprintf(to, ":%u", i);
    }
    to += sprintf(to, "}, \"merges\": [");
    for (uint32_t r = 0; r < p->merges; r++) {
        to += sprintf(to, "%s[", r ? "," : "");
        to = add_token(to, p, p->left[r]);
        *to++ = ',';
        to = add_token(to, p, p->right[r]);
        *to++ = ']';
    }
    to += sprintf(to, "]}}");
    json_source source = json_source_memory(text, (size_t)(to - text), "t.json", "the tokenizer");
    if (tokenizer_open(&source, &t) != STATUS_OK) fail_msg("%s", status_message());
    return t;
}

/* ---- beside one another ---- */

static void compare(const plain *p, const tokenizer *t, tokenizer_work *w, bool spans) {
    unsigned char text[TEXT];
    uint32_t expected[TEXT], bytes = make_text(text, 8 + scratch_random(&state) % (TEXT - 8), false), at = 0;
    tokenizer_ids ids;
    tokenizer_text all = { (const char *)text, bytes };
    const tokenizer_span *places = NULL;
    for (uint32_t i = 0; i < bytes; i++) expected[i] = text[i];
    uint32_t count = merge_all(p, expected, bytes);
    status result = spans ? tokenizer_encode_spans(t, w, all, false, &ids, &places)
                          : tokenizer_encode(t, w, all.data, all.bytes, false, &ids);
    if (result != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(ids.count, count);
    for (uint32_t i = 0; i < count; i++) {
        if (ids.id[i] != expected[i])
            fail_msg("%.*s: token %u is %u and not %u", (int)bytes, (const char *)text, i, ids.id[i],
                     expected[i]);
        uint32_t next = at + p->length[expected[i]], first = at, end = next;
        while (first > 0 && (text[first] & 0xc0) == 0x80) first--; /* spans are of whole characters */
        while (end < bytes && (text[end] & 0xc0) == 0x80) end++;
        if (spans && (places[i].begin != first || places[i].end != end))
            fail_msg("token %u of %u stands for %zu to %zu and not for %u to %u", i, count, places[i].begin,
                     places[i].end, first, end);
        at = next;
    }
}

/* Characters that are tokens: those that come whole, and those that come as their bytes. */
static void count_letters(const tokenizer *t, uint32_t *whole, uint32_t *cut) {
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        char letter[16];
        size_t n = strlen(letters[i]), length = 0;
        if (n != 2 && n != 3) continue;
        for (size_t k = 0; k < n; k++)
            length += byte_letters_write((unsigned char)letters[i][k], letter + length);
        if (tokenizer_id(t, letter, length) == TOKENIZER_NONE) continue;
        *(t->letters->id[whole_letters_point(letters[i], (uint32_t)n)] == TOKENIZER_NONE ? cut : whole) += 1;
    }
}

static void as_plain_merging(void **unused) {
    (void)unused;
    static plain p;
    enum { VOCABULARIES = 60, TEXTS = 15 };
    uint32_t whole = 0, cut = 0;
    for (state = 1; state <= VOCABULARIES; state++) {
        uint64_t seed = state;
        static const uint32_t swaps[] = { 0, 1, 0, 40 };
        make_plain(&p, 40 + scratch_random(&state) % (seed % 3 ? MERGES - 40 : 200), swaps[seed % 4]);
        if (seed % 3 == 0) list_all_ways(&p, swaps[seed / 3 % 4]);
        tokenizer *t = open_plain(&p);
        tokenizer_work *w;
        assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
        count_letters(t, &whole, &cut);
        for (int i = 0; i < TEXTS; i++) compare(&p, t, w, i % 2);
        tokenizer_work_close(w);
        tokenizer_close(t);
        state = seed;
    }
    assert_true(whole > 5 * VOCABULARIES && cut > VOCABULARIES / 2);
}

/* The last two bytes merge first, and then nothing: the token of the whole character is out of reach. */
static void ranks_count_within_a_character(void **unused) {
    (void)unused;
    static plain p;
    static const char snow[] = "雪";
    tokenizer_work *w;
    tokenizer_ids ids;
    uint32_t sides[3][2] = { { 1, 2 }, { 0, 1 }, { 257, 2 } };
    make_plain(&p, 0, 0);
    for (uint32_t r = 0; r < 3; r++) {
        for (int i = 0; i < 2; i++)
            if (sides[r][i] < 3) sides[r][i] = (unsigned char)snow[sides[r][i]];
        uint32_t a = sides[r][0], b = sides[r][1], made = p.count++;
        memcpy(p.bytes[made], p.bytes[a], p.length[a]);
        memcpy(p.bytes[made] + p.length[a], p.bytes[b], p.length[b]);
        p.length[made] = p.length[a] + p.length[b];
        p.left[r] = a, p.right[r] = b, p.made[r] = made;
        p.merges++;
    }
    tokenizer *t = open_plain(&p);
    assert_int_equal(tokenizer_work_open(t, &w), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, w, snow, 3, false, &ids), STATUS_OK);
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.id[0], (unsigned char)snow[0]);
    assert_int_equal(ids.id[1], 256);
    tokenizer_work_close(w);
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_plain_merging),
                                        cmocka_unit_test(ranks_count_within_a_character) };
    return cmocka_run_group_tests_name("bpe", tests, NULL, NULL);
}
