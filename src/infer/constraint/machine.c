#include "infer/constraint/machine.h"

#include <string.h>

/* ---- places ---- */

enum {
    AT_VALUE,  /* before a value of `form` */
    AT_FIRST,  /* behind the bracket that opens */
    AT_NAME,   /* behind a comma of an object */
    AT_COLON,  /* behind a name */
    AT_AFTER,  /* behind an item or member */
    AT_TEXT,   /* between two characters of a text; of a name where `form` is the object's */
    AT_ESCAPE, /* behind a backslash */
    AT_HEX,    /* of \u: `first` digits are left; so far they are `small` */
    AT_HALF,   /* behind the first half of a pair: a backslash */
    AT_HALF_U, /* and its u */
    AT_BYTE,   /* within a character: `first` bytes are left, the next one within `small` */
    AT_LITERAL,
    AT_KNOWN, /* in the name of a known property */
    AT_SIGN,  /* behind a minus */
    AT_ZERO,
    AT_WHOLE,
    AT_POINT,
    AT_FRACTION,
    AT_E,
    AT_E_SIGN,
    AT_EXPONENT,
    AT_DONE,
};

enum { HIGH_HALF = 1 /* `last` while digits are read: the second half of a pair must follow */ };

static const schema_form *form_of(const machine *m, uint16_t form) { return &m->schema->forms[form]; }
static const machine_frame *frame_of(const machine *m, uint16_t frame) { return &m->frames[frame]; }
static bool is_list(const machine *m, uint16_t form) { return form_of(m, form)->kind == FORM_ARRAY; }

/* ---- states ---- */

/* Once; where there is no room it goes. */
static void emit(machine_state *to, const machine_thread *t) {
    for (uint32_t i = 0; i < to->count; i++)
        if (memcmp(&to->threads[i], t, sizeof *t) == 0) return;
    if (to->count < MACHINE_THREADS) to->threads[to->count++] = *t;
}

static void emit_at(machine_state *to, uint16_t at, uint16_t form, uint16_t frame) {
    emit(to, &(machine_thread){ .at = at, .form = form, .frame = frame });
}

/* 0: no room. */
static uint16_t add_frame(machine *m, const machine_frame *f) {
    if (m->frame_count == m->room) return 0;
    m->frames[m->frame_count] = *f;
    return (uint16_t)m->frame_count++;
}

static void emit_value_done(const machine *m, uint16_t frame, machine_state *to) {
    if (!frame)
        emit_at(to, AT_DONE, 0, 0);
    else
        emit_at(to, AT_AFTER, frame_of(m, frame)->form, frame);
}

/* ---- where values begin ---- */

static uint32_t depth_in(const machine *m, uint16_t frame) { return frame ? frame_of(m, frame)->depth : 0; }

/* Is there a value of the form within so many objects and lists? */
static bool is_possible(const machine *m, uint16_t form, uint32_t depth) {
    return form_of(m, form)->depth + depth <= SCHEMA_DEPTH;
}

static void open(machine *m, uint16_t form, uint16_t frame, machine_state *to) {
    machine_frame f = { .parent = frame, .form = form, .depth = (uint8_t)(depth_in(m, frame) + 1) };
    uint16_t new = f.depth <= SCHEMA_DEPTH ? add_frame(m, &f) : 0;
    if (new) emit_at(to, AT_FIRST, form, new);
}

static void begin_literal(const machine *m, uint16_t form, uint16_t frame, unsigned char c,
                          machine_state *to);

static void begin_number(uint16_t form, uint16_t frame, unsigned char c, machine_state *to) {
    machine_thread t = { .at = AT_WHOLE, .form = form, .frame = frame, .count = 1 };
    if (c == '-') t.at = AT_SIGN, t.count = 0;
    if (c == '0') t.at = AT_ZERO;
    if (c == '-' || (c >= '0' && c <= '9')) emit(to, &t);
}

/* Any value: true, false and null are read by the letters behind this one. */
static const char *const words[] = { "true", "false", "null" };

