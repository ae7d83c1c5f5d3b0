/* Tensors in several files: how they are divided, the index, and what takes the place of what. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/file.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "io/shards.h"

static void few_bytes_are_one_file(void **state) {
    (void)state;
    const uint64_t mib = 1 << 20;
    assert_int_equal(shards_files(0, 100, 8), 1);
    assert_int_equal(shards_files(31 * mib, 100, 8), 1);
    assert_int_equal(shards_files(32 * mib, 100, 8), 2);
    assert_int_equal(shards_files(1000 * mib, 100, 1), 1);
    assert_int_equal(shards_files(1000 * mib, 100, 8), 8);
    assert_int_equal(shards_files(1000 * mib, 3, 8), 3); /* none is empty */
    assert_int_equal(shards_files(1000 * mib, 1, 8), 1);
    assert_int_equal(shards_files(100000 * mib, 100, 1000), SHARDS_MOST);
}

static void names(void **state) {
    (void)state;
    char name[SHARDS_NAME_BYTES];
    assert_string_equal(shards_name("model", 0, 1, name), "model.safetensors");
    assert_string_equal(shards_all("model", 1, name), "model.safetensors");
    assert_string_equal(shards_name("model", 2, 12, name), "model-00003-of-00012.safetensors");
    assert_string_equal(shards_all("model", 12, name), "model.safetensors.index.json");
}

/* No file has more than the average and the largest tensor, whatever the sizes. */
static void no_file_is_much_larger(void **state) {
    (void)state;
    for (int files = 1; files <= SHARDS_MOST; files += 7) {
        shards_division d = { .files = files }, again = d;
        uint64_t sum = 0, largest = 0, held[SHARDS_MOST] = { 0 };
        for (uint64_t i = 0; i < 500; i++) {
            uint64_t bytes = (i * 2654435761u) % 100003 * (i % 9 ? 1 : 50);
            int k = shards_next(&d, bytes);
            assert_in_range(k, 0, files - 1);
            assert_int_equal(k, shards_next(&again, bytes));
            held[k] += bytes, sum += bytes;
            if (bytes > largest) largest = bytes;
        }
        for (int k = 0; k < files; k++) assert_true(held[k] <= sum / (uint64_t)files + largest);
    }
}

/* ---- files ---- */

/* Tensors "0" to "5", tensor i in file i mod files, with this number in all of them. */
static void write_all(const char *folder, int files, float number) {
    mkdir(folder, 0700);
    for (int k = 0; k < files; k++) {
        char path[200], name[SHARDS_NAME_BYTES], names_of[6][12];
        float data[6];
        safetensors_item items[6];
        uint32_t count = 0;
        for (int i = k; i < 6; i += files, count++) {
            snprintf(names_of[count], sizeof *names_of, "%d", i);
            data[count] = number;
            items[count] = (safetensors_item){
                .name = names_of[count], .dtype = "F32", .shape = SHAPE(1), .data = &data[count], .bytes = 4
            };
        }
        snprintf(path, sizeof path, "%s/%s", folder, shards_name("model", k, files, name));
        assert_int_equal(safetensors_write(path, items, count), STATUS_OK);
    }
    if (files > 1) assert_int_equal(shards_index(folder, "model", files), STATUS_OK);
}

