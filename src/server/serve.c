#include "server/serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/device.h"
#include "io/file.h"
#include "ops/cache_write/cache_write.h"
#include "server/server.h"
#include "text/template/template_json.h"

/* ---- sizes ---- */

enum {
    BYTES_OF_TOKEN = 8,     /* of text, that a token stands for in the longest prompts that are taken */
    BODY_BESIDE = 64 << 10, /* around a prompt */
    ENCODED = 48,           /* what a tokenizer holds per byte of a text, ids included */
    MARKS_BESIDE = 8192,    /* commas and brackets of a body beside those of a list of ids */
    CHAT_MEMORY = 1 << 20,  /* of a rendering, beside CHAT_PER_BYTE for each of a prompt */
    CHAT_PER_BYTE = 16,
    RING_PIECES = 32,  /* tokens that a ring has room for, at least */
    STACK = 256 << 10, /* of the HTTP thread, as far as it is touched */
};

typedef struct {
    uint64_t words, body, room, ring, jobs;
} serve_sizes;

static uint64_t rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

static serve_sizes sizes_of(const serve_options *o, int64_t text_length, const language *l) {
    serve_sizes s = { .words = rounded((uint64_t)text_length * BYTES_OF_TOKEN + BODY_BESIDE) };
    answer_writer w = { .model = o->name, .piece_bytes = l->piece_bytes };
    s.body = s.words + BODY_BESIDE;
    s.room = rounded(template_json_most(s.body, (uint64_t)text_length + MARKS_BESIDE));
    s.ring = rounded(RING_PIECES * 256 + (uint64_t)(2 + o->guesses) * answer_room(&w));
    s.jobs = (uint64_t)(o->texts + o->queue);
    return s;
}

static uint64_t job_bytes(const serve_sizes *s, int64_t text_length) {
    return rounded(sizeof(job)) + rounded((uint64_t)(text_length + 1) * sizeof(int32_t)) + s->ring;
}

static uint64_t block_bytes(const serve_sizes *s, int64_t text_length) {
    return s->jobs * job_bytes(s, text_length) + SERVER_BODIES * s->body + s->room + s->words;
}

/* All that the server holds beside the engine. */
static uint64_t served_bytes(const serve_options *o, const serve_sizes *s, int64_t text_length,
                             const language *l) {
    return sizeof(server) + block_bytes(s, text_length) + ENCODED * s->words + l->held_bytes +
           (o->chat ? chat_bytes(o->chat) + TEMPLATE_OUTPUT_ROOM(s->words) : 0) +
           2 * answer_bytes(o->name, l->piece_bytes) + http_bytes(o->connections) + TEMPLATE_JSON_READING +
           STACK;
}

/* ---- opening ---- */

static status check_options(const serve_options *o, int64_t context) {
    if (o->text_length > context)
        return status_set(STATUS_INVALID, "--max-model-len is %lld, and the model's context %lld",
                          (long long)o->text_length, (long long)context);
    if (o->texts > MODEL_MOST_DECODED)
        return status_set(STATUS_INVALID, "--max-num-seqs is %lld; at most %d texts are written at once",
                          (long long)o->texts, MODEL_MOST_DECODED);
    return STATUS_OK;
}

static status choose_language(server *s) {
    const serve_options *o = s->options;
    if (s->folder.model.answers)
        return status_set(STATUS_INVALID,
                          "%s (%s) answers one text at a time, and is not served yet; ask snug generate",
                          s->folder.model.name, s->folder.model.family);
    s->language = o->language ? o->language : &s->bytes;
    return o->language ? STATUS_OK : language_of_bytes(s->folder.model.vocabulary, &s->bytes);
}

/* One a line. */
static status read_keys(server *s) {
    const serve_options *o = s->options;
    char *file, *at = s->key_room;
    uint64_t bytes;
    if (!o->key_file) return STATUS_OK;
    TRY(io_read_file(o->key_file, sizeof s->key_room - 1, &file, &bytes));
    memcpy(s->key_room, file, (size_t)bytes);
    memory_free(file);
    for (char *end = at; *end; at = end) {
        at += strspn(at, "\r\n");
        end = at + strcspn(at, "\r\n");
        if (end == at) break;
        if (*end) *end++ = 0;
        if (s->key_count == SERVER_KEYS)
            return status_set(STATUS_INVALID, "%s has more than %d keys", o->key_file, SERVER_KEYS);
        s->keys[s->key_count++] = at;
    }
    return s->key_count ? STATUS_OK : status_set(STATUS_INVALID, "%s has no key", o->key_file);
}

