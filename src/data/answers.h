/* A document whose end alone is learned, as a sample of a model that answers texts: what is not learned is
 * the text, what is learned is the answer to it.
 *
 * Both are cut where they are longer than T tokens; the last token of each stays, since it says that the
 * text, or the answer, is over. Fields of a sample, all i32:
 *
 *   tokens          (T)  the text, and padding
 *   labels          (T)  the answer, and behind it labels that do not count
 *   decoder_tokens  (T)  the answer one place on, behind the token that it starts with
 *   source_length   ()   tokens of the text, 1 to T */
#pragma once

#include "data/corpus.h"

typedef struct {
    uint32_t context, vocabulary; /* T; ids are below */
    int32_t start, padding;
} answers_options;

/* Pointers may all be NULL: then the document is only looked at. */
typedef struct {
    int32_t *tokens, *labels, *decoder_tokens, *source_length;
} answers_sample;

uint64_t answers_scratch_bytes(const corpus *c);

/* STATUS_INVALID with a sentence where the document has no text, no answer, or a text behind its answer.
 * `scratch` has answers_scratch_bytes, aligned to 8. The corpus says where its documents end. */
status answers_read(const corpus *c, uint64_t document, const answers_options *o, void *scratch,
                    const answers_sample *to);
