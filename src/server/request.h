/* The body of a request becomes a job. Fields are OpenAI's; one that would change the answer and is not known
 * is refused by its name. */
#pragma once

#include "base/json_reader.h"
#include "infer/language.h"
#include "language/chat.h"
#include "server/job.h"

typedef struct {
    language *language;
    const chat *chat;  /* NULL: the model has no template */
    const char *model; /* the name that is served; and of adapters of it: */
    const model_folder_adapter *adapters;
    uint32_t adapter_count;
    int64_t vocabulary;
    int64_t text_length;        /* positions of a text, at most; of a prompt too */
    bool answers;               /* a prompt is no part of the text that is written */
    int64_t jobs;               /* that are written or wait, at most */
    const engine_sizes *engine; /* whole: it makes embeddings alone */
    const pooling *pooling;     /* of embeddings */
    uint64_t seed;              /* where the client says none */
    int64_t default_tokens;     /* where the client says none; 0: as many as there is room for */
    void *room;                 /* for a body's values; aligned to 16 */
    uint64_t room_bytes;
    char *words; /* for a prompt */
    uint64_t words_bytes;
} request_reader;

/* What was wrong: the field's name (JSON's key; "": none), and whether it is another model that is asked for.
 */
enum { REQUEST_FIELD_BYTES = 64, REQUEST_CHOICES = 128 /* answers to one, at most */ };
typedef struct {
    char field[REQUEST_FIELD_BYTES];
    bool other_model;
} request_refusal;

/* What is asked for: each kind has fields of its own. Tokens and texts of them are answered at once. */
typedef enum {
    REQUEST_COMPLETION = 1,
    REQUEST_CHAT = 2,
    REQUEST_TOKENS = 4, /* of a text or a chat */
    REQUEST_TEXT = 8,   /* of tokens */
    REQUEST_EMBEDDINGS = 16,
} request_kind;

typedef struct {
    json_source source; /* read twice */
    request_kind kind;
} request_body;

/* `j` gets what the body asks for, but for its state. STATUS_INVALID with a sentence, and `why`. */
status request_read(const request_reader *r, const request_body *body, job *j, request_refusal *why);
/* Of embeddings: the first text is in the job that request_read had; `j` gets text `i` of first->choices. Not
 * after another request was read. */
status request_text(const request_reader *r, const job *first, int64_t i, job *j, request_refusal *why);
