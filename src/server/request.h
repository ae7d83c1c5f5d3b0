/* The body of a request becomes a job. Fields are OpenAI's; one that would change the answer and is not known
 * is refused by its name. */
#pragma once

#include "infer/language.h"
#include "language/chat.h"
#include "server/job.h"

typedef struct {
    language *language;
    const chat *chat;  /* NULL: the model has no template */
    const char *model; /* the name that is served */
    int64_t vocabulary;
    int64_t text_length;    /* positions of a text, at most */
    uint64_t seed;          /* where the client says none */
    int64_t default_tokens; /* where the client says none; 0: as many as there is room for */
    void *room;             /* for a body's values; aligned to 16 */
    uint64_t room_bytes;
    char *words; /* for a prompt */
    uint64_t words_bytes;
} request_reader;

/* What was wrong: the field's name (JSON's key; "": none), and whether it is another model that is asked for.
 */
enum { REQUEST_FIELD_BYTES = 64 };
typedef struct {
    char field[REQUEST_FIELD_BYTES];
    bool other_model;
} request_refusal;

typedef struct {
    const char *bytes;
    uint64_t count;
    bool chat;
} request_body;

/* `j` gets what the body asks for, but for its state. STATUS_INVALID with a sentence, and `why`. */
status request_read(const request_reader *r, const request_body *body, job *j, request_refusal *why);