static void begin_any(machine *m, uint16_t form, uint16_t frame, unsigned char c, machine_state *to) {
    if (c == '{' || c == '[') {
        /* Its frame remembers by `items` that it is a list, since the form does not say it. */
        machine_frame f = {
            .parent = frame, .form = form, .depth = (uint8_t)(depth_in(m, frame) + 1), .items = c == '['
        };
        uint16_t new = f.depth <= SCHEMA_DEPTH ? add_frame(m, &f) : 0;
        if (new) emit_at(to, AT_FIRST, form, new);
        return;
    }
    if (c == '"') emit_at(to, AT_TEXT, form, frame);
    begin_number(form, frame, c, to);
    for (uint16_t i = 0; i < 3; i++)
        if (words[i][0] == (char)c)
            emit(to,
                 &(machine_thread){ .at = AT_LITERAL, .form = form, .frame = frame, .first = i, .small = 1 });
}

static void begin_value(machine *m, uint16_t form, uint16_t frame, unsigned char c, machine_state *to) {
    const schema_form *f = form_of(m, form);
    if (!is_possible(m, form, depth_in(m, frame))) return;
    switch (f->kind) {
    case FORM_ANY: begin_any(m, form, frame, c, to); return;
    case FORM_OBJECT:
        if (c == '{') open(m, form, frame, to);
        return;
    case FORM_ARRAY:
        if (c == '[') open(m, form, frame, to);
        return;
    case FORM_STRING:
        if (c == '"') emit_at(to, AT_TEXT, form, frame);
        return;
    case FORM_LITERALS: begin_literal(m, form, frame, c, to); return;
    case FORM_EITHER:
        for (uint16_t i = 0; i < f->count; i++) begin_value(m, m->schema->either[f->first + i], frame, c, to);
        return;
    default: begin_number(form, frame, c, to);
    }
}

/* ---- names and literals: a range of sorted texts that begin alike ---- */

static unsigned char byte_at(const machine *m, uint16_t key, uint16_t place) {
    const schema_key *k = &m->schema->keys[key];
    return place < k->length ? (unsigned char)m->schema->text[k->at + place] : 0;
}

/* Those of first .. last - 1 that go on with c. JSON has no zero byte, so the ends come first. */
static bool narrow(const machine *m, machine_thread *t, unsigned char c) {
    if (!c) return false;
    while (t->first < t->last && byte_at(m, t->first, t->small) != c) t->first++;
    uint16_t end = t->first;
    while (end < t->last && byte_at(m, end, t->small) == c) end++;
    t->last = end, t->small++;
    return t->first < t->last;
}

static void emit_literal(const machine *m, machine_thread *t, machine_state *to) {
    if (m->schema->keys[t->first].length == t->small) { /* the shortest of them is whole */
        emit_value_done(m, t->frame, to);
        t->first++;
    }
    if (t->first < t->last) emit(to, t);
}

static void begin_literal(const machine *m, uint16_t form, uint16_t frame, unsigned char c,
                          machine_state *to) {
    const schema_form *f = form_of(m, form);
    machine_thread t = { .at = AT_LITERAL, .form = form, .frame = frame, .first = f->first };
    t.last = (uint16_t)(f->first + f->count);
    if (narrow(m, &t, c)) emit_literal(m, &t, to);
}

static void step_literal(const machine *m, const machine_thread *from, unsigned char c, machine_state *to) {
    machine_thread t = *from;
    if (form_of(m, t.form)->kind == FORM_LITERALS) {
        if (narrow(m, &t, c)) emit_literal(m, &t, to);
        return;
    }
    if (words[t.first][t.small] != (char)c) return;
    t.small++;
    if (words[t.first][t.small])
        emit(to, &t);
    else
        emit_value_done(m, t.frame, to);
}

