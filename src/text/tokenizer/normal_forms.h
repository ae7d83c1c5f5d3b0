/* NFC, NFD, NFKC and NFKD as the tokenizers library has them, which is an older Unicode's: characters that it
 * doesn't know are left alone, and nothing moves or joins across them. The rest is utf8proc's. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

enum { NORMAL_COMPOSE = 1, NORMAL_COMPAT = 2 };

/* Adds the form of the text to `out`. */
status normal_forms_add(tokenizer_work *w, int form, span text, buffer *out);
