#define _GNU_SOURCE
#include "cli/train_tokens.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/own_data.h"
#include "cli/signals.h"
#include "cli/tokenize_command.h"
#include "comm/comm.h"
#include "io/file.h"
#include "io/model_config.h"
#include "io/tokenizer_files.h"
#include "run/texts.h"

/* ---- what is to be made into tokens ---- */

static bool has_tokenizer(const char *directory) {
    const char *name = directory ? tokenizer_files_find(directory) : NULL;
    struct stat about;
    return name && strcmp(name, "tokenizer.json") == 0 && stat(directory, &about) == 0 &&
           S_ISDIR(about.st_mode);
}

static bool is_tokens(const char *path) {
    data_kind kind = format_by_name(path);
    return kind != DATA_KIND_BYTES && kind != DATA_KIND_JSONL;
}

/* What --data-kind says of documents; it is auto or jsonl here. */
static document_format format_said(const options *o) {
    return o->run.data_kind == DATA_KIND_JSONL ? DOCUMENT_JSON : DOCUMENT_AUTO;
}

/* Of a folder the first file tells, as for who reads it; a format that is said tells of all. */
static status is_documents(const options *o, const char *path, bool *yes) {
    document_files files = { 0 };
    struct stat about;
    *yes = false;
    if (stat(path, &about) != 0) return STATUS_OK; /* whoever opens it says that there is none */
    *yes = true;
    if (format_said(o) != DOCUMENT_AUTO) return STATUS_OK;
    *yes = !is_tokens(path);
    if (!S_ISDIR(about.st_mode)) return STATUS_OK;
    status result = document_files_open(path, DOCUMENT_AUTO, &files);
    if (result == STATUS_OK) *yes = !is_tokens(files.paths[0]);
    document_files_close(&files);
    return result;
}

/* `*any` where it is documents, which what is made of any of the data must not become one of. */
static status look_at(const options *o, const char *path, bool *any) {
    char made[TRAIN_TOKENS_PATH];
    bool yes = false;
    if (path) TRY(is_documents(o, path, &yes));
    *any = *any || yes;
    if (!yes || !o->run.out) return STATUS_OK;
    int length = snprintf(made, sizeof made, "%s/data/train.safetensors", o->run.out);
    return length < (int)sizeof made ? own_data_check(made, path, true) : STATUS_OK;
}

static status look_at_all(const options *o, bool *any) {
    const setup_options *run = &o->run;
    *any = false;
    TRY(look_at(o, run->data, any));
    for (uint64_t i = 1; i < run->part_count; i++) TRY(look_at(o, run->parts[i].path, any));
    return look_at(o, run->eval_data, any);
}

/* An option of making tokens, where none are made. */
static status refuse_option(const options *o, const char *why) {
    if (!o->of_documents) return STATUS_OK;
    return status_set(STATUS_INVALID, "--%s says how tokens are made, and none are made here: %s",
                      o->of_documents, why);
}

/* All data are tokens already, or not there, which whoever opens them says. */
static status refuse_of_tokens(const options *o) {
    const char *path = o->run.data ? o->run.data : o->run.eval_data, *said = o->of_documents;
    char why[TRAIN_TOKENS_PATH];
    if (!said || !path || access(path, F_OK) != 0) return STATUS_OK;
    bool says = strcmp(said, "learn") == 0 && format_by_name(path) == DATA_KIND_TOKENS;
    snprintf(why, sizeof why, "%.2000s %s; give --%s to snug tokenize", path,
             says ? "says itself what is learned" : "holds tokens already", said);
    return refuse_option(o, why);
}

/* ---- in a process of its own ---- */

static status make(const options *o, cli_streams *streams, const char *path, const char *out) {
    tokenize_options t = {
        .model = o->subject, .add = o->run.add_tokens, .out = out, .data = { .count = 1, .paths = { path } }
    };
    t.data.format = format_said(o);
    TRY(setup_budget(&o->run, &t.memory));
    if (t.memory == UINT64_MAX) t.memory = 0;
    return tokenize_command_make(o, streams, &t, false);
}

