/* The paths that are known, and what is answered there. */
#ifdef SNUG_HTTP
#include <string.h>

#include "io/json.h"
#include "server/exchange.h"
#include "server/group.h"

/* ---- how the server is ---- */

static enum MHD_Result answer_health(const reply *r) { return reply_with(r, 200, "text/plain", "ok\n"); }

static enum MHD_Result answer_ready(const reply *r) {
    pthread_mutex_lock(&r->s->lock);
    bool loading = r->s->loading, closing = r->s->closing;
    pthread_mutex_unlock(&r->s->lock);
    return reply_with(r, loading || closing ? 503 : 200, "text/plain",
                      closing   ? "closing\n"
                      : loading ? "loading\n"
                                : "ready\n");
}

static enum MHD_Result answer_models(const reply *r) {
    server *s = r->s;
    text *line = &s->errors.line;
    json_writer json = { .out = line };
    line->length = 0;
    json_begin_object(&json, NULL);
    json_put_string(&json, "object", "list");
    json_begin_array(&json, "data");
    for (uint32_t i = 0; i <= s->options->adapter_count; i++) {
        json_begin_object(&json, NULL);
        json_put_string(&json, "id", i ? s->options->adapters[i - 1].name : s->options->name);
        json_put_string(&json, "object", "model");
        json_put_integer(&json, "created", 0);
        json_put_string(&json, "owned_by", "snug");
        if (i) json_put_string(&json, "parent", s->options->name);
        json_put_integer(&json, "max_model_len", s->plan.sizes->text_length);
        json_put_integer(&json, "default_max_tokens", s->options->default_tokens);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    return reply_with(r, 200, "application/json", line->data);
}

static enum MHD_Result answer_plan(const reply *r) {
    r->s->errors.line.length = 0;
    serve_plan_json(&r->s->errors.line, &r->s->plan);
    return reply_paper(r, "application/json", reply_hand_on(r));
}

static enum MHD_Result answer_metrics(const reply *r) {
    server *s = r->s;
    pthread_mutex_lock(&s->lock);
    metrics m = s->metrics;
    metrics_now now = server_now(s);
    pthread_mutex_unlock(&s->lock);
    bool complete = metrics_write(&m, &now, &s->errors.line, &r->x->answer, &s->pages);
    return reply_paper(r, "text/plain; version=0.0.4", complete);
}

/* ---- tokens of texts, and texts of tokens ---- */

enum { HAND_ON = 2048 /* bytes of a line, beyond which it goes to a page */ };

static bool hand_on_some(const reply *r) { return r->s->errors.line.length < HAND_ON || reply_hand_on(r); }

static status read_now(const reply *r, request_refusal *why) {
    exchange *x = r->x;
    request_body body = { pages_source(&x->body, "request", "the body"), x->route->kind };
    pthread_mutex_lock(&r->s->words);
    status result = request_read(&r->s->reader, &body, &r->s->read, why);
    pthread_mutex_unlock(&r->s->words);
    pages_end(&x->body, &r->s->pages);
    return result;
}

static enum MHD_Result refuse(const reply *r, const request_refusal *why) {
    return reply_error(r, why->other_model ? 404 : 400, status_message(), why->field);
}

static enum MHD_Result answer_tokens(const reply *r) {
    const job *j = &r->s->read;
    text *line = &r->s->errors.line;
    request_refusal why;
    bool complete = true;
    if (read_now(r, &why) != STATUS_OK) return refuse(r, &why);
    line->length = 0;
    text_add(line, "{\"count\":%lld,\"max_model_len\":%lld,\"tokens\":[", (long long)j->count,
             (long long)r->s->plan.sizes->text_length);
    for (int64_t i = 0; i < j->count && complete; i++) {
        text_add(line, "%s%d", i ? "," : "", (int)j->ids[i]);
        complete = hand_on_some(r);
    }
    text_add(line, "]}\n");
    return reply_paper(r, "application/json", complete && reply_hand_on(r));
}

/* In parts that the line has room for. */
static bool add_words(const reply *r, const language_piece *words, bool all) {
    enum { PART = 256 };
    bool complete = true;
    for (size_t at = 0; at < words->count && complete; at += PART) {
        size_t rest = words->count - at;
        answer_text(&r->s->errors, &r->s->read, words->bytes + at, rest < PART ? rest : PART, false);
        complete = hand_on_some(r);
    }
    if (all) answer_text(&r->s->errors, &r->s->read, "", 0, true);
    return complete;
}

static status write_text(const reply *r, bool *complete) {
    const language *l = r->s->language;
    const job *j = &r->s->read;
    language_piece words;
    status result = l->begin(l->context, LANGUAGE_READS, j->ids, 0);
    for (int64_t i = 0; i < j->count && result == STATUS_OK && *complete; i++) {
        result = l->add(l->context, LANGUAGE_READS, j->ids[i], &words);
        if (result == STATUS_OK) *complete = add_words(r, &words, false);
    }
    if (result == STATUS_OK) result = l->end(l->context, LANGUAGE_READS, &words);
    if (result == STATUS_OK && *complete) *complete = add_words(r, &words, true);
    return result;
}

static enum MHD_Result answer_text_of_tokens(const reply *r) {
    text *line = &r->s->errors.line;
    request_refusal why;
    bool complete = true;
    if (read_now(r, &why) != STATUS_OK) return refuse(r, &why);
    line->length = 0;
    text_add(line, "{\"prompt\":\"");
    pthread_mutex_lock(&r->s->words);
    status result = write_text(r, &complete);
    pthread_mutex_unlock(&r->s->words);
    if (result != STATUS_OK) return reply_error(r, 500, status_message(), "");
    text_add(line, "\"}\n");
    return reply_paper(r, "application/json", complete && reply_hand_on(r));
}

/* ---- texts ---- */

/* Who is heard from now on, and by which socket. */
static void bind_job(server *s, job *j, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        http_library.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    for (job *k = j; k; k = k->next) k->attached = true, k->server = s;
    j->waits_on = connection, j->socket = info->connect_fd;
    /* The engine's thread sees to readers that take nothing. */
    http_library.set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                       (unsigned)s->options->stall_seconds + 1);
}

