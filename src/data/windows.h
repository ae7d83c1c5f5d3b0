/* Where samples begin whose documents stay whole: each begins in the window of the ones before it where there
 * is room for all of it, else in the next one. A document that is longer than a window begins in one of its
 * own and goes on in the next. What is left of a window is padding.
 *
 * Windows follow one another in the tokens, so a window is known by its first token. Only every 64th is kept;
 * the others are found from those before them, by reading the ends of documents. */
#pragma once

#include "data/corpus.h"

typedef struct {
    uint64_t token, document; /* the first of the window, and the document that it stands in */
} window_place;

typedef struct {
    uint32_t context;
    bool alone;               /* a window holds one document, or a part of one */
    uint64_t first, end;      /* documents */
    uint64_t windows, tokens; /* tokens: in all windows */
    window_place *kept;       /* of every 64th window */
    uint64_t held_bytes;
} windows;

/* Of the documents from `first` to before `end`, which say where they end. STATUS_FAILED where they can't be
 * read or there is no memory. windows_close in any case. */
status windows_open(const corpus *c, uint32_t context, bool alone, uint64_t first, uint64_t end, windows *w);
void windows_close(windows *w); /* fine on a zeroed one */

/* The tokens of a window (< windows): from `*token` on, `*count` of them (1 to context); `*goes_on`: its last
 * document does in the next one. */
status windows_find(const windows *w, const corpus *c, uint64_t window, uint64_t *token, uint32_t *count,
                    bool *goes_on);

/* The first document that begins at or behind the token; the number of documents if none does. */
status windows_document_at(const corpus *c, uint64_t token, uint64_t *document);
