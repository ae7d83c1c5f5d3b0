/* A BPE of bytes first merges the bytes of a character, and only then the character with others. So the
 * character may come as its token at once, where two things hold:
 *
 * - The merges are in order: none makes a token that an earlier one has taken. Then merges happen by rank
 *   alone, and each is later than those that made its two sides.
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

/* What two or three bytes merge to by themselves; NONE: more than one token. */
static uint32_t merged(const tokenizer *t, const char *bytes, uint32_t count) {
    uint32_t id[MOST];
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
        id[at] = best->id;
        if (at + 2 < count) id[at + 1] = id[at + 2];
        count--;
    }
    return id[0];
}

void whole_letters_prepare(tokenizer *t) {
    whole_letters *l = t->letters;
    token_bytes b;
    memset(l, 0, sizeof *l);
    memset(l->id, 0xff, sizeof l->id);
    for (uint32_t id = 0; t->merges_in_order && id < t->words.ids; id++)
        if (t->words.length[id] != UINT32_MAX && read_token(t, id, &b))
            l->id[whole_letters_point(b.first, b.count)] = merged(t, b.first, b.count);
}
