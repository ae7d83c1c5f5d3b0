#define _GNU_SOURCE
#include "cli/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/patience.h"
#include "io/scratch.h"

extern char **environ;

static char started[200]; /* the line of the last */

enum { MOST_ARGUMENTS = 64, MOST_VARIABLES = 512, MOST_BYTES = 8 << 20 };

static char *read_all(const char *path) {
    FILE *file = fopen(path, "rb");
    char *data = calloc(1, MOST_BYTES + 1);
    assert_non_null(file);
    assert_non_null(data);
    size_t bytes = fread(data, 1, MOST_BYTES, file);
    fclose(file);
    return realloc(data, bytes + 1);
}

static bool is_replaced(const char *variable, const char *const *with) {
    for (; with && *with; with++)
        if (strncmp(variable, *with, strcspn(*with, "=") + 1) == 0) return true;
    return false;
}

static void make_environment(const char *const *with, char *environment[MOST_VARIABLES]) {
    size_t count = 0;
    for (char **v = environ; *v && count + 16 < MOST_VARIABLES; v++)
        if (strncmp(*v, "SNUG_", 5) != 0 && !is_replaced(*v, with)) environment[count++] = *v;
    if (!is_replaced("SNUG_RATES=", with)) environment[count++] = (char *)"SNUG_RATES=built-in";
    for (; with && *with; with++) environment[count++] = (char *)*with;
    environment[count] = NULL;
}

