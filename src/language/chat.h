/* What a model directory says of chats: its templates (language/chat_templates.h) and the special tokens that
 * they are given (language/special_tokens.h), so that a list of messages becomes the text that transformers
 * 5.17 makes of it by apply_chat_template. The text has its special tokens in it: it is encoded without any
 * around it. */
#pragma once

#include "text/template/template.h"

typedef struct chat chat;

/* `*there` false: the directory has no chat template, and `*c` is NULL. STATUS_INVALID for files that can't
 * be read and for a template that is wrong; where there are two, it is refused when it is needed. Close it in
 * any case. */
status chat_open(const char *directory, chat **c, bool *there);
void chat_close(chat *c); /* NULL is fine */

/* Memory held: templates, tokens, and what renderings keep for the next one, which grows to what the largest
 * needed (template_memory_bytes). The output is the caller's. */
uint64_t chat_bytes(const chat *c);

/* Of the templates that were chosen, wherever they stood: another one renders other text. */
uint64_t chat_digest(const chat *c);

/* Bounds of renderings and the time that they see (template_options; `keep` is not looked at). */
void chat_limit(chat *c, const template_options *o);
/* Holds from now on what renderings within these bounds may take, so that chat_bytes does not grow. */
void chat_reserve(chat *c, const template_options *o);

/* The text of a chat, and which of its bytes are learned (template_range). `messages` is a list that is not
 * empty; `tools` a list of objects, NULL or of the kind TEMPLATE_NONE where there are none: with tools the
 * template "tool_use" is taken where the model has one. One rendering at a time. STATUS_INVALID where the
 * template refuses the chat or a bound is reached; STATUS_FAILED without memory. Free the output with
 * template_output_close. */
status chat_render(const chat *c, const template_value *messages, const template_value *tools,
                   bool add_generation_prompt, template_output *out);
