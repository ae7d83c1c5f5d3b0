/* snug tokenize: documents into one file of tokens. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/own_data.h"
#include "cli/signals.h"
#include "cli/tokenize_command.h"
#include "cli/wanted.h"
#include "data/documents/files.h"
#include "io/file.h"
#include "io/json.h"
#include "tokenize/token_writer.h"

/* ---- what people see ---- */

typedef struct {
    output *people;
    double said; /* when */
} watcher;

/* The first line comes when it is clear that there is something to wait for. */
static void progressed(void *context, const tokenize_progress *p) {
    const double every = 10;
    watcher *w = context;
    char read[UNITS_TEXT_BYTES], all[UNITS_TEXT_BYTES], tokens[REPORT_NUMBER_BYTES],
        left[REPORT_NUMBER_BYTES];
    if (!w->people->file || p->seconds - w->said < every) return;
    w->said = p->seconds;
    if (!p->bytes) {
        output_add(w->people, "looking at the data: %s read so far\n", units_bytes_text(p->read, read));
    } else {
        double rest =
            p->seconds * (double)(p->bytes - p->read) / (double)(p->read > p->from ? p->read - p->from : 1);
        output_add(w->people, "%s of %s read, %s tokens, about %s left\n", units_bytes_text(p->read, read),
                   units_bytes_text(p->bytes, all), report_count(p->tokens, tokens),
                   report_duration(rest, left));
    }
    output_flush(w->people);
}

static void grown(void *context, const tokenize_plan *p, const char *why) {
    watcher *w = context;
    char memory[UNITS_TEXT_BYTES];
    if (!w->people->file) return;
    output_add(w->people, "%s; planned again for it: %s for %d thread%s\n", why,
               units_bytes_text(p->bytes, memory), p->threads, p->threads == 1 ? "" : "s");
    output_flush(w->people);
}

static const char *kind_words(source_kind k, uint64_t count) {
    static const char *const words[][2] = { { "text", "texts" },
                                            { "prompt with its completion", "prompts with completions" },
                                            { "chat", "chats" } };
    return words[k][count != 1];
}

static void print_plan(output *people, const tokenize_plan *p, const char *out) {
    char records[REPORT_NUMBER_BYTES], bytes[UNITS_TEXT_BYTES], memory[UNITS_TEXT_BYTES],
        disk[UNITS_TEXT_BYTES], name[REPORT_NAME_BYTES];
    output_add(people, "Data: %s %s, ", report_count(p->counts.records, records),
               kind_words(p->kind, p->counts.records));
    if (p->counts.tools) output_add(people, "%s with tools, ", report_count(p->counts.tools, records));
    output_add(people, "%s in %" PRIu64 " file%s\n", units_bytes_text(p->counts.bytes, bytes),
               p->counts.files, p->counts.files == 1 ? "" : "s");
    output_add(people,
               "Memory: %s for %d thread%s; %s of disk while %s is made, if every byte were a token\n",
               units_bytes_text(p->bytes, memory), p->threads, p->threads == 1 ? "" : "s",
               units_bytes_text(p->disk, disk), report_name(out, name));
    output_flush(people);
}

static void print_result(output *people, const tokenize_result *r, const char *out) {
    char tokens[REPORT_NUMBER_BYTES], count[REPORT_NUMBER_BYTES], longest[REPORT_NUMBER_BYTES],
        learned[REPORT_NUMBER_BYTES], bytes[UNITS_TEXT_BYTES], time[REPORT_NUMBER_BYTES],
        name[REPORT_NAME_BYTES], empty[REPORT_NUMBER_BYTES];
    output_add(people, "%s token%s of %s document%s, the longest %s", report_count(r->tokens, tokens),
               r->tokens == 1 ? "" : "s", report_count(r->documents, count), r->documents == 1 ? "" : "s",
               report_count(r->longest, longest));
    if (r->learned < r->tokens)
        output_add(people, "; %s of them %s learned", report_count(r->learned, learned),
                   r->learned == 1 ? "is" : "are");
    if (r->empty)
        output_add(people, "; %s had no token and %s left out", report_count(r->empty, empty),
                   r->empty == 1 ? "was" : "were");
    if (r->resumed)
        output_add(people, "; %s %s there already", report_count(r->resumed, count),
                   r->resumed == 1 ? "was" : "were");
    output_add(people, "\n%s: %s, made in %s\n", report_name(out, name),
               units_bytes_text(r->file_bytes, bytes), report_duration(r->seconds, time));
}

