/* GGUF files as they are written: every byte of a small one, what no reader would take, and what is left
 * where writing fails. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "golden/gguf_reader.h"
#include "io/gguf_write.h"
#include "io/scratch.h"

/* ---- something to write ---- */

typedef struct {
    uint64_t piece;                     /* bytes that a tensor comes in at a time; 0: all */
    int short_by, longer_by;            /* items of the list that don't come, or come beyond it */
    int calls, fails_at, other_at_call; /* of metadata, and of parts */
    uint64_t stop_at;                   /* bytes written, where it is interrupted; 0: never */
    uint64_t all;                       /* as was said while it was written */
    bool open_text;                     /* a third item of the list comes inside of the second */
    const char *key;                    /* of the last value; NULL: a short one */
} source;

static const uint8_t data[1 << 16];
static source from;

static status metadata(void *context, gguf_writer *w) {
    source *s = context;
    s->calls++;
    gguf_put_u32(w, "a", 7);
    gguf_put_string(w, "b", s->other_at_call == s->calls ? "othertext" : "text");
    gguf_put_array(w, "c", GGUF_ITEM_TEXT, s->open_text ? 3 : 2);
    gguf_add_text(w, "x", 1);
    if (!s->short_by) {
        gguf_begin_text(w, 3);
        gguf_more(w, "yz", 2);
        if (s->open_text) gguf_add_text(w, "w", 1);
        gguf_more(w, "!", 1);
    }
    for (int i = 0; i < s->longer_by; i++) gguf_add_text(w, "more", 4);
    gguf_put_bool(w, s->key ? s->key : "d", true);
    return STATUS_OK;
}

static status part(void *context, uint64_t first, const void **part_, uint64_t *bytes) {
    source *s = context;
    if (s->fails_at && --s->fails_at == 0) return status_set(STATUS_INVALID, "its numbers are bad");
    uint64_t all = 24 - first;
    *part_ = (const uint8_t *)"0123456789abcdefghijklmn" + first;
    *bytes = s->piece && s->piece < all ? s->piece : all;
    return STATUS_OK;
}

static status zeros(void *context, uint64_t first, const void **part_, uint64_t *bytes) {
    (void)first;
    const source *s = context;
    *part_ = data, *bytes = s->piece ? s->piece : sizeof data;
    return STATUS_OK;
}

static status written(void *context, uint64_t bytes, uint64_t all) {
    source *s = context;
    s->all = all;
    if (!s->stop_at || bytes < s->stop_at) return STATUS_OK;
    return status_set(STATUS_INTERRUPTED, "interrupted");
}

static gguf_tensor small(const char *name) {
    return (gguf_tensor){
        .name = name, .type = GGUF_WRITE_F32, .shape = SHAPE(2, 3), .part = part, .context = &from
    };
}

static gguf_tensor large(void) {
    return (gguf_tensor){
        .name = "large", .type = GGUF_WRITE_F16, .shape = SHAPE(1 << 15, 64), .part = zeros, .context = &from
    };
}

static gguf_content content_of(const gguf_tensor *tensors, uint32_t count) {
    return (gguf_content){
        .metadata = metadata, .tensors = tensors, .count = count, .context = &from, .written = written
    };
}

static bool is_there(const char *path) { return access(path, F_OK) == 0; }

static void refused(const gguf_tensor *tensors, uint32_t count, status code, const char *words) {
    gguf_content c = content_of(tensors, count);
    uint64_t bytes;
    status result = gguf_write("refused.gguf", &c);
    if (result != code || !strstr(status_message(), words)) fail_msg("%d: %s", result, status_message());
    assert_false(is_there("refused.gguf"));
    assert_false(is_there("refused.gguf.partial"));
    if (code == STATUS_INVALID && !strstr(words, "numbers"))
        assert_int_equal(gguf_file_bytes("r", &c, &bytes), code);
}

/* ---- the bytes ---- */

