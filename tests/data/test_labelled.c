/* Texts with labels as samples: ids, where texts end, names of classes, what is held out, what is refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/labelled_source.h"
#include "io/scratch.h"
#include "sanitized.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS 0 /* they have a malloc of their own */
#else
#define COUNTS 1
#endif

/* Bytes that are held now, and were at most. */
static uint64_t live, peak;

#if COUNTS
/* glibc's own, which it lets be called by these names. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void __libc_free(void *block);

static void *taken(void *block) {
    live += block ? malloc_usable_size(block) : 0;
    if (peak < live) peak = live;
    return block;
}

void *malloc(size_t bytes) { return taken(__libc_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) { return taken(__libc_calloc(count, bytes)); }

void free(void *block) {
    live -= block ? malloc_usable_size(block) : 0;
    __libc_free(block);
}

/* As if each block moved: then there are two of it. */
void *realloc(void *block, size_t bytes) {
    uint64_t before = block ? malloc_usable_size(block) : 0;
    void *moved = taken(__libc_realloc(block, bytes));
    live -= moved ? before : 0;
    return moved;
}
#endif

enum { CONTEXT = 6, BEGIN = 1, END = 2, PAD = 0, FIRST = 3 };

/* A letter is an id from 3 on; 1 stands before a text and 2 behind it. */
static uint32_t made[256];

static status encode(void *context, const char *text, uint64_t bytes, const uint32_t **ids, uint64_t *count) {
    uint64_t around = *(uint32_t *)context, n = 0;
    if (around) made[n++] = BEGIN;
    for (uint64_t i = 0; i < bytes; i++) made[n++] = FIRST + (uint32_t)(text[i] - 'a');
    if (around) made[n++] = END;
    *ids = made, *count = n;
    return STATUS_OK;
}

static uint32_t with_ends = 1, without_ends = 0;

static labelled_tokens tokens(bool around) {
    return (labelled_tokens){ .context = around ? &with_ends : &without_ends,
                              .encode = encode,
                              .before = around,
                              .behind = around,
                              .padding = PAD };
}

static labelled_options options(const char *path, const label_names *names) {
    return (labelled_options){ .path = path,
                               .text = "text",
                               .label = "label",
                               .context = CONTEXT,
                               .vocabulary = 40,
                               .names = names,
                               .most = UINT64_MAX };
}