static void print_json(output *out, const tokenize_plan *p, const tokenize_result *r, bool made) {
    text t = { 0 };
    json_writer j = { .out = &t, .lines = true };
    char digits[DIGEST_TEXT_BYTES];
    json_begin_object(&j, NULL);
    json_put_bool(&j, "made", made);
    json_put_string(&j, "identity", digest_text_of(p->identity, digits));
    json_put_unsigned(&j, "files", p->counts.files);
    json_put_unsigned(&j, "records", p->counts.records);
    json_put_unsigned(&j, "text_bytes", p->counts.bytes);
    json_put_integer(&j, "threads", p->threads);
    json_put_unsigned(&j, "planned_bytes", p->bytes);
    json_put_unsigned(&j, "planned_again", p->grown);
    json_put_unsigned(&j, "peak_bytes", r->peak_bytes);
    json_put_unsigned(&j, "documents", r->documents);
    json_put_unsigned(&j, "tokens", r->tokens);
    json_put_unsigned(&j, "learned", r->learned);
    json_put_unsigned(&j, "empty", r->empty);
    json_put_unsigned(&j, "longest", r->longest);
    json_put_unsigned(&j, "resumed", r->resumed);
    json_put_unsigned(&j, "file_bytes", r->file_bytes);
    json_put_number(&j, "seconds", r->seconds);
    json_end_object(&j);
    text_add(&t, "\n");
    output_text(out, &t);
}

/* ---- the command ---- */

_Static_assert((int)OPTION_LIST_MOST <= (int)SOURCE_PATHS, "as many --data as may be given have room");

static status make(tokenize *making, cli_streams *streams, const tokenize_options *t, tokenize_result *r) {
    bool shows = streams->people.file;
    if (shows) print_plan(&streams->people, tokenize_planned(making), t->out);
    TRY(tokenize_run(making, r));
    if (shows) print_result(&streams->people, r, t->out);
    return STATUS_OK;
}

status tokenize_command_make(const options *o, cli_streams *streams, tokenize_options *t, bool shows) {
    watcher w = { .people = &streams->people };
    tokenize *making = NULL;
    tokenize_result r = { 0 };
    char name[REPORT_NAME_BYTES];
    t->data.columns = o->columns, t->data.replace = o->replace;
    t->learn = o->learn == LEARN_ALL ? TOKENIZE_LEARN_ALL : TOKENIZE_LEARN_ANSWERS;
    t->threads = (int)o->run.threads;
    t->progress = progressed, t->grown = grown, t->context = &w, t->stop = &signals_stop;
    signals_watch(SIGNALS_READS_GO_ON);
    status result = tokenize_open(t, &making);
    bool there = result == STATUS_OK && tokenize_is_made(t->out, tokenize_planned(making)->identity, &r);
    if (there) tokenize_tidy(t->out, tokenize_planned(making)->identity);
    if (there && shows && streams->people.file)
        output_add(&streams->people, "%s is there already, of the same data and tokenizer\n",
                   report_name(t->out, name));
    if (result == STATUS_OK && !there && streams->people.file && shows)
        wanted_say(&streams->people, tokenize_planned(making)->wanted);
    w.said = 0;
    if (result == STATUS_OK && !there) result = make(making, streams, t, &r);
    if (result == STATUS_OK && shows && o->json)
        print_json(&streams->result, tokenize_planned(making), &r, !there);
    tokenize_close(making);
    return result;
}

/* What is written holds each of its documents once. */
static status check_weights(const options *o) {
    for (uint32_t i = 0; i < o->sources.count; i++) {
        char path[4096];
        double weight;
        TRY(document_files_weight(o->sources.items[i], "--data", path, sizeof path, &weight));
        if (strlen(path) < strlen(o->sources.items[i]))
            return status_set(STATUS_INVALID,
                              "--data %s: tokenize writes all of the data once, so a weight says nothing "
                              "here; make a file of tokens of each, and give the weights to train",
                              o->sources.items[i]);
    }
    return STATUS_OK;
}

/* What another has made is not replaced: weights are called so as well. An empty file is nothing. */
static status check_out(const options *o) {
    token_made made;
    struct stat about;
    TRY(io_check_file(o->run.out));
    for (uint32_t i = 0; i < o->sources.count; i++)
        TRY(own_data_check(o->run.out, o->sources.items[i], true));
    if (stat(o->run.out, &about) != 0 || about.st_size == 0 || token_writer_made(o->run.out, &made))
        return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--out %s is there already, and is no file of tokens that snug tokenize has made; name "
                      "another, or remove it",
                      o->run.out);
}

status cli_tokenize(const options *o, cli_streams *streams) {
    if (!o->sources.count)
        return status_set(STATUS_INVALID, "tokenize wants --data PATH, a file or folder of documents");
    TRY(check_weights(o));
    if (!o->run.out) return status_set(STATUS_INVALID, "tokenize wants --out FILE, as in data.safetensors");
    if (!text_ends_with(o->run.out, ".safetensors"))
        return status_set(STATUS_INVALID,
                          "--out %s: the file of tokens is a safetensors file; let its name end in "
                          ".safetensors, so that train knows it",
                          o->run.out);
    TRY(cli_check_directory(o->subject));
    TRY(check_out(o));
    tokenize_options t = {
        .model = o->subject, .add = o->run.add_tokens, .out = o->run.out, .data.count = o->sources.count
    };
    memcpy(t.data.paths, o->sources.items, sizeof *t.data.paths * o->sources.count);
    TRY(setup_budget(&o->run, &t.memory));
    if (t.memory == UINT64_MAX) t.memory = 0;
    return tokenize_command_make(o, streams, &t, true);
}
