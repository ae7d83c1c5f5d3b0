/* Pieces in windows: as best fit decreasing places them when done slowly, never more windows than next fit
 * has, and windows of many pieces no earlier than others. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/fill.h"
#include "io/scratch.h"

enum { MOST = 3000, GUARD = 64 };

typedef struct {
    uint32_t lengths[MOST], count, context;
    uint32_t name[MOST];             /* of each piece: what opened its window */
    uint64_t sum[MOST], first[MOST]; /* of the windows, by that name */
    uint32_t windows;
} slow;
static slow s;

static void slow_next_fit(void) {
    uint64_t room = 0;
    s.windows = 0;
    for (uint32_t i = 0; i < s.count; i++) {
        bool opens = s.lengths[i] > room;
        s.windows += opens;
        s.name[i] = opens ? i : s.name[i - 1];
        room = (opens ? s.context : room) - s.lengths[i];
    }
}

/* Of pieces whose lengths all differ. */
static void slow_best_fit(void) {
    static uint64_t left[MOST];
    static uint32_t when[MOST];
    static bool placed[MOST];
    memset(placed, 0, sizeof placed);
    s.windows = 0;
    for (uint32_t n = 0; n < s.count; n++) {
        uint32_t longest = MOST, best = MOST;
        for (uint32_t i = 0; i < s.count; i++)
            if (!placed[i] && (longest == MOST || s.lengths[i] > s.lengths[longest])) longest = i;
        for (uint32_t i = 0; i < s.count; i++)
            if (placed[i] && s.name[i] == i && left[i] >= s.lengths[longest] &&
                (best == MOST || left[i] < left[best] || (left[i] == left[best] && when[i] > when[best])))
                best = i;
        if (best == MOST) best = longest, left[best] = s.context, s.windows++;
        placed[longest] = true, s.name[longest] = best, left[best] -= s.lengths[longest], when[best] = n;
    }
}

/* Each piece stands in one window, behind those before it; and the lists end where they said. */
static uint32_t check_lists(const fill *f, uint32_t told) {
    static bool seen[MOST];
    uint32_t windows = 0, pieces = 0;
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < s.count; i++) {
        if (f->opens[i] == FILL_NONE) continue;
        windows++;
        s.sum[i] = 0, s.first[i] = f->opens[i];
        bool opener = false;
        for (uint32_t p = f->opens[i], before = 0; p != FILL_NONE; before = p, p = f->next[p]) {
            assert_true(p < s.count && !seen[p] && (p == f->opens[i] || p > before));
            seen[p] = true, pieces++;
            opener |= p == i;
            s.sum[i] += s.lengths[p];
        }
        assert_true(opener && s.sum[i] <= s.context);
    }
    assert_int_equal(windows, told);
    assert_int_equal(pieces, s.count);
    return windows;
}

static uint32_t run(fill *f, void *memory, bool alone) {
    uint64_t bytes = fill_bytes(s.count);
    memset((char *)memory + bytes, 0x5a, GUARD);
    *f = fill_lists(memory, s.count);
    uint32_t told = alone ? fill_alone(f, s.count) : fill_windows(f, s.lengths, s.count, s.context);
    for (int i = 0; i < GUARD; i++) assert_int_equal(((unsigned char *)memory)[bytes + (uint64_t)i], 0x5a);
    return check_lists(f, told);
}

static void compare_names(const fill *f) {
    for (uint32_t i = 0; i < s.count; i++)
        for (uint32_t p = f->opens[i]; p != FILL_NONE; p = f->next[p]) assert_int_equal(s.name[p], i);
}

static void as_it_is_done_slowly(void **state) {
    (void)state;
    uint64_t random = 17, better = 0, same = 0;
    void *memory = malloc(fill_bytes(MOST) + GUARD);
    for (int round = 0; round < 300; round++) {
        fill f;
        s.count = 1 + scratch_random(&random) % (round % 10 ? 40 : 300);
        uint32_t step = 1 + scratch_random(&random) % (round % 3 ? 9 : 70000);
        for (uint32_t i = 0; i < s.count; i++) s.lengths[i] = 1 + i * step + scratch_random(&random) % step;
        for (uint32_t i = s.count; i-- > 1;) {
            uint32_t other = scratch_random(&random) % (i + 1), length = s.lengths[i];
            s.lengths[i] = s.lengths[other], s.lengths[other] = length;
        }
        s.context = s.count * step + 1 + scratch_random(&random) % (s.count * step);
        uint32_t found = run(&f, memory, false);
        slow_best_fit();
        uint32_t best = s.windows;
        slow_next_fit();
        assert_int_equal(found, best < s.windows ? best : s.windows);
        if (best < s.windows) slow_best_fit(), better++;
        same += best >= s.windows;
        compare_names(&f);
    }
    assert_true(better > 100 && same > 10);
    free(memory);
}