/* Whoever runs the tests may ignore signals, as shells do for what runs in the background. */
static void take_signals(posix_spawnattr_t *a) {
    sigset_t usual, none;
    sigemptyset(&none);
    sigemptyset(&usual);
    for (size_t i = 0; i < 3; i++) sigaddset(&usual, (const int[]){ SIGINT, SIGTERM, SIGUSR1 }[i]);
    posix_spawnattr_init(a);
    posix_spawnattr_setsigdefault(a, &usual);
    posix_spawnattr_setsigmask(a, &none);
    posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

static pid_t start(const char *program, const char *line, const char *const *with, int out) {
    static char path[1024], copy[4096], *arguments[MOST_ARGUMENTS], *environment[MOST_VARIABLES];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/%s", SNUG_BUILD, program);
    snprintf(copy, sizeof copy, "%s", line);
    snprintf(started, sizeof started, "%s %s", program, line);
    arguments[count++] = (char *)"snug";
    for (char *word = strtok(copy, " "); word && count + 1 < MOST_ARGUMENTS; word = strtok(NULL, " "))
        arguments[count++] = word;
    arguments[count] = NULL;
    make_environment(with, environment);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (out >= 0)
        posix_spawn_file_actions_adddup2(&actions, out, 1);
    else
        posix_spawn_file_actions_addopen(&actions, 1, "out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, "err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_t signals;
    take_signals(&signals);
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, path, &actions, &signals, arguments, environment), 0);
    posix_spawnattr_destroy(&signals);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

pid_t command_start(const char *line, const char *const *with, int out) {
    return start("snug", line, with, out);
}

command_result command_wait(pid_t pid) {
    int how;
    struct rusage usage;
    patience_with = pid;
    patience(started, 900);
    assert_int_equal(wait4(pid, &how, 0, &usage), pid);
    patience(started, 0);
    return (command_result){ .exit = WIFEXITED(how) ? WEXITSTATUS(how) : -1,
                             .out = access("out", F_OK) == 0 ? read_all("out") : calloc(1, 1),
                             .err = read_all("err"),
                             .resident_peak = (uint64_t)usage.ru_maxrss * 1024 };
}

command_result command_run_program(const char *program, const char *line, const char *const *with) {
    unlink("out");
    return command_wait(start(program, line, with, -1));
}

command_result command_run_with(const char *line, const char *const *with) {
    return command_run_program("snug", line, with);
}

command_result command_run(const char *line) { return command_run_with(line, NULL); }

void command_free(command_result *r) {
    free(r->out);
    free(r->err);
}

void command_expect(int code, const char *line) {
    command_result r = command_run(line);
    if (r.exit != code) print_error("snug %s: exit %d, not %d\n%s%s", line, r.exit, code, r.out, r.err);
    assert_int_equal(r.exit, code);
    command_free(&r);
}

/* How much of `said` is `words`, where a blank may be the end of a line with the indent of the next; 0: it is
 * something else. */
static size_t same_words(const char *said, const char *words) {
    const char *at = said;
    for (; *words; words++) {
        if (*words == ' ' && *at == '\n') {
            at += 1 + strspn(at + 1, " ");
            continue;
        }
        if (*at++ != *words) return 0;
    }
    return (size_t)(at - said);
}

bool command_has_words(const char *said, const char *words) {
    for (; *said; said++)
        if (same_words(said, words)) return true;
    return !*words;
}

bool command_says(const char *line, int code, const char *words) {
    command_result r = command_run(line);
    bool good = r.exit == code && (command_has_words(r.out, words) || command_has_words(r.err, words));
    if (!good) print_error("snug %s: exit %d: %s%s\n", line, r.exit, r.out, r.err);
    command_free(&r);
    return good;
}

json_value command_value(const json_document *d, const char *path) {
    json_value v = d->root;
    while (*path) {
        char key[64];
        size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        /* the key must outlive the value: leak-free copies come from a small table */
        static char keys[8][64];
        static int next;
        char *kept = keys[next++ % 8];
        strcpy(kept, key);
        if (json_get(v, kept, &v) != STATUS_OK) fail_msg("%s: %s", path, status_message());
        path += length + (path[length] == '.');
    }
    return v;
}

uint64_t command_number(const json_document *d, const char *path) {
    int64_t number = -1;
    if (json_as_integer(command_value(d, path), 0, INT64_MAX, &number) != STATUS_OK)
        fail_msg("%s", status_message());
    return (uint64_t)number;
}

json_document command_json(const char *line) {
    json_document d;
    command_result r = command_run(line);
    if (r.exit != 0 || json_parse("answer", r.out, strlen(r.out), &d) != STATUS_OK)
        fail_msg("%s: exit %d: %s", line, r.exit, r.err);
    command_free(&r);
    return d;
}

const char *command_string(const json_document *d, const char *path) {
    const char *words;
    assert_int_equal(json_as_string(command_value(d, path), &words), STATUS_OK);
    return words;
}

void command_write_ids(const char *path, const uint32_t *ids, size_t count, int times) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (size_t i = 0; i < count * (size_t)times; i++) {
        uint16_t id = (uint16_t)ids[i % count];
        assert_int_equal(fwrite(&id, 2, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

uint64_t command_asked(const char *line, const char *path) {
    json_document d = command_json(line);
    uint64_t number = command_number(&d, path);
    json_close(&d);
    return number;
}

uint64_t command_least_budget(const char *line) {
    json_document d;
    command_result r = command_run(line);
    if (json_parse("plan", r.out, strlen(r.out), &d) != STATUS_OK)
        fail_msg("%s: %s", status_message(), r.out);
    uint64_t least = command_number(&d, "least_budget_bytes");
    json_close(&d);
    command_free(&r);
    return least;
}

void command_shell(const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (system(line) != 0) fail_msg("%s", line);
}

void command_allow_mpirun(void) {
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here)) fail_msg("no working directory");
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_orte_tmpdir_base", here, 1); /* Open MPI 4 */
    setenv("PRTE_MCA_prte_tmpdir_base", here, 1); /* 5 */
}

void command_make_files(void) {
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, "
                                 "\"n_positions\": 32, \"vocab_size\": 256}\n";
    static const char deep[] = "{\"model_type\": \"gpt2\", \"n_layer\": 96, \"n_head\": 2, \"n_embd\": 8, "
                               "\"n_positions\": 32, \"vocab_size\": 256}\n";
    static const char *const words[] = {
        "the ", "letter ", "of ",   "law ",   "and ", "every ", "night ",
        "a ",   "small ",  "lamp ", "burns ", "in ",  "her ",   "window.\n"
    };
    static char data[60000];
    size_t length = 0;
    uint64_t state = 7;
    mkdir("tiny", 0700);
    scratch_write("tiny/config.json", config, sizeof config - 1);
    mkdir("deep", 0700);
    scratch_write("deep/config.json", deep, sizeof deep - 1);
    while (length + 16 < sizeof data) {
        const char *word = words[scratch_random(&state) % (sizeof words / sizeof *words)];
        memcpy(data + length, word, strlen(word));
        length += strlen(word);
    }
    scratch_write("text", data, length);
}
