/* Of the pre-tokenizers. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

/* Does the last one write letters for bytes? */
bool pre_tokenizers_end_in_bytes(const tokenizer *t);

/* May a long document be cut into windows, of which each but the last ends where its pieces are certain? */
bool pre_tokenizers_take_windows(const tokenizer *t);
