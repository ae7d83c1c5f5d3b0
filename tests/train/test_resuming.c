/* Where a resumed run begins: the newest whole checkpoint of this run, in the folder that was named or in the
 * one that it has gone on in since. What else is there is refused or passed over, with a sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "exec/exec.h"
#include "io/file.h"
#include "io/scratch.h"
#include "run/weights.h"
#include "train/journal.h"
#include "train/resume.h"

enum { STEPS = 6 };

static struct {
    setup s;
    decision d;
    exec *e;
    identity run;
} small;

static int open_small(void **state) {
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 8}\n";
    setup_options o = setup_defaults();
    if (scratch_open(state) != 0) return -1;
    scratch_write("config.json", config, sizeof config - 1);
    o.model = "config.json", o.keep = 9, o.batch = 1, o.threads = 1, o.steps = STEPS;
    if (setup_open(&o, NULL, &small.s) != STATUS_OK || decision_make(&small.s, &small.d) != STATUS_OK ||
        exec_open(&small.d.plan, 0, &small.e) != STATUS_OK ||
        weights_initialise(small.e, &small.s.model, 7) != STATUS_OK ||
        identity_of(&small.s, &small.run) != STATUS_OK)
        return -1;
    return 0;
}

static int close_small(void **state) {
    exec_close(small.e);
    decision_close(&small.d);
    setup_close(&small.s);
    return scratch_close(state);
}

static void save(const char *out, int64_t step) {
    small.s.options.out = out;
    if (checkpoint_save(small.e, &small.s, &small.d, &small.run, step) != STATUS_OK)
        fail_msg("%s", status_message());
}

/* A folder that this run, or another one, has begun to write to. */
static void begin(const char *out, const identity *run) {
    journal *j;
    char line[64];
    snprintf(line, sizeof line, "rm -rf %s", out);
    assert_int_equal(system(line), 0);
    assert_int_equal(io_make_folder(out), STATUS_OK);
    small.s.options.out = out;
    if (journal_open(&small.s, &small.d, run, 0, &j) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(journal_close(j, STATUS_FAILED, 1), STATUS_FAILED);
}

static status find(const char *from, const char *out, resume *r) {
    small.s.options.resume = true, small.s.options.resume_from = from, small.s.options.out = out;
    return resume_find(&small.s, r);
}

/* "--resume from/checkpoint-2 --out new", said again: for every step that new may have got to. */
static void the_later_of_both_is_taken(void **state) {
    (void)state;
    begin("from", &small.run);
    save("from", 2);
    for (int64_t step = 1; step <= STEPS; step++) {
        resume r;
        char expected[64] = "from/checkpoint-2";
        begin("new", &small.run);
        save("new", step);
        if (step >= 2) snprintf(expected, sizeof expected, "new/checkpoint-%lld", (long long)step);
        if (find("from/checkpoint-2", "new", &r) != STATUS_OK) fail_msg("%s", status_message());
        assert_string_equal(r.folder, expected);
        assert_int_equal(r.step, step < 2 ? 2 : step);
        assert_int_equal(r.state.step, r.step);
        assert_string_equal(r.said, "");
        resume_close(&r);
    }
}

/* A checkpoint that lies elsewhere and is linked into the run's folder is of that run; one that only has such
 * a name is not. */
static void links_are_followed(void **state) {
    (void)state;
    resume r;
    begin("linked", &small.run);
    save("linked", 2);
    assert_int_equal(system("rm -rf stash && mkdir stash && mv linked/checkpoint-2 stash/kept"), 0);
    assert_int_equal(symlink("../stash/kept", "linked/checkpoint-2"), 0);
    if (find(NULL, "linked", &r) != STATUS_OK) fail_msg("%s", status_message());
    assert_string_equal(r.folder, "linked/checkpoint-2");
    assert_true(resume_is_of(&r, "linked"));
    assert_true(resume_is_of(&r, "stash"));
    assert_false(resume_is_of(&r, "."));
    assert_false(resume_is_of(&r, "nowhere"));
    resume_close(&r);
}

/* A resume that finds nothing says so, since it was asked to go on. */
static void a_beginning_is_said(void **state) {
    (void)state;
    resume r;
    begin("young", &small.run);
    if (find(NULL, "young", &r) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(r.step, 0);
    assert_string_equal(r.said, "young has no checkpoint yet: the run begins at the start\n");
    resume_close(&r);
}

/* Whichever file of a checkpoint is damaged: named by itself it is refused; of a run it is passed over. */
static void damage_is_refused_or_passed_over(void **state) {
    (void)state;
    static const char *const files[] = { "model.safetensors", "optimizer.safetensors", "trainer_state.json" };
    for (int i = 0; i < 3; i++) {
        resume r;
        char path[96], *data;
        uint64_t bytes;
        begin("run", &small.run);
        save("run", 2);
        save("run", 4);
        snprintf(path, sizeof path, "run/checkpoint-4/%s", files[i]);
        assert_int_equal(io_read_file(path, 1 << 20, &data, &bytes), STATUS_OK);
        data[bytes / 2] ^= 1;
        assert_int_equal(io_write_file(path, data, bytes), STATUS_OK);
        memory_free(data);
        assert_int_equal(find("run/checkpoint-4", "other", &r), STATUS_INVALID);
        assert_non_null(strstr(status_message(), files[i]));
        resume_close(&r);
        if (find(NULL, "run", &r) != STATUS_OK) fail_msg("%s", status_message());
        assert_string_equal(r.folder, "run/checkpoint-2");
        assert_non_null(strstr(r.said, "run/checkpoint-4 is passed over"));
        resume_close(&r);
    }
}

/* A folder that is made by another run between looking and claiming is that run's. */
static void another_may_come_first(void **state) {
    (void)state;
    resume r;
    lock other;
    assert_int_equal(find(NULL, "late", &r), STATUS_OK);
    assert_int_equal(io_make_folder("late"), STATUS_OK);
    assert_int_equal(lock_open("late/" LOCK_OF_FOLDER, &other), STATUS_OK);
    assert_int_equal(resume_claim(&small.s, &r), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "another run writes to this folder"));
    resume_close(&r);
    lock_close(&other);
    assert_int_equal(resume_claim(&small.s, &r), STATUS_OK);
    resume_close(&r);
}

/* A checkpoint of another run is refused, wherever it is found; so is a folder that another run holds or has
 * filled. */
static void other_runs_are_refused(void **state) {
    (void)state;
    resume r;
    lock held;
    identity own = small.run, *other = &small.run;
    other->facts[0].number += 1;
    begin("others", other);
    save("others", 2);
    small.run = own;
    static const char *const from[] = { NULL, "others", "others/checkpoint-2" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(find(from[i], i ? "own" : "others", &r), STATUS_INVALID);
        if (!strstr(status_message(), own.facts[0].name)) fail_msg("%s", status_message());
        resume_close(&r);
    }
    begin("own", &small.run);
    save("own", 2);
    small.s.options.resume = false, small.s.options.out = "own";
    assert_int_equal(resume_find(&small.s, &r), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "continue it with --resume"));
    resume_close(&r);
    assert_int_equal(lock_open("own/" LOCK_OF_FOLDER, &held), STATUS_OK);
    assert_int_equal(find(NULL, "own", &r), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "another run writes to this folder"));
    resume_close(&r);
    lock_close(&held);
    assert_int_equal(find("own", "others", &r), STATUS_INVALID); /* to go on there would mix two runs */
    assert_non_null(strstr(status_message(), "others has checkpoints of an earlier run"));
    resume_close(&r);
    assert_int_equal(find("empty", "own", &r), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "empty"));
    resume_close(&r);
}

