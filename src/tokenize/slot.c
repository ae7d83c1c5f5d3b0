#include "tokenize/slot.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "text/template/template_json.h"

/* ---- memory ---- */

static bool is_text(const frame *f) {
    return f->data->kind == SOURCE_TEXT || (f->data->kind == SOURCE_PAIR && !f->masks);
}

static bool in_windows(const frame *f) { return is_text(f) && tokenizer_takes_windows(f->tokenizer); }

static uint64_t window_bytes(const frame *f) { return (uint64_t)SLOT_WINDOW * f->scale; }

/* What is not cut is whole in a slot, behind others that are. A record of several strings never is. */
static uint64_t bytes_room(const frame *f, uint64_t longest) {
    bool cut = in_windows(f) && f->data->kind == SOURCE_TEXT;
    uint64_t most = (uint64_t)SLOT_LONG_TEXT * f->scale, whole = cut && longest > most ? most : longest;
    return units_align(SLOT_BYTES + sizeof(document_record) + whole, 64);
}

/* A value for each string and item of a list, and one for the list. */
static uint64_t value_room(const frame *f, uint64_t longest) {
    if (f->data->kind != SOURCE_MESSAGES) return 0;
    return (longest / sizeof(document_string) + 1) * sizeof(template_value);
}

static uint64_t made_room(const frame *f) {
    return SLOT_TOKENS * (f->width + (uint64_t)f->masks) + SLOT_DOCUMENTS * sizeof(uint64_t);
}

static size_t at_most(uint64_t bytes, size_t most) { return bytes < most ? (size_t)bytes : most; }

/* Values took 5 to 9 bytes for one of a chat in JSON, 8 to 15 with tools, and 21 where a template writes
 * these with line ends and blanks between (`tojson(indent=4)`), which doubles the text. */
template_options slot_rendering(const frame *f, uint64_t longest) {
    enum { VALUES = 24, TEXT = 4, AROUND = 256 << 10, AROUND_TEXT = 64 << 10 };
    template_options o = { .memory = at_most((AROUND + VALUES * longest) * f->scale, TEMPLATE_MEMORY),
                           .output = at_most((AROUND_TEXT + TEXT * longest) * f->scale, TEMPLATE_OUTPUT) };
    o.may_grow = o.memory < TEMPLATE_MEMORY || o.output < TEMPLATE_OUTPUT;
    return o;
}

static uint64_t rendered_room(const frame *f, uint64_t longest) {
    return f->data->kind == SOURCE_MESSAGES ? TEMPLATE_OUTPUT_ROOM(slot_rendering(f, longest).output) : 0;
}

uint64_t slot_bytes(const frame *f, uint64_t longest) {
    return rendered_room(f, longest) + bytes_room(f, longest) + value_room(f, longest) + f->values +
           made_room(f) + SLOT_DOCUMENTS * sizeof(slot_document);
}

/* Seen for one byte of text (bench/results/tokenize.md): 3 to 8 bytes where the tokenizer cuts words, 20 to
 * 60 where it sees one long word, whose list of merges grows with it. With places: 15 to 50, and up to 130.
 * Letters that normal forms write as eighteen took up to 450: for such there is a larger scale. */
uint64_t slot_work_bytes(const frame *f, const tokenizer_work *w, uint64_t longest) {
    enum { PLAIN = 32, PLACED = 64 };
    uint64_t most = window_bytes(f), each = f->masks ? PLACED : PLAIN;
    if (!in_windows(f)) most = longest < SLOT_WINDOW ? SLOT_WINDOW : longest, each *= f->scale;
    return tokenizer_work_bytes(w) + most * each;
}

