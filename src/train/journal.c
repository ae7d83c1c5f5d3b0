#define _GNU_SOURCE
#include "train/journal.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/event_file.h"
#include "io/file.h"
#include "io/json.h"

enum { LINE_BYTES = 1024, PATH_BYTES = 4096, SENTENCE_BYTES = 1024 };
static const char NEW[] = ".partial";
static const double LINGER_SECONDS = 0.1; /* how old a line may get before it is written */

typedef struct {
    double time; /* since 1970 */
    bool evaluation;
    train_progress of; /* of a validation: step and loss alone */
} record;

struct journal {
    int metrics;
    char path[PATH_BYTES];
    char
        begun[PATH_BYTES + sizeof NEW]; /* a new history, before it has its name; empty: an old one goes on */
    text line;
    event_file events;
    mailbox *queue;
    atomic_bool failed;
    char sentence[SENTENCE_BYTES]; /* written before `failed` is set, read after */
};
_Static_assert(sizeof(journal) + JOURNAL_QUEUE * sizeof(record) + LINE_BYTES + MAILBOX_STACK_BYTES <=
                   JOURNAL_BYTES,
               "it keeps to its bytes");

static status write_line(journal *j) {
    return j->line.failed ? status_set(STATUS_FAILED, "%s: no memory for a line", j->path)
                          : io_append_line(j->metrics, j->path, j->line.data);
}

static json_writer begin_line(journal *j) {
    j->line.length = 0;
    json_writer w = { .out = &j->line };
    json_begin_object(&w, NULL);
    return w;
}

/* ---- steps, on the thread of the queue ---- */

static status write_step(journal *j, const record *r) {
    const train_progress *p = &r->of;
    json_writer w = begin_line(j);
    json_put_integer(&w, "step", p->step);
    json_put_number(&w, "loss", p->loss);
    if (!isnan(p->norm)) json_put_float(&w, "grad_norm", (float)p->norm);
    if (p->loss_scale > 0) json_put_number(&w, "loss_scale", p->loss_scale);
    json_put_number(&w, "lr", p->learning_rate);
    json_put_number(&w, "seconds", p->seconds);
    json_put_number(&w, "tokens_per_second", floor(p->tokens_per_second + 0.5));
    json_put_unsigned(&w, "memory_bytes", p->resident_bytes);
    json_end_object(&w);
    TRY(write_line(j));
    event_scalar scalars[] = { { "train/loss", (float)p->loss },
                               { "train/learning_rate", (float)p->learning_rate },
                               { "train/tokens_per_second", (float)p->tokens_per_second },
                               { "train/memory_mib", (float)((double)p->resident_bytes / 0x1p20) },
                               { "train/grad_norm", (float)p->norm } };
    uint32_t count = sizeof scalars / sizeof *scalars - (isnan(p->norm) ? 1 : 0);
    return event_file_add(&j->events, p->step, r->time, scalars, count);
}

static status write_evaluation(journal *j, const record *r) {
    json_writer w = begin_line(j);
    json_put_integer(&w, "step", r->of.step);
    json_put_number(&w, "eval_loss", r->of.loss);
    json_end_object(&w);
    TRY(write_line(j));
    event_scalar scalar = { "eval/loss", (float)r->of.loss };
    return event_file_add(&j->events, r->of.step, r->time, &scalar, 1);
}

static void handle(void *context, const void *item, bool more) {
    journal *j = context;
    const record *r = item;
    if (j->failed) return;
    status result = r->evaluation ? write_evaluation(j, r) : write_step(j, r);
    if (result == STATUS_OK && !more) result = event_file_flush(&j->events);
    if (result == STATUS_OK) return;
    snprintf(j->sentence, sizeof j->sentence, "%s", status_message());
    j->failed = true;
}

static status outcome_of(const journal *j) {
    return j->failed ? status_set(STATUS_FAILED, "%s", j->sentence) : STATUS_OK;
}

static status put(journal *j, const record *r) {
    if (!j) return STATUS_OK;
    mailbox_put(j->queue, r, true);
    return outcome_of(j);
}

status journal_step(journal *j, const train_progress *p) {
    return put(j, &(record){ .time = clock_today(), .of = *p });
}

status journal_evaluated(journal *j, int64_t step, double loss) {
    return put(j,
               &(record){ .time = clock_today(), .evaluation = true, .of = { .step = step, .loss = loss } });
}

status journal_flush(journal *j) {
    if (!j) return STATUS_OK;
    mailbox_drain(j->queue);
    return outcome_of(j);
}

/* ---- beginning ---- */

/* "2026-11-21T08:30:00Z" */
static void put_today(json_writer *w, const char *key) {
    char moment[32] = "";
    struct tm parts;
    time_t now = time(NULL);
    if (gmtime_r(&now, &parts)) strftime(moment, sizeof moment, "%Y-%m-%dT%H:%M:%SZ", &parts);
    json_put_string(w, key, moment);
}

static status write_beginning(journal *j, const setup *s, const decision *d, const identity *run,
                              int64_t done) {
    char digits[IDENTITY_DIGEST_BYTES];
    json_writer w = begin_line(j);
    put_today(&w, "began");
    json_put_integer(&w, "done", done);
    json_put_integer(&w, "steps", s->options.steps);
    json_put_integer(&w, "batch", s->options.batch);
    json_put_integer(&w, "context", s->request.run.context);
    json_put_string(&w, "run", identity_digest(run, digits));
    json_put_unsigned(&w, "planned_bytes", d->plan.peak_bytes);
    if (s->budget == UINT64_MAX)
        json_put_null(&w, "budget_bytes");
    else
        json_put_unsigned(&w, "budget_bytes", s->budget);
    json_end_object(&w);
    return write_line(j);
}

