/* What the parts of a server share: the lock and what it guards. */
#pragma once

#include <pthread.h>

#include "server/answer.h"
#include "server/metrics.h"
#include "server/pages.h"
#include "server/request.h"
#include "server/serve.h"
#include "server/serve_sizes.h"

enum {
    SERVER_CONNECTION = 18 << 10,  /* bytes that a connection holds: 16 KiB of the library's, and its own */
    SERVER_SEND_BUFFER = 16 << 10, /* of a socket, so that what waits for a slow reader waits in the ring */
    SERVER_KEYS = 64,
};

typedef struct server {
    const serve_options *options;
    serve_result *result;
    engine *engine;
    model_folder folder;
    pooling pooling; /* of embeddings */
    language bytes;  /* where no other is given */
    language *language;
    const char *keys[SERVER_KEYS]; /* one of which is asked for */
    uint32_t key_count;            /* 0: none is */
    char key_room[SERVER_KEYS * 64];

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t work;  /* there may be something to do */
    job *jobs;            /* texts + queue */
    uint32_t job_count;
    job *by_place[LANGUAGE_TEXTS];
    uint64_t came;         /* requests so far */
    bool loading, closing; /* nothing is taken yet, or nothing new */
    answer_writer writer;
    metrics metrics;
    double pace; /* seconds of a step, of late; 0: none was made */
    uint64_t connections, refused_connections;

    /* The HTTP thread's alone. */
    request_reader reader;
    answer_writer errors;
    job read; /* of requests that are answered at once: its ids have room */
    pages pages;
    uint64_t body_bytes;   /* of one, at most */
    pthread_mutex_t words; /* of the language: one thread encodes, the other one decodes */

    struct http *http;
    struct listener *listener;
    serve_words measured;
    constraint_words vocabulary; /* where there are answers by a schema */
    serve_plan plan;
    serve_held held;
    void *memory; /* that jobs, ids, rings and pages are parts of */
} server;

/* ---- what the HTTP side does, under the lock ---- */

/* A job for a request that has come whole; NULL: the queue is full. */
job *server_free_job(server *s);
/* The job waits for its turn from now on. */
void server_admit(server *s, job *j);
/* Nobody reads the answer any more. */
void server_leave(server *s, job *j);
/* How many wait that came before it. */
int64_t server_before(const server *s, const job *j);
/* Whole seconds until a place in the queue is free, as steps go: at least 1. */
int64_t server_wait(const server *s);
metrics_now server_now(const server *s);

/* ---- server/http.c ---- */

uint64_t http_bytes(int64_t connections); /* that it holds: planned */
status http_open(server *s, int64_t *port);
void http_close(server *s);
/* Under the lock: there is something to read, or nothing more will come. */
void http_wake(server *s, job *j);
/* Under the lock: has the client of a job that waits for bytes gone? */
bool http_gone(const job *j);
