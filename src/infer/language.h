/* What tokens are in text, for who generates: text becomes ids before the plan is made, and ids become text
 * as they are drawn. Where a model has no tokenizer a byte is a token (language_of_bytes); what reads
 * tokenizers stands above this room. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Texts that are written at once, at most: rows of a language, which has one more for who reads beside them.
 */
enum { LANGUAGE_TEXTS = 256, LANGUAGE_READS = LANGUAGE_TEXTS };

typedef struct {
    const char *bytes; /* not ended by a zero; until the next call */
    size_t count;
} language_piece;

typedef struct {
    void *context;
    /* The ids that a text begins with, its own or what stands for an empty one; they stay as long as the
     * language does. STATUS_INVALID for a text that has none. */
    status (*encode)(void *context, const char *prompt, const int32_t **ids, int64_t *count);
    /* The same of a text that has its special tokens, as a chat's; NULL: there are none. */
    status (*encode_whole)(void *context, const char *prompt, const int32_t **ids, int64_t *count);
    /* All ids so far are not needed any more. */
    void (*forget)(void *context);
    /* A text begins at `row`, with these ids: what an id adds may depend on those before it. */
    status (*begin)(void *context, uint32_t row, const int32_t *ids, int64_t count);
    /* What one more id adds to the text `row` (at most LANGUAGE_READS), which may be nothing yet; and what
     * still waits at its end, after which another text may begin there. */
    status (*add)(void *context, uint32_t row, int32_t id, language_piece *piece);
    status (*end)(void *context, uint32_t row, language_piece *piece);
    /* The bytes that an id stands for amid a text, which may be parts of characters; none for an id that is
     * no text. */
    status (*word)(void *context, int32_t id, language_piece *piece);
    /* Does the text end with this id, which is none of it? */
    bool (*ends)(void *context, int32_t id);
    const char *unit;     /* what an id stands for: "byte", "token" */
    uint64_t held_bytes;  /* memory of its own, the ids included */
    uint32_t piece_bytes; /* of text that an id adds, at most: what gathers texts is planned by it */
} language;

/* Ids 0 to 255 are bytes; others have no text, and show as numbers. A text that is empty begins after a
 * line's end. `vocabulary`: of the model. Close it. */
status language_of_bytes(int64_t vocabulary, language *l);
void language_of_bytes_close(language *l);
