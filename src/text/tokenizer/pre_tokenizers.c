/* The pre-tokenizers: each cuts a piece of text, or changes it, and hands what comes out on to the next at
 * once. */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/pre_tokenizers.h"
#include "text/tokenizer/runs.h"
#include "text/tokenizer/spans.h"
#include "text/tokenizer/unicode.h"

/* ---- pieces from matches ---- */

/* What is matched and what is not comes here piece by piece, from left to right; the behavior says which of
 * them are dropped or joined. At most one piece is held back. */
typedef struct {
    tokenizer_work *w;
    const char *text;
    uint32_t stage;
    cut_behavior behavior;
    bool first, invert;
    bool holds, held_match;
    uint32_t start, end; /* of what is held */
    bool open;           /* the text goes on behind what is known */
    uint32_t going;      /* the end of the piece that goes on behind a window's place; UINT32_MAX: none */
} cutter;

static cutter begin_cut(tokenizer_work *w, uint32_t stage, span text, bool first, const part *p) {
    return (cutter){ .w = w,
                     .text = text.data,
                     .stage = stage + 1,
                     .open = w->window.last && !w->window.places,
                     .going = w->window.last && w->window.places ? text.bytes : UINT32_MAX,
                     .behavior = (cut_behavior)p->behavior,
                     .first = first,
                     .invert = p->invert };
}

/* Behind this piece the document may be cut: no later text changes it. */
static status hand_on(const cutter *c, uint32_t start, uint32_t end) {
    c->w->window.last = end == c->going;
    TRY(work_piece(c->w, c->stage, (span){ c->text + start, end - start }, c->first && start == 0));
    if (!c->open) return STATUS_OK;
    c->w->window.last = true;
    work_decide(c->w, c->text + end, false);
    return STATUS_OK;
}

static status let_go(cutter *c) {
    if (!c->holds) return STATUS_OK;
    c->holds = false;
    return hand_on(c, c->start, c->end);
}

/* Does the piece belong to the one that is held? */
static bool joins(const cutter *c, bool match) {
    switch (c->behavior) {
    case CUT_PREVIOUS: return match && !c->held_match;
    case CUT_NEXT: return !match && c->held_match;
    case CUT_CONTIGUOUS: return match == c->held_match;
    default: return false;
    }
}

static status cut(cutter *c, size_t start, size_t end, bool match) {
    if (c->invert) match = !match;
    if (c->behavior == CUT_REMOVED && match) return STATUS_OK;
    if (c->behavior <= CUT_ISOLATED) return hand_on(c, (uint32_t)start, (uint32_t)end);
    if (c->holds && joins(c, match)) {
        c->end = (uint32_t)end;
        c->held_match = match;
        /* a match and what follows it are one piece, which takes no more */
        return c->behavior == CUT_NEXT ? let_go(c) : STATUS_OK;
    }
    TRY(let_go(c));
    if (c->behavior == CUT_NEXT && !match) return hand_on(c, (uint32_t)start, (uint32_t)end);
    c->start = (uint32_t)start, c->end = (uint32_t)end;
    c->holds = true, c->held_match = match;
    return STATUS_OK;
}

static bool cuts_no_more(const tokenizer *t, uint32_t stage) {
    for (; stage < t->pre_tokenizers.count; stage++)
        if (t->pre_tokenizers.items[stage].find) return false;
    return true;
}

/* What is behind the last certain match. Up to where a match has begun nothing is matched; and where it
 * begins at once, it may still end anywhere, which only the model can bear (runs_inside), unless it is a run.
 */
static status cut_open(const cutter *c, const pattern *find, uint32_t done, const pattern_walk *walk) {
    const tokenizer *t = c->w->t;
    span rest = { c->text + done, (uint32_t)walk->bytes - done };
    if (!pre_tokenizers_take_open(t, c->stage)) return STATUS_OK;
    if (walk->begun != SIZE_MAX && walk->begun > done)
        rest.bytes = (uint32_t)walk->begun - done;
    else if (walk->begun != SIZE_MAX && !cuts_no_more(t, c->stage) && !runs_all(pattern_runs(find), rest))
        return STATUS_OK;
    return work_piece(c->w, c->stage, rest, c->first && done == 0);
}

