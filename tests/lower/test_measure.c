/* Measuring: from times that known rates would give, the same rates are found; a clock that goes on while the
 * process has no processor doesn't make the machine slow; and the short measurement keeps to its time and its
 * memory. Clocks, quotas and pools are taken over (test_measure.wrap). */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/threads.h"
#include "lower/measure.h"
#include "lower/measure_fit.h"
#include "lower/predict.h"

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

/* ---- what is taken over ---- */

static double share = 1, quota = 0; /* of processors that the process has; of its control group */
static int available = 8;
static uint64_t largest; /* pool so far */
static int trimmed;      /* how often memory was given back */
static int hiccup;       /* every so many looks at the clock it jumps; 0: never */
static bool ticking;     /* a look takes time by the size of the open pool, whatever was done between */
static uint64_t tick_ns = 1000, ticked_ns; /* of a look; of all of them so far */

/* The clock is the caller's own time: what else the machine does is no matter here. Where times are compared
 * it ticks, because a kernel's own time is longer too while somebody else uses the other half of a core. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t) {
    static int looks;
    static uint64_t lost;
    (void)clock;
    if (hiccup && ++looks % hiccup == 0) lost++;
    if (ticking) ticked_ns += tick_ns;
    int result = ticking ? 0 : __real_clock_gettime(CLOCK_THREAD_CPUTIME_ID, t);
    uint64_t own = ticking ? 0 : (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
    uint64_t now = own + ticked_ns + lost * 20000000;
    *t = (struct timespec){ (time_t)(now / 1000000000), (long)(now % 1000000000) };
    return result;
}

void __wrap_memory_trim(void);
void __real_memory_trim(void);
void __wrap_memory_trim(void) {
    trimmed++;
    __real_memory_trim();
}

double __wrap_threads_seconds(void);
double __wrap_threads_seconds(void) {
    double seconds =
        ticking ? 1e-9 * (double)ticked_ns / 2 : clock_seconds(); /* a run is timed by two looks */
    return share * measure_processors(threads_count()) * seconds;
}

int __wrap_threads_available(void);
int __wrap_threads_available(void) { return available; }

cgroup_limits __wrap_cgroup_read(const char *root);
cgroup_limits __wrap_cgroup_read(const char *root) {
    (void)root;
    return (cgroup_limits){ quota, UINT64_MAX, UINT64_MAX };
}

status __wrap_device_pool_open(device_pool *p, uint64_t bytes);
status __real_device_pool_open(device_pool *p, uint64_t bytes);
status __wrap_device_pool_open(device_pool *p, uint64_t bytes) {
    if (bytes > largest) largest = bytes;
    tick_ns = 1000 + bytes;
    return __real_device_pool_open(p, bytes);
}

void __wrap_device_pool_close(device_pool *p);
void __real_device_pool_close(device_pool *p);
void __wrap_device_pool_close(device_pool *p) {
    tick_ns = 1000;
    __real_device_pool_close(p);
}

/* ---- fitting ---- */

static void near(double found, double wanted) {
    if (fabs(found - wanted) > 1e-6 * wanted) fail_msg("%g where %g is right", found, wanted);
}

static const device_rates invented = { .flops = { 1e11, 2e10, 3e11, 2.5e11, 7e11, 4e11, 3.5e11, 0.8e11,
                                                  1.7e10 },
                                       .draws = 1e9,
                                       .moved = 5e10,
                                       .cached = 1.2e11,
                                       .bandwidth = 2e10,
                                       .fetched = 9e9,
                                       .call_seconds = 2e-6,
                                       .scale = 1 };
static const double THREADS = 5e-7;

/* What a call takes by the model of time, the whole of it from caches or from memory. */
static measure_taken taken(measure_purpose of, op_cost cost) {
    bool memory = of == MEASURE_MEMORY || of == MEASURE_FETCH;
    measure_taken m = { .of = of, .cost = cost };
    m.memory_bytes = cost.bytes_read + cost.bytes_written;
    m.seconds = predict_call(&cost, memory, memory, &invented);
    if (of == MEASURE_CALL) m.seconds = invented.call_seconds - THREADS;
    if (of == MEASURE_CACHE) m.seconds = m.memory_bytes / invented.cached;
    return m;
}

