/* Rates that are kept: what was stored is found again, by this machine and build only, what is damaged is
 * passed over with a sentence, what other work disturbed is not kept, and what a run found to be off is
 * measured anew. Measuring itself is taken over here (test_rates.wrap): it belongs to tests/lower. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/lock.h"
#include "io/scratch.h"
#include "lower/measure.h"
#include "run/rates.h"

/* ---- what is taken over ---- */

static struct {
    const char *processor;
    int available;
    double speed;             /* of the machine that is measured, beside the table's */
    int samples, disturbed;   /* how many were taken, and how many of them beside other work */
    useconds_t takes;         /* microseconds that measuring takes */
    _Atomic int own, *of_all; /* how often it was measured; by all processes */
} fake = { .processor = "Some processor", .available = 4, .speed = 1, .samples = 20 };

status __wrap_measure_rates_briefly(int threads, double seconds, device_rates *r, measure_result *told);
status __wrap_measure_rates_briefly(int threads, double seconds, device_rates *r, measure_result *told) {
    assert_true(seconds <= 0.5);
    *r = device_rates_default(threads);
    for (int k = 0; k < WORK_KINDS; k++) r->flops[k] *= fake.speed;
    r->cached *= fake.speed;
    *told = (measure_result){ .samples = fake.samples, .disturbed = fake.disturbed };
    fake.own++;
    if (fake.of_all) ++*fake.of_all;
    usleep(fake.takes);
    return STATUS_OK;
}

const char *__wrap_device_processor(char name[DEVICE_NAME_BYTES]);
const char *__wrap_device_processor(char name[DEVICE_NAME_BYTES]) {
    snprintf(name, DEVICE_NAME_BYTES, "%s", fake.processor);
    return name;
}

int __wrap_threads_available(void);
int __wrap_threads_available(void) { return fake.available; }

/* ---- what is stored ---- */

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

static rates_measured invented(void) {
    rates_measured m = { .count = 2, .threads = { 1, 5 } };
    for (int i = 0; i < 2; i++) {
        m.rates[i] = device_rates_default(1);
        for (int k = 0; k < WORK_KINDS; k++) m.rates[i].flops[k] = (1 + i * 4) * 1.25e9 * (k + 1);
        m.rates[i].bandwidth = (1 + i) * 3e9;
    }
    return m;
}

static void forget(void) {
    char path[RATES_PATH_BYTES];
    must(rates_path(path));
    unlink(path);
}

static void what_was_stored_is_found(void **state) {
    (void)state;
    rates_measured m = invented();
    must(rates_store(&m));
    for (int i = 0; i < 2; i++) {
        device_rates r = rates_find(RATES_KNOWN, &device_cpu, m.threads[i]);
        assert_memory_equal(r.flops, m.rates[i].flops, sizeof r.flops);
        assert_true(r.bandwidth == m.rates[i].bandwidth && r.moved == m.rates[i].moved);
        assert_true(r.draws == m.rates[i].draws && r.cached == m.rates[i].cached);
        assert_true(r.cache_bytes == m.rates[i].cache_bytes && r.call_seconds == m.rates[i].call_seconds);
        assert_string_equal(r.source, "measurement of this machine");
        assert_true(r.scale == 1);
    }
    assert_true(rates_find(RATES_KNOWN, &device_cpu, 3).bandwidth == 4.5e9); /* in between */
    assert_true(rates_find(RATES_KNOWN, &device_cpu, 4).bandwidth == 5.25e9);
    assert_true(rates_find(RATES_KNOWN, &device_cpu, 99).bandwidth == 6e9); /* the nearest */
    forget();
}

/* ---- what runs tell ---- */

static bool learn(double took, double predicted, const device_rates *used) {
    bool doubted;
    must(rates_learn(&device_cpu, took, predicted, used, &doubted));
    return doubted;
}

static double scale(void) { return rates_find(RATES_KNOWN, &device_cpu, 2).scale; }