static void each_byte_is_as_the_format_says(void **state) {
    (void)state;
    static const char expected[] = "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0"
                                   "\1\0\0\0\0\0\0\0a\4\0\0\0\7\0\0\0"
                                   "\1\0\0\0\0\0\0\0b\10\0\0\0\4\0\0\0\0\0\0\0text"
                                   "\1\0\0\0\0\0\0\0c\11\0\0\0\10\0\0\0\2\0\0\0\0\0\0\0"
                                   "\1\0\0\0\0\0\0\0x\3\0\0\0\0\0\0\0yz!"
                                   "\1\0\0\0\0\0\0\0d\7\0\0\0\1"
                                   "\1\0\0\0\0\0\0\0t\2\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
                                   "\0\0\0\0\0\0\0\0\0\0\0\0";
    for (uint64_t piece = 0; piece < 25; piece += 4) {
        uint8_t file[512] = { 0 };
        uint64_t bytes, head = sizeof expected - 1, begin = (head + 31) / 32 * 32;
        from = (source){ .piece = piece };
        gguf_tensor t = small("t");
        gguf_content c = content_of(&t, 1);
        assert_int_equal(gguf_file_bytes("a.gguf", &c, &bytes), STATUS_OK);
        if (gguf_write("a.gguf", &c) != STATUS_OK) fail_msg("%s", status_message());
        FILE *f = fopen("a.gguf", "rb");
        assert_int_equal(fread(file, 1, sizeof file, f), bytes);
        fclose(f);
        assert_int_equal(bytes, begin + 32);
        assert_int_equal(from.all, bytes);
        assert_memory_equal(file, expected, head);
        for (uint64_t i = head; i < begin; i++) assert_int_equal(file[i], 0);
        assert_memory_equal(file + begin, "0123456789abcdefghijklmn\0\0\0\0\0\0\0", 32);
    }
}

static void readers_find_what_was_written(void **state) {
    (void)state;
    const char *why;
    from = (source){ 0 };
    gguf_tensor t[] = { small("first"), large(), small("last") };
    gguf_content c = content_of(t, 3);
    if (gguf_write("b.gguf", &c) != STATUS_OK) fail_msg("%s", status_message());
    gguf_reader *r = gguf_reader_open("b.gguf", &why);
    if (!r) fail_msg("%s", why);
    assert_true(gguf_reader_says(r, "b", "text") && gguf_reader_item(r, "c", 1, "yz!"));
    assert_int_equal(gguf_reader_u32(r, "a"), 7);
    const gguf_reader_tensor *last = gguf_reader_tensor_of(r, "last");
    assert_true(last && last->dim[0] == 3 && last->dim[1] == 2);
    assert_memory_equal(last->data, "0123456789abcdefghijklmn", 24);
    assert_int_equal(gguf_reader_tensor_of(r, "large")->bytes, 64 * 2 << 15);
    gguf_reader_close(r);
}

/* ---- what is refused ---- */

static void impossible_tensors_are_refused(void **state) {
    (void)state;
    char name[65];
    from = (source){ 0 };
    memset(name, 'n', 64), name[64] = 0;
    gguf_tensor t[] = { small("one"), small("two"), small("one") };
    refused(t, 3, STATUS_INVALID, "two tensors have the name 'one'");
    t[0] = small(name);
    refused(t, 1, STATUS_INVALID, "too long");
    t[0] = small(name + 1); /* 63 letters: as long as can be */
    gguf_content c = content_of(t, 1);
    assert_int_equal(gguf_write("long.gguf", &c), STATUS_OK);
    t[0] = small("");
    refused(t, 1, STATUS_INVALID, "empty");
    t[0] = small("a"), t[0].shape = (shape){ .rank = 0 };
    refused(t, 1, STATUS_INVALID, "0 dimensions");
    t[0].shape = SHAPE(3, 0);
    refused(t, 1, STATUS_INVALID, "cannot be F32");
    t[0].shape = SHAPE(0, 3);
    refused(t, 1, STATUS_INVALID, "cannot be F32");
    t[0].shape = SHAPE(INT64_MAX / 4, 3);
    refused(t, 1, STATUS_INVALID, "cannot be F32");
    t[0].shape = SHAPE(2, 48), t[0].type = GGUF_WRITE_Q8_0;
    refused(t, 1, STATUS_INVALID, "cannot be Q8_0");
}

