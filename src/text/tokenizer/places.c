/* A character is firm if nothing joins it with what is before it, in no normal form, and if what people see
 * as one character ends before it and behind it where its neighbours are firm, whatever else stands around.
 * So a normalizer cuts a text between two firm characters: what it makes of the whole is what it makes of
 * both sides, one behind the other. Those that look at one character cut it anywhere.
 *
 * A place stands between the second and the third of four characters. Each of them, alone, must be there
 * still before each normalizer that looks further, with firm ends. Only the last of those may join: what was
 * joined before is no longer what was seen alone. Then the two in the middle become what they become alone.
 * Blanks are no part of it where something takes blanks at ends, or rows of them, and signs neither that
 * are looked for. Pre-tokenizers look at the two characters at the place alone (part_kind.parts).
 *
 * No added token goes across: none has the two side by side, neither as they are nor as they become. */
#include "text/tokenizer/places.h"

#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer/added.h"
#include "text/tokenizer/hash_words.h"
#include "text/tokenizer/pre_tokenizers.h"
#include "text/tokenizer/unicode.h"

enum {
    TRIES = 4096, /* that are looked at closely in a window */
    APART = 32,   /* places of a word are so much further apart where they are far from its end */
};

/* ---- characters ---- */

static bool is_firm(uint32_t c) {
    if (!work_begins_anew(c)) return false;
    switch (utf8proc_get_property((utf8proc_int32_t)c)->boundclass) {
    case UTF8PROC_BOUNDCLASS_OTHER:
    case UTF8PROC_BOUNDCLASS_CR:
    case UTF8PROC_BOUNDCLASS_LF:
    case UTF8PROC_BOUNDCLASS_CONTROL:
    case UTF8PROC_BOUNDCLASS_LV:
    case UTF8PROC_BOUNDCLASS_LVT:
    case UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC: return true;
    default: return false;
    }
}

static bool is_blank(uint32_t c) { return unicode_is(c, UNICODE_SPACE); }

/* A line break of two characters is seen as one. */
static uint32_t unit_before(span text, uint32_t end) {
    uint32_t at = (uint32_t)unicode_before(text.data, end);
    return at > 0 && text.data[at] == '\n' && text.data[at - 1] == '\r' ? at - 1 : at;
}

static uint32_t unit_end(span text, uint32_t at) {
    bool both = at + 1 < text.bytes && text.data[at] == '\r' && text.data[at + 1] == '\n';
    return at + (both ? 2 : (uint32_t)unicode_bytes((unsigned char)text.data[at]));
}

typedef struct {
    uint32_t first, last;
} ends;

static ends ends_of(span text) {
    size_t length;
    return (ends){ unicode_read(text.data, &length),
                   unicode_read(text.data + unicode_before(text.data, text.bytes), &length) };
}

static bool has_sign(const char *signs, ends e) {
    for (; *signs; signs++)
        if ((unsigned char)*signs == e.first || (unsigned char)*signs == e.last) return true;
    return false;
}

/* Does a normalizer that comes next leave what has these ends alone, as it stands between firm ones? */
static bool may_stand(const part *p, ends e) {
    if (p->kind->reach && !(is_firm(e.first) && is_firm(e.last))) return false;
    if ((p->kind->trims || p->finds_blanks) && (is_blank(e.first) || is_blank(e.last))) return false;
    return !(p->kind->replaces && !p->letter && has_sign(p->finds_signs, e));
}

/* What the normalizers make of it. */
static status see(tokenizer_work *w, span unit, ends *becomes, bool *holds) {
    *holds = false;
    for (uint32_t i = 0; i < w->t->normalizers.count; i++) {
        if (!may_stand(&w->t->normalizers.items[i], ends_of(unit))) return STATUS_OK;
        TRY(work_normalize_by(w, i, &unit));
        if (unit.bytes == 0) return STATUS_OK;
    }
    *becomes = ends_of(unit), *holds = true;
    return STATUS_OK;
}

/* ---- added tokens ---- */

static uint32_t bit_of(uint32_t a, uint32_t b) { return (uint32_t)hash_pair(a, b) & (PLACES_BITS - 1); }

static void remember(tokenizer *t, span token) {
    size_t length;
    uint32_t before = 0;
    for (uint32_t at = 0; at < token.bytes; at += (uint32_t)length) {
        uint32_t point = unicode_read(token.data + at, &length), bit = bit_of(before, point);
        if (at) t->added_pairs[bit / 64] |= (uint64_t)1 << bit % 64;
        before = point;
    }
}

static bool added_may_cross(const tokenizer *t, uint32_t a, uint32_t b) {
    uint32_t bit = bit_of(a, b);
    if (t->eats_before && is_blank(a)) return true;
    if (t->eats_behind && is_blank(b)) return true;
    return (t->added_pairs[bit / 64] >> bit % 64 & 1) != 0;
}

/* ---- places ---- */