/* The step of a line of metrics.jsonl; -1: another kind of line. Lines are our own, so their beginning tells.
 */
static int64_t step_of_line(const char *line) {
    long long step = -1;
    return sscanf(line, "{\"step\": %lld", &step) == 1 ? (int64_t)step : -1;
}

/* Looks through the lines of a block that begins with one. `*keep`: where the history up to `done` ends, seen
 * so far; returns the bytes of whole lines. `*over`: a later step was met. */
static uint64_t scan_block(const char *block, uint64_t bytes, uint64_t at, int64_t done, uint64_t *keep,
                           bool *over) {
    uint64_t used = 0;
    const char *end;
    while (!*over && (end = memchr(block + used, '\n', (size_t)(bytes - used)))) {
        int64_t step = step_of_line(block + used);
        used = (uint64_t)(end - block) + 1;
        *over = step > done;
        if (step >= 0 && !*over) *keep = at + used;
    }
    return used;
}

/* Where the history up to step `done` ends; 0: there is none. */
static status find_end(const journal *j, int64_t done, uint64_t *keep) {
    char block[4096 + 1];
    uint64_t at = 0;
    struct {
        int file;
        uint64_t bytes;
    } in;
    *keep = 0;
    if (!done || access(j->path, F_OK) != 0) return STATUS_OK;
    TRY(io_open(j->path, &in.file, &in.bytes));
    status result = STATUS_OK;
    bool over = false;
    while (at < in.bytes && !over && result == STATUS_OK) {
        uint64_t bytes = in.bytes - at < sizeof block - 1 ? in.bytes - at : sizeof block - 1;
        result = io_read_at(in.file, j->path, at, block, bytes);
        block[bytes] = 0;
        uint64_t used = result == STATUS_OK ? scan_block(block, bytes, at, done, keep, &over) : 0;
        if (!used) break; /* no line of ours is as long as a block */
        at += used;
    }
    close(in.file);
    return result;
}

/* Cuts off what was written after step `done`: later steps, and how that start ended. Where nothing is left
 * the new history takes the place of the old one when it says whose it is (settle): so at no instant is there
 * a folder with a model or a checkpoint of which nobody knows the run. */
static status open_metrics(journal *j, const char *out, int64_t done) {
    uint64_t keep;
    if (snprintf(j->path, sizeof j->path, "%s/metrics.jsonl", out) >= (int)sizeof j->path)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", out);
    TRY(find_end(j, done, &keep));
    if (keep) {
        TRY(io_append_open(j->path, &j->metrics));
        if (ftruncate(j->metrics, (off_t)keep) == 0) return STATUS_OK;
        return status_set(STATUS_FAILED, "cannot cut %s after step %lld: %s", j->path, (long long)done,
                          strerror(errno));
    }
    snprintf(j->begun, sizeof j->begun, "%s%s", j->path, NEW);
    unlink(j->begun);
    return io_append_open(j->begun, &j->metrics);
}

static status settle(journal *j) {
    if (!j->begun[0] || rename(j->begun, j->path) == 0) return STATUS_OK;
    status result = status_set(STATUS_INVALID, "cannot replace %s: %s", j->path, strerror(errno));
    unlink(j->begun);
    return result;
}

static status open_all(journal *j, const setup *s, const decision *d, const identity *run, int64_t done) {
    const char *out = s->options.out;
    TRY(io_make_folder(out));
    if (!text_reserve(&j->line, LINE_BYTES)) return status_set(STATUS_FAILED, "no memory for metrics");
    TRY(open_metrics(j, out, done));
    TRY(write_beginning(j, s, d, run, done));
    TRY(settle(j));
    TRY(event_file_open(&j->events, out, done + 1));
    return mailbox_open(&(mailbox_options){ .item_bytes = sizeof(record),
                                            .room = JOURNAL_QUEUE,
                                            .linger_seconds = LINGER_SECONDS,
                                            .handle = handle,
                                            .context = j },
                        &j->queue);
}

/* ---- opening and closing ---- */

static void release(journal *j) {
    mailbox_close(j->queue);
    event_file_close(&j->events);
    if (j->metrics >= 0) close(j->metrics);
    text_close(&j->line);
    memory_free(j);
}

status journal_open(const setup *s, const decision *d, const identity *run, int64_t done, journal **out) {
    *out = NULL;
    if (!s->options.out) return STATUS_OK;
    journal *j = memory_new(1, sizeof *j);
    if (!j) return status_set(STATUS_FAILED, "no memory for metrics");
    j->metrics = j->events.file = -1;
    status result = open_all(j, s, d, run, done);
    if (result != STATUS_OK) {
        release(j);
        return result;
    }
    *out = j;
    return STATUS_OK;
}

static status write_end(journal *j, status outcome, int64_t step, const char *reason) {
    json_writer w = begin_line(j);
    put_today(&w, "ended");
    json_put_integer(&w, "done", step);
    json_put_string(&w, "outcome",
                    outcome == STATUS_OK            ? "finished"
                    : outcome == STATUS_INTERRUPTED ? "interrupted"
                                                    : "failed");
    if (outcome != STATUS_OK) json_put_string(&w, "reason", reason);
    json_end_object(&w);
    return write_line(j);
}

status journal_close(journal *j, status outcome, int64_t step) {
    if (!j) return outcome;
    char reason[SENTENCE_BYTES];
    snprintf(reason, sizeof reason, "%s", outcome == STATUS_OK ? "" : status_message());
    status result = journal_flush(j);
    if (result == STATUS_OK) result = write_end(j, outcome, step, reason);
    release(j);
    return outcome == STATUS_OK ? result
                                : status_set(outcome, "%s", reason); /* the run's own failure first */
}
