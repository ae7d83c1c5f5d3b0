/* Samples whose documents stay whole: each document, or what is left of it, stands in one window.
 *
 * A document that is longer than a window fills windows of its own; the rest of it is a piece like the
 * documents that fit. Pieces are packed by size (data/fill.h) among the documents of one block, and what is
 * left of a window is padding. Inside of a window they stand as in the data.
 *
 * A block is some documents that follow one another. It ends where next fit would begin a window, so packing
 * it anew costs none at its borders, and there are never more windows than next fit has. Where more documents
 * fit one window than a block may have, they are that window as they stand.
 *
 * Windows are numbered by the place of the document that opened each, its longest: in a block it is as likely
 * here as there, whatever the window holds. By the first document the windows of many short ones would come
 * early, and by size the long ones: the loss over samples in order would go in waves as long as a block.
 *
 * Only where blocks begin is kept. Which pieces a window has is found from the ends of its block's documents
 * alone, in scratch of the reader's. */
#pragma once

#include "data/corpus.h"

typedef struct {
    uint32_t context;
    uint32_t block;      /* documents that are packed among themselves, at most; 1 to FILL_MOST */
    bool alone;          /* a window holds one document, or a part of one */
    uint64_t first, end; /* documents */
} windows_options;

/* Where a block begins. */
typedef struct {
    uint64_t document, window;
} windows_block;

typedef struct {
    windows_options options;
    uint64_t windows, tokens; /* tokens: in all windows */
    windows_block *blocks;    /* and one more, where the last one ends */
    uint64_t count;           /* of blocks */
    uint64_t held_bytes;
} windows;

/* Of documents that say where they end. STATUS_FAILED where they can't be read or there is no memory.
 * windows_close in any case. */
status windows_open(const corpus *c, const windows_options *o, windows *w);
void windows_close(windows *w); /* fine on a zeroed one */

/* Puts the tokens of a window (< windows) to `to`: up to `context` of them, or one more, as its last label,
 * where the window's document goes on behind it. `scratch` has windows_scratch_bytes, aligned to 8, zeroed
 * before the first read: it keeps the last block that was packed. */
status windows_read(const windows *w, const corpus *c, uint64_t window, void *scratch, data_window *to);
uint64_t windows_scratch_bytes(uint32_t block);

/* The first document that begins at or behind the token; the number of documents if none does. */
status windows_document_at(const corpus *c, uint64_t token, uint64_t *document);