static status cut_pattern(cutter *c, const pattern *find, span text) {
    pattern_walk walk = pattern_begin(find, c->w->match, text.data, text.bytes);
    size_t done = 0, start, end;
    bool found;
    walk.open = c->open;
    for (;;) {
        TRY(pattern_next(&walk, &found, &start, &end));
        if (!found) break;
        if (start != done) TRY(cut(c, done, start, false));
        TRY(cut(c, start, end, true));
        done = end;
    }
    if (c->open && done != text.bytes) return cut_open(c, find, (uint32_t)done, &walk);
    if (done != text.bytes && !c->open) TRY(cut(c, done, text.bytes, false));
    return let_go(c);
}

/* Every character that `is` says yes to is a match of its own. */
typedef bool is_match(const part *p, uint32_t point);

static status cut_points(cutter *c, const part *p, span text, is_match *is) {
    size_t done = 0, length;
    for (size_t at = 0; at < text.bytes; at += length) {
        if (!is(p, unicode_read(text.data + at, &length))) continue;
        if (done < at) TRY(cut(c, done, at, false));
        TRY(cut(c, at, at + length, true));
        done = at + length;
    }
    if (done < text.bytes) TRY(cut(c, done, text.bytes, false));
    return let_go(c);
}

static status by_points(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first,
                        is_match *is) {
    cutter c = begin_cut(w, stage, text, first, p);
    return cut_points(&c, p, text, is);
}

/* ---- those that cut ---- */

static status split(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    cutter c = begin_cut(w, stage, text, first, p);
    return cut_pattern(&c, p->find, text);
}

static bool is_blank(const part *p, uint32_t point) {
    (void)p;
    return unicode_is(point, UNICODE_SPACE);
}
static status whitespace_split(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    return by_points(p, w, stage, text, first, is_blank);
}

static bool is_punctuation(const part *p, uint32_t point) {
    (void)p;
    return unicode_is(point, UNICODE_PUNCTUATION);
}
static status punctuation(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    return by_points(p, w, stage, text, first, is_punctuation);
}

static bool is_numeric(const part *p, uint32_t point) {
    (void)p;
    return unicode_is(point, UNICODE_NUMERIC);
}
static status digits(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    part as = { .behavior = p->individual ? CUT_ISOLATED : CUT_CONTIGUOUS };
    return by_points(&as, w, stage, text, first, is_numeric);
}

static bool is_letter(const part *p, uint32_t point) { return point == p->letter; }
static status delimiter(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    return by_points(p, w, stage, text, first, is_letter);
}

/* Runs of what is of a word, and of what is neither that nor blank. */
static status whitespace(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    cutter c = begin_cut(w, stage, text, first, p);
    unsigned before = UNICODE_SPACE;
    size_t begin = 0, length;
    for (size_t at = 0; at < text.bytes; at += length) {
        unsigned flags = unicode_of(unicode_read(text.data + at, &length))->flags;
        unsigned now = flags & UNICODE_RUST_WORD ? UNICODE_RUST_WORD : flags & UNICODE_SPACE;
        if (now == before) continue;
        if (before != UNICODE_SPACE) TRY(hand_on(&c, (uint32_t)begin, (uint32_t)at));
        begin = at, before = now;
    }
    return before == UNICODE_SPACE ? STATUS_OK : hand_on(&c, (uint32_t)begin, text.bytes);
}

/* Blanks are removed, then punctuation is cut off. */
static status bert(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    cutter c = begin_cut(w, stage, text, first, p);
    size_t begin = 0, length;
    for (size_t at = 0; at < text.bytes; at += length) {
        unsigned flags = unicode_of(unicode_read(text.data + at, &length))->flags;
        if (!(flags & (UNICODE_SPACE | UNICODE_PUNCTUATION))) continue;
        TRY(hand_on(&c, (uint32_t)begin, (uint32_t)at));
        if (!(flags & UNICODE_SPACE)) TRY(hand_on(&c, (uint32_t)at, (uint32_t)(at + length)));
        begin = at + length;
    }
    return hand_on(&c, (uint32_t)begin, text.bytes);
}

static status fixed_length(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    cutter c = begin_cut(w, stage, text, first, p);
    uint32_t begin = 0, at = 0;
    for (uint64_t n = 0; at < text.bytes; at += (uint32_t)unicode_bytes((unsigned char)text.data[at])) {
        if (n == p->length) {
            TRY(hand_on(&c, begin, at));
            begin = at, n = 0;
        }
        n++;
    }
    return hand_on(&c, begin, text.bytes);
}

