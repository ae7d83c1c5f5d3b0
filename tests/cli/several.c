#define _GNU_SOURCE
#include "cli/several.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "io/safetensors.h"
#include "io/scratch.h"

enum { LINE_BYTES = 4096 };

/* What is not over within this time, on a busy machine too, hangs: timeout ends mpirun, which ends the ranks.
 */
#define MOST_SECONDS "300"
#define MPIRUN "timeout -k 5 " MOST_SECONDS " mpirun --oversubscribe --bind-to none "

int several_open(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    command_allow_mpirun();
    setenv("SNUG_RATES", "built-in", 1);
    /* MPI keeps some memory to the end of a process, which is no finding of ours. */
    char asan[512];
    const char *before = getenv("ASAN_OPTIONS");
    snprintf(asan, sizeof asan, "%s%sdetect_leaks=0", before ? before : "", before ? ":" : "");
    setenv("ASAN_OPTIONS", asan, 1);
    return 0;
}

int several_close(void **state) { return scratch_close(state); }

bool several_left_out(void) {
    bool there =
        access(SNUG_BUILD "/snug-mpi.so", R_OK) == 0 && system("mpirun --version >/dev/null 2>&1") == 0;
    if (!there) print_message("no MPI: left out\n");
    return !there;
}

static int run(const char *whole) {
    int code = system(whole);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static int start(const char *whole) {
    enum { BY_TIMEOUT = 124 };
    double begun = clock_seconds();
    int code = run(whole);
    if (code == BY_TIMEOUT || clock_seconds() - begun > atoi(MOST_SECONDS))
        print_message("not over after " MOST_SECONDS " s, and ended: %s\n", whole);
    return code;
}

int several_start_as(const char *before, const char *after, int ranks, const char *line) {
    char whole[LINE_BYTES];
    snprintf(whole, sizeof whole, "%s " MPIRUN "%s -n %d " SNUG_BUILD "/snug %s >said 2>&1 </dev/null",
             before, after, ranks, line);
    return start(whole);
}

int several_start(int ranks, const char *line) { return several_start_as("", "", ranks, line); }

int several_start_whole(const char *what) {
    char whole[LINE_BYTES];
    snprintf(whole, sizeof whole, MPIRUN "%s >said 2>&1 </dev/null", what);
    return start(whole);
}

int several_start_each(int ranks, const char *const lines[]) {
    char whole[LINE_BYTES];
    size_t n = 0;
    for (int r = 0; r < ranks; r++)
        n += (size_t)snprintf(whole + n, sizeof whole - n, "%s-n 1 " SEVERAL_SNUG " %s", r ? " : " : "",
                              lines[r]);
    return several_start_whole(whole);
}

char *several_said(void) {
    static char all[16384];
    FILE *file = fopen("said", "r");
    size_t n = file ? fread(all, 1, sizeof all - 1, file) : 0;
    if (file) fclose(file);
    all[n] = 0;
    return all;
}

int several_times(const char *all, const char *words) {
    int count = 0;
    for (const char *at = all; (at = strstr(at, words)); at++) count++;
    return count;
}

static void one_sentence(int is, int code, const char *line, const char *words) {
    int lines = several_times(several_said(), "snug: ");
    if (is != code || lines != 1 || !command_has_words(several_said(), words))
        fail_msg("%s: exit %d, and %d sentences: %s", line, is, lines, several_said());
}

void several_refused(int ranks, const char *line, int code, const char *words) {
    one_sentence(several_start(ranks, line), code, line, words);
}

void several_refused_each(int ranks, const char *const lines[], int code, const char *words) {
    one_sentence(several_start_each(ranks, lines), code, lines[ranks - 1], words);
}

/* ---- the same run ---- */

static json_document report_of(const char *folder) {
    json_document d;
    char path[200];
    snprintf(path, sizeof path, "%s/run.json", folder);
    if (json_open(path, &d) != STATUS_OK) fail_msg("%s has no report: %s", folder, several_said());
    return d;
}

/* Number i of a list: of losses itself, of validations its loss. */
static double loss_of(json_value list, size_t i, bool validated) {
    double x = 0;
    status read = validated ? json_get_number(json_item(list, i), "loss", -1e300, 1e300, &x)
                            : json_as_number(json_item(list, i), -1e300, 1e300, &x);
    assert_int_equal(read, STATUS_OK);
    return x;
}

static void same_list(const json_document *one, const json_document *other, const char *name) {
    json_value a = command_value(one, name), b = command_value(other, name);
    bool validated = strcmp(name, "eval_losses") == 0;
    size_t count, others;
    assert_int_equal(json_as_array(a, &count), STATUS_OK);
    assert_int_equal(json_as_array(b, &others), STATUS_OK);
    assert_int_equal(count, others);
    for (size_t i = 0; i < count; i++) {
        double x = loss_of(a, i, validated), y = loss_of(b, i, validated);
        if (memcmp(&x, &y, sizeof x) != 0) fail_msg("%s: number %zu is %.17g, not %.17g", name, i, y, x);
    }
}

void several_same_losses(const char *a, const char *b) {
    json_document one = report_of(a), other = report_of(b);
    same_list(&one, &other, "losses");
    same_list(&one, &other, "eval_losses");
    json_close(&one);
    json_close(&other);
}

void several_kept_to_plans(const char *folder, int ranks) {
    json_document d = report_of(folder);
    assert_int_equal(command_number(&d, "world"), ranks);
    json_value rows = command_value(&d, "ranks");
    size_t count;
    assert_int_equal(json_as_array(rows, &count), STATUS_OK);
    assert_int_equal(count, ranks);
    int64_t planned = (int64_t)command_number(&d, "predicted.peak_bytes");
    for (size_t r = 0; r < count; r++) {
        int64_t predicted = 0, measured = 0;
        bool equal = false;
        json_value row = json_item(rows, r);
        assert_int_equal(json_get_integer(row, "predicted_bytes", 1, INT64_MAX, &predicted), STATUS_OK);
        assert_int_equal(json_get_integer(row, "measured_bytes", 1, INT64_MAX, &measured), STATUS_OK);
        assert_int_equal(json_get_bool(row, "equal", &equal), STATUS_OK);
        if (!equal) fail_msg("%s: bytes of rank %zu are not as planned", folder, r);
        assert_int_equal(predicted, planned);
        if (measured > predicted)
            fail_msg("%s: rank %zu has taken %lld bytes, and %lld were planned", folder, r,
                     (long long)measured, (long long)predicted);
    }
    json_close(&d);
}

void several_all_gone(const char *folder, double seconds) {
    char line[400];
    double begun = clock_seconds();
    snprintf(line, sizeof line, "[ -n \"" SEVERAL_TRAINING("%s") "\" ]", folder);
    while (run(line) == 0) {
        if (clock_seconds() - begun > seconds) fail_msg("%s: some are there after %.0f s", folder, seconds);
        usleep(100000);
    }
}

/* ---- tensors ---- */

static void open_set(const char *folder, const char *path, safetensors *s) {
    char whole[300];
    snprintf(whole, sizeof whole, "%s/%s", folder, path);
    if (safetensors_open(whole, s) != STATUS_OK) fail_msg("%s", status_message());
}

static char *bytes_of(const safetensors *s, const safetensors_entry *e) {
    char *bytes = malloc(e->bytes);
    assert_int_equal(safetensors_read_bytes(s, e, 0, bytes, e->bytes), STATUS_OK);
    return bytes;
}

void several_same_tensors(const char *one, const char *other, const char *path, const char *path_of_other) {
    safetensors a, b;
    open_set(one, path, &a);
    open_set(other, path_of_other, &b);
    assert_int_equal(a.count, b.count);
    for (uint32_t i = 0; i < a.count; i++) {
        const safetensors_entry *x = &a.entries[i], *y = safetensors_find(&b, x->name);
        if (!y || strcmp(x->dtype, y->dtype) != 0 || x->bytes != y->bytes || x->rank != y->rank)
            fail_msg("%s/%s: '%s' is another tensor", other, path_of_other, x->name);
        char *is = bytes_of(&a, x), *was = bytes_of(&b, y);
        if (memcmp(is, was, x->bytes) != 0) fail_msg("%s: '%s' has other bits", other, x->name);
        free(is);
        free(was);
    }
    safetensors_close(&a);
    safetensors_close(&b);
}
