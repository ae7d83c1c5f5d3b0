/* Where a model directory has its chat templates, as transformers 5.17 looks for them: chat_template.jinja
 * and additional_chat_templates/NAME.jinja, before all others; then chat_template of tokenizer_config.json;
 * then that of chat_template.json, where models with images had it. In JSON it is a text, a list of objects
 * with `name` and `template`, or an object with a text for each name. Of the names two are known. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { CHAT_TEMPLATES_DEFAULT, CHAT_TEMPLATES_TOOL_USE, CHAT_TEMPLATES };

typedef struct {
    char *source[CHAT_TEMPLATES]; /* NULL: there is none of this name */
    size_t length[CHAT_TEMPLATES];
    const char *file; /* in the directory, for sentences; NULL: the directory has no template of any name */
} chat_templates;

/* STATUS_INVALID for files that can't be read, say something else, or have a template that is too long. Close
 * in any case. */
status chat_templates_read(const char *directory, chat_templates *out);
void chat_templates_close(chat_templates *t); /* fine on a zeroed one */
