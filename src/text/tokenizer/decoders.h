/* Lists of strings while text is decoded: list 0 is read, list 1 written. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

void decoders_begin(tokenizer_work *w, int which);
status decoders_add(tokenizer_work *w, int which, const char *text,
                    size_t bytes);                 /* to the string that is made */
status decoders_end(tokenizer_work *w, int which); /* which is whole now */
span decoders_at(const tokenizer_work *w, int which, uint32_t i);

/* All decoders, one after the other, on list 0. */
status decoders_apply(tokenizer_work *w);

/* What a token is where tokens stand for bytes; data NULL: they don't, or this one does not. */
status decoders_bytes(tokenizer_work *w, span token, span *bytes);
/* Do blanks come from the ends of words? */
bool decoders_end_words(const tokenizer_work *w);