/* A new piece begins where the script changes; blanks and what belongs to all scripts change nothing. What is
 * before the first script is a piece of its own in the library as well, and dropped there: the text begins
 * with the first character that has one. */
static status unicode_scripts(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    cutter c = begin_cut(w, stage, text, first, p);
    uint32_t begin = UINT32_MAX;
    unsigned last = 0;
    size_t length;
    for (uint32_t at = 0; at < text.bytes; at += (uint32_t)length) {
        unsigned now = unicode_of(unicode_read(text.data + at, &length))->sentence;
        if (now == 0 || now == last) continue;
        if (begin != UINT32_MAX) TRY(hand_on(&c, begin, at));
        begin = at, last = now;
    }
    return begin == UINT32_MAX ? STATUS_OK : hand_on(&c, begin, text.bytes);
}

/* ---- what they part ---- */

static bool part_by(const part *p, bool a, bool b) {
    switch ((cut_behavior)p->behavior) {
    case CUT_PREVIOUS: return a;
    case CUT_NEXT: return b;
    case CUT_CONTIGUOUS: return a != b;
    default: return a || b;
    }
}

static bool blanks_part(const part *p, uint32_t a, uint32_t b) {
    return part_by(p, is_blank(p, a), is_blank(p, b));
}

static bool punctuation_parts(const part *p, uint32_t a, uint32_t b) {
    return part_by(p, is_punctuation(p, a), is_punctuation(p, b));
}

static bool digits_part(const part *p, uint32_t a, uint32_t b) {
    bool is_a = is_numeric(p, a), is_b = is_numeric(p, b);
    return p->individual ? is_a || is_b : is_a != is_b;
}

static bool delimiter_parts(const part *p, uint32_t a, uint32_t b) {
    return part_by(p, is_letter(p, a), is_letter(p, b));
}

static bool metaspace_parts(const part *p, uint32_t a, uint32_t b) {
    (void)a;
    return b == ' ' || b == p->letter;
}

static bool words_part(const part *p, uint32_t a, uint32_t b) {
    unsigned of_a = unicode_of(a)->flags, of_b = unicode_of(b)->flags;
    (void)p;
    return ((of_a | of_b) & UNICODE_SPACE) || ((of_a ^ of_b) & UNICODE_RUST_WORD);
}

static bool bert_parts(const part *p, uint32_t a, uint32_t b) {
    (void)p;
    return unicode_is(a, UNICODE_SPACE | UNICODE_PUNCTUATION) ||
           unicode_is(b, UNICODE_SPACE | UNICODE_PUNCTUATION);
}

/* ---- those that change ---- */

/* ByteLevel's letters; where it is the last and the model is BPE, that takes the bytes as they are. */
static status write_letters(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    (void)p;
    uint32_t next = stage + 1;
    if (w->t->direct_bytes && next == w->t->pre_tokenizers.count) return work_piece(w, next, text, first);
    buffer *b = &w->stages[stage];
    b->used = 0;
    TRY(work_room(w, b, 2 * (size_t)text.bytes));
    for (uint32_t i = 0; i < text.bytes; i++)
        b->used += byte_letters_write((unsigned char)text.data[i], b->data + b->used);
    if (w->spans.on) TRY(spans_letters(w, b, text));
    return work_piece(w, next, (span){ b->data, (uint32_t)b->used }, first);
}

/* Two stages in the list: this one, with the blank before the first word and the pattern, and write_letters.
 */
static status byte_level(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    buffer *b = &w->stages[stage];
    if (p->prefix_space && text.data[0] != ' ' && !(stage == 0 && w->window.goes_on)) {
        b->used = 0;
        TRY(work_put_before(w, b, (span){ " ", 1 }, text));
        text = (span){ b->data, (uint32_t)b->used };
        if (w->window.last) w->window.copy = text.data + 1; /* only a first stage is open and puts one */
    }
    if (!p->use_regex) return work_piece(w, stage + 1, text, first);
    cutter c = begin_cut(w, stage, text, first, p);
    return cut_pattern(&c, p->find, text);
}

