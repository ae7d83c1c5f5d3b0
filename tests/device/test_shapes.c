/* What single calls were measured to take on a GPU: which shapes count as alike, what lies between two of
 * them, and what multiprocessors without a block make of a launch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/device_shapes.h"
#include "device/launches.h"

static const double TILE = 2.0 * 64 * 64; /* arithmetic of a tile, for each of its depths */

static device_shape product(double tiles, double depth, double seconds) {
    return (device_shape){ .tiles = tiles, .flops = tiles * TILE * depth, .seconds = seconds };
}

static device_shapes of(int multiprocessors, const device_shape *x, int count) {
    device_shapes s = { .multiprocessors = multiprocessors };
    for (int i = 0; i < count; i++) device_shapes_add(&s, &x[i]);
    return s;
}

static double asked(const device_shapes *s, double tiles, double depth) {
    device_shape x = product(tiles, depth, 0);
    return device_shapes_seconds(s, &x);
}

static void near(double a, double b) {
    if (fabs(a - b) > 1e-9 * fabs(b)) fail_msg("%.12g, not %.12g", a, b);
}

/* Ten multiprocessors: up to ten tiles take what one takes, and eleven take what twenty take. */
static void waves_decide(void **state) {
    (void)state;
    device_shape x[] = { product(10, 100, 1), product(100, 100, 8) };
    device_shapes s = of(10, x, 2);
    near(asked(&s, 10, 100), 1), near(asked(&s, 1, 100), 1), near(asked(&s, 7, 100), 1);
    near(asked(&s, 100, 100), 8), near(asked(&s, 91, 100), 8);
    assert_true(asked(&s, 11, 100) == asked(&s, 20, 100));
    near(asked(&s, 20, 100), pow(8, log(2) / log(10)));
    near(asked(&s, 20, 100), asked(&s, 10, 200)); /* as much arithmetic of one multiprocessor */
    near(asked(&s, 200, 100), 16), near(asked(&s, 100, 400), 32);
    near(asked(&s, 1, 10), 1); /* below all that was measured */
}

/* Another type, kernel or kind of work says nothing; a library's does not ask how snug multiplies. */
static void only_what_is_alike_counts(void **state) {
    (void)state;
    device_shape x = product(100, 100, 8), other;
    device_shapes s = of(10, &x, 1);
    near(device_shapes_seconds(&s, &x), 8);
    other = x, other.half = true;
    assert_true(device_shapes_seconds(&s, &other) == 0);
    other = x, other.tensor = true;
    assert_true(device_shapes_seconds(&s, &other) == 0);
    other = x, other.by_library = true;
    assert_true(device_shapes_seconds(&s, &other) == 0);
    other = x, other.work = DEVICE_ATTENTION;
    assert_true(device_shapes_seconds(&s, &other) == 0);
    x.by_library = true, x.seconds = 3;
    device_shapes_add(&s, &x);
    other = x, other.tensor = true;
    near(device_shapes_seconds(&s, &other), 3);
    device_shape none = { 0 };
    assert_true(device_shapes_seconds(&s, &none) == 0);
}

/* A shape that leaves multiprocessors idle does not say what a full GPU takes. */
static void what_is_too_small_says_nothing(void **state) {
    (void)state;
    device_shape x[] = { product(1, 32, 1), product(10, 100, 2) };
    device_shapes s = of(10, x, 1);
    assert_true(asked(&s, 1, 32) == 0 && asked(&s, 1000, 1000) == 0);
    device_shapes_add(&s, &x[1]);
    near(asked(&s, 1, 32), 1), near(asked(&s, 100, 100), 20);
}

/* Never less for more, whatever was measured. */
static void seconds_never_fall(void **state) {
    (void)state;
    uint32_t random = 7;
    for (int round = 0; round < 200; round++) {
        device_shapes s = { .multiprocessors = 1 + round % 40 };
        for (int i = 0; i < 3 + round % 9; i++) {
            random = random * 1664525u + 1013904223u;
            device_shape x = product(1 + (random >> 8) % 3000, 16 << (random >> 5) % 8,
                                     1e-6 * (1 + (random >> 12) % 1000));
            device_shapes_add(&s, &x);
        }
        double before = 0;
        for (double tiles = 1; tiles < 1e5; tiles *= 1.3) {
            double now = asked(&s, floor(tiles), 256);
            assert_true(now >= before * (1 - 1e-12));
            before = now;
        }
    }
}

static void there_is_an_end_of_them(void **state) {
    (void)state;
    device_shapes s = { .multiprocessors = 1 };
    device_shape x = product(4, 100, 1);
    for (int i = 0; i < 2 * DEVICE_SHAPES; i++) device_shapes_add(&s, &x);
    assert_int_equal(s.count, DEVICE_SHAPES);
}

/* ---- launches ---- */

static double stretch_of(unsigned multiprocessors, uint64_t blocks, uint64_t threads) {
    launches l = { .multiprocessors = multiprocessors };
    launches_begin(&l);
    assert_true(launches_note(blocks, threads));
    launches_end();
    assert_int_equal(l.count, 1);
    return launches_stretch(&l);
}

static void the_last_wave_is_waited_for(void **state) {
    (void)state;
    near(stretch_of(10, 10, 256), 1), near(stretch_of(10, 1, 256), 10), near(stretch_of(10, 5, 1024), 2);
    near(stretch_of(10, 11, 256), 20.0 / 11), near(stretch_of(10, 1001, 256), 1010.0 / 1001);
    near(stretch_of(10, 10, 64), 2); /* few threads wait for each other */
    near(stretch_of(10, 40, 64), 1); /* unless other blocks are beside them */
    near(stretch_of(0, 1, 256), 1);  /* nobody knows the GPU */
    near(stretch_of(10, 0, 256), 1);
}

static void launches_add_up(void **state) {
    (void)state;
    launches l = { .multiprocessors = 10 };
    assert_false(launches_note(1, 1)); /* nobody is told */
    assert_null(launches_told());
    launches_begin(&l);
    assert_ptr_equal(launches_told(), &l);
    launches_note(100, 256), launches_note(1, 256);
    launches_end();
    assert_null(launches_told());
    assert_int_equal(l.count, 2);
    near(launches_stretch(&l), 110.0 / 101);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves_decide),
        cmocka_unit_test(only_what_is_alike_counts),
        cmocka_unit_test(what_is_too_small_says_nothing),
        cmocka_unit_test(seconds_never_fall),
        cmocka_unit_test(there_is_an_end_of_them),
        cmocka_unit_test(the_last_wave_is_waited_for),
        cmocka_unit_test(launches_add_up),
    };
    return cmocka_run_group_tests_name("shapes", tests, NULL, NULL);
}