status slot_open(const frame *f, uint64_t longest, slot *s) {
    s->of = f;
    s->room = bytes_room(f, longest);
    s->bytes = memory_room(s->room, 1);
    s->documents = memory_room(SLOT_DOCUMENTS, sizeof *s->documents);
    s->values = value_room(f, longest) ? memory_room(value_room(f, longest), 1) : NULL;
    s->json = f->values ? memory_room(f->values, 1) : NULL;
    s->tokens = memory_room(SLOT_TOKENS, f->width);
    s->learned = f->masks ? memory_room(SLOT_TOKENS, 1) : NULL;
    s->ends = memory_room(SLOT_DOCUMENTS, sizeof *s->ends);
    bool all = s->bytes && s->documents && s->tokens && s->ends && (s->learned || !f->masks) &&
               (s->values || !value_room(f, longest)) && (s->json || !f->values);
    return all ? STATUS_OK
               : status_set(STATUS_NO_FIT, "no memory for the %llu bytes that a thread works in",
                            (unsigned long long)slot_bytes(f, longest));
}

void slot_close(slot *s) {
    memory_free(s->bytes);
    memory_free(s->documents);
    memory_free(s->values);
    memory_free(s->json);
    memory_free(s->tokens);
    memory_free(s->learned);
    memory_free(s->ends);
    template_output_close(&s->rendered);
    chat_close(s->chat);
    tokenizer_work_close(s->work);
    *s = (slot){ 0 };
}

/* ---- filling ---- */

static status not_cut(uint64_t bytes) {
    char text[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT,
                      "the tokenizer finds no place to cut %s of its text, and there is no room for more",
                      units_bytes_text(bytes, text));
}

status slot_begin(slot *s, const slot *before) {
    const slot_document *last = before && before->count ? &before->documents[before->count - 1] : NULL;
    uint64_t rest = 0;
    slot_document going = { 0 };
    if (last && last->goes_on) {
        going = *last;
        rest = last->end - last->begin - before->taken;
        if (rest > s->room / 2) return sources_prefix(s->of->data, last->place, not_cut(rest));
        memmove(s->bytes, before->bytes + last->end - rest, rest);
        s->state = before->state, s->document_tokens = before->document_tokens;
    }
    s->used = rest, s->count = going.goes_on, s->at = 0, s->taken = 0;
    s->part = going.goes_on ? SLOT_INSIDE : SLOT_BEFORE, s->answering = false;
    s->documents[0] = (slot_document){ .end = rest, .place = going.place };
    s->found = (frame_ids){ 0 }, s->put = s->range = 0;
    s->made = s->ended = 0, s->empty = s->longest = 0;
    s->done = false, s->result = STATUS_OK;
    return STATUS_OK;
}

bool slot_takes(const slot *s, uint64_t bytes) {
    if (s->count == 0) return true;
    return !s->documents[s->count - 1].goes_on && s->count < SLOT_DOCUMENTS && s->used < SLOT_BYTES &&
           units_align(s->used, 8) + bytes <= s->room;
}

void slot_add_document(slot *s, source_place place) {
    s->used = units_align(s->used, 8);
    s->documents[s->count++] = (slot_document){ .begin = s->used, .end = s->used, .place = place };
}

uint32_t slot_add(slot *s, const char *bytes, uint32_t count) {
    slot_document *d = &s->documents[s->count - 1];
    uint32_t n = s->room - s->used < count ? (uint32_t)(s->room - s->used) : count;
    if (n) memcpy(s->bytes + s->used, bytes, n);
    s->used += n, d->end += n;
    d->goes_on = n < count;
    return n;
}

uint64_t slot_record_bytes(const document_record *r) {
    uint64_t bytes = sizeof *r + r->count * sizeof *r->strings;
    for (uint32_t i = 0; i < r->count; i++) {
        const document_string *x = &r->strings[i];
        bytes += x->count + (x->member ? strlen(x->member) + 1 : 0);
    }
    return bytes;
}

static const char *keep_bytes(slot *s, const char *bytes, uint64_t count) {
    char *kept = s->bytes + s->used;
    if (count) memcpy(kept, bytes, count);
    s->used += count;
    return kept;
}