static void a_run_moves_times_within_a_quarter(void **state) {
    (void)state;
    device_rates r = rates_find(RATES_KNOWN, &device_cpu, 2);
    assert_true(r.scale == 1 && strncmp(r.source, "built-in table", 14) == 0);
    assert_false(learn(0, 1, &r) || learn(1, 0, &r)); /* nothing is known */
    assert_true(scale() == 1);
    assert_false(learn(1.2, 1, &r)); /* longer: by a quarter of the difference */
    assert_true(scale() == 1.05);
    r = rates_find(RATES_KNOWN, &device_cpu, 2);
    assert_non_null(strstr(r.source, "built-in table"));
    assert_non_null(strstr(r.source, ", times 1.05 as a run took here"));
    assert_false(learn(2, 2, &r)); /* predicted with the factor, and right */
    assert_true(scale() == 1.05);
    assert_false(learn(0.9, 1, &r)); /* shorter: at once */
    assert_true(scale() == 0.9 * 1.05);
    forget();
    for (int run = 0; run < 100; run++) { /* many runs that are a bit slow never add up to more than that */
        r = rates_find(RATES_KNOWN, &device_cpu, 2);
        if (learn(1.2, 1, &r)) break;
        assert_true(scale() >= 0.8 && scale() <= 1.25);
    }
    assert_true(scale() >= 0.8 && scale() <= 1.25);
    forget();
}

/* What a device apart says of itself is neither moved nor doubted by its runs. */
static void nothing_is_learned_of_a_device_apart(void **state) {
    (void)state;
    device_rates r = rates_find(RATES_KNOWN, &device_cpu, 2);
    device there = device_cpu;
    there.apart = true;
    bool doubted = true;
    must(rates_learn(&there, 1.2, 1, &r, &doubted));
    assert_true(!doubted && scale() == 1);
    must(rates_learn(&there, 99, 1, &r, &doubted));
    assert_true(!doubted && scale() == 1);
}

/* Both ways, alone and with what was learned before; and a factor never comes of it. */
static void what_is_off_by_more_is_doubted(void **state) {
    (void)state;
    device_rates r = rates_find(RATES_KNOWN, &device_cpu, 2);
    assert_false(learn(1.25, 1, &r));
    forget();
    assert_false(learn(0.8, 1, &r));
    forget();
    assert_true(learn(1.26, 1, &r));
    assert_true(scale() == 1);
    forget();
    assert_true(learn(0.79, 1, &r));
    assert_true(learn(3.67, 1, &r));
    assert_true(scale() == 1);
    r.scale = 1.2;
    assert_true(learn(1.1, 1, &r)); /* 1.32 together */
    r.scale = 0.85;
    assert_true(learn(0.9, 1, &r));
    assert_true(scale() == 1);
    forget();
}

/* ---- measuring what is not known ---- */

/* A process measures once for a number of threads, so each case is a process of its own. */
static void apart(void (*body)(void)) {
    forget();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0) fail_msg("the case failed: %#x", ended);
    forget();
}

static void expect(bool true_, const char *what) {
    if (true_) return;
    fprintf(stderr, "expected: %s\n", what);
    _exit(1);
}
#define EXPECT(x) expect((x), #x)

static bool is_there(void) {
    char path[RATES_PATH_BYTES];
    must(rates_path(path));
    return access(path, F_OK) == 0;
}

static bool says(const device_rates *r, const char *words) { return strstr(r->source, words) != NULL; }

static void first_plan(void) {
    fake.speed = 0.5;
    device_rates r = rates_find(RATES_KNOWN, &device_cpu, 4), table = device_rates_default(4);
    EXPECT(fake.own == 0 && says(&r, "built-in table") && !is_there());
    r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(fake.own == 1 && says(&r, "short measurement of this machine, taken now") &&
           !says(&r, "not kept"));
    EXPECT(r.flops[WORK_PRODUCTS] == 0.5 * table.flops[WORK_PRODUCTS] && r.scale == 1 && is_there());
    r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(fake.own == 1 && r.flops[WORK_PRODUCTS] == 0.5 * table.flops[WORK_PRODUCTS]);
    EXPECT(strcmp(r.source, "short measurement of this machine") == 0);
    r = rates_find(RATES_AUTO, &device_cpu, 99); /* more threads than processors */
    EXPECT(fake.own == 1);
    r = rates_find(RATES_BUILT_IN, &device_cpu, 4);
    EXPECT(r.flops[WORK_PRODUCTS] == table.flops[WORK_PRODUCTS] && strncmp(r.source, "built-in", 8) == 0);
    r = rates_find(RATES_AUTO, &device_cpu, 1); /* fewer than were measured */
    EXPECT(fake.own == 2 &&
           rates_find(RATES_AUTO, &device_cpu, 3).flops[0] > rates_find(RATES_AUTO, &device_cpu, 2).flops[0]);
    EXPECT(fake.own == 2);
}

