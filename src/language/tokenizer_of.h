/* The tokenizer of a model directory. */
#pragma once

#include <stdbool.h>

#include "io/wanted_tokens.h"
#include "text/tokenizer/tokenizer.h"

/* Reads its tokenizer.json. `*there` false: it has none, and `*t` is NULL. STATUS_INVALID for one that can't
 * be read, STATUS_NO_FIT without memory (tokenizer_open). Free with tokenizer_close. */
status tokenizer_of_open(const char *directory, tokenizer **t, bool *there);
/* The same with tokens that are added to it. */
status tokenizer_of_open_with(const char *directory, const wanted_tokens *w, tokenizer **t, bool *there);