/* Is one of these properties to be had, neither there already nor too deep? */
static bool any_property(const machine *m, const machine_thread *t) {
    const machine_frame *f = frame_of(m, t->frame);
    for (uint16_t k = t->first; k < t->last; k++)
        if (!(f->seen >> (k - form_of(m, t->form)->first) & 1) &&
            is_possible(m, m->schema->keys[k].form, f->depth))
            return true;
    return false;
}

static bool knows_names(const machine *m, uint16_t form) {
    return form_of(m, form)->kind == FORM_OBJECT && form_of(m, form)->item == SCHEMA_NONE;
}

/* The form of a member of an object whose names are not known. */
static uint16_t member_form(const machine *m, uint16_t form) {
    return form_of(m, form)->kind == FORM_OBJECT ? form_of(m, form)->item : form;
}

static void begin_name(const machine *m, const machine_thread *from, machine_state *to) {
    const schema_form *f = form_of(m, from->form);
    machine_thread t = { .at = AT_TEXT, .form = from->form, .frame = from->frame, .last = 0 };
    if (!knows_names(m, from->form)) {
        t.small = 1; /* a name, not a value */
        if (is_possible(m, member_form(m, t.form), depth_in(m, t.frame))) emit(to, &t);
        return;
    }
    t.at = AT_KNOWN, t.first = f->first, t.last = (uint16_t)(f->first + f->count);
    if (any_property(m, &t)) emit(to, &t);
}

static void end_known(machine *m, const machine_thread *t, machine_state *to) {
    machine_frame f = *frame_of(m, t->frame);
    uint16_t place = (uint16_t)(t->first - form_of(m, t->form)->first), form = m->schema->keys[t->first].form;
    if (m->schema->keys[t->first].length != t->small || f.seen >> place & 1 || !is_possible(m, form, f.depth))
        return;
    f.seen |= UINT64_C(1) << place;
    uint16_t frame = add_frame(m, &f);
    if (frame) emit_at(to, AT_COLON, form, frame);
}

/* Properties have escaped quotes only, so a quote is the end where no property goes on with one. */
static void step_known(machine *m, const machine_thread *from, unsigned char c, machine_state *to) {
    machine_thread t = *from;
    bool escaped = t.count;
    if (c == '"' && !escaped) {
        end_known(m, &t, to);
        return;
    }
    t.count = c == '\\' && !escaped;
    if (narrow(m, &t, c) && any_property(m, &t)) emit(to, &t);
}

/* ---- texts ---- */

static bool is_name(const machine_thread *t) { return t->small; }

static void end_text(const machine *m, const machine_thread *t, machine_state *to) {
    const schema_form *f = form_of(m, t->form);
    if (is_name(t))
        emit_at(to, AT_COLON, member_form(m, t->form), t->frame);
    else if (f->kind != FORM_STRING || t->count >= f->least)
        emit_value_done(m, t->frame, to);
}

static bool has_room(const machine *m, const machine_thread *t) {
    const schema_form *f = form_of(m, t->form);
    return is_name(t) || f->kind != FORM_STRING || t->count < f->most;
}

/* What a thread within a character or escape goes back to keeps whether it is a name in the top bit of
 * `last`. */
enum { NAME = 0x8000 };

static void back_to_text(const machine_thread *from, machine_state *to) {
    machine_thread t = { .at = AT_TEXT, .form = from->form, .frame = from->frame };
    t.small = from->last & NAME ? 1 : 0, t.count = from->count + 1;
    if (t.small) t.count = 0; /* nobody counts those of names */
    emit(to, &t);
}

/* The first byte of a character of several: how many follow, and what the next one may be. */
static void begin_character(machine_thread t, unsigned char c, machine_state *to) {
    uint16_t low = c == 0xe0   ? 0xa0
                   : c == 0xf0 ? 0x90
                               : 0x80,
             high = c == 0xed   ? 0x9f
                    : c == 0xf4 ? 0x8f
                                : 0xbf;
    if (c < 0xc2 || c > 0xf4) return;
    t.at = AT_BYTE, t.first = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3, t.small = (uint16_t)(low << 8 | high);
    emit(to, &t);
}

