/* The special tokens that a model directory names (bos_token and its kin), as transformers 5.17 hands them to
 * a chat template.
 *
 *   - The seven known names come from special_tokens_map.json where tokenizer_config.json has no
 *     added_tokens_decoder, else from tokenizer_config.json, else from the class of tokenizer that it names
 *     (special_tokens.c has those that language models use); the pad_token at last from the padding of
 *     tokenizer.json. A null says that there is none.
 *   - Other members whose names end in "_token" count where they are texts or added tokens, and so do the
 *     members of extra_special_tokens where that is an object. additional_special_tokens are not handed on.
 *
 * A token is a text, or an object whose `content` is it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { SPECIAL_TOKENS_MOST = 512, SPECIAL_TOKENS_USUAL = 0 };

typedef struct {
    char *name, *text;
    uint8_t from; /* which of the places it comes from; a later one counts more, and USUAL is its class */
} special_token;

typedef struct {
    special_token *items;
    uint32_t count;
    uint64_t bytes; /* of memory that they hold */
} special_tokens;

/* STATUS_INVALID for a file that can't be read, a token of another kind, one of JSON_READER_STRING bytes or
 * more, and more than SPECIAL_TOKENS_MOST. Close in any case. */
status special_tokens_read(const char *directory, special_tokens *out);
/* That of this name; NULL: there is none. */
const special_token *special_tokens_find(const special_tokens *t, const char *name);
void special_tokens_close(special_tokens *t); /* fine on a zeroed one */
