/* snug train: plans, trains with something to look at, and says at the end whether the plan was kept. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/own_data.h"
#include "cli/page_file.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/shown.h"
#include "cli/signals.h"
#include "cli/train_tokens.h"
#include "cli/wanted.h"
#include "data/mixed_source.h"
#include "io/file.h"
#include "run/course.h"
#include "run/rates.h"
#include "run/texts.h"
#include "run/weights.h"
#include "train/room.h"

/* ---- signals ---- */

static volatile sig_atomic_t training;

/* While it is being planned there is nothing to finish. The first in training asks to stop; a second SIGINT,
 * which is somebody at the keyboard, stops at once. Batch systems repeat SIGTERM and SIGUSR1 while a
 * checkpoint is being saved. A launcher ends all ranks with SIGTERM where one is gone, which has said why, or
 * where it was told to itself; a rank that was frozen is woken for that. */
static void asked_to_stop(int signal_number) {
    static const char early[] = "\nsnug: stopped before training began\n";
    static const char words[] =
        "\nstopping after this step, with a checkpoint; Ctrl-C once more to stop at once, without one\n";
    if (signals_stop && signal_number == SIGINT) _exit(STATUS_INTERRUPTED);
    if (signals_stop) return;
    bool ended = comm_world().world > 1 && signal_number == SIGTERM && signals_by_parent();
    if (ended && !training) _exit(STATUS_INTERRUPTED);
    if (comm_world().rank) { /* rank 0 says it */
        if (!training) _exit(STATUS_INTERRUPTED);
        signals_stop = 1;
        return;
    }
    ssize_t written = training ? write(STDERR_FILENO, words, sizeof words - 1)
                               : write(STDERR_FILENO, early, sizeof early - 1);
    (void)written;
    if (!training) _exit(STATUS_INTERRUPTED);
    signals_stop = 1;
}

/* ---- what people see ---- */

/* What is ahead: steps, time and disk, and rates that nobody said. */
static void add_course(output *out, const setup *s, const resume *from, const decision *d) {
    const setup_options *o = &s->options;
    char steps[REPORT_NUMBER_BYTES], tokens[REPORT_NUMBER_BYTES], time[REPORT_NUMBER_BYTES],
        disk[UNITS_TEXT_BYTES];
    int64_t left = o->steps - from->step;
    uint64_t bytes;
    output_add(out, "Course: %s step%s", report_count((uint64_t)left, steps), left == 1 ? "" : "s");
    if (s->model.context)
        output_add(out, " of %s tokens", report_count((uint64_t)(o->batch * s->request.run.context), tokens));
    double seconds = (double)left * d->point.seconds;
    output_add(out, ", in all %.3g times the data; %s", course_epochs(s),
               seconds < 1 ? "less than a second" : "about ");
    if (seconds >= 1) output_add(out, "%s", report_duration(seconds, time));
    if (room_disk_bytes(s, d, from, &bytes) == STATUS_OK && bytes)
        output_add(out, ", at most %s of disk", units_bytes_text(bytes, disk));
    output_add(out, "\n");
    if (course_reason(s))
        output_add(out, "Rate: %g after %lld step%s of warmup, %s\n", o->learning_rate, (long long)o->warmup,
                   o->warmup == 1 ? "" : "s", course_reason(s));
}

/* Which classes there are, some of them. */
static void add_classes(output *out, const label_names *names) {
    enum { SHOWN = 8 };
    char name[UTF8_QUOTE_BYTES];
    output_add(out, "Classes: %u", names->count);
    for (uint32_t i = 0; i < names->count && i < SHOWN; i++)
        output_add(out, "%s%u '%s'", i ? ", " : ": ", i, utf8_quote(names->name[i], name));
    output_add(out, names->count > SHOWN ? " and so on\n" : "\n");
}