enum { MOST = 40 };
static int make_samples(measure_taken m[MOST]) {
    int count = 0;
    m[count++] = taken(MEASURE_CALL, (op_cost){ .bytes_read = 8 });
    m[count++] = taken(MEASURE_CACHE, (op_cost){ .bytes_read = 4e6, .bytes_written = 2e6 });
    for (int i = 0; i < 3; i++) {
        op_cost c = { .flops = 1e8 * (i + 1), .bytes_moved = 1e6 * (5 - i), .kind = WORK_PRODUCTS };
        m[count++] = taken(MEASURE_PRODUCTS, c);
        c.reads = true, c.bytes_read = 3e6;
        m[count++] = taken(MEASURE_PRODUCTS, c);
        c = (op_cost){ .flops = 1e8 * (i + 1), .bytes_moved = 1e5, .draws = 1e4, .kind = WORK_CODES };
        m[count++] = taken(MEASURE_OTHER_PRODUCTS, c);
        c.kind = WORK_PRODUCTS_HALF;
        m[count++] = taken(MEASURE_OTHER_PRODUCTS, c);
        for (int kind = 0; kind < WORK_KINDS; kind++) {
            c = (op_cost){ .flops = 1e7 * (i + 1), .bytes_read = 1e6, .kind = (work_kind)kind };
            if (i == 1) c.work = 3e7; /* more than its flops */
            if (!work_is_products((work_kind)kind)) m[count++] = taken(MEASURE_WORK, c);
        }
    }
    op_cost c = { .flops = 0, .draws = 1e6, .bytes_read = 1e6, .kind = WORK_ARITHMETIC };
    m[count++] = taken(MEASURE_DRAWS, c);
    c = (op_cost){ .flops = 1e7, .bytes_read = 4e7, .bytes_written = 3e7, .kind = WORK_ARITHMETIC };
    m[count++] = taken(MEASURE_MEMORY, c);
    c = (op_cost){ .flops = 1e7, .bytes_read = 6e7, .bytes_moved = 1e5, .kind = WORK_PRODUCTS };
    m[count++] = taken(MEASURE_FETCH, c);
    return count;
}

static void rates_are_found_again(void **state) {
    (void)state;
    measure_taken m[MOST];
    device_rates r = device_rates_default(1);
    int count = make_samples(m);
    measure_fit(m, count, THREADS, &r);
    for (int k = 0; k < WORK_KINDS; k++) near(r.flops[k], invented.flops[k]);
    near(r.draws, invented.draws);
    near(r.moved, invented.moved);
    near(r.cached, invented.cached);
    near(r.bandwidth, invented.bandwidth);
    near(r.fetched, invented.fetched);
    near(r.call_seconds, invented.call_seconds);
}

/* What was not measured keeps the rate it had. */
static void what_no_sample_tells_stays(void **state) {
    (void)state;
    measure_taken m[MOST];
    int count = make_samples(m);
    for (int i = 0; i < count; i++) m[i].seconds = 0;
    device_rates table = device_rates_default(3), r = table;
    measure_fit(m, count, THREADS, &r);
    assert_memory_equal(&r, &table, sizeof r);
    count = make_samples(m);
    for (int i = 0; i < count; i++)
        if (m[i].of == MEASURE_FETCH || m[i].cost.kind == WORK_CODES) m[i].seconds = 0;
    measure_fit(m, count, THREADS, &r);
    assert_true(r.fetched == table.fetched && r.flops[WORK_CODES] == table.flops[WORK_CODES]);
    near(r.flops[WORK_PRODUCTS_HALF], invented.flops[WORK_PRODUCTS_HALF]);
    near(r.flops[WORK_PRODUCTS], invented.flops[WORK_PRODUCTS]);
    r = table;
    count = make_samples(m);
    for (int i = 0; i < count; i++)
        if (m[i].cost.kind >= WORK_PRODUCTS_HALF) m[i].seconds = 0;
    measure_fit(m, count, THREADS, &r);
    near(r.flops[WORK_PRODUCTS_HALF] / r.flops[WORK_PRODUCTS],
         table.flops[WORK_PRODUCTS_HALF] / table.flops[WORK_PRODUCTS]);
    near(r.flops[WORK_ATTENTION_HALF] / r.flops[WORK_ATTENTION],
         table.flops[WORK_ATTENTION_HALF] / table.flops[WORK_ATTENTION]);
    near(r.flops[WORK_ARITHMETIC_HALF], invented.flops[WORK_ARITHMETIC]);
    near(r.flops[WORK_FUNCTIONS_HALF], invented.flops[WORK_FUNCTIONS]);
}

/* Times that no rates explain give rates all the same: none is negative, none without bound. */
static void odd_times_give_rates(void **state) {
    (void)state;
    measure_taken m[MOST];
    for (int odd = 0; odd < 2; odd++) {
        device_rates r = device_rates_default(1);
        int count = make_samples(m), products = 0;
        for (int i = 0; i < count; i++) {
            double traffic = m[i].cost.reads ? m[i].cost.bytes_read / invented.cached : 0;
            if (m[i].of == MEASURE_PRODUCTS)
                m[i].seconds = odd ? 1e-3 * ++products : m[i].cost.flops / 1e11 + 2e-6 + traffic;
            if (m[i].of == MEASURE_OTHER_PRODUCTS) m[i].seconds = 1e-5; /* less than what is beside them */
            if (m[i].of == MEASURE_MEMORY) m[i].seconds = 1e-5;         /* less than their work */
        }
        measure_fit(m, count, THREADS, &r);
        for (int k = 0; k < WORK_KINDS; k++) assert_true(r.flops[k] > 0 && isfinite(r.flops[k]));
        if (!odd) near(r.flops[WORK_PRODUCTS], 1e11);
        assert_true(r.moved > 0 && isfinite(r.moved));
        near(r.bandwidth, 7e7 / (0.05 * 1e-5)); /* a twentieth of its time is memory's */
        double per_flop = (1 / 1e8 + 1 / 2e8 + 1 / 3e8) * (1e-5 / 3); /* a third of their times counts */
        near(r.flops[WORK_CODES], 3 / per_flop);
    }
}

