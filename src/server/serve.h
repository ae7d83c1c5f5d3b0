/* snug serve: OpenAI's requests over HTTP, answered by the engine within memory that is planned before a
 * weight is read. One thread decides and computes; one more has the connections (libmicrohttpd), and a third
 * one accepts them. */
#pragma once

#include <signal.h>

#include "base/text.h"
#include "infer/engine.h"
#include "infer/language.h"
#include "language/chat.h"

struct serve_plan;

/* What is asked instead of serving: the largest or least value with which all the rest fits. */
typedef enum { SERVE_SOLVE_NOTHING, SERVE_SOLVE_MEMORY } serve_solve;

enum { SERVE_FITTED = -1 /* of text_length and texts: the most that there is room for */ };
enum { SERVER_MOST_CONNECTIONS = 16384 };
enum { SERVE_ADAPTER_NAME = 64 /* bytes of an adapter's name, with the zero */ };

typedef struct {
    const char *directory;      /* with the model; NULL: its plan alone is asked for, of: */
    const model_config *config; /* with weights of the type */
    dtype stored;
    const char *adapter;                  /* beside all texts; NULL: none */
    const model_folder_adapter *adapters; /* that requests name as their model */
    uint32_t adapter_count;
    dtype products; /* as model_folder_open has it */
    engine_options engine;
    const char *name;     /* that clients ask for */
    const char *host;     /* an IPv4 address to listen at, or unix:PATH */
    int64_t port;         /* 0: any that is free */
    const char *key_file; /* each line is a key that a client may know; NULL: none */
    int64_t text_length;  /* positions of a text; 0: the model's context; SERVE_FITTED */
    int64_t texts;        /* at once; SERVE_FITTED */
    int64_t rows;         /* of a step */
    int64_t queue;        /* texts that wait for room */
    int64_t connections;
    int64_t default_tokens; /* where a client says none; 0: as many as there is room for */
    int64_t stall_seconds;  /* a reader that takes nothing for so long is left */
    bool expects;           /* admission is expected, not certain (infer/engine.h) */
    int64_t guesses;        /* tokens of a text that a step has unasked, at most */
    enum serve_sharing {
        SERVE_SHARE_KEY,
        SERVE_SHARE_ALL,
        SERVE_SHARE_OFF
    } share;               /* of prompts that begin alike */
    int64_t drain_seconds; /* what is left of answers when it is asked to stop */
    dtype cache;           /* NONE: what products multiply */
    language *language;    /* NULL: bytes */
    chat *chat;            /* NULL: the model has no template */
    serve_solve solve;
    uint64_t within; /* of `solve`: the memory that it is compared with, which the plan says; 0: none */
    bool no_formats; /* answers by a schema are refused, and hold no memory */
    bool dry_run;    /* the plan alone */
    const volatile sig_atomic_t *stop; /* how often it was asked to */
    /* The plan is made; requests are heard at this port (0: at a path). May be NULL. */
    void (*planned)(void *context, const struct serve_plan *p);
    void (*heard)(void *context, int64_t port);
    void *context;
} serve_options;

/* Bytes that a server holds beside its engine, a part of the plan's runtime. */
typedef struct {
    uint64_t queue;       /* requests that are written or wait: ids, answers on their way */
    uint64_t pages;       /* of bodies and long answers */
    uint64_t connections; /* the library's, too */
    uint64_t reading;     /* one body at a time */
    uint64_t tokenizer, templates, answers;
    uint64_t formats; /* the words of all tokens, for answers by a schema */
} serve_held;

typedef struct serve_plan {
    const serve_options *options;
    const plan *plan;
    const engine_sizes *sizes;
    const serve_held *held;
    const pooling *pooling;
} serve_plan;

int64_t serve_plan_texts(const engine_sizes *s); /* of the full length, that the cache has room for */
/* One object, with a line's end. */
void serve_plan_json(text *out, const serve_plan *p);

typedef struct {
    uint64_t requests, answered, left, refused; /* left: by their clients, before the end */
    int64_t prompt_tokens, new_tokens;
    uint64_t planned_bytes, resident_peak_bytes;
    exec_measured measured; /* of the programs that ran */
} serve_result;

void serve_plan_result_json(text *out, const serve_result *r); /* one object, with a line's end */

/* Until it is asked to stop. STATUS_INVALID for options, a port that is taken, or where snug was built
 * without libmicrohttpd; STATUS_NO_FIT where the plan is beyond the budget, with what would fit. */
status serve_run(const serve_options *o, serve_result *r);
