/* A map is base64 of: the trie's length in bytes (4 bytes, the lowest first), its units of 4 bytes, then
 * texts that each end in a zero. A unit is Darts' (github.com/s-yata/darts-clone): the lowest byte is the
 * label of the edge, bit 8 says that a value hangs below, bits 10 to 30 are the way to the children, times
 * 256 where bit 9 is set; a value's unit has bit 31. The library looks at what people see as one character
 * where that is short, takes the first value on the way, not the longest, and else asks character by
 * character. */
#include "text/tokenizer/precompiled.h"

#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer/spans.h"
#include "text/tokenizer/unicode.h"

enum { SHORT = 6 }; /* bytes; what people see as one character is asked for when it has fewer */

struct precompiled {
    uint32_t *units, count;
    char *texts;
    uint64_t bytes;
};

/* ---- reading ---- */

/* Base64 as it comes, in pieces: to `to`, as far as `room` goes. */
typedef struct {
    opener *o;
    unsigned char *to;
    uint64_t used, room;
    uint32_t word, bits, ends;
} decoding;

static int digit_of(int c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static status decode_piece(void *context, const char *bytes, size_t count) {
    decoding *d = context;
    for (size_t i = 0; i < count; i++) {
        int digit = digit_of((unsigned char)bytes[i]);
        if (bytes[i] == '=') {
            d->ends++;
            continue;
        }
        if (digit < 0 || d->ends) return open_wrong(d->o, "the map of characters is not base64");
        d->word = d->word << 6 | (uint32_t)digit, d->bits += 6;
        if (d->bits < 8) continue;
        d->bits -= 8;
        if (d->used < d->room) d->to[d->used] = (unsigned char)(d->word >> d->bits);
        d->used++;
    }
    return STATUS_OK;
}

/* The units must lie aligned: behind the length, which is 4 bytes too. */
static status check_map(opener *o, struct precompiled *m, uint64_t used) {
    uint32_t trie;
    size_t place;
    if (used < 4) return open_wrong(o, "the map of characters ends before its trie");
    memcpy(&trie, m->units,
           sizeof trie); /* as on every machine that this runs on, the lowest byte is first */
    if (trie % 4 || trie > used - 4) return open_wrong(o, "the map of characters ends within its trie");
    m->units++;
    m->count = trie / 4;
    m->texts = (char *)m->units + trie;
    m->bytes = used - 4 - trie;
    if (!unicode_valid(m->texts, m->bytes, &place))
        return open_wrong(o, "the map of characters has texts that are no UTF-8");
    if (m->bytes && m->texts[m->bytes - 1] != 0)
        return open_wrong(o, "the map of characters ends within a text");
    return STATUS_OK;
}

status precompiled_read(opener *o, part *p) {
    bool null;
    struct precompiled *m = open_take(o, sizeof *m);
    decoding d = { .o = o };
    TRY(json_reader_null(&o->json, &null));
    if (null) return open_wrong(o, "the map of characters is null");
    if (!o->counting) d.to = (unsigned char *)o->block + o->used, d.room = o->room - o->used;
    TRY(json_reader_pieces(&o->json, decode_piece, &d));
    uint32_t *units = open_take(o, d.used + 4);
    if (o->counting) return STATUS_OK;
    if (d.used > d.room) return open_wrong(o, "the file was changed while it was read");
    *m = (struct precompiled){ .units = units };
    p->map = m;
    return check_map(o, m, d.used);
}

/* ---- applying ---- */

static uint32_t way(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

/* The first text on the way of these bytes; NULL: none. */
static const char *find(const struct precompiled *m, const char *bytes, size_t count) {
    uint32_t at = 0;
    if (m->count == 0) return NULL;
    at ^= way(m->units[0]);
    for (size_t i = 0; i < count; i++) {
        unsigned byte = (unsigned char)bytes[i];
        if (byte == 0) return NULL;
        at ^= byte;
        if (at >= m->count) return NULL;
        uint32_t unit = m->units[at];
        if ((unit & (1u << 31 | 0xff)) != byte) return NULL;
        at ^= way(unit);
        if (at >= m->count) return NULL;
        if (unit >> 8 & 1) {
            uint32_t place = m->units[at] & ~(1u << 31);
            return place < m->bytes ? m->texts + place : NULL;
        }
    }
    return NULL;
}

/* The end of what people see as one character, from `at` on. */
static uint32_t character_end(span text, uint32_t at) {
    utf8proc_int32_t state = 0;
    size_t length;
    uint32_t point = unicode_read(text.data + at, &length);
    for (at += (uint32_t)length; at < text.bytes; at += (uint32_t)length) {
        uint32_t next = unicode_read(text.data + at, &length);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)point, (utf8proc_int32_t)next, &state)) break;
        point = next;
    }
    return at;
}

/* A character of the new text stands for the one at its place in the old; further ones for the old's last,
 * and what the old has more for the new's last, whose origin stays its own. */
static status place_found(tokenizer_work *w, buffer *out, size_t before, const char *own, size_t bytes) {
    size_t at = 0, used = out->used;
    for (size_t n; before < used; before += n) {
        n = unicode_bytes((unsigned char)out->data[before]);
        TRY(spans_made(w, out, before, spans_origin(w, own + at)));
        size_t next = at + unicode_bytes((unsigned char)own[at]);
        if (next < bytes) at = next;
    }
    return STATUS_OK;
}

static status add_found(tokenizer_work *w, buffer *out, const char *found, const char *own, size_t bytes) {
    size_t before = out->used;
    TRY(found ? work_add(w, out, found, strlen(found)) : work_add(w, out, own, bytes));
    return w->spans.on ? place_found(w, out, before, own, bytes) : STATUS_OK;
}

status precompiled_apply(const struct precompiled *m, tokenizer_work *w, span text, buffer *out) {
    for (uint32_t at = 0, end; at < text.bytes; at = end) {
        end = character_end(text, at);
        const char *found = end - at < SHORT ? find(m, text.data + at, end - at) : NULL;
        if (found) {
            TRY(add_found(w, out, found, text.data + at, end - at));
            continue;
        }
        for (uint32_t i = at; i < end;) {
            size_t n = unicode_bytes((unsigned char)text.data[i]);
            TRY(add_found(w, out, find(m, text.data + i, n), text.data + i, n));
            i += (uint32_t)n;
        }
    }
    return STATUS_OK;
}
