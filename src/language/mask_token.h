/* The token that hides others in what an encoder learns, as a model directory's tokenizer names it:
 * mask_token of tokenizer_config.json and its kin (special_tokens.h), else [MASK] or <mask>, where
 * tokenizer.json has such an added token. transformers' masking goes by the same name. */
#pragma once

#include <stdint.h>

#include "base/status.h"

enum { MASK_TOKEN_NONE = -1 };

/* `*id` MASK_TOKEN_NONE: there is no such token, or no tokenizer.json. STATUS_INVALID for files that can't be
 * read. */
status mask_token_find(const char *directory, int64_t *id);