/* What stands in the way of a file that the run will write is named before the run begins. */
static void what_stands_in_the_way_is_named(void **state) {
    (void)state;
    static const char *const names[] = { "config.json", "generation_config.json", "metrics.jsonl",
                                         "run.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        resume r;
        char path[64];
        begin("run", &small.run);
        save("run", 2);
        assert_int_equal(find(NULL, "run", &r), STATUS_OK);
        snprintf(path, sizeof path, "run/%s", names[i]);
        unlink(path);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_not_equal(resume_claim(&small.s, &r), STATUS_OK);
        if (!strstr(status_message(), path)) fail_msg("%s: %s", path, status_message());
        resume_close(&r);
    }
    resume r;
    scratch_write("file", "x", 1);
    status result = find(NULL, "file/run", &r);
    if (result == STATUS_OK) result = resume_claim(&small.s, &r);
    assert_int_not_equal(result, STATUS_OK);
    assert_non_null(strstr(status_message(), "file/run"));
    resume_close(&r);
}

/* What a killed start has left half made goes before anything new is written, or it is said why it can't. */
static void what_is_half_made_goes_or_is_said(void **state) {
    (void)state;
    for (int inner = 0; inner < 2; inner++) { /* a folder inside is none of ours */
        resume r;
        begin("half", &small.run);
        save("half", 2);
        assert_int_equal(
            io_make_folder(inner ? "half/checkpoint-3.partial/inner" : "half/checkpoint-3.partial"),
            STATUS_OK);
        assert_int_equal(find(NULL, "half", &r), STATUS_OK);
        status result = resume_claim(&small.s, &r);
        if (inner ? result == STATUS_OK : result != STATUS_OK) fail_msg("%s", status_message());
        if (inner) assert_non_null(strstr(status_message(), "half/checkpoint-3.partial"));
        assert_int_equal(access("half/checkpoint-3.partial", F_OK), inner ? 0 : -1);
        resume_close(&r);
    }
}

