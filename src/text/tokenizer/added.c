/* Added tokens, as the file lists them: those to be found in the text as it is, and those to be found in what
 * the normalizers make of it, for which the normalizers have a look at the tokens as well.
 *
 * Of those that begin at a place the longest is taken. Lists are ordered by their bytes, so the ones that go
 * on as the text does are a range that gets narrower. */
#include "text/tokenizer/added.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

enum {
    NORMAL_TIMES = 4,
    NORMAL_MORE = 64
}; /* room for a token's normal form: so many times its own, and more */

/* ---- finding ---- */

static span seen_at(const tokenizer *t, const added_list *l, uint32_t place) {
    return t->added[l->order[place]].seen;
}

/* The first place of low .. high where the token has at `depth` a byte of at least `byte`. */
static uint32_t narrow(const tokenizer *t, const added_list *l, uint32_t range[2], uint32_t depth,
                       unsigned byte) {
    uint32_t low = range[0], high = range[1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        span s = seen_at(t, l, middle);
        if (s.bytes <= depth || (unsigned char)s.data[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that the text has at `at`. */
static const added_token *longest(const tokenizer *t, const added_list *l, span text, uint32_t at) {
    const added_token *found = NULL;
    unsigned first = (unsigned char)text.data[at];
    uint32_t range[2] = { l->begins[first], l->begins[first + 1] };
    for (uint32_t depth = 1; range[0] < range[1]; depth++) {
        if (seen_at(t, l, range[0]).bytes == depth) found = &t->added[l->order[range[0]]];
        if (at + depth == text.bytes) break;
        unsigned byte = (unsigned char)text.data[at + depth];
        uint32_t low = narrow(t, l, range, depth, byte);
        range[1] = narrow(t, l, range, depth, byte + 1);
        range[0] = low;
    }
    return found;
}

static bool word_before(span text, uint32_t at) {
    size_t length;
    return at > 0 &&
           unicode_is(unicode_read(text.data + unicode_before(text.data, at), &length), UNICODE_RUST_WORD);
}

static bool word_behind(span text, uint32_t at) {
    size_t length;
    return at < text.bytes && unicode_is(unicode_read(text.data + at, &length), UNICODE_RUST_WORD);
}

/* A token that was found between `start` and `stop`: hands on what is before it, and it. `*done` is up to
 * where the text was handed on. */
static status take_token(const added_token *a, span text, uint32_t at[2], uint32_t *done, added_each *each,
                         void *context) {
    uint32_t start = at[0], stop = at[1];
    if (a->single_word && (word_before(text, start) || word_behind(text, stop))) return STATUS_OK;
    if (a->lstrip) {
        uint32_t earlier = start - (uint32_t)unicode_blanks_last(text.data, start);
        start = earlier > *done ? earlier : *done;
    }
    if (a->rstrip) stop += (uint32_t)unicode_blanks_first(text.data + stop, text.bytes - stop);
    if (*done < start) TRY(each(context, text.data + *done, start - *done, *done, TOKENIZER_NONE));
    TRY(each(context, text.data + start, stop - start, start, a->id));
    *done = stop;
    return STATUS_OK;
}

status added_split(const tokenizer *t, const added_list *list, span text, added_each *each, void *context) {
    uint32_t done = 0;
    for (uint32_t at = 0; list->count && at < text.bytes;) {
        unsigned first = (unsigned char)text.data[at];
        const added_token *a =
            list->begins[first] < list->begins[first + 1] ? longest(t, list, text, at) : NULL;
        if (!a) {
            at++;
            continue;
        }
        uint32_t place[2] = { at, at + a->seen.bytes };
        TRY(take_token(a, text, place, &done, each, context));
        at += a->seen.bytes;
    }
    if (done >= text.bytes) return STATUS_OK;
    return each(context, text.data + done, text.bytes - done, done, TOKENIZER_NONE);
}

/* Does a token of the list begin with all of this, and go on? */
static bool begins_longer(const tokenizer *t, const added_list *l, span with) {
    unsigned first = (unsigned char)with.data[0];
    for (uint32_t i = l->begins[first]; i < l->begins[first + 1]; i++) {
        span s = seen_at(t, l, i);
        if (s.bytes > with.bytes && memcmp(s.data, with.data, with.bytes) == 0) return true;
    }
    return false;
}

size_t added_begun(const tokenizer *t, span text) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].seen.bytes > most) most = t->added[i].seen.bytes;
    for (uint32_t at = text.bytes > most ? text.bytes - most : 0; at < text.bytes; at++) {
        span rest = { text.data + at, text.bytes - at };
        if (begins_longer(t, &t->plain, rest) || begins_longer(t, &t->normal, rest)) return at;
    }
    return text.bytes;
}

/* ---- reading ---- */

static status read_flag(opener *o, const object *in, const char *key, bool *flag) {
    if (!open_go(o, in, key)) return open_wrong(o, "an added token has no '%s'", key);
    return json_reader_bool(&o->json, flag);
}

static status read_token(opener *o, added_token *a, uint64_t *id) {
    object found;
    TRY(open_object(o, &found));
    *a = (added_token){ 0 };
    if (!open_go(o, &found, "id")) return open_wrong(o, "an added token has no 'id'");
    TRY(json_reader_whole(&o->json, id));
    if (!open_go(o, &found, "content")) return open_wrong(o, "an added token has no 'content'");
    TRY(open_text(o, &a->content));
    if (a->content.bytes == 0) return open_wrong(o, "an added token is empty");
    TRY(read_flag(o, &found, "single_word", &a->single_word));
    TRY(read_flag(o, &found, "lstrip", &a->lstrip));
    TRY(read_flag(o, &found, "rstrip", &a->rstrip));
    TRY(read_flag(o, &found, "normalized", &a->normalized));
    TRY(read_flag(o, &found, "special", &a->special));
    a->seen = a->content;
    if (a->normalized && o->t->normalizers.count) {
        uint64_t room = (uint64_t)a->content.bytes * NORMAL_TIMES + NORMAL_MORE;
        a->seen = (span){ open_take(o, room), (uint32_t)room };
    }
    json_reader_go(&o->json, found.end);
    return STATUS_OK;
}

/* The library numbers added tokens itself: what the model knows keeps its id, and others go on behind it. A
 * file that says otherwise would give other ids there than it says. */
static status check_id(opener *o, const added_token *a, uint64_t said, uint32_t *next) {
    char shown[UTF8_QUOTE_BYTES] = { 0 };
    uint32_t id = vocabulary_find(&o->t->words, a->content.data, a->content.bytes);
    if (id == TOKENIZER_NONE) id = (*next)++;
    if (id == said) return STATUS_OK;
    memcpy(shown, a->content.data, a->content.bytes < 60 ? a->content.bytes : 60);
    return open_wrong(o, "the added token '%s' has the id %" PRIu64 ", but its place is %" PRIu32, shown,
                      said, id);
}

static status normalize_token(opener *o, tokenizer_work *w, added_token *a) {
    span text = a->content;
    if (!a->normalized || !o->t->normalizers.count) return STATUS_OK;
    TRY(work_normalize(w, &text));
    if (text.bytes > a->seen.bytes)
        return open_wrong(o, "an added token grows too long when it is normalized");
    memcpy((char *)(uintptr_t)a->seen.data, text.data, text.bytes);
    a->seen.bytes = text.bytes;
    return STATUS_OK;
}

/* ---- orders ---- */

typedef int compare(const tokenizer *t, uint32_t a, uint32_t b);

static int compare_spans(span a, span b) {
    uint32_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? c : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static int by_seen(const tokenizer *t, uint32_t a, uint32_t b) {
    return compare_spans(t->added[a].seen, t->added[b].seen);
}
static int by_content(const tokenizer *t, uint32_t a, uint32_t b) {
    return compare_spans(t->added[a].content, t->added[b].content);
}
static int by_id(const tokenizer *t, uint32_t a, uint32_t b) {
    return (t->added[a].id > t->added[b].id) - (t->added[a].id < t->added[b].id);
}

static void sift(const tokenizer *t, uint32_t *order, uint32_t i, uint32_t n, compare *c) {
    uint32_t value = order[i];
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && c(t, order[child], order[child + 1]) < 0) child++;
        if (c(t, value, order[child]) >= 0) break;
        order[i] = order[child];
    }
    order[i] = value;
}