/* Texts with labels, and what of the head is new. */
static void add_labelled(output *out, const setup *s) {
    char count[REPORT_NUMBER_BYTES], more[REPORT_NUMBER_BYTES], name[REPORT_NAME_BYTES];
    uint64_t longest = labelled_longest(s->records), cut = labelled_cut(s->records);
    long long context = (long long)s->request.run.context;
    text new = { 0 };
    output_add(out, "\nData: %s, texts with labels: %s train", report_name(s->options.data, name),
               report_count(s->train.samples, count));
    if (s->validation.samples)
        output_add(out, ", %s validate (%s)\n", report_count(s->validation.samples, more),
                   s->options.eval_data ? report_name(s->options.eval_data, name) : "every tenth");
    else
        output_add(out, ", none validate\n");
    if (cut)
        output_add(out, "note: %s of the texts are longer than --context %lld and are cut\n",
                   report_count(cut, count), context);
    else if ((long long)longest < context)
        output_add(out, "note: the longest text has %s token%s; --context %s would fill up less\n",
                   report_count(longest, count), longest == 1 ? "" : "s", count);
    if (s->names.count) add_classes(out, &s->names);
    if (weights_new(s, &new) == STATUS_OK && new.length)
        output_add(out, "New weights, which the model has none of: %s\n", new.data);
    text_close(&new);
}

static void add_pictures(output *out, const setup *s) {
    char count[REPORT_NUMBER_BYTES], more[REPORT_NUMBER_BYTES], name[REPORT_NAME_BYTES];
    const prepare_options *p = &s->prepare;
    text new = { 0 };
    output_add(out, "\nData: %s, pictures of %u x %u: %s train", report_name(s->options.data, name),
               p->out_height, p->out_width, report_count(s->train.samples, count));
    if (s->validation.samples)
        output_add(out, ", %s validate (%s)\n", report_count(s->validation.samples, more),
                   s->options.eval_data ? report_name(s->options.eval_data, name) : "every tenth");
    else
        output_add(out, ", none validate\n");
    add_classes(out, &s->names);
    if (weights_new(s, &new) == STATUS_OK && new.length)
        output_add(out, "New weights, in the place of the model's head: %s\n", new.data);
    text_close(&new);
}

static const char *pack_words(pack_kind k) {
    return k == PACK_WHOLE ? " and whole" : k == PACK_PAD ? " and one a sample" : "";
}

/* What the parts of a source have together. */
typedef struct {
    uint64_t tokens, documents;
    double padding; /* the part of all samples' places that is empty */
} held;

static held held_by(const data_source *source) {
    held all = { 0 };
    uint64_t samples = 0;
    for (uint32_t i = 0; i < data_source_parts(source); i++) {
        const data_source *part = data_source_part(source, i);
        all.tokens += text_source_tokens(part), all.documents += text_source_documents(part);
        all.padding += text_source_padding(part) * (double)part->samples;
        samples += part->samples;
    }
    all.padding /= (double)samples;
    return all;
}

/* Of a long path the end, so that rows stay rows: files of one folder differ there. */
static const char *end_of_name(const char *path, char name[REPORT_NAME_BYTES]) {
    enum { ROOM = 48 };
    char end[ROOM + 4];
    size_t length = strlen(path);
    if (length <= ROOM) return report_name(path, name);
    snprintf(end, sizeof end, "...%s", path + length - ROOM + 3);
    return report_name(end, name);
}

/* Which parts there are, and how often each is seen. */
static void add_parts(output *out, const setup *s) {
    char count[REPORT_NUMBER_BYTES], name[REPORT_NAME_BYTES];
    output_add(out, "   share           tokens  times an epoch  in all  of\n");
    for (uint32_t i = 0; i < texts_parts(s); i++) {
        texts_part p = texts_part_of(s, i);
        output_add(out, "  %6.2f %% %15s  %14.2f  %6.2f  %s\n", 100 * p.share, report_count(p.tokens, count),
                   p.times, p.times * course_epochs(s), end_of_name(p.name, name));
    }
    uint32_t mute = texts_parts(s) - data_source_parts(&s->validation);
    if (s->validation.samples && !s->options.eval_data && mute)
        output_add(out, "note: the last tenth of %u of them has no whole sample, so it doesn't validate\n",
                   mute);
}