/* Beside other work: used, since it is corrected, and neither kept nor repeated. */
static void disturbed(void) {
    fake.disturbed = 6;
    device_rates r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(says(&r, "beside other work, and not kept") && !is_there());
    rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(fake.own == 1);
    fake.disturbed = 5; /* a quarter of the samples may be */
    rates_find(RATES_AUTO, &device_cpu, 3);
    EXPECT(fake.own == 2 && is_there());
}

/* Without a sample nobody knows what was beside it. */
static void few_samples(void) {
    fake.samples = 0;
    device_rates r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(fake.own == 1 && says(&r, "beside other work, and not kept") && !is_there());
    fake.samples = 1;
    r = rates_find(RATES_AUTO, &device_cpu, 3);
    EXPECT(fake.own == 2 && !says(&r, "not kept") && is_there());
}

static void nowhere_to_keep(void) {
    setenv("XDG_CACHE_HOME", "/dev/null/none", 1);
    device_rates r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(says(&r, "taken now and not kept: ") && says(&r, "/dev/null"));
    r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(fake.own == 1);
    bool doubted;
    EXPECT(rates_learn(&device_cpu, 1.1, 1, &r, &doubted) != STATUS_OK && !doubted);
}

static void after_a_doubt(void) {
    fake.speed = 1;
    device_rates r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(!learn(1.2, 1, &r) && rates_find(RATES_AUTO, &device_cpu, 4).scale == 1.05 && fake.own == 1);
    EXPECT(learn(2, 1, &r));
    rates_find(RATES_AUTO, &device_cpu, 2); /* for so few nothing was known */
    fake.speed = 0.5;
    EXPECT(learn(2, 1, &r));
    r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(fake.own == 3 && r.scale == 1);
    EXPECT(r.flops[0] == 0.5 * device_rates_default(4).flops[0]);
    rates_find(RATES_AUTO, &device_cpu, 1); /* makes the process forget what it measured for 4 */
    r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(fake.own == 4 && r.scale == 1); /* the doubt is settled */
}

static void fewer_threads_were_measured(void) {
    rates_measured m = { .count = 1, .threads = { 2 }, .rates = { device_rates_default(2) } };
    must(rates_store(&m));
    rates_find(RATES_AUTO, &device_cpu, 4); /* of 4 processors */
    EXPECT(fake.own == 1);
    EXPECT(rates_find(RATES_KNOWN, &device_cpu, 4).flops[0] == device_rates_default(4).flops[0]);
}

static void careful_ones(void) {
    rates_measured m = { .count = 1, .threads = { 4 }, .rates = { device_rates_default(4) } };
    must(rates_store(&m));
    device_rates r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(fake.own == 0 && learn(2, 1, &r));
    fake.speed = 1.2;
    rates_find(RATES_AUTO, &device_cpu, 4); /* confirms them */
    r = rates_find(RATES_KNOWN, &device_cpu, 4);
    EXPECT(fake.own == 1 && strcmp(r.source, "measurement of this machine") == 0);
    EXPECT(r.flops[0] == m.rates[0].flops[0]);
}

static void careful_ones_that_are_wrong(void) {
    rates_measured m = { .count = 1, .threads = { 4 }, .rates = { device_rates_default(4) } };
    m.rates[0].file_read = 3e9;
    must(rates_store(&m));
    device_rates r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(learn(2, 1, &r));
    fake.speed = 0.7;
    rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(rates_find(RATES_KNOWN, &device_cpu, 4).file_read == 3e9); /* of that nothing new is known */
    r = rates_find(RATES_KNOWN, &device_cpu, 4);
    EXPECT(fake.own == 1 && strcmp(r.source, "short measurement of this machine") == 0);
    EXPECT(r.flops[0] == 0.7 * m.rates[0].flops[0]);
}

