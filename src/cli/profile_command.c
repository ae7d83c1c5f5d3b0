/* snug profile: plans as train does, runs a few steps by the clock, and says where the time went. */
#define _GNU_SOURCE
#include <string.h>

#include "cli/cli.h"
#include "cli/page_file.h"
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

/* What goes to files. */
typedef struct {
    io_writer trace, html;
} profile_files;

static status profile(const options *o, cli_streams *streams, const setup *s, decision *d,
                      profile_files *to) {
    profile_result r = { 0 };
    bool observes;
    TRY(profile_reserve(s, d, o->profile_steps, &observes));
    signals_watch(SIGNALS_READS_GO_ON);
    status result = profile_run(s, d, o->profile_steps, observes, &signals_stop, &r);
    if (result == STATUS_OK && o->trace) {
        result = report_profile_trace(&to->trace, s, d, &r);
        if (result == STATUS_OK) result = io_writer_commit(&to->trace);
    }
    if (r.steps == o->profile_steps) print_profile(o, streams, s, d, &r);
    char name[REPORT_NAME_BYTES];
    if (result == STATUS_OK && o->trace && streams->people.file)
        output_add(&streams->people, "\nTrace: %s, for ui.perfetto.dev or chrome://tracing\n",
                   report_name(o->trace, name));
    if (result == STATUS_OK && o->html)
        result = page_file_end(o, streams, &to->html, report_profile_page(&to->html, s, d, &r));
    profile_close(&r);
    return result;
}

status cli_profile(const options *o, cli_streams *streams) {
    setup s = { 0 };
    decision d = { 0 };
    bool decided = false;
    profile_files to = { 0 }; /* opened first: a place that can't be written is known before any work */
    if (o->trace) TRY(io_check_file(o->trace));
    if (o->trace) TRY(io_writer_open(&to.trace, o->trace));
    status result = page_file_open(o, &to.html);
    if (result == STATUS_OK) result = cli_setup(o, &s);
    if (result == STATUS_OK) result = cli_decide(streams, &s, NULL, &d, &decided);
    if (decided && streams->people.file) print_beginning(&streams->people, &s, &d);
    if (decided && result == STATUS_NO_FIT && o->json) {
        text json = { 0 };
        report_plan_json(&json, &s, &d);
        output_text(&streams->result, &json);
    }
    if (decided && result == STATUS_NO_FIT) result = page_file_plan(o, streams, &to.html, &s, &d, result);
    if (result == STATUS_OK) result = made_up_train(&s);
    if (result == STATUS_OK) result = profile(o, streams, &s, &d, &to);
    io_writer_discard(&to.trace);
    io_writer_discard(&to.html);
    decision_close(&d);
    setup_close(&s);
    return result;
}
