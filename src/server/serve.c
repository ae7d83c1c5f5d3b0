#include "server/serve.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "device/device.h"
#include "io/file.h"
#include "server/fit.h"
#include "server/group.h"

/* ---- opening ---- */

static bool is_address(const char *host) {
    struct in_addr a;
    return strncmp(host, "unix:", 5) == 0 || inet_pton(AF_INET, host, &a) == 1;
}

static status check_options(const serve_options *o, int64_t context) {
    if (!is_address(o->host))
        return status_set(STATUS_INVALID, "--host %s is no IPv4 address, and no unix:PATH", o->host);
    if (o->text_length > context)
        return status_set(STATUS_INVALID, "--max-model-len is %lld, and the model's context %lld",
                          (long long)o->text_length, (long long)context);
    if (o->texts > LANGUAGE_TEXTS)
        return status_set(STATUS_INVALID, "--max-num-seqs is %lld; at most %d texts are written at once",
                          (long long)o->texts, LANGUAGE_TEXTS);
    if (o->solve == SERVE_SOLVE_MEMORY && o->engine.memory && o->engine.memory != UINT64_MAX)
        return status_set(STATUS_INVALID, "--solve memory asks what --memory says; leave one of the two out");
    if (o->solve == SERVE_SOLVE_MEMORY && (o->texts == SERVE_FITTED || o->text_length == SERVE_FITTED))
        return status_set(STATUS_INVALID, "--solve memory is of so many texts of such a length; say both "
                                          "--max-num-seqs and --max-model-len as numbers");
    return STATUS_OK;
}

static status choose_language(server *s) {
    const serve_options *o = s->options;
    s->language = o->language ? o->language : &s->bytes;
    return o->language ? STATUS_OK : language_of_bytes(s->folder.model.vocabulary, &s->bytes);
}

static status measure_words(server *s) {
    int64_t count = s->folder.model.vocabulary;
    TRY(answer_told_most(s->language, count, &s->measured.told, &s->measured.letters));
    if (!s->options->no_formats && !s->folder.model.reads_whole)
        s->measured.vocabulary = vocabulary_bytes(count, s->measured.letters);
    return STATUS_OK;
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
    *at += serve_sizes_rounded(bytes);
    return here;
}

/* The words of tokens, for answers by a schema; and the same for the writers of answers. */
static status open_words(server *s, void *memory) {
    const serve_options *o = s->options;
    const serve_words *w = &s->measured;
    int64_t count = s->folder.model.vocabulary;
    if (w->vocabulary) TRY(vocabulary_open(s->language, count, w->letters, memory, &s->vocabulary));
    TRY(answer_open(&s->writer, serve_sizes_name(o), s->language->piece_bytes, w->told));
    return answer_open(&s->errors, serve_sizes_name(o), serve_sizes_list(o, s->language), w->told);
}

static status allocate(server *s, const serve_sizes *z) {
    const serve_options *o = s->options;
    int64_t text_length = s->plan.sizes->text_length;
    uint64_t ids = serve_sizes_ids(text_length, &s->measured) * sizeof(int32_t);
    char *at = s->memory = memory_new((size_t)serve_sizes_block(z) + 64, 1);
    if (!at) return status_set(STATUS_FAILED, "no memory for %llu requests", (unsigned long long)z->jobs);
    memset(at, 0, (size_t)serve_sizes_block(z) + 64); /* all of it is there before the first request */
    at += (64 - (uintptr_t)at % 64) % 64;
    s->job_count = (uint32_t)z->jobs;
    s->jobs = part(&at, z->jobs * sizeof(job));
    for (uint32_t i = 0; i < s->job_count; i++) {
        s->jobs[i].ids = part(&at, ids);
        s->jobs[i].logprobs = part(&at, z->numbers);
        s->jobs[i].pooled.numbers = (double *)(void *)s->jobs[i].logprobs;
        if (z->vocabulary) s->jobs[i].constraint = part(&at, sizeof(constraint));
        s->jobs[i].out = (ring){ .bytes = part(&at, z->ring), .size = z->ring };
    }
    s->read.ids = part(&at, ids);
    pages_open(&s->pages, z->pages, part(&at, pages_bytes(z->pages)));
    s->body_bytes = z->body;
    s->reader = (request_reader){ .language = s->language,
                                  .chat = o->chat,
                                  .model = o->name,
                                  .adapters = o->adapters,
                                  .adapter_count = o->adapter_count,
                                  .vocabulary = s->folder.model.vocabulary,
                                  .text_length = text_length,
                                  .engine = s->plan.sizes,
                                  .answers = s->measured.answers,
                                  .jobs = (int64_t)z->jobs,
                                  .pooling = &s->pooling,
                                  .default_tokens = o->default_tokens,
                                  .room = part(&at, z->room),
                                  .room_bytes = z->room,
                                  .words = part(&at, z->words),
                                  .words_bytes = z->words };
    return open_words(s, part(&at, z->vocabulary));
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
    j->asked_at = clock_seconds();
    s->result->requests += j->first == j;
    pthread_cond_signal(&s->work);
}