static bool starts_with(span text, span with) {
    return text.bytes >= with.bytes && memcmp(text.data, with.data, with.bytes) == 0;
}

static status metaspace(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first) {
    buffer *b = &w->stages[stage];
    b->used = 0;
    bool begins = text.data[0] == ' ' || starts_with(text, p->content);
    if (!begins && !w->window.within &&
        (p->scheme == PREPEND_ALWAYS || (p->scheme == PREPEND_FIRST && first)))
        TRY(work_add(w, b, p->content.data, p->content.bytes));
    if (w->spans.on) TRY(spans_made(w, b, 0, spans_origin(w, text.data)));
    for (uint32_t at = 0, end; at < text.bytes; at = end + 1) {
        for (end = at; end < text.bytes && text.data[end] != ' '; end++) {}
        TRY(work_add(w, b, text.data + at, end - at));
        if (w->spans.on) TRY(spans_copied(w, b, text.data + at, end - at));
        if (end == text.bytes) break;
        TRY(work_add(w, b, p->content.data, p->content.bytes));
        if (w->spans.on) TRY(spans_made(w, b, b->used - p->content.bytes, spans_origin(w, text.data + end)));
    }
    span all = { b->data, (uint32_t)b->used };
    return p->split ? by_points(p, w, stage, all, first, is_letter) : work_piece(w, stage + 1, all, first);
}

/* ---- what is read for them ---- */

static const char *const behaviors[] = { "Removed",        "Isolated",   "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous", NULL };
static const char *const schemes[] = { "first", "never", "always", NULL };

/* The pattern of GPT-2 (github.com/openai/gpt-2, src/encoder.py). */
static const char gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static status check_byte_level(opener *o, part *p) {
    return p->use_regex ? open_pattern(o, gpt2, sizeof gpt2 - 1, &p->find) : STATUS_OK;
}

static status check_metaspace(opener *o, part *p) {
    char bytes[4], *to;
    if (p->old_prefix_space == false && p->scheme != PREPEND_NEVER)
        return open_wrong(o, "'add_prefix_space' and 'prepend_scheme' contradict each other");
    p->content.bytes = (uint32_t)utf8_encode(p->letter, bytes);
    to = open_take(o, sizeof bytes);
    if (to) memcpy(to, bytes, sizeof bytes);
    p->content.data = to;
    return STATUS_OK;
}

static status check_length(opener *o, part *p) {
    return p->length ? STATUS_OK : open_wrong(o, "pieces of length 0");
}

static const part_field split_fields[] = { { PART_FIELD("pattern", FIELD_PATTERN, find), .required = true },
                                           { PART_FIELD("behavior", FIELD_CHOICE, behavior), .required = true,
                                             .choices = behaviors },
                                           { PART_FIELD("invert", FIELD_BOOL, invert), .required = true },
                                           { 0 } };
static const part_field byte_level_fields[] = { { PART_FIELD("add_prefix_space", FIELD_BOOL, prefix_space),
                                                  .required = true },
                                                { PART_FIELD("use_regex", FIELD_BOOL, use_regex) },
                                                { 0 } };
static const part_field metaspace_fields[] = {
    { PART_FIELD("replacement", FIELD_LETTER, letter), .required = true },
    { PART_FIELD("add_prefix_space", FIELD_MAYBE, old_prefix_space) },
    { PART_FIELD("prepend_scheme", FIELD_CHOICE, scheme), .choices = schemes },
    { PART_FIELD("split", FIELD_MAYBE, split) },
    { 0 }
};
static const part_field punctuation_fields[] = {
    { PART_FIELD("behavior", FIELD_CHOICE, behavior), .choices = behaviors }, { 0 }
};
static const part_field digits_fields[] = {
    { PART_FIELD("individual_digits", FIELD_BOOL, individual), .required = true }, { 0 }
};
static const part_field delimiter_fields[] = {
    { PART_FIELD("delimiter", FIELD_LETTER, letter), .required = true }, { 0 }
};
static const part_field length_fields[] = { { PART_FIELD("length", FIELD_WHOLE, length) }, { 0 } };

/* The second half of ByteLevel, a stage of its own. */
static const part_kind letters = { .name = "ByteLevel", .cut = write_letters };

