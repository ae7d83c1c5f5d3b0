/* snug status: where a run stands, from another terminal. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/page_file.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "io/json.h"
#include "train/standing.h"

static const double LOOK_SECONDS = 0.5; /* between two looks with --follow */

/* ---- people ---- */

static void add_headline(output *out, const char *folder, const standing *s) {
    char age[REPORT_NUMBER_BYTES], name[REPORT_NAME_BYTES];
    bool early = s->state == STANDING_MAKING_TOKENS;
    output_add(out, "%s: %s%s%s", report_name(folder, name), out->colour ? "\033[1m" : "",
               early ? "tokens are being made" : standing_state_name(s->state), out->colour ? "\033[0m" : "");
    if (early) {
        output_add(out, ", %s; training begins when they are\n", report_name(s->owner, name));
        return;
    }
    if (s->state == STANDING_RUNNING && *s->owner) output_add(out, ", %s", report_name(s->owner, name));
    output_add(out, "; last heard of %s ago\n", report_duration(s->silent > 0 ? s->silent : 0, age));
    if (*s->reason) output_add(out, "  %s\n", report_name(s->reason, name));
    if (s->state == STANDING_KILLED)
        output_add(out, "  it ended without a word; %s\n",
                   s->checkpoint ? "the same command with --resume goes on"
                                 : "there is no checkpoint to go on from");
}

static void print_standing(output *out, const char *folder, const standing *s) {
    char line[PROGRESS_LINE_BYTES], name[REPORT_NAME_BYTES];
    add_headline(out, folder, s);
    if (s->state == STANDING_MAKING_TOKENS) {
        /* nothing else is known yet */
    } else if (s->steps_seen) {
        progress_line(&s->at, PROGRESS_LINE_BYTES, false, line);
        output_add(out, "  %s\n", line);
    } else {
        output_add(out, "  step %lld/%lld\n", (long long)s->at.step, (long long)s->at.steps);
    }
    if (s->eval_step)
        output_add(out, "  validation loss %.4f after step %lld\n", s->eval_loss, (long long)s->eval_step);
    if (s->checkpoint)
        output_add(out, "  newest checkpoint %s/checkpoint-%lld\n", report_name(folder, name),
                   (long long)s->checkpoint);
    output_flush(out);
}

/* ---- programs ---- */

static void put_bytes(json_writer *w, const char *key, uint64_t bytes) {
    if (bytes == UINT64_MAX)
        json_put_null(w, key);
    else
        json_put_unsigned(w, key, bytes);
}

static void print_json(output *out, const standing *s, bool one_line) {
    const train_progress *p = &s->at;
    text json = { 0 };
    json_writer w = { .out = &json, .lines = !one_line };
    bool any = s->steps_seen > 0;
    json_begin_object(&w, NULL);
    json_put_string(&w, "state", standing_state_name(s->state));
    json_put_string(&w, "owner", *s->owner ? s->owner : NULL);
    json_put_string(&w, "reason", *s->reason ? s->reason : NULL);
    json_put_integer(&w, "step", p->step);
    json_put_integer(&w, "steps", p->steps);
    json_put_number(&w, "loss", any ? p->loss : NAN);
    json_put_number(&w, "grad_norm", any ? p->norm : NAN);
    json_put_number(&w, "lr", any ? p->learning_rate : NAN);
    json_put_number(&w, "step_seconds", any ? p->seconds : NAN);
    json_put_number(&w, "tokens_per_second", any ? p->tokens_per_second : NAN);
    json_put_number(&w, "seconds_left", p->seconds_left);
    json_put_number(&w, "seconds_silent", s->silent);
    json_put_number(&w, "eval_loss", s->eval_step ? s->eval_loss : NAN);
    json_put_integer(&w, "eval_step", s->eval_step);
    put_bytes(&w, "memory_bytes", any ? p->resident_bytes : UINT64_MAX);
    put_bytes(&w, "planned_bytes", p->planned_bytes);
    put_bytes(&w, "budget_bytes", p->budget_bytes);
    json_put_integer(&w, "checkpoint", s->checkpoint);
    json_end_object(&w);
    text_add(&json, "\n");
    output_text(out, &json);
}

/* ---- looking ---- */

static status look(const char *folder, standing *s) {
    char owner[STANDING_TEXT_BYTES];
    if (!standing_makes_tokens(folder, owner, sizeof owner)) return standing_look(folder, s);
    *s = (standing){ .state = STANDING_MAKING_TOKENS, .silent = NAN };
    s->at.seconds_left = NAN, s->at.planned_bytes = s->at.budget_bytes = UINT64_MAX;
    memcpy(s->owner, owner, sizeof owner);
    return STATUS_OK;
}

/* ---- following ---- */

static void show_news(const options *o, cli_streams *streams, const standing *s) {
    char line[PROGRESS_LINE_BYTES];
    output *out = &streams->people;
    if (o->json) {
        print_json(&streams->result, s, true);
        return;
    }
    progress_line(&s->at, out->terminal ? output_columns(out) - 1 : PROGRESS_LINE_BYTES, out->colour, line);
    output_add(out, out->terminal ? "\r%s\033[K" : "%s\n", line);
    output_flush(out);
}

static status follow(const options *o, cli_streams *streams, standing *s) {
    int64_t shown = -1;
    while (s->state <= STANDING_RUNNING && !signals_stop && !streams->people.gone && !streams->result.gone) {
        if (s->at.step != shown && s->steps_seen) show_news(o, streams, s);
        shown = s->at.step;
        nanosleep(&(struct timespec){ .tv_nsec = (long)(LOOK_SECONDS * 1e9) }, NULL);
        TRY(look(o->subject, s));
    }
    if (streams->people.terminal && !o->json) output_add(&streams->people, "\r\033[K");
    return STATUS_OK;
}

static status show(const options *o, cli_streams *streams, standing *s, io_writer *html) {
    TRY(look(o->subject, s));
    if (o->follow) TRY(follow(o, streams, s));
    if (o->json)
        print_json(&streams->result, s, o->follow);
    else
        print_standing(&streams->people, o->subject, s);
    if (o->html) TRY(page_file_end(o, streams, html, report_status_page(html, o->subject, s)));
    return signals_stop && s->state <= STANDING_RUNNING
               ? status_set(STATUS_INTERRUPTED, "stopped; the run goes on, and the page shows it as it is")
               : STATUS_OK;
}

status cli_status(const options *o, cli_streams *streams) {
    standing s = { 0 };
    io_writer html = { 0 };
    /* A signal ends following, and the page of what there is by then is written. */
    if (o->follow && o->html) signals_watch(SIGNALS_READS_GO_ON);
    TRY(page_file_open(o, &html));
    status result = show(o, streams, &s, &html);
    io_writer_discard(&html);
    return result;
}
