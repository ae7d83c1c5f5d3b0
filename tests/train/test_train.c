/* What a run does between its kernels: the learning rate of each step, by numbers that were worked out apart;
 * and what it does when a disk fails it on the way: no step is counted, and nothing saved, on top of that.
 * The calls of the system go through here (test_train.wrap). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/threads.h"
#include "io/checkpoint_folder.h"
#include "io/file.h"
#include "io/json.h"
#include "io/scratch.h"
#include "train/pace.h"
#include "train/train.h"
#include "train/train_report.h"

/* ---- disks that fail ---- */

static struct {                    /* other threads look at it */
    atomic_long moved, fails_at;   /* calls that move state; the first of them that fails, -1: none */
    atomic_bool no_room_for_lines; /* of metrics.jsonl */
} disk = { .fails_at = -1 };

ssize_t __real_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __real_pwrite(int file, const void *data, size_t bytes, off_t at);
ssize_t __real_write(int file, const void *data, size_t bytes);
ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at);
ssize_t __wrap_write(int file, const void *data, size_t bytes);

static bool is_file(int file, const char *name) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    return strstr(path, name) != NULL;
}

/* The file of state that moves has no name. */
static bool fails(int file) {
    if (disk.fails_at < 0 || !is_file(file, "(deleted)")) return false;
    errno = EIO;
    return disk.moved++ >= disk.fails_at;
}

ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at) {
    return fails(file) ? -1 : __real_pread(file, data, bytes, at);
}
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at) {
    return fails(file) ? -1 : __real_pwrite(file, data, bytes, at);
}
ssize_t __wrap_write(int file, const void *data, size_t bytes) {
    if (!disk.no_room_for_lines || !is_file(file, "metrics.jsonl")) return __real_write(file, data, bytes);
    errno = ENOSPC;
    return -1;
}

/* ---- a clock that tells more than went by ---- */

static struct { double added, each; /* seconds: so far, and with each call */ } clocks;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t) {
    int result = __real_clock_gettime(clock, t);
    if (clock != CLOCK_MONOTONIC) return result;
    clocks.added += clocks.each;
    double whole = floor(clocks.added), rest = (clocks.added - whole) * 1e9 + (double)t->tv_nsec;
    t->tv_sec += (time_t)whole + (rest >= 1e9);
    t->tv_nsec = (long)(rest >= 1e9 ? rest - 1e9 : rest);
    return result;
}

/* ---- a small run ---- */

static void write_files(void) {
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 64, \"n_positions\": 16, "
        "\"vocab_size\": 4096, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0}\n";
    char words[4000];
    for (size_t i = 0; i < sizeof words; i++) words[i] = (char)('a' + (i * i + i / 7) % 26);
    scratch_write("text", words, sizeof words);
    scratch_write("config.json", config, sizeof config - 1);
}

static setup_options usual(void) {
    setup_options o = setup_defaults();
    o.model = "config.json", o.data = "text", o.batch = 4, o.context = 16, o.threads = 1;
    o.eval_samples = 4, o.workers = 0, o.steps = 10, o.save_every = 0;
    return o;
}

typedef struct {
    double rates[16], seconds;
    int64_t steps;
    void (*after)(int64_t step); /* may be NULL */
    int64_t slowed;              /* the step after which it was told that steps got slower; 0: none */
    pace_fall fall;
} witness;

static void note(void *context, const train_progress *p) {
    witness *w = context;
    assert_int_equal(p->step, w->steps + 1);
    w->rates[w->steps++ % 16] = p->learning_rate;
    w->seconds += p->seconds;
    /* what is left takes at least as long as the steps did so far, without what was between them */
    assert_true(p->seconds_left >= 0.999 * w->seconds / (double)p->step * (double)(p->steps - p->step));
    assert_true(p->step < p->steps || p->seconds_left == 0);
    if (w->after) w->after(p->step);
}

static void slower(void *context, int64_t step, const pace_fall *fall) {
    witness *w = context;
    assert_int_equal(w->slowed, 0);
    w->slowed = step, w->fall = *fall;
}

