/* What one thread makes into tokens in a round: some documents, in memory of a fixed size.
 *
 * A slot is filled with whole documents, one after the other. Only a text that is longer than LONG_TEXT may
 * reach beyond it: then the slot is the last of its round, and what could not be decided yet of that text
 * moves to the front of the first slot of the next one.
 *
 * Making tokens stops when the room for them is full, or all documents are done; the caller writes what is
 * there and calls again. So a slot's memory does not depend on how many tokens a text has. */
#pragma once

#include "base/status.h"
#include "data/documents/documents.h"
#include "language/chat.h"
#include "text/tokenizer/tokenizer.h"
#include "tokenize/frame.h"

enum {
    SLOT_BYTES = 1 << 20,       /* that are wanted in a slot */
    SLOT_LONG_TEXT = 512 << 10, /* a text that is longer may be cut */
    SLOT_WINDOW = 64 << 10,     /* bytes of text that are made into tokens at once, where it can be cut */
    SLOT_LEAST_WINDOW = 1 << 10,
    SLOT_TOKENS = 128 << 10,
    SLOT_DOCUMENTS = 8 << 10
};

typedef struct {
    uint64_t begin, end; /* of the slot's bytes */
    uint64_t edge;       /* of a pair: the bytes of its prompt */
    source_place place;
    bool goes_on; /* beyond the slot */
} slot_document;

typedef struct {
    const frame *of;
    chat *chat; /* of messages: a slot's own, since one renders one chat at a time */
    /* what is to be made into tokens */
    char *bytes;
    uint64_t room, used;
    slot_document *documents;
    uint32_t count;
    /* how far that is */
    uint32_t at;
    enum { SLOT_BEFORE, SLOT_INSIDE, SLOT_BEHIND, SLOT_ENDED } part; /* of document `at` */
    bool answering; /* where prompts and completions are texts of their own: it is the latter */
    uint64_t taken; /* bytes of it */
    uint64_t document_tokens;
    tokenizer_document state; /* of a text that is taken in windows */
    tokenizer_work *work;
    uint64_t work_bytes; /* that it may hold */
    template_output rendered;
    template_value *values; /* of messages, for rendering */
    char *json;             /* what they hold that is no text: frame's `values`, so many of them taken: */
    uint64_t json_used;
    template_range pair[2];
    frame_ids found; /* and not put into `tokens` yet: */
    size_t put, range;
    /* what was made */
    void *tokens;     /* `count_made` of them, of the frame's width */
    uint8_t *learned; /* NULL where all are */
    uint64_t *ends;   /* counted from the first token of the batch */
    uint32_t made, ended;
    uint64_t empty, longest; /* documents without a token; the longest, in tokens */
    bool done;
    status result; /* with its sentence, which stays in the slot: threads have one each */
    char sentence[STATUS_SENTENCE];
} slot;

/* The most bytes that the tokenizer of a slot may work in: room for what is taken at once, at its largest. */
uint64_t slot_work_bytes(const frame *f, const tokenizer_work *w, uint64_t longest);
/* How large a chat may become while it is rendered: its values, and its text. A template that wants more is
 * planned for anew, as far as templates may go at all. */
template_options slot_rendering(const frame *f, uint64_t longest);
/* The memory of a slot, beside its work and its chat. `longest`: the most bytes that a document takes which
 * is not cut. */
uint64_t slot_bytes(const frame *f, uint64_t longest);
/* Takes it. STATUS_NO_FIT where there is none. The chat and the work become the slot's own and are closed
 * with it. Close in any case. */
status slot_open(const frame *f, uint64_t longest, slot *s);
void slot_close(slot *s); /* fine on a zeroed one */

/* Begins to be filled, with what the last slot of the round before (NULL: none) has left of a text. */
status slot_begin(slot *s, const slot *before);
/* Is there no document in it that goes on, and room for one more of `bytes`? */
bool slot_takes(const slot *s, uint64_t bytes);
void slot_add_document(slot *s, source_place place);
/* Bytes of the last document; how many of them there was room for. Of a document that is not cut: all. */
uint32_t slot_add(slot *s, const char *bytes, uint32_t count);
/* A record as a document: a prompt and its completion, or messages. */
void slot_add_record(slot *s, const document_record *r, source_place place);
uint64_t slot_record_bytes(const document_record *r); /* that it takes */

/* Goes on making tokens; `done` says when there is nothing left. Failures stay in `result`. */
void slot_make(slot *s);
void slot_written(slot *s); /* what was made is: there is room again */
