#include "language/chat.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "language/chat_templates.h"
#include "language/special_tokens.h"

/* What every template is given, before the tokens. */
enum { GIVEN_MESSAGES, GIVEN_TOOLS, GIVEN_DOCUMENTS, GIVEN_PROMPT, GIVEN };

struct chat {
    char *file; /* that the templates are in, for sentences */
    template *templates[CHAT_TEMPLATES];
    char *wrong[CHAT_TEMPLATES]; /* what is wrong with one of two; NULL: nothing */
    special_tokens tokens;
    template_value *variables; /* GIVEN, then one for each token */
    template_memory *memory;
    template_options limits;
    uint64_t digest;
};

static uint64_t digest_of(const chat_templates *from) {
    digest d = digest_begin();
    for (int i = 0; i < CHAT_TEMPLATES; i++) {
        const uint64_t said[] = { from->source[i] != NULL, from->length[i] };
        digest_add(&d, said, sizeof said);
        if (from->source[i]) digest_add(&d, from->source[i], from->length[i]);
    }
    return digest_value(&d);
}

/* Where there are two, one that is wrong is so only when it is asked for. */
static status parse(chat *c, const chat_templates *from) {
    bool both = from->source[CHAT_TEMPLATES_DEFAULT] && from->source[CHAT_TEMPLATES_TOOL_USE];
    for (int i = 0; i < CHAT_TEMPLATES; i++) {
        if (!from->source[i]) continue;
        status result = template_parse(c->file, from->source[i], from->length[i], &c->templates[i]);
        if (result == STATUS_INVALID && both) {
            c->wrong[i] = memory_text(status_message());
            result = c->wrong[i]
                         ? STATUS_OK
                         : status_set(STATUS_FAILED, "no memory for the chat template of %s", c->file);
        }
        TRY(result);
    }
    return STATUS_OK;
}

static void set_variable(template_value *v, const char *name, template_value to) {
    *v = to;
    v->key = name, v->key_length = strlen(name);
}

static status make_variables(chat *c) {
    c->variables = memory_new(GIVEN + c->tokens.count, sizeof *c->variables);
    if (!c->variables) return status_set(STATUS_FAILED, "no memory for the variables of a chat");
    for (uint32_t i = 0; i < c->tokens.count; i++) {
        const char *text = c->tokens.items[i].text;
        set_variable(&c->variables[GIVEN + i], c->tokens.items[i].name,
                     (template_value){ .kind = TEMPLATE_TEXT, .text = { text, strlen(text) } });
    }
    return template_memory_open(&c->memory);
}

static status open_with(chat *c, const char *directory, const chat_templates *from) {
    size_t room = strlen(directory) + strlen(from->file) + 2;
    c->file = memory_new(1, room);
    if (!c->file) return status_set(STATUS_FAILED, "no memory for the chat template of %s", directory);
    snprintf(c->file, room, "%s/%s", directory, from->file);
    c->digest = digest_of(from);
    TRY(parse(c, from));
    TRY(special_tokens_read(directory, &c->tokens));
    return make_variables(c);
}

status chat_open(const char *directory, chat **out, bool *there) {
    chat_templates from;
    *out = NULL;
    status result = chat_templates_read(directory, &from);
    *there = result == STATUS_OK && from.file;
    if (*there) {
        *out = memory_new(1, sizeof **out);
        result = *out ? open_with(*out, directory, &from)
                      : status_set(STATUS_FAILED, "no memory for the chat template of %s", directory);
    }
    chat_templates_close(&from);
    return result;
}

void chat_close(chat *c) {
    if (!c) return;
    for (int i = 0; i < CHAT_TEMPLATES; i++) template_close(c->templates[i]);
    special_tokens_close(&c->tokens);
    template_memory_close(c->memory);
    memory_free(c->variables);
    for (int i = 0; i < CHAT_TEMPLATES; i++) memory_free(c->wrong[i]);
    memory_free(c->file);
    memory_free(c);
}

uint64_t chat_bytes(const chat *c) {
    uint64_t bytes = sizeof *c + strlen(c->file) + 1 + c->tokens.bytes + template_memory_bytes(c->memory) +
                     (GIVEN + (uint64_t)c->tokens.count) * sizeof *c->variables;
    for (int i = 0; i < CHAT_TEMPLATES; i++) {
        if (c->templates[i]) bytes += template_bytes(c->templates[i]);
        if (c->wrong[i]) bytes += strlen(c->wrong[i]) + 1;
    }
    return bytes;
}

uint64_t chat_digest(const chat *c) { return c->digest; }

void chat_limit(chat *c, const template_options *o) { c->limits = *o; }

void chat_reserve(chat *c, const template_options *o) {
    chat_limit(c, o);
    template_memory_reserve(c->memory, o->memory);
}

static status check(const template_value *messages, const template_value *tools) {
    if (messages->kind != TEMPLATE_LIST)
        return status_set(STATUS_INVALID, "the messages of a chat are a list");
    if (messages->list.count == 0) return status_set(STATUS_INVALID, "a chat without a message");
    if (!tools) return STATUS_OK;
    if (tools->kind != TEMPLATE_LIST) return status_set(STATUS_INVALID, "the tools of a chat are a list");
    for (size_t i = 0; i < tools->list.count; i++)
        if (tools->list.items[i].kind != TEMPLATE_OBJECT)
            return status_set(STATUS_INVALID, "tool %zu of a chat is no object", i);
    return STATUS_OK;
}

status chat_render(const chat *c, const template_value *messages, const template_value *tools,
                   bool add_generation_prompt, template_output *out) {
    const template_value none = { .kind = TEMPLATE_NONE },
                         prompt = { .kind = TEMPLATE_BOOL, .yes = add_generation_prompt };
    *out = (template_output){ 0 };
    if (tools && tools->kind == TEMPLATE_NONE) tools = NULL;
    TRY(check(messages, tools));
    bool tool_use = tools && (c->templates[CHAT_TEMPLATES_TOOL_USE] || c->wrong[CHAT_TEMPLATES_TOOL_USE]);
    int which = tool_use ? CHAT_TEMPLATES_TOOL_USE : CHAT_TEMPLATES_DEFAULT;
    const template *t = c->templates[which];
    if (c->wrong[which]) return status_set(STATUS_INVALID, "%s", c->wrong[which]);
    if (!t)
        return status_set(STATUS_INVALID, "%s has chat templates with names, but none that is called default",
                          c->file);
    set_variable(&c->variables[GIVEN_MESSAGES], "messages", *messages);
    set_variable(&c->variables[GIVEN_TOOLS], "tools", tools ? *tools : none);
    set_variable(&c->variables[GIVEN_DOCUMENTS], "documents", none);
    set_variable(&c->variables[GIVEN_PROMPT], "add_generation_prompt", prompt);
    template_options o = c->limits;
    o.keep = c->memory;
    template_value all = { .kind = TEMPLATE_OBJECT, .list = { c->variables, GIVEN + c->tokens.count } };
    return template_render(t, &all, &o, out);
}
