/* Connections, by libmicrohttpd in a thread of its own. A connection that waits for bytes of an answer is
 * suspended until the engine's thread wakes it; meanwhile the library does not see whether its client is
 * still there, so the engine's thread asks the socket. */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "server/listener.h"
#include "server/server.h"

#ifdef SNUG_HTTP
#include "server/exchange.h"

enum {
    CLOSING = 8, /* connections that end while others begin in their places */
    IDLE_SECONDS = LISTENER_SILENT_SECONDS,
    DISCARDED = 16 << 20, /* of a body that is too long, until the connection ends */
    LIBRARY_ROOM = 16384, /* of a connection: for its head, and pieces of its body and answer */
};

struct http {
    struct MHD_Daemon *daemon;
    exchange *exchanges;
    uint32_t exchange_count;
};

uint64_t http_bytes(int64_t connections) {
    return (uint64_t)(connections + CLOSING) * (SERVER_CONNECTION + sizeof(exchange)) + sizeof(struct http) +
           HTTP_LIBRARY_BYTES + listener_bytes(connections);
}

void http_wake(server *s, job *j) {
    (void)s;
    if (j->first) j = j->first; /* nobody has asked for a job that never was one */
    if (!j->connection) return;
    http_library.resume_connection(j->connection);
    j->connection = NULL;
}

bool http_gone(const job *j) {
    struct pollfd p = { j->socket, POLLRDHUP, 0 };
    return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* ---- the head of a request ---- */

typedef struct {
    int lengths, encodings;
    bool chunked;
} framing;

static enum MHD_Result look_at(void *context, enum MHD_ValueKind kind, const char *key, const char *value) {
    framing *f = context;
    (void)kind;
    if (strcasecmp(key, "Content-Length") == 0) f->lengths++;
    if (strcasecmp(key, "Transfer-Encoding") == 0) {
        f->encodings++;
        f->chunked = value && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

/* Two programs may read such a head as bodies of two lengths, and what is behind the shorter one as another
 * request. */
static bool is_ambiguous(struct MHD_Connection *connection) {
    framing f = { 0 };
    http_library.get_connection_values(connection, MHD_HEADER_KIND, look_at, &f);
    return f.lengths + f.encodings > 1 || (f.encodings && !f.chunked);
}

/* In the same time wherever they differ. */
static bool is_same(const char *said, const char *key) {
    unsigned char differs = strlen(said) != strlen(key);
    for (size_t i = 0; key[i] && said[i]; i++) differs |= (unsigned char)(key[i] ^ said[i]);
    return !differs;
}

/* And which it is. */
static bool knows_key(const reply *r) {
    static const char bearer[] = "Bearer ";
    const server *s = r->s;
    const char *said = http_library.lookup_connection_value(r->connection, MHD_HEADER_KIND, "Authorization");
    uint32_t found = s->key_count;
    if (!s->key_count) return true;
    if (!said || strncmp(said, bearer, sizeof bearer - 1) != 0) return false;
    for (uint32_t i = 0; i < s->key_count; i++)
        if (is_same(said + sizeof bearer - 1, s->keys[i])) found = i;
    r->x->key = found;
    return found < s->key_count;
}

static unsigned is_up(server *s) {
    pthread_mutex_lock(&s->lock);
    unsigned code = s->loading || s->closing ? 503 : 0;
    pthread_mutex_unlock(&s->lock);
    return code;
}

static http_method method_of(const char *word) {
    if (strcmp(word, "GET") == 0 || strcmp(word, "HEAD") == 0) return METHOD_GET;
    return strcmp(word, "POST") == 0 ? METHOD_POST : METHOD_NONE;
}

static unsigned wrong_with(const reply *r, http_method method) {
    const route *known = r->x->route;
    if (method == METHOD_NONE) return 405;
    if (!known) return 404;
    if (known->method != method) return 405;
    return known->open || knows_key(r) ? 0 : 401;
}

static exchange *begin_exchange(server *s) {
    struct http *h = s->http;
    for (uint32_t i = 0; i < h->exchange_count; i++) {
        exchange *x = &h->exchanges[i];
        if (x->used) continue;
        *x = (exchange){ .used = true };
        pages_begin(&x->body, &s->pages), pages_begin(&x->answer, &s->pages);
        return x;
    }
    return NULL;
}

static enum MHD_Result take_head(reply *r, const char *url, const char *method, void **own) {
    exchange *x = r->x = *own = begin_exchange(r->s);
    if (!x) return MHD_NO;
    http_library.set_connection_option(r->connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)IDLE_SECONDS);
    x->route = route_find(url);
    x->wrong = wrong_with(r, method_of(method));
    if (!is_ambiguous(r->connection)) return MHD_YES;
    return reply_error(r, 400, "the length of the body is said twice, or in a way that is not known", "");
}

/* ---- the body ---- */

static void give_up(const reply *r, unsigned code) {
    r->x->wrong = code;
    pages_end(&r->x->body, &r->s->pages);
}

/* What is wrong is said once all of the body has come: clients seldom listen before. */
static enum MHD_Result take_body(const reply *r, const char *data, size_t count) {
    exchange *x = r->x;
    if (!x->wrong && count > r->s->body_bytes - x->body.count) give_up(r, 413);
    if (!x->wrong && !pages_add(&x->body, &r->s->pages, data, count)) give_up(r, 429);
    if (x->wrong) x->discarded += count;
    return x->discarded > DISCARDED ? MHD_NO : MHD_YES;
}

static enum MHD_Result refuse(const reply *r) {
    switch (r->x->wrong) {
    case 401: return reply_error(r, 401, "the key is missing or wrong", "");
    case 404: return reply_error(r, 404, "there is nothing of this name", "");
    case 405: return reply_error(r, 405, "GET and POST are known here, each of paths of its own", "");
    case 413: return reply_error(r, 413, "the body is longer than a prompt of this model may be", "");
    case 429: return reply_error(r, 429, "too many requests come at once", "");
    default: break;
    }
    pthread_mutex_lock(&r->s->lock);
    bool closing = r->s->closing;
    pthread_mutex_unlock(&r->s->lock);
    return reply_error(r, 503, closing ? "the server is closing" : "the model is being loaded", "");
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data, size_t *count,
                              void **own) {
    server *s = context;
    exchange *x = *own;
    reply r = { s, connection, x };
    (void)version;
    if (!x) return take_head(&r, url, method, own);
    if (*count) {
        size_t all = *count;
        *count = 0;
        return take_body(&r, data, all);
    }
    if (x->job) return reply_job(&r, x->job); /* it goes on */
    if (!x->wrong && x->route->method == METHOD_POST) x->wrong = is_up(s);
    return x->wrong ? refuse(&r) : x->route->answer(&r);
}

static void completed(void *context, struct MHD_Connection *connection, void **own,
                      enum MHD_RequestTerminationCode how) {
    server *s = context;
    exchange *x = *own;
    (void)connection, (void)how;
    if (!x) return;
    pages_end(&x->body, &s->pages), pages_end(&x->answer, &s->pages);
    pthread_mutex_lock(&s->lock);
    if (x->job) server_leave(s, x->job);
    pthread_mutex_unlock(&s->lock);
    *x = (exchange){ 0 };
    *own = NULL;
}

/* ---- the daemon ---- */

static void connected(void *context, struct MHD_Connection *connection, void **own,
                      enum MHD_ConnectionNotificationCode how) {
    (void)connection, (void)own;
    if (how == MHD_CONNECTION_NOTIFY_CLOSED) listener_freed(context);
}

static void stay_silent(void *context, const char *format, va_list rest) {
    (void)context, (void)format, (void)rest;
}

/* Takes the socket over. */
static bool serve_socket(server *s, int socket, const struct sockaddr *from, socklen_t bytes) {
    int small = SERVER_SEND_BUFFER;
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    return http_library.add_connection(s->http->daemon, socket, from, bytes) == MHD_YES;
}

static status start_daemon(server *s) {
    struct http *h = s->http;
    const serve_options *o = s->options;
    h->exchange_count = (uint32_t)o->connections + CLOSING;
    h->exchanges = memory_new(h->exchange_count, sizeof *h->exchanges);
    if (!h->exchanges)
        return status_set(STATUS_FAILED, "no memory for %lld connections", (long long)o->connections);
    /* By poll: by epoll it misses the end of who sends something and goes at once, until the connection's
     * time is over. */
    h->daemon = http_library.start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
            MHD_USE_NO_LISTEN_SOCKET,
        0, NULL, NULL, handle, s, MHD_OPTION_EXTERNAL_LOGGER, stay_silent, NULL, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LIBRARY_ROOM, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)h->exchange_count, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_NOTIFY_COMPLETED, completed, s, MHD_OPTION_NOTIFY_CONNECTION, connected, s,
        MHD_OPTION_END);
    return h->daemon ? STATUS_OK : status_set(STATUS_FAILED, "libmicrohttpd does not start");
}

