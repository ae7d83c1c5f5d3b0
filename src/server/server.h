/* What the parts of a server share: the lock and what it guards. */
#pragma once

#include <pthread.h>

#include "server/answer.h"
#include "server/request.h"
#include "server/serve.h"

enum {
    SERVER_BODIES = 8,             /* requests whose bodies are read at once */
    SERVER_CONNECTION = 18 << 10,  /* bytes that a connection holds: 16 KiB of the library's, and its own */
    SERVER_SEND_BUFFER = 16 << 10, /* of a socket, so that what waits for a slow reader waits in the ring */
    SERVER_MOST_CONNECTIONS = 4096,
    SERVER_KEYS = 64,
};

typedef struct {
    char *bytes;
    uint64_t count;
    bool used;
} server_body;

typedef struct server {
    const serve_options *options;
    serve_result *result;
    engine *engine;
    model_folder folder;
    language bytes; /* where no other is given */
    language *language;
    const char *keys[SERVER_KEYS]; /* one of which is asked for */
    uint32_t key_count;            /* 0: none is */
    char key_room[SERVER_KEYS * 64];

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t work;  /* there may be something to do */
    job *jobs;            /* texts + queue */
    uint32_t job_count;
    job *by_place[MODEL_MOST_DECODED];
    uint64_t came; /* requests so far */
    bool closing;  /* nothing new is taken */
    answer_writer writer;

    /* The HTTP thread's alone. */
    request_reader reader;
    answer_writer errors;
    server_body bodies[SERVER_BODIES];
    uint64_t body_bytes;
    pthread_mutex_t words; /* of the language: one thread encodes, the other one decodes */

    struct http *http;
    void *memory; /* that jobs, ids, rings and bodies are parts of */
} server;

/* ---- what the HTTP side does, under the lock ---- */

/* A job for a request that has come whole; NULL: the queue is full. */
job *server_free_job(server *s);
/* The job waits for its turn from now on. */
void server_admit(server *s, job *j);
/* Nobody reads the answer any more. */
void server_leave(server *s, job *j);

/* ---- server/http.c ---- */

uint64_t http_bytes(int64_t connections); /* that it holds: planned */
status http_open(server *s, int64_t *port);
void http_refuse_new(server *s); /* connections */
void http_close(server *s);
/* Under the lock: there is something to read, or nothing more will come. */
void http_wake(server *s, job *j);
/* Under the lock: has the client of a job that waits for bytes gone? */
bool http_gone(const job *j);
