/* What the files of the HTTP side share: an exchange, which is one request on a connection and its answer,
 * and ways to reply. All of it belongs to the library's thread. */
#pragma once

#include "server/http_library.h"
#include "server/server.h"

typedef struct route route;

typedef struct {
    bool used;
    const route *route; /* NULL: nothing is called so */
    unsigned wrong;     /* status with which it is refused once all of it has come; 0: none yet */
    uint64_t discarded; /* bytes of a body that is refused */
    paper body, answer; /* answer: a long one */
    uint32_t key;       /* that it came with */
    job *job;           /* NULL: none */
    int64_t before;     /* how many waited when it came */
} exchange;

/* Who is answered. */
typedef struct {
    server *s;
    struct MHD_Connection *connection;
    exchange *x;
} reply;

typedef enum { METHOD_NONE, METHOD_GET, METHOD_POST } http_method;

/* A path, what is done there, and whether the key must be known. */
struct route {
    const char *path;
    http_method method;
    bool open;
    enum MHD_Result (*answer)(const reply *r);
    request_kind kind; /* of a POST */
};
/* NULL: nothing is called so; it may be called so by another method. */
const route *route_find(const char *path);

/* ---- server/reply.c ---- */

enum MHD_Result reply_with(const reply *r, unsigned code, const char *type, const char *words);
/* As OpenAI says it. `field` "": none. It is counted. */
enum MHD_Result reply_error(const reply *r, unsigned code, const char *sentence, const char *field);
/* What stands in x->answer, with 200; or, where `complete` is false, that there are too few pages. */
enum MHD_Result reply_paper(const reply *r, const char *type, bool complete);
/* The line of s->errors, into x->answer. False: there are too few pages. */
bool reply_hand_on(const reply *r);
/* The job's answer as it comes. */
enum MHD_Result reply_job(const reply *r, job *j);
