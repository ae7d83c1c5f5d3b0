/* Tokens that a user adds to the tokenizer of a model directory: which of them it lacks, what ids they get,
 * and its files with them.
 *
 * A new token gets the id that the tokenizers library gives it, the first one behind all that there are. It
 * is found in a text as it stands there, whatever surrounds it, and is special: texts are decoded without it.
 * tokenizer.json is read through a small buffer, and of it nothing is kept; the files' other bytes stay as
 * they are (io/spliced_file.h). */
#pragma once

#include <stdbool.h>

#include "base/text_list.h"
#include "io/tokenizer_files.h"

enum { WANTED_TOKEN_BYTES = 256, WANTED_TOKENS_FILES = 3 }; /* a token is shorter than that */

typedef enum {
    WANTED_TOKEN_NEW,
    WANTED_TOKEN_WORD, /* a word of the model's: it keeps its id, and is an added token too */
    WANTED_TOKEN_THERE /* an added token: nothing is done */
} wanted_token_state;

typedef struct {
    const char *text; /* the caller's */
    uint32_t id;
    wanted_token_state state;
} wanted_token;

typedef struct {
    wanted_token items[TEXT_LIST_MOST]; /* each once, in the order in which they were said */
    uint32_t count;
    uint32_t size; /* the largest id of the tokenizer with them, and one */
    bool changes;  /* not all of them were there */
    tokenizer_files_change files[WANTED_TOKENS_FILES];
    uint32_t file_count;
    char *put[WANTED_TOKENS_FILES]; /* what the changes put, */
    uint64_t bytes;                 /* and the memory of it */
} wanted_tokens;

/* STATUS_INVALID where the directory has no tokenizer.json, where one of its files can't be read or says
 * something else of such an id or token, and for a token that is empty, too long or no UTF-8. Close in any
 * case. No texts: nothing is looked at. */
status wanted_tokens_find(const char *directory, const text_list *texts, wanted_tokens *w);
void wanted_tokens_close(wanted_tokens *w); /* fine on a zeroed one */

/* The change of this file; NULL: it has none. */
const file_splice *wanted_tokens_splice(const wanted_tokens *w, const char *name);
