/* Saving while the disk fails: at every byte, and at every call that changes the folder. Whatever happens,
 * the checkpoint before is as it was, and what is named a checkpoint is whole. The calls of the system go
 * through here (test_checkpoint.wrap). */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/scratch.h"
#include "run/weights.h"
#include "train/checkpoint.h"

/* ---- a disk that fails ---- */

static struct {
    bool armed;
    uint64_t room, written; /* bytes that still can be written; that were */
    long fails_at, call;    /* number of the call that fails, from 0; -1: none */
} disk = { .fails_at = -1 };

ssize_t __real_write(int file, const void *data, size_t bytes);
int __real_rename(const char *from, const char *to);
int __real_mkdir(const char *path, mode_t mode);
int __real_unlink(const char *path);
ssize_t __wrap_write(int file, const void *data, size_t bytes);
int __wrap_fsync(int file);
int __wrap_rename(const char *from, const char *to);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_unlink(const char *path);

ssize_t __wrap_write(int file, const void *data, size_t bytes) {
    if (!disk.armed) return __real_write(file, data, bytes);
    uint64_t left = disk.room - disk.written;
    if (bytes && !left) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t n = __real_write(file, data, bytes < left ? bytes : (size_t)left);
    if (n > 0) disk.written += (uint64_t)n;
    return n;
}

static bool fails(void) {
    if (!disk.armed || disk.fails_at < 0 || disk.call++ != disk.fails_at) return false;
    errno = EIO;
    return true;
}

int __wrap_fsync(int file) { /* nothing is waited for: what is tested is order and outcome */
    (void)file;
    return fails() ? -1 : 0;
}
int __wrap_rename(const char *from, const char *to) { return fails() ? -1 : __real_rename(from, to); }
int __wrap_mkdir(const char *path, mode_t mode) { return fails() ? -1 : __real_mkdir(path, mode); }
int __wrap_unlink(const char *path) { return fails() ? -1 : __real_unlink(path); }

/* ---- a small run ---- */

typedef struct {
    setup s;
    decision d;
    exec *e;
    identity run;
} small;

static void open_small(small *x) {
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 8}\n";
    scratch_write("config.json", config, sizeof config - 1);
    setup_options o = setup_defaults();
    o.model = "config.json", o.out = "out", o.keep = 2, o.batch = 1, o.threads = 1;
    *x = (small){ 0 };
    assert_int_equal(setup_open(&o, NULL, &x->s), STATUS_OK);
    assert_int_equal(decision_make(&x->s, &x->d), STATUS_OK);
    assert_int_equal(exec_open(&x->d.plan, 0, &x->e), STATUS_OK);
    assert_int_equal(weights_initialise(x->e, &x->s.model, 7), STATUS_OK);
}

static void close_small(small *x) {
    exec_close(x->e);
    decision_close(&x->d);
    setup_close(&x->s);
}

static status save(small *x, int64_t step) { return checkpoint_save(x->e, &x->s, &x->d, &x->run, step); }