typedef enum { NO_PLACE, PARTS, JOINS } place_kind;

static status look(tokenizer_work *w, span text, uint32_t at, place_kind *kind) {
    uint32_t edges[5] = { 0, unit_before(text, at), at, unit_end(text, at) };
    ends becomes[4];
    bool holds = edges[3] < text.bytes;
    *kind = NO_PLACE;
    if (!holds) return STATUS_OK;
    if (edges[1]) edges[0] = unit_before(text, edges[1]);
    edges[4] = unit_end(text, edges[3]);
    span left = { text.data + edges[1], at - edges[1] }, right = { text.data + at, edges[3] - at };
    if (added_may_cross(w->t, ends_of(left).last, ends_of(right).first)) return STATUS_OK;
    for (int i = edges[1] ? 0 : 1; i < 4; i++) {
        TRY(see(w, (span){ text.data + edges[i], edges[i + 1] - edges[i] }, &becomes[i], &holds));
        if (!holds) return STATUS_OK;
    }
    uint32_t a = becomes[1].last, b = becomes[2].first;
    if (added_may_cross(w->t, a, b)) return STATUS_OK;
    *kind = pre_tokenizers_part(w->t, a, b) ? PARTS : JOINS;
    return STATUS_OK;
}

/* Do pieces part here, as the text stands? */
static bool seems_parted(const tokenizer *t, span text, uint32_t before, uint32_t at, uint32_t ends_at) {
    span a = { text.data + before, at - before }, b = { text.data + at, ends_at - at };
    return pre_tokenizers_part(t, ends_of(a).last, ends_of(b).first);
}

/* Places of the word that ends at `end`, from there on backwards. What the text between two of them becomes
 * says how far they are apart in the normalized text. */
static status list_places(tokenizer_work *w, span text, uint32_t end) {
    uint32_t last = end, normal = 0, next = end;
    w->places[0] = (work_place){ 0 }, w->place_count = 1;
    for (uint32_t at = unit_before(text, end); at > 0 && w->place_count < WORK_PLACES;
         next = at, at = unit_before(text, at)) {
        place_kind kind;
        if (seems_parted(w->t, text, unit_before(text, at), at, next)) break;
        if (last - at < (end - at) / APART) continue;
        TRY(look(w, text, at, &kind));
        if (kind != JOINS) continue;
        span between = { text.data + at, last - at };
        TRY(work_normalize(w, &between));
        normal += between.bytes, last = at;
        w->places[w->place_count++] = (work_place){ end - at, normal };
    }
    return STATUS_OK;
}

static status find(tokenizer_work *w, span text, size_t *place, bool *inside) {
    uint32_t joined = 0, tries = 0;
    for (uint32_t end = text.bytes, at = end ? unit_before(text, end) : 0; at > 0 && tries < TRIES;) {
        uint32_t before = unit_before(text, at);
        if (seems_parted(w->t, text, before, at, end) || (!joined && w->t->model.kind->settle)) {
            place_kind kind;
            TRY(look(w, text, at, &kind));
            tries++;
            if (kind == PARTS) return *place = at, STATUS_OK;
            if (kind == JOINS && !joined && w->t->model.kind->settle) joined = at;
        }
        end = at, at = before;
    }
    *place = joined, *inside = joined > 0;
    return joined ? list_places(w, text, joined) : STATUS_OK;
}

status places_find(tokenizer_work *w, span text, size_t *place, bool *inside) {
    *place = 0, *inside = false, w->place_count = 0;
    w->window.goes_on = true; /* nothing is put before what is looked at */
    status result = find(w, text, place, inside);
    w->window.goes_on = false;
    return result;
}

/* ---- which tokenizers ---- */

static bool normalizers_allow(const tokenizer *t) {
    bool joined = false;
    for (uint32_t i = 0; i < t->normalizers.count; i++) {
        const part *p = &t->normalizers.items[i];
        const part_kind *k = p->kind;
        bool replaces = k->replaces && (p->letter || p->finds_blanks || *p->finds_signs);
        if (!k->before_blank && !k->trims && !k->at_beginning && !replaces) return false;
        if (k->reach && joined) return false;
        joined |= k->reach == REACH_JOINS;
    }
    return true;
}

void places_prepare(tokenizer *t) {
    t->takes_places = t->eats_before = t->eats_behind = false;
    memset(t->added_pairs, 0, sizeof t->added_pairs);
    if (t->truncates || !normalizers_allow(t) || !pre_tokenizers_say_parts(t)) return;
    for (uint32_t i = 0; i < t->added_count; i++) {
        const added_token *a = &t->added[i];
        if (a->single_word) return;
        t->eats_before |= a->lstrip, t->eats_behind |= a->rstrip;
        remember(t, a->content);
        remember(t, a->seen);
    }
    t->takes_places = t->pre_tokenizers.count > 0 || t->model.kind->settle;
}