static void write_text(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

typedef struct {
    int32_t ids[CONTEXT], third[CONTEXT];
    union {
        int32_t class;
        float number;
    };
} sample;

static sample read_sample(const data_source *s, uint64_t which) {
    sample x = { 0 };
    must(s->read(s, which, NULL, (void *[]){ x.ids, &x.class, x.third }));
    return x;
}

static void expect_ids(const sample *x, const int32_t ids[CONTEXT]) {
    for (int i = 0; i < CONTEXT; i++) assert_int_equal(x->ids[i], ids[i]);
}

/* Long ones are cut before what stands behind them. */
static void texts_are_filled_and_cut(void **state) {
    (void)state;
    label_names names = { 0 };
    labelled *l;
    data_source s;
    write_text("d.jsonl", "{\"text\": \"ab\", \"label\": \"x\"}\n{\"label\": \"y\", \"text\": \"abcd\"}\n"
                          "{\"text\": \"abcdefgh\", \"label\": \"x\"}\n");
    must(labelled_names("d.jsonl", "label", UINT64_MAX, &names));
    for (int segments = 0; segments < 2; segments++) {
        labelled_options o = options("d.jsonl", &names);
        labelled_tokens t = tokens(true);
        o.segments = segments;
        must(labelled_open(&o, &t, &l));
        assert_int_equal(labelled_cut(l), 1);
        assert_int_equal(labelled_longest(l), 10);
        labelled_source(l, LABELLED_ALL, &s);
        assert_int_equal(s.samples, 3);
        sample a = read_sample(&s, 0), b = read_sample(&s, 1), c = read_sample(&s, 2);
        expect_ids(&a, (int32_t[]){ BEGIN, 3, 4, END, PAD, PAD });
        expect_ids(&b, (int32_t[]){ BEGIN, 3, 4, 5, 6, END });
        expect_ids(&c, (int32_t[]){ BEGIN, 3, 4, 5, 6, END });
        assert_int_equal(a.class, 0);
        assert_int_equal(b.class, 1);
        for (int i = 0; i < CONTEXT && segments; i++) assert_int_equal(a.third[i], i >= 4);
        if (!segments) assert_int_equal(a.third[0], 3);
        if (!segments) assert_int_equal(b.third[0], 5);
        data_source_close(&s);
        labelled_close(l);
    }
    label_names_close(&names);
}

/* As transformers finds it: the last id that is not the padding's, whatever put it there. */
static void the_place_is_the_last_that_is_no_padding(void **state) {
    (void)state;
    labelled *l;
    data_source s;
    labelled_tokens t = tokens(false);
    labelled_options o = options("p.csv", NULL);
    t.padding = FIRST + 1; /* the letter b */
    write_text("p.csv", "label,text\n1.5,abab\n-2,bbb\n");
    must(labelled_open(&o, &t, &l));
    labelled_source(l, LABELLED_ALL, &s);
    assert_int_equal(s.label_field, DATA_NO_LABELS);
    sample a = read_sample(&s, 0), b = read_sample(&s, 1);
    assert_int_equal(a.third[0], 2);
    assert_int_equal(b.third[0], 0);
    assert_true(a.number == 1.5f && b.number == -2.0f);
    data_source_close(&s);
    labelled_close(l);
}

/* Every record is trained on or held out, every tenth the latter; its number is its class here. */
static void every_tenth_is_held_out(void **state) {
    (void)state;
    for (uint32_t count = 8; count < 34; count++) {
        FILE *f = fopen("t.jsonl", "w");
        bool seen[64] = { 0 };
        labelled *l;
        data_source train, rest;
        labelled_tokens t = tokens(false);
        labelled_options o = options("t.jsonl", NULL);
        for (uint32_t i = 0; i < count; i++) fprintf(f, "{\"text\": \"a\", \"label\": %u}\n", i);
        fclose(f);
        must(labelled_open(&o, &t, &l));
        labelled_source(l, LABELLED_TRAINED, &train);
        labelled_source(l, LABELLED_HELD_OUT, &rest);
        assert_true(train.held_bytes > 0);
        assert_int_equal(rest.held_bytes, 0); /* counted once */
        assert_int_equal(rest.samples, count / 10);
        assert_int_equal(train.samples + rest.samples, count);
        for (uint64_t i = 0; i < count; i++) {
            bool held = i >= train.samples;
            uint32_t which =
                (uint32_t)read_sample(held ? &rest : &train, held ? i - train.samples : i).number;
            assert_true(which < count && !seen[which]);
            assert_int_equal(which % 10 == 9, held);
            seen[which] = true;
        }
        labelled_close(l);
    }
}

static void names_have_their_order(void **state) {
    (void)state;
    static const char *const words[] = { "b", "a", "10", "9", "a" };
    static const char *const numbers[] = { "10", "9", "-1", "2.5", "9" };
    label_names n = { 0 };
    for (int i = 0; i < 5; i++) must(label_names_add(&n, words[i], strlen(words[i]), NULL));
    assert_int_equal(n.count, 4);
    label_names_sort(&n);
    assert_string_equal(n.name[0], "10");
    assert_string_equal(n.name[3], "b");
    assert_int_equal(label_names_find(&n, "9", 1), 1);
    assert_int_equal(label_names_find(&n, "ab", 1), 2);
    assert_int_equal(label_names_find(&n, "0", 1), -1); /* a name is a number, so numbers are names */
    label_names_close(&n);
    for (int i = 0; i < 5; i++) must(label_names_add(&n, numbers[i], strlen(numbers[i]), NULL));
    label_names_sort(&n);
    assert_string_equal(n.name[0], "-1");
    assert_string_equal(n.name[1], "2.5");
    assert_string_equal(n.name[3], "10");
    label_names_close(&n);
    must(label_names_add(&n, "no", 2, NULL));
    must(label_names_add(&n, "yes", 3, NULL));
    assert_int_equal(label_names_find(&n, "1", 1), 1); /* no name is a number: it is the id */
    assert_int_equal(label_names_find(&n, "2", 1), -1);
    assert_int_equal(label_names_find(&n, "0.5", 3), -1);
    assert_int_equal(label_names_add(&n, "", 0, NULL), STATUS_INVALID);
    assert_int_equal(label_names_add(&n, "a\0b", 3, NULL), STATUS_INVALID);
    label_names_close(&n);
}

/* Plain values of JSON are as their letters, also where the buffer ends within them. */
static void plain_labels_are_read(void **state) {
    (void)state;
    FILE *f = fopen("v.jsonl", "w");
    label_names names = { 0 };
    for (int i = 0; i < 3000; i++)
        fprintf(f, "{\"label\":%s,\"text\":\"%.*s\"}\n", i % 3 ? i % 3 > 1 ? "-12.5e3" : "true" : "7", i % 17,
                "abcdefghijklmnopqrstuvwxyz");
    fclose(f);
    must(labelled_names("v.jsonl", "label", UINT64_MAX, &names));
    assert_int_equal(names.count, 3);
    assert_true(label_names_find(&names, "-12.5e3", 7) >= 0 && label_names_find(&names, "true", 4) >= 0);
    label_names_close(&names);
}

static void expect_refused(const char *content, const label_names *names, const char *says) {
    labelled *l;
    labelled_tokens t = tokens(false);
    labelled_options o = options("r.jsonl", names);
    write_text("r.jsonl", content);
    assert_int_equal(labelled_open(&o, &t, &l), STATUS_INVALID);
    if (!strstr(status_message(), says)) fail_msg("'%s' does not say '%s'", status_message(), says);
    assert_null(l);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    label_names names = { 0 };
    labelled *l;
    labelled_tokens t = tokens(true);
    must(label_names_add(&names, "x", 1, NULL));
    must(label_names_add(&names, "y", 1, NULL));
#define GOOD "{\"text\": \"a\", \"label\": \"x\"}\n"
    expect_refused(GOOD "{\"text\": \"a\", \"label\": \"z\"}\n", &names, "r.jsonl, record 2: the label 'z'");
    expect_refused(GOOD "{\"text\": \"\", \"label\": \"x\"}\n", &names, "record 2: the text has no token");
    expect_refused(GOOD "{\"label\": \"x\"}\n", &names, "has no \"text\"");
    expect_refused(GOOD, NULL, "the label 'x' is no number");
    expect_refused("{\"text\": \"a\", \"label\": 1e300}\n", NULL, "too large a number");
    expect_refused("{\"text\": \"a\", \"label\": [1]}\n", NULL, "neither a string nor a number");
    labelled_options o = options("r.jsonl", &names);
    write_text("r.jsonl", GOOD);
    o.vocabulary = 3;
    assert_int_equal(labelled_open(&o, &t, &l), STATUS_INVALID);
    o.vocabulary = 40, o.context = 2;
    assert_int_equal(labelled_open(&o, &t, &l), STATUS_INVALID);
    o.context = CONTEXT, o.most = 100;
    assert_int_equal(labelled_open(&o, &t, &l), STATUS_NO_FIT);
    label_names_close(&names);
}

/* ---- memory ---- */

/* A letter is an id, in a buffer that grows with the text and stays. */
typedef struct {
    uint32_t *ids;
    uint64_t room, most;
} growing;

static status encode_growing(void *context, const char *text, uint64_t bytes, const uint32_t **ids,
                             uint64_t *count) {
    growing *g = context;
    if (bytes > g->room) {
        if ((g->room + bytes) * sizeof *g->ids > g->most) return status_set(STATUS_NO_FIT, "no room");
        g->ids = realloc(g->ids, bytes * sizeof *g->ids), g->room = bytes;
    }
    for (uint64_t i = 0; i < bytes; i++) g->ids[i] = (unsigned char)text[i] % 40;
    *ids = g->ids, *count = bytes;
    return STATUS_OK;
}

static uint64_t growing_held(const void *context) {
    return ((const growing *)context)->room * sizeof(uint32_t);
}
static void growing_limit(void *context, uint64_t bytes) { ((growing *)context)->most = bytes; }

/* One text of so many letters, or so many of one; the labels are names as long as `label`, all different. */
static void write_records(const char *path, uint32_t records, uint32_t letters, int label) {
    FILE *f = fopen(path, "w");
    for (uint32_t i = 0; i < records; i++) {
        fprintf(f, "{\"label\": \"%0*u\", \"text\": \"", label, i);
        for (uint32_t k = 0; k < letters; k++) fputc('a' + (int)(k % 7), f);
        fprintf(f, "\"}\n");
    }
    fclose(f);
}

typedef enum { AS_BYTES, AS_TOKENS, NAMES } way;

/* Reads within `most` bytes, and never takes more than that and what the names of files do. */
static status read_within(way how, uint64_t most) {
    enum { FILES = 48 << 10 };
    labelled *l = NULL;
    label_names names = { 0 };
    growing g = { 0 };
    labelled_tokens t = { .padding = PAD };
    labelled_options o = options("most.jsonl", NULL);
    o.vocabulary = 256, o.most = most;
    if (how == AS_TOKENS)
        t.context = &g, t.encode = encode_growing, t.held = growing_held, t.limit = growing_limit;
    uint64_t before = live;
    peak = live;
    status result = how == NAMES ? labelled_names(o.path, o.label, most, &names) : labelled_open(&o, &t, &l);
    if (COUNTS && peak - before > most + FILES)
        fail_msg("%llu bytes were taken of %llu", (unsigned long long)(peak - before),
                 (unsigned long long)most);
    if (result == STATUS_INVALID || result == STATUS_FAILED) fail_msg("%s", status_message());
    if (result == STATUS_NO_FIT && !strstr(status_message(), "most.jsonl"))
        fail_msg("no file: %s", status_message());
    if (l) assert_true(labelled_held(l) <= most);
    free(g.ids);
    labelled_close(l);
    label_names_close(&names);
    return result;
}

static void reading_stays_within_its_memory(void **state) {
    (void)state;
    enum { MIB = 1 << 20 };
    static const struct {
        uint32_t records, letters;
        int label;
        way how;
        uint64_t fits; /* and half of it doesn't; 0: everything from a reader on does */
    } cases[] = {
        { 1, 3 * MIB, 1, AS_BYTES, 0 },       { 1, 2 * MIB, 1, AS_TOKENS, 24 * MIB },
        { 100000, 5, 1, AS_BYTES, 16 * MIB }, { 100000, 5, 1, AS_TOKENS, 16 * MIB },
        { 20000, 1, 100, NAMES, 16 * MIB },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t fits = cases[i].fits;
        write_records("most.jsonl", cases[i].records, cases[i].letters, cases[i].label);
        assert_int_equal(read_within(cases[i].how, 1000), STATUS_NO_FIT);
        assert_int_equal(read_within(cases[i].how, fits ? fits : MIB), STATUS_OK);
        for (uint64_t most = MIB; most < fits; most += SANITIZED ? 3 * most : most / 5 * 4) {
            status result = read_within(cases[i].how, most);
            assert_true(result == STATUS_OK || result == STATUS_NO_FIT);
        }
        if (fits) assert_int_equal(read_within(cases[i].how, fits / 8), STATUS_NO_FIT);
    }
}

/* What stays is what the records need: 16 bytes each, and 4 for each id. */
static void nothing_is_left_over(void **state) {
    (void)state;
    labelled *l;
    labelled_tokens t = { .padding = PAD };
    labelled_options o = options("over.jsonl", NULL);
    o.vocabulary = 256;
    write_records("over.jsonl", 1, 3, 1);
    must(labelled_open(&o, &t, &l));
    uint64_t one = labelled_held(l);
    labelled_close(l);
    write_records("over.jsonl", 1001, 3, 1);
    must(labelled_open(&o, &t, &l));
    assert_int_equal(labelled_held(l), one + 1000 * (16 + 3 * 4));
    labelled_close(l);
}

/* A text is cut where its bytes are ids, though no more of it is kept; so is a label that is too long. */
static void what_is_cut_is_counted(void **state) {
    (void)state;
    labelled *l;
    data_source s;
    label_names names = { 0 };
    labelled_tokens t = { .padding = PAD };
    labelled_options o = options("cut.jsonl", NULL);
    o.vocabulary = 256;
    write_records("cut.jsonl", 2, 200000, 1);
    must(labelled_open(&o, &t, &l));
    assert_int_equal(labelled_cut(l), 2);
    assert_int_equal(labelled_longest(l), 200000);
    labelled_source(l, LABELLED_ALL, &s);
    sample a = read_sample(&s, 1);
    expect_ids(&a, (int32_t[]){ 'a', 'b', 'c', 'd', 'e', 'f' });
    labelled_close(l);
    write_records("cut.jsonl", 1, 1, 70000);
    assert_int_equal(labelled_names("cut.jsonl", "label", UINT64_MAX, &names), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "a label has 70000 bytes"));
    must(label_names_add(&names, "0", 1, NULL));
    o.names = &names;
    assert_int_equal(labelled_open(&o, &t, &l), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "is none of the 1"));
    label_names_close(&names);
}