static void sort(const tokenizer *t, uint32_t *order, uint32_t n, compare *c) {
    for (uint32_t i = n / 2; i-- > 0;) sift(t, order, i, n, c);
    for (uint32_t end = n; end-- > 1;) {
        uint32_t last = order[end];
        order[end] = order[0], order[0] = last;
        sift(t, order, 0, end, c);
    }
}

static void make_list(tokenizer *t, added_list *l, bool normalized) {
    uint32_t at = 0;
    l->count = 0;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].normalized == normalized && t->added[i].seen.bytes) l->order[l->count++] = i;
    sort(t, l->order, l->count, by_seen);
    for (uint32_t byte = 0; byte <= 256; byte++) {
        while (at < l->count && (unsigned char)seen_at(t, l, at).data[0] < byte) at++;
        l->begins[byte] = at;
    }
}

static const added_token *find_content(const tokenizer *t, span content) {
    uint32_t low = 0, high = t->added_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_spans(t->added[t->added_by_content[middle]].content, content) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == t->added_count) return NULL;
    const added_token *a = &t->added[t->added_by_content[low]];
    return compare_spans(a->content, content) == 0 ? a : NULL;
}

static status make_orders(opener *o) {
    tokenizer *t = o->t;
    for (uint32_t i = 0; i < t->added_count; i++) t->added_by_id[i] = t->added_by_content[i] = i;
    sort(t, t->added_by_id, t->added_count, by_id);
    sort(t, t->added_by_content, t->added_count, by_content);
    for (uint32_t i = 1; i < t->added_count; i++)
        if (by_id(t, t->added_by_id[i - 1], t->added_by_id[i]) == 0)
            return open_wrong(o, "two added tokens have the id %" PRIu32, t->added[t->added_by_id[i]].id);
    make_list(t, &t->plain, false);
    make_list(t, &t->normal, true);
    for (uint32_t i = 0; i < t->added_count; i++) { /* the library asks for the text that it would decode */
        const added_token *a = find_content(t, t->added[i].seen);
        t->added[i].skipped = a && a->special;
    }
    return STATUS_OK;
}