static void add_name(output *out, const setup *s) {
    char name[REPORT_NAME_BYTES], count[REPORT_NUMBER_BYTES];
    uint32_t parts = texts_parts(s);
    if (parts < 2)
        output_add(out, "%s, %s", report_name(s->options.data, name),
                   data_kind_about(text_source_kind(&s->train)));
    else
        output_add(out, "%u parts mixed by %s, an epoch of %s samples", parts,
                   mixed_source_weighted(&s->train) ? "weights" : "their sizes",
                   report_count(s->train.samples, count));
}

static void add_tokens(output *out, const setup *s) {
    char count[REPORT_NUMBER_BYTES], more[REPORT_NUMBER_BYTES], name[REPORT_NAME_BYTES];
    held trains = held_by(&s->train);
    bool mixed = texts_parts(s) > 1;
    output_add(out, "\nData: ");
    add_name(out, s);
    output_add(out, mixed ? "\n  %s tokens train" : ": %s train", report_count(trains.tokens, count));
    if (s->model.packed)
        output_add(out, ", %s document%s, each by itself%s", report_count(trains.documents, more),
                   trains.documents == 1 ? "" : "s", pack_words(s->pack));
    if (s->pack == PACK_WHOLE || s->pack == PACK_PAD)
        output_add(out, ", %.1f %% padding", 100 * trains.padding);
    if (s->validation.samples)
        output_add(out, ", %s validate (%s)", report_count(held_by(&s->validation).tokens, more),
                   s->options.eval_data ? report_name(s->options.eval_data, name)
                   : mixed              ? "the last tenths"
                                        : "the last tenth");
    else
        output_add(out, ", none validate");
    output_add(out, "\n");
    if (mixed) add_parts(out, s);
    if (s->context_reason)
        output_add(out, "Context: %lld tokens, %s\n", (long long)s->request.run.context, s->context_reason);
}

static void add_data(output *out, const setup *s, const resume *from, const decision *d) {
    char name[REPORT_NAME_BYTES];
    if (s->images)
        add_pictures(out, s);
    else
        s->records ? add_labelled(out, s) : add_tokens(out, s);
    wanted_say_all(out, s);
    add_course(out, s, from, d);
    output_add(out, "Weights: %s\nBelow, mem is in use / planned%s\n\n",
               from->step   ? report_name(from->folder, name)
               : s->weights ? report_name(s->weights, name)
                            : "new",
               s->budget == UINT64_MAX ? "" : " / budget");
}

/* Vectors of positions that no sample reaches stay the random numbers they begin as. */
static void note_positions(output *out, const setup *s, const resume *from) {
    char name[REPORT_NAME_BYTES];
    long long seen = (long long)s->request.run.context, all = (long long)s->model.context;
    if (s->custom || s->weights || from->step || seen >= all || !families_learns_positions(&s->config))
        return;
    output_add(out,
               "note: %s learns a vector for each of its %lld positions, and samples of %lld tokens leave "
               "those behind %lld as random as they begin: the model will know texts of up to %lld tokens "
               "only\n\n",
               report_name(s->model.name, name), all, seen, seen, seen);
}

static void print_beginning(output *out, const setup *s, const resume *from, const decision *d) {
    text t = { 0 };
    output_add(out, "%s%s", from->said, *from->said ? "\n" : "");
    if (from->step && from->step == s->options.steps) return; /* nothing is going to run */
    report_style style = output_style(out);
    style.brief = true;
    report_plan_text(&t, s, d, &style);
    output_text(out, &t);
    if (report_fits(d) && s->train.samples) {
        add_data(out, s, from, d);
        note_positions(out, s, from);
    }
    output_flush(out);
}

/* Was something trained beside the model's weights, and they were not? */
static bool adapts(const decision *d) {
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->adapting && d->point.choice.settings[i].text[0]) return true;
    return false;
}