int64_t server_before(const server *s, const job *j) {
    int64_t n = 0;
    for (uint32_t i = 0; i < s->job_count; i++) {
        const job *other = &s->jobs[i];
        n += other->state == JOB_WAITING && !other->left && other->number < j->number;
    }
    return n;
}

/* A place is free once a text begins, and one begins once another ends: of those that are written the one
 * that has the fewest tokens before it, as long as each of them is a step. */
int64_t server_wait(const server *s) {
    int64_t least = 0;
    for (uint32_t i = 0; i < s->job_count; i++) {
        const job *j = &s->jobs[i];
        int64_t rest = j->tokens - j->drawn;
        if (j->state == JOB_WRITING && !j->left && (!least || rest < least)) least = rest;
    }
    double seconds = ceil((double)least * s->pace);
    return seconds > 1 ? seconds < 3600 ? (int64_t)seconds : 3600 : 1;
}

metrics_now server_now(const server *s) {
    metrics_now now = { .connections = s->connections,
                        .refused_connections = s->refused_connections,
                        .pages = s->pages.count,
                        .pages_left = s->pages.left,
                        .resident_bytes = device_resident(),
                        .resident_peak_bytes = device_resident_peak(),
                        .plan = &s->plan };
    if (!s->loading) engine_stats_of(s->engine, &now.engine);
    for (uint32_t i = 0; i < s->job_count; i++) now.queue += s->jobs[i].state == JOB_WAITING;
    return now;
}

static outcome outcome_of(const job *j) {
    if (j->left) return OUTCOME_LEFT;
    return j->end == JOB_FAILED ? OUTCOME_FAILED : j->end == JOB_STOP ? OUTCOME_STOP : OUTCOME_LENGTH;
}

/* Once neither the engine nor a connection has it. Of several answers to a request the first one counts. */
static void free_job(server *s, job *j) {
    if (j->state != JOB_OVER || j->attached) return;
    if (!j->index && !j->left) s->result->answered++;
    if (!j->index) s->metrics.requests[outcome_of(j)]++;
    j->state = JOB_FREE, j->connection = NULL;
    pthread_cond_signal(&s->work);
}

/* Each goes its own way. */
void server_leave(server *s, job *first) {
    for (job *j = first, *next; j; j = next) {
        next = j->next;
        j->first = j, j->next = j->reads = NULL;
        j->attached = false, j->connection = NULL;
        if (j->state != JOB_OVER && !j->left) {
            s->result->left += !j->index;
            j->left = true;
        }
        free_job(s, j);
    }
    pthread_cond_signal(&s->work);
}

/* ---- the engine's thread, which holds the lock but while a step computes ---- */

/* A step may add a token, and one for each guess that came true. */
static bool is_full(const server *s, const job *j) {
    return ring_room(&j->out) < (size_t)(1 + s->options->guesses) * answer_room(&s->writer);
}

/* Its place is free for others. */
static void leave_engine(server *s, job *j) {
    if (j->place == ENGINE_NONE) return;
    engine_leave(s->engine, j->place);
    s->by_place[j->place] = NULL, j->place = ENGINE_NONE;
}