static void *part(char **at, uint64_t bytes) {
    void *here = *at;
    *at += rounded(bytes);
    return here;
}

static status allocate(server *s, const serve_sizes *z, int64_t text_length) {
    const serve_options *o = s->options;
    char *at = s->memory = memory_new((size_t)block_bytes(z, text_length) + 64, 1);
    if (!at) return status_set(STATUS_FAILED, "no memory for %llu requests", (unsigned long long)z->jobs);
    at += (64 - (uintptr_t)at % 64) % 64;
    s->job_count = (uint32_t)z->jobs;
    s->jobs = part(&at, z->jobs * rounded(sizeof(job)));
    for (uint32_t i = 0; i < s->job_count; i++) {
        s->jobs[i].ids = part(&at, (uint64_t)(text_length + 1) * sizeof(int32_t));
        s->jobs[i].out = (ring){ .bytes = part(&at, z->ring), .size = z->ring };
    }
    for (int i = 0; i < SERVER_BODIES; i++) s->bodies[i].bytes = part(&at, z->body);
    s->body_bytes = z->body;
    s->reader = (request_reader){ .language = s->language,
                                  .chat = o->chat,
                                  .model = o->name,
                                  .vocabulary = s->folder.model.vocabulary,
                                  .text_length = text_length,
                                  .default_tokens = o->default_tokens,
                                  .room = part(&at, z->room),
                                  .room_bytes = z->room,
                                  .words = part(&at, z->words),
                                  .words_bytes = z->words };
    TRY(answer_open(&s->writer, o->name, s->language->piece_bytes));
    return answer_open(&s->errors, o->name, s->language->piece_bytes);
}

static status make_plan(server *s, serve_sizes *z, int64_t text_length) {
    const serve_options *o = s->options;
    *z = sizes_of(o, text_length, s->language);
    template_options bounds = { .memory = CHAT_MEMORY + CHAT_PER_BYTE * z->words, .output = z->words };
    if (o->chat) chat_limit(o->chat, &bounds), chat_reserve(o->chat, &bounds);
    engine_sizes wanted = { .texts = o->texts,
                            .text_length = text_length,
                            .rows = o->rows,
                            .least_blocks = (text_length + CACHE_BLOCK - 1) / CACHE_BLOCK,
                            .cache = o->cache ? o->cache : s->folder.products,
                            .sampling = { .changes = true, .counts = true },
                            .expects = o->expects,
                            .guesses = o->guesses,
                            .held_bytes = served_bytes(o, z, text_length, s->language) };
    TRY(engine_plan(s->engine, &wanted));
    s->result->planned_bytes = engine_planned_bytes(s->engine);
    if (o->planned)
        o->planned(o->context, engine_plan_of(s->engine), engine_planned(s->engine), wanted.held_bytes);
    return STATUS_OK;
}

/* ---- jobs ---- */

job *server_free_job(server *s) {
    for (uint32_t i = 0; i < s->job_count; i++)
        if (s->jobs[i].state == JOB_FREE) return &s->jobs[i];
    return NULL;
}

void server_admit(server *s, job *j) {
    j->state = JOB_WAITING, j->place = ENGINE_NONE;
    j->out.begin = j->out.count = 0;
    j->created = (int64_t)time(NULL);
    s->result->requests++;
    pthread_cond_signal(&s->work);
}

/* Once neither the engine nor a connection has it. */
static void free_job(server *s, job *j) {
    if (j->state != JOB_OVER || j->attached) return;
    if (!j->left) s->result->answered++;
    j->state = JOB_FREE, j->connection = NULL;
    pthread_cond_signal(&s->work);
}

void server_leave(server *s, job *j) {
    j->attached = false, j->connection = NULL;
    if (j->state != JOB_OVER && !j->left) {
        s->result->left++;
        j->left = true;
    }
    free_job(s, j);
    pthread_cond_signal(&s->work);
}

