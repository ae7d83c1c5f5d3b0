/* From ids to text, all at once or as they come. */
#include <string.h>

#include "text/tokenizer/decoders.h"

static status add_token(const tokenizer *t, tokenizer_work *w, uint32_t id, bool special) {
    const added_token *a = added_of(t, id);
    if (a && a->skipped && !special) return STATUS_OK;
    if (a)
        TRY(decoders_add(w, 0, a->seen.data, a->seen.bytes));
    else if (id < t->words.ids && t->words.length[id] != UINT32_MAX)
        TRY(decoders_add(w, 0, t->words.text + t->words.start[id], t->words.length[id]));
    else
        return STATUS_OK;
    return decoders_end(w, 0);
}

/* Without decoders tokens stand with a blank between them. */
static status add_blanks(tokenizer_work *w) {
    decoders_begin(w, 1);
    for (uint32_t i = 0; i < w->strings[0].count; i++) {
        span s = decoders_at(w, 0, i);
        if (i) TRY(decoders_add(w, 1, " ", 1));
        TRY(decoders_add(w, 1, s.data, s.bytes));
    }
    string_list l = w->strings[0];
    w->strings[0] = w->strings[1], w->strings[1] = l;
    return STATUS_OK;
}

status tokenizer_decode(const tokenizer *t, tokenizer_work *w, tokenizer_ids ids, bool special,
                        tokenizer_text *text) {
    *text = (tokenizer_text){ .data = "" };
    decoders_begin(w, 0);
    for (size_t i = 0; i < ids.count; i++) TRY(add_token(t, w, ids.id[i], special));
    if (w->strings[0].count == 0) return STATUS_OK;
    TRY(t->decoders.count ? decoders_apply(w) : add_blanks(w));
    const buffer *b = &w->strings[0].text;
    if (b->used) *text = (tokenizer_text){ b->data, b->used };
    return STATUS_OK;
}

/* What stands beside another one of the same id is what it is amid a text: behind it, or before it where
 * blanks stand behind words. */
static status find_word(const tokenizer *t, tokenizer_work *w, uint32_t id, tokenizer_text *text) {
    uint32_t twice[2] = { id, id };
    TRY(tokenizer_decode(t, w, (tokenizer_ids){ twice, 1 }, true, text));
    size_t alone = text->bytes;
    TRY(tokenizer_decode(t, w, (tokenizer_ids){ twice, 2 }, true, text));
    if (text->bytes < alone) alone = text->bytes;
    if (!decoders_end_words(w)) text->data += alone;
    text->bytes -= alone;
    return STATUS_OK;
}

status tokenizer_word(const tokenizer *t, tokenizer_work *w, uint32_t id, tokenizer_text *text) {
    const added_token *a = added_of(t, id);
    span token = { NULL, 0 }, bytes;
    *text = (tokenizer_text){ .data = "" };
    if (a)
        token = a->skipped ? token : (span){ a->seen.data, a->seen.bytes };
    else if (id < t->words.ids && t->words.length[id] != UINT32_MAX)
        token = (span){ t->words.text + t->words.start[id], t->words.length[id] };
    if (!token.bytes) return STATUS_OK;
    TRY(decoders_bytes(w, token, &bytes));
    if (!bytes.data) return find_word(t, w, id, text);
    *text = (tokenizer_text){ bytes.data, bytes.bytes };
    return STATUS_OK;
}

/* ---- as they come ----
 *
 * What a token says may depend on those before it (a blank at the beginning) and on those behind it (bytes of
 * a character). So the ids that last said something are kept, and with them those that were not said yet:
 * what the latter add to the text of the former is new. It waits while it ends in the sign for half a
 * character. */

enum { WAITING = 40 /* most ids that wait: more than any character has bytes */ };

static bool ends_in_half(tokenizer_text t) {
    return t.bytes >= 3 && memcmp(t.data + t.bytes - 3, "\xef\xbf\xbd", 3) == 0;
}

/* Is it left out of all text? */
static bool is_silent(const tokenizer *t, uint32_t id, bool special) {
    const added_token *a = added_of(t, id);
    if (a) return a->skipped && !special;
    return id >= t->words.ids || t->words.length[id] == UINT32_MAX;
}

/* What all ids say beyond what the said ones do. */
static status find_new(const tokenizer *t, tokenizer_work *w, const tokenizer_stream *s,
                       tokenizer_text *text) {
    tokenizer_text said;
    TRY(tokenizer_decode(t, w, (tokenizer_ids){ s->ids, s->said }, s->special, &said));
    size_t before = said.bytes;
    TRY(tokenizer_decode(t, w, (tokenizer_ids){ s->ids, s->count }, s->special, text));
    if (text->bytes < before) before = text->bytes;
    text->data += before, text->bytes -= before;
    return STATUS_OK;
}

/* Where something was said, what was said before it is no longer needed. Ids that say nothing yet may still
 * change what follows, so they stay as long as there is room. */
static void forget(tokenizer_stream *s, bool spoke) {
    uint32_t gone = spoke ? s->said : 0, most = TOKENIZER_STREAM_IDS - WAITING - 1;
    if (s->count - gone > most) gone = s->count - most;
    memmove(s->ids, s->ids + gone, (s->count - gone) * sizeof *s->ids);
    s->count -= gone;
    s->said = s->count;
}

status tokenizer_stream_add(const tokenizer *t, tokenizer_work *w, tokenizer_stream *s, uint32_t id,
                            tokenizer_text *text) {
    *text = (tokenizer_text){ .data = "" };
    if (is_silent(t, id, s->special)) return STATUS_OK;
    s->ids[s->count++] = id;
    TRY(find_new(t, w, s, text));
    if (ends_in_half(*text) && s->count - s->said < WAITING)
        text->bytes = 0;
    else
        forget(s, text->bytes > 0);
    return STATUS_OK;
}

status tokenizer_stream_end(const tokenizer *t, tokenizer_work *w, tokenizer_stream *s,
                            tokenizer_text *text) {
    TRY(find_new(t, w, s, text));
    s->count = s->said = 0;
    return STATUS_OK;
}