static void end_job(server *s, job *j) {
    leave_engine(s, j);
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

static void note_time(server *s, job *j) {
    double now = clock_seconds();
    if (!j->drawn)
        metrics_add(&s->metrics.first, now - j->asked_at);
    else
        metrics_add(&s->metrics.between, now - j->last_at);
    j->last_at = now;
}

/* ---- the prompt, told before the answer ---- */

/* Text that no stop string is looked for in; some of it waits in `held`. */
enum { ECHOED = 256 };
typedef struct {
    char held[ECHOED];
    size_t count;
} echoing;

static void add_echo(server *s, job *j, echoing *e, const language_piece *more) {
    for (size_t i = 0; i < more->count; i++) {
        if (e->count == ECHOED) answer_add(&s->writer, j, e->held, e->count), e->count = 0;
        e->held[e->count++] = more->bytes[i];
    }
}

/* The next token; `d`: what is told of it, where that is wanted. */
static status echo_token(server *s, job *j, echoing *e, const sample_drawn *d) {
    language *l = s->language;
    language_piece more = { 0 };
    int32_t id = j->ids[j->echoed++];
    if (j->logarithms || j->compares) TRY(answer_tell(&s->writer, j, l, d));
    TRY(l->add(l->context, (uint32_t)j->place, id, &more));
    add_echo(s, j, e, &more);
    if (!j->logarithms) return STATUS_OK;
    if (e->count) answer_add(&s->writer, j, e->held, e->count), e->count = 0;
    answer_told(&s->writer, j);
    return STATUS_OK;
}

/* Tokens that are told without the engine: all, or the first one, which has no logarithm. */
static int64_t echoes_of(const job *j) { return !j->echoes ? 0 : j->scores ? 1 : j->count; }

/* As much of the prompt as there is room for; until then no token is drawn. */
static status echo_some(server *s, job *j) {
    echoing e = { .count = 0 };
    status result = STATUS_OK;
    pthread_mutex_lock(&s->words);
    while (result == STATUS_OK && j->echoed < echoes_of(j) && !is_full(s, j))
        result = echo_token(s, j, &e, &(sample_drawn){ .id = j->ids[j->echoed], .logprob = NAN });
    if (e.count) answer_add(&s->writer, j, e.held, e.count);
    pthread_mutex_unlock(&s->words);
    if (j->out.count) http_wake(s, j);
    return result;
}

/* The engine tells the next one. */
static status take_echo(server *s, job *j, bool *over) {
    echoing e = { .count = 0 };
    pthread_mutex_lock(&s->words);
    status result = echo_token(s, j, &e, engine_drawn(s->engine));
    pthread_mutex_unlock(&s->words);
    TRY(result);
    *over = j->echoed == j->count && !j->tokens;
    if (*over) return finish(s, j, JOB_LENGTH, false);
    engine_pause(s->engine, j->place, is_full(s, j));
    if (j->out.count && (j->streams || is_full(s, j))) http_wake(s, j);
    return STATUS_OK;
}

/* A token was drawn. The engine calls it while it has the lock again. */
static status take_token(void *context, int32_t id, bool *over) {
    job *j = context;
    server *s = j->server;
    language *l = s->language;
    language_piece more = { 0 };
    bool found = false;
    *over = true;
    if (id == ENGINE_POOLED) {
        j->end = JOB_STOP, j->cached = engine_cached(s->engine, j->place);
        return STATUS_OK;
    }
    if (id == ENGINE_NONE) return j->left ? STATUS_OK : finish(s, j, JOB_LENGTH, false);
    if (j->scores && j->echoed < j->count && !j->left) return take_echo(s, j, over);
    if (!j->tokens && !j->left) return finish(s, j, JOB_LENGTH, false);
    note_time(s, j);
    j->drawn++, s->result->new_tokens++;
    if (j->compares) j->likely += (double)engine_drawn(s->engine)->logprob;
    if (j->left) return STATUS_OK;
    if (l->ends(l->context, id)) return finish(s, j, JOB_STOP, false);
    pthread_mutex_lock(&s->words);
    status result = STATUS_OK;
    if (j->sample.logprobs) result = answer_tell(&s->writer, j, l, engine_drawn(s->engine));
    if (result == STATUS_OK) result = l->add(l->context, (uint32_t)j->place, id, &more);
    if (result == STATUS_OK) add_piece(s, j, &more, &found);
    answer_told(&s->writer, j);
    pthread_mutex_unlock(&s->words);
    TRY(result);
    if (found) return finish(s, j, JOB_STOP, true);
    if (j->constrained && constraint_over(j->constraint)) return finish(s, j, JOB_STOP, false);
    if (j->drawn == j->tokens) return finish(s, j, JOB_LENGTH, false);
    if (j->out.count && (j->streams || is_full(s, j))) http_wake(s, j);
    *over = false;
    return STATUS_OK;
}

static job *first_waiting(server *s) {
    job *first = NULL;
    for (uint32_t i = 0; i < s->job_count; i++) {
        job *j = &s->jobs[i];
        if (j->state != JOB_WAITING || j->left) continue;
        if (!first || j->number < first->number || (j->number == first->number && j->index < first->index))
            first = j;
    }
    return first;
}

/* Whose beginnings it may share. */
static uint64_t group_of(const server *s, const job *j) {
    if (s->options->share == SERVE_SHARE_OFF) return ENGINE_ALONE;
    return s->options->share == SERVE_SHARE_KEY ? j->key : 0;
}

/* Of a model that answers the prompt is what is read before, and the text begins as all answers do. */
static void answer_to(const server *s, const job *j, engine_request *r) {
    r->source = j->ids, r->source_count = j->count;
    r->ids = &s->folder.model.start, r->count = 1;
}

/* In the order in which they came, as long as there is room. */
static status begin_jobs(server *s) {
    language *l = s->language;
    for (job *j; (j = first_waiting(s));) {
        engine_request r = { .ids = j->ids,
                             .count = j->count,
                             .tokens = j->tokens ? j->tokens : 1,
                             .scores = j->scores,
                             .sample = &j->sample,
                             .constraint = j->constrained ? j->constraint : NULL,
                             .pooled = j->embeds ? &j->pooled : NULL,
                             .group = group_of(s, j),
                             .adapter = j->adapter,
                             .context = j };
        if (j->answers) answer_to(s, j, &r);
        if (r.constraint) constraint_begin(r.constraint, &s->vocabulary);
        if (r.pooled) pooling_begin(r.pooled, &s->pooling, j->dimensions, j->pooled.numbers);
        int32_t place = engine_begin(s->engine, &r);
        if (place == ENGINE_NONE) return STATUS_OK;
        j->place = place, j->state = JOB_WRITING, s->by_place[place] = j;
        s->result->prompt_tokens += j->count;
        pthread_mutex_lock(&s->words);
        status result = l->begin(l->context, (uint32_t)place, j->ids, job_before(j));
        pthread_mutex_unlock(&s->words);
        TRY(result);
        TRY(echo_some(s, j));
        engine_pause(s->engine, place, j->echoed < echoes_of(j));
    }
    return STATUS_OK;
}

/* A text that was held has ended: the rest of its answer, as much as there is room for. */
static status tell_rest(server *s, job *j) {
    status result = STATUS_OK;
    bool done = false;
    if (j->state != JOB_TELLING)
        j->state = JOB_TELLING, j->phase = answer_first_phase(j), j->at = j->offset = 0, j->tail_count = 0;
    if (j->embeds) leave_engine(s, j); /* its vector is its own */
    pthread_mutex_lock(&s->words);
    if (!j->embeds) result = answer_resume(j, s->language);
    while (result == STATUS_OK && !done && !is_full(s, j))
        result = answer_more(&s->writer, j, s->language, &done);
    pthread_mutex_unlock(&s->words);
    http_wake(s, j);
    if (done) end_job(s, j);
    return result;
}

/* Nobody reads what answers its request. */
static void leave_group(server *s, job *first) {
    s->result->left += !first->left;
    for (job *j = first; j; j = j->next) j->left = true;
    http_wake(s, first);
}

/* It cannot go on, and says so; of an answer that is sent in part the connection ends. */
static void fail_job(server *s, job *j) {
    if (!j->first->next && (j->streams || !j->replied))
        answer_fail(&s->writer, j, engine_failure(s->engine, j->place));
    else
        leave_group(s, j->first);
}

/* Texts that are compared: once all have ended the best are told, and the others are not. */
static status choose_best(server *s) {
    for (uint32_t i = 0; i < s->job_count; i++) {
        job *first = &s->jobs[i];
        if (first->state != JOB_COMPARED || first->first != first || !group_compared(first)) continue;
        group_rank(first);
        for (job *j = first; j; j = j->next) {
            if (j->index < first->kept)
                TRY(tell_rest(s, j));
            else
                end_job(s, j);
        }
    }
    return STATUS_OK;
}

/* The ends of answers behind which nothing comes any more. */
static void close_groups(server *s) {
    for (uint32_t i = 0; i < s->job_count; i++) {
        job *j = &s->jobs[i];
        if (j->state != JOB_OVER || j->first != j || j->left || !group_ends(j)) continue;
        if (is_full(s, group_last(j))) continue;
        answer_close_group(&s->writer, j);
        http_wake(s, j);
    }
}

/* Readers that have gone or take nothing, texts that wait for their readers, and such as have ended. */
static status look_at_jobs(server *s, double now) {
    for (uint32_t i = 0; i < s->job_count; i++) {
        job *j = &s->jobs[i];
        bool tells = j->state == JOB_TELLING;
        if (j->state == JOB_FREE || j->state == JOB_ASKED || j->state == JOB_OVER) continue;
        bool full = (j->state == JOB_WRITING || tells) && is_full(s, j);
        if (!full || j != group_reads(j->first)) j->stalled_since = now; /* or others come before it */
        bool gone = j->first->connection && http_gone(j->first);
        if (gone || now - j->stalled_since > (double)s->options->stall_seconds) leave_group(s, j->first);
        if (j->state == JOB_WRITING && engine_goes_on(s->engine, j->place)) {
            if (j->echoed < echoes_of(j)) TRY(echo_some(s, j));
            engine_pause(s->engine, j->place, full || j->echoed < echoes_of(j));
        }
        bool ended = j->state == JOB_WRITING && !engine_goes_on(s->engine, j->place);
        if (ended && engine_failure(s->engine, j->place)) fail_job(s, j);
        if (!j->left && ended && j->compares && j->end != JOB_FAILED)
            leave_engine(s, j), j->state = JOB_COMPARED;
        else if (!j->left && (tells || (ended && answer_holds(j) && j->end != JOB_FAILED)))
            TRY(tell_rest(s, j));
        else if (j->left || ended)
            end_job(s, j);
    }
    TRY(choose_best(s));
    close_groups(s);
    return STATUS_OK;
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
    double begun = clock_seconds();
    pthread_mutex_unlock(&s->lock);
    status result = engine_compute(s->engine, k);
    pthread_mutex_lock(&s->lock);
    double seconds = clock_seconds() - begun;
    s->pace += (seconds - s->pace) * (s->pace > 0 ? 0.1 : 1);
    return result == STATUS_OK ? engine_draw(s->engine, k, take_token) : result;
}

static status work(server *s) {
    const volatile sig_atomic_t *stop = s->options->stop;
    double until = 0, least = 0;
    status result = STATUS_OK;
    pthread_mutex_lock(&s->lock);
    while (result == STATUS_OK) {
        double now = clock_seconds();
        if (stop && *stop && !s->closing) {
            s->closing = true, until = now + (double)s->options->drain_seconds;
            least = now + 0.1; /* who is just asking is told */
        }
        if (s->closing && (*stop > 1 || now > until || (!busy(s) && now > least))) break;
        result = look_at_jobs(s, now);
        if (result == STATUS_OK) result = begin_jobs(s);
        if (result == STATUS_OK) result = step(s);
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

static status open_folder(server *s) {
    const serve_options *o = s->options;
    uint64_t memory = o->engine.memory ? o->engine.memory : UINT64_MAX;
    if (!o->directory) return model_folder_of(o->config, o->name, o->stored, o->products, &s->folder);
    TRY(model_folder_open(o->directory, o->adapter, o->products, memory, &s->folder));
    for (uint32_t i = 0; i < o->adapter_count; i++)
        TRY(model_folder_add_adapter(&s->folder, &o->adapters[i], memory));
    return STATUS_OK;
}

static status run(server *s) {
    const serve_options *o = s->options;
    serve_sizes z;
    int64_t port = o->port;
    TRY(open_folder(s));
    TRY(choose_language(s));
    TRY(measure_words(s));
    TRY(engine_open(&o->engine, &s->folder, &s->engine));
    int64_t context = families_context(&s->folder.config);
    TRY(check_options(o, context));
    TRY(read_keys(s));
    bool whole = s->folder.model.reads_whole;
    TRY(pooling_read(o->directory, whole ? POOLING_MEAN : POOLING_LAST, families_width(&s->folder.config),
                     &s->pooling));
    if (whole && s->pooling.refused[0]) return status_set(STATUS_INVALID, "%s", s->pooling.refused);
    s->measured.answers = s->folder.model.answers;
    if (s->measured.answers)
        snprintf(s->pooling.refused, sizeof s->pooling.refused,
                 "%s (%s) answers texts and makes no vectors of them", s->folder.model.name,
                 s->folder.model.family);
    if (!s->pooling.refused[0]) s->measured.vector = s->pooling.width;
    TRY(fit_plan(s, context, &z));
    if (o->planned) o->planned(o->context, &s->plan);
    if (o->dry_run || o->solve) return STATUS_OK;
    TRY(allocate(s, &z));
    s->loading = true;
    TRY(http_open(s, &port));
    TRY(engine_start(s->engine));
    pthread_mutex_lock(&s->lock);
    s->loading = false;
    pthread_mutex_unlock(&s->lock);
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
    if (result == STATUS_OK) result = engine_measure(s->engine, &r->measured);
    engine_close(s->engine);
    answer_close(&s->writer), answer_close(&s->errors);
    language_of_bytes_close(&s->bytes);
    memory_free(s->memory);
    pthread_cond_destroy(&s->work), pthread_mutex_destroy(&s->words), pthread_mutex_destroy(&s->lock);
    memory_free(s);
    return result;
}
