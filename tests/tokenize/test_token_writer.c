/* The file of tokens while it is made: what was there at the last mark is there again, and nothing else,
 * whatever was written behind the mark, cut off, or made of other data. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "io/scratch.h"
#include "tokenize/token_writer.h"

enum { OURS = 7, OTHERS = 8, HEADER = 4096 };

static const char path[] = "t.safetensors";
static bool disk_fails;

int __wrap_fdatasync(int file); /* NOLINT: the linker's name */
int __wrap_fdatasync(int file) {
    (void)file;
    if (disk_fails) errno = EIO;
    return disk_fails ? -1 : 0;
}

/* ---- batches ---- */

static token_writer opened(uint64_t identity) {
    token_writer w;
    if (token_writer_open(&w, path, 2, true, identity) != STATUS_OK) fail_msg("%s", status_message());
    return w;
}

/* Documents of 3 tokens, the last of which is learned. */
static void add(token_writer *w, uint64_t count, uint16_t first) {
    enum { MOST = 100, LENGTH = 3 };
    uint16_t tokens[MOST * LENGTH];
    uint8_t learned[MOST * LENGTH];
    uint64_t ends[MOST];
    for (uint64_t d = 0; d < count; d++) ends[d] = w->at.tokens + LENGTH * (d + 1);
    for (uint64_t i = 0; i < count * LENGTH; i++)
        tokens[i] = (uint16_t)(first + i), learned[i] = i % LENGTH == LENGTH - 1;
    token_batch b = { tokens, learned, count * LENGTH, ends, count };
    assert_int_equal(token_writer_add(w, &b), STATUS_OK);
}

static source_place place(uint64_t record) {
    return (source_place){ .in = { .record = record, .offset = 10 * record, .line = record + 1 }, .file = 2 };
}

static uint64_t bytes_of(const char *name) {
    struct stat about;
    if (stat(name, &about) != 0) fail_msg("there is no %s", name);
    return (uint64_t)about.st_size;
}

static bool is_there(const char *name) { return access(name, F_OK) == 0; }

/* Five documents and a mark, `more` behind it, and the process is gone. */
static void leave(uint64_t identity, uint64_t more) {
    token_writer w = opened(identity);
    add(&w, 5, 100);
    w.at.longest = 3, w.at.empty = 1;
    assert_int_equal(token_writer_mark(&w, place(6)), STATUS_OK);
    add(&w, more, 900);
    token_writer_keep(&w);
}

static void start_anew(void) {
    static const char *const beside[] = { "", ".partial", ".ends", ".learned", ".progress", ".lock" };
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", path, beside[i]);
        unlink(name);
    }
    disk_fails = false;
}

/* Ends it, and looks at what is there: so many documents from `first` on, in one or two batches. */
static void finish(token_writer *w, uint64_t texts, uint16_t first, uint64_t second_batch) {
    static const char *const about[] = { "model", "m", NULL };
    static const uint32_t special[] = { 3, 9 };
    safetensors s;
    token_made made;
    uint64_t bytes, count = 3 * texts;
    w->special = special, w->special_count = 2;
    if (token_writer_finish(w, about, &bytes) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(bytes, HEADER + count * 2 + texts * 8 + count + sizeof special);
    assert_int_equal(bytes_of(path), bytes);
    assert_true(!is_there("t.safetensors.partial") && !is_there("t.safetensors.ends") &&
                !is_there("t.safetensors.learned") && !is_there("t.safetensors.progress"));
    assert_true(token_writer_made(path, &made));
    assert_true(made.bytes == bytes && made.at.tokens == count && made.at.documents == texts &&
                made.at.learned == texts);
    if (safetensors_open(path, &s) != STATUS_OK) fail_msg("%s", status_message());
    uint16_t *tokens = calloc(count, 2);
    uint8_t *learned = calloc(count, 1);
    uint64_t *ends = calloc(texts, 8);
    uint32_t ids[2];
    const struct {
        const char *name;
        void *to;
        uint64_t bytes;
    } lists[] = { { "tokens", tokens, count * 2 },
                  { "learned", learned, count },
                  { "ends", ends, texts * 8 },
                  { "special", ids, sizeof ids } };
    for (size_t i = 0; i < 4; i++) {
        const safetensors_entry *e = safetensors_find(&s, lists[i].name);
        assert_true(e && e->bytes == lists[i].bytes);
        assert_int_equal(safetensors_read_bytes(&s, e, 0, lists[i].to, e->bytes), STATUS_OK);
    }
    safetensors_close(&s);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t in_batch = i < 3 * second_batch ? i : i - 3 * second_batch;
        assert_int_equal(tokens[i], (i < 3 * second_batch ? 100 : first) + in_batch);
        assert_int_equal(learned[i], i % 3 == 2);
    }
    for (uint64_t d = 0; d < texts; d++) assert_int_equal(ends[d], 3 * (d + 1));
    assert_memory_equal(ids, special, sizeof special);
    free(tokens), free(learned), free(ends);
}