/* With like lengths too: no two windows would fit one, but where next fit has as few. */
static void no_window_could_be_spared(void **state) {
    (void)state;
    uint64_t random = 23;
    void *memory = malloc(fill_bytes(MOST) + GUARD);
    for (int round = 0; round < 200; round++) {
        fill f;
        uint64_t all = 0, least = UINT64_MAX, second = UINT64_MAX;
        s.count = 1 + scratch_random(&random) % (round % 10 ? 60 : MOST);
        s.context = 1 + scratch_random(&random) % (round % 2 ? 300 : 70000);
        uint32_t longest = 1 + scratch_random(&random) % s.context;
        for (uint32_t i = 0; i < s.count; i++)
            all += s.lengths[i] = 1 + scratch_random(&random) % (round % 7 ? longest : 1);
        uint32_t found = run(&f, memory, false);
        slow_next_fit();
        assert_true(found <= s.windows && (uint64_t)found * s.context >= all);
        if (found == s.windows) {
            if (found > 1) compare_names(&f);
            continue;
        }
        for (uint32_t i = 0; i < s.count; i++) {
            if (f.opens[i] == FILL_NONE) continue;
            for (uint32_t p = f.opens[i]; p != FILL_NONE; p = f.next[p])
                assert_true(s.lengths[p] <= s.lengths[i]);
            if (s.sum[i] < least)
                second = least, least = s.sum[i];
            else if (s.sum[i] < second)
                second = s.sum[i];
        }
        assert_true(least + second > s.context);
    }
    free(memory);
}

static void alone_each_has_its_own(void **state) {
    (void)state;
    uint64_t random = 3;
    fill f;
    void *memory = malloc(fill_bytes(MOST) + GUARD);
    s.count = 333, s.context = 100;
    for (uint32_t i = 0; i < s.count; i++) s.lengths[i] = 1 + scratch_random(&random) % 100;
    assert_int_equal(run(&f, memory, true), 333);
    for (uint32_t i = 0; i < s.count; i++) assert_true(f.opens[i] == i && f.next[i] == FILL_NONE);
    free(memory);
}

/* How many pieces a window has, and where the piece stands that opened it, have nothing to do with each
 * other, however many lengths are alike. */
static void windows_come_in_no_waves(void **state) {
    (void)state;
    enum { COUNT = 1024, ROUNDS = 60 };
    static const uint32_t kinds[] = { 20, 1000 };
    void *memory = malloc(fill_bytes(MOST) + GUARD);
    for (int k = 0; k < 2; k++) {
        uint64_t random = 5;
        double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
        for (int round = 0; round < ROUNDS; round++) {
            fill f;
            s.count = COUNT, s.context = kinds[k];
            for (uint32_t i = 0; i < COUNT; i++) s.lengths[i] = 1 + scratch_random(&random) % kinds[k];
            run(&f, memory, false);
            for (uint32_t i = 0; i < COUNT; i++) {
                double pieces = 0;
                for (uint32_t p = f.opens[i]; p != FILL_NONE; p = f.next[p]) pieces++;
                if (pieces > 0)
                    n++, x += i, y += pieces, xx += (double)i * i, yy += pieces * pieces, xy += i * pieces;
            }
        }
        double correlation = (n * xy - x * y) / sqrt((n * xx - x * x) * (n * yy - y * y));
        if (fabs(correlation) > 0.03) fail_msg("lengths to %u: %g", kinds[k], correlation);
    }
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_it_is_done_slowly),
        cmocka_unit_test(no_window_could_be_spared),
        cmocka_unit_test(alone_each_has_its_own),
        cmocka_unit_test(windows_come_in_no_waves),
    };
    return cmocka_run_group_tests_name("fill", tests, NULL, NULL);
}