/* ---- labels of Parquet ---- */

#define GOLDEN SNUG_ROOT "/tests/data/parquet/"

static void copy(const char *golden, const char *to) {
    static char data[8 << 10];
    FILE *file = fopen(golden, "rb");
    size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    scratch_write(to, data, bytes);
}

/* Ids are the file's numbers whatever the names are; for a score the numbers themselves are learned. */
static void parquet_names_its_classes(void **state) {
    (void)state;
    static const char *const wanted[] = { "zebra", "cat \u00e9 \"x\"", "ant" };
    static const int32_t ids[] = { 2, 0, 1, 1, 2 };
    label_names names = { 0 };
    labelled *l;
    data_source s;
    must(labelled_names(GOLDEN "class-i64.parquet", "label", UINT64_MAX, &names));
    label_names_sort(&names);
    assert_int_equal(names.count, 3);
    for (uint32_t i = 0; i < 3; i++) assert_string_equal(names.name[i], wanted[i]);
    for (int numbers = 0; numbers < 2; numbers++) {
        labelled_options o = options(GOLDEN "class-i64.parquet", numbers ? NULL : &names);
        labelled_tokens t = { .padding = PAD };
        o.vocabulary = 256;
        must(labelled_open(&o, &t, &l));
        labelled_source(l, LABELLED_ALL, &s);
        assert_int_equal(s.samples, 5);
        for (uint64_t i = 0; i < 5; i++) {
            sample x = read_sample(&s, i);
            expect_ids(&x, (int32_t[]){ 't', 'e', 'x', 't', ' ', '0' + (int32_t)i });
            if (numbers) assert_true(x.number == (float)ids[i]);
            if (!numbers) assert_int_equal(x.class, ids[i]);
        }
        labelled_close(l);
    }
    label_names_close(&names);
    must(labelled_names(GOLDEN "unnamed-i32.parquet", "label", UINT64_MAX, &names));
    label_names_sort(&names);
    assert_string_equal(names.name[0], "2");
    assert_string_equal(names.name[1], "9");
    assert_string_equal(names.name[2], "10");
    label_names_close(&names);
}

