/* What TensorBoard makes of these files is asked in tests/cli/test_readers.c; here a reader of our own. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/event_file.h"
#include "io/scratch.h"

/* RFC 3720, B.4 */
static void checksums_are_those_of_the_standard(void **state) {
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(event_file_crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(event_file_crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(event_file_crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_int_equal(event_file_crc32c(bytes, 32), 0x46dd794e);
}

static uint64_t little(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;) value = value << 8 | p[i];
    return value;
}

static uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

enum { MOST = 1 << 20 };
static unsigned char content[MOST];

static size_t load(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(content, 1, MOST, file);
    fclose(file);
    return bytes;
}

/* The record at *at, checked; moves on behind it. */
static const unsigned char *next_record(size_t *at, size_t bytes, size_t *length) {
    assert_true(*at + 12 <= bytes);
    const unsigned char *p = content + *at;
    *length = (size_t)little(p, 8);
    assert_int_equal(little(p + 8, 4), masked(event_file_crc32c(p, 8)));
    assert_true(*at + 16 + *length <= bytes);
    assert_int_equal(little(p + 12 + *length, 4), masked(event_file_crc32c(p + 12, *length)));
    *at += 16 + *length;
    return p + 12;
}

static void expect(size_t *at, size_t bytes, const void *message, size_t length) {
    size_t is;
    const unsigned char *record = next_record(at, bytes, &is);
    assert_int_equal(is, length);
    assert_memory_equal(record, message, length);
}

#define EXPECT(at, bytes, text) expect(at, bytes, text, sizeof text - 1)

static void a_file_holds_what_was_added(void **state) {
    (void)state;
    static event_file f;
    assert_int_equal(event_file_open(&f, ".", 301), STATUS_OK);
    event_scalar scalars[] = { { "train/loss", 2.5f }, { "x", -1 } };
    assert_int_equal(event_file_add(&f, 301, 1.5, scalars, 2), STATUS_OK);
    assert_int_equal(event_file_flush(&f), STATUS_OK);
    size_t bytes = load(f.path), at = 0, length;
    event_file_close(&f);
    /* field 1 is a double: the time; its bytes of the first two are today's */
    const unsigned char *version = next_record(&at, bytes, &length);
    assert_int_equal(version[0], 0x09);
    assert_int_equal(length, 9 + 2 + 13);
    assert_memory_equal(version + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    const unsigned char *start = next_record(&at, bytes, &length);
    assert_int_equal(length, 9 + 3 + 4);
    assert_memory_equal(start + 9, "\x10\xad\x02\x3a\x02\x08\x01", 7); /* step 301; a session begins */
    EXPECT(&at, bytes,
           "\x09\0\0\0\0\0\0\xf8\x3f" /* 1.5 */
           "\x10\xad\x02"
           "\x2a\x1d"
           "\x0a\x11\x0a\x0atrain/loss\x15\0\0\x20\x40"
           "\x0a\x08\x0a\x01x\x15\0\0\x80\xbf");
    assert_int_equal(at, bytes);
}

/* A step may have as many scalars as there is a place for; what is beyond is left out, not written over. */
static void a_step_holds_its_scalars(void **state) {
    (void)state;
    static event_file f;
    event_scalar scalars[EVENT_FILE_SCALARS + 1];
    for (uint32_t count = 0; count <= EVENT_FILE_SCALARS + 1; count++) {
        size_t at = 0, length = 0, found = 0;
        for (uint32_t i = 0; i <= EVENT_FILE_SCALARS; i++) scalars[i] = (event_scalar){ "tag-of-it", 1 };
        assert_int_equal(event_file_open(&f, ".", 400 + count), STATUS_OK);
        assert_int_equal(event_file_add(&f, 400, 1.5, scalars, count), STATUS_OK);
        assert_int_equal(event_file_flush(&f), STATUS_OK);
        size_t bytes = load(f.path);
        event_file_close(&f);
        const unsigned char *event = NULL;
        for (int k = 0; k < 3; k++) event = next_record(&at, bytes, &length);
        for (size_t i = 0; i + 9 <= length; i++) found += memcmp(event + i, "tag-of-it", 9) == 0;
        assert_int_equal(found, count < EVENT_FILE_SCALARS ? count : EVENT_FILE_SCALARS);
    }
}

static void many_records_pass_through_the_buffer(void **state) {
    (void)state;
    static event_file f;
    char tags[EVENT_FILE_SCALARS][EVENT_FILE_TAG_BYTES];
    event_scalar scalars[EVENT_FILE_SCALARS];
    for (int i = 0; i < EVENT_FILE_SCALARS; i++) {
        memset(tags[i], 'a' + i, sizeof tags[i]);
        tags[i][EVENT_FILE_TAG_BYTES - 1] = 0;
        scalars[i] = (event_scalar){ tags[i], (float)i };
    }
    assert_int_equal(event_file_open(&f, ".", 0), STATUS_OK);
    for (int64_t step = 0; step < 200; step++)
        assert_int_equal(
            event_file_add(&f, step << 40, 0, scalars, (uint32_t)(1 + step % EVENT_FILE_SCALARS)), STATUS_OK);
    assert_int_equal(event_file_flush(&f), STATUS_OK);
    size_t bytes = load(f.path), at = 0, length;
    event_file_close(&f);
    for (int i = 0; i < 202; i++) next_record(&at, bytes, &length);
    assert_int_equal(at, bytes);
}

/* Each new file comes after the others by its name, within a second and with a clock that was set back. */
static void later_files_have_later_names(void **state) {
    (void)state;
    static event_file f;
    char before[EVENT_FILE_PATH_BYTES] = "";
    mkdir("names", 0700);
    scratch_write("names/events.out.tfevents.7999999999.elsewhere.1", "x", 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(event_file_open(&f, "names", 1), STATUS_OK);
        assert_true(strcmp(f.path, before) > 0);
        assert_true(strcmp(f.path, "names/events.out.tfevents.8") > 0);
        strcpy(before, f.path);
        event_file_close(&f);
    }
}

/* The largest number has no next one of as many digits: a longer one would come first in the order of names.
 */
static void all_numbers_are_of_one_length(void **state) {
    (void)state;
    static event_file f;
    mkdir("largest", 0700);
    scratch_write("largest/events.out.tfevents.9999999999.elsewhere.1", "x", 1);
    assert_int_equal(event_file_open(&f, "largest", 1), STATUS_OK);
    const char *digits = strstr(f.path, "tfevents.") + strlen("tfevents.");
    assert_int_equal(strspn(digits, "0123456789"), 10);
    event_file_close(&f);
}

static void what_cannot_be_written_is_said(void **state) {
    (void)state;
    static event_file f;
    assert_int_equal(event_file_open(&f, "nowhere", 1), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "nowhere/events.out.tfevents."));
    assert_int_equal(event_file_open(&f, ".", 1), STATUS_OK);
    assert_int_equal(event_file_add(&f, 1, 0, &(event_scalar){ "x", 1 }, 1), STATUS_OK);
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){ 1, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    status result = event_file_flush(&f), added = STATUS_OK;
    for (int64_t step = 2; step < 10000 && added == STATUS_OK; step++) /* what is full is written first */
        added = event_file_add(&f, step, 0, &(event_scalar){ "x", 1 }, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(result, STATUS_FAILED);
    assert_int_equal(added, STATUS_FAILED);
    assert_non_null(strstr(status_message(), strerror(EFBIG)));
    event_file_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_those_of_the_standard),
        cmocka_unit_test(a_file_holds_what_was_added),
        cmocka_unit_test(a_step_holds_its_scalars),
        cmocka_unit_test(many_records_pass_through_the_buffer),
        cmocka_unit_test(later_files_have_later_names),
        cmocka_unit_test(all_numbers_are_of_one_length),
        cmocka_unit_test(what_cannot_be_written_is_said),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
