/* Where a long piece may be cut although no piece ends there: inside a run of characters that are alike to a
 * pattern. Known of published patterns alone, for each of which runs.c says why. */
#pragma once

#include "text/tokenizer/tokenizer_internal.h"

typedef struct run_rules run_rules;

/* NULL: nothing is known of the pattern. */
const run_rules *runs_of(const char *text, size_t bytes);

/* Is the text, which is one match as far as it goes, a run of the pattern wherever it begins? */
bool runs_all(const run_rules *r, span text);

/* A piece begins with the text, which goes on behind its end: so many bytes of it that the piece has all of
 * them and may be cut between any two characters: what follows the cut falls into the same pieces as if the
 * text began there. 0: nothing is known. */
uint32_t runs_inside(const tokenizer *t, span text);