static void long_keys_are_refused(void **state) {
    (void)state;
    static char key[65537];
    gguf_tensor t = small("t");
    memset(key, 'k', 65536);
    from = (source){ .key = key };
    refused(&t, 1, STATUS_INVALID, "is too long");
    from.key = key + 1; /* 65535 letters: as long as can be */
    gguf_content c = content_of(&t, 1);
    assert_int_equal(gguf_write("key.gguf", &c), STATUS_OK);
}

static void what_comes_otherwise_than_was_said_is_no_file(void **state) {
    (void)state;
    gguf_tensor t = small("t");
    from = (source){ .short_by = 1 };
    refused(&t, 1, STATUS_FAILED, "shorter than was said");
    from = (source){ .longer_by = 1 };
    refused(&t, 1, STATUS_FAILED, "longer than was said");
    from = (source){ .open_text = true }; /* as many bytes as were said, in another order */
    refused(&t, 1, STATUS_FAILED, "longer than was said");
    from = (source){ .other_at_call = 2 };
    refused(&t, 1, STATUS_FAILED, "its metadata changed");
    from = (source){ .piece = 7 }; /* of 24 bytes: the last part is shorter, which is fine */
    gguf_content c = content_of(&t, 1);
    assert_int_equal(gguf_write("parts.gguf", &c), STATUS_OK);
    gguf_tensor wide = large();
    wide.shape = SHAPE(1, 100);
    from = (source){ 0 };
    refused(&wide, 1, STATUS_FAILED, "parts of another length");
}

static void failures_leave_what_was_there(void **state) {
    (void)state;
    char old[4] = "";
    gguf_tensor t[] = { small("t"), large() };
    from = (source){ .fails_at = 1 };
    refused(t, 2, STATUS_INVALID, "its numbers are bad");
    from = (source){ .stop_at = 1 << 20 };
    refused(t, 2, STATUS_INTERRUPTED, "interrupted");
    scratch_write("kept.gguf", "old", 3);
    from = (source){ .stop_at = 1 };
    gguf_content c = content_of(t, 2);
    assert_int_equal(gguf_write("kept.gguf", &c), STATUS_INTERRUPTED);
    FILE *f = fopen("kept.gguf", "rb");
    assert_int_equal(fread(old, 1, sizeof old, f), 3);
    fclose(f);
    assert_memory_equal(old, "old", 3);
}

/* At every size of a disk that is too small: beside the head, in it, in the data, one byte from the end. */
static void a_full_disk_is_said(void **state) {
    (void)state;
    struct rlimit before, now;
    uint64_t bytes;
    gguf_tensor t = large();
    from = (source){ 0 };
    gguf_content c = content_of(&t, 1);
    assert_int_equal(gguf_file_bytes("full.gguf", &c, &bytes), STATUS_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const uint64_t sizes[] = { 0, 10, 300, 65536, 1 << 20, bytes - 1 };
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        now = before, now.rlim_cur = sizes[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
        status result = gguf_write("full.gguf", &c);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(result, STATUS_FAILED);
        assert_non_null(strstr(status_message(), "full.gguf"));
        assert_false(is_there("full.gguf") || is_there("full.gguf.partial"));
    }
    now = before, now.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    assert_int_equal(gguf_write("full.gguf", &c), STATUS_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_is_as_the_format_says),
        cmocka_unit_test(readers_find_what_was_written),
        cmocka_unit_test(impossible_tensors_are_refused),
        cmocka_unit_test(long_keys_are_refused),
        cmocka_unit_test(what_comes_otherwise_than_was_said_is_no_file),
        cmocka_unit_test(failures_leave_what_was_there),
        cmocka_unit_test(a_full_disk_is_said),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
