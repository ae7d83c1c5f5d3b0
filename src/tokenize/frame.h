/* How one document becomes tokens, whichever thread does it: what the tokenizer puts around a text, which
 * token ends a document, how prompts and chats become text, and what of it is learned. */
#pragma once

#include "base/status.h"
#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"
#include "tokenize/sources.h"

enum { FRAME_IDS = 16 }; /* that are put before or behind a text, at most */

typedef struct {
    const tokenizer *tokenizer;
    const sources *data;
    bool masks;      /* not all is learned */
    bool apart;      /* a prompt and its completion are two texts, each with what stands around one */
    uint32_t width;  /* bytes of a token in the file: 2 or 4 */
    uint32_t scale;  /* 1; larger where a text wants more room than texts do */
    uint64_t values; /* bytes that JSON of a record takes, at most, while it is rendered; 0: there is none */
    uint32_t before[FRAME_IDS], behind[FRAME_IDS];
    uint32_t before_count, behind_count;
} frame;

/* Takes from the tokenizer what stands around a text. `end`: the token that ends a document where the
 * tokenizer puts none behind it; TOKENIZER_NONE: there is none. The other fields are the caller's.
 * STATUS_INVALID where a tokenizer puts more around a text than there is room for. */
status frame_open(frame *f, uint32_t end);

/* Tokens of a part of a document, with the bytes of its text that are learned. */
typedef struct {
    const uint32_t *id;
    size_t count;
    bool learned;                /* all of them, where there are no spans */
    const tokenizer_span *spans; /* of the tokens in the text; NULL: see above */
    const template_range *ranges;
    size_t range_count;
} frame_ids;

/* Is token i learned? One is that holds a byte which is learned. `*range` begins at 0 and goes on from token
 * to token. */
bool frame_learns(const frame_ids *ids, size_t i, size_t *range);