/* A home folder that machines share: each has a file of its own. */
static void other_processors(void) {
    char path[RATES_PATH_BYTES], other[RATES_PATH_BYTES];
    device_rates r = rates_find(RATES_AUTO, &device_cpu, 4);
    must(rates_path(path));
    fake.processor = "Another processor", fake.speed = 0.5;
    must(rates_path(other));
    EXPECT(strcmp(path, other) != 0);
    r = rates_find(RATES_KNOWN, &device_cpu, 4);
    EXPECT(says(&r, "built-in table"));
    rates_find(RATES_AUTO, &device_cpu, 3);
    EXPECT(fake.own == 2 && access(other, F_OK) == 0);
    unlink(other);
    fake.processor = "Some processor";
    EXPECT(rates_find(RATES_AUTO, &device_cpu, 4).flops[0] == device_rates_default(4).flops[0] &&
           fake.own == 2);
}

static void many_numbers_of_threads(void) {
    char path[RATES_PATH_BYTES], *data;
    uint64_t first = 0, bytes = 0;
    fake.available = 64;
    must(rates_path(path));
    for (int threads = 64; threads > 0; threads -= 3) {
        rates_find(RATES_AUTO, &device_cpu, threads);
        must(io_read_file(path, 1 << 16, &data, &bytes));
        memory_free(data);
        if (!first) first = bytes;
        EXPECT(bytes < (RATES_MOST + 1) * first);
    }
    EXPECT(rates_find(RATES_KNOWN, &device_cpu, 1).flops[0] ==
           device_rates_default(1).flops[0]); /* the latest is there */
    unlink(path);
}

static void damaged(void) {
    char path[RATES_PATH_BYTES];
    rates_measured m = invented();
    must(rates_store(&m));
    must(rates_path(path));
    must(io_write_file(path, "{ \"machine\": 3", 14));
    device_rates r = rates_find(RATES_KNOWN, &device_cpu, 4);
    EXPECT(says(&r, "passed over") && says(&r, "is not JSON"));
    r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(fake.own == 1 && says(&r, "taken now") && !says(&r, "not kept"));
    r = rates_find(RATES_KNOWN, &device_cpu, 4);
    EXPECT(strcmp(r.source, "short measurement of this machine") == 0);
}

/* Another process writes the file, for longer than anybody waits. */
static void held_by_another(void) {
    char path[RATES_PATH_BYTES], lock_path[RATES_PATH_BYTES + 8];
    lock l;
    bool doubted;
    must(rates_path(path));
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    *strrchr(path, '/') = 0;
    must(io_make_folder(path));
    must(lock_open(lock_path, &l));
    double at = clock_seconds();
    device_rates r = rates_find(RATES_AUTO, &device_cpu, 4);
    EXPECT(clock_seconds() - at >= 0.4 && clock_seconds() - at < 5);
    EXPECT(fake.own == 0 && says(&r, "built-in table") && says(&r, "another process is measuring"));
    EXPECT(rates_learn(&device_cpu, 1.1, 1, &r, &doubted) == STATUS_OK && !is_there());
    lock_close(&l);
}

static void several_at_once(void) {
    enum { PROCESSES = 5 };
    int ended;
    fake.of_all = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT((void *)fake.of_all != MAP_FAILED);
    fake.takes = 100000;
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            device_rates r = rates_find(RATES_AUTO, &device_cpu, 4);
            _exit(!says(&r, "short measurement of this machine"));
        }
    for (int i = 0; i < PROCESSES; i++) {
        EXPECT(wait(&ended) > 0);
        EXPECT(ended == 0);
    }
    EXPECT(*fake.of_all == 1);
}

static void what_is_lacking_is_measured(void **state) {
    (void)state;
    static void (*const cases[])(void) = { first_plan,       disturbed,
                                           few_samples,      nowhere_to_keep,
                                           after_a_doubt,    fewer_threads_were_measured,
                                           careful_ones,     careful_ones_that_are_wrong,
                                           other_processors, many_numbers_of_threads,
                                           damaged,          held_by_another,
                                           several_at_once };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) apart(cases[i]);
}