static const part_kind kinds[] = {
    { .name = "ByteLevel",
      .fields = byte_level_fields,
      .init = { .use_regex = true, .behavior = CUT_ISOLATED },
      .check = check_byte_level,
      .cut = byte_level,
      .then = &letters },
    { .name = "Split", .fields = split_fields, .cut = split },
    { .name = "Metaspace",
      .fields = metaspace_fields,
      .init = { .scheme = PREPEND_ALWAYS, .split = true, .behavior = CUT_NEXT, .old_prefix_space = UNSAID },
      .check = check_metaspace,
      .cut = metaspace,
      .parts = metaspace_parts },
    { .name = "Whitespace", .cut = whitespace, .parts = words_part },
    { .name = "WhitespaceSplit",
      .init = { .behavior = CUT_REMOVED },
      .cut = whitespace_split,
      .parts = blanks_part },
    { .name = "BertPreTokenizer", .cut = bert, .parts = bert_parts },
    { .name = "Punctuation",
      .fields = punctuation_fields,
      .init = { .behavior = CUT_ISOLATED },
      .cut = punctuation,
      .parts = punctuation_parts },
    { .name = "Digits", .fields = digits_fields, .cut = digits, .parts = digits_part },
    { .name = "UnicodeScripts", .cut = unicode_scripts },
    { .name = "CharDelimiterSplit",
      .fields = delimiter_fields,
      .init = { .behavior = CUT_REMOVED },
      .cut = delimiter,
      .parts = delimiter_parts },
    { .name = "FixedLength",
      .fields = length_fields,
      .init = { .length = 5 },
      .check = check_length,
      .cut = fixed_length },
};
const part_kind *const pre_tokenizer_kinds[] = { &kinds[0], &kinds[1], &kinds[2],  &kinds[3],
                                                 &kinds[4], &kinds[5], &kinds[6],  &kinds[7],
                                                 &kinds[8], &kinds[9], &kinds[10], NULL };

bool pre_tokenizers_end_in_bytes(const tokenizer *t) {
    const part_list *l = &t->pre_tokenizers;
    return l->count && l->items[l->count - 1].kind == &letters;
}

static bool isolates(const part *p) {
    return p->find && !pattern_looks_back(p->find) && p->behavior == CUT_ISOLATED && !p->invert;
}

bool pre_tokenizers_take_open(const tokenizer *t, uint32_t stage) {
    if (stage == t->pre_tokenizers.count) return true;
    const part *p = &t->pre_tokenizers.items[stage];
    if (p->kind == &letters) return t->direct_bytes;
    return !p->prefix_space && (isolates(p) || (p->kind == &kinds[0] && !p->use_regex));
}

/* A first stage that isolates what a pattern matches, from left to right and without looking back;
 * normalizers that can be cut before ASCII; added tokens that don't look around themselves. */
bool pre_tokenizers_take_windows(const tokenizer *t) {
    const part_list *l = &t->pre_tokenizers;
    if (!l->count || !isolates(&l->items[0]) || t->truncates) return false;
    for (uint32_t i = 0; i < t->normalizers.count; i++)
        if (!t->normalizers.items[i].kind->before_ascii) return false;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].single_word || t->added[i].lstrip || t->added[i].rstrip) return false;
    return true;
}

bool pre_tokenizers_end_before_blank(const tokenizer *t) {
    if (!t->pre_tokenizers.count) return false;
    const part *p = &t->pre_tokenizers.items[0];
    if (p->kind->cut == metaspace) return p->split;
    return p->kind->cut == whitespace || p->kind->cut == whitespace_split || p->kind->cut == bert;
}

bool tokenizer_takes_windows(const tokenizer *t) {
    return t->takes_windows || t->takes_cuts || t->takes_blanks || t->takes_places;
}

bool pre_tokenizers_say_parts(const tokenizer *t) {
    for (uint32_t i = 0; i < t->pre_tokenizers.count; i++) {
        const part *p = &t->pre_tokenizers.items[i];
        if (!p->kind->parts) return false;
        if (p->kind->cut == metaspace && (!p->split || i + 1 < t->pre_tokenizers.count)) return false;
    }
    return true;
}

bool pre_tokenizers_part(const tokenizer *t, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < t->pre_tokenizers.count; i++)
        if (t->pre_tokenizers.items[i].kind->parts(&t->pre_tokenizers.items[i], a, b)) return true;
    return false;
}
