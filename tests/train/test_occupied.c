/* What --overwrite removes before a run begins: what an earlier one has left, and never what this one reads.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "io/scratch.h"
#include "train/occupied.h"

static const char *const results[] = { "run.json", "adapter_base.json", "adapter_config.json",
                                       "adapter_model.safetensors" };
static const char *const weights[] = { "model.safetensors.index.json", "model.safetensors" };

static void fill(void) {
    char path[64];
    for (int i = 0; i < 4; i++)
        snprintf(path, sizeof path, "out/%s", results[i]), scratch_write(path, "1", 1);
    for (int i = 0; i < 2; i++)
        snprintf(path, sizeof path, "out/%s", weights[i]), scratch_write(path, "1", 1);
    scratch_write("out/notes.txt", "1", 1);
}

static bool there(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "out/%s", name);
    return access(path, F_OK) == 0;
}

static void only_what_is_not_read_goes(void **state) {
    (void)state;
    assert_int_equal(mkdir("out", 0700) | symlink("out", "link"), 0);
    for (int way = 0; way < 4; way++) { /* not allowed; elsewhere; in place; in place by another name */
        static const char *const from[] = { NULL, NULL, "out", "link" };
        setup s = { .weights = from[way],
                    .options = { .out = "out", .overwrite = way > 0, .model = from[way] } };
        fill();
        if (occupied_clear(&s) != STATUS_OK) fail_msg("%s", status_message());
        for (int i = 0; i < 4; i++) assert_int_equal(there(results[i]), way == 0);
        for (int i = 0; i < 2; i++) assert_int_equal(there(weights[i]), way != 1);
        assert_true(there("notes.txt"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(only_what_is_not_read_goes) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