/* ---- going on ---- */

static void what_was_marked_is_there(void **state) {
    (void)state;
    start_anew();
    leave(OURS, 60);
    token_writer w = opened(OURS);
    assert_true(w.at.tokens == 15 && w.at.documents == 5 && w.at.learned == 5 && w.at.longest == 3 &&
                w.at.empty == 1);
    source_place next = place(6);
    assert_true(w.at.next.in.record == next.in.record && w.at.next.in.offset == next.in.offset &&
                w.at.next.in.line == next.in.line && w.at.next.file == next.file);
    assert_int_equal(bytes_of("t.safetensors.partial"), HEADER + 30);
    assert_int_equal(bytes_of("t.safetensors.ends"), 40);
    assert_int_equal(bytes_of("t.safetensors.learned"), 15);
    add(&w, 2, 500);
    finish(&w, 7, 500, 5);
}

/* Of other data nothing is taken, not even later. */
static void other_data_begin_anew(void **state) {
    (void)state;
    start_anew();
    leave(OURS, 0);
    token_writer w = opened(OTHERS);
    assert_true(w.at.tokens == 0 && w.at.documents == 0 && w.at.next.in.record == 0 &&
                w.at.next.in.line == 1);
    add(&w, 50, 700); /* longer than what was marked */
    token_writer_keep(&w);
    w = opened(OURS);
    assert_true(w.at.tokens == 0 && w.at.documents == 0 && w.at.next.in.record == 0);
    add(&w, 4, 300);
    finish(&w, 4, 300, 0);
}

/* A file that has less than the mark says: all begins anew. */
static void what_was_cut_off_begins_anew(void **state) {
    (void)state;
    static const struct {
        const char *name;
        off_t bytes;
    } cuts[] = { { "t.safetensors.partial", HEADER + 29 },
                 { "t.safetensors.ends", 39 },
                 { "t.safetensors.learned", 14 },
                 { "t.safetensors.progress", 20 } };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        start_anew();
        leave(OURS, 0);
        assert_int_equal(truncate(cuts[i].name, cuts[i].bytes), 0);
        token_writer w = opened(OURS);
        assert_true(w.at.tokens == 0 && w.at.next.in.record == 0 && w.at.next.in.line == 1);
        assert_false(is_there("t.safetensors.progress"));
        add(&w, 4, 300);
        finish(&w, 4, 300, 0);
    }
}

/* No mark says that something is there which isn't on the disk. */
static void what_is_not_on_the_disk_is_not_marked(void **state) {
    (void)state;
    start_anew();
    leave(OURS, 0);
    token_writer w = opened(OURS);
    add(&w, 3, 800);
    disk_fails = true;
    assert_int_equal(token_writer_mark(&w, place(9)), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "cannot write t.safetensors."));
    token_writer_keep(&w);
    disk_fails = false;
    w = opened(OURS);
    assert_true(w.at.documents == 5 && w.at.next.in.record == 6);
    token_writer_discard(&w);
    assert_true(!is_there("t.safetensors.partial") && !is_there("t.safetensors.ends") &&
                !is_there("t.safetensors.learned") && !is_there("t.safetensors.progress"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_marked_is_there),
        cmocka_unit_test(other_data_begin_anew),
        cmocka_unit_test(what_was_cut_off_begins_anew),
        cmocka_unit_test(what_is_not_on_the_disk_is_not_marked),
    };
    return cmocka_run_group_tests_name("token_writer", tests, scratch_open, scratch_close);
}