static status train(const setup_options *o, witness *w) {
    setup s;
    decision d = { 0 };
    resume from;
    train_result r = { 0 };
    char sentence[1024];
    assert_int_equal(setup_open(o, NULL, &s), STATUS_OK);
    status result = resume_find(&s, &from);
    if (result == STATUS_OK) result = resume_decide(&s, &from, &d);
    train_observer watching = { .context = w, .stepped = note, .slowed = slower };
    if (result == STATUS_OK) result = train_run(&s, &d, &from, &watching, &r);
    snprintf(sentence, sizeof sentence, "%s", status_message());
    train_result_close(&r);
    resume_close(&from);
    decision_close(&d);
    setup_close(&s);
    return result == STATUS_OK ? STATUS_OK : status_set(result, "%s", sentence);
}

/* ---- learning rates ---- */

/* 10 steps, 4 of warm-up to 0.01, then down to a tenth of it at the end of the last step. */
static const struct {
    schedule_kind schedule;
    int64_t warmup;
    double minimum, rates[10];
} schedules[] = {
    { SCHEDULE_COSINE,
      4,
      0.1,
      { 0.0025, 0.005, 0.0075, 0.01, 0.01, 0.009397114317029975, 0.00775, 0.0055, 0.00325,
        0.0016028856829700259 } },
    { SCHEDULE_LINEAR, 4, 0.1, { 0.0025, 0.005, 0.0075, 0.01, 0.01, 0.0085, 0.007, 0.0055, 0.004, 0.0025 } },
    { SCHEDULE_CONSTANT, 4, 0.1, { 0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01 } },
    { SCHEDULE_LINEAR, 0, 0, { 0.01, 0.009, 0.008, 0.007, 0.006, 0.005, 0.004, 0.003, 0.002, 0.001 } },
    { SCHEDULE_CONSTANT, 1, 0, { 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01 } },
    { SCHEDULE_COSINE, 10, 0.1, { 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008, 0.009, 0.01 } },
};

/* As the run's own history has them. */
static void read_rates(const char *path, double rates[10]) {
    char *lines, *line;
    uint64_t bytes;
    int found = 0;
    assert_int_equal(io_read_file(path, 1 << 20, &lines, &bytes), STATUS_OK);
    for (line = lines; (line = strstr(line, "\"lr\"")); line++) {
        assert_true(found < 10);
        assert_int_equal(
            sscanf(line, "\"lr\": %lf", &rates[found]) + sscanf(line, "\"lr\":%lf", &rates[found]) > 0, 1);
        found++;
    }
    assert_int_equal(found, 10);
    memory_free(lines);
}

static void learning_rates_follow_the_schedule(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        char out[32], path[64];
        double written[10];
        witness w = { 0 };
        setup_options o = usual();
        snprintf(out, sizeof out, "rates%zu", i);
        snprintf(path, sizeof path, "%s/metrics.jsonl", out);
        o.learning_rate = 0.01, o.out = out;
        o.schedule = schedules[i].schedule, o.warmup = schedules[i].warmup;
        o.minimum_rate = schedules[i].minimum;
        if (train(&o, &w) != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(w.steps, 10);
        read_rates(path, written);
        for (int k = 0; k < 10; k++)
            if (fabs(w.rates[k] - schedules[i].rates[k]) > 1e-15 ||
                fabs(written[k] - schedules[i].rates[k]) > 1e-9)
                fail_msg("schedule %zu, step %d: %.17g, written %.17g, should be %.17g", i, k + 1, w.rates[k],
                         written[k], schedules[i].rates[k]);
    }
}

/* ---- what is said of steps ---- */

static void near(double is, double should, const char *what) {
    if (!(fabs(is - should) <= 1e-12 * fabs(should))) fail_msg("%s is %.17g, not %.17g", what, is, should);
}

/* Begun at step 10, step 30 of 100 is done after 50 seconds, the last of them in 2. */
static void a_step_is_told_as_it_was(void **state) {
    (void)state;
    setup s = { .options = { .steps = 100, .batch = 4 }, .budget = 12345 };
    decision d = { .plan = { .peak_bytes = 6789 } };
    s.request.run.context = 16;
    train_progress p = { .step = 30, .seconds = 2 };
    train_report_step(&s, &d, 0.5, 10, 50, &p);
    assert_int_equal(p.steps, 100);
    near(p.tokens_per_second, 4 * 16 / 2.0, "tokens a second");
    near(p.peak_share, 0.25, "the share of what the processor could do");
    near(p.seconds_left, 70 * 2.5, "the time that is left");
    assert_int_equal(p.planned_bytes, 6789);
    assert_int_equal(p.budget_bytes, 12345);
    assert_true(p.resident_bytes > 1 << 20);
}

