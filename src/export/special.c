#include "export/special.h"

#include <string.h>

#include "base/memory.h"
#include "io/model_config.h"
#include "language/chat_templates.h"
#include "language/special_tokens.h"

/* ---- tokens ---- */

/* The usual tokens of a class may not be among the tokenizer's; one that a file names has to be. */
static status find_token(const char *directory, const tokenizer *t, const special_token *named, int64_t *id) {
    uint32_t found = tokenizer_id(t, named->text, strlen(named->text));
    if (found != TOKENIZER_NONE) *id = found;
    if (found != TOKENIZER_NONE || named->from == SPECIAL_TOKENS_USUAL) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s names the token '%.60s' as its %s, which the tokenizer has not",
                      directory, named->text, named->name);
}

static status find_tokens(const char *directory, const tokenizer *t, const special_tokens *named,
                          export_special *s) {
    const struct {
        const char *name;
        int64_t *id;
    } wanted[] = {
        { "bos_token", &s->begin },
        { "eos_token", &s->end[0] },
        { "unk_token", &s->unknown },
        { "pad_token", &s->pad },
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const special_token *token = special_tokens_find(named, wanted[i].name);
        if (token) TRY(find_token(directory, t, token, wanted[i].id));
    }
    return STATUS_OK;
}

static status read_tokens(const char *directory, const tokenizer *t, export_special *s) {
    special_tokens named;
    status result = special_tokens_read(directory, &named);
    if (result == STATUS_OK) result = find_tokens(directory, t, &named, s);
    special_tokens_close(&named);
    return result;
}

/* What the configurations say of tokens that end a text, behind that which the tokenizer names. */
static status add_ends(const char *directory, const model_config *c, export_special *s, text *notes) {
    families_tokens said = c->tokens;
    TRY(model_config_ends(directory, c, &said));
    if (s->begin == SPECIAL_NONE && said.has_begin) s->begin = said.begin;
    if (s->begin == SPECIAL_NONE && c->tokens.has_begin) s->begin = c->tokens.begin;
    int count = s->end[0] != SPECIAL_NONE;
    for (uint32_t i = 0; i < said.ends; i++) {
        bool known = false;
        for (int k = 0; k < count; k++) known = known || s->end[k] == said.end[i];
        if (known) continue;
        if (count == SPECIAL_ENDS) {
            text_add(notes, "of the tokens that end a text the file names %d; others do not end one there\n",
                     SPECIAL_ENDS);
            break;
        }
        s->end[count++] = said.end[i];
    }
    return STATUS_OK;
}

/* ---- templates ---- */

static status read_template(const char *directory, export_special *s) {
    chat_templates all;
    status result = chat_templates_read(directory, &all);
    if (result == STATUS_OK) {
        s->template_text = all.source[CHAT_TEMPLATES_DEFAULT];
        s->template_bytes = all.length[CHAT_TEMPLATES_DEFAULT];
        all.source[CHAT_TEMPLATES_DEFAULT] = NULL;
    }
    chat_templates_close(&all);
    return result;
}

status export_special_read(const char *directory, const model_config *c, const tokenizer *t,
                           export_special *s, text *notes) {
    *s = (export_special){ .begin = SPECIAL_NONE, .unknown = SPECIAL_NONE, .pad = SPECIAL_NONE };
    for (int i = 0; i < SPECIAL_ENDS; i++) s->end[i] = SPECIAL_NONE;
    TRY(read_tokens(directory, t, s));
    TRY(read_template(directory, s));
    return add_ends(directory, c, s, notes);
}

void export_special_close(export_special *s) {
    memory_free(s->template_text);
    s->template_text = NULL;
}