/* The record as it is, with its strings behind it. */
static void add_messages(slot *s, const document_record *r) {
    document_record *kept = (void *)(s->bytes + s->used);
    document_string *strings = (void *)(kept + 1);
    *kept = *r;
    kept->strings = strings;
    s->used += sizeof *kept + r->count * sizeof *strings;
    for (uint32_t i = 0; i < r->count; i++) {
        strings[i] = r->strings[i];
        strings[i].bytes = keep_bytes(s, strings[i].bytes, strings[i].count);
        if (strings[i].member)
            strings[i].member = keep_bytes(s, strings[i].member, strlen(strings[i].member) + 1);
    }
}

/* The prompt first, however the columns stand. */
static void add_pair(slot *s, const document_record *r) {
    slot_document *d = &s->documents[s->count - 1];
    for (uint32_t column = 0; column < 2; column++) {
        for (uint32_t i = 0; i < r->count; i++)
            if (r->strings[i].column == column) keep_bytes(s, r->strings[i].bytes, r->strings[i].count);
        if (column == 0) d->edge = s->used - d->begin;
    }
}

void slot_add_record(slot *s, const document_record *r, source_place place) {
    slot_add_document(s, place);
    if (s->of->data->kind == SOURCE_PAIR)
        add_pair(s, r);
    else
        add_messages(s, r);
    s->documents[s->count - 1].end = s->used;
}

/* ---- chats ---- */

/* A string that holds JSON, as its value: there is room for all of a record. `name` is for sentences. */
static status json_value(slot *s, const document_string *x, const char *name, template_value *v) {
    json_source source = json_source_memory(x->bytes, x->count, name, "its JSON");
    template_json *j;
    TRY(template_json_place(&source, s->json + s->json_used, s->of->values - s->json_used, &j));
    s->json_used += template_json_bytes(j);
    *v = *template_json_value(j);
    return STATUS_OK;
}

static void set_text(template_value *v, const char *bytes, uint64_t count) {
    *v = (template_value){ .kind = TEMPLATE_TEXT, .text = { bytes, count } };
}

/* Names of roles that chats of another form have, for those of templates. */
static void translate_role(const slot *s, const document_string *x, template_value *v) {
    static const char *const names[][2] = { { "human", "user" }, { "gpt", "assistant" } };
    for (size_t i = 0; i < 2 && strcmp(s->of->data->role, "role") != 0; i++)
        if (x->count == strlen(names[i][0]) && memcmp(x->bytes, names[i][0], x->count) == 0)
            set_text(v, names[i][1], strlen(names[i][1]));
}

static status member_value(slot *s, const document_string *x, template_value *v) {
    bool role = strcmp(x->member, s->of->data->role) == 0,
         content = strcmp(x->member, s->of->data->content) == 0;
    set_text(v, x->bytes, x->count);
    if (x->json) TRY(json_value(s, x, x->member, v));
    if (role) translate_role(s, x, v);
    v->key = role ? "role" : content ? "content" : x->member;
    v->key_length = strlen(v->key);
    return STATUS_OK;
}

static uint32_t messages_in(const document_record *r) {
    return r->items[SOURCE_CHAT] + r->items[SOURCE_ANSWER];
}

/* Items stand first, those of the completion behind those of the prompt, then the members of each of them.
 * Strings of a column stand together, those of an item in turn. */
static status messages_of(slot *s, const document_record *r, template_value *out) {
    static const uint16_t columns[] = { SOURCE_CHAT, SOURCE_ANSWER };
    uint32_t items = messages_in(r);
    template_value *item = s->values, *member = item + items;
    for (size_t c = 0; c < 2; c++)
        for (uint32_t i = 0, at = 0; i < r->items[columns[c]]; i++) {
            template_value *first = member;
            while (at < r->count && (r->strings[at].column != columns[c] || r->strings[at].item < i)) at++;
            for (; at < r->count && r->strings[at].column == columns[c] && r->strings[at].item == i; at++)
                TRY(member_value(s, &r->strings[at], member++));
            *item++ = template_value_many(TEMPLATE_OBJECT, first, (size_t)(member - first));
        }
    *out = template_value_many(TEMPLATE_LIST, s->values, items);
    return STATUS_OK;
}

