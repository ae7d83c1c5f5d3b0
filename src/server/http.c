/* Connections, by libmicrohttpd in a thread of its own. A connection that waits for bytes of an answer is
 * suspended until the engine's thread wakes it; meanwhile the library does not see whether its client is
 * still there, so the engine's thread asks the socket. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "io/json.h"
#include "server/server.h"

#ifdef SNUG_HTTP
#include <arpa/inet.h>
#include <netinet/in.h>

#include "server/http_library.h"

/* One request on a connection. */
typedef struct {
    bool used, is_chat, posts;
    server_body *body; /* NULL: none, or there was none to be had */
    bool too_long;
    uint32_t key; /* that it came with */
    job *job;     /* NULL: none */
} exchange;

struct http {
    struct MHD_Daemon *daemon;
    exchange *exchanges;
    uint32_t exchange_count;
};

uint64_t http_bytes(int64_t connections) {
    return (uint64_t)connections * (SERVER_CONNECTION + sizeof(exchange)) + sizeof(struct http) +
           HTTP_LIBRARY_BYTES;
}

/* ---- answers that are short ---- */

typedef struct {
    server *s;
    struct MHD_Connection *connection;
} reply;

static enum MHD_Result reply_with(const reply *r, unsigned code, const char *type, const char *words) {
    struct MHD_Response *response = http_library.create_response_from_buffer(
        strlen(words), (void *)(uintptr_t)words, MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    http_library.add_response_header(response, "Content-Type", type);
    if (code == 429 || code == 503) http_library.add_response_header(response, "Retry-After", "1");
    enum MHD_Result queued = http_library.queue_response(r->connection, code, response);
    http_library.destroy_response(response);
    return queued;
}

static enum MHD_Result reply_error(const reply *r, unsigned code, const char *sentence, const char *field) {
    const char *kind = code == 401   ? "authentication_error"
                       : code == 429 ? "rate_limit_error"
                       : code >= 500 ? "server_error"
                                     : "invalid_request_error";
    return reply_with(r, code, "application/json", answer_error(&r->s->errors, kind, sentence, field));
}

static enum MHD_Result reply_models(const reply *r) {
    server *s = r->s;
    const engine_sizes *sizes = engine_planned(s->engine);
    text *line = &s->errors.line;
    line->length = 0;
    json_writer json = { .out = line };
    json_begin_object(&json, NULL);
    json_put_string(&json, "object", "list");
    json_begin_array(&json, "data");
    json_begin_object(&json, NULL);
    json_put_string(&json, "id", s->options->name);
    json_put_string(&json, "object", "model");
    json_put_integer(&json, "created", 0);
    json_put_string(&json, "owned_by", "snug");
    json_put_integer(&json, "max_model_len", sizes->text_length);
    json_put_integer(&json, "default_max_tokens", s->options->default_tokens);
    json_end_object(&json);
    json_end_array(&json);
    json_end_object(&json);
    return reply_with(r, 200, "application/json", line->data);
}

/* ---- answers that come in pieces ---- */

static ssize_t take(void *context, uint64_t position, char *out, size_t most) {
    job *j = context;
    server *s = j->server;
    (void)position;
    pthread_mutex_lock(&s->lock);
    ssize_t count = j->left ? 0 : (ssize_t)ring_read(&j->out, out, most);
    if (j->left) {
        count = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (!count && j->state == JOB_OVER) {
        count = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (!count) {
        http_library.suspend_connection(j->waits_on);
        j->connection = j->waits_on;
    } else {
        pthread_cond_signal(&s->work); /* there is room again */
    }
    pthread_mutex_unlock(&s->lock);
    return count;
}

void http_wake(server *s, job *j) {
    (void)s;
    if (!j->connection) return;
    http_library.resume_connection(j->connection);
    j->connection = NULL;
}

bool http_gone(const job *j) {
    struct pollfd p = { j->socket, POLLRDHUP, 0 };
    return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static enum MHD_Result reply_job(const reply *r, job *j) {
    struct MHD_Response *response =
        http_library.create_response_from_callback(MHD_SIZE_UNKNOWN, 2048, take, j, NULL);
    if (!response) return MHD_NO;
    http_library.add_response_header(response, "Content-Type",
                                     j->streams ? "text/event-stream" : "application/json");
    http_library.add_response_header(response, "Cache-Control", "no-cache");
    pthread_mutex_lock(&r->s->lock);
    unsigned code = j->end == JOB_FAILED && !j->streams ? 500 : 200;
    j->replied = true;
    pthread_mutex_unlock(&r->s->lock);
    enum MHD_Result queued = http_library.queue_response(r->connection, code, response);
    http_library.destroy_response(response);
    return queued;
}

/* ---- requests ---- */

/* In the same time wherever they differ. */
static bool is_same(const char *said, const char *key) {
    unsigned char differs = strlen(said) != strlen(key);
    for (size_t i = 0; key[i] && said[i]; i++) differs |= (unsigned char)(key[i] ^ said[i]);
    return !differs;
}

/* And which it is. */
static bool knows_key(const reply *r, uint32_t *which) {
    static const char bearer[] = "Bearer ";
    const server *s = r->s;
    const char *said = http_library.lookup_connection_value(r->connection, MHD_HEADER_KIND, "Authorization");
    uint32_t found = s->key_count;
    if (!s->key_count) return true;
    if (!said || strncmp(said, bearer, sizeof bearer - 1) != 0) return false;
    for (uint32_t i = 0; i < s->key_count; i++)
        if (is_same(said + sizeof bearer - 1, s->keys[i])) found = i;
    *which = found;
    return found < s->key_count;
}

/* Who is heard from now on, and by which socket. */
static void bind_job(server *s, job *j, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        http_library.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    int small = SERVER_SEND_BUFFER;
    j->attached = true, j->server = s, j->waits_on = connection, j->socket = info->connect_fd;
    setsockopt(j->socket, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
}

static enum MHD_Result admit(const reply *r, exchange *x) {
    server *s = r->s;
    request_refusal why;
    request_body body = { x->body->bytes, x->body->count, x->is_chat };
    pthread_mutex_lock(&s->lock);
    job *j = s->closing ? NULL : server_free_job(s);
    if (j) j->state = JOB_ASKED, j->number = s->came++, s->reader.seed = j->number;
    bool closing = s->closing;
    if (!j) s->result->refused++;
    pthread_mutex_unlock(&s->lock);
    if (closing) return reply_error(r, 503, "the server is closing", "");
    if (!j) return reply_error(r, 429, "all places are taken, and so is the queue", "");

    pthread_mutex_lock(&s->words);
    status result = request_read(&s->reader, &body, j, &why);
    pthread_mutex_unlock(&s->words);
    x->body->used = false, x->body = NULL;
    pthread_mutex_lock(&s->lock);
    if (result != STATUS_OK) {
        j->state = JOB_FREE;
        s->result->refused++;
        pthread_mutex_unlock(&s->lock);
        return reply_error(r, why.other_model ? 404 : 400, status_message(), why.field);
    }
    bind_job(s, j, r->connection);
    j->key = x->key;
    server_admit(s, j);
    x->job = j, j->replied = false;
    if (!j->streams) { /* a whole answer waits for its end, or until it is too long to wait: it may fail */
        http_library.suspend_connection(r->connection);
        j->connection = r->connection;
    }
    pthread_mutex_unlock(&s->lock);
    return j->streams ? reply_job(r, j) : MHD_YES;
}

static enum MHD_Result answer_post(const reply *r, exchange *x, const char *url) {
    bool is_chat = strcmp(url, "/v1/chat/completions") == 0;
    if (!is_chat && strcmp(url, "/v1/completions") != 0)
        return reply_error(r, 404, "there is nothing of this name", "");
    if (!knows_key(r, &x->key)) return reply_error(r, 401, "the key is missing or wrong", "");
    if (x->too_long) return reply_error(r, 413, "the body is longer than a prompt of this model may be", "");
    if (!x->body) return reply_error(r, 503, "too many requests come at once", "");
    x->is_chat = is_chat;
    return admit(r, x);
}

static enum MHD_Result answer_get(const reply *r, const char *url) {
    uint32_t which;
    if (strcmp(url, "/health") == 0) return reply_with(r, 200, "text/plain", "ok\n");
    if (strcmp(url, "/v1/models") != 0) return reply_error(r, 404, "there is nothing of this name", "");
    return knows_key(r, &which) ? reply_models(r) : reply_error(r, 401, "the key is missing or wrong", "");
}

static exchange *free_exchange(struct http *h) {
    for (uint32_t i = 0; i < h->exchange_count; i++)
        if (!h->exchanges[i].used) return &h->exchanges[i];
    return NULL;
}

static void take_body(server *s, exchange *x, const char *data, size_t count) {
    for (int i = 0; !x->body && !x->too_long && i < SERVER_BODIES; i++)
        if (!s->bodies[i].used) x->body = &s->bodies[i], x->body->used = true, x->body->count = 0;
    if (!x->body) return;
    if (count > s->body_bytes - x->body->count) {
        x->too_long = true, x->body->used = false, x->body = NULL;
        return;
    }
    memcpy(x->body->bytes + x->body->count, data, count);
    x->body->count += count;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data, size_t *count,
                              void **own) {
    server *s = context;
    reply r = { s, connection };
    exchange *x = *own;
    (void)version;
    if (!x) { /* the head alone has come */
        if (!(x = *own = free_exchange(s->http))) return MHD_NO;
        *x = (exchange){ .used = true, .posts = strcmp(method, "POST") == 0 };
        return MHD_YES;
    }
    if (*count) {
        if (x->posts) take_body(s, x, data, *count);
        *count = 0;
        return MHD_YES;
    }
    if (x->job) return reply_job(&r, x->job); /* it goes on */
    if (x->posts) return answer_post(&r, x, url);
    if (strcmp(method, "GET") == 0) return answer_get(&r, url);
    return reply_error(&r, 405, "GET and POST are known here", "");
}

static void completed(void *context, struct MHD_Connection *connection, void **own,
                      enum MHD_RequestTerminationCode how) {
    server *s = context;
    exchange *x = *own;
    (void)connection, (void)how;
    if (!x) return;
    if (x->body) x->body->used = false;
    pthread_mutex_lock(&s->lock);
    if (x->job) server_leave(s, x->job);
    pthread_mutex_unlock(&s->lock);
    *x = (exchange){ 0 };
    *own = NULL;
}

/* ---- the daemon ---- */

static void stay_silent(void *context, const char *format, va_list rest) {
    (void)context, (void)format, (void)rest;
}

static status address_of(const serve_options *o, struct sockaddr_in *a) {
    *a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)o->port) };
    if (inet_pton(AF_INET, o->host, &a->sin_addr) == 1) return STATUS_OK;
    return status_set(STATUS_INVALID, "--host %s is no IPv4 address", o->host);
}

status http_open(server *s, int64_t *port) {
    const serve_options *o = s->options;
    struct sockaddr_in address;
    struct http *h = s->http = memory_new(1, sizeof *h);
    TRY(address_of(o, &address));
    TRY(http_library_open());
    h->exchange_count = (uint32_t)o->connections;
    h->exchanges = memory_new(h->exchange_count, sizeof *h->exchanges);
    if (!h->exchanges)
        return status_set(STATUS_FAILED, "no memory for %lld connections", (long long)o->connections);
    errno = 0;
    h->daemon = http_library.start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, (uint16_t)o->port, NULL,
        NULL, handle, s, MHD_OPTION_EXTERNAL_LOGGER, stay_silent, NULL, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)o->connections, MHD_OPTION_CONNECTION_TIMEOUT, 10u, MHD_OPTION_NOTIFY_COMPLETED, completed,
        s, MHD_OPTION_END);
    if (!h->daemon)
        return status_set(STATUS_INVALID, "%s:%lld cannot be listened at: %s", o->host, (long long)o->port,
                          errno ? strerror(errno) : "the library refuses");
    const union MHD_DaemonInfo *info = http_library.get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (info) *port = info->port;
    return STATUS_OK;
}

void http_refuse_new(server *s) { http_library.quiesce_daemon(s->http->daemon); }

void http_close(server *s) {
    struct http *h = s->http;
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
void http_refuse_new(server *s) { (void)s; }
void http_close(server *s) { (void)s; }
void http_wake(server *s, job *j) { (void)s, (void)j; }
bool http_gone(const job *j) { return (void)j, false; }

#endif
