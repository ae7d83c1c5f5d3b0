/* Of the pre-tokenizers. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

/* Does the last one write letters for bytes? */
bool pre_tokenizers_end_in_bytes(const tokenizer *t);

/* May that one (or behind the last the model) be given a piece whose end is not known? */
bool pre_tokenizers_take_open(const tokenizer *t, uint32_t stage);

/* Does the first one end a piece before a blank between letters, and see what follows as if the text began
 * there? */
bool pre_tokenizers_end_before_blank(const tokenizer *t);

/* May a long document be cut into windows, of which each but the last ends where its pieces are certain? */
bool pre_tokenizers_take_windows(const tokenizer *t);

/* Is it known of each of them between which characters it parts a text, whatever else stands there, and do
 * they leave the end of a piece as it is? */
bool pre_tokenizers_say_parts(const tokenizer *t);
/* Then: does one of them part these two? */
bool pre_tokenizers_part(const tokenizer *t, uint32_t a, uint32_t b);
