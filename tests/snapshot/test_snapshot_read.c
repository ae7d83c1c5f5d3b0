/* Snapshots of every schema and protocol, against what their writer counted; cut, damaged and endless ones;
 * and what reading takes. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "io/scratch.h"
#include "sanitized.h"
#include "snapshot/alive.h"
#include "snapshot/times.h"
#include "snapshot/writer.h"

static writer_options any(uint64_t *seed) {
    return (writer_options){ .seed = scratch_random(seed),
                             .events = scratch_random(seed) % 4000,
                             .frames = scratch_random(seed) % 12,
                             .stacks = 1 + scratch_random(seed) % 300,
                             .before = scratch_random(seed) % 20,
                             .most = 40 + scratch_random(seed) % 200,
                             .protocol = 2 + (int)(scratch_random(seed) % 4),
                             .devices = 1 + (int)(scratch_random(seed) % 3),
                             .history = scratch_random(seed) % 4 == 0,
                             .no_times = scratch_random(seed) % 4 == 0,
                             .more_keys = scratch_random(seed) % 2,
                             .one_batch = scratch_random(seed) % 3 == 0,
                             .early_lists = scratch_random(seed) % 2,
                             .python = scratch_random(seed) % 5 == 0 };
}

static void expect(const snapshot *s, const writer_options *o, const writer_truth *truth) {
    assert_int_equal(s->trace_count, o->devices);
    for (uint32_t i = 0; i < s->trace_count; i++) {
        const snapshot_trace *t = &s->traces[i];
        const writer_truth *x = &truth[t->device];
        alive a;
        assert_int_equal(t->events, x->events);
        assert_int_equal(alive_peak(t), x->peak);
        assert_int_equal(t->top_at, x->peak_at);
        assert_int_equal(alive_end(t), x->end);
        assert_int_equal(t->base, x->before);
        assert_int_equal(t->replaced + t->unlike + t->backwards, 0);
        assert_int_equal(alive_at(t, t->top_at, &a), STATUS_OK);
        assert_int_equal(a.bytes, x->peak);
        alive_close(&a);
        if (x->peak_at) assert_int_equal(times_of(t, t->top_at), x->peak_time);
    }
}

static void every_schema_and_protocol_says_what_its_writer_counted(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < (SANITIZED ? 40 : 300); i++) {
        writer_options o = any(&seed);
        writer_truth truth[4];
        snapshot s;
        writer_write("x.pickle", &o, truth);
        if (snapshot_open("x.pickle", &s) != STATUS_OK) fail_msg("case %d: %s", i, status_message());
        expect(&s, &o, truth);
        snapshot_close(&s);
    }
}

/* All stacks that were written come back, each once: frames of one stack are the same however it was told. */
static void stacks_are_told_once(void **state) {
    (void)state;
    writer_options o = {
        .seed = 3, .events = 6000, .frames = 9, .stacks = 50, .most = 100, .protocol = 4, .devices = 1
    };
    writer_truth truth[1];
    snapshot s;
    for (int python = 0; python < 2; python++) {
        o.python = python;
        writer_write("x.pickle", &o, truth);
        assert_int_equal(snapshot_open("x.pickle", &s), STATUS_OK);
        assert_int_equal(snapshot_count(&s.stacks.all), 50);
        for (uint32_t i = 1; i <= 50; i++) assert_int_equal(stacks_depth(&s.stacks, i), 9);
        const stacks_frame *f = stacks_at(&s.stacks, 1, 0);
        assert_int_equal(strncmp(pickle_texts_at(&s.texts, f->name), "function_", 9), 0);
        snapshot_close(&s);
    }
}

static void segments_alone_are_the_peak(void **state) {
    (void)state;
    writer_options o = { .seed = 5,
                         .events = 500,
                         .frames = 3,
                         .stacks = 20,
                         .most = 100,
                         .protocol = 4,
                         .devices = 2,
                         .bare = true };
    writer_truth truth[2];
    snapshot s;
    writer_write("x.pickle", &o, truth);
    assert_int_equal(snapshot_open("x.pickle", &s), STATUS_OK);
    assert_int_equal(s.trace_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(alive_peak(&s.traces[i]), truth[s.traces[i].device].end);
        assert_int_equal(s.traces[i].events, 0);
    }
    snapshot_close(&s);
}

/* ---- damage ---- */

