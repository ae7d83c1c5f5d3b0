/* Of the pre-tokenizers. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

/* Does the last one write letters for bytes? */
bool pre_tokenizers_end_in_bytes(const tokenizer *t);