/* ---- the engine's thread, which holds the lock but while a step computes ---- */

/* A step may add a token, and one for each guess that came true. */
static bool is_full(const server *s, const job *j) {
    return ring_room(&j->out) < (size_t)(1 + s->options->guesses) * answer_room(&s->writer);
}

static void end_job(server *s, job *j) {
    if (j->place != ENGINE_NONE) {
        engine_leave(s->engine, j->place);
        s->by_place[j->place] = NULL, j->place = ENGINE_NONE;
    }
    j->state = JOB_OVER;
    http_wake(s, j);
    free_job(s, j);
}

/* More of the text, up to a stop string; in one event but where it is long. */
static void add_piece(server *s, job *j, const language_piece *words, bool *found) {
    char out[STOP_BYTES], room[STOP_BYTES + 1024];
    size_t count = 0;
    for (size_t i = 0; i < words->count && !*found; i++) {
        size_t n = stop_take(&j->stops, words->bytes[i], out, found);
        if (count + n > sizeof room) answer_add(&s->writer, j, room, count), count = 0;
        memcpy(room + count, out, n);
        count += n;
    }
    if (count) answer_add(&s->writer, j, room, count);
}

/* The text ends: what is held back of it, unless a stop string has cut it, and the frame. */
static status finish(server *s, job *j, job_end how, bool cut) {
    char out[STOP_BYTES];
    language_piece rest = { 0 };
    bool found = cut;
    pthread_mutex_lock(&s->words);
    status result = s->language->end(s->language->context, (uint32_t)j->place, &rest);
    if (!found) add_piece(s, j, &rest, &found);
    pthread_mutex_unlock(&s->words);
    if (!found) answer_add(&s->writer, j, out, stop_rest(&j->stops, out));
    j->end = found ? JOB_STOP : how;
    j->cached = engine_cached(s->engine, j->place);
    answer_end(&s->writer, j);
    return result;
}

/* A token was drawn. The engine calls it while it has the lock again. */
static status take_token(void *context, int32_t id, bool *over) {
    job *j = context;
    server *s = j->server;
    language *l = s->language;
    language_piece more = { 0 };
    bool found = false;
    j->drawn++, s->result->new_tokens++;
    *over = true;
    if (j->left) return STATUS_OK;
    if (l->ends(l->context, id)) return finish(s, j, JOB_STOP, false);
    pthread_mutex_lock(&s->words);
    status result = l->add(l->context, (uint32_t)j->place, id, &more);
    if (result == STATUS_OK) add_piece(s, j, &more, &found);
    pthread_mutex_unlock(&s->words);
    TRY(result);
    if (found) return finish(s, j, JOB_STOP, true);
    if (j->drawn == j->tokens) return finish(s, j, JOB_LENGTH, false);
    if (j->out.count && (j->streams || is_full(s, j))) http_wake(s, j);
    *over = false;
    return STATUS_OK;
}

static job *first_waiting(server *s) {
    job *first = NULL;
    for (uint32_t i = 0; i < s->job_count; i++) {
        job *j = &s->jobs[i];
        if (j->state == JOB_WAITING && !j->left && (!first || j->number < first->number)) first = j;
    }
    return first;
}

/* Whose beginnings it may share. */
static uint64_t group_of(const server *s, const job *j) {
    if (s->options->share == SERVE_SHARE_OFF) return ENGINE_ALONE;
    return s->options->share == SERVE_SHARE_KEY ? j->key : 0;
}

/* In the order in which they came, as long as there is room. */
static status begin_jobs(server *s) {
    language *l = s->language;
    for (job *j; (j = first_waiting(s));) {
        engine_request r = { .ids = j->ids,
                             .count = j->count,
                             .tokens = j->tokens,
                             .sample = &j->sample,
                             .group = group_of(s, j),
                             .context = j };
        int32_t place = engine_begin(s->engine, &r);
        if (place == ENGINE_NONE) return STATUS_OK;
        j->place = place, j->state = JOB_WRITING, s->by_place[place] = j;
        s->result->prompt_tokens += j->count;
        pthread_mutex_lock(&s->words);
        status result = l->begin(l->context, (uint32_t)place, j->ids, j->count);
        pthread_mutex_unlock(&s->words);
        TRY(result);
    }
    return STATUS_OK;
}

