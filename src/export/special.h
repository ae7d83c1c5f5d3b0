/* What stands beside a tokenizer and is none of its file: which tokens begin and end a text, and the template
 * that makes a text of a chat. As language/special_tokens.h and language/chat_templates.h read them, and of
 * ends what generation_config.json and config.json say besides. */
#pragma once

#include "base/text.h"
#include "models/families.h"
#include "text/tokenizer/tokenizer.h"

enum { SPECIAL_ENDS = 3, SPECIAL_NONE = -1 };

typedef struct {
    int64_t begin, unknown, pad; /* ids; SPECIAL_NONE: not said */
    int64_t end[SPECIAL_ENDS];   /* of a text, of a turn, of a message */
    char *template_text;         /* NULL: there is none */
    uint64_t template_bytes;
} export_special;

/* STATUS_INVALID for a file that can't be read, a token that the tokenizer has not, or a template that is too
 * long. Close in any case. `notes` gets sentences for people, a line each. */
status export_special_read(const char *directory, const model_config *c, const tokenizer *t,
                           export_special *s, text *notes);
void export_special_close(export_special *s);
