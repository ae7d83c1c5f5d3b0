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

#include "base/memory.h"
#include "base/threads.h"
#include "device/device_file.h"
#include "io/scratch.h"
#include "oracle/reach.h"
#include "run/lab.h"
#include "run/weights.h"

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

static status view(exec *e, const plan_persistent *x, uint64_t first, exec_part *part) {
    exec_value value = exec_state_of(e, x);
    return exec_view(e, &value, first, part);
}

static const lab_sizes sizes = {
    .layers = 1, .heads = 2, .channels = 32, .context = 16, .vocabulary = 9001, .batch = 2
};

static bool looks; /* each step looks for what is not finite, as one does after a step that was not */

static void run_step(exec *e) {
    exec_fault fault;
    if (looks)
        assert_false(exec_find_fault(e, reach_program(e->plan, "step"), &fault));
    else
        reach_run(e, "step");
}

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
        lab_hand_in(&l, e, "step", done, 0, sizes.batch);
        run_step(e);
        losses[done] = *loss;
    }
    exec_part part;
    for (uint32_t i = 0; i < p.persistent_count; i++)
        /* waits for what is still to be written; exec_failed says how that went */
        if (p.persistent[i].pool == POOL_FILE) STATUS_IGNORED(view(e, &p.persistent[i], 0, &part));
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

/* Of what could not be moved nothing is given any more, for reading or for filling, also where it is asked
 * for as a weight. */
static void after_a_failure_nothing_is_given(void **state) {
    (void)state;
    lab l;
    plan p;
    exec *e;
    model_weight *weights;
    uint32_t count;
    int in_file = 0;
    lab_open(&l, &sizes);
    compose_choice c = lab_choose(&l, 0, "precision=mixed-bf16 offload=optimizer+master");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(&l, &p, e);
    assert_int_equal(exec_weights(e, &weights, &count), STATUS_OK);
    for (int failed = 0; failed < 2; failed++) {
        status expected = failed ? STATUS_FAILED : STATUS_OK;
        for (uint32_t i = 0; i < p.persistent_count; i++) {
            exec_part part;
            if (p.persistent[i].pool != POOL_FILE) continue;
            exec_value value = exec_state_of(e, &p.persistent[i]);
            assert_int_equal(exec_room(e, &value, 0, &part), expected);
            assert_int_equal(exec_view(e, &value, 0, &part), expected);
        }
        for (uint32_t i = 0; i < count; i++) {
            void *data;
            uint64_t bytes;
            if (weights[i].side_by_side) continue; /* in memory */
            in_file++;
            assert_int_equal(weights[i].parts->room(e, weights[i].which, 0, &data, &bytes), expected);
            assert_int_equal(weights[i].parts->view(e, weights[i].which, 0, &data, &bytes), expected);
        }
        calls = 0;
        fails_at = 3;
        lab_hand_in(&l, e, "step", 0, 0, sizes.batch);
        reach_run(e, "step");
        fails_at = -1;
    }
    assert_true(in_file > 0);
    memory_free(weights);
    exec_close(e);
    plan_close(&p);
}

/* Weights that are kept in the file are filled there, or it is said that they could not be. */
static void weights_that_are_not_filled_are_said(void **state) {
    (void)state;
    bool reached = true;
    lab l;
    plan p;
    lab_open(&l, &sizes);
    compose_choice c = lab_choose(&l, 0, "precision=mixed-bf16 offload=optimizer+master");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    long at = 0;
    for (; reached; at++) {
        exec *e;
        assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
        calls = 0;
        fails_at = at;
        status result = weights_initialise(e, &l.model, 7);
        reached = calls > at;
        fails_at = -1;
        assert_int_equal(result, reached ? STATUS_FAILED : STATUS_OK);
        exec_close(e);
    }
    assert_true(at > 1);
    plan_close(&p);
}