static void print_losses(output *out, const train_result *r) {
    int64_t known = 0;
    while (known + 1 < r->steps && isnan(r->losses[known])) known++;
    if (r->steps)
        output_add(out, "  loss            %.4f -> %.4f", r->losses[known], r->losses[r->steps - 1]);
    if (r->steps) output_add(out, " over %lld step%s\n", (long long)r->steps, r->steps == 1 ? "" : "s");
    if (!r->evaluation_count) return;
    output_add(out, "  validation loss ");
    if (r->evaluation_count > 1) output_add(out, "%.4f -> ", r->evaluations[0].loss);
    output_add(out, "%.4f", r->evaluations[r->evaluation_count - 1].loss);
    if (!isnan(r->accuracy)) output_add(out, ", accuracy %.2f %%", 100 * r->accuracy);
    if (!isnan(r->f1)) output_add(out, ", F1 %.4f", r->f1);
    if (r->best.since)
        output_add(out, "; the best is %.4f, after step %lld", r->best.loss, (long long)r->best.step);
    output_add(out, "\n");
    if (r->stopped_early)
        output_add(out, "  stopped early   after %lld validation%s without a new best\n",
                   (long long)r->best.since, r->best.since == 1 ? "" : "s");
}

/* Where the weights went, and what to try with them. */
static void print_saved(output *out, const setup *s, const decision *d) {
    bool adapter = adapts(d);
    char name[REPORT_NAME_BYTES], base[REPORT_NAME_BYTES];
    output_add(out, "  %-15s %s", adapter ? "adapter" : "model", report_name(s->options.out, name));
    shown_word(s->options.out, name);
    if (s->model.no_text)
        output_add(out, "\n");
    else if (adapter)
        output_add(out, " (try: snug generate %s --adapter %s --prompt TEXT)\n", shown_word(s->weights, base),
                   name);
    else
        output_add(out, " (try: snug generate %s --prompt TEXT)\n", name);
    if (s->options.keep_best) output_add(out, "  %-15s %s/%s\n", "the best", name, TRAIN_BEST);
}

static void print_end(output *out, const setup *s, const decision *d, const train_result *r, bool saved) {
    char a[REPORT_NUMBER_BYTES], b[UNITS_TEXT_BYTES], c[UNITS_TEXT_BYTES];
    report_style style = output_style(out);
    text t = { 0 };
    if (!out->file || r->steps == r->first) return;
    output_add(out, "\n");
    report_memory_table(&t, d, r, &style);
    output_text(out, &t);
    output_add(out, "\n%sThe run%s\n", style.colour ? "\033[1m" : "", style.colour ? "\033[0m" : "");
    print_losses(out, r);
    output_add(out, "  time            %s", report_duration(r->seconds, a));
    output_add(out, ", %s a step (predicted %s), %s %s/s\n", units_seconds_text(r->step_seconds, b),
               units_seconds_text(d->point.seconds, c), report_rate(r->tokens_per_second, a),
               s->model.sees ? "images" : "tokens");
    if (saved) print_saved(out, s, d);
}

/* Who watches a run, and what it needs to report of it. */
typedef struct {
    progress *seen;
    const options *o;
    cli_streams *streams;
    const setup *s;
    const decision *d;
} watcher;

static void stepped(void *context, const train_progress *p) {
    const watcher *w = context;
    progress_step(w->seen, p);
}

static void slowed(void *context, int64_t step, const pace_fall *fall) {
    const watcher *w = context;
    text line = { 0 };
    report_slowed(&line, step, fall, w->d->plan.device->apart);
    if (!line.failed) progress_say(w->seen, "%.*s", (int)line.length - 1, line.data); /* it ends the line */
    text_close(&line);
}

static void evaluated(void *context, int64_t step, const runner_verdict *v, int64_t samples) {
    const watcher *w = context;
    char right[48] = "";
    if (!isnan(v->accuracy)) snprintf(right, sizeof right, "  accuracy %.2f %%", 100 * v->accuracy);
    progress_say(w->seen, "step %lld  validation loss %.4f%s over %lld sample%s", (long long)step, v->loss,
                 right, (long long)samples, samples == 1 ? "" : "s");
}

/* ---- the command ---- */