/* The median of the steps of this start; those before it have other times, or none. */
static void a_run_is_told_by_its_median(void **state) {
    (void)state;
    setup s = { .options = { .steps = 7, .batch = 3 } };
    s.request.run.context = 10;
    train_observer watched = { 0 };
    double times[] = { 100, 100, 0.5, 9, 0.25, 2, 1 };
    train_result r = { .first = 2, .steps = 7 };
    assert_int_equal(train_report_end(&watched, &s, NULL, times, 13, &r), STATUS_OK);
    near(r.seconds, 13, "the time of all steps");
    near(r.step_seconds, 1, "the median");
    near(r.tokens_per_second, 30, "tokens a second");
    assert_true(r.resident_peak_bytes > 1 << 20);
    train_result none = { .first = 2, .steps = 2 };
    assert_int_equal(train_report_end(&watched, &s, NULL, times, 0, &none), STATUS_OK);
    near(none.step_seconds, 0, "the median of no steps");
}

static void half_as_fast_from_41(int64_t step) {
    if (step == 40) clocks.each *= 2;
}

static void a_run_tells_that_it_gets_slower(void **state) {
    (void)state;
    setup_options o = usual();
    o.steps = 80;
    witness w = { .after = half_as_fast_from_41 };
    clocks.each = 10;
    status result = train(&o, &w);
    clocks.each = clocks.added = 0; /* threads that wait until a time wait by the system's own clock */
    if (result != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(w.slowed, 60);
    assert_true(w.fall.before_at == 20 || w.fall.before_at == 40); /* the two are equal but for real time */
    assert_true(w.fall.now > 1.9 * w.fall.before && w.fall.now < 2.1 * w.fall.before);
}

/* ---- failures ---- */

static void no_room_from_now_on(int64_t step) { disk.no_room_for_lines = step >= 3; }

/* A resumed run counts on the lines before its checkpoint: without them there is none. */
static void no_checkpoint_without_its_lines(void **state) {
    (void)state;
    witness w = { .after = no_room_from_now_on };
    setup_options o = usual();
    o.out = "lines", o.save_every = 4, o.steps = 4;
    assert_int_equal(train(&o, &w), STATUS_FAILED);
    disk.no_room_for_lines = false;
    if (!strstr(status_message(), "metrics.jsonl")) fail_msg("%s", status_message());
    assert_int_equal(access("lines/checkpoint-4", F_OK), -1);
    assert_int_equal(access("lines/model.safetensors", F_OK), -1);
}

/* State that could not be moved ends the run in the step in which it was missed. */
static void a_step_without_its_state_does_not_count(void **state) {
    (void)state;
    setup_options o = usual();
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, "offload") == 0) o.passes[i] = "optimizer";
    o.folder = ".", o.steps = 3;
    witness w = { 0 };
    disk.moved = 0;
    disk.fails_at = 1 << 30;
    if (train(&o, &w) != STATUS_OK) fail_msg("%s", status_message());
    long all = disk.moved;
    assert_true(all > 10);
    for (long at = 0; at < all * 2 / 3; at += at < 6 ? 1 : all / 5) { /* before the last step */
        w = (witness){ 0 };
        disk.moved = 0;
        disk.fails_at = at;
        status result = train(&o, &w);
        if (result != STATUS_FAILED || !strstr(status_message(), "what was moved out of memory cannot be "))
            fail_msg("call %ld of %ld: %d: %s", at, all, (int)result, status_message());
        if (w.steps >= 3)
            fail_msg("call %ld of %ld failed, and %lld steps count", at, all, (long long)w.steps);
    }
    disk.fails_at = -1;
}

int main(void) {
    threads_set(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learning_rates_follow_the_schedule),
        cmocka_unit_test(a_step_is_told_as_it_was),
        cmocka_unit_test(a_run_is_told_by_its_median),
        cmocka_unit_test(a_run_tells_that_it_gets_slower),
        cmocka_unit_test(no_checkpoint_without_its_lines),
        cmocka_unit_test(a_step_without_its_state_does_not_count),
    };
    if (scratch_open(NULL) != 0) return 1;
    write_files();
    int failed = cmocka_run_group_tests_name("train", tests, NULL, NULL);
    return scratch_close(NULL) == 0 ? failed : 1;
}
