/* snug serve: OpenAI's requests over HTTP, answered by the engine within memory that is planned before a
 * weight is read. One thread decides and computes; one more has the connections (libmicrohttpd). */
#pragma once

#include <signal.h>

#include "infer/engine.h"
#include "infer/language.h"
#include "language/chat.h"

typedef struct {
    const char *directory; /* with the model */
    const char *adapter;   /* NULL: none */
    dtype products;        /* as model_folder_open has it */
    engine_options engine;
    const char *name;     /* that clients ask for */
    const char *host;     /* an IPv4 address to listen at */
    int64_t port;         /* 0: any that is free */
    const char *key_file; /* each line is a key that a client may know; NULL: none */
    int64_t text_length;  /* positions of a text; 0: the model's context */
    int64_t texts;        /* at once */
    int64_t rows;         /* of a step */
    int64_t queue;        /* texts that wait for room */
    int64_t connections;
    int64_t default_tokens; /* where a client says none; 0: as many as there is room for */
    int64_t stall_seconds;  /* a reader that takes nothing for so long is left */
    bool expects;           /* admission is expected, not certain (infer/engine.h) */
    int64_t guesses;        /* tokens of a text that a step has unasked, at most */
    enum { SERVE_SHARE_KEY, SERVE_SHARE_ALL, SERVE_SHARE_OFF } share; /* of prompts that begin alike */
    int64_t drain_seconds;             /* what is left of answers when it is asked to stop */
    dtype cache;                       /* NONE: what products multiply */
    language *language;                /* NULL: bytes */
    chat *chat;                        /* NULL: the model has no template */
    bool dry_run;                      /* the plan alone */
    const volatile sig_atomic_t *stop; /* how often it was asked to */
    /* The plan is made; requests are heard at this port. May be NULL. */
    void (*planned)(void *context, const plan *p, const engine_sizes *s, uint64_t served_bytes);
    void (*heard)(void *context, int64_t port);
    void *context;
} serve_options;

typedef struct {
    uint64_t requests, answered, left, refused; /* left: by their clients, before the end */
    int64_t prompt_tokens, new_tokens;
    uint64_t planned_bytes, resident_peak_bytes;
} serve_result;

/* Until it is asked to stop. STATUS_INVALID for options, a port that is taken, or where snug was built
 * without libmicrohttpd; STATUS_NO_FIT where the plan is beyond the budget. */
status serve_run(const serve_options *o, serve_result *r);