static job *take_job(server *s) {
    pthread_mutex_lock(&s->lock);
    job *j = server_free_job(s);
    if (j) j->state = JOB_ASKED, j->number = s->came++, s->reader.seed = j->number;
    if (!j) s->result->refused++;
    pthread_mutex_unlock(&s->lock);
    return j;
}

/* Jobs for further answers. False: there are too few. */
static bool add_choices(server *s, job *first) {
    for (int64_t i = 1; i < first->choices; i++) {
        job *j = server_free_job(s);
        if (!j) return false;
        group_add(first, j);
        j->state = JOB_ASKED;
    }
    return true;
}

static void give_back(server *s, job *first) {
    for (job *j = first, *next; j; j = next) {
        next = j->next;
        j->state = JOB_FREE, j->first = j, j->next = NULL;
    }
    s->result->refused++;
}

/* Of embeddings: each of the other jobs gets its text. Without the lock, which is held again then. */
static status read_texts(server *s, job *first, request_refusal *why) {
    status result = STATUS_OK;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&s->words);
    for (job *j = first->next; j && result == STATUS_OK; j = j->next)
        result = request_text(&s->reader, first, j->index, j, why);
    pthread_mutex_unlock(&s->words);
    pthread_mutex_lock(&s->lock);
    return result;
}

static enum MHD_Result answer_job(const reply *r) {
    server *s = r->s;
    exchange *x = r->x;
    request_refusal why;
    request_body body = { pages_source(&x->body, "request", "the body"), x->route->kind };
    job *j = take_job(s);
    if (!j) return reply_error(r, 429, "all places are taken, and so is the queue", "");

    pthread_mutex_lock(&s->words);
    status result = request_read(&s->reader, &body, j, &why);
    pthread_mutex_unlock(&s->words);
    pages_end(&x->body, &s->pages);
    pthread_mutex_lock(&s->lock);
    j->key = x->key;
    bool full = result == STATUS_OK && !add_choices(s, j);
    if (result == STATUS_OK && !full && j->embeds) result = read_texts(s, j, &why);
    if (result != STATUS_OK || full) {
        give_back(s, j);
        pthread_mutex_unlock(&s->lock);
        return full ? reply_error(r, 429, "there are too few places for so many answers", "n")
                    : refuse(r, &why);
    }
    bind_job(s, j, r->connection);
    for (job *k = j; k; k = k->next) server_admit(s, k);
    x->job = j, x->before = server_before(s, j), j->replied = false;
    bool waits = !j->streams && !j->next;
    if (waits) { /* a whole answer waits for its end, or until it is too long to wait: it may fail */
        http_library.suspend_connection(r->connection);
        j->connection = r->connection;
    }
    pthread_mutex_unlock(&s->lock);
    return waits ? MHD_YES : reply_job(r, j);
}

/* ---- all of them ---- */

static const route routes[] = {
    { "/health", METHOD_GET, true, answer_health, 0 },
    { "/ready", METHOD_GET, true, answer_ready, 0 },
    { "/metrics", METHOD_GET, false, answer_metrics, 0 },
    { "/plan", METHOD_GET, false, answer_plan, 0 },
    { "/v1/models", METHOD_GET, false, answer_models, 0 },
    { "/v1/completions", METHOD_POST, false, answer_job, REQUEST_COMPLETION },
    { "/v1/chat/completions", METHOD_POST, false, answer_job, REQUEST_CHAT },
    { "/v1/embeddings", METHOD_POST, false, answer_job, REQUEST_EMBEDDINGS },
    { "/tokenize", METHOD_POST, false, answer_tokens, REQUEST_TOKENS },
    { "/detokenize", METHOD_POST, false, answer_text_of_tokens, REQUEST_TEXT },
};

const route *route_find(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (strcmp(routes[i].path, path) == 0) return &routes[i];
    return NULL;
}

#endif