static uint8_t *slurp(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void cut_anywhere_it_is_refused_with_the_place(void **state) {
    (void)state;
    writer_options o = { .seed = 5,
                         .events = 12,
                         .frames = 2,
                         .stacks = 3,
                         .before = 2,
                         .most = 5,
                         .protocol = 4,
                         .devices = 1,
                         .more_keys = true };
    writer_truth truth[1];
    size_t size;
    snapshot s;
    writer_write("x.pickle", &o, truth);
    uint8_t *bytes = slurp("x.pickle", &size);
    for (size_t i = 0; i < size; i++) {
        char place[64];
        scratch_write("cut.pickle", bytes, i);
        assert_int_equal(snapshot_open("cut.pickle", &s), STATUS_INVALID);
        snprintf(place, sizeof place, "cut.pickle: byte %zu: ", i);
        assert_int_equal(strncmp(status_message(), place, strlen(place)), 0);
    }
    free(bytes);
}

/* What the events say against each other is counted, and the rest is still told. */
static void lost_events_are_counted(void **state) {
    (void)state;
    /* Two allocations at one address, 100 and 300 bytes, and a free of 7 that nobody saw begin; times fall.
     */
    static const char events[] =
        "\x80\x02}(X\x0d\0\0\0device_traces]](}(X\6\0\0\0actionX\5\0\0\0allocX\4\0\0\0addrK\1X\4\0\0\0size"
        "KdX\7\0\0\0time_usK\x09u}(X\6\0\0\0actionX\5\0\0\0allocX\4\0\0\0addrK\1X\4\0\0\0sizeM\x2c\1"
        "X\7\0\0\0time_usK\5u}(X\6\0\0\0actionX\x0e\0\0\0free_completedX\4\0\0\0addrK\2X\4\0\0\0sizeK\7uea"
        "X\x08\0\0\0segments]u.";
    snapshot s;
    scratch_write("lost.pickle", events, sizeof events - 1);
    if (snapshot_open("lost.pickle", &s) != STATUS_OK) fail_msg("%s", status_message());
    const snapshot_trace *t = &s.traces[0];
    assert_int_equal(t->replaced, 1);
    assert_int_equal(t->base, 7);
    assert_int_equal(alive_peak(t), 307);
    assert_int_equal(t->top_at, 2);
    assert_int_equal(alive_end(t), 300);
    assert_int_equal(t->backwards, 2);
    snapshot_close(&s);
}

/* ---- what reading takes ---- */

enum { MIB = 1 << 20 };

static long resident_of_reading(const char *path) {
    struct rusage used;
    int how;
    pid_t child = fork();
    if (child == 0) {
        snapshot s;
        _exit(snapshot_open(path, &s) == STATUS_OK ? 0 : 1);
    }
    assert_int_equal(wait4(child, &how, 0, &used), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    return used.ru_maxrss;
}

/* A list of frames that gets one after the other is another stack each time: a small file of much. */
static void what_would_take_more_than_the_file_is_refused(void **state) {
    (void)state;
    static const char begins[] = "\x80\2]", frame[] = "}(X\4\0\0\0nameX\1\0\0\0aX\x08\0\0\0filename"
                                                      "X\1\0\0\0bX\4\0\0\0lineM??ua";
    FILE *file = fopen("grows.pickle", "wb");
    assert_non_null(file);
    fwrite(begins, 1, sizeof begins - 1, file);
    for (int i = 0; i < 12000; i++) {
        char one[sizeof frame];
        memcpy(one, frame, sizeof frame);
        char *line = memchr(one, 'M', sizeof one);
        line[1] = (char)i, line[2] = (char)(i >> 8);
        fwrite(one, 1, sizeof frame - 1, file);
    }
    fclose(file);
    snapshot s;
    assert_int_equal(snapshot_open("grows.pickle", &s), STATUS_INVALID);
    if (!strstr(status_message(), "takes more memory than a snapshot's would"))
        fail_msg("%s", status_message());
}

/* Under a limit on address space tables are smaller than they would be: that is no fault of the file. */
static void a_limit_on_address_space_is_said(void **state) {
    (void)state;
    array a;
    uint32_t index;
    assert_int_equal(array_open(&a, 4, 3), STATUS_OK);
    assert_int_equal(snapshot_add(&a, &index), STATUS_OK);
    assert_int_equal(index, 0);
    assert_int_equal(snapshot_add(&a, &index), STATUS_OK);
    assert_int_equal(snapshot_add(&a, &index), STATUS_INVALID);
    a.wanted = 4;
    assert_int_equal(snapshot_add(&a, &index), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "ulimit -v"));
    array_close(&a);
}

static void reading_takes_a_tenth_of_the_file(void **state) {
    (void)state;
    if (SANITIZED) skip();
    writer_options o = {
        .seed = 9, .events = 2000000, .frames = 7, .stacks = 5000, .most = 4000, .protocol = 4, .devices = 1
    };
    writer_truth truth[1];
    struct stat about;
    writer_write("large.pickle", &o, truth);
    assert_int_equal(stat("large.pickle", &about), 0);
    assert_true(about.st_size > 100 * MIB);
    long taken = resident_of_reading("large.pickle") * 1024;
    if (taken > 96 * MIB + about.st_size / 10)
        fail_msg("%ld bytes for a file of %ld", taken, (long)about.st_size);
    remove("large.pickle");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schema_and_protocol_says_what_its_writer_counted),
        cmocka_unit_test(stacks_are_told_once),
        cmocka_unit_test(segments_alone_are_the_peak),
        cmocka_unit_test(cut_anywhere_it_is_refused_with_the_place),
        cmocka_unit_test(lost_events_are_counted),
        cmocka_unit_test(what_would_take_more_than_the_file_is_refused),
        cmocka_unit_test(a_limit_on_address_space_is_said),
        cmocka_unit_test(reading_takes_a_tenth_of_the_file),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
