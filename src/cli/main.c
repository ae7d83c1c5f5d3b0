/* The program snug: finds the command, reads its options, runs it, and says in one sentence what went wrong.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/instructions.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/cluster_links.h"
#include "cli/gpu.h"
#include "cli/ranks.h"
#include "comm/comm.h"
#include "comm/presence.h"
#include "io/json.h"

/* Among several processes rank 0 speaks. */
static launch started;

static status show_help(int count, char **arguments, output *out) {
    if (count == 0) {
        cli_help_all(out);
        return STATUS_OK;
    }
    const cli_command *c = cli_find(arguments[0]);
    if (!c) return cli_unknown_command(arguments[0]);
    if (count > 1)
        return status_set(STATUS_INVALID, "help takes one command, not '%s' as well", arguments[1]);
    cli_help_command(out, c);
    return STATUS_OK;
}

/* That something does not fit is an answer, so --json gives one on stdout where the command had nothing more
 * to tell: no plan, no estimate. */
static void put_no_fit(output *out) {
    text t = { 0 };
    json_writer w = { .out = &t, .lines = true };
    json_begin_object(&w, NULL);
    json_put_bool(&w, "fits", false);
    json_put_string(&w, "reason", status_message());
    json_end_object(&w);
    text_add(&t, "\n");
    output_text(out, &t);
}

/* Rank 0 speaks for those that train together. */
static bool is_silent(void) { return started.rank != 0; }

static bool says(int count, char **arguments, const char *word) {
    for (int i = 0; i < count; i++)
        if (strcmp(arguments[i], word) == 0) return true;
    return false;
}

/* Training is done and profiled, and links are measured, by as many processes as were started. Others are of
 * one: mpirun is told so, and what a shell or a container says to whatever is started there does not concern
 * them. */
static status find_ranks(const cli_command *c, int count, char **arguments, cli_streams *streams) {
    launch found;
    status result = launch_find(&found);
    bool measures = c->command == COMMAND_DEVICES && found.by_mpi && says(count, arguments, "--measure"),
         together = c->command == COMMAND_TRAIN || c->command == COMMAND_PROFILE || measures;
    if (together || (result == STATUS_OK && !found.lasts)) started = found;
    device_local(started.local);
    if (is_silent()) streams->result.file = streams->people.file = NULL;
    if (together) return result;
    if (started.world > 1)
        return status_set(STATUS_INVALID, "%s started %d processes, and %s is of one", started.launcher,
                          started.world, c->name);
    return STATUS_OK;
}

static status run_with(const cli_command *c, const options *o, cli_streams *streams) {
    if (o->help) {
        cli_help_command(&streams->result, c);
        return STATUS_OK;
    }
    if (!o->subject && *c->subject && *c->subject != '[')
        return status_set(STATUS_INVALID, "%s wants a %s: snug %s %s; 'snug help %s' shows more", c->name,
                          c->subject, c->name, c->subject, c->name);
    if (o->json || o->estimate.emit) streams->people = output_for_people(stderr);
    if (o->quiet || is_silent()) streams->people.file = NULL;
    threads_pin_allow(o->pin_threads == PIN_AUTO);
    if (o->instructions) TRY(instructions_pin(o->instructions));
    if (o->eager != EAGER_AUTO || o->serve.eager)
        device_capture_allow(o->eager == EAGER_NO && !o->serve.eager);
    status result = c->run(o, streams);
    if (result == STATUS_NO_FIT && o->json && !streams->result.begun) put_no_fit(&streams->result);
    return result;
}

/* What trains does so here. Measuring forks first, and a driver that was opened before does not survive that.
 */
static status choose_gpu(const cli_command *c, options *o, device_elsewhere *at) {
    if (o->gpu && o->measure)
        return status_set(
            STATUS_INVALID,
            "--measure runs on the device that is here, and --gpu plans for one wherever it is; "
            "leave one of the two out");
    bool serves = c->command == COMMAND_SERVE && !o->serve.dry_run && !o->serve.solve;
    return gpu_choose(o, serves || c->command == COMMAND_TRAIN || c->command == COMMAND_PROFILE, at);
}