static void step_text(const machine *m, const machine_thread *from, unsigned char c, machine_state *to) {
    machine_thread t = *from;
    if (c == '"') {
        end_text(m, from, to);
        return;
    }
    if (c < 0x20 || !has_room(m, from)) return;
    t.last = is_name(from) ? NAME : 0, t.small = 0;
    if (c == '\\')
        t.at = AT_ESCAPE, emit(to, &t);
    else if (c >= 0x80)
        begin_character(t, c, to);
    else
        back_to_text(&t, to);
}

static void step_byte(const machine_thread *from, unsigned char c, machine_state *to) {
    machine_thread t = *from;
    if (c < t.small >> 8 || c > (t.small & 0xff)) return;
    t.first--, t.small = 0x80bf;
    if (!t.first)
        back_to_text(&t, to);
    else
        emit(to, &t);
}

static void step_escape(const machine_thread *from, unsigned char c, machine_state *to) {
    machine_thread t = *from;
    if (c == 'u')
        t.at = AT_HEX, t.first = 4, t.small = 0, emit(to, &t);
    else if (c && strchr("\"\\/bfnrt", c))
        back_to_text(&t, to);
}

static int hex(unsigned char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* D8 to DB begin a pair, DC to DF end one, and stand nowhere else. */
static void step_hex(const machine_thread *from, unsigned char c, machine_state *to) {
    machine_thread t = *from;
    int digit = hex(c);
    bool second = t.last & HIGH_HALF;
    if (digit < 0) return;
    t.small = (uint16_t)(t.small << 4 | digit), t.first--;
    if (t.first == 2) {
        bool low = t.small >= 0xdc && t.small <= 0xdf;
        if (low != second) return;
    }
    if (second && t.first == 3 && digit != 0xd) return;
    if (t.first) {
        emit(to, &t);
        return;
    }
    if (!second && t.small >= 0xd800 && t.small <= 0xdbff)
        t.at = AT_HALF, t.small = 0, emit(to, &t);
    else
        back_to_text(&t, to);
}

static void step_half(const machine_thread *from, unsigned char c, machine_state *to) {
    machine_thread t = *from;
    if (t.at == AT_HALF && c == '\\') {
        t.at = AT_HALF_U, emit(to, &t);
    } else if (t.at == AT_HALF_U && c == 'u') {
        t.at = AT_HEX, t.first = 4, t.small = 0, t.last |= HIGH_HALF, emit(to, &t);
    }
}

/* ---- numbers ---- */

static bool is_whole(uint16_t at) {
    return at == AT_ZERO || at == AT_WHOLE || at == AT_FRACTION || at == AT_EXPONENT;
}

/* The place behind one more digit, AT_DONE: none may follow. */
static uint16_t behind_digit(const machine_thread *t, unsigned char c) {
    bool more = t->count < MACHINE_DIGITS;
    switch (t->at) {
    case AT_SIGN: return c == '0' ? AT_ZERO : AT_WHOLE;
    case AT_WHOLE: return more ? AT_WHOLE : AT_DONE;
    case AT_POINT: return AT_FRACTION;
    case AT_FRACTION: return more ? AT_FRACTION : AT_DONE;
    case AT_E:
    case AT_E_SIGN: return AT_EXPONENT;
    case AT_EXPONENT: return t->count < 2 ? AT_EXPONENT : AT_DONE;
    default: return AT_DONE;
    }
}

static void step_number(const machine *m, const machine_thread *from, unsigned char c, machine_state *to) {
    machine_thread t = *from;
    if (c >= '0' && c <= '9') {
        t.at = behind_digit(from, c);
        t.count = t.at == from->at ? t.count + 1 : 1;
        if (t.at != AT_DONE) emit(to, &t);
        return;
    }
    if (form_of(m, t.form)->kind == FORM_INTEGER) return;
    bool whole = t.at == AT_ZERO || t.at == AT_WHOLE;
    t.count = 0;
    if (c == '.' && whole)
        t.at = AT_POINT, emit(to, &t);
    else if ((c == 'e' || c == 'E') && (whole || t.at == AT_FRACTION))
        t.at = AT_E, emit(to, &t);
    else if ((c == '+' || c == '-') && t.at == AT_E)
        t.at = AT_E_SIGN, emit(to, &t);
}

/* ---- around values ---- */

static bool is_blank(unsigned char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static bool frame_is_list(const machine *m, uint16_t frame) {
    const machine_frame *f = frame_of(m, frame);
    return is_list(m, f->form) || (form_of(m, f->form)->kind == FORM_ANY && f->items);
}

static uint16_t item_form(const machine *m, uint16_t form) {
    return is_list(m, form) ? form_of(m, form)->item : form;
}

/* An item begins: its frame counts it, as far as that matters. */
static void begin_item(machine *m, const machine_thread *t, unsigned char c, machine_state *to) {
    machine_frame f = *frame_of(m, t->frame);
    const schema_form *list = form_of(m, f.form);
    uint16_t frame = t->frame;
    if (list->kind == FORM_ARRAY) {
        bool counts = list->most != SCHEMA_ENDLESS || f.items < list->least;
        if (list->most != SCHEMA_ENDLESS && f.items == list->most) return;
        if (!is_possible(m, list->item, f.depth)) return;
        f.items++;
        if (counts && !(frame = add_frame(m, &f))) return;
    }
    begin_value(m, item_form(m, f.form), frame, c, to);
}

static bool may_close(const machine *m, const machine_thread *t) {
    const machine_frame *f = frame_of(m, t->frame);
    const schema_form *form = form_of(m, f->form);
    if (form->kind == FORM_ARRAY) return f->items >= form->least;
    return form->kind != FORM_OBJECT || (form->required & ~f->seen) == 0;
}

static void close_frame(const machine *m, const machine_thread *t, machine_state *to) {
    if (may_close(m, t)) emit_value_done(m, frame_of(m, t->frame)->parent, to);
}

/* Is another item or member to be had? Of lists: not full, and one fits; of objects: a name is left. */
static bool has_more(const machine *m, const machine_thread *t) {
    const machine_frame *f = frame_of(m, t->frame);
    const schema_form *form = form_of(m, f->form);
    if (form->kind == FORM_ARRAY)
        return (form->most == SCHEMA_ENDLESS || f->items < form->most) &&
               is_possible(m, form->item, f->depth);
    if (!knows_names(m, f->form)) return true;
    machine_thread names = { .form = f->form, .frame = t->frame, .first = form->first };
    names.last = (uint16_t)(form->first + form->count);
    return any_property(m, &names);
}

static void step_first(machine *m, const machine_thread *t, unsigned char c, machine_state *to) {
    bool list = frame_is_list(m, t->frame);
    if (c == (list ? ']' : '}'))
        close_frame(m, t, to);
    else if (list)
        begin_item(m, t, c, to);
    else if (c == '"')
        begin_name(m, t, to);
}

static void step_after(const machine *m, const machine_thread *t, unsigned char c, machine_state *to) {
    bool list = frame_is_list(m, t->frame);
    uint16_t form = frame_of(m, t->frame)->form;
    if (c == (list ? ']' : '}'))
        close_frame(m, t, to);
    else if (c == ',' && has_more(m, t))
        emit(to, &(machine_thread){ .at = AT_NAME, .form = form, .frame = t->frame });
}

static void step_next(machine *m, const machine_thread *t, unsigned char c, machine_state *to) {
    if (frame_is_list(m, t->frame))
        begin_item(m, t, c, to);
    else if (c == '"')
        begin_name(m, t, to);
}

static void step_around(machine *m, const machine_thread *from, unsigned char c, machine_state *to) {
    machine_thread t = *from;
    if (is_blank(c)) {
        bool first = t.at == AT_VALUE && !t.frame;
        t.count++;
        if (!first && t.count <= MACHINE_BLANKS) emit(to, &t);
        return;
    }
    switch (t.at) {
    case AT_VALUE: begin_value(m, t.form, t.frame, c, to); return;
    case AT_FIRST: step_first(m, &t, c, to); return;
    case AT_NAME: step_next(m, &t, c, to); return;
    case AT_AFTER: step_after(m, &t, c, to); return;
    default:
        if (c == ':') emit_at(to, AT_VALUE, t.form, t.frame);
    }
}

/* ---- a byte ---- */

static void step(machine *m, const machine_thread *t, unsigned char c, machine_state *to) {
    switch (t->at) {
    case AT_TEXT: step_text(m, t, c, to); return;
    case AT_ESCAPE: step_escape(t, c, to); return;
    case AT_HEX: step_hex(t, c, to); return;
    case AT_HALF:
    case AT_HALF_U: step_half(t, c, to); return;
    case AT_BYTE: step_byte(t, c, to); return;
    case AT_LITERAL: step_literal(m, t, c, to); return;
    case AT_KNOWN: step_known(m, t, c, to); return;
    case AT_DONE: return;
    case AT_VALUE:
    case AT_FIRST:
    case AT_NAME:
    case AT_COLON:
    case AT_AFTER: step_around(m, t, c, to); return;
    default: break;
    }
    step_number(m, t, c, to);
    if (!is_whole(t->at) || !t->frame) return;
    machine_thread behind = { .at = AT_AFTER, .form = frame_of(m, t->frame)->form, .frame = t->frame };
    step_around(m, &behind, c, to); /* a number ends before what is none of it */
}

void machine_begin(machine *m, machine_state *s) {
    m->frame_count = 1;
    s->count = 0;
    emit_at(s, AT_VALUE, m->schema->root, 0);
}

void machine_step(machine *m, const machine_state *from, unsigned char c, machine_state *to) {
    to->count = 0;
    for (uint32_t i = 0; i < from->count; i++) step(m, &from->threads[i], c, to);
}

static bool may_end(const machine_thread *t) { return t->at == AT_DONE || (!t->frame && is_whole(t->at)); }

bool machine_complete(const machine_state *s) {
    for (uint32_t i = 0; i < s->count; i++)
        if (may_end(&s->threads[i])) return true;
    return false;
}

bool machine_over(const machine_state *s) {
    for (uint32_t i = 0; i < s->count; i++)
        if (s->threads[i].at != AT_DONE) return false;
    return true;
}

bool machine_in_text(const machine *m, const machine_thread *t, uint32_t *left) {
    if (t->at != AT_TEXT) return false;
    const schema_form *f = form_of(m, t->form);
    bool bounded = !is_name(t) && f->kind == FORM_STRING && f->most != SCHEMA_ENDLESS;
    *left = bounded ? f->most - t->count : UINT32_MAX;
    return true;
}

/* ---- frames ---- */

/* Parents stand before their children, so frames move down in their order. */
void machine_settle(machine *m, machine_state *s) {
    uint16_t moved[MACHINE_FRAMES] = { 0 };
    for (uint32_t i = 0; i < s->count; i++)
        for (uint16_t f = s->threads[i].frame; f && !moved[f]; f = m->frames[f].parent) moved[f] = 1;
    uint32_t count = 1;
    for (uint32_t i = 1; i < m->frame_count; i++) {
        if (!moved[i]) continue;
        machine_frame f = m->frames[i];
        f.parent = moved[f.parent];
        bool fits = count < MACHINE_KEPT && (!m->frames[i].parent || f.parent);
        moved[i] = fits ? (uint16_t)count : 0;
        if (fits) m->frames[count++] = f;
    }
    m->frame_count = count;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        machine_thread t = s->threads[i];
        if (t.frame && !moved[t.frame]) continue;
        t.frame = t.frame ? moved[t.frame] : 0;
        s->threads[kept++] = t;
    }
    s->count = kept;
}
