/* snug profile: plans as train does, runs a few steps by the clock, and says where the time went. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/page_file.h"
#include "cli/ranks.h"
#include "cli/signals.h"
#include "io/file.h"
#include "run/made_up.h"

static void print_beginning(output *out, const setup *s, const decision *d) {
    text t = { 0 };
    report_style style = output_style(out);
    style.brief = true;
    report_plan_text(&t, s, d, &style);
    output_text(out, &t);
}

static void print_profile(const options *o, cli_streams *streams, const setup *s, const decision *d,
                          const profile_result *r) {
    text t = { 0 };
    if (streams->people.file) {
        report_style style = output_style(&streams->people);
        report_profile_text(&t, s, d, r, &style);
        output_text(&streams->people, &t);
    }
    if (!o->json) return;
    report_profile_json(&t, s, d, r);
    output_text(&streams->result, &t);
}

/* What goes to files: of several ranks a trace each, and the page by rank 0. */
typedef struct {
    char trace_path[4096]; /* "": there is none */
    io_writer trace, html;
} profile_files;

/* Of several ranks "step.json" is "step-rank0.json" of the first one. */
static status name_trace(const options *o, profile_files *to) {
    comm_ranks ranks = comm_world();
    const char *slash = strrchr(o->trace, '/'), *name = slash ? slash + 1 : o->trace,
               *dot = strrchr(name, '.');
    if (!dot || dot == name) dot = name + strlen(name);
    int stem = (int)(dot - o->trace);
    int length = ranks.world < 2 ? snprintf(to->trace_path, sizeof to->trace_path, "%s", o->trace)
                                 : snprintf(to->trace_path, sizeof to->trace_path, "%.*s-rank%d%s", stem,
                                            o->trace, ranks.rank, dot);
    if (length < (int)sizeof to->trace_path) return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", o->trace);
}

/* A place that can't be written is known before any work. */
static status open_files(const options *o, profile_files *to) {
    if (o->trace) {
        TRY(name_trace(o, to));
        TRY(io_check_file(to->trace_path));
        TRY(io_writer_open(&to->trace, to->trace_path));
    }
    return comm_world().rank ? STATUS_OK : page_file_open(o, &to->html);
}

static status write_trace(const setup *s, const decision *d, const profile_result *r, profile_files *to) {
    if (!*to->trace_path) return STATUS_OK;
    TRY(report_profile_trace(&to->trace, s, d, r));
    return io_writer_commit(&to->trace);
}

static void say_trace(output *people, const profile_files *to) {
    char name[REPORT_NAME_BYTES];
    int world = comm_world().world;
    if (!people->file || !*to->trace_path) return;
    output_add(people, "\nTrace: %s", report_name(to->trace_path, name));
    if (world > 1) output_add(people, " and %d more, one of each rank", world - 1);
    output_add(people, ", for ui.perfetto.dev or chrome://tracing\n");
}

static status profile(const options *o, cli_streams *streams, const setup *s, decision *d,
                      profile_files *to) {
    profile_result r = { 0 };
    bool observes;
    TRY(comm_agree(profile_reserve(s, d, o->profile_steps, &observes)));
    signals_watch(SIGNALS_READS_GO_ON);
    status result = profile_run(s, d, o->profile_steps, observes, &signals_stop, &r);
    bool measured = result == STATUS_OK;
    if (measured) result = comm_agree(write_trace(s, d, &r, to));
    if (measured && !s->comm.rank) print_profile(o, streams, s, d, &r);
    if (result == STATUS_OK) say_trace(&streams->people, to);
    if (result == STATUS_OK && to->html.path)
        result = page_file_end(o, streams, &to->html, report_profile_page(&to->html, s, d, &r));
    profile_close(&r);
    return measured ? comm_agree(result) : result;
}

/* As in training: what one rank can't do all learn of. */
static status profile_on(const options *o, cli_streams *streams) {
    setup s = { 0 };
    decision d = { 0 };
    bool decided = false;
    profile_files to = { 0 };
    status result = open_files(o, &to);
    if (result == STATUS_OK) result = cli_setup(o, &s);
    result = comm_agree(result);
    if (result == STATUS_OK) result = ranks_settle(&s);
    if (result == STATUS_OK) result = cli_decide(streams, &s, NULL, &d, &decided);
    result = ranks_agree(result, &s, &d, NULL);
    if (decided && streams->people.file) print_beginning(&streams->people, &s, &d);
    if (decided && result == STATUS_NO_FIT && o->json) {
        text json = { 0 };
        report_plan_json(&json, &s, &d);
        output_text(&streams->result, &json);
    }
    if (decided && result == STATUS_NO_FIT) result = page_file_plan(o, streams, &to.html, &s, &d, result);
    if (result == STATUS_OK) result = comm_agree(made_up_train(&s));
    if (result == STATUS_OK) result = profile(o, streams, &s, &d, &to);
    io_writer_discard(&to.trace);
    io_writer_discard(&to.html);
    decision_close(&d);
    setup_close(&s);
    return result;
}

status cli_profile(const options *given, cli_streams *streams) {
    options o = *given;
    launch started;
    TRY(launch_find(&started));
    TRY(ranks_begin(&started, &o, &streams->people));
    TRY(comm_tell(&o.profile_steps, sizeof o.profile_steps)); /* all go as many steps as rank 0 */
    return profile_on(&o, streams);
}
