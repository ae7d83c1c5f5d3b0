/* Traces and memory timelines of PyTorch's profiler, against what their writers counted; cut and damaged
 * ones; and what reading takes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/scratch.h"
#include "sanitized.h"
#include "snapshot/alive.h"
#include "snapshot/gaps.h"
#include "snapshot/roles.h"
#include "snapshot/times.h"
#include "snapshot/trace_writer.h"

enum { MIB = 1 << 20 };

static trace_options any(uint64_t *seed) {
    return (trace_options){ .seed = scratch_random(seed),
                            .events = 1 + scratch_random(seed) % 3000,
                            .calls = scratch_random(seed) % 5,
                            .most = 20 + scratch_random(seed) % 300,
                            .devices = 1 + (int)(scratch_random(seed) % 3),
                            .list = scratch_random(seed) % 3 == 0,
                            .behind = scratch_random(seed) % 2,
                            .whole = scratch_random(seed) % 4 == 0,
                            .narrow = scratch_random(seed) % 2 };
}

static void expect(const snapshot *s, const trace_options *o, const writer_truth *truth) {
    assert_int_equal(s->form, SNAPSHOT_TRACE);
    for (uint32_t i = 0; i < s->trace_count; i++) {
        const snapshot_trace *t = &s->traces[i];
        const writer_truth *x = &truth[t->device + 1];
        alive a;
        assert_int_equal(t->type, t->device < 0 ? SNAPSHOT_CPU : 1);
        assert_int_equal(t->events, x->events);
        assert_int_equal(t->base, x->before);
        assert_int_equal(alive_peak(t), x->peak);
        assert_int_equal(t->top_at, x->peak_at);
        assert_int_equal(alive_end(t), x->end);
        assert_int_equal(t->replaced + t->unlike + t->backwards, 0);
        if (x->peak_at) assert_int_equal(times_of(t, t->top_at), x->peak_time);
        assert_int_equal(t->told, t->device >= 0); /* the CPU reserves nothing */
        assert_int_equal(t->reserved, t->device < 0 ? 0 : (x->end + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
        assert_int_equal(alive_at(t, t->top_at, &a), STATUS_OK);
        for (uint32_t k = 0; k < a.count; k++)
            if (a.pieces[k]->born) assert_int_equal(stacks_depth(&s->stacks, a.pieces[k]->stack), o->calls);
        alive_close(&a);
    }
}

static void traces_say_what_their_writer_counted(void **state) {
    (void)state;
    uint64_t seed = 11;
    for (int i = 0; i < (SANITIZED ? 40 : 300); i++) {
        trace_options o = any(&seed);
        writer_truth truth[16];
        snapshot s;
        trace_write("any.json", &o, truth);
        if (snapshot_open("any.json", &s) != STATUS_OK) fail_msg("%d: %s", i, status_message());
        expect(&s, &o, truth);
        snapshot_close(&s);
    }
}