/* Prints a report that is there already, in pieces: a long run's is large. */
static status repeat_report(output *result, const char *path) {
    char block[4096];
    uint64_t bytes;
    int file;
    TRY(io_open(path, &file, &bytes));
    status read = STATUS_OK;
    for (uint64_t at = 0; at < bytes && read == STATUS_OK; at += sizeof block) {
        uint64_t n = bytes - at < sizeof block ? bytes - at : sizeof block;
        read = io_read_at(file, path, at, block, n);
        if (read == STATUS_OK) output_bytes(result, block, n);
    }
    close(file);
    return read;
}

/* A start that had nothing left to do leaves the report of the one before. */
static status ended(void *context, const train_result *r) {
    const watcher *w = context;
    text json = { 0 };
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/run.json", w->o->run.out);
    if (comm_world().rank) return STATUS_OK;
    if (r->steps == r->first && access(path, F_OK) == 0)
        return w->o->json ? repeat_report(&w->streams->result, path) : STATUS_OK;
    report_run_json(&json, w->s, w->d, r);
    status result = STATUS_OK;
    if (json.failed || length >= (int)sizeof path)
        result = status_set(STATUS_FAILED, "no memory for the report of the run");
    else
        result = io_write_file(path, json.data, json.length);
    if (w->o->json && !json.failed) output_bytes(&w->streams->result, json.data, json.length);
    text_close(&json);
    return result;
}

/* Where a prediction was off by more than a quarter: by how much, and why it could be. */
static void say_off(output *people, const setup *s, const decision *d, const train_result *r, bool doubted) {
    char took[UNITS_TEXT_BYTES], predicted[UNITS_TEXT_BYTES], alone[UNITS_TEXT_BYTES];
    bool disturbed = r->undisturbed_seconds == 0;
    double step = disturbed ? r->step_seconds : r->undisturbed_seconds, ratio = step / d->point.seconds;
    if (!doubted && ratio <= 1.25 && ratio >= 0.8) return;
    output_add(people, "A step took %s where %s were predicted: ", units_seconds_text(step, took),
               units_seconds_text(d->point.seconds, predicted));
    if (disturbed)
        output_add(people,
                   "the run had %.0f %% of the processors that it asked for (with all of them about %s), so "
                   "nothing is learned of it\n",
                   100 * r->processor_share, units_seconds_text(r->own_seconds, alone));
    else if (d->plan.device->apart)
        output_add(people,
                   "rates of GPUs are parts of the published ones; `snug devices --measure` measures what "
                   "products take, and `nvidia-smi -q -d PERFORMANCE` tells whether the clock fell\n");
    else if (s->options.rates == RATES_BUILT_IN)
        output_add(people, "the built-in table is of another processor; --rates auto measures this one\n");
    else
        output_add(people,
                   "the rates are of other conditions, or say little of such a network; the next plan "
                   "measures this machine anew\n");
}

/* What a run of some steps took says more than a table, if the steps are long enough to be about computing.
 * That it can't be noted is no failure of the run. */
static void learn(output *people, const setup *s, const decision *d, const train_result *r) {
    enum { ENOUGH_STEPS = 20 };
    const double enough_seconds = 0.005;
    bool doubted = false;
    if (r->steps - r->first < ENOUGH_STEPS || r->step_seconds < enough_seconds) return;
    if (s->options.rates != RATES_BUILT_IN) {
        status noted = rates_learn(d->plan.device, r->undisturbed_seconds, d->point.seconds,
                                   &s->request.run.lower.rates, &doubted);
        (void)noted;
    }
    if (people->file) say_off(people, s, d, r, doubted);
}

/* Of a run that was stopped too; the sentence of why is kept. */
static status write_page(const watcher *w, io_writer *html, const train_result *r, status so_far) {
    page_file_kept kept;
    if (!html->path || (so_far != STATUS_OK && so_far != STATUS_INTERRUPTED)) return so_far;
    page_file_keep(&kept, so_far);
    return page_file_end_kept(w->o, w->streams, html, report_run_page(html, w->s, w->d, r), &kept);
}