static pid_t maker; /* while one is waited for */

/* A terminal sends SIGINT to both processes, others to the one they know. The maker ends by itself where it
 * can go on, and says so. It is not handed a SIGINT: that would be the second one, which ends it at once. */
static void hand_on(int signal_number) {
    signals_stop = 1;
    kill(maker, signal_number == SIGINT ? SIGTERM : signal_number);
}

/* Says over the pipe why it failed; its status is the process's. */
static void be_maker(const options *o, cli_streams *streams, const char *path, const char *out, int said) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* it stops where it can go on */
    status result = make(o, streams, path, out);
    output_flush(&streams->people);
    if (result != STATUS_OK && write(said, status_message(), strlen(status_message())) < 0)
        _exit(STATUS_FAILED);
    _exit((int)result);
}

static status answer_of(int said) {
    char why[STATUS_SENTENCE] = "";
    size_t used = 0;
    int how = 0;
    for (ssize_t n; used + 1 < sizeof why; used += (size_t)n) {
        n = read(said, why + used, sizeof why - 1 - used);
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n <= 0)
            break;
    }
    while (waitpid(maker, &how, 0) < 0 && errno == EINTR) {}
    bool good = WIFEXITED(how) && WEXITSTATUS(how) == 0; /* also where it had ended when the signal came */
    if (signals_stop && (good || !*why))
        return status_set(STATUS_INTERRUPTED, "stopped; the same command goes on from there");
    if (good) return STATUS_OK;
    if (WIFEXITED(how)) return status_set((status)WEXITSTATUS(how), "%s", why);
    if (WTERMSIG(how) == SIGKILL)
        return status_set(STATUS_FAILED,
                          "the process that makes tokens was killed, which the system does where memory runs "
                          "out; the same command goes on from there, and --memory limits what it takes");
    return status_set(STATUS_FAILED, "the process that makes tokens was ended by signal %d", WTERMSIG(how));
}

/* Signals come to the maker only when it watches, and to this process only when there is a maker. */
static status start_maker(const options *o, cli_streams *streams, const char *path, const char *out,
                          const int ends[2], signals_kept *kept) {
    sigset_t mask;
    status result = STATUS_OK;
    signals_hold(&mask);
    maker = fork();
    if (maker == 0) {
        close(ends[0]);
        signals_watch(SIGNALS_READS_GO_ON);
        signals_let(&mask);
        be_maker(o, streams, path, out, ends[1]);
    }
    if (maker < 0)
        result = status_set(STATUS_FAILED, "cannot start a process to make tokens in: %s", strerror(errno));
    else
        signals_call(hand_on, SIGNALS_READS_GO_ON, kept);
    signals_let(&mask);
    return result;
}

static status make_apart(const options *o, cli_streams *streams, const char *path, const char *out) {
    int ends[2];
    signals_kept kept;
    if (pipe(ends) != 0) return status_set(STATUS_FAILED, "cannot make a pipe: %s", strerror(errno));
    output_flush(&streams->people);
    status result = start_maker(o, streams, path, out, ends, &kept);
    close(ends[1]);
    if (result == STATUS_OK) {
        result = answer_of(ends[0]);
        signals_restore(&kept);
    }
    close(ends[0]);
    return result;
}

/* ---- for a run ---- */