/* Lines are those that calls came from, and numbers of objects and places of memory are left out. */
static void frames_are_the_calls_that_enclose_an_allocation(void **state) {
    (void)state;
    static const char trace[] =
        "{\"traceEvents\": ["
        "{\"ph\":\"i\",\"name\":\"[memory]\",\"tid\":1,\"ts\":50,\"args\":{\"Addr\":64,\"Bytes\":100,"
        "\"Device Type\":0}},"
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"a.py(10): "
        "outer\",\"tid\":1,\"ts\":0,\"dur\":100,"
        "\"args\":{\"CallFrom\":\"b.py:3\"}},"
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: "
        "Linear_12\",\"tid\":1,\"ts\":10,\"dur\":80,"
        "\"args\":{\"CallFrom\":\"a.py:17\"}},"
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"<built-in method empty of T object at "
        "0x7f>\",\"tid\":1,"
        "\"ts\":30,\"dur\":40},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::empty\",\"tid\":1,\"ts\":40,\"dur\":10},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::over\",\"tid\":1,\"ts\":20,\"dur\":20},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::other_thread\",\"tid\":2,\"ts\":40,\"dur\":20},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#3\",\"tid\":1,\"ts\":1,\"dur\":90}"
        ","
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"said \\u00e4\",\"tid\":1,\"ts\":2,\"dur\":90},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"tid\":1,\"ts\":1,\"dur\":90}]}";
    static const char *const names[] = { "aten::empty", "<built-in method empty of T object>",
                                         "nn.Module: Linear", "said \xc3\xa4", "outer" };
    snapshot s;
    alive a;
    scratch_write("frames.json", trace, sizeof trace - 1);
    if (snapshot_open("frames.json", &s) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(alive_at(&s.traces[0], 1, &a), STATUS_OK);
    assert_int_equal(a.count, 1);
    uint32_t stack = a.pieces[0]->stack;
    assert_int_equal(stacks_depth(&s.stacks, stack), 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_string_equal(pickle_texts_at(&s.texts, stacks_at(&s.stacks, stack, i)->name), names[i]);
    assert_int_equal(stacks_at(&s.stacks, stack, 4)->line, 17);
    assert_string_equal(pickle_texts_at(&s.texts, stacks_at(&s.stacks, stack, 4)->file), "a.py");
    alive_close(&a);
    snapshot_close(&s);
}

/* An annotation begins within a call that ends before it does. */
static void calls_that_overlap_end_one_by_one(void **state) {
    (void)state;
    static const char trace[] =
        "[{\"name\":\"[memory]\",\"tid\":1,\"ts\":25,\"args\":{\"Addr\":64,\"Bytes\":100,\"Device Type\":0}},"
        "{\"name\":\"[memory]\",\"tid\":1,\"ts\":35,\"args\":{\"Addr\":128,\"Bytes\":100,\"Device Type\":0}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::first\",\"tid\":1,\"ts\":10,\"dur\":20},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::second\",\"tid\":1,\"ts\":20,\"dur\":20}]";
    static const uint32_t depths[] = { 2, 1 };
    snapshot s;
    alive a;
    scratch_write("overlap.json", trace, sizeof trace - 1);
    if (snapshot_open("overlap.json", &s) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(alive_at(&s.traces[0], 2, &a), STATUS_OK);
    assert_int_equal(a.count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t stack = a.pieces[i]->stack;
        assert_int_equal(stacks_depth(&s.stacks, stack), depths[i]);
        assert_string_equal(pickle_texts_at(&s.texts, stacks_at(&s.stacks, stack, 0)->name), "aten::second");
    }
    alive_close(&a);
    snapshot_close(&s);
}

/* Calls of any lengths, beside a list of those that go on; close together, so that many do. */
static void stacks_are_those_that_go_on(void **state) {
    (void)state;
    enum { CALLS = 2000 };
    static uint64_t ends[CALLS];
    uint64_t seed = 21;
    for (int round = 0; round < (SANITIZED ? 4 : 12); round++) {
        snapshot s;
        alive a;
        FILE *f = fopen("going.json", "w");
        assert_non_null(f);
        fprintf(f, "[");
        uint64_t longest = 10ull << (round % 6) * 2;
        for (uint64_t i = 0; i < CALLS; i++) {
            uint64_t lasts = 1 + scratch_random(&seed) % longest;
            ends[i] = 10 * i + lasts;
            fprintf(f,
                    "{\"cat\":\"cpu_op\",\"name\":\"n%d\",\"tid\":1,\"ts\":%d,\"dur\":%d},"
                    "{\"name\":\"[memory]\",\"tid\":1,\"ts\":%d,\"args\":{\"Addr\":%d,\"Bytes\":4}}%s",
                    (int)i, (int)(10 * i), (int)lasts, (int)(10 * i + 9), (int)(64 * (i + 1)),
                    i + 1 < CALLS ? "," : "]");
        }
        assert_int_equal(fclose(f), 0);
        if (snapshot_open("going.json", &s) != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(alive_at(&s.traces[0], CALLS, &a), STATUS_OK);
        assert_int_equal(a.count, CALLS);
        for (uint32_t k = 0; k < CALLS; k++) {
            const snapshot_piece *p = a.pieces[k];
            uint32_t depth = 0, most = stacks_depth(&s.stacks, p->stack);
            for (uint32_t i = p->born; i-- > 0 && depth < 512;) {
                char name[16];
                if (ends[i] < 10 * (p->born - 1) + 9) continue;
                snprintf(name, sizeof name, "n%u", i);
                assert_true(depth < most);
                assert_string_equal(pickle_texts_at(&s.texts, stacks_at(&s.stacks, p->stack, depth++)->name),
                                    name);
            }
            assert_int_equal(depth, most);
        }
        alive_close(&a);
        snapshot_close(&s);
    }
}

static void timelines_say_what_their_writer_counted(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < (SANITIZED ? 40 : 200); i++) {
        timeline_options o = { .seed = scratch_random(&seed),
                               .rows = 1 + scratch_random(&seed) % 2000,
                               .raw = scratch_random(&seed) % 2 };
        timeline_truth truth;
        snapshot s;
        alive a;
        timeline_write("any.timeline.json", &o, &truth);
        if (truth.peak == 0) continue;
        if (snapshot_open("any.timeline.json", &s) != STATUS_OK) fail_msg("%d: %s", i, status_message());
        const snapshot_trace *t = &s.traces[0];
        assert_int_equal(s.form, SNAPSHOT_TIMELINE);
        assert_int_equal(alive_peak(t), truth.peak);
        assert_int_equal(alive_end(t), truth.end);
        assert_int_equal(times_of(t, t->top_at), truth.peak_time);
        if (o.raw) assert_int_equal(t->events, o.rows);
        assert_int_equal(alive_at(t, t->top_at, &a), STATUS_OK);
        uint64_t by[9] = { 0 };
        for (uint32_t k = 0; k < a.count; k++) by[a.pieces[k]->stack] += a.pieces[k]->bytes;
        for (int k = 0; k < 8; k++) assert_int_equal(by[1 + k], truth.by_category[k]);
        alive_close(&a);
        snapshot_close(&s);
    }
}

/* ---- what is wrong ---- */

static void cut_anywhere_they_are_refused_with_the_place(void **state) {
    (void)state;
    static char bytes[1 << 20];
    trace_options o = { .seed = 3, .events = 6, .calls = 2, .most = 5, .devices = 2, .narrow = true };
    timeline_options lines = { .seed = 4, .rows = 9 };
    writer_truth truth[16];
    timeline_truth told;
    for (int form = 0; form < 3; form++) {
        snapshot s;
        lines.raw = form == 2;
        if (form == 0)
            trace_write("whole.json", &o, truth);
        else
            timeline_write("whole.json", &lines, &told);
        FILE *file = fopen("whole.json", "r");
        size_t count = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        assert_int_equal(snapshot_open("whole.json", &s), STATUS_OK);
        snapshot_close(&s);
        for (size_t cut = 2; cut + 2 < count; cut++) {
            scratch_write("cut.json", bytes, cut);
            assert_int_equal(snapshot_open("cut.json", &s), STATUS_INVALID);
            if (!strstr(status_message(), "cut.json: byte ")) fail_msg("%zu: %s", cut, status_message());
        }
    }
}

static const struct {
    const char *text, *said;
} wrong[] = {
    { "{}", "a trace without events '[memory]': record with torch.profiler.profile(profile_memory=True" },
    { "[]", "a trace without events '[memory]'" },
    { "[[], []]", "nothing is allocated in it" },
    { "[[1, 2, 3], [[0, 0, 0, 0, 0, 0, 0, 0, 0]]]", "there are more times than sizes" },
    { "[[1], [[0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0]]]",
      "there are more sizes than times" },
    { "[[1], [[0, 0, 0, 0]]]", "sizes of a memory timeline are nine numbers" },
    { "[[1, 2, 3, 4, 5], [1, 2, 3, 4]]", "neither [times, sizes] nor rows of four" },
    { "[[1, 9, 3, 4]]", "a number that no memory timeline has there" },
    { "[[1, 2, 3, 8]]", "a number that no memory timeline has there" },
    { "[[1, 2, 1e30, 0]]", "a number of more than 64 bits" },
    { "{\"traceEvents\": [{\"name\": \"[memory]\", \"ts\": 1, \"args\": {\"Bytes\": 4}}]}",
      "have no 'Addr'" },
    { "{\"traceEvents\": [{\"name\": \"[memory]\", \"ts\": 1, \"args\": {\"Addr\": 1, \"Bytes\": "
      "1099511627776}}]}",
      "more bytes than any device has" },
    { "{\"traceEvents\": [{\"name\": \"[memory]\", \"ts\": 1, \"args\": {\"Addr\": 1, \"Bytes\": 4}}]} x",
      "more follows behind the end" },
    { "{\"a\": [}", "brackets do not agree" },
    { "<html><img></html>", "export it to a name that ends in .raw.json.gz" },
    { "\n\4\10\1\20\2rest", "a profile of pprof, as JAX's save_device_memory_profile writes" },
};

static void what_is_none_gets_a_sentence(void **state) {
    (void)state;
    snapshot s;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scratch_write("wrong.json", wrong[i].text, strlen(wrong[i].text));
        assert_int_equal(snapshot_open("wrong.json", &s), STATUS_INVALID);
        if (!strstr(status_message(), wrong[i].said)) fail_msg("%zu: %s", i, status_message());
        if (strncmp(status_message(), "wrong.json: ", 12) != 0) fail_msg("%zu: %s", i, status_message());
    }
    char deep[200];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    scratch_write("wrong.json", deep, sizeof deep);
    assert_int_equal(snapshot_open("wrong.json", &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "nested deeper than a trace"));
}

/* Strings that are longer than what is read at once, and end in escapes where pieces meet. */
static void long_strings_are_passed_over(void **state) {
    (void)state;
    size_t count = 3 * MIB;
    char *bytes = malloc(count + 300);
    for (size_t shift = 0; shift < 4; shift++) {
        snapshot s;
        size_t at = (size_t)sprintf(bytes, "{\"skipped\": %*s\"", (int)shift, "");
        memset(bytes + at, '\\', count);
        at += count;
        at +=
            (size_t)sprintf(bytes + at, "\", \"traceEvents\": [{\"name\": \"[memory]\", \"ts\": 1, \"args\": "
                                        "{\"Addr\": 1, \"Bytes\": 4}}]}");
        scratch_write("long.json", bytes, at);
        if (snapshot_open("long.json", &s) != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(alive_peak(&s.traces[0]), 4);
        snapshot_close(&s);
    }
    free(bytes);
}

/* ---- what is held ---- */

/* Each allocation has a stack of its own, as deep as they are kept. */
static void write_deep(FILE *f) {
    for (int i = 0; i < 512; i++)
        fprintf(f, "{\"cat\":\"cpu_op\",\"name\":\"o%d\",\"tid\":1,\"ts\":0,\"dur\":100000000},", i);
    for (int i = 0; i < 50000; i++)
        fprintf(f,
                "{\"cat\":\"cpu_op\",\"name\":\"n%d\",\"tid\":1,\"ts\":%d,\"dur\":1},"
                "{\"name\":\"[memory]\",\"tid\":1,\"ts\":%d,\"args\":{\"Addr\":%d,\"Bytes\":4}},",
                i, 4 * i + 1, 4 * i + 1, 64 * (i + 1));
}

/* Each update is noted for each of many devices. */
static void write_updates(FILE *f) {
    for (int i = 0; i < 63; i++)
        fprintf(
            f,
            "{\"name\":\"[memory]\",\"tid\":1,\"ts\":1,\"args\":{\"Addr\":64,\"Bytes\":4,\"Device Type\":1,"
            "\"Device Id\":%d}},",
            i);
    for (int i = 0; i < 50000; i++)
        fprintf(f,
                "{\"cat\":\"user_annotation\",\"name\":\"Optimizer.step#A\",\"tid\":1,\"ts\":%d,\"dur\":1},",
                4 * i);
}

/* One event that gives its name again and again. */
static void write_names(FILE *f) {
    fprintf(f, "{\"x\":0");
    for (int i = 0; i < 11 * MIB; i++) fprintf(f, ",\"name\":\"%x\"", i);
    fprintf(f, "},");
}

/* However little of the file says that much is to be held. */
static void no_more_is_held_than_a_part_of_the_file(void **state) {
    (void)state;
    void (*const writes[])(FILE *) = { write_deep, write_updates, write_names };
    for (int i = 0; i < (SANITIZED ? 2 : 3); i++) {
        snapshot s;
        FILE *f = fopen("much.json", "w");
        assert_non_null(f);
        fprintf(f, "{\"traceEvents\": [");
        writes[i](f);
        fprintf(f, "{\"name\":\"[memory]\",\"tid\":1,\"ts\":999999,\"args\":{\"Addr\":1,\"Bytes\":4}}]}");
        assert_int_equal(fclose(f), 0);
        assert_int_equal(snapshot_open("much.json", &s), STATUS_INVALID);
        if (!strstr(status_message(), "takes more memory than a trace's would"))
            fail_msg("%d: %s", i, status_message());
    }
    remove("much.json");
}

static void reading_takes_a_tenth_of_the_file(void **state) {
    (void)state;
    if (SANITIZED) skip();
    trace_options o = { .seed = 9, .events = 200000, .calls = 3, .most = 2000, .devices = 1 };
    writer_truth truth[16];
    struct stat about;
    struct rusage used;
    int ended;
    trace_write("large.json", &o, truth);
    assert_int_equal(stat("large.json", &about), 0);
    assert_true(about.st_size > 200 * MIB);
    pid_t child = fork();
    if (child == 0) {
        snapshot s;
        bool read = snapshot_open("large.json", &s) == STATUS_OK;
        _exit(read && alive_peak(&s.traces[0]) == truth[0].peak ? 0 : 1);
    }
    assert_int_equal(wait4(child, &ended, 0, &used), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    if (used.ru_maxrss * 1024 > 96 * MIB + about.st_size / 10)
        fail_msg("%ld bytes for a file of %ld", used.ru_maxrss * 1024, (long)about.st_size);
    remove("large.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_say_what_their_writer_counted),
        cmocka_unit_test(frames_are_the_calls_that_enclose_an_allocation),
        cmocka_unit_test(calls_that_overlap_end_one_by_one),
        cmocka_unit_test(stacks_are_those_that_go_on),
        cmocka_unit_test(timelines_say_what_their_writer_counted),
        cmocka_unit_test(cut_anywhere_they_are_refused_with_the_place),
        cmocka_unit_test(what_is_none_gets_a_sentence),
        cmocka_unit_test(long_strings_are_passed_over),
        cmocka_unit_test(reading_takes_a_tenth_of_the_file),
        cmocka_unit_test(no_more_is_held_than_a_part_of_the_file),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