static void has_model(const char *folder, int files, float number) {
    safetensors s;
    if (safetensors_open(folder, &s) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(s.count, 6);
    assert_int_equal(s.file_count, files);
    for (uint32_t i = 0; i < s.count; i++) {
        float is = 0;
        assert_int_equal(safetensors_read(&s, &s.entries[i], &is, sizeof is), STATUS_OK);
        assert_true(is == number);
    }
    safetensors_close(&s);
}

static int count_files(const char *folder) {
    char line[200];
    int count = -1;
    snprintf(line, sizeof line, "ls %s | wc -l", folder);
    FILE *pipe = popen(line, "r");
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

/* A model of so many files in the place of one of so many; other files stay. */
static void they_replace_each_other(void **state) {
    (void)state;
    static const int counts[] = { 1, 2, 3 };
    for (int was = 0; was < 3; was++)
        for (int is = 1; is < 3; is++) {
            assert_int_equal(io_remove_folder("out/partial"), STATUS_OK);
            assert_int_equal(io_remove_folder("out"), STATUS_OK);
            write_all("out", counts[was], 1);
            assert_int_equal(io_write_file("out/config.json", "{}", 2), STATUS_OK);
            write_all("out/partial", counts[is], 2);
            if (shards_replace("out/partial", "out", "model", counts[is]) != STATUS_OK)
                fail_msg("%s", status_message());
            has_model("out", counts[is], 2);
            assert_int_equal(count_files("out"), counts[is] + 2); /* the index and config.json */
            assert_int_equal(shards_remove("out", "model"), STATUS_OK);
            assert_int_equal(count_files("out"), 1);
            assert_int_equal(shards_remove("out", "model"), STATUS_OK);
        }
}

/* What shards_replace does, up to call number `calls`. Returns whether there were so many. */
static bool replace_up_to(int calls, int files) {
    char line[400], name[SHARDS_NAME_BYTES];
    int done = 0;
    if (done++ == calls) return true;
    if (access("out/model.safetensors.index.json", F_OK) == 0)
        assert_int_equal(rename("out/model.safetensors.index.json", "out/partial/before.json"), 0);
    else
        assert_int_equal(io_write_file("out/partial/before.json", "{}\n", 3), STATUS_OK);
    for (int k = 0; k < files; k++) {
        if (done++ == calls) return true;
        shards_name("model", k, files, name);
        snprintf(line, sizeof line, "mv out/partial/%s out/%s", name, name);
        assert_int_equal(system(line), 0);
    }
    if (done++ == calls) return true;
    assert_int_equal(rename("out/partial/model.safetensors.index.json", "out/model.safetensors.index.json"),
                     0);
    if (done++ == calls) return true;
    unlink("out/model.safetensors");
    return done == calls;
}

/* Killed behind any of its calls, it is finished later: the new model is whole, and nothing of the old is
 * left.
 */
static void what_was_begun_is_finished(void **state) {
    (void)state;
    for (int was = 1; was <= 4; was++)
        for (int is = 2; is <= 3; is++)
            for (int calls = 0;; calls++) {
                assert_int_equal(io_remove_folder("out/partial"), STATUS_OK);
                assert_int_equal(io_remove_folder("out"), STATUS_OK);
                write_all("out", was, 1);
                write_all("out/partial", is, 2);
                bool more = replace_up_to(calls, is);
                if (shards_finish("out/partial", "out", "model") != STATUS_OK)
                    fail_msg("%s", status_message());
                has_model("out", is, 2);
                if (count_files("out") != is + 1) fail_msg("%d for %d, after %d calls", is, was, calls);
                if (!more) break;
            }
}

/* ---- killed ---- */

static long calls_left = -1; /* that change a folder, until this process ends; below 0: it goes on */

static void count_call(void) {
    if (calls_left >= 0 && calls_left-- == 0) _exit(9);
}

#define WRAP(call, parameters, arguments)                                                                    \
    int __real_##call parameters;                                                                            \
    int __wrap_##call parameters;                                                                            \
    int __wrap_##call parameters {                                                                           \
        count_call();                                                                                        \
        return __real_##call arguments;                                                                      \
    }

WRAP(rename, (const char *from, const char *to), (from, to))
WRAP(unlink, (const char *path), (path))
WRAP(unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
WRAP(rmdir, (const char *path), (path))
WRAP(fsync, (int file), (file))
WRAP(mkdir, (const char *path, mode_t mode), (path, mode))

/* A process that moves so many files to their place, or (0) ends what was begun, and is gone in place of a
 * call. Returns whether it was. */
static bool killed_at(long call, int files) {
    int code;
    pid_t child = fork();
    if (!child) {
        calls_left = call;
        status is = files ? shards_replace("out/partial", "out", "model", files)
                          : shards_finish("out/partial", "out", "model");
        _exit(is == STATUS_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) != 1);
    return WEXITSTATUS(code) == 9;
}

/* A run that goes on writes as many files as it has ranks, however many were begun before. */
static void replace_by(int files, float number) {
    if (files > 1) {
        write_all("out/partial", files, number);
        if (shards_replace("out/partial", "out", "model", files) != STATUS_OK)
            fail_msg("%s", status_message());
    } else {
        write_all("out", 1, number);
        assert_int_equal(shards_remove("out", "model"), STATUS_OK);
    }
    has_model("out", files, number);
    assert_int_equal(count_files("out"), files > 1 ? files + 1 : 1);
}

/* Killed at any call that changes a folder, and once more by the start that ends it: nothing of a model of
 * before is left, neither when that is ended nor when a run with other ranks has written its own. */
static void kills_leave_nothing_behind(void **state) {
    (void)state;
    for (int was = 1; was <= 4; was += 3)
        for (int is = 2; is <= 3; is++) {
            bool more = true;
            for (long call = 0; more; call++) {
                assert_int_equal(io_remove_folder("out/partial"), STATUS_OK);
                assert_int_equal(io_remove_folder("out"), STATUS_OK);
                write_all("out", was, 1);
                write_all("out/partial", is, 2);
                more = killed_at(call, is);
                killed_at(call * 5 % 11, 0);
                if (shards_finish("out/partial", "out", "model") != STATUS_OK)
                    fail_msg("%s", status_message());
                has_model("out", is, 2);
                if (count_files("out") != is + 1) fail_msg("%d for %d, killed at %ld", is, was, call);
                replace_by(1 + (is + (int)(call % 3)) % 4, 3);
            }
        }
}

/* The same where shards_replace itself is kept from it, by a folder in the place of a file. */
static void what_failed_is_finished(void **state) {
    (void)state;
    static const char *const obstacles[] = { "out/model-00002-of-00002.safetensors",
                                             "out/model.safetensors" };
    for (int i = 0; i < 2; i++) {
        char line[200];
        assert_int_equal(io_remove_folder("out/partial"), STATUS_OK);
        assert_int_equal(io_remove_folder("out"), STATUS_OK);
        mkdir("out", 0700);
        write_all("out/partial", 2, 2);
        snprintf(line, sizeof line, "mkdir -p %s/x", obstacles[i]);
        assert_int_equal(system(line), 0);
        assert_int_equal(shards_replace("out/partial", "out", "model", 2), STATUS_FAILED);
        snprintf(line, sizeof line, "rm -r %s", obstacles[i]);
        assert_int_equal(system(line), 0);
        if (i == 1) write_all("out", 1, 1); /* that of before, which was to be removed next */
        if (shards_finish("out/partial", "out", "model") != STATUS_OK) fail_msg("%s", status_message());
        has_model("out", 2, 2);
        assert_int_equal(count_files("out"), 3);
    }
}

/* Files without an index were not all written. */
static void what_is_not_whole_is_removed(void **state) {
    (void)state;
    assert_int_equal(io_remove_folder("out"), STATUS_OK);
    write_all("out", 2, 1);
    write_all("out/partial", 3, 2);
    unlink("out/partial/model.safetensors.index.json");
    assert_int_equal(shards_finish("out/partial", "out", "model"), STATUS_OK);
    has_model("out", 2, 1);
    assert_int_equal(count_files("out"), 3);
    assert_int_equal(shards_finish("out/partial", "out", "model"), STATUS_OK);
}

/* Some write an index beside one file, which is no reason to remove it. */
static void one_file_stays(void **state) {
    (void)state;
    static const char index[] = "{\"weight_map\": {\"0\": \"model.safetensors\"}}\n";
    write_all("single", 1, 1);
    assert_int_equal(io_write_file("single/model.safetensors.index.json", index, strlen(index)), STATUS_OK);
    assert_int_equal(shards_remove("single", "model"), STATUS_OK);
    has_model("single", 1, 1);
    assert_int_equal(count_files("single"), 1);
}

/* An index may name anything: what is no shard stays. */
static void only_shards_are_removed(void **state) {
    (void)state;
    static const char *const indexes[] = {
        "{\"weight_map\": {\"a\": \"config.json\", \"b\": \"gone.safetensors\"}}\n", "no index\n", "{}\n"
    };
    for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++) {
        mkdir("odd", 0700);
        assert_int_equal(io_write_file("odd/config.json", "{}", 2), STATUS_OK);
        assert_int_equal(io_write_file("odd/model.safetensors.index.json", indexes[i], strlen(indexes[i])),
                         STATUS_OK);
        if (shards_remove("odd", "model") != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(access("odd/config.json", F_OK), 0);
        assert_int_equal(count_files("odd"), 1);
    }
}

/* A file that is not there, or no file of tensors, makes no index. */
static void an_index_needs_its_files(void **state) {
    (void)state;
    write_all("few", 3, 1);
    unlink("few/model.safetensors.index.json");
    unlink("few/model-00002-of-00003.safetensors");
    assert_int_equal(shards_index("few", "model", 3), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "model-00002-of-00003.safetensors"));
    assert_int_not_equal(access("few/model.safetensors.index.json", F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_bytes_are_one_file),       cmocka_unit_test(names),
        cmocka_unit_test(no_file_is_much_larger),       cmocka_unit_test(they_replace_each_other),
        cmocka_unit_test(only_shards_are_removed),      cmocka_unit_test(an_index_needs_its_files),
        cmocka_unit_test(what_was_begun_is_finished),   cmocka_unit_test(what_failed_is_finished),
        cmocka_unit_test(what_is_not_whole_is_removed), cmocka_unit_test(one_file_stays),
        cmocka_unit_test(kills_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
