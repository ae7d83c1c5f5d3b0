/* How the HTTP side replies: short answers are the library's copies, long ones stand in pages, and those of
 * texts come by their rings. */
#ifdef SNUG_HTTP
#include <stdio.h>
#include <string.h>

#include "server/exchange.h"
#include "server/group.h"

static enum MHD_Result queue(const reply *r, unsigned code, const char *type, struct MHD_Response *response) {
    char seconds[24];
    if (!response) return MHD_NO;
    http_library.add_response_header(response, "Content-Type", type);
    if (code == 429 || code == 503) {
        pthread_mutex_lock(&r->s->lock);
        snprintf(seconds, sizeof seconds, "%lld", (long long)server_wait(r->s));
        pthread_mutex_unlock(&r->s->lock);
        http_library.add_response_header(response, "Retry-After", seconds);
    }
    if (code == 405) http_library.add_response_header(response, "Allow", "GET, POST");
    enum MHD_Result queued = http_library.queue_response(r->connection, code, response);
    http_library.destroy_response(response);
    return queued;
}

enum MHD_Result reply_with(const reply *r, unsigned code, const char *type, const char *words) {
    return queue(r, code, type,
                 http_library.create_response_from_buffer(strlen(words), (void *)(uintptr_t)words,
                                                          MHD_RESPMEM_MUST_COPY));
}

static void count(server *s, unsigned code) {
    outcome how = code == 429   ? OUTCOME_FULL
                  : code == 503 ? OUTCOME_CLOSED
                  : code >= 500 ? OUTCOME_FAILED
                                : OUTCOME_REFUSED;
    pthread_mutex_lock(&s->lock);
    s->metrics.requests[how]++;
    pthread_mutex_unlock(&s->lock);
}

enum MHD_Result reply_error(const reply *r, unsigned code, const char *sentence, const char *field) {
    const char *kind = code == 401   ? "authentication_error"
                       : code == 429 ? "rate_limit_error"
                       : code >= 500 ? "server_error"
                                     : "invalid_request_error";
    count(r->s, code);
    return reply_with(r, code, "application/json", answer_error(&r->s->errors, kind, sentence, field));
}

/* ---- long answers ---- */

bool reply_hand_on(const reply *r) {
    text *line = &r->s->errors.line;
    bool fits = pages_add(&r->x->answer, &r->s->pages, line->data, line->length);
    line->length = 0;
    return fits;
}

static ssize_t read_paper(void *context, uint64_t position, char *out, size_t most) {
    exchange *x = context;
    size_t read = pages_read(&x->answer, position, out, most);
    return read ? (ssize_t)read : MHD_CONTENT_READER_END_OF_STREAM;
}

enum MHD_Result reply_paper(const reply *r, const char *type, bool complete) {
    if (!complete) {
        pages_end(&r->x->answer, &r->s->pages);
        return reply_error(r, 429, "there is no room for the answer just now", "");
    }
    return queue(
        r, 200, type,
        http_library.create_response_from_callback(r->x->answer.count, 2048, read_paper, r->x, NULL));
}

/* ---- answers of texts ---- */

static ssize_t take(void *context, uint64_t position, char *out, size_t most) {
    job *j = context;
    server *s = j->server;
    (void)position;
    pthread_mutex_lock(&s->lock);
    ssize_t taken = j->left ? 0 : (ssize_t)group_read(j, out, most);
    if (j->left) {
        taken = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (!taken && group_over(j)) {
        taken = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (!taken) {
        http_library.suspend_connection(j->waits_on);
        j->connection = j->waits_on;
    } else {
        pthread_cond_signal(&s->work); /* there is room again */
    }
    pthread_mutex_unlock(&s->lock);
    return taken;
}

enum MHD_Result reply_job(const reply *r, job *j) {
    char place[24];
    struct MHD_Response *response =
        http_library.create_response_from_callback(MHD_SIZE_UNKNOWN, 2048, take, j, NULL);
    if (!response) return MHD_NO;
    http_library.add_response_header(response, "Cache-Control", "no-cache");
    if (r->x->before) {
        snprintf(place, sizeof place, "%lld", (long long)r->x->before);
        http_library.add_response_header(response, "X-Queue-Before", place);
    }
    pthread_mutex_lock(&r->s->lock);
    unsigned code = j->end == JOB_FAILED && !j->streams ? 500 : 200;
    j->replied = true;
    pthread_mutex_unlock(&r->s->lock);
    return queue(r, code, j->streams ? "text/event-stream" : "application/json", response);
}

#endif
