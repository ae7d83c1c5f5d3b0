/* What PyTorch was seen to take of an H100 (bench/estimate/points_gpu.csv), beside what is estimated. Rules
 * were made from these points: this holds them to it, and says nothing of others. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"

#define BENCH SNUG_ROOT "/bench/estimate/"

typedef struct {
    char model[96], options[400];
    uint64_t requested, whole;
} point;

/* The next field of a line, with or without quotes. */
static char *field(char **at) {
    char *begin = *at, end = ',';
    if (*begin == '"') begin++, end = '"';
    char *close = strchr(begin, end);
    if (!close) close = begin + strcspn(begin, "\n");
    *at = close + (*close != 0);
    if (end == '"' && **at == ',') ++*at;
    *close = 0;
    return begin;
}

/* Lines of one point stand one behind the other; false: there are none left. */
static bool next_point(FILE *file, point *p) {
    char line[1024];
    *p = (point){ 0 };
    for (long begin; begin = ftell(file), fgets(line, sizeof line, file);) {
        char *at = line, *model = field(&at), *options = field(&at), *beside = field(&at),
             *layer = field(&at);
        uint64_t bytes = strtoull(field(&at), NULL, 10);
        bool other = p->model[0] && (strcmp(model, p->model) != 0 || strcmp(options, p->options) != 0);
        if (other) return fseek(file, begin, SEEK_SET) == 0;
        if (*beside) continue;
        snprintf(p->model, sizeof p->model, "%.90s", model);
        snprintf(p->options, sizeof p->options, "%.390s", options);
        if (strncmp(layer, "requested", 9) == 0) p->requested = bytes;
        if (strcmp(layer, "whole") == 0) p->whole = bytes;
    }
    return p->model[0] != 0;
}

static void estimates_are_what_was_seen(void **state) {
    (void)state;
    FILE *file = fopen(BENCH "points_gpu.csv", "r");
    char head[256];
    point p;
    int compared = 0;
    assert_non_null(file);
    assert_non_null(fgets(head, sizeof head, file));
    while (next_point(file, &p)) {
        char line[1024];
        json_document d;
        bool here = strncmp(p.model, "models/", 7) == 0;
        snprintf(line, sizeof line, "estimate %s%s %s --json --quiet", here ? BENCH : "", p.model, p.options);
        command_result r = command_run(line);
        if (r.exit != 0 || json_parse("estimate", r.out, strlen(r.out), &d) != STATUS_OK)
            fail_msg("%s: exit %d: %s", line, r.exit, r.err);
        double live = (double)command_number(&d, "live_bytes.likely") / (double)p.requested,
               whole = (double)command_number(&d, "device_bytes.likely") / (double)p.whole;
        bool inside = command_number(&d, "device_bytes.low") <= p.whole &&
                      p.whole <= command_number(&d, "device_bytes.high");
        if (live < 0.996 || live > 1.004 || whole < 0.9 || whole > 1.03 || !inside)
            fail_msg("%s: live %.4f, whole %.4f of what was measured", line, live, whole);
        json_close(&d);
        command_free(&r);
        compared++;
    }
    fclose(file);
    assert_true(compared > 120);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(estimates_are_what_was_seen) };
    return cmocka_run_group_tests_name("points of a GPU", tests, scratch_open, scratch_close);
}