/* JSON, or a string that holds it, as libraries of data keep it; an empty one holds none. */
static status tools_of(slot *s, const document_record *r, template_value *out) {
    *out = (template_value){ .kind = TEMPLATE_NONE };
    for (uint32_t i = 0; i < r->count; i++) {
        const document_string *x = &r->strings[i];
        if (x->column == SOURCE_TOOLS && x->count)
            TRY(json_value(s, x, s->of->data->columns[SOURCE_TOOLS].name, out));
    }
    return STATUS_OK;
}

/* What a prompt's messages say is not learned again. A chat without an answer would be read in vain. */
static status mark_learned(slot *s, const document_record *r) {
    const template_output *out = &s->rendered;
    bool answered = s->of->data->column_count <= SOURCE_ANSWER, any = false;
    for (size_t i = 0; i < out->range_count; i++) {
        template_range *range = &out->ranges[i];
        if (!answered && range->message < (int64_t)r->items[SOURCE_CHAT]) range->learned = false;
        any = any || range->learned;
    }
    if (any) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "the chat has no answer: nothing that its template writes%s is said by the assistant, so "
        "nothing is learned of it; take it out, or say --learn all",
        answered ? "" : " of the completion");
}

static status render(slot *s, const slot_document *d) {
    const document_record *r = (const void *)(s->bytes + d->begin);
    template_value messages, tools;
    template_output_close(&s->rendered);
    s->json_used = 0;
    if (!messages_in(r)) return status_set(STATUS_INVALID, "the chat has no message");
    TRY(messages_of(s, r, &messages));
    TRY(tools_of(s, r, &tools));
    TRY(chat_render(s->chat, &messages, &tools, false, &s->rendered));
    return s->of->masks ? mark_learned(s, r) : STATUS_OK;
}

/* ---- making tokens ---- */

static status encode(slot *s, const char *text, uint64_t bytes, const template_range *ranges, size_t count) {
    tokenizer_ids ids;
    tokenizer_text all = { text, bytes };
    const tokenizer_span *spans = NULL;
    if (s->of->masks)
        TRY(tokenizer_encode_spans(s->of->tokenizer, s->work, all, false, &ids, &spans));
    else
        TRY(tokenizer_encode(s->of->tokenizer, s->work, text, bytes, false, &ids));
    s->found = (frame_ids){ ids.id, ids.count, !s->of->masks, spans, ranges, count };
    return STATUS_OK;
}

/* The prompt, or the completion, as a text of its own. */
static status encode_half(slot *s, const slot_document *d) {
    tokenizer_ids ids;
    uint64_t first = s->answering ? d->edge : 0, end = s->answering ? d->end - d->begin : d->edge;
    TRY(tokenizer_encode(s->of->tokenizer, s->work, s->bytes + d->begin + first, end - first, false, &ids));
    s->found = (frame_ids){ .id = ids.id, .count = ids.count, .learned = s->answering };
    return STATUS_OK;
}

static status encode_pair(slot *s, const slot_document *d) {
    uint64_t bytes = d->end - d->begin;
    if (s->of->apart) return encode_half(s, d);
    s->pair[0] = (template_range){ .end = d->edge };
    s->pair[1] = (template_range){ .begin = d->edge, .end = bytes, .learned = true };
    return encode(s, s->bytes + d->begin, bytes, s->pair, 2);
}

static status encode_chat(slot *s, const slot_document *d) {
    TRY(render(s, d));
    return encode(s, s->rendered.text, s->rendered.length, s->rendered.ranges, s->rendered.range_count);
}

/* Text from where the last window ended. Windows grow where none of their text is decided, and shrink where
 * it makes more than there is room for. One that has shrunk does not grow again: it would shrink again. */
