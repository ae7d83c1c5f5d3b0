/* Pages of snapshot, estimate, compare and status in a real browser; what they say is what --json says. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "browser/browser_checks.h"
#include "browser/page_checks.h"
#include "cli/command.h"
#include "io/scratch.h"

#define RECORDED SNUG_ROOT "/bench/snapshots/"
#define OF_CPU SNUG_ROOT "/tests/snapshot/recorded/"

static browser *b;

static struct json_object *json_of(int code, const char *line) {
    command_result r = command_run(line);
    if (r.exit != code) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
    struct json_object *said = json_tokener_parse(r.out);
    command_free(&r);
    assert_non_null(said);
    return said;
}

static struct json_object *at_path(struct json_object *o, const char *path) {
    struct json_object *m = NULL;
    if (json_pointer_get(o, path, &m) != 0) fail_msg("there is no %s", path);
    return m;
}

static const char *text_of(const char *selector) {
    char expression[256];
    snprintf(expression, sizeof expression, "document.querySelector('%s').textContent", selector);
    return asked(b, expression);
}

/* A cell or a fact has 1,234,567, and not as a part of a longer number. */
static void expect_number(struct json_object *said, const char *path) {
    char expression[256];
    snprintf(expression, sizeof expression,
             "[...document.querySelectorAll('td,dd')].some(e=>new "
             "RegExp('(^|[^0-9,])'+(%lld).toLocaleString('en-US')+"
             "'($|[^0-9,])').test(e.textContent))",
             (long long)json_object_get_int64(at_path(said, path)));
    if (strcmp(asked(b, expression), "true") != 0) fail_msg("the page does not say %s", path);
}

static void recordings(void **state) {
    (void)state;
    static const struct {
        const char *file, *answer;
        bool thorough;
    } all[] = { { OF_CPU "leak.pickle.gz", "Memory grows by 128.0 KiB a step", true },
                { RECORDED "plain.pickle.gz", "Gradient checkpointing lowers the peak", false },
                { RECORDED "oom.pickle.gz", "Memory ran out when 8.0 MiB were asked for.", false } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char line[512];
        snprintf(line, sizeof line, "snapshot %s --json --html page.html", all[i].file);
        struct json_object *said = json_of(0, line);
        if (all[i].thorough) check_page(b, "page.html");
        check_page_soon(b, "page.html");
        assert_non_null(strstr(text_of("h1"), all[i].answer));
        struct json_object *data = page_data(b, 1);
        int64_t peak = json_object_get_int64(at_path(data, "/peak"));
        for (uint32_t k = 0; k < json_object_array_length(at_path(data, "/categories")); k++) {
            char path[128];
            const char *name =
                json_object_get_string(json_object_array_get_idx(at_path(data, "/categories"), k));
            if (strchr(name, ' ')) continue; /* what is reserved beside */
            snprintf(path, sizeof path, "/devices/0/peak/by_category/%s", name);
            assert_int_equal(page_bytes_at(data, peak, k), json_object_get_int64(at_path(said, path)));
        }
        json_object_put(data);
        expect_number(said, "/devices/0/peak/bytes");
        check_pointing(b, 1);
        check_quiet(b, "page.html");
        print_message("%s: ready in %.0f ms\n", all[i].file, 1000 * browser_ready_seconds(b));
        json_object_put(said);
    }
}

static void recordings_beside_each_other(void **state) {
    (void)state;
    struct json_object *said = json_of(0, "snapshot " RECORDED "plain.pickle.gz " RECORDED
                                          "checkpointing.pickle.gz --json --html page.html");
    check_page_soon(b, "page.html");
    expect_number(said, "/files/0/devices/0/peak/bytes");
    expect_number(said, "/files/1/devices/0/peak/bytes");
    check_pointing(b, 2);
    json_object_put(said);
}

static void names_of_strangers_change_nothing(void **state) {
    (void)state;
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) skip();
    command_shell("python3 '%s/tests/snapshot/pages.py' hostile hostile.pickle", SNUG_ROOT);
    command_expect(0, "snapshot hostile.pickle --html page.html");
    check_page_soon(b, "page.html");
    assert_string_equal(asked(b, "document.querySelectorAll('img,[onload]').length"), "0");
    assert_non_null(strstr(text_of("main"), "</script><script>alert(1)</script>"));
}

static void estimates(void **state) {
    (void)state;
    struct json_object *said =
        json_of(0, "estimate gpt2 --batch 8 --context 1024 --gpu rtx4090 --json --html page.html");
    check_page(b, "page.html");
    check_page_soon(b, "page.html");
    assert_non_null(strstr(text_of("h1"), "gpt2 fits NVIDIA GeForce RTX 4090"));
    static const char *const layers[] = { "live", "reserved", "device" }, *const ends[] = { "low", "likely",
                                                                                            "high" };
    for (int i = 0; i < 9; i++) {
        char path[64];
        snprintf(path, sizeof path, "/%s_bytes/%s", layers[i / 3], ends[i % 3]);
        expect_number(said, path);
    }
    check_pointing(b, 3);
    json_object_put(said);
    json_object_put(
        json_of(3, "estimate llama-3-8b --batch 1 --context 2048 --gpu h100-80 --json --html page.html"));
    check_page_soon(b, "page.html");
    assert_non_null(strstr(text_of("h1.no"), "--gpus 2 --shard fsdp makes it fit"));
}

static void comparisons(void **state) {
    (void)state;
    struct json_object *said = json_of(0, "compare tiny --batch 4 --json --html page.html");
    check_page(b, "page.html");
    check_page_soon(b, "page.html");
    expect_number(said, "/rows/0/planned/peak_bytes");
    json_object_put(said);
}

static void runs(void **state) {
    (void)state;
    command_expect(0, "train tiny --data text --out run --steps 6 --eval-every 3 --threads 1 --quiet");
    command_expect(0, "status run --html page.html");
    check_page(b, "page.html");
    check_page_soon(b, "page.html");
    assert_non_null(strstr(text_of("h1"), "The run is finished: 6 steps"));
}

static int open_all(void **state) {
    if (browser_tests_open(state, &b) != 0) return -1;
    command_make_files();
    return 0;
}

static int close_all(void **state) { return browser_tests_close(state, b); }

int main(void) {
    if (!browser_can_be_tested()) return browser_needed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings),
        cmocka_unit_test(recordings_beside_each_other),
        cmocka_unit_test(names_of_strangers_change_nothing),
        cmocka_unit_test(estimates),
        cmocka_unit_test(comparisons),
        cmocka_unit_test(runs),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
