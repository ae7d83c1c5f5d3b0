/* Room is looked for before a run begins: with the numbers of the system taken over. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/statvfs.h>

#include "device/device.h"
#include "io/scratch.h"
#include "train/room.h"

static uint64_t memory_left, disk_left;

uint64_t __wrap_device_available(void);
uint64_t __wrap_device_available(void) { return memory_left; }

int __wrap_statvfs(const char *path, struct statvfs *about);
int __wrap_statvfs(const char *path, struct statvfs *about) {
    assert_string_equal(path, "here"); /* the nearest folder that is there */
    *about = (struct statvfs){ .f_blocks = 1, .f_bavail = disk_left, .f_frsize = 1 };
    return 0;
}

static setup s;
static decision d;

static void look(status expected, const char *says) {
    resume from = { .step = 0 };
    assert_int_equal(room_check(&s, &d, &from), expected);
    if (expected != STATUS_OK && !strstr(status_message(), says))
        fail_msg("nothing of '%s' in: %s", says, status_message());
}

static void memory_must_be_there(void **state) {
    (void)state;
    disk_left = UINT32_MAX;
    uint64_t taken = device_resident();
    memory_left = d.plan.peak_bytes;
    look(STATUS_OK, "");
    memory_left = d.plan.peak_bytes > taken + (1 << 20) ? d.plan.peak_bytes - taken - (1 << 20) : 0;
    if (d.plan.peak_bytes > taken) look(STATUS_NO_FIT, "its control group has");
}

static void the_disk_must_have_room(void **state) {
    (void)state;
    resume from = { .step = 0 };
    uint64_t one, three, all;
    memory_left = UINT32_MAX;
    s.options.keep = 1;
    assert_int_equal(room_disk_bytes(&s, &d, &from, &one), STATUS_OK);
    s.options.keep = 3;
    assert_int_equal(room_disk_bytes(&s, &d, &from, &three), STATUS_OK);
    s.options.keep = 1000; /* never more than are made */
    assert_int_equal(room_disk_bytes(&s, &d, &from, &all), STATUS_OK);
    uint64_t weights = 0, state_bytes = 0;
    for (uint32_t i = 0; i < d.plan.persistent_count; i++) {
        const plan_persistent *x = &d.plan.persistent[i];
        uint64_t bytes = (uint64_t)shape_elements(&x->shape) * dtype_bytes(x->dtype);
        if (x->category == CATEGORY_WEIGHTS) weights += bytes;
        if (x->category == CATEGORY_OPTIMIZER) state_bytes += bytes;
    }
    assert_true(one >= weights + 2 * (weights + state_bytes));
    assert_true(one < weights + 2 * (weights + state_bytes) + (200 << 10));
    assert_true(three - one >= 2 * (weights + state_bytes) &&
                three - one < 2 * (weights + state_bytes + (60 << 10)));
    assert_true(all > three && all < 13 * (weights + state_bytes + (60 << 10)));
    s.options.keep = 1;
    disk_left = one;
    look(STATUS_OK, "");
    disk_left = one - 1;
    look(STATUS_NO_FIT, "free some space, or choose a smaller --keep or another --out");
    s.options.out = NULL; /* nothing is written */
    look(STATUS_OK, "");
}

static int open_run(void **state) {
    int failed = scratch_open(state);
    if (failed) return failed;
    setup_options o = setup_defaults();
    o.model = "char-small", o.out = "here/a/b", o.steps = 10, o.save_every = 1, o.batch = 1, o.context = 16;
    o.threads = 1;
    if (mkdir("here", 0700) != 0) return -1;
    return setup_open(&o, NULL, &s) == STATUS_OK && decision_make(&s, &d) == STATUS_OK ? 0 : -1;
}

static int close_run(void **state) {
    decision_close(&d);
    setup_close(&s);
    return scratch_close(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_must_be_there),
        cmocka_unit_test(the_disk_must_have_room),
    };
    return cmocka_run_group_tests_name("room", tests, open_run, close_run);
}