/* ---- files that can't be used ---- */

/* `bytes` as the file of this machine: the table is used, and says why. */
static void expect_passed_over(const char *bytes, size_t count) {
    char path[RATES_PATH_BYTES];
    must(rates_path(path));
    must(io_write_file(path, bytes, count));
    device_rates r = rates_find(RATES_KNOWN, &device_cpu, 2), table = device_rates_default(2);
    assert_memory_equal(r.flops, table.flops, sizeof r.flops);
    if (!strstr(r.source, "built-in table") || !strstr(r.source, "passed over")) fail_msg("%s", r.source);
}

static void damage_is_passed_over(void **state) {
    (void)state;
    char path[RATES_PATH_BYTES], *data, *place;
    uint64_t bytes;
    rates_measured m = invented();
    must(rates_store(&m));
    must(rates_path(path));
    must(io_read_file(path, 1 << 16, &data, &bytes));
    for (size_t cut = 0; cut + 2 < bytes; cut += 37) expect_passed_over(data, cut);
    static const char *const wrong[][2] = { { "\"bandwidth\": ", "\"bandwidth\":-" },
                                            { "\"functions\": ", "\"functions\":-" },
                                            { "\"attention_half\"", "\"attention_calf\"" },
                                            { "\"threads\": 5", "\"threads\": 1" },
                                            { "\"threads\": 5", "\"threadz\": 5" },
                                            { "\"brief\": ", "\"grief\": " },
                                            { "\"draws\"", "\"drafs\"" },
                                            { "\"scale\": 1", "\"scale\": 2" }, /* no factor is so large */
                                            { "\"doubted\": false", "\"doubted\": 0    " },
                                            { "usable; rates", "usable; notes" } /* another build */ };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *copy = strndup(data, bytes);
        assert_non_null(place = strstr(copy, wrong[i][0]));
        memcpy(place, wrong[i][1], strlen(wrong[i][1]));
        expect_passed_over(copy, bytes);
        free(copy);
    }
    memory_free(data);
    rates_measured one = m; /* whose threads no other set can contradict */
    one.count = 1;
    must(rates_store(&one));
    must(io_read_file(path, 1 << 16, &data, &bytes));
    assert_non_null(place = strstr(data, "\"threads\": "));
    memcpy(place, "\"threads\":-", 11);
    expect_passed_over(data, bytes);
    memory_free(data);
    must(rates_store(&m)); /* measuring again repairs it */
    assert_string_equal(rates_find(RATES_KNOWN, &device_cpu, 1).source, "measurement of this machine");
    forget();
}

static void the_key_names_the_machine(void **state) {
    (void)state;
    char path[RATES_PATH_BYTES];
    must(rates_path(path));
    assert_true(strncmp(path, scratch_path, strlen(scratch_path)) == 0);
    assert_non_null(strstr(path, "/snug/rates-"));
    setenv("XDG_CACHE_HOME", "not/absolute", 1); /* to be ignored */
    setenv("HOME", "/home/somebody", 1);
    must(rates_path(path));
    assert_true(strncmp(path, "/home/somebody/.cache/snug/rates-", 33) == 0);
    unsetenv("HOME");
    assert_int_equal(rates_path(path), STATUS_INVALID);
    assert_true(strncmp(rates_find(RATES_KNOWN, &device_cpu, 2).source, "built-in table", 14) == 0);
    setenv("XDG_CACHE_HOME", scratch_path, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_stored_is_found),
        cmocka_unit_test(a_run_moves_times_within_a_quarter),
        cmocka_unit_test(nothing_is_learned_of_a_device_apart),
        cmocka_unit_test(what_is_off_by_more_is_doubted),
        cmocka_unit_test(what_is_lacking_is_measured),
        cmocka_unit_test(damage_is_passed_over),
        cmocka_unit_test(the_key_names_the_machine),
    };
    return cmocka_run_group_tests_name("rates", tests, scratch_open, scratch_close);
}
