/* Texts with labels as samples: ids, where texts end, names of classes, what is held out, what is refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/labelled_source.h"
#include "io/scratch.h"

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
    must(labelled_names("d.jsonl", "label", &names));
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
    must(labelled_names("v.jsonl", "label", &names));
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

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(texts_are_filled_and_cut),
                                        cmocka_unit_test(the_place_is_the_last_that_is_no_padding),
                                        cmocka_unit_test(every_tenth_is_held_out),
                                        cmocka_unit_test(names_have_their_order),
                                        cmocka_unit_test(plain_labels_are_read),
                                        cmocka_unit_test(what_is_wrong_is_said) };
    return cmocka_run_group_tests_name("labelled", tests, scratch_open, scratch_close);
}
