/* Added tokens: found in text before and behind its normalizing. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

/* A stretch of text (id TOKENIZER_NONE) or an added token; `start` is its place in what was split. */
typedef status added_each(void *context, const char *data, size_t bytes, size_t start, uint32_t id);

/* Cuts the tokens of the list out of the text; empty stretches are left out. */
status added_split(const tokenizer *t, const added_list *list, span text, added_each *each, void *context);

/* The first place of a text behind which an added token may begin that goes on behind it; `bytes`: none. */
size_t added_begun(const tokenizer *t, span text);

status work_normalize(tokenizer_work *w, span *text);
/* The one of that number alone. */
status work_normalize_by(tokenizer_work *w, uint32_t i, span *text);