/* Numbers without names may belong to names that are there; to labels without names none come. */
static void files_name_the_same_classes(void **state) {
    (void)state;
    label_names names = { 0 };
    assert_int_equal(mkdir("mixed", 0700), 0);
    copy(GOLDEN "class-i8.parquet", "mixed/a.parquet");
    copy(GOLDEN "unnamed-i32.parquet", "mixed/b.parquet");
    assert_int_equal(labelled_names("mixed", "label", UINT64_MAX, &names), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "b.parquet, record 1: the label '10' is none of the 3"));
    label_names_close(&names);
    copy(GOLDEN "unnamed-i32.parquet", "mixed/0.parquet");
    assert_int_equal(labelled_names("mixed", "label", UINT64_MAX, &names), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "mixed/a.parquet names its classes, and data before it"));
    label_names_close(&names);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(texts_are_filled_and_cut),
                                        cmocka_unit_test(the_place_is_the_last_that_is_no_padding),
                                        cmocka_unit_test(every_tenth_is_held_out),
                                        cmocka_unit_test(names_have_their_order),
                                        cmocka_unit_test(plain_labels_are_read),
                                        cmocka_unit_test(what_is_wrong_is_said),
                                        cmocka_unit_test(reading_stays_within_its_memory),
                                        cmocka_unit_test(nothing_is_left_over),
                                        cmocka_unit_test(what_is_cut_is_counted),
                                        cmocka_unit_test(parquet_names_its_classes),
                                        cmocka_unit_test(files_name_the_same_classes) };
    return cmocka_run_group_tests_name("labelled", tests, scratch_open, scratch_close);
}
