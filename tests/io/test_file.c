#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/checksum.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/scratch.h"

static int refused_with; /* what looking at a folder's permissions fails with; 0: as it is */

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode) {
    if (!refused_with || !(mode & W_OK)) return __real_access(path, mode);
    errno = refused_with;
    return -1;
}

static void check(const char *path, const char *expected) {
    char *data;
    uint64_t bytes;
    if (io_read_file(path, 1 << 20, &data, &bytes) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(bytes, strlen(expected));
    assert_string_equal(data, expected);
    memory_free(data);
}

static void files_are_replaced_whole(void **state) {
    (void)state;
    assert_int_equal(io_write_file("a", "one", 3), STATUS_OK);
    check("a", "one");
    scratch_write("a.partial", "left behind by a killed run", 27);
    assert_int_equal(io_write_file("a", "two!", 4), STATUS_OK);
    check("a", "two!");
    assert_int_not_equal(access("a.partial", F_OK), 0);
    assert_int_equal(io_write_file("./a", "", 0), STATUS_OK);
    check("a", "");
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(io_write_file("folder", "x", 1), STATUS_INVALID);
    assert_int_not_equal(access("folder.partial", F_OK), 0);
    assert_int_equal(symlink("a", "link.partial"), 0);
    assert_int_equal(io_write_file("link", "x", 1), STATUS_FAILED);
    check("a", "");
}

static void discarded_writes_leave_nothing(void **state) {
    (void)state;
    io_writer w, other;
    assert_int_equal(io_write_file("d", "old", 3), STATUS_OK);
    assert_int_equal(io_writer_open(&w, "d"), STATUS_OK);
    assert_int_equal(io_writer_add(&w, "new", 3), STATUS_OK);
    assert_int_equal(io_writer_open(&other, "d"), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "another writer"));
    assert_int_equal(access("d.partial", F_OK), 0);
    io_writer_discard(&w);
    io_writer_discard(&w);
    io_writer_discard(&(io_writer){ 0 });
    assert_int_not_equal(access("d.partial", F_OK), 0);
    check("d", "old");
    assert_true(fcntl(0, F_GETFD) >= 0);
}

/* The sentence says how far it came, and the reason is the system's. */
static void failed_writes_are_told(void **state) {
    (void)state;
    io_writer w;
    struct rlimit old, small;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 5;
    assert_int_equal(io_writer_open(&w, "limited"), STATUS_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    status first = io_writer_add(&w, "abc", 3), second = io_writer_add(&w, "defgh", 5);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(first, STATUS_OK);
    assert_int_equal(second, STATUS_FAILED);
    assert_non_null(strstr(status_message(), "write past byte 5 of limited"));
    assert_non_null(strstr(status_message(), strerror(EFBIG)));
    io_writer_discard(&w);
}

/* A folder took the name meanwhile: nothing of the new file stays, and what was there does. */
static void failed_commits_leave_nothing(void **state) {
    (void)state;
    io_writer w;
    assert_int_equal(io_writer_open(&w, "taken"), STATUS_OK);
    assert_int_equal(io_writer_add(&w, "new", 3), STATUS_OK);
    assert_int_equal(mkdir("taken", 0700), 0);
    assert_int_equal(io_write_file("taken/inside", "1", 1), STATUS_OK);
    assert_int_equal(io_writer_commit(&w), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "replace taken"));
    assert_int_not_equal(access("taken.partial", F_OK), 0);
    check("taken/inside", "1");
}

static void folders_are_made_and_removed(void **state) {
    (void)state;
    assert_int_equal(io_make_folder("x/y//z"), STATUS_OK);
    assert_int_equal(io_make_folder("x/y//z/"), STATUS_OK);
    assert_int_equal(io_make_folder("/"), STATUS_OK);
    assert_int_equal(io_make_folder(""), STATUS_INVALID);
    assert_int_equal(io_write_file("x/y/file", "1", 1), STATUS_OK);
    assert_int_equal(io_make_folder("x/y/file"), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "a file has that name"));
    assert_int_equal(io_make_folder("x/y/file/more"), STATUS_INVALID);
    assert_int_equal(io_remove_folder("x/y"), STATUS_FAILED);
    check("x/y/file", "1");
    assert_int_equal(io_remove_folder("x/y/z"), STATUS_OK);
    assert_int_equal(io_remove_folder("x/y/z"), STATUS_OK);
    assert_int_equal(io_rename("x/y", "x/w"), STATUS_OK);
    assert_int_equal(io_remove_folder("x/w"), STATUS_OK);
    assert_int_not_equal(access("x/w", F_OK), 0);
    assert_int_equal(io_rename("x/none", "x/w"), STATUS_FAILED);

    char deep[PATH_MAX + 1]; /* a byte longer than the system takes: none of it is made */
    for (size_t i = 0; i < PATH_MAX; i++) deep[i] = i % 100 == 99 ? '/' : 'y';
    deep[PATH_MAX] = 0;
    assert_int_equal(io_make_folder(deep), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "too long"));
    deep[99] = 0;
    assert_int_not_equal(access(deep, F_OK), 0);
}

