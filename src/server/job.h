/* One text that somebody asked for: from the body of a request to the last byte of its answer. There is a
 * fixed number of jobs, all of whose memory is planned. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "infer/engine.h"
#include "infer/stop.h"
#include "server/ring.h"
#include "text/template/template.h"

typedef enum {
    JOB_FREE,
    JOB_ASKED,    /* its body is read */
    JOB_WAITING,  /* for room in the engine */
    JOB_WRITING,  /* the engine has it */
    JOB_COMPARED, /* its text has ended, and is told, or not, once all texts beside it have ended */
    JOB_TELLING,  /* its text has ended, and is told behind what was told of its tokens */
    JOB_OVER,     /* what is left is to be read */
} job_state;

/* Why a text ended, in OpenAI's words. */
typedef enum { JOB_GOES_ON, JOB_STOP, JOB_LENGTH, JOB_FAILED } job_end;

enum { JOB_STOPS = 4, JOB_TAIL = 8 };

typedef struct job job;
struct job {
    job_state state;
    uint64_t number; /* among all requests: in its id, and its turn */
    bool chat, streams, tells_usage;
    bool embeds, base64; /* its vector is the answer; as text, not as numbers */
    int64_t dimensions;  /* numbers of it that are asked for; 0: all */
    int64_t created;     /* seconds since 1970 */
    int32_t *ids;        /* the prompt, and behind it what is told */
    int64_t count, tokens, drawn;
    int64_t choices;           /* texts that are asked for; of these */
    int64_t kept;              /* are answers: the best, where there are more texts (compares) */
    bool compares, logarithms; /* logarithms are told */
    double likely;             /* that of the probability of what was drawn */
    bool answers;              /* what is written is a text of its own, and the prompt is its source */
    bool echoes;               /* the prompt is told, before the answer; */
    bool scores;               /* by the engine, from the second token on, with logarithms */
    int64_t echoed;            /* tokens of it that were told */
    /* The group of jobs that answer one request: the first one has the connection. server/group.h. */
    job *first, *next, *reads; /* itself where it is alone; NULL: the last; of the first: whom it reads */
    uint32_t index;
    bool closed;    /* of the first: the end behind all answers is written */
    int64_t cached; /* of the prompt: were not computed again */
    uint32_t key;   /* that it was asked with */
    sample_options sample;
    sample_bias biases[SAMPLE_BIASES];
    constraint *constraint; /* room for what an answer must be; NULL: there is none */
    bool constrained;       /* it must */
    const char *model;      /* what was asked: the model's name, or that of an adapter */
    int32_t adapter;        /* as engine_request has it */
    char stop_bytes[JOB_STOPS][STOP_BYTES];
    const char *stop_strings[JOB_STOPS];
    stop_watch stops;
    int32_t place; /* in the engine */
    job_end end;
    bool begun; /* the answer's first bytes were written */
    /* An answer in a whole with logarithms: what is told of its tokens goes out as they come, and the rest
     * behind it, read anew from its ids, which stand behind the prompt's. */
    float *logprobs;              /* of its tokens; room for text_length + 1 */
    pooled pooled;                /* of one that embeds; its numbers are in the same memory as logprobs */
    const template_value *inputs; /* of the first, while the request is read: what texts are made of */
    int64_t told;                 /* tokens */
    size_t text_bytes;            /* of its text, as far as that goes out */
    int phase;                    /* of answer_more, */
    int64_t at, offset;           /* the token that it is at, and characters before that */
    bool attached;                /* a connection has it: it is not free before that has ended */
    bool replied;                 /* the status of its answer is on its way */
    bool left;                    /* nobody reads any more */
    char tail[JOB_TAIL];          /* the beginning of a character whose end has not come */
    size_t tail_count;
    ring out;
    struct server *server;
    /* Of server/http.c: who asked, by which socket; and the same while it waits for bytes, else NULL. */
    struct MHD_Connection *waits_on, *connection;
    int socket;
    double stalled_since;
    double asked_at, last_at; /* when it came, and when its last token did */
};

/* Ids of the prompt that the text which is told goes on behind. */
static inline int64_t job_before(const job *j) { return j->echoes || j->answers ? 0 : j->count; }
