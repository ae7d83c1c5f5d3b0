#include "infer/constraint/vocabulary.h"

#include <string.h>

#include "base/utf8.h"

static uint64_t rounded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }
static uint64_t words_of(int64_t count) { return ((uint64_t)count + 63) / 64; }

uint64_t vocabulary_bytes(int64_t count, uint64_t text) {
    uint64_t n = (uint64_t)count;
    return rounded((n + 1) * sizeof(uint32_t)) + rounded(text) + rounded(n * sizeof(int32_t)) +
           2 * rounded(n) + words_of(count) * sizeof(uint64_t);
}

status vocabulary_measure(const language *l, int64_t count, uint64_t *bytes, uint64_t *text) {
    *text = 0;
    for (int64_t id = 0; id < count; id++) {
        language_piece word;
        TRY(l->word(l->context, (int32_t)id, &word));
        *text += word.count;
    }
    *bytes = vocabulary_bytes(count, *text);
    return STATUS_OK;
}

/* ---- the bytes ---- */

static void *part(char **at, uint64_t bytes) {
    void *here = *at;
    *at += rounded(bytes);
    return here;
}

static status take_words(const language *l, constraint_words *v, uint64_t text) {
    uint64_t at = 0;
    for (int64_t id = 0; id < v->count; id++) {
        language_piece word;
        TRY(l->word(l->context, (int32_t)id, &word));
        v->start[id] = (uint32_t)at;
        if (at + word.count > text) return status_set(STATUS_FAILED, "tokens have changed meanwhile");
        memcpy(v->bytes + at, word.bytes, word.count);
        at += word.count;
        if (l->ends(l->context, (int32_t)id) && v->end_count < VOCABULARY_ENDS)
            v->ends[v->end_count++] = (int32_t)id;
    }
    v->start[v->count] = (uint32_t)at;
    return STATUS_OK;
}

static uint32_t length_of(const constraint_words *v, int32_t id) { return v->start[id + 1] - v->start[id]; }
static const unsigned char *bytes_of(const constraint_words *v, int32_t id) {
    return (const unsigned char *)v->bytes + v->start[id];
}

/* Its characters, where it is plain; 0: it is not. */
static uint32_t plain_characters(const constraint_words *v, int32_t id) {
    const char *bytes = (const char *)bytes_of(v, id);
    uint32_t length = length_of(v, id), n = 0;
    for (uint32_t i = 0; i < length; n++) {
        size_t whole = utf8_length(bytes + i, length - i);
        if (!whole || (unsigned char)bytes[i] < 0x20 || bytes[i] == '"' || bytes[i] == '\\') return 0;
        i += (uint32_t)whole;
    }
    return n;
}

/* ---- the order ---- */

/* The byte at a place; -1 behind the end. */
static int byte_at(const constraint_words *v, int32_t id, uint32_t place) {
    return place < length_of(v, id) ? bytes_of(v, id)[place] : -1;
}

static void swap(int32_t *a, int32_t *b) {
    int32_t c = *a;
    *a = *b, *b = c;
}

/* n ids that share `place` bytes: those with a smaller, the same and a larger next one than that of the one
 * in the middle, each part in turn (Bentley, Sedgewick, "Fast algorithms for sorting and searching strings",
 * SODA 1997). */
static void sort(const constraint_words *v, int32_t *ids, int64_t n, uint32_t place) {
    while (n > 1) {
        int pivot = byte_at(v, ids[n / 2], place);
        int64_t low = 0, high = n;
        for (int64_t i = 0; i < high;) {
            int c = byte_at(v, ids[i], place);
            if (c < pivot)
                swap(&ids[low++], &ids[i++]);
            else if (c > pivot)
                swap(&ids[i], &ids[--high]);
            else
                i++;
        }
        sort(v, ids, low, place);
        sort(v, ids + high, n - high, place);
        if (pivot < 0) return;
        ids += low, n = high - low, place++;
    }
}

static uint8_t shared_of(const constraint_words *v, int32_t a, int32_t b) {
    uint32_t n = 0, most = length_of(v, a) < length_of(v, b) ? length_of(v, a) : length_of(v, b);
    if (most > 255) most = 255;
    while (n < most && bytes_of(v, a)[n] == bytes_of(v, b)[n]) n++;
    return (uint8_t)n;
}

static void order(constraint_words *v, vocabulary_list *l, int32_t *ids, uint8_t *shared, int64_t n) {
    sort(v, ids, n, 0);
    *l = (vocabulary_list){ .ids = ids, .shared = shared };
    for (int64_t i = 0; i < n; i++) {
        shared[i] = i ? shared_of(v, ids[i - 1], ids[i]) : 0;
        l->first[bytes_of(v, ids[i])[0] + 1]++;
    }
    for (int c = 0; c < 256; c++) l->first[c + 1] += l->first[c];
}

static bool is_end(const constraint_words *v, int32_t id) {
    for (uint32_t i = 0; i < v->end_count; i++)
        if (v->ends[i] == id) return true;
    return false;
}

/* Plain ones from the front, others from the back. */
static void take_apart(constraint_words *v, int64_t *plain, int64_t *others) {
    *plain = *others = 0;
    for (int32_t id = 0; id < v->count; id++) {
        if (!length_of(v, id) || is_end(v, id)) continue;
        if (plain_characters(v, id)) {
            v->ids[(*plain)++] = id;
            v->plain_bits[id / 64] |= UINT64_C(1) << id % 64;
        } else if (length_of(v, id) <= VOCABULARY_LONGEST) {
            v->ids[v->count - ++*others] = id;
        }
    }
}

status vocabulary_open(const language *l, int64_t count, uint64_t text, void *memory, constraint_words *v) {
    char *at = memory;
    int64_t plain, others;
    uint64_t n = (uint64_t)count;
    *v = (constraint_words){ .count = count };
    v->plain_bits = part(&at, words_of(count) * sizeof(uint64_t));
    v->start = part(&at, (n + 1) * sizeof *v->start);
    v->bytes = part(&at, text);
    v->ids = part(&at, n * sizeof *v->ids);
    v->shared = part(&at, n);
    v->characters = part(&at, n);
    memset(v->plain_bits, 0, words_of(count) * sizeof(uint64_t));
    TRY(take_words(l, v, text));
    take_apart(v, &plain, &others);
    order(v, &v->plain, v->ids, v->shared, plain);
    order(v, &v->others, v->ids + count - others, v->shared + count - others, others);
    for (int64_t i = 0; i < plain; i++) {
        uint32_t characters = plain_characters(v, v->ids[i]);
        if (characters > v->most_characters) v->most_characters = characters;
        v->characters[i] = (uint8_t)(characters < 255 ? characters : 255);
    }
    return STATUS_OK;
}