/* What is named a checkpoint is whole; returns the newest. */
static int64_t check_all(void) {
    int64_t *steps, newest = 0;
    uint32_t count;
    trainer_state t;
    assert_int_equal(checkpoint_folder_list("out", &steps, &count), STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        char folder[CHECKPOINT_PATH_BYTES];
        assert_int_equal(checkpoint_folder_name("out", steps[i], folder), STATUS_OK);
        if (checkpoint_verify(folder, &t) != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(t.step, steps[i]);
        if (steps[i] > newest) newest = steps[i];
    }
    memory_free(steps);
    return newest;
}

static void begin(small *x) {
    assert_int_equal(system("rm -rf out"), 0);
    assert_int_equal(io_make_folder("out"), STATUS_OK);
    assert_int_equal(save(x, 1), STATUS_OK);
}

static void full_at_every_byte(void **state) {
    (void)state;
    small x;
    open_small(&x);
    begin(&x);
    status result = STATUS_FAILED;
    uint64_t room = 0;
    for (; result != STATUS_OK; room++) {
        disk.armed = true, disk.room = room, disk.written = 0;
        result = save(&x, 2);
        disk.armed = false;
        if (result == STATUS_OK) break;
        assert_int_equal(result, STATUS_FAILED);
        assert_non_null(strstr(status_message(), "free some space"));
        assert_int_equal(check_all(), 1);
        assert_int_equal(access("out/checkpoint-2.partial", F_OK), -1);
    }
    assert_int_equal(check_all(), 2);
    assert_true(room > 5000);
    print_message("%llu bytes of room did\n", (unsigned long long)room);
    close_small(&x);
}

/* Also replacing and removing: step 3 exists already, and one of the older two goes. */
static void failing_at_every_call(void **state) {
    (void)state;
    small x;
    open_small(&x);
    bool reached = true;
    long call = 0;
    for (; reached; call++) {
        begin(&x);
        assert_int_equal(save(&x, 2), STATUS_OK);
        assert_int_equal(save(&x, 3), STATUS_OK);
        disk.armed = true, disk.room = UINT64_MAX, disk.written = 0, disk.call = 0, disk.fails_at = call;
        status result = save(&x, 3);
        reached = disk.call > call;
        disk.armed = false, disk.fails_at = -1;
        assert_true(result == STATUS_OK || result == STATUS_FAILED);
        assert_true(check_all() >= 2);
        assert_int_equal(checkpoint_folder_clean("out"), STATUS_OK);
        assert_int_equal(save(&x, 4), STATUS_OK); /* and the next save is as good as ever */
        assert_int_equal(check_all(), 4);
    }
    assert_true(call > 15);
    print_message("%ld calls can fail\n", call);
    close_small(&x);
}

static uint32_t how_many(void) {
    int64_t *steps;
    uint32_t count;
    assert_int_equal(checkpoint_folder_list("out", &steps, &count), STATUS_OK);
    memory_free(steps);
    return count;
}

/* Older ones go, or it is said that they can't. */
static void removing_is_done_or_said(void **state) {
    (void)state;
    small x;
    open_small(&x);
    bool reached = true;
    for (long call = 0; reached; call++) {
        begin(&x);
        for (int64_t step = 2; step <= 4; step++) {
            char path[CHECKPOINT_PATH_BYTES];
            assert_int_equal(checkpoint_folder_begin("out", step, path), STATUS_OK);
            assert_int_equal(checkpoint_folder_commit("out", step), STATUS_OK);
        }
        disk.armed = true, disk.room = UINT64_MAX, disk.written = 0, disk.call = 0, disk.fails_at = call;
        status result = checkpoint_folder_keep("out", 4, 2);
        reached = disk.call > call;
        disk.armed = false, disk.fails_at = -1;
        if (result == STATUS_OK) assert_int_equal(how_many(), 2);
        if (!reached) assert_int_equal(result, STATUS_OK);
    }
    close_small(&x);
}

/* Not one byte of a checkpoint can change unseen. */
static void every_byte_counts(void **state) {
    (void)state;
    static const char *const files[] = { "model.safetensors", "optimizer.safetensors", "trainer_state.json" };
    small x;
    trainer_state t;
    open_small(&x);
    begin(&x);
    for (int i = 0; i < 3; i++) {
        char path[96];
        static char data[1 << 16];
        snprintf(path, sizeof path, "out/checkpoint-1/%s", files[i]);
        FILE *file = fopen(path, "r+b");
        size_t bytes = fread(data, 1, sizeof data, file);
        assert_true(bytes > 100 && bytes < sizeof data);
        for (size_t k = 0; k < bytes; k++) {
            unsigned char changed = (unsigned char)(data[k] ^ (1 << k % 8));
            pwrite(fileno(file), &changed, 1, (off_t)k);
            if (checkpoint_verify("out/checkpoint-1", &t) != STATUS_INVALID) {
                bool spaces = i == 2 && k + 20 > bytes; /* after the digest nothing has a meaning */
                if (!spaces) fail_msg("%s: byte %zu of %zu does not count", path, k, bytes);
            }
            pwrite(fileno(file), &data[k], 1, (off_t)k);
        }
        fclose(file);
        assert_int_equal(checkpoint_verify("out/checkpoint-1", &t), STATUS_OK);
    }
    close_small(&x);
}

int main(void) {
    if (access("/dev/shm", W_OK) == 0)
        strcpy(scratch_path, "/dev/shm/snug-test-XXXXXX"); /* thousands of saves */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_at_every_byte),
        cmocka_unit_test(failing_at_every_call),
        cmocka_unit_test(removing_is_done_or_said),
        cmocka_unit_test(every_byte_counts),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, scratch_open, scratch_close);
}