/* ---- all of them ---- */

static status count_tokens(opener *o, uint64_t *count) {
    bool more = false, null = true;
    *count = 0;
    if (open_go(o, &o->file, "added_tokens")) TRY(json_reader_null(&o->json, &null));
    if (null) return STATUS_OK;
    TRY(json_reader_expect(&o->json, '['));
    more = !json_reader_take(&o->json, ']');
    for (; more; ++*count) {
        TRY(json_reader_skip(&o->json));
        TRY(json_reader_another(&o->json, ']', &more));
    }
    return *count < UINT32_MAX / 64 ? STATUS_OK : open_wrong(o, "too many added tokens");
}

static status read_tokens(opener *o, uint64_t count) {
    tokenizer *t = o->t;
    uint32_t next = t->scores ? t->words.ids : t->words.count;
    uint64_t id = 0;
    bool more;
    if (count == 0) return STATUS_OK;
    open_go(o, &o->file, "added_tokens");
    TRY(json_reader_expect(&o->json, '['));
    for (uint64_t i = 0; i < count; i++) {
        added_token *a = o->counting ? &o->token_scratch : &t->added[i];
        TRY(read_token(o, a, &id));
        if (!o->counting) TRY(check_id(o, a, id, &next));
        a->id = (uint32_t)id;
        TRY(json_reader_another(&o->json, ']', &more));
    }
    return STATUS_OK;
}

status added_read(opener *o) {
    tokenizer *t = o->t;
    uint64_t count;
    TRY(count_tokens(o, &count));
    t->added = open_take(o, count * sizeof *t->added);
    t->added_by_id = open_take(o, count * sizeof *t->added_by_id);
    t->added_by_content = open_take(o, count * sizeof *t->added_by_content);
    t->plain.order = open_take(o, count * sizeof *t->plain.order);
    t->normal.order = open_take(o, count * sizeof *t->normal.order);
    TRY(read_tokens(o, count));
    if (o->counting) return STATUS_OK;
    t->added_count = (uint32_t)count;
    tokenizer_work *w = NULL;
    status result = tokenizer_work_open(t, &w);
    for (uint32_t i = 0; i < count && result == STATUS_OK; i++) result = normalize_token(o, w, &t->added[i]);
    tokenizer_work_close(w);
    return result == STATUS_OK ? make_orders(o) : result;
}

/* ---- asking ---- */

const added_token *added_of(const tokenizer *t, uint32_t id) {
    uint32_t low = 0, high = t->added_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->added[t->added_by_id[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == t->added_count || t->added[t->added_by_id[low]].id != id) return NULL;
    return &t->added[t->added_by_id[low]];
}

uint32_t tokenizer_id(const tokenizer *t, const char *token, size_t bytes) {
    const added_token *a = bytes < UINT32_MAX ? find_content(t, (span){ token, (uint32_t)bytes }) : NULL;
    return a ? a->id : vocabulary_find(&t->words, token, bytes);
}

const char *tokenizer_token(const tokenizer *t, uint32_t id, size_t *bytes) {
    const added_token *a = added_of(t, id);
    if (a) return *bytes = a->content.bytes, a->content.data;
    if (id >= t->words.ids || t->words.length[id] == UINT32_MAX) return NULL;
    *bytes = t->words.length[id];
    return t->words.text + t->words.start[id];
}

bool tokenizer_is_special(const tokenizer *t, uint32_t id) {
    const added_token *a = added_of(t, id);
    return a && a->special;
}