/* It cannot go on, and says so; of an answer that is sent in part the connection ends. */
static void fail_job(server *s, job *j) {
    if (j->streams || !j->replied)
        answer_fail(&s->writer, j, engine_failure(s->engine, j->place));
    else
        j->left = true;
}

/* Readers that have gone or take nothing, texts that wait for their readers, and such as have ended. */
static void look_at_jobs(server *s, double now) {
    for (uint32_t i = 0; i < s->job_count; i++) {
        job *j = &s->jobs[i];
        if (j->state != JOB_WAITING && j->state != JOB_WRITING) continue;
        bool full = j->state == JOB_WRITING && is_full(s, j);
        if (!full) j->stalled_since = now;
        bool gone = j->connection && http_gone(j);
        if (!j->left && (gone || now - j->stalled_since > (double)s->options->stall_seconds)) {
            s->result->left++;
            j->left = true;
        }
        if (j->state == JOB_WRITING) engine_pause(s->engine, j->place, full);
        bool ended = j->state == JOB_WRITING && !engine_goes_on(s->engine, j->place);
        if (ended && engine_failure(s->engine, j->place)) fail_job(s, j);
        if (j->left || ended) end_job(s, j);
    }
}

static uint32_t busy(const server *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->job_count; i++) n += s->jobs[i].state != JOB_FREE;
    return n;
}

static void wait_for_work(server *s) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50 * 1000 * 1000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&s->work, &s->lock, &until);
}

/* A step computes without the lock; what was drawn is handed out under it. */
static status step(server *s) {
    uint32_t k;
    if (!engine_gather(s->engine, &k)) {
        wait_for_work(s);
        return STATUS_OK;
    }
    pthread_mutex_unlock(&s->lock);
    status result = engine_compute(s->engine, k);
    pthread_mutex_lock(&s->lock);
    return result == STATUS_OK ? engine_draw(s->engine, k, take_token) : result;
}

static status work(server *s) {
    const volatile sig_atomic_t *stop = s->options->stop;
    double until = 0;
    status result = STATUS_OK;
    pthread_mutex_lock(&s->lock);
    while (result == STATUS_OK) {
        double now = clock_seconds();
        if (stop && *stop && !s->closing) {
            s->closing = true, until = now + (double)s->options->drain_seconds;
            http_refuse_new(s);
        }
        if (s->closing && (*stop > 1 || now > until || !busy(s))) break;
        look_at_jobs(s, now);
        result = begin_jobs(s);
        if (result == STATUS_OK) result = step(s);
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

static status run(server *s) {
    const serve_options *o = s->options;
    serve_sizes z;
    int64_t port = o->port;
    TRY(model_folder_open(o->directory, o->adapter, o->products,
                          o->engine.memory ? o->engine.memory : UINT64_MAX, &s->folder));
    TRY(choose_language(s));
    TRY(engine_open(&o->engine, &s->folder, &s->engine));
    int64_t context = families_context(&s->folder.config), length = o->text_length ? o->text_length : context;
    TRY(check_options(o, context));
    TRY(read_keys(s));
    TRY(make_plan(s, &z, length));
    if (o->dry_run) return STATUS_OK;
    TRY(engine_start(s->engine));
    TRY(allocate(s, &z, length));
    TRY(http_open(s, &port));
    if (o->heard) o->heard(o->context, port);
    return work(s);
}

status serve_run(const serve_options *o, serve_result *r) {
    *r = (serve_result){ 0 };
    server *s = memory_new(1, sizeof *s);
    if (!s) return status_set(STATUS_FAILED, "no memory to serve");
    s->options = o, s->result = r;
    pthread_mutex_init(&s->lock, NULL), pthread_mutex_init(&s->words, NULL),
        pthread_cond_init(&s->work, NULL);
    status result = run(s);
    http_close(s);
    r->resident_peak_bytes = device_resident_peak();
    engine_close(s->engine);
    answer_close(&s->writer), answer_close(&s->errors);
    language_of_bytes_close(&s->bytes);
    memory_free(s->memory);
    pthread_cond_destroy(&s->work), pthread_mutex_destroy(&s->words), pthread_mutex_destroy(&s->lock);
    memory_free(s);
    return result;
}
