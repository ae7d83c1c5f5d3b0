#include "text/template/run.h"

#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/template/learned.h"

/* ---- bounds ---- */

status run_steps(run *r, uint64_t steps) {
    r->steps += steps;
    if (r->steps <= r->limits.steps) return STATUS_OK;
    return status_set(STATUS_INVALID, "it takes more than %llu steps", (unsigned long long)r->limits.steps);
}

status run_deeper(run *r) {
    if (++r->depth <= r->limits.depth) return STATUS_OK;
    return status_set(STATUS_INVALID, "more than %u levels within each other", r->limits.depth);
}

status run_bounded(const run *r) { return r->limits.may_grow ? STATUS_NO_FIT : STATUS_INVALID; }

status run_take(run *r, size_t bytes, void *out) { return arena_take(&r->arena, bytes, out); }

/* ---- names ---- */

static binding *find(const frame *f, const char *name, uint32_t length) {
    for (binding *b = f->names; b; b = b->next)
        if (b->length == length && memcmp(b->name, name, length) == 0) return b;
    return NULL;
}

const value *run_find(run *r, const char *name, uint32_t length) {
    for (const frame *f = r->frame; f; f = f->outer) {
        const binding *b = find(f, name, length);
        if (b) return &b->value;
    }
    return NULL;
}

status run_set(run *r, frame *f, const char *name, uint32_t length, const value *v) {
    binding *b = find(f, name, length);
    if (!b) {
        TRY(run_take(r, sizeof *b, &b));
        *b = (binding){ .next = f->names, .name = name, .length = length };
        f->names = b;
    }
    b->value = *v;
    return STATUS_OK;
}

/* ---- the caller's values ---- */

static status text_of(run *r, const char *bytes, size_t length, value_origin origin, value *out) {
    TRY(run_steps(r, length / 64));
    for (size_t i = 0; i < length;) {
        size_t n = (unsigned char)bytes[i] < 0x80 ? 1 : utf8_length(bytes + i, length - i);
        if (!n) return status_set(STATUS_INVALID, "a value holds a byte that is not UTF-8, at byte %zu", i);
        i += n;
    }
    TRY(value_text_lend(r, bytes ? bytes : "", length, out));
    out->origin = origin;
    return STATUS_OK;
}

static status value_of(run *r, const template_value *v, value_origin origin, value *out);

static status list_of(run *r, const template_value *v, value_origin origin, value *out) {
    if (v->list.count > UINT32_MAX) return status_set(STATUS_INVALID, "a list of %zu items", v->list.count);
    TRY(value_list_new(r, VALUE_LIST, (uint32_t)v->list.count, out));
    for (size_t i = 0; i < v->list.count; i++)
        TRY(value_of(r, &v->list.items[i], origin, &out->list->items[i]));
    return STATUS_OK;
}

/* Where a key stands twice the last one counts, as in JSON. */
static status object_of(run *r, const template_value *v, value_origin origin, bool message, value *out) {
    if (v->list.count > UINT32_MAX)
        return status_set(STATUS_INVALID, "an object of %zu members", v->list.count);
    TRY(value_dict_new(r, (uint32_t)v->list.count, out));
    for (size_t i = 0; i < v->list.count; i++) {
        const template_value *m = &v->list.items[i];
        bool role = message && m->key_length == 4 && memcmp(m->key, "role", 4) == 0;
        value key, item;
        TRY(text_of(r, m->key, m->key_length, origin, &key));
        TRY(value_of(r, m, role ? (origin & ~(value_origin)ORIGIN_PART) | ORIGIN_ROLE : origin, &item));
        TRY(value_dict_set(r, out->dict, &key, &item));
    }
    return STATUS_OK;
}

static status value_of(run *r, const template_value *v, value_origin origin, value *out) {
    TRY(run_deeper(r));
    TRY(run_steps(r, 1));
    switch (v->kind) {
    case TEMPLATE_NONE: *out = value_none(); break;
    case TEMPLATE_BOOL: *out = value_bool(v->yes); break;
    case TEMPLATE_INTEGER: *out = value_integer(v->integer); break;
    case TEMPLATE_NUMBER: *out = value_number(v->number); break;
    case TEMPLATE_TEXT: TRY(text_of(r, v->text.bytes, v->text.length, origin, out)); break;
    case TEMPLATE_LIST: TRY(list_of(r, v, origin, out)); break;
    default: TRY(object_of(r, v, origin, false, out)); break;
    }
    out->origin = origin;
    r->depth--;
    return STATUS_OK;
}

/* Messages say which they are. */
static status messages_of(run *r, const template_value *v, value *out) {
    if (v->list.count >= UINT32_MAX >> ORIGIN_SHIFT)
        return status_set(STATUS_INVALID, "a chat of %zu messages", v->list.count);
    r->message_count = (uint32_t)v->list.count;
    if (r->probe && r->probe->messages < r->message_count) r->message_count = (uint32_t)r->probe->messages;
    TRY(run_take(r, r->message_count + 1, &r->assistant));
    TRY(value_list_new(r, VALUE_LIST, r->message_count, out));
    for (uint32_t i = 0; i < r->message_count; i++) {
        const template_value *m = &v->list.items[i];
        value_origin origin = (i + 1) << ORIGIN_SHIFT;
        value *item = &out->list->items[i];
        r->assistant[i] = false;
        if (m->kind != TEMPLATE_OBJECT) {
            TRY(value_of(r, m, origin | ORIGIN_SAID, item));
            continue;
        }
        TRY(object_of(r, m, origin | ORIGIN_SAID, true, item));
        item->origin = origin | ORIGIN_SAID;
        item->dict->message = origin | ORIGIN_TURN;
        const value *role = value_dict_word(item->dict, "role", 4);
        r->assistant[i] = role && value_is_word(role, "assistant");
    }
    return STATUS_OK;
}

