/* What is seen of a run while it goes on: the live line on a terminal of any width, lines in a log, and
 * readers that are stuck or gone. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/scratch.h"

static int make_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    return 0;
}

enum { MOST = 4 << 20 };
static char seen[MOST + 1];

/* All that comes until the other end is closed. */
static size_t read_to_the_end(int from) {
    size_t length = 0;
    ssize_t n;
    while (length < MOST && (n = read(from, seen + length, MOST - length)) > 0) length += (size_t)n;
    seen[length] = 0;
    return length;
}

/* A terminal; *other is what a command writes to. */
static int open_terminal(int *other) {
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) skip();
    *other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    if (*other < 0) skip();
    return terminal;
}

/* Runs a training on a terminal of so many columns; what it shows is in `seen`. */
static void train_on_terminal(int columns, const char *const *with) {
    int other, terminal = open_terminal(&other);
    struct winsize size = { .ws_row = 24, .ws_col = (unsigned short)columns };
    ioctl(terminal, TIOCSWINSZ, &size);
    pid_t pid = command_start("train tiny/config.json --data text --out shown --overwrite --steps 60 "
                              "--eval-every 50 --eval-samples 2",
                              with, other);
    close(other);
    read_to_the_end(terminal);
    close(terminal);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, 0);
    command_free(&r);
}

/* Columns that a live line takes: what escape sequences say takes none. */
static int columns_of(const char *line, const char *end) {
    int columns = 0;
    for (; line < end; line++) {
        if (*line == '\033')
            while (line < end && !strchr("mK", *line)) line++;
        else
            columns++;
    }
    return columns;
}

static void live_lines_fit_the_terminal(void **state) {
    (void)state;
    static const char *const with[] = { "TERM=xterm", NULL };
    static const struct {
        int columns;
        const char *shown, *left_out;
    } cases[] = { { 40, "loss ", "norm " }, { 80, "mem ", "of peak" }, { 200, "of peak", NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        train_on_terminal(cases[i].columns, with);
        int lines = 0;
        for (const char *line = seen; (line = strstr(line, "\rstep ")); line++) {
            const char *end = strstr(line, "\033[K");
            assert_non_null(end);
            int columns = columns_of(line + 1, end);
            assert_true(columns < cases[i].columns);
            char shown[512];
            snprintf(shown, sizeof shown, "%.*s", (int)(end - line), line);
            if (!strstr(shown, cases[i].shown)) fail_msg("no '%s' in '%s'", cases[i].shown, shown);
            if (cases[i].left_out) assert_null(strstr(shown, cases[i].left_out));
            lines++;
        }
        assert_true(lines >= 1);
        assert_non_null(strstr(seen, "\033[1mloss "));
        assert_non_null(strstr(seen, "\r\033[Kstep 50  validation loss "));
    }
}

static void colours_can_be_declined(void **state) {
    (void)state;
    static const char *const plain[] = { "TERM=xterm", "NO_COLOR=1", NULL }, *const dumb[] = { "TERM=dumb",
                                                                                               NULL };
    train_on_terminal(100, plain);
    assert_null(strstr(seen, "\033[1m"));
    assert_non_null(strstr(seen, "\rstep "));
    train_on_terminal(100, dumb);
    assert_null(strstr(seen, "\033"));
    assert_non_null(strstr(seen, "step 60/60  loss "));
}

/* The number behind the last of these words; -1: they have not come. */
static long number_behind(const char *words) {
    const char *last = NULL;
    for (const char *at = seen; (at = strstr(at, words)); at++) last = at + strlen(words);
    return last ? strtol(last, NULL, 10) : -1;
}

/* What planning shows on a terminal until these words come, with a number of at least `number` behind them.
 * The plan would take minutes; the command is ended then. */
static void plan_on_terminal(const char *kind, const char *words, long number) {
    static const char large[] =
        "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":16384,"
        "\"intermediate_size\":53248,\"num_attention_heads\":128,\"num_hidden_layers\":126,"
        "\"num_key_value_heads\":8,\"vocab_size\":128256,\"max_position_embeddings\":8192}";
    int other, terminal = open_terminal(&other);
    scratch_write("large.json", large, sizeof large - 1);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("TERM", kind, 1);
        dup2(other, STDOUT_FILENO), dup2(other, STDERR_FILENO);
        execl(SNUG_BUILD "/snug", "snug", "plan", "large.json", "--batch", "64", "--context", "8192",
              "--memory", "100GB", "--rates", "built-in", "--allow", "all", "--offload-to", ".", NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    close(other);
    size_t length = 0;
    seen[0] = 0;
    while (number_behind(words) < number) {
        ssize_t n = read(terminal, seen + length, MOST - length);
        if (n <= 0) fail_msg("'%s' did not come with %ld: %s", words, number, seen);
        seen[length += (size_t)n] = 0;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(terminal);
}

static void planning_tells_how_far_it_is(void **state) {
    (void)state;
    plan_on_terminal("xterm", " looked at in ", 3);
    assert_non_null(strstr(seen, "\rlooking for the fastest plan that fits ... "));
    assert_non_null(strstr(seen, " looked at in 1 s\033[K"));
    plan_on_terminal("xterm", "\rlooking for the fastest plan that fits ... ", 1);
    plan_on_terminal("dumb", "looking for the fastest plan that fits ...", 0);
    assert_null(strstr(seen, "\033"));
    assert_null(strstr(seen, "looked at"));
}

static bool appears(const char *path) {
    for (int i = 0; i < 3000 && access(path, F_OK) != 0; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    return access(path, F_OK) == 0;
}

/* A reader that has stopped reading: the run goes on to its end and writes its files, and what it could not
 * say is lost. */
static void a_stuck_reader_stops_no_training(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    if (fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0) skip();
    pid_t pid = command_start(
        "train tiny/config.json --data text --out stuck --steps 600 --eval-every 2 --eval-samples 2", NULL,
        ends[1]);
    close(ends[1]);
    assert_true(appears("stuck/run.json"));
    assert_int_equal(access("stuck/model.safetensors", F_OK), 0);
    size_t length = read_to_the_end(ends[0]);
    close(ends[0]);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, 0);
    assert_true(length > 4096); /* it had more to say than the pipe holds */
    assert_non_null(strstr(seen, "Memory in bytes"));
    command_free(&r);
}

static void a_reader_that_leaves_stops_no_training(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = command_start(
        "train tiny/config.json --data text --out left --steps 100 --eval-every 5 --eval-samples 2", NULL,
        ends[1]);
    close(ends[1]);
    close(ends[0]);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, 0);
    assert_int_equal(access("left/model.safetensors", F_OK), 0);
    assert_int_equal(access("left/run.json", F_OK), 0);
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_lines_fit_the_terminal),
        cmocka_unit_test(colours_can_be_declined),
        cmocka_unit_test(planning_tells_how_far_it_is),
        cmocka_unit_test(a_stuck_reader_stops_no_training),
        cmocka_unit_test(a_reader_that_leaves_stops_no_training),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}
