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
#include "io/safetensors.h"
#include "io/scratch.h"
#include "run/weights.h"
#include "train/checkpoint.h"
#include "train/resume.h"

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

/* Of a model whose widest values are `width` and `vocabulary`, with one technique pinned (NULL: none). */
static void open_with(small *x, int width, int vocabulary, const char *technique, const char *setting) {
    char config[256];
    int bytes = snprintf(config, sizeof config,
                         "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": %d, "
                         "\"n_positions\": 8, \"vocab_size\": %d}\n",
                         width, vocabulary);
    scratch_write("config.json", config, (size_t)bytes);
    setup_options o = setup_defaults();
    o.model = "config.json", o.out = "out", o.keep = 2, o.batch = 1, o.threads = 1;
    for (int i = 0; technique && pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, technique) == 0) o.passes[i] = setting;
    if (technique && strcmp(technique, "offload") == 0) o.folder = "/tmp"; /* no disk in memory */
    *x = (small){ 0 };
    if (setup_open(&o, NULL, &x->s) != STATUS_OK || decision_make(&x->s, &x->d) != STATUS_OK)
        fail_msg("%s", status_message());
    assert_int_equal(exec_open(&x->d.plan, 0, &x->e), STATUS_OK);
    assert_int_equal(weights_initialise(x->e, &x->s.model, 7), STATUS_OK);
}

static void open_small(small *x) { open_with(x, 4, 8, NULL, NULL); }

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
        static const char *const beside[] = { "config.json", "generation_config.json" };
        for (size_t k = 0; k < 2; k++) { /* a model's folder, as others read it */
            char path[CHECKPOINT_PATH_BYTES + 32];
            snprintf(path, sizeof path, "%s/%s", folder, beside[k]);
            if (access(path, F_OK) != 0) fail_msg("there is no %s", path);
        }
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

/* A folder that can't be made is that, and no lock that can't be taken. */
static void a_folder_that_is_not_made_is_named(void **state) {
    (void)state;
    small x;
    resume r = { .lock.file = -1 };
    open_small(&x);
    assert_int_equal(system("rm -rf out"), 0);
    disk.armed = true, disk.room = UINT64_MAX, disk.written = 0, disk.call = 0, disk.fails_at = 0;
    status result = resume_claim(&x.s, &r);
    disk.armed = false, disk.fails_at = -1;
    assert_int_not_equal(result, STATUS_OK);
    if (!strstr(status_message(), "make the folder out")) fail_msg("'%s'", status_message());
    resume_close(&r);
    close_small(&x);
}

/* Only what this program writes is the name of one: also that of step 0, but no number with zeros before it.
 */
