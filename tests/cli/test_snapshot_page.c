/* snug snapshot --html: what the page shows is what --json says, to the byte; it stays small however large
 * the recording; names stay text. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/pages.h"
#include "io/file.h"
#include "io/scratch.h"

#define RECORDED SNUG_ROOT "/bench/snapshots/"
#define OF_PROFILER SNUG_ROOT "/tests/fuzz/corpus/trace/"
#define OF_CPU SNUG_ROOT "/tests/snapshot/recorded/"

enum { LARGEST = 4000000 }; /* of a page */

static const char *const categories[] = { "weights",     "gradients",   "optimizer",
                                          "activations", "temporaries", "workspaces",
                                          "inputs",      "before",      "unknown" };
enum { CATEGORIES = sizeof categories / sizeof *categories };

static json_document page_json(const char *file, const char *more) {
    char line[512];
    snprintf(line, sizeof line, "snapshot %s --html page.html --json %s", file, more);
    return command_json(line);
}

static json_document only_device(const json_document *d) {
    json_value devices;
    assert_int_equal(json_get(d->root, "devices", &devices), STATUS_OK);
    return (json_document){ .root = json_item(devices, 0) };
}

static uint64_t peak_of(const json_document *device, const char *category) {
    char path[64];
    snprintf(path, sizeof path, "peak.by_category.%s", category);
    return command_number(device, path);
}

static void check_bars(const char *page, const json_document *device) {
    json_document used = pages_chart(page, "By category, and what says so"), with;
    static const char *const changes[][2] = { { "gradient checkpointing", "checkpointing" },
                                              { "half the micro-batch", "half-batch" },
                                              { "a fused loss", "fused-loss" },
                                              { "a fused update", "fused-update" },
                                              { "state in 8 bits", "small-state" } };
    char path[96];
    for (int i = 0; i < CATEGORIES; i++)
        if (peak_of(device, categories[i]))
            assert_int_equal(pages_bar_value(&used, categories[i]), peak_of(device, categories[i]));
    json_close(&used);
    if (!strstr(page, ">The peak with each change<")) { /* there are no steps */
        assert_int_equal(command_number(device, "updates"), 0);
        return;
    }
    with = pages_chart(page, "The peak with each change");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        snprintf(path, sizeof path, "remedies.with.%s.peak_bytes", changes[i][1]);
        assert_int_equal(pages_bar_value(&with, changes[i][0]), command_number(device, path));
    }
    json_close(&with);
}

/* The peak's, in nanoseconds since the first event. */
static void check_time(const json_document *bands, uint64_t peak, const json_document *device) {
    json_value times;
    assert_int_equal(json_has(bands->root, "times"), json_has(device->root, "first_time_us"));
    if (json_find(bands->root, "times", &times))
        assert_int_equal(pages_number(times, peak), 1000 * (command_number(device, "peak.time_us") -
                                                            command_number(device, "first_time_us")));
}

/* At the moment of the peak: categories, and what is reserved. */
static void check_bands(const char *page, const json_document *device) {
    json_document bands = pages_chart(page, "Memory over the recording");
    uint64_t peak = command_number(&bands, "peak");
    json_value held;
    for (int i = 0; i < CATEGORIES; i++)
        assert_int_equal(pages_bytes_at(&bands, peak, categories[i]), peak_of(device, categories[i]));
    if (json_find(bands.root, "held", &held))
        assert_int_equal(pages_number(held, peak), command_number(device, "reserved.bytes"));
    else /* it is not known */
        assert_false(json_has(command_value(device, "reserved"), "bytes"));
    check_time(&bands, peak, device);
    json_close(&bands);
}

/* The JSON of large recordings is large as well. */
static json_document large_json(const char *file) {
    char *data;
    uint64_t bytes;
    json_document d;
    command_shell("'%s/snug' snapshot '%s' --html page.html --json --quiet >large.json", SNUG_BUILD, file);
    assert_int_equal(io_read_file("large.json", 1 << 30, &data, &bytes), STATUS_OK);
    assert_int_equal(json_parse_within("large.json", data, bytes, UINT64_C(1) << 34, &d), STATUS_OK);
    memory_free(data);
    return d;
}

static void check_recording(const char *file, bool large) {
    json_document d = large ? large_json(file) : page_json(file, ""), device = only_device(&d);
    char *page = pages_read("page.html", LARGEST);
    pages_check_markup(page);
    check_bands(page, &device);
    check_bars(page, &device);
    memory_free(page);
    json_close(&d);
}

static void pages_say_what_json_says(void **state) {
    (void)state;
    static const char *const files[] = { RECORDED "plain.pickle.gz",   RECORDED "oom.pickle.gz",
                                         RECORDED "lora.pickle.gz",    RECORDED "fsdp.pickle.gz",
                                         RECORDED "trainer.pickle.gz", OF_CPU "first.pickle.gz",
                                         OF_CPU "leak.pickle.gz",      OF_CPU "checkpointing.pickle.gz" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) check_recording(files[i], false);
}

