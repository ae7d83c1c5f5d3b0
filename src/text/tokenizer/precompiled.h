/* The map of characters that sentencepiece makes: a double-array trie and the texts that it leads to. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

status precompiled_apply(const struct precompiled *m, tokenizer_work *w, span text, buffer *out);