status http_open(server *s, int64_t *port) {
    struct http *h = s->http = memory_new(1, sizeof *h);
    if (!h) return status_set(STATUS_FAILED, "no memory for connections");
    TRY(http_library_open());
    TRY(listener_open(s, serve_socket, port));
    TRY(start_daemon(s));
    return listener_start(s);
}

void http_close(server *s) {
    struct http *h = s->http;
    listener_close(s);
    if (!h) return;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->job_count; i++) {
        if (s->jobs[i].state != JOB_FREE && s->jobs[i].state != JOB_OVER) s->jobs[i].left = true;
        http_wake(s, &s->jobs[i]);
    }
    pthread_mutex_unlock(&s->lock);
    if (h->daemon) http_library.stop_daemon(h->daemon);
    memory_free(h->exchanges);
    memory_free(h);
    s->http = NULL;
}

#else

struct http {
    int none;
};

uint64_t http_bytes(int64_t connections) { return (void)connections, 0; }
status http_open(server *s, int64_t *port) {
    (void)s, (void)port;
    return status_set(STATUS_INVALID, "this snug was built without libmicrohttpd, and cannot serve; install "
                                      "libmicrohttpd-dev and build again");
}
void http_close(server *s) { (void)s; }
void http_wake(server *s, job *j) { (void)s, (void)j; }
bool http_gone(const job *j) { return (void)j, false; }

#endif