/* Every moment's bytes, beside what --at says of its event. */
static void every_moment_is_exact(void **state) {
    (void)state;
    json_document d = page_json(RECORDED "plain.pickle.gz", "");
    char *page = pages_read("page.html", LARGEST);
    json_document bands = pages_chart(page, "Memory over the recording");
    json_value moments, words, held;
    size_t count;
    assert_int_equal(json_get(bands.root, "moments", &moments), STATUS_OK);
    assert_int_equal(json_get(bands.root, "words", &words), STATUS_OK);
    assert_int_equal(json_get(bands.root, "held", &held), STATUS_OK);
    assert_int_equal(json_as_array(moments, &count), STATUS_OK);
    for (size_t m = 0; m < count; m += 97) {
        const char *event;
        char line[256];
        assert_int_equal(json_as_string(json_item(words, pages_number(json_item(moments, m), 0)), &event),
                         STATUS_OK);
        snprintf(line, sizeof line, "snapshot " RECORDED "plain.pickle.gz --json --at %d",
                 atoi(event + strlen("event ")));
        json_document at = command_json(line), device = only_device(&at);
        for (int i = 0; i < CATEGORIES; i++)
            assert_int_equal(pages_bytes_at(&bands, m, categories[i]), peak_of(&device, categories[i]));
        assert_int_equal(pages_number(held, m), command_number(&device, "reserved.bytes"));
        json_close(&at);
    }
    json_close(&bands);
    memory_free(page);
    json_close(&d);
}

static void changes_of_settings_are_those_of_json(void **state) {
    (void)state;
    json_document d = page_json(OF_CPU "plain.pickle.gz", "--for gpt2 --memory 1GiB"),
                  device = only_device(&d);
    char *page = pages_read("page.html", LARGEST);
    json_document with = pages_chart(page, "The peak with changes of settings, by estimate");
    json_value all = command_value(&device, "for.changes");
    size_t count;
    assert_int_equal(json_as_array(all, &count), STATUS_OK);
    assert_true(count > 1);
    for (size_t i = 0; i < count; i++) {
        json_document one = { .root = json_item(all, i) };
        assert_int_equal(pages_bar_value(&with, command_string(&one, "change")),
                         command_number(&one, "peak_bytes"));
    }
    json_close(&with);
    memory_free(page);
    json_close(&d);
}

static void several_stand_beside_each_other(void **state) {
    (void)state;
    json_document d = page_json(RECORDED "plain.pickle.gz", RECORDED "checkpointing.pickle.gz");
    char *page = pages_read("page.html", LARGEST);
    json_document rows = pages_chart(page, "The peaks beside each other");
    json_value files, devices;
    static const char *const names[] = { "plain.pickle.gz", "checkpointing.pickle.gz" };
    assert_int_equal(json_get(d.root, "files", &files), STATUS_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(json_get(json_item(files, i), "devices", &devices), STATUS_OK);
        json_document device = { .root = json_item(devices, 0) };
        json_value marks;
        assert_int_equal(pages_bar_value(&rows, names[i]), command_number(&device, "peak.bytes"));
        assert_int_equal(json_get(pages_bar(&rows, names[i]), "marks", &marks), STATUS_OK);
        assert_int_equal(pages_number(marks, 0), command_number(&device, "reserved.bytes"));
    }
    assert_non_null(strstr(page, "checkpointing.pickle.gz: what would help"));
    json_close(&rows);
    memory_free(page);
    json_close(&d);
}

/* The first sentence says what to change and what that brings. */
static void the_answer_stands_first(void **state) {
    (void)state;
    static const struct {
        const char *file, *says;
    } answers[] = {
        { OF_CPU "plain.pickle.gz", "Gradient checkpointing lowers the peak from " },
        { OF_CPU "leak.pickle.gz",
          "Memory grows by 128.0 KiB a step: let go of what record_cpu_snapshots.py:" },
        { RECORDED "oom.pickle.gz",
          "Memory ran out when 8.0 MiB were asked for. Half the micro-batch lowers " },
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        json_document d = page_json(answers[i].file, "");
        char *page = pages_read("page.html", LARGEST), heading[256];
        snprintf(heading, sizeof heading, "<h1>%s", answers[i].says);
        if (!strstr(page, heading)) fail_msg("'%s' is not the answer", answers[i].says);
        memory_free(page);
        json_close(&d);
    }
}