/* ---- a process that doesn't have its processors ---- */

static void processors_are_bounded(void **state) {
    (void)state;
    available = 8, quota = 0;
    assert_true(measure_processors(3) == 3 && measure_processors(9) == 8);
    quota = 2.5;
    assert_true(measure_processors(3) == 2.5 && measure_processors(2) == 2);
    quota = 100;
    assert_true(measure_processors(100) == 8);
    quota = 0;
    assert_true(measure_is_undisturbed(1, 1.8, 2) && !measure_is_undisturbed(1, 1.79, 2));
}

/* By the clock everything takes what it takes; by the process's own time it had a quarter of the processors,
 * so with all of them it would have taken a quarter. */
static void lost_time_is_no_slow_machine(void **state) {
    (void)state;
    device_rates whole, part;
    measure_result told;
    share = 1, ticking = true;
    must(measure_rates_briefly(1, 20, &whole, &told));
    assert_true(told.samples > 0 && told.disturbed == 0);
    share = 0.25;
    must(measure_rates_briefly(1, 20, &part, &told));
    assert_true(told.disturbed >= told.samples - 2); /* calls are too short to tell */
    double ratio = part.flops[WORK_PRODUCTS] / whole.flops[WORK_PRODUCTS];
    assert_true(ratio > 3.9 && ratio < 4.1);
    ratio = part.bandwidth / whole.bandwidth;
    assert_true(ratio > 3.9 && ratio < 4.1);
    measure_observer o = { .seconds = 0.05 };
    must(measure_rates(1, &o, &part, &told));
    assert_true(told.samples > 0 && told.disturbed >= told.samples - 2);
    share = 1, ticking = false;
}

static void short_is_short_and_small(void **state) {
    (void)state;
    device_rates r;
    measure_result told;
    for (int threads = 1; threads <= 16; threads *= 4) {
        double begin = clock_seconds();
        largest = 0, trimmed = 0;
        must(measure_rates_briefly(threads, 0.3, &r, &told));
        assert_true(clock_seconds() - begin < 0.5);
        assert_true(told.samples >= 18); /* two need a way to empty caches */
        assert_true(largest > 1 << 20 && largest <= measure_brief_bytes(threads));
        assert_true(trimmed > 0);
        for (int k = 0; k < WORK_KINDS; k++) assert_true(r.flops[k] > 1e6 && r.flops[k] < 1e16);
        assert_true(r.bandwidth > 1e6 && r.cached > 1e6 && r.moved > 1e6 && r.draws > 1e5 && r.scale == 1);
    }
    assert_true(measure_brief_bytes(1) <= 4u << 20); /* of tables, beside threads * 256 KiB: device_cpu.c */
    assert_true(measure_brief_bytes(65) - measure_brief_bytes(1) <= (uint64_t)64 << 18);
    must(measure_rates_briefly(2, 0, &r, &told)); /* no time: the table */
    device_rates table = device_rates_default(2);
    assert_int_equal(told.samples, 0);
    assert_memory_equal(r.flops, table.flops, sizeof r.flops);
    assert_true(r.bandwidth == table.bandwidth && r.call_seconds == table.call_seconds);
}

/* Now and then something takes a while, and nobody knows why. */
static void hiccups_do_not_count(void **state) {
    (void)state;
    device_rates even, uneven;
    measure_result told;
    ticking = true;
    must(measure_rates_briefly(1, 20, &even, &told));
    hiccup = 64;
    must(measure_rates_briefly(1, 200, &uneven, &told));
    hiccup = 0, ticking = false;
    assert_true(told.samples >= 18);
    for (int k = 0; k < WORK_KINDS; k++) assert_true(uneven.flops[k] > 0.99 * even.flops[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_found_again),        cmocka_unit_test(what_no_sample_tells_stays),
        cmocka_unit_test(odd_times_give_rates),         cmocka_unit_test(processors_are_bounded),
        cmocka_unit_test(lost_time_is_no_slow_machine), cmocka_unit_test(short_is_short_and_small),
        cmocka_unit_test(hiccups_do_not_count),
    };
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
