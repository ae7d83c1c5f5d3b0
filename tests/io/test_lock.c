/* A folder's lock: who holds it, what is said to who wants it, and what is left behind. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "io/lock.h"
#include "io/scratch.h"

/* What happens to the name between the opening of the file and its lock. */
static enum { NOTHING, REMOVED, REPLACED, WITHOUT_LOCKS } before_the_lock;
static int locked;

int __real_flock(int file, int how);
int __wrap_flock(int file, int how);
int __wrap_flock(int file, int how) {
    int now = before_the_lock;
    locked++;
    before_the_lock = NOTHING;
    if (now == REMOVED || now == REPLACED) unlink("lock");
    if (now == REPLACED) scratch_write("lock", "", 0);
    if (now == WITHOUT_LOCKS) return errno = ENOLCK, -1;
    return __real_flock(file, how);
}

static void only_one_has_it(void **state) {
    (void)state;
    lock one, two;
    char who[128], mine[32];
    snprintf(mine, sizeof mine, "process %ld on ", (long)getpid());
    assert_false(lock_is_held("lock", who, sizeof who));
    assert_string_equal(who, "");
    assert_int_equal(lock_open("lock", &one), STATUS_OK);
    assert_int_equal(lock_open("lock", &two), STATUS_INVALID);
    assert_non_null(strstr(status_message(), mine));
    lock_close(&two); /* which it never had */
    errno = ESRCH;    /* of an earlier question, which says nothing of this one */
    assert_true(lock_is_held("lock", who, sizeof who));
    assert_int_equal(strncmp(who, mine, strlen(mine)), 0);
    lock_close(&one);
    assert_int_not_equal(access("lock", F_OK), 0);
    assert_int_equal(lock_open("lock", &two), STATUS_OK);
    lock_close(&two);
    lock_close(&two);
    assert_int_equal(lock_open("no/such/folder", &one), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "no/such/folder"));
}

/* A longer text was in the file: of it nothing stays. And where no text is there, nobody is named. */
static void what_stands_in_it(void **state) {
    (void)state;
    lock l, other;
    char long_text[200], who[128], said[256] = "";
    memset(long_text, '7', sizeof long_text);
    scratch_write("lock", long_text, sizeof long_text);
    assert_int_equal(lock_open("lock", &l), STATUS_OK);
    ssize_t bytes = pread(l.file, said, sizeof said - 1, 0);
    assert_true(bytes > 0 && said[bytes - 1] == '\n' && atol(said) == (long)getpid());
    assert_ptr_equal(strchr(said, '\n'), said + bytes - 1);
    assert_int_equal(ftruncate(l.file, 0), 0);
    assert_int_equal(lock_open("lock", &other), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "held by another run"));
    assert_true(lock_is_held("lock", who, sizeof who));
    assert_string_equal(who, "");
    lock_close(&l);
}

/* An owner that ended removed the name after this one had opened the file: the lock of a file without a name,
 * or with a name that is another file's, guards nothing. */
static void the_file_that_has_the_name_is_locked(void **state) {
    (void)state;
    for (int way = REMOVED; way <= REPLACED; way++) {
        lock l, other;
        before_the_lock = way, locked = 0;
        assert_int_equal(lock_open("lock", &l), STATUS_OK);
        assert_int_equal(locked, 2);
        assert_int_equal(lock_open("lock", &other), STATUS_INVALID);
        lock_close(&l);
    }
}

static void without_locks_the_folder_can_be_used(void **state) {
    (void)state;
    lock l;
    before_the_lock = WITHOUT_LOCKS;
    assert_int_equal(lock_open("lock", &l), STATUS_OK);
    lock_close(&l);
}

/* Its number is not that of a process any more: nobody has it, and its lock is not even tried. */
static void of_one_that_ended_nothing_stays(void **state) {
    (void)state;
    char who[128], said[160], host[96] = "?";
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    gethostname(host, sizeof host - 1);
    snprintf(said, sizeof said, "%ld %s\n", (long)child, host);
    scratch_write("lock", said, strlen(said));
    locked = 0;
    assert_false(lock_is_held("lock", who, sizeof who));
    assert_int_equal(locked, 0);
    snprintf(said, sizeof said, "%ld elsewhere\n", (long)child); /* there it may be another's */
    scratch_write("lock", said, strlen(said));
    assert_false(lock_is_held("lock", who, sizeof who));
    assert_int_equal(locked, 1);
    assert_int_equal(unlink("lock"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_one_has_it),
        cmocka_unit_test(what_stands_in_it),
        cmocka_unit_test(the_file_that_has_the_name_is_locked),
        cmocka_unit_test(without_locks_the_folder_can_be_used),
        cmocka_unit_test(of_one_that_ended_nothing_stays),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