/* `html`: of a page, for which what is observed is kept where the budget has room for it. */
static status train(const options *o, cli_streams *streams, const setup *s, resume *from, decision *d,
                    io_writer *html) {
    watcher w = { .o = o, .streams = streams, .s = s, .d = d };
    TRY(progress_open(&streams->people, &w.seen));
    train_observer observer = { .context = &w,
                                .stepped = stepped,
                                .slowed = slowed,
                                .evaluated = evaluated,
                                .ended = ended,
                                .stop = &signals_stop,
                                .lives = html->path && train_reserve_lives(s, d) };
    train_result r = { 0 };
    training = 1;
    status result = train_run(s, d, from, &observer, &r);
    progress_close(w.seen); /* may wait for the terminal: by now everything is in its files */
    print_end(&streams->people, s, d, &r, result == STATUS_OK || result == STATUS_INTERRUPTED);
    result = write_page(&w, html, &r, result);
    bool alone = s->comm.world < 2; /* what others are waited for says nothing of this processor */
    if (result == STATUS_OK && alone) learn(&streams->people, s, d, &r);
    train_result_close(&r);
    return result;
}

/* Records with labels are read from folders in folders too. */
static status check_place(const setup *s) {
    const setup_options *o = &s->options;
    bool deep = s->model.head.kind != HEAD_LANGUAGE;
    char file[4096];
    if (snprintf(file, sizeof file, "%s/run.json", o->out) >= (int)sizeof file) return STATUS_OK;
    TRY(own_data_check(file, o->data, deep));
    for (uint64_t i = 1; i < o->part_count; i++) TRY(own_data_check(file, o->parts[i].path, deep));
    return o->eval_data ? own_data_check(file, o->eval_data, deep) : STATUS_OK;
}

/* `so_far`: how this rank has come here; all of them learn of a failure of any. */
static status train_on(const options *o, cli_streams *streams, io_writer *html, status so_far) {
    setup s = { 0 };
    decision d = { 0 };
    resume from = { 0 };
    bool decided = false;
    status result = so_far == STATUS_OK ? cli_setup(o, &s) : so_far;
    if (result == STATUS_OK) result = check_place(&s);
    result = comm_agree(result);
    if (result == STATUS_OK) result = ranks_settle(&s);
    if (result == STATUS_OK) result = cli_decide(streams, &s, &from, &d, &decided);
    result = ranks_agree(result, &s, &d, &from);
    if (decided && streams->people.file) print_beginning(&streams->people, &s, &from, &d);
    if (decided && result == STATUS_NO_FIT && o->json) {
        text json = { 0 };
        report_plan_json(&json, &s, &d);
        output_text(&streams->result, &json);
    }
    if (decided && result == STATUS_NO_FIT) result = page_file_plan(o, streams, html, &s, &d, result);
    if (result == STATUS_OK) result = train(o, streams, &s, &from, &d, html);
    resume_close(&from);
    decision_close(&d);
    setup_close(&s);
    return result;
}

status cli_train(const options *given, cli_streams *streams) {
    options o = *given;
    train_tokens paths = { 0 };
    if (!o.run.data && !o.run.eval_only)
        return status_set(STATUS_INVALID, "train wants --data PATH, what to train on");
    if (!o.run.out && !o.run.eval_only)
        return status_set(STATUS_INVALID, "train wants --out DIR, a folder for the model");
    launch started;
    TRY(launch_find(&started));
    TRY(ranks_begin(&started, &o, &streams->people));
    status result = STATUS_OK;
    if (o.run.out)
        result = io_check_folder(o.run.out); /* planning may take seconds, and would be for nothing */
    io_writer html = { 0 };                  /* as the folder: known before any work */
    if (result == STATUS_OK && !comm_world().rank) result = page_file_open(&o, &html);
    if (result == STATUS_OK) result = train_tokens_make(&o, streams, &paths);
    if (result == STATUS_OK && !o.run.eval_only) signals_call(asked_to_stop, SIGNALS_READS_GO_ON, NULL);
    result =
        o.run.eval_only ? cli_evaluate(&o, streams, &html, result) : train_on(&o, streams, &html, result);
    io_writer_discard(&html);
    train_tokens_close(&paths);
    return result;
}