/* A trace does not tell what the device had free: that is not 0 bytes. */
static void what_is_not_told_is_not_said(void **state) {
    (void)state;
    static const char trace[] =
        "{\"traceEvents\": ["
        "{\"name\": \"[memory]\", \"ts\": 1, \"args\": {\"Addr\": 64, \"Bytes\": 4096, \"Device Id\": 0, "
        "\"Device Type\": 1%s}},"
        "{\"name\": \"[OutOfMemory]\", \"ts\": 2, \"args\": {\"Bytes\": 8192, \"Device Id\": 0, "
        "\"Device Type\": 1}}]}";
    for (int told = 0; told < 2; told++) {
        FILE *f = fopen("ran_out.json", "w");
        assert_non_null(f);
        fprintf(f, trace, told ? ", \"Total Reserved\": 2097152" : "");
        assert_int_equal(fclose(f), 0);
        json_document d = page_json("ran_out.json", ""), device = only_device(&d);
        json_value ran_out = command_value(&device, "out_of_memory");
        json_document one = { .root = json_item(ran_out, 0) };
        assert_int_equal(command_number(&one, "asked_bytes"), 8192);
        assert_true(json_says(one.root, "device_free_bytes") && !json_has(one.root, "device_free_bytes"));
        char *page = pages_read("page.html", LARGEST);
        assert_non_null(strstr(page, "PyTorch had 4.0 KiB (4,096) in use"));
        assert_null(strstr(page, "the device had"));
        memory_free(page);
        json_close(&d);
        command_result r = command_run("snapshot ran_out.json");
        assert_null(strstr(r.out, "device had"));
        command_free(&r);
        assert_true(command_says("snapshot ran_out.json", 0,
                                 told ? "in which pieces is not told.\n" : "had reserved is not known.\n"));
    }
}

static void names_stay_text(void **state) {
    (void)state;
    char *page;
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) skip();
    command_shell("python3 '%s/tests/snapshot/pages.py' hostile hostile.pickle", SNUG_ROOT);
    json_document d = page_json("hostile.pickle", "");
    page = pages_read("page.html", LARGEST);
    pages_check_markup(page);
    assert_non_null(strstr(page, "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"));
    memory_free(page);
    json_close(&d);
    d = page_json("hostile.pickle", "--anonymous");
    page = pages_read("page.html", LARGEST);
    assert_null(strstr(page, "alert(1)"));
    assert_null(strstr(page, "secret"));
    assert_null(strstr(page, "hostile"));
    memory_free(page);
    json_close(&d);
}

/* 90,000 events, each with a name of its own that is as long as it can be. */
static void large_recordings_have_small_pages(void **state) {
    (void)state;
    if (system("python3 -c 'import pickle' 2>/dev/null") != 0) skip();
    command_shell("python3 '%s/tests/snapshot/pages.py' large large.pickle", SNUG_ROOT);
    check_recording("large.pickle", true);
    char *page = pages_read("page.html", LARGEST);
    assert_non_null(strstr(page, "Left out are "));
    assert_non_null(strstr(page, "are gathered by category and block"));
    memory_free(page);
    unlink("large.pickle");
}

static void mistakes_are_found_early(void **state) {
    (void)state;
    assert_true(command_says("snapshot " RECORDED "plain.pickle.gz --html nowhere/page.html", 2, "nowhere"));
    command_shell("cp '" RECORDED "plain.pickle.gz' copy.gz");
    assert_true(command_says("snapshot copy.gz --html copy.gz", 2, "is the snapshot itself"));
    command_shell("cmp '" RECORDED "plain.pickle.gz' copy.gz");
    assert_true(command_says("snapshot --recipe hf --html page.html", 2, "give no --html with it"));
    unlink("page.html");
    command_expect(2, "snapshot nothing.pickle --html page.html");
    assert_int_not_equal(access("page.html", F_OK), 0);
    /* A disk that fills. */
    assert_int_not_equal(system("(ulimit -f 64; '" SNUG_BUILD "/snug' snapshot " RECORDED
                                "plain.pickle.gz --html page.html >said 2>&1; echo $? >code)"),
                         -1);
    command_shell("grep -qx 1 code && grep -q page.html said");
    assert_int_not_equal(access("page.html", F_OK), 0);
    assert_int_not_equal(access("page.html.partial", F_OK), 0);
    /* One of several that can't be read has its line. */
    command_expect(2, "snapshot copy.gz nothing.pickle --html page.html");
    char *page = pages_read("page.html", LARGEST);
    assert_non_null(strstr(page, "nothing.pickle"));
    memory_free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_say_what_json_says),
        cmocka_unit_test(every_moment_is_exact),
        cmocka_unit_test(changes_of_settings_are_those_of_json),
        cmocka_unit_test(several_stand_beside_each_other),
        cmocka_unit_test(the_answer_stands_first),
        cmocka_unit_test(what_is_not_told_is_not_said),
        cmocka_unit_test(names_stay_text),
        cmocka_unit_test(large_recordings_have_small_pages),
        cmocka_unit_test(mistakes_are_found_early),
    };
    return cmocka_run_group_tests_name("snapshot_page", tests, scratch_open, scratch_close);
}
