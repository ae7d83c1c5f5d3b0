/* Folders are compared to the byte, both ways, and names can be left out (trees.h): other tests rely on it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/trees.h"
#include "io/scratch.h"

static const char *const none[] = { NULL };
static char different[512];

static bool same(const char *const *except) {
    return tree_same("one", "other", except, different, sizeof different);
}

static void make(const char *folder) {
    char path[64];
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/in", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/in/deep", folder);
    scratch_write(path, "same", 4);
}

static void a_byte_a_name_and_a_kind_are_seen(void **state) {
    (void)state;
    make("one"), make("other");
    assert_true(same(none));
    scratch_write("other/in/deep", "sama", 4);
    assert_false(same(none));
    assert_non_null(strstr(different, "in/deep"));
    scratch_write("other/in/deep", "same and more", 13);
    assert_false(same(none));
    scratch_write("other/in/deep", "same", 4);
    scratch_write("other/in/new.lock", "", 0); /* on either side */
    assert_false(same(none));
    assert_true(same((const char *[]){ "*.lock", NULL }));
    assert_int_equal(rename("other/in/new.lock", "one/in/new.lock"), 0);
    assert_false(same(none));
    mkdir("other/in/new.lock", 0700);
    assert_false(same(none));
    tree_remove("other");
    assert_false(same(none));
    assert_int_not_equal(access("other", F_OK), 0);
    tree_remove("other"); /* no matter */
    scratch_write("other", "x", 1);
    assert_false(same(none));
}

static void two_files_are_compared_too(void **state) {
    (void)state;
    tree_remove("one"), tree_remove("other");
    scratch_write("one", "x", 1), scratch_write("other", "x", 1);
    assert_true(same(none));
    scratch_write("other", "y", 1);
    assert_false(same(none));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_byte_a_name_and_a_kind_are_seen),
                                        cmocka_unit_test(two_files_are_compared_too) };
    return cmocka_run_group_tests_name("trees", tests, scratch_open, scratch_close);
}
