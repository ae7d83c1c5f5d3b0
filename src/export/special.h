/* What stands beside a tokenizer and is none of its file: which tokens begin and end a text, and the template
 * that makes a text of a chat. Read from tokenizer_config.json, chat_template.jinja, chat_template.json,
 * generation_config.json and config.json, as transformers does. */
#pragma once

#include "base/text.h"
#include "models/families.h"
#include "text/tokenizer/tokenizer.h"

enum { SPECIAL_ENDS = 3, SPECIAL_NONE = -1, SPECIAL_TEMPLATE_BYTES = 1 << 20 };

typedef struct {
    int64_t begin, unknown, pad; /* ids; SPECIAL_NONE: not said */
    int64_t end[SPECIAL_ENDS];   /* of a text, of a turn, of a message */
    char *template_text;         /* NULL: there is none */
    uint64_t template_bytes;
} special_tokens;

/* STATUS_INVALID for a file that can't be read, a token that the tokenizer has not, or a template of more
 * than SPECIAL_TEMPLATE_BYTES. Close in any case. `notes` gets sentences for people, a line each. */
status special_read(const char *directory, const model_config *c, const tokenizer *t, special_tokens *s,
                    text *notes);
void special_close(special_tokens *s);
