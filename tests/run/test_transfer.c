/* State in a file whose disk fails: at each call in turn. A run neither hangs nor goes on as if nothing was,
 * and what can't be used is said. The calls of the system go through here (test_transfer.wrap). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"
#include "device/device_file.h"
#include "io/scratch.h"
#include "run/lab.h"

/* ---- a disk that fails, or takes its time ---- */

static atomic_long calls, fails_at = -1;
static atomic_int short_calls, slow;

int __real_posix_fallocate(int file, off_t at, off_t bytes);
int __wrap_posix_fallocate(int file, off_t at, off_t bytes);
ssize_t __real_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __real_pwrite(int file, const void *data, size_t bytes, off_t at);
ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at);

static bool fails(void) {
    if (slow) usleep(500);
    if (calls++ != fails_at) return false;
    errno = EIO;
    return true;
}

/* Half of what was asked for, every other time. */
static size_t shorter(size_t bytes) {
    return short_calls++ % 2 || bytes < 2 * DEVICE_FILE_PAGE
               ? bytes
               : bytes / 2 / DEVICE_FILE_PAGE * DEVICE_FILE_PAGE;
}

ssize_t __wrap_pread(int file, void *data, size_t bytes, off_t at) {
    return fails() ? -1 : __real_pread(file, data, shorter(bytes), at);
}
ssize_t __wrap_pwrite(int file, const void *data, size_t bytes, off_t at) {
    return fails() ? -1 : __real_pwrite(file, data, shorter(bytes), at);
}

static int room_fails; /* with this error; 0: it does not */
int __wrap_posix_fallocate(int file, off_t at, off_t bytes) {
    return room_fails ? room_fails : __real_posix_fallocate(file, at, bytes);
}

/* ---- runs ---- */

static const lab_sizes sizes = {
    .layers = 1, .heads = 2, .channels = 32, .context = 16, .vocabulary = 9001, .batch = 2
};

/* Steps until one fails, or `steps`; returns how many did not. */
static int run_steps(int steps, float *losses, char sentence[256]) {
    lab l;
    plan p;
    exec *e;
    int done = 0;
    lab_open(&l, &sizes);
    compose_choice c = lab_choose(&l, 0, "offload=optimizer");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(&l, &p, e);
    float *loss = exec_persistent(e, "loss");
    for (; done < steps && exec_failed(e) == STATUS_OK; done++) {
        *loss = 0;
        lab_hand_in(&l, e, PROGRAM_STEP, done, 0, sizes.batch);
        exec_run(e, PROGRAM_STEP);
        losses[done] = *loss;
    }
    exec_part part; /* waits for what is still to be written */
    for (uint32_t i = 0; i < p.persistent_count; i++)
        if (p.persistent[i].in_file) (void)exec_view(e, &p.persistent[i], 0, &part);
    status ended = exec_failed(e);
    snprintf(sentence, 256, "%s", ended == STATUS_OK ? "" : status_message());
    exec_close(e);
    plan_close(&p);
    return ended == STATUS_OK ? done : -1;
}

static void failures_are_said(void **state) {
    (void)state;
    float losses[4], again[4];
    char sentence[256];
    assert_int_equal(run_steps(3, losses, sentence), 3);
    long all = calls;
    assert_true(all > 20);
    for (long at = 0; at < all; at += at < 30 ? 1 : 7) {
        calls = 0;
        fails_at = at;
        int done = run_steps(3, again, sentence);
        /* the last calls are the views of the test itself, which get their own status */
        if (done < 0 && !strstr(sentence, "what was moved out of memory cannot be "))
            fail_msg("%ld: %s", at, sentence);
        if (done >= 0 && at < all - 12) fail_msg("call %ld of %ld failed unnoticed", at, all);
    }
    fails_at = -1;
}

static void slow_disks_are_waited_for(void **state) {
    (void)state;
    float losses[4], again[4];
    char sentence[256];
    assert_int_equal(run_steps(4, losses, sentence), 4);
    slow = 1;
    assert_int_equal(run_steps(4, again, sentence), 4);
    slow = 0;
    assert_memory_equal(losses, again, sizeof losses);
}

/* ---- files ---- */

static void folders_are_looked_at(void **state) {
    (void)state;
    device_file f;
    scratch_write("file", "x", 1);
    assert_int_equal(device_file_check("file", 1), STATUS_INVALID);
    assert_int_equal(device_file_check("nowhere", 1), STATUS_INVALID);
    assert_int_equal(device_file_check("host", 1), STATUS_INVALID);
    assert_int_not_equal(device_file_check("/proc", 1), STATUS_OK);
    assert_int_equal(device_file_open(&f, "nowhere", 4096), STATUS_INVALID);
    assert_int_equal(device_file_check(SNUG_BUILD, (uint64_t)1 << 60), STATUS_NO_FIT);
    assert_non_null(strstr(status_message(), "free some space or name another folder"));
    assert_int_not_equal(device_file_open(&f, ".", (uint64_t)1 << 60), STATUS_OK);
}

/* Others may take the room between the plan and the run: then nothing has begun, and no file is left. */
static void a_disk_that_has_become_full_is_said(void **state) {
    (void)state;
    static const struct {
        int error;
        status is;
    } cases[] = { { ENOSPC, STATUS_NO_FIT }, { EDQUOT, STATUS_NO_FIT }, { EFBIG, STATUS_INVALID } };
    lab l;
    plan p;
    lab_open(&l, &sizes);
    compose_choice c = lab_choose(&l, 0, "offload=optimizer");
    l.run.folder = "full";
    mkdir("full", 0700);
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        exec *e = NULL;
        room_fails = cases[i].error;
        assert_int_equal(exec_open(&p, 0, &e), cases[i].is);
        assert_null(e);
        assert_non_null(strstr(status_message(), "free some space or name another folder"));
    }
    room_fails = 0;
    assert_int_equal(rmdir("full"), 0);
    plan_close(&p);
}

static void files_have_no_name(void **state) {
    (void)state;
    enum { BYTES = 4 * DEVICE_FILE_PAGE };
    device_file f;
    char *data = aligned_alloc(DEVICE_FILE_PAGE, BYTES), *zeros = calloc(1, BYTES);
    memset(data, 7, BYTES);
    mkdir("moved", 0700);
    assert_int_equal(device_file_open(&f, "moved", BYTES), STATUS_OK);
    assert_int_equal(rmdir("moved"), 0); /* nothing is in it */
    assert_int_equal(device_file_read(&f, 0, data, BYTES), STATUS_OK);
    assert_memory_equal(data, zeros, BYTES);
    memset(data, 9, BYTES);
    assert_int_equal(device_file_write(&f, DEVICE_FILE_PAGE, data, DEVICE_FILE_PAGE), STATUS_OK);
    memset(data, 0, BYTES);
    assert_int_equal(device_file_read(&f, 0, data, BYTES), STATUS_OK);
    assert_int_equal(data[0] + data[DEVICE_FILE_PAGE] + data[2 * DEVICE_FILE_PAGE - 1], 18);
    device_file_close(&f);
    free(data);
    free(zeros);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_are_said),     cmocka_unit_test(slow_disks_are_waited_for),
        cmocka_unit_test(folders_are_looked_at), cmocka_unit_test(a_disk_that_has_become_full_is_said),
        cmocka_unit_test(files_have_no_name),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
