/* Lanes against a simulation that shares nothing with them: moment by moment, each lane does the first of
 * what it was given, if that may begin. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/scratch.h"
#include "lower/lanes.h"

enum { MOST = 40, LANES = LANE_COUNT };

/* Work in whole moments, which doubles hold exactly. */
typedef struct {
    device_lane lane;
    int waits_for; /* earlier work; -1: nothing */
    int moments, done_at;
} work;

static void draw(work *w, int count, uint64_t *seed) {
    for (int i = 0; i < count; i++)
        w[i] = (work){ .lane = (device_lane)(scratch_random(seed) % LANES),
                       .waits_for =
                           i && scratch_random(seed) % 3 ? (int)(scratch_random(seed) % (uint32_t)i) : -1,
                       .moments = (int)(scratch_random(seed) % 5),
                       .done_at = -1 };
}

/* The first work of a lane that is not done; -1: it has none. */
static int first_of(const work *w, int count, int which) {
    for (int i = 0; i < count; i++)
        if (w[i].lane == (device_lane)which && w[i].done_at < 0) return i;
    return -1;
}

static bool may_go_on(const work *w, int i) { return w[i].waits_for < 0 || w[w[i].waits_for].done_at >= 0; }

/* Ends all work of no length that may be done at this moment, whichever lane it is in. */
static void end_what_is_over(work *w, int count, int now, int *left) {
    for (bool any = true; any;) {
        any = false;
        for (int which = 0; which < LANES; which++) {
            int i = first_of(w, count, which);
            if (i < 0 || left[i] || !may_go_on(w, i)) continue;
            w[i].done_at = now;
            any = true;
        }
    }
}

static void simulate(work *w, int count) {
    int left[MOST];
    for (int i = 0; i < count; i++) left[i] = w[i].moments;
    for (int now = 0; now < MOST * 5; now++) {
        end_what_is_over(w, count, now, left);
        for (int which = 0; which < LANES; which++) {
            int i = first_of(w, count, which);
            if (i >= 0 && may_go_on(w, i)) left[i]--;
        }
    }
}

static void done_when_a_simulation_says_so(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 2000; round++) {
        work w[MOST];
        double event[MOST];
        lanes l = { 0 };
        int count = 1 + (int)(scratch_random(&seed) % MOST);
        draw(w, count, &seed);
        simulate(w, count);
        for (int i = 0; i < count; i++) {
            double after = w[i].waits_for < 0 ? 0 : event[w[i].waits_for];
            event[i] = lanes_add(&l, w[i].lane, after, w[i].moments);
            assert_true(w[i].done_at >= 0);
            assert_int_equal((int)event[i], w[i].done_at);
        }
        lanes before = l;
        lanes_pass(&l, 3);
        for (int which = 0; which < LANES; which++) assert_true(l.free[which] - before.free[which] == 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(done_when_a_simulation_says_so) };
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
