/* snug profile: plans as train does, runs a few steps by the clock, and says where the time went. */
#define _GNU_SOURCE
#include <string.h>

#include "cli/cli.h"
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

static status profile(const options *o, cli_streams *streams, const setup *s, const decision *d,
                      io_writer *trace) {
    profile_result r = { 0 };
    signals_watch(SIGNALS_READS_GO_ON);
    status result = profile_run(s, d, o->profile_steps, &signals_stop, &r);
    if (result == STATUS_OK && o->trace) {
        result = report_profile_trace(trace, s, d, &r);
        if (result == STATUS_OK) result = io_writer_commit(trace);
    }
    if (r.steps == o->profile_steps) print_profile(o, streams, s, d, &r);
    char name[REPORT_NAME_BYTES];
    if (result == STATUS_OK && o->trace && streams->people.file)
        output_add(&streams->people, "\nTrace: %s, for ui.perfetto.dev or chrome://tracing\n",
                   report_name(o->trace, name));
    profile_close(&r);
    return result;
}

status cli_profile(const options *o, cli_streams *streams) {
    setup s = { 0 };
    decision d = { 0 };
    bool decided = false;
    io_writer trace = { 0 }; /* opened first: a place that can't be written is known before any work */
    if (o->trace) TRY(io_check_file(o->trace));
    if (o->trace) TRY(io_writer_open(&trace, o->trace));
    status result = cli_setup(o, &s);
    if (result == STATUS_OK) result = cli_decide(streams, &s, NULL, &d, &decided);
    if (decided && streams->people.file) print_beginning(&streams->people, &s, &d);
    if (decided && result == STATUS_NO_FIT && o->json) {
        text json = { 0 };
        report_plan_json(&json, &s, &d);
        output_text(&streams->result, &json);
    }
    if (result == STATUS_OK) result = made_up_train(&s);
    if (result == STATUS_OK) result = profile_reserve(&s, &d, o->profile_steps);
    if (result == STATUS_OK) result = profile(o, streams, &s, &d, &trace);
    io_writer_discard(&trace);
    decision_close(&d);
    setup_close(&s);
    return result;
}
