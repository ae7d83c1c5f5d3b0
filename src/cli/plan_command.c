/* snug plan, and the deciding that plan and train begin with. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/page_file.h"
#include "cli/wanted.h"
#include "run/weights.h"

/* ---- a word when planning takes a while ---- */

static void tell(int signal_number) {
    static const char words[] = "looking for the fastest plan that fits ...\n";
    (void)signal_number;
    ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
    (void)written;
}

static void tell_after_a_second(bool begin) {
    struct sigaction action = { .sa_flags = SA_RESTART };
    action.sa_handler = begin ? tell : SIG_IGN;
    sigaction(SIGALRM, &action, NULL);
    alarm(begin ? 1 : 0);
}

status cli_setup(const options *o, setup *s) {
    TRY(setup_open(&o->run, NULL, s));
    TRY(model_computes(&s->model));
    if (!s->options.resume) TRY(weights_check(s)); /* a checkpoint has weights of its own */
    TRY(data_source_check(&s->train));
    TRY(data_source_check(&s->validation));
    s->train.check = s->validation.check = NULL; /* all of the data was read: once is enough */
    return STATUS_OK;
}

status cli_decide(cli_streams *streams, setup *s, resume *from, decision *d, bool *decided) {
    *decided = false;
    if (from) TRY(resume_find(s, from));
    if (s->comm.rank) return STATUS_OK; /* rank 0 searches for all, and tells (ranks_agree) */
    if (streams->people.file && isatty(STDERR_FILENO)) tell_after_a_second(true);
    status result = from ? resume_decide(s, from, d) : decision_make(s, d);
    tell_after_a_second(false);
    *decided = result == STATUS_OK || result == STATUS_NO_FIT;
    return result;
}

/* ---- the command ---- */

static void print_plan(const options *o, cli_streams *streams, const setup *s, const decision *d) {
    text t = { 0 };
    if (streams->people.file) {
        report_style style = output_style(&streams->people);
        report_plan_text(&t, s, d, &style);
        if (o->listing) report_listing(&t, d);
        output_text(&streams->people, &t);
        if (s->wanted.count) output_add(&streams->people, "\n");
        wanted_say_all(&streams->people, s);
    }
    if (!o->json) return;
    report_plan_json(&t, s, d);
    output_text(&streams->result, &t);
}

status cli_plan(const options *o, cli_streams *streams) {
    setup s = { 0 };
    decision d = { 0 };
    bool decided = false;
    io_writer html = { 0 };
    TRY(page_file_open(o, &html));
    status result = setup_open(&o->run, NULL, &s);
    if (result == STATUS_OK) result = cli_decide(streams, &s, NULL, &d, &decided);
    if (decided) print_plan(o, streams, &s, &d);
    if (decided) result = page_file_plan(o, streams, &html, &s, &d, result);
    io_writer_discard(&html);
    decision_close(&d);
    setup_close(&s);
    return result;
}