static status decide_some(slot *s, const char *data, uint64_t left, bool last, tokenizer_ids *ids) {
    bool cut = in_windows(s->of), shrunk = false;
    uint64_t n = cut && left > window_bytes(s->of) ? window_bytes(s->of) : left;
    for (;;) {
        tokenizer_window window = { data, n, n == left && last };
        status result = tokenizer_encode_window(s->of->tokenizer, s->work, &s->state, window, ids);
        if (result == STATUS_OK && (s->state.used || n == left)) return STATUS_OK;
        if (result == STATUS_OK && shrunk) return not_cut(n);
        if (result != STATUS_OK && (result != STATUS_NO_FIT || !cut || n <= SLOT_LEAST_WINDOW)) return result;
        shrunk = result != STATUS_OK;
        n = shrunk ? n / 2 : 2 * n < left ? 2 * n : left;
    }
}

/* What is not decided by the slot's end waits for the next one. */
static status encode_window(slot *s, const slot_document *d) {
    tokenizer_ids ids;
    uint64_t left = d->end - d->begin - s->taken;
    TRY(decide_some(s, s->bytes + d->begin + s->taken, left, !d->goes_on, &ids));
    s->found = (frame_ids){ .id = ids.id, .count = ids.count, .learned = true };
    s->taken += s->state.used;
    bool stuck = !s->state.used && d->goes_on, whole = s->taken == d->end - d->begin && !d->goes_on;
    if (stuck) s->at++;
    if (whole) s->part = SLOT_BEHIND;
    return STATUS_OK;
}

static status encode_inside(slot *s, const slot_document *d) {
    if (is_text(s->of)) return encode_window(s, d);
    s->part = SLOT_BEHIND;
    return s->of->data->kind == SOURCE_PAIR ? encode_pair(s, d) : encode_chat(s, d);
}

static void end_document(slot *s) {
    if (s->document_tokens)
        s->ends[s->ended++] = s->made;
    else
        s->empty++;
    if (s->document_tokens > s->longest) s->longest = s->document_tokens;
    s->document_tokens = 0, s->taken = 0, s->part = SLOT_BEFORE;
    s->at++;
}

/* Finds more tokens, which wait in `found`. */
static status find_more(slot *s) {
    const frame *f = s->of;
    s->put = s->range = 0;
    s->found.count = 0;
    if (s->at == s->count) {
        s->done = true;
        return STATUS_OK;
    }
    const slot_document *d = &s->documents[s->at];
    switch (s->part) {
    case SLOT_BEFORE:
        s->state = (tokenizer_document){ 0 };
        s->found = (frame_ids){ f->before, f->before_count, .learned = !f->masks || s->answering };
        s->part = SLOT_INSIDE;
        return STATUS_OK;
    case SLOT_INSIDE: {
        status result = encode_inside(s, d);
        return result == STATUS_OK ? result : sources_prefix(f->data, d->place, result);
    }
    case SLOT_BEHIND: {
        bool asked = f->apart && !s->answering; /* the completion is to come */
        s->found = (frame_ids){ .id = f->behind, .count = f->behind_count, .learned = !asked };
        s->part = asked ? SLOT_BEFORE : SLOT_ENDED, s->answering = asked;
        return STATUS_OK;
    }
    default: end_document(s); return STATUS_OK;
    }
}

static void put(slot *s, uint32_t id, bool learned) {
    if (s->of->width == 2)
        ((uint16_t *)s->tokens)[s->made] = (uint16_t)id;
    else
        ((uint32_t *)s->tokens)[s->made] = id;
    if (s->learned) s->learned[s->made] = learned;
    s->made++;
}

/* False: there is no room for all of them. */
static bool put_found(slot *s) {
    for (; s->put < s->found.count && s->made < SLOT_TOKENS; s->put++, s->document_tokens++)
        put(s, s->found.id[s->put], frame_learns(&s->found, s->put, &s->range));
    return s->put == s->found.count;
}

void slot_make(slot *s) {
    while (s->result == STATUS_OK && !s->done && put_found(s)) s->result = find_more(s);
    if (s->result != STATUS_OK) snprintf(s->sentence, sizeof s->sentence, "%s", status_message());
}

void slot_written(slot *s) { s->made = s->ended = 0; }