/* Where nothing can be written: at what, and why, in this order. */
static void folders_are_looked_at(void **state) {
    (void)state;
    scratch_write("plain", "1", 1);
    assert_int_equal(io_check_folder("plain"), STATUS_INVALID);
    assert_string_equal(status_message(), "cannot write to plain: plain is no folder");
    assert_int_equal(io_check_folder("plain/more"), STATUS_INVALID);
    assert_string_equal(status_message(), "cannot write to plain/more: plain/more: Not a directory");
    assert_int_equal(io_check_folder("not/there/yet"), STATUS_OK);
    refused_with = EROFS; /* root may do all else */
    status result = io_check_folder("not/there/yet");
    refused_with = 0;
    assert_int_equal(result, STATUS_INVALID);
    assert_string_equal(status_message(), "cannot write to not/there/yet: .: Read-only file system");
}

static void reads_are_bounded(void **state) {
    (void)state;
    char *data, byte;
    uint64_t bytes;
    int handle;
    assert_int_equal(io_write_file("r", "12345", 5), STATUS_OK);
    assert_int_equal(io_read_file("r", 4, &data, &bytes), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "r has 5 bytes; at most 4"));
    assert_int_equal(io_read_file("absent", 4, &data, &bytes), STATUS_INVALID);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(io_read_file("fifo", 4, &data, &bytes), STATUS_INVALID);
    assert_int_equal(io_open("r", &handle, &bytes), STATUS_OK);
    assert_int_equal(io_read_at(handle, "r", 4, &byte, 1), STATUS_OK);
    assert_int_equal(byte, '5');
    assert_int_equal(io_read_at(handle, "r", 5, &byte, 1), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "r ends at byte 5, 1 bytes too early"));
    close(handle);
}

static void logs_hold_whole_lines(void **state) {
    (void)state;
    int log;
    assert_int_equal(io_append_open("log", &log), STATUS_OK);
    assert_int_equal(io_append_line(log, "log", "one"), STATUS_OK);
    assert_int_equal(io_append_line(log, "log", "two"), STATUS_OK);
    close(log);
    check("log", "one\ntwo\n");
    scratch_write("log", "one\ntwo\ntor", 11);
    assert_int_equal(io_append_open("log", &log), STATUS_OK);
    assert_int_equal(io_append_line(log, "log", "three"), STATUS_OK);
    check("log", "one\ntwo\nthree\n");

    struct rlimit old, small;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 17;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    status result = io_append_line(log, "log", "four and more");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(result, STATUS_FAILED);
    check("log", "one\ntwo\nthree\n");
    close(log);

    assert_int_equal(truncate("log", 0), 0); /* the first line has none before it to go back to */
    assert_int_equal(io_append_open("log", &log), STATUS_OK);
    small.rlim_cur = 2;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    result = io_append_line(log, "log", "one");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(result, STATUS_FAILED);
    check("log", "");
    close(log);

    char torn[10000];
    memset(torn, 'x', sizeof torn);
    scratch_write("log", torn, sizeof torn);
    assert_int_equal(io_append_open("log", &log), STATUS_OK);
    close(log);
    check("log", "");
    assert_int_equal(io_append_open(".", &log), STATUS_FAILED);
}

/* Both sums are of all bytes, whatever is left for the last of the pieces in which they are read. */
static void sums_are_of_all_bytes(void **state) {
    (void)state;
    enum { PIECE = 32 << 10 };
    static const size_t lengths[] = { 0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - 1 };
    static char bytes[2 * PIECE];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * i + i / 7);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        digest d = digest_begin();
        checksum c = checksum_begin();
        io_sum early, late;
        digest_add(&d, bytes, lengths[i]);
        checksum_add(&c, bytes, lengths[i]);
        scratch_write("summed", bytes, lengths[i]);
        assert_int_equal(io_sum_file("summed", true, &early), STATUS_OK);
        assert_int_equal(io_sum_file("summed", false, &late), STATUS_OK);
        assert_true(early.bytes == lengths[i] && early.sum == digest_value(&d) && early.early);
        assert_true(late.bytes == lengths[i] && late.sum == checksum_value(&c) && !late.early);
        assert_false(io_sum_equal(&early, &late));
    }
}

static void names_are_quoted(void **state) {
    (void)state;
    char out[UTF8_QUOTE_BYTES], large[500];
    assert_string_equal(utf8_quote("a\x1b[2J\xc2\x9b\xff\xc3\xa9", out), "a?[2J??\xc3\xa9");
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_int_equal(strlen(utf8_quote(large, out)), UTF8_QUOTE_BYTES - 1);
    assert_string_equal(out + UTF8_QUOTE_BYTES - 4, "...");
    for (unsigned long point = 1; point < 0x110000; point++) {
        if (point >= 0xd800 && point < 0xe000) continue;
        char bytes[4];
        size_t n = utf8_encode(point, bytes);
        if (utf8_length(bytes, n) != n || utf8_length(bytes, n - 1) != 0) fail_msg("U+%lX", point);
    }
    static const char *const bad[] = {
        "\x80",         "\xc0\x80",         "\xc1\xbf",         "\xe0\x80\x80",
        "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xff",         "\xe2\x82"
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(utf8_length(bad[i], strlen(bad[i])), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_replaced_whole),
        cmocka_unit_test(discarded_writes_leave_nothing),
        cmocka_unit_test(folders_are_made_and_removed),
        cmocka_unit_test(folders_are_looked_at),
        cmocka_unit_test(reads_are_bounded),
        cmocka_unit_test(logs_hold_whole_lines),
        cmocka_unit_test(names_are_quoted),
        cmocka_unit_test(sums_are_of_all_bytes),
        cmocka_unit_test(failed_writes_are_told),
        cmocka_unit_test(failed_commits_leave_nothing),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