/* Where no plan fits the sentence is about that, whatever else was looked at on the way. */
static void what_does_not_fit_is_said(void **state) {
    (void)state;
    resume r;
    setup s;
    decision d;
    setup_options o = small.s.options;
    begin("tight", &small.run);
    save("tight", 2);
    o.resume = true, o.resume_from = NULL, o.out = "tight", o.allow = "optimizer-state", o.memory = 1 << 20;
    if (setup_open(&o, NULL, &s) != STATUS_OK || resume_find(&s, &r) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_int_equal(r.step, 2);
    assert_int_equal(resume_decide(&s, &r, &d), STATUS_NO_FIT);
    if (!strstr(status_message(), "does not fit")) fail_msg("'%s'", status_message());
    decision_close(&d);
    resume_close(&r);
    setup_close(&s);
}

/* Names of folders may hold any bytes; what people read is a line each, and UTF-8. */
static void sentences_can_be_read(void **state) {
    (void)state;
    resume r = { .lock.file = -1 };
    for (int i = 0; i < 3; i++) resume_say(&r, "folder %d\xff of \xc3", i);
    for (const char *at = r.said; *at;) {
        size_t length = utf8_length(at, strlen(at));
        if (!length) fail_msg("not UTF-8 at byte %d of %s", (int)(at - r.said), r.said);
        at += length;
    }
    for (int i = 0; i < 3; i++) {
        char line[16];
        snprintf(line, sizeof line, "folder %d", i);
        assert_non_null(strstr(r.said, line));
    }
    for (int i = 0; i < 1000; i++) resume_say(&r, "and so on");
    assert_true(strlen(r.said) < sizeof r.said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_later_of_both_is_taken),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(a_beginning_is_said),
        cmocka_unit_test(damage_is_refused_or_passed_over),
        cmocka_unit_test(another_may_come_first),
        cmocka_unit_test(other_runs_are_refused),
        cmocka_unit_test(what_stands_in_the_way_is_named),
        cmocka_unit_test(what_does_not_fit_is_said),
        cmocka_unit_test(what_is_half_made_goes_or_is_said),
        cmocka_unit_test(sentences_can_be_read),
    };
    return cmocka_run_group_tests(tests, open_small, close_small);
}