static status run_command(const cli_command *c, int count, char **arguments, cli_streams *streams) {
    static option_table table; /* large for a stack */
    options_table(&table);
    if (says(count, arguments, "--help") || says(count, arguments, "-h")) { /* whatever is wrong beside it */
        cli_help_command(&streams->result, c);
        return STATUS_OK;
    }
    TRY(find_ranks(c, count, arguments, streams));
    options o;
    status result = options_read(&table, c->command, count, arguments, &o);
    device_elsewhere at;
    links_said said;
    if (result == STATUS_OK && !o.help) result = choose_gpu(c, &o, &at);
    bool plans = c->command == COMMAND_PLAN || c->command == COMMAND_COMPARE;
    if (result == STATUS_OK && !o.help && plans) result = cluster_links_choose(&o, &said);
    if (result == STATUS_OK) result = run_with(c, &o, streams);
    options_close(&o);
    return result;
}

static status run(int count, char **arguments, cli_streams *streams) {
    if (count < 2) {
        output errors = output_of(stderr);
        cli_help_all(&errors);
        return status_set(STATUS_INVALID, "no command given; see above");
    }
    const char *name = arguments[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        output_add(&streams->result, "snug %s\n", SNUG_VERSION);
        return STATUS_OK;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return show_help(count - 2, arguments + 2, &streams->result);
    const cli_command *c = cli_find(name);
    if (c) return run_command(c, count - 2, arguments + 2, streams);
    if (name[0] == '-')
        return status_set(STATUS_INVALID, "a command comes before options such as %s; try 'snug help'", name);
    return cli_unknown_command(name);
}

/* Names that a sentence quotes may hold anything; no terminal obeys it, and elsewhere it stays one line. */
static void speak(void) {
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", status_message());
    utf8_clean(sentence);
    output errors = output_of(stderr);
    if (errors.terminal) errors.width = output_columns(&errors);
    output_add(&errors, "snug: %s\n", sentence);
    output_flush(&errors);
    presence_speaks();
}

static void say(void) {
    if (!is_silent()) speak();
}

/* Where a standard stream is closed, a file of ours would get its number and be written to as if it were the
 * stream. What takes the place can't be used the way the stream would be, so that using it fails. */
static void hold_streams(void) {
    for (int file = 0; file <= 2; file++)
        if (fcntl(file, F_GETFD) < 0) {
            int held = open("/dev/null", file == 0 ? O_WRONLY : O_RDONLY);
            (void)held; /* without it writing fails in another way */
        }
}

static volatile sig_atomic_t ended_by_launcher;
static void note_end(int number) {
    (void)number;
    ended_by_launcher = 1;
}

/* A rank that failed before it had a transport, or with that: rank 0 has failed as well, and the launcher
 * ends all for it, or nobody else knows what happened here. */
static void wait_for_rank_0(int tenths) {
    signal(SIGTERM, note_end);
    bool said = false;
    for (int i = 0; i < tenths && !ended_by_launcher && !said; i++) {
        usleep(100000);
        said = presence_has_spoken();
    }
    if (!ended_by_launcher && !said) speak();
}

/* Where rank 0 says nothing the others speak one after the other: the first ends all. A second apart, since
 * on a busy machine a launcher takes as long to end a process. Nobody waits for those that are known to have
 * ended. In tenths of a second. */
static int turn(void) {
    enum { FOR_RANK_0 = 25, EACH = 10, MOST = 3 };
    int before = comm_world().rank, there = presence_before();
    if (!there) return 1;
    if (there > 0) before = there;
    return FOR_RANK_0 + EACH * (before > MOST ? MOST : before - 1);
}

/* Launchers end all processes as soon as one has left with a failure. So rank 0 is let speak first: the
 * transport waits for it, and where there is none yet the others wait a moment. */
static void leave(status result) {
    if (result != STATUS_OK) signal(SIGTERM, SIG_IGN);
    if (result != STATUS_OK && is_silent() && comm_world().world == 1) wait_for_rank_0(30);
    if (result != STATUS_OK && is_silent() && comm_is_broken()) wait_for_rank_0(turn());
    if (comm_is_broken()) comm_abort((int)result); /* whoever is waited for does not come */
    ranks_end();
}

int main(int count, char **arguments) {
    hold_streams();
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves shows as a failed write */
    signal(SIGXFSZ, SIG_IGN); /* and so does a limit of file sizes */
    cli_streams streams = { .result = output_of(stdout), .people = output_for_people(stdout) };
    status result = run(count, arguments, &streams);
    if (result != STATUS_OK) {
        output_flush(&streams.people);
        say();
    }
    /* That something does not fit is an answer, and one that nobody could read is none. */
    output *const last[] = { &streams.result, &streams.people };
    for (int i = 0; i < 2; i++) {
        status written = output_check(last[i]);
        if (written == STATUS_OK || (result != STATUS_OK && result != STATUS_NO_FIT)) continue;
        say();
        result = written;
    }
    if (started.world > 1) leave(result);
    return (int)result;
}