/* Who looks for a fault reads what is in the file as a step does. */
static void faults_are_looked_for_in_the_same_state(void **state) {
    (void)state;
    float losses[3], again[3];
    char sentence[256];
    assert_int_equal(run_steps(3, losses, sentence), 3);
    looks = true;
    int done = run_steps(3, again, sentence);
    looks = false;
    assert_int_equal(done, 3);
    assert_memory_equal(losses, again, sizeof losses);
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

/* ---- state as the host sees it ---- */

/* Embeddings larger than what passes at a time. */
static const lab_sizes wide = {
    .layers = 1, .heads = 2, .channels = 32, .context = 16, .vocabulary = 60001, .batch = 2
};

/* All bytes of a persistent tensor, in as many parts as it comes in; returns how many. */
static int read_all_parts(exec *e, const plan_persistent *x, char *to, uint64_t bytes) {
    exec_part part;
    int parts = 0;
    for (uint64_t done = 0; done < bytes; done += part.bytes, parts++) {
        assert_int_equal(view(e, x, done, &part), STATUS_OK);
        assert_true(part.bytes > 0 && part.bytes <= bytes - done);
        memcpy(to + done, part.data, part.bytes);
    }
    return parts;
}

static uint64_t bytes_of(const plan_persistent *x) {
    return (uint64_t)shape_elements(&x->shape) * dtype_bytes(x->dtype);
}

/* Bytes of their own at every place, and never twice the same within a file. */
static char pattern(uint32_t which, uint64_t at) {
    uint64_t x = (at / 8 + 1) * 0x9e3779b97f4a7c15u + which * 0xff51afd7ed558ccdu;
    return (char)(x >> 8 * (at % 8));
}

/* What is put in part by part is viewed so, and by others than the first as well; one tensor's parts leave
 * another's alone. */
static void parts_are_where_they_belong(void **state) {
    (void)state;
    lab l;
    plan p;
    exec *e;
    lab_open(&l, &wide);
    compose_choice c = lab_choose(&l, 0, "offload=optimizer");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    int most = 0, in_file = 0;
    for (int round = 0; round < 2; round++) /* all are put before any is viewed */
        for (uint32_t i = 0; i < p.persistent_count; i++) {
            const plan_persistent *x = &p.persistent[i];
            exec_value value = exec_state_of(e, x);
            uint64_t bytes = x->pool == POOL_FILE ? bytes_of(x) : 0;
            exec_part part;
            for (uint64_t done = 0; done < bytes && round == 0; done += part.bytes) {
                assert_int_equal(exec_room(e, &value, done, &part), STATUS_OK);
                for (uint64_t k = 0; k < part.bytes; k++) ((char *)part.data)[k] = pattern(i, done + k);
                assert_int_equal(exec_put(e, &value, done, &part), STATUS_OK);
            }
            if (!bytes || round == 0) continue;
            char *all = malloc(bytes);
            int parts = read_all_parts(e, x, all, bytes);
            for (uint64_t k = 0; k < bytes; k++)
                if (all[k] != pattern(i, k))
                    fail_msg("'%s': byte %llu is another", x->name, (unsigned long long)k);
            free(all);
            most = parts > most ? parts : most, in_file++;
        }
    assert_true(most > 1 && in_file > 2);
    exec_close(e);
    plan_close(&p);
}

/* After steps, state in a file is bit for bit what it is in memory. */
static void state_in_a_file_is_the_same(void **state) {
    (void)state;
    static const char *const settings[] = { "", "offload=optimizer" };
    lab l;
    plan p[2];
    exec *e[2];
    lab_open(&l, &wide);
    for (int k = 0; k < 2; k++) {
        compose_choice c = lab_choose(&l, 0, settings[k]);
        assert_int_equal(compose_plan(&l.run, &c, &p[k]), STATUS_OK);
        assert_int_equal(exec_open(&p[k], 0, &e[k]), STATUS_OK);
        lab_fill_weights(&l, &p[k], e[k]);
        for (int step = 0; step < 3; step++) {
            *(float *)exec_persistent(e[k], "loss") = 0;
            lab_hand_in(&l, e[k], "step", step, 0, wide.batch);
            reach_run(e[k], "step");
        }
    }
    int compared = 0;
    for (uint32_t i = 0; i < p[1].persistent_count; i++) {
        const plan_persistent *x = &p[1].persistent[i], *y = plan_find(&p[0], x->name);
        if (x->pool != POOL_FILE) continue;
        uint64_t bytes = bytes_of(x);
        char *moved = malloc(bytes), *kept = malloc(bytes);
        read_all_parts(e[1], x, moved, bytes);
        assert_int_equal(read_all_parts(e[0], y, kept, bytes), 1);
        if (memcmp(moved, kept, bytes) != 0) fail_msg("'%s' is another in the file", x->name);
        free(moved), free(kept);
        compared++;
    }
    assert_true(compared > 2);
    for (int k = 0; k < 2; k++) exec_close(e[k]), plan_close(&p[k]);
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
        cmocka_unit_test(weights_that_are_not_filled_are_said),
        cmocka_unit_test(faults_are_looked_for_in_the_same_state),
        cmocka_unit_test(after_a_failure_nothing_is_given),
        cmocka_unit_test(failures_are_said),
        cmocka_unit_test(slow_disks_are_waited_for),
        cmocka_unit_test(folders_are_looked_at),
        cmocka_unit_test(a_disk_that_has_become_full_is_said),
        cmocka_unit_test(files_have_no_name),
        cmocka_unit_test(parts_are_where_they_belong),
        cmocka_unit_test(state_in_a_file_is_the_same),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
