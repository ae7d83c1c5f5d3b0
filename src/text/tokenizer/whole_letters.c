/* A BPE of bytes first merges the bytes of a character, and only then the character with others. So the
 * character may come as its token at once, where two things hold:
 *
 * - Each merge that takes the character comes later in the list than all that make it. As long as the
 * character is not whole, one of its own merges is there to be done, and comes before any that would take it:
 * so nothing happens sooner when it is whole from the beginning. What is merged elsewhere does not matter.
 * Lists that were made of vocabularies without merges (tiktoken's) have characters that a rarer token makes,
 * which are taken before; those come as their bytes.
 * - No token holds a part of the character together with a neighbour (as a blank with a first byte). Such
 *   tokens have the character's edge within them: the bytes on both sides of the edge are remembered, and a
 *   character at such an edge comes as its bytes. */
#include "text/tokenizer/whole_letters.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/merges.h"
#include "text/tokenizer/unicode.h"

static bool goes_on(char c) { return (c & 0xc0) == 0x80; }

static void set(uint64_t *bits, char left, char right) {
    bits[(unsigned char)left * 4 + (unsigned char)right / 64] |= (uint64_t)1 << (unsigned char)right % 64;
}

enum { MOST = 3 }; /* bytes of a character in the table */

/* A token byte by byte: its first ones, and where its last character begins. */
typedef struct {
    char first[MOST], last, lead, before_lead;
    uint32_t count, lead_at;
    bool leads; /* some character begins in it */
} token_bytes;

static void add_byte(whole_letters *l, token_bytes *b, char byte) {
    if (!goes_on(byte)) {
        if (b->count && !b->leads) set(l->behind, b->last, byte);
        b->leads = true, b->lead = byte, b->before_lead = b->last, b->lead_at = b->count;
    }
    if (b->count < MOST) b->first[b->count] = byte;
    b->last = byte;
    b->count++;
}

/* Notes the edges of characters that are not whole in it. Is it one character of the table? Bytes that are no
 * UTF-8 are none, nor is a token that no bytes merge to. */
static bool read_token(const tokenizer *t, uint32_t id, token_bytes *b) {
    const char *token = t->words.text + t->words.start[id];
    size_t length;
    *b = (token_bytes){ 0 };
    for (uint32_t at = 0; at < t->words.length[id]; at += (uint32_t)length) {
        int byte = byte_letters_read(unicode_read(token + at, &length));
        if (byte < 0) return false;
        add_byte(t->letters, b, (char)byte);
    }
    bool whole = b->leads && b->count - b->lead_at >= unicode_bytes((unsigned char)b->lead);
    if (b->leads && !whole && b->lead_at) set(t->letters->before, b->before_lead, b->lead);
    return b->count > 1 && b->count <= MOST && utf8_length(b->first, b->count) == b->count;
}

/* What two or three bytes merge to by themselves; NONE: more than one token. `*last`: the largest rank of the
 * merges that do it. */
static uint32_t merged(const tokenizer *t, const char *bytes, uint32_t count, uint32_t *last) {
    uint32_t id[MOST];
    *last = 0;
    for (uint32_t i = 0; i < count; i++) {
        id[i] = t->byte_ids[(unsigned char)bytes[i]];
        if (id[i] == TOKENIZER_NONE) return TOKENIZER_NONE;
    }
    while (count > 1) {
        const merge *best = NULL;
        uint32_t at = 0;
        for (uint32_t i = 0; i + 1 < count; i++) {
            const merge *m = merges_find(t, id[i], id[i + 1]);
            if (m && (!best || m->rank < best->rank)) best = m, at = i;
        }
        if (!best) return TOKENIZER_NONE;
        if (best->rank > *last) *last = best->rank;
        id[at] = best->id;
        if (at + 2 < count) id[at + 1] = id[at + 2];
        count--;
    }
    return id[0];
}

/* The bytes of a token that is a character of the table, and how many; 0: it is none. */
static uint32_t letter_of(const tokenizer *t, uint32_t id, char bytes[MOST]) {
    const char *token = t->words.text + t->words.start[id];
    uint32_t n = 0;
    size_t length;
    if (t->words.length[id] == UINT32_MAX) return 0;
    for (uint32_t at = 0; at < t->words.length[id]; at += (uint32_t)length) {
        int byte = byte_letters_read(unicode_read(token + at, &length));
        if (byte < 0 || n == MOST) return 0;
        bytes[n++] = (char)byte;
    }
    return n > 1 && utf8_length(bytes, n) == n && t->letters->id[whole_letters_point(bytes, n)] == id ? n : 0;
}

/* Bits of the ids of characters in the table: most tokens are none, and are not looked at. */
enum { LETTER_BITS = 1 << 15 };
typedef struct {
    uint64_t bits[LETTER_BITS / 64];
} letter_bits;

static void note_letter(letter_bits *b, uint32_t id) {
    b->bits[id % LETTER_BITS / 64] |= (uint64_t)1 << id % 64;
}
static bool may_be_letter(const letter_bits *b, uint32_t id) {
    return b->bits[id % LETTER_BITS / 64] >> id % 64 & 1;
}

/* A merge of this rank takes the token: a character that is made later comes as its bytes. */
static void note_taken(const tokenizer *t, uint32_t id, uint32_t rank) {
    char bytes[MOST];
    uint32_t last, n = letter_of(t, id, bytes);
    if (n == 0 || (merged(t, bytes, n, &last) != TOKENIZER_NONE && last < rank)) return;
    t->letters->id[whole_letters_point(bytes, n)] = TOKENIZER_NONE;
}

void whole_letters_prepare(tokenizer *t) {
    whole_letters *l = t->letters;
    letter_bits letters = { 0 };
    token_bytes b;
    uint32_t last;
    memset(l, 0, sizeof *l);
    memset(l->id, 0xff, sizeof l->id);
    for (uint32_t id = 0; id < t->words.ids; id++)
        if (t->words.length[id] != UINT32_MAX && read_token(t, id, &b)) {
            uint32_t made = merged(t, b.first, b.count, &last);
            l->id[whole_letters_point(b.first, b.count)] = made;
            if (made != TOKENIZER_NONE) note_letter(&letters, made);
        }
    for (uint64_t i = 0; t->merge_count && i <= t->merge_mask; i++) {
        const merge *m = &t->merges[i];
        if (m->left == TOKENIZER_NONE) continue;
        if (may_be_letter(&letters, m->left)) note_taken(t, m->left, m->rank);
        if (may_be_letter(&letters, m->right)) note_taken(t, m->right, m->rank);
    }
}
