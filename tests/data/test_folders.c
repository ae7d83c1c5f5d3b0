/* What holds for a folder holds for each of its files, in whatever order they come; and listing many of them
 * is planned. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "data/corpus.h"
#include "data/text_source.h"
#include "io/safetensors.h"
#include "io/scratch.h"

enum { CONTEXT = 8, TOKENS = 40, HIGHEST = 80000, VOCABULARY = 70000 };

/* ---- files of tokens ---- */

typedef struct {
    bool wide, learned, special;
    uint64_t first_end; /* of two documents; the second is the rest */
    uint32_t highest;   /* id */
} file_of_tokens;

static void save(const char *path, const file_of_tokens *f) {
    uint16_t narrow[TOKENS] = { 0 };
    uint32_t ids[TOKENS] = { 0 }, special[] = { 3 };
    uint8_t learned[TOKENS] = { 0, 1 };
    uint64_t ends[] = { f->first_end, TOKENS };
    ids[TOKENS - 1] = f->highest, narrow[TOKENS - 1] = (uint16_t)f->highest;
    safetensors_item items[4] = {
        { .name = "ends", .dtype = "U64", .shape = SHAPE(2), .data = ends, .bytes = sizeof ends },
        { .name = "tokens",
          .dtype = f->wide ? "U32" : "U16",
          .shape = SHAPE(TOKENS),
          .data = f->wide ? (void *)ids : narrow,
          .bytes = f->wide ? sizeof ids : sizeof narrow },
    };
    uint32_t used = 2;
    if (f->learned)
        items[used++] = (safetensors_item){
            .name = "learned", .dtype = "U8", .shape = SHAPE(TOKENS), .data = learned, .bytes = TOKENS
        };
    if (f->special)
        items[used++] = (safetensors_item){
            .name = "special", .dtype = "U32", .shape = SHAPE(1), .data = special, .bytes = sizeof special
        };
    if (safetensors_write(path, items, used) != STATUS_OK) fail_msg("%s", status_message());
}

static data_source opened(const char *path, bool gaps) {
    data_source s;
    text_source_options o = { .path = path, .context = CONTEXT, .vocabulary = VOCABULARY, .gaps = gaps };
    if (text_source_open(&o, &s) != STATUS_OK) fail_msg("%s", status_message());
    return s;
}

/* One of the two files has what the other lacks, and comes first or last. */
static void each_file_counts(void **state) {
    (void)state;
    static const file_of_tokens plain = { .first_end = 20, .highest = 9 };
    static const file_of_tokens others[] = {
        { .first_end = 20, .learned = true },
        { .first_end = 20, .special = true },
        { .first_end = 1 },
        { .first_end = 20, .wide = true, .highest = HIGHEST },
    };
    assert_int_equal(mkdir("both", 0700), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int last = 0; last < 2; last++) {
            const file_of_tokens *x = &others[i];
            save("both/a.safetensors", last ? &plain : x);
            save("both/b.safetensors", last ? x : &plain);
            data_source s = opened("both", true);
            assert_int_equal(text_source_learns_some(&s), x->learned);
            assert_int_equal(s.in_place, x->learned || x->special);
            assert_int_equal(text_source_longest(&s), TOKENS - x->first_end);
            assert_int_equal(data_source_check(&s), x->highest < VOCABULARY ? STATUS_OK : STATUS_INVALID);
            data_source_close(&s);
        }
}

/* ---- arrays ---- */

static void save_array(const char *path, bool wide) {
    enum { HEAD = 128 };
    unsigned char file[HEAD + 4 * TOKENS] = { 0 };
    int n = snprintf((char *)file, HEAD,
                     "\x93NUMPY\x01%c%c%c{'descr': '<u%d', 'fortran_order': False, 'shape': (%d,)}", 0,
                     HEAD - 10, 0, wide ? 4 : 2, TOKENS);
    memset(file + n, ' ', HEAD - (size_t)n);
    for (int i = 0; i < TOKENS; i++) file[HEAD + i * (wide ? 4 : 2)] = (unsigned char)i;
    scratch_write(path, file, HEAD + TOKENS * (wide ? 4 : 2));
}

/* What is read has room for the widest. */
static void the_widest_has_room(void **state) {
    (void)state;
    _Alignas(64) static char scratch[4 * (CONTEXT + 1)];
    assert_int_equal(mkdir("arrays", 0700), 0);
    for (int last = 0; last < 2; last++) {
        int32_t tokens[CONTEXT], labels[CONTEXT];
        void *fields[] = { tokens, labels };
        save_array("arrays/a.npy", !last);
        save_array("arrays/b.npy", last);
        data_source s = opened("arrays", false);
        assert_int_equal(s.scratch_bytes, sizeof scratch);
        for (uint64_t k = 0; k < s.samples; k++) {
            assert_int_equal(s.read(&s, k, scratch, fields), STATUS_OK);
            for (uint64_t i = 0; i < CONTEXT; i++) {
                assert_int_equal(tokens[i], (k * CONTEXT + i) % TOKENS);
                assert_int_equal(labels[i], (k * CONTEXT + i + 1) % TOKENS);
            }
        }
        data_source_close(&s);
    }
}

/* ---- many ---- */

static uint64_t held_of(int from, int to) {
    for (int i = from; i < to; i++) {
        char path[32];
        snprintf(path, sizeof path, "many/%06d.txt", i);
        scratch_write(path, "some words", 10);
    }
    data_source s = opened("many", false);
    uint64_t held = s.held_bytes;
    data_source_close(&s);
    return held;
}

/* Each file is held, and beyond the first 1024 its name in the list as well. */
static void what_is_held_grows_with_the_files(void **state) {
    (void)state;
    assert_int_equal(mkdir("many", 0700), 0);
    uint64_t few = held_of(0, 4), more = held_of(4, 1024), most = held_of(1024, 1124);
    uint64_t each = (more - few) / 1020;
    assert_true(each >= sizeof(data_file) + strlen("many/000000.txt") && each * 1020 == more - few);
    assert_true(most - more >= 100 * (each + strlen("many/000000.txt")));
    assert_true(few >= 4 * each + sizeof(corpus));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_counts),
        cmocka_unit_test(the_widest_has_room),
        cmocka_unit_test(what_is_held_grows_with_the_files),
    };
    return cmocka_run_group_tests_name("folders", tests, scratch_open, scratch_close);
}