static void names_are_as_they_are_written(void **state) {
    (void)state;
    static const char *const folders[] = { "out/checkpoint-0", "out/checkpoint-00", "out/checkpoint-07",
                                           "out/checkpoint-" };
    int64_t *steps;
    uint32_t count;
    assert_int_equal(system("rm -rf out"), 0);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(io_make_folder(folders[i]), STATUS_OK);
    assert_int_equal(checkpoint_folder_list("out", &steps, &count), STATUS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(steps[0], 0);
    memory_free(steps);
}

/* What an earlier save has left, and can't be removed, does not become part of a checkpoint. */
static void what_is_left_is_not_kept(void **state) {
    (void)state;
    small x;
    open_small(&x);
    begin(&x);
    assert_int_equal(io_make_folder("out/checkpoint-2.partial/stray"), STATUS_OK);
    assert_int_not_equal(save(&x, 2), STATUS_OK);
    assert_int_equal(check_all(), 1);
    assert_int_equal(rmdir("out/checkpoint-2.partial/stray"), 0);
    assert_int_equal(save(&x, 2), STATUS_OK);
    close_small(&x);
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

/* Of several that share the work each file is looked at by one of them. */
static void each_file_is_looked_at_once(void **state) {
    (void)state;
    enum { PARTS = 3 };
    static const char *const files[] = { "out/checkpoint-1/model.safetensors",
                                         "out/checkpoint-1/optimizer.safetensors" };
    small x;
    trainer_state t;
    open_small(&x);
    begin(&x);
    for (int i = 0; i < 2; i++) {
        int seen = 0;
        FILE *file = fopen(files[i], "r+b");
        assert_non_null(file);
        int was = fgetc(file);
        assert_int_equal(pwrite(fileno(file), "?", 1, 0), 1);
        assert_int_equal(checkpoint_read("out/checkpoint-1", &t), STATUS_OK);
        for (int part = 0; part < PARTS; part++)
            seen += checkpoint_verify_part("out/checkpoint-1", &t, part, PARTS) == STATUS_INVALID;
        assert_int_equal(seen, 1);
        char byte = (char)was;
        assert_int_equal(pwrite(fileno(file), &byte, 1, 0), 1);
        fclose(file);
    }
    close_small(&x);
}

/* Byte k of a state, of numbers that are finite in every type. */
static char byte_of(uint64_t k) { return (char)(1 + k % 59); }

/* Writes all state, or compares it with what was written; returns how many values are of one byte. */
static int each_value(small *x, bool compare, bool zeros) {
    static char data[1 << 16];
    int single = 0;
    for (uint32_t i = 0; i < x->d.plan.persistent_count; i++) {
        const plan_persistent *p = &x->d.plan.persistent[i];
        if (p->category != CATEGORY_WEIGHTS && p->category != CATEGORY_OPTIMIZER) continue;
        exec_value v = exec_state_of(x->e, p);
        single += v.bytes == 1;
        assert_true(v.bytes <= sizeof data);
        for (uint64_t k = 0; k < v.bytes; k++) data[k] = (char)(zeros ? 0 : byte_of(k));
        if (compare) assert_int_equal(exec_read(x->e, &v, 0, data, v.bytes), STATUS_OK);
        for (uint64_t k = 0; compare && k < v.bytes; k++)
            if (data[k] != byte_of(k)) fail_msg("byte %d of %s is not loaded", (int)k, p->name);
        if (!compare) assert_int_equal(exec_write(x->e, &v, 0, data, v.bytes), STATUS_OK);
    }
    return single;
}

/* Of every value every byte comes back: of one that has a single one, and of what is in a file. */
static void every_byte_comes_back(void **state) {
    (void)state;
    static const struct {
        int width, vocabulary;
        const char *technique, *setting;
    } runs[] = { { 4, 8, NULL, NULL },
                 { 1, 8, "quantize_state", "8bit:all" },
                 { 4, 1100, "offload", "optimizer" } };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        small x;
        trainer_state t;
        uint64_t away = 0;
        open_with(&x, runs[i].width, runs[i].vocabulary, runs[i].technique, runs[i].setting);
        for (uint32_t k = 0; k < x.d.plan.persistent_count; k++)
            away += x.d.plan.persistent[k].pool == POOL_FILE;
        assert_int_equal(away > 0, i == 2);
        assert_int_equal(each_value(&x, false, false) > 0, i == 1);
        begin(&x);
        each_value(&x, false, true);
        assert_int_equal(checkpoint_verify("out/checkpoint-1", &t), STATUS_OK);
        if (checkpoint_load(x.e, &x.s, &x.d, "out/checkpoint-1", &t) != STATUS_OK)
            fail_msg("%s", status_message());
        each_value(&x, true, false);
        close_small(&x);
    }
}

/* A value that a checkpoint lacks is missed, in whichever of its files. */
static void what_lacks_a_value_is_refused(void **state) {
    (void)state;
    static const char *const files[] = { "model.safetensors", "optimizer.safetensors" };
    static const float number = 1;
    small x;
    trainer_state t;
    open_small(&x);
    for (int i = 0; i < 2; i++) {
        char path[96];
        begin(&x);
        assert_int_equal(checkpoint_verify("out/checkpoint-1", &t), STATUS_OK);
        assert_int_equal(checkpoint_check(&x.d.plan, "out/checkpoint-1", &t), STATUS_OK);
        snprintf(path, sizeof path, "out/checkpoint-1/%s", files[i]);
        const safetensors_item other = { "other", "F32", SHAPE(1), .data = &number, .bytes = sizeof number };
        assert_int_equal(safetensors_write(path, &other, 1), STATUS_OK);
        assert_int_equal(checkpoint_check(&x.d.plan, "out/checkpoint-1", &t), STATUS_INVALID);
        if (!strstr(status_message(), path)) fail_msg("%s: %s", path, status_message());
    }
    close_small(&x);
}

/* A name is as long as there is room for beside the files in it; one byte more is refused. */
static void names_leave_room_for_files(void **state) {
    (void)state;
    enum { FILES = 32 }; /* of the longest name in a checkpoint, or its ending while it is made */
    static char out[CHECKPOINT_PATH_BYTES];
    char path[CHECKPOINT_PATH_BYTES];
    size_t behind = strlen("/checkpoint-7");
    for (size_t length = CHECKPOINT_PATH_BYTES - FILES - 2; length <= CHECKPOINT_PATH_BYTES - FILES;
         length++) {
        memset(out, 'x', sizeof out);
        out[length - behind] = 0;
        bool fits = length + FILES < CHECKPOINT_PATH_BYTES;
        assert_int_equal(checkpoint_folder_name(out, 7, path), fits ? STATUS_OK : STATUS_INVALID);
        if (fits) assert_int_equal(strlen(path), length);
    }
}

int main(void) {
    if (access("/dev/shm", W_OK) == 0)
        strcpy(scratch_path, "/dev/shm/snug-test-XXXXXX"); /* thousands of saves */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_at_every_byte),
        cmocka_unit_test(failing_at_every_call),
        cmocka_unit_test(removing_is_done_or_said),
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(each_file_is_looked_at_once),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(what_lacks_a_value_is_refused),
        cmocka_unit_test(names_leave_room_for_files),
        cmocka_unit_test(names_are_as_they_are_written),
        cmocka_unit_test(a_folder_that_is_not_made_is_named),
        cmocka_unit_test(what_is_left_is_not_kept),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, scratch_open, scratch_close);
}
