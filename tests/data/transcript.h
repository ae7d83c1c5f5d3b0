/* What documents hold, written down so that it can be compared: one line a record,
 *
 *   0:"text" 1[0.role="user" 0.content="…"]
 *
 * with each string as it would stand in JSON, behind the word json where it is the text of a value. Pieces
 * are checked on the way: they are UTF-8, not larger than asked for, and the reader stays in the bytes that
 * it said it takes. */
#pragma once

#include "base/text.h"
#include "data/documents/documents.h"

/* Reads the file; STATUS_OK, or what the reader failed with (`out` has what came before). `from`: where to
 * begin, or NULL. `places`, of `most`: where records begin, or NULL. Free `out` with text_close. */
typedef struct {
    const document_place *from;
    document_place *places;
    uint32_t most, count; /* of places; set */
} transcript_places;

status transcript(const document_options *o, transcript_places *places, text *out);

/* The same, with pieces of many sizes and from each record on; fails where one is not like the others.
 * `expected`: NULL, or what it has to be. */
void transcript_check(document_options o, const char *expected);