/* `*path` becomes that of a file of tokens, where it is of documents. */
static status replace(const options *o, cli_streams *streams, const char **path, const char *name,
                      char made[TRAIN_TOKENS_PATH]) {
    bool yes = false;
    if (*path) TRY(is_documents(o, *path, &yes));
    if (!yes) return STATUS_OK;
    if (!o->run.out)
        return status_set(STATUS_INVALID,
                          "%s has documents, of which tokens are made in --out; name one, or make them with "
                          "snug tokenize and name their file",
                          *path);
    char folder[TRAIN_TOKENS_PATH];
    int length = snprintf(folder, sizeof folder, "%s/data", o->run.out);
    if ((size_t)length + strlen(name) + 2 >= sizeof folder)
        return status_set(STATUS_INVALID, "--out %.60s... is too long", o->run.out);
    TRY(io_make_folder(folder));
    snprintf(made, TRAIN_TOKENS_PATH, "%s/data/%s", o->run.out, name);
    TRY(make_apart(o, streams, *path, made));
    *path = made;
    return STATUS_OK;
}

/* "train.safetensors" of all the data, "train-2.safetensors" of the second part. */
static status replace_part(const options *o, cli_streams *streams, uint32_t i, const char **path,
                           char **made) {
    char name[48] = "train.safetensors", file[TRAIN_TOKENS_PATH];
    if (o->run.part_count) snprintf(name, sizeof name, "train-%u.safetensors", i + 1);
    TRY(replace(o, streams, path, name, file));
    if (*path != file) return STATUS_OK;
    *path = *made = memory_text(file);
    return *made ? STATUS_OK : status_set(STATUS_FAILED, "no memory for the path %s", file);
}

static status replace_data(options *o, cli_streams *streams, train_tokens *paths) {
    setup_options *run = &o->run;
    if (!run->part_count) {
        paths->parts[0] = (setup_part){ .name = run->data };
        TRY(replace_part(o, streams, 0, &run->data, &paths->data[0]));
        paths->parts[0].path = run->data, run->parts = paths->parts;
        return STATUS_OK;
    }
    TRY(texts_check(run));
    memcpy(paths->parts, run->parts, run->part_count * sizeof *run->parts);
    for (uint32_t i = 0; i < run->part_count; i++) paths->parts[i].name = run->parts[i].path;
    for (uint32_t i = 0; i < run->part_count; i++)
        TRY(replace_part(o, streams, i, &paths->parts[i].path, &paths->data[i]));
    run->parts = paths->parts, run->data = paths->parts[0].path;
    return STATUS_OK;
}

status train_tokens_make(options *o, cli_streams *streams, train_tokens *paths) {
    model_config about;
    bool any = o->run.data_kind == DATA_KIND_AUTO || o->run.data_kind == DATA_KIND_JSONL, made;
    *paths = (train_tokens){ 0 };
    if (!any) return refuse_option(o, "by --data-kind the data are something else; leave one of the two out");
    if (!has_tokenizer(o->subject))
        return refuse_option(o, "the model is no directory with a tokenizer.json; leave it out");
    TRY(model_config_read(o->subject, &about, NULL)); /* else it would be for nothing */
    if (o->run.head || about.head.kind != HEAD_LANGUAGE)
        return refuse_option(o, "a head that judges texts reads records with labels; leave it out");
    TRY(look_at_all(o, &any));
    if (!any) return refuse_of_tokens(o);
    if (comm_world().world > 1)
        return status_set(
            STATUS_INVALID,
            "%s is text for the model's tokenizer, and tokens are made by one process: say 'snug "
            "tokenize' first, and name its file",
            o->run.data);
    bool alone = o->run.eval_only && o->run.eval_data; /* nobody reads the data */
    if (!alone) TRY(replace_data(o, streams, paths));
    TRY(replace(o, streams, &o->run.eval_data, "validation.safetensors", paths->eval_data));
    made = o->run.eval_data == paths->eval_data;
    for (size_t i = 0; i < OPTION_LIST_MOST; i++) made = made || paths->data[i];
    if (made) o->run.data_kind = DATA_KIND_AUTO;
    return STATUS_OK;
}

void train_tokens_close(train_tokens *paths) {
    for (size_t i = 0; i < OPTION_LIST_MOST; i++) memory_free(paths->data[i]);
}
