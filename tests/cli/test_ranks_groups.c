/* What `auto` takes of groups follows from the links, with nobody there: none where hosts reach each other
 * fast, a host's ranks where they don't, and those of two hosts where a copy on each is too much memory. */
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
#include "sanitized.h"

enum { LINE = 400 };

#define OF                                                                                                   \
    "plan char-gpt --context 64 --unit 1 --threads 1 --rates built-in --json --quiet --cluster site.yaml "

/* Four hosts, or two of them. */
static void write_links(const char *links) {
    char yaml[600];
    snprintf(yaml, sizeof yaml,
             "nodes: [n]\ndevices: [a100-80]\ngpus: [4]\ncores: [16]\nmemory: [64GiB]\ncount: [4]\n%s",
             links);
    scratch_write("site.yaml", yaml, strlen(yaml));
}

/* The setting that is taken, and the seconds of its step. */
static const char *taken(const char *links, const char *options, double *seconds) {
    static char setting[128];
    char line[LINE];
    write_links(links);
    snprintf(line, sizeof line, OF "%s", options);
    command_result r = command_run(line);
    if (r.exit) fail_msg("%s: %s", line, r.err);
    json_document d;
    assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
    assert_int_equal(json_as_number(command_value(&d, "predicted.step_seconds"), 0, 1e300, seconds),
                     STATUS_OK);
    json_close(&d);
    const char *at = strstr(r.out, "\"name\": \"sharding\""),
               *set = at ? strstr(at, "\"setting\": \"") : NULL;
    if (!set) fail_msg("%s: no sharding: %s", line, r.out);
    snprintf(setting, sizeof setting, "%.*s", (int)strcspn(set + 12, "\""), set + 12);
    command_free(&r);
    return setting;
}

static void takes(const char *links, const char *options, const char *group) {
    double seconds;
    const char *setting = taken(links, options, &seconds), *at = strstr(setting, ":group=");
    if (strcmp(at ? at : "", group) != 0) fail_msg("%s %s: %s, not %s", links, options, setting, group);
}

static void links_choose_groups(void **state) {
    (void)state;
    if (SANITIZED) skip(); /* whole searches */
    static const char fast[] =
        "within: [300e9]\nbetween: [300e9]\nlatency_within: [2e-6]\nlatency_between: [2e-6]\n",
                      slow_between[] = "within: [300e9]\nbetween: [1e8]\n",
                      slow_within[] = "within: [1e9]\nbetween: [300e9]\n";
    takes(fast, "--device cpu --batch 8 --ranks 8x4", "");
    takes(fast, "--gpu a100-80 --batch 8 --ranks 8x4", "");
    takes(slow_between, "--device cpu --batch 8 --ranks 8x4", ":group=4");
    takes(slow_between, "--gpu a100-80 --batch 8 --ranks 8x4", ":group=4");
    takes(slow_within, "--gpu a100-80 --batch 8 --ranks 8x4", "");
}

static unsigned long long least(const char *sharding) {
    char line[LINE];
    snprintf(line, sizeof line, OF "--device cpu --batch 16 --ranks 16x4 --sharding %s", sharding);
    return command_least_budget(line);
}

/* A copy on each host does not fit, and one on each two does. Without a budget, a copy on each. */
static void two_hosts_are_a_group_where_one_has_no_room(void **state) {
    (void)state;
    if (SANITIZED) skip();
    static const char slow[] = "between: [1e8]\n";
    char line[LINE];
    write_links(slow);
    unsigned long long of_two = least("weights:group=8"), of_one = least("weights:group=4:ahead=0"),
                       of_none = least("weights:ahead=0");
    if (of_none >= of_two || of_two >= of_one) fail_msg("%llu, %llu, %llu", of_none, of_two, of_one);
    takes(slow, "--device cpu --batch 16 --ranks 16x4", ":group=4");
    snprintf(line, sizeof line, "--device cpu --batch 16 --ranks 16x4 --memory %llu", of_one - 1);
    takes(slow, line, ":group=8");
    snprintf(line, sizeof line, "--device cpu --batch 16 --ranks 16x4 --memory %llu", of_two - 1);
    takes(slow, line, "");
}

/* What is taken is predicted to be the fastest of what could be. */
static void a_group_is_taken_where_it_is_faster(void **state) {
    static const char *const links[] = { "between: [1e8]\n", "between: [1.25e9]\n",
                                         "between: [300e9]\nlatency_between: [2e-6]\n" };
    static const char *const settings[] = { "gradients", "gradients:group=4", "weights", "weights:group=4",
                                            "weights:group=2" };
    (void)state;
    if (SANITIZED) skip();
    for (int i = 0; i < 3; i++) {
        double chosen, other;
        char line[LINE], setting[128];
        snprintf(setting, sizeof setting, "%s",
                 taken(links[i], "--device cpu --batch 8 --ranks 8x4", &chosen));
        for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
            snprintf(line, sizeof line, "--device cpu --batch 8 --ranks 8x4 --sharding %s", settings[k]);
            taken(links[i], line, &other);
            if (other < chosen * 0.999)
                fail_msg("%s: %s takes %g s, and %s %g s", links[i], setting, chosen, settings[k], other);
        }
    }
}

/* Each small tensor and each sum that is told waits for the way through all groups, or all of them once. */
static void many_groups_are_told_late(void **state) {
    static const char of[] = "--device cpu --batch 64 --ranks 64x4 --sharding ";
    double at_once, late;
    char line[LINE];
    (void)state;
    snprintf(line, sizeof line, "%sweights:group=4", of);
    taken("between: [1e8]\n", line, &at_once);
    snprintf(line, sizeof line, "%sweights:late=1:group=4", of);
    taken("between: [1e8]\n", line, &late);
    if (late > 0.9 * at_once) fail_msg("%.3f s told late, and %.3f s at once", late, at_once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_choose_groups),
        cmocka_unit_test(two_hosts_are_a_group_where_one_has_no_room),
        cmocka_unit_test(a_group_is_taken_where_it_is_faster),
        cmocka_unit_test(many_groups_are_told_late),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