static status variables_of(run *r, const template_value *variables, frame *f) {
    if (variables->kind != TEMPLATE_OBJECT)
        return status_set(STATUS_INVALID, "the variables of a template are an object");
    for (size_t i = 0; i < variables->list.count; i++) {
        const template_value *v = &variables->list.items[i];
        if (!v->key || v->key_length > UINT32_MAX)
            return status_set(STATUS_INVALID, "a variable of a template without a name");
        bool messages = v->kind == TEMPLATE_LIST && v->key_length == 8 && memcmp(v->key, "messages", 8) == 0;
        value item;
        TRY(messages ? messages_of(r, v, &item) : value_of(r, v, 0, &item));
        TRY(run_set(r, f, v->key, (uint32_t)v->key_length, &item));
    }
    if (!r->probe) return STATUS_OK;
    value prompt = value_bool(r->probe->prompt);
    return run_set(r, f, "add_generation_prompt", 21, &prompt);
}

/* ---- a rendering ---- */

static status render(run *r, const template_value *variables, builder *out) {
    frame context = { 0 };
    r->root = (frame){ .outer = &context };
    r->frame = &r->root;
    r->out = out;
    status result = variables_of(r, variables, &context);
    if (result != STATUS_OK) return status_prefix(result, "%s", r->t->name);
    r->depth = 0;
    return run_body(r, r->t->body);
}

/* What is kept: of the chat, and of the two that are rendered to find the prompt. */
enum { KEPT_CHAT, KEPT_PROBES, KEPT = KEPT_PROBES + 2, KEPT_BYTES = 64 << 10 };
struct template_memory {
    arena_kept of[KEPT];
};

static void begin(run *r, const template *t, const template_options *o, int which) {
    *r = (run){ .t = t, .limits = *o };
    if (!r->limits.steps) r->limits.steps = TEMPLATE_STEPS;
    if (!r->limits.depth) r->limits.depth = TEMPLATE_DEPTH;
    if (!r->limits.memory) r->limits.memory = TEMPLATE_MEMORY;
    if (!r->limits.output) r->limits.output = TEMPLATE_OUTPUT;
    r->arena.limit = r->limits.memory;
    r->arena.may_grow = r->limits.may_grow;
    r->arena.kept = o->keep ? &o->keep->of[which] : NULL;
}

/* What the template writes to prompt an answer: what an add_generation_prompt adds to the messages before the
 * first answer. A template that fails there has none that is known. */
static status find_prompt(const run *r, const template_value *variables, run probes[2],
                          learned_prompt *prompt) {
    size_t first = 0;
    while (first < r->message_count && !r->assistant[first]) first++;
    *prompt = (learned_prompt){ 0 };
    if (first == 0 || first == r->message_count) return STATUS_OK;
    builder texts[2] = { { 0 }, { 0 } };
    for (int i = 0; i < 2; i++) {
        run_probe probe = { first, i };
        begin(&probes[i], r->t, &r->limits, KEPT_PROBES + i);
        probes[i].probe = &probe;
        status result = render(&probes[i], variables, &texts[i]);
        if (result == STATUS_FAILED || result == STATUS_NO_FIT) return result;
        if (result != STATUS_OK) return STATUS_OK;
    }
    *prompt = learned_difference(&texts[0], &texts[1]);
    return STATUS_OK;
}

static status hand_over(run *r, const template_value *variables, const builder *text, template_output *out) {
    run probes[2] = { 0 };
    learned_prompt prompt = { 0 };
    out->text = memory_room(1, text->length + 1);
    if (!out->text) return status_set(STATUS_FAILED, "no memory for %zu bytes of a chat", text->length);
    if (text->length) memcpy(out->text, text->bytes, text->length);
    out->text[text->length] = 0;
    out->length = text->length;
    if (r->limits.plain) return STATUS_OK;
    status result = STATUS_OK;
    if (!r->t->marks || r->limits.by_message) result = find_prompt(r, variables, probes, &prompt);
    if (result == STATUS_OK) result = learned_ranges(r, text, &prompt, out);
    for (int i = 0; i < 2; i++) arena_close(&probes[i].arena);
    return result;
}

status template_render(const template *t, const template_value *variables, const template_options *o,
                       template_output *out) {
    run r;
    builder text = { 0 };
    begin(&r, t, o, KEPT_CHAT);
    *out = (template_output){ 0 };
    status result = render(&r, variables, &text);
    if (result == STATUS_OK) result = hand_over(&r, variables, &text, out);
    arena_close(&r.arena);
    if (result != STATUS_OK) template_output_close(out);
    return result;
}

void template_output_close(template_output *out) {
    memory_free(out->text);
    memory_free(out->ranges);
    *out = (template_output){ 0 };
}

status template_memory_open(template_memory **out) {
    *out = memory_new(1, sizeof **out);
    if (!*out) return status_set(STATUS_FAILED, "no memory to render chats");
    for (int i = 0; i < KEPT; i++) (*out)->of[i].bytes = KEPT_BYTES;
    return STATUS_OK;
}

void template_memory_reserve(template_memory *m, size_t bytes) {
    for (int i = 0; i < KEPT; i++) {
        arena_forget(&m->of[i]);
        m->of[i].bytes = bytes;
    }
}

void template_memory_close(template_memory *m) {
    for (int i = 0; m && i < KEPT; i++) arena_forget(&m->of[i]);
    memory_free(m);
}

uint64_t template_memory_bytes(const template_memory *m) {
    uint64_t bytes = sizeof *m;
    for (int i = 0; i < KEPT; i++) bytes += m->of[i].bytes;
    return bytes;
}
