/* snug plan, and the deciding that plan and train begin with. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/page_file.h"
#include "cli/wanted.h"
#include "run/weights.h"
#include "search/visit.h"

/* ---- how far it is, when planning takes a while ---- */

/* Told from a handler of signals, since the search does not come by here: so of what is safe there alone. */
static struct {
    bool live;       /* the terminal can write a line again */
    uint64_t before; /* what earlier searches had looked at */
    unsigned seconds;
} planning;

static char *put_text(char *at, const char *words) {
    while (*words) *at++ = *words++;
    return at;
}

static char *put_count(char *at, uint64_t n) {
    char digits[24], *first = digits + sizeof digits;
    do *--first = (char)('0' + n % 10);
    while (n /= 10);
    while (first < digits + sizeof digits) *at++ = *first++;
    return at;
}

static void tell(int signal_number) {
    (void)signal_number;
    char line[160], *at = put_text(line, planning.live ? "\r" : "");
    at = put_text(at, "looking for the fastest plan that fits ...");
    if (planning.live) {
        at = put_count(put_text(at, " "), visit_looked_at() - planning.before);
        at = put_count(put_text(at, " looked at in "), ++planning.seconds);
        at = put_text(at, " s\033[K");
        alarm(1);
    } else {
        at = put_text(at, "\n");
    }
    ssize_t written = write(STDERR_FILENO, line, (size_t)(at - line));
    (void)written;
}

static void tell_after_a_second(void) {
    struct sigaction action = { .sa_handler = tell, .sa_flags = SA_RESTART };
    const char *terminal = getenv("TERM");
    planning.live = terminal && strcmp(terminal, "dumb") != 0;
    planning.before = visit_looked_at();
    planning.seconds = 0;
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
}

static void tell_no_more(void) {
    static const char clear[] = "\r\033[K";
    alarm(0);
    signal(SIGALRM, SIG_IGN);
    if (!planning.seconds) return;
    planning.seconds = 0;
    ssize_t written = write(STDERR_FILENO, clear, sizeof clear - 1);
    (void)written;
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
    if (streams->people.file && isatty(STDERR_FILENO)) tell_after_a_second();
    status result = from ? resume_decide(s, from, d) : decision_make(s, d);
    tell_no_more();
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
