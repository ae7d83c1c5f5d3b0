/* Records of two texts that are judged together: what stands around them, how they are cut, the types of
 * their tokens. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "data/labelled_source.h"
#include "io/scratch.h"

enum { CONTEXT = 12, CLASS = 1, SEPARATOR = 2, PAD = 0, FIRST = 3, VOCABULARY = 30 };

static uint32_t made[64];

static status encode_one(void *context, const char *text, uint64_t bytes, const uint32_t **ids,
                         uint64_t *count) {
    (void)context;
    for (uint64_t i = 0; i < bytes; i++) made[i] = FIRST + (uint32_t)(text[i] - 'a');
    *ids = made, *count = bytes;
    return STATUS_OK;
}

static status encode_alone(void *context, const char *text, uint64_t bytes, const uint32_t **ids,
                           uint64_t *count) {
    (void)context, (void)text, (void)bytes, (void)ids, (void)count;
    fail_msg("one of two texts is encoded as if it were alone");
    return STATUS_INVALID;
}

/* [CLS] A [SEP] B [SEP], as BERT has it; the type of a place is its own, so that each is seen. */
static labelled_tokens tokens(void) {
    return (labelled_tokens){ .encode = encode_alone,
                              .encode_one = encode_one,
                              .padding = PAD,
                              .first = { { CLASS }, { 5 }, 1 },
                              .between = { { SEPARATOR }, { 6 }, 1 },
                              .last = { { SEPARATOR }, { 7 }, 1 },
                              .type = { 8, 9 } };
}

static labelled_options options(uint32_t context) {
    return (labelled_options){ .path = "d.jsonl",
                               .text = "a",
                               .pair = "b",
                               .label = "label",
                               .context = context,
                               .vocabulary = VOCABULARY,
                               .segments = true,
                               .types = true,
                               .most = UINT64_MAX };
}

static void write_text(const char *words) { scratch_write("d.jsonl", words, strlen(words)); }

typedef struct {
    int32_t ids[CONTEXT], segments[CONTEXT], types[CONTEXT];
    float number;
} sample;

static void read_first(const labelled_options *o, sample *x) {
    labelled_tokens t = tokens();
    labelled *l;
    data_source s;
    if (labelled_open(o, &t, &l) != STATUS_OK) fail_msg("%s", status_message());
    labelled_source(l, LABELLED_ALL, &s);
    assert_int_equal(s.field_count, 4);
    assert_int_equal(s.field_bytes[3], o->context * sizeof(int32_t));
    assert_int_equal(s.read(&s, 0, NULL, (void *[]){ x->ids, &x->number, x->segments, x->types }), STATUS_OK);
    data_source_close(&s);
    labelled_close(l);
}

static void expect(const int32_t *is, const int32_t should[CONTEXT]) {
    for (int i = 0; i < CONTEXT; i++) assert_int_equal(is[i], should[i]);
}

static void both_texts_stand_in_a_sample(void **state) {
    (void)state;
    sample x;
    labelled_options o = options(CONTEXT);
    write_text("{\"b\": \"abc\", \"label\": 2.5, \"a\": \"xy\"}");
    read_first(&o, &x);
    expect(x.ids, (int32_t[]){ CLASS, 26, 27, SEPARATOR, 3, 4, 5, SEPARATOR, PAD, PAD, PAD, PAD });
    expect(x.types, (int32_t[]){ 5, 8, 8, 6, 9, 9, 9, 7, 0, 0, 0, 0 });
    expect(x.segments, (int32_t[]){ 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1 });
    assert_true(x.number == 2.5f);
    write_text("{\"b\": \"\", \"label\": 2, \"a\": \"x\"}");
    read_first(&o, &x);
    expect(x.ids, (int32_t[]){ CLASS, 26, SEPARATOR, SEPARATOR, PAD, PAD, PAD, PAD, PAD, PAD, PAD, PAD });
    expect(x.types, (int32_t[]){ 5, 8, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0 });
}

/* What the tokenizers library leaves of texts of so many tokens (truncation "longest_first"). */
static void two_texts_are_cut_as_the_library_cuts_them(void **state) {
    (void)state;
    static const struct {
        uint32_t context, first, second, left[2];
    } cases[] = { { 12, 4, 5, { 4, 5 } },  { 12, 5, 5, { 4, 5 } },   { 12, 14, 2, { 7, 2 } },
                  { 12, 2, 14, { 2, 7 } }, { 12, 14, 14, { 4, 5 } }, { 12, 14, 13, { 5, 4 } },
                  { 11, 4, 14, { 4, 4 } }, { 11, 14, 5, { 4, 4 } },  { 12, 0, 14, { 0, 9 } },
                  { 4, 3, 1, { 1, 0 } },   { 4, 2, 2, { 0, 1 } },    { 5, 9, 1, { 1, 1 } } };
    static const char letters[] = "abcdefghijklmnopqrst";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample x;
        char data[128];
        uint32_t at = 1;
        labelled_options o = options(cases[i].context);
        snprintf(data, sizeof data, "{\"a\": \"%.*s\", \"b\": \"%.*s\", \"label\": 0}", (int)cases[i].first,
                 letters, (int)cases[i].second, letters);
        write_text(data);
        read_first(&o, &x);
        for (int k = 0; k < 2; k++) {
            for (uint32_t n = 0; n < cases[i].left[k]; n++, at++)
                if (x.ids[at] != (int32_t)(FIRST + n) || x.types[at] != 8 + k) fail_msg("case %zu", i);
            if (x.ids[at++] != SEPARATOR) fail_msg("case %zu: text %d has another length", i, k);
        }
        assert_int_equal(x.types[at - 1], 7);
    }
}

static void what_is_wrong_with_pairs_is_said(void **state) {
    (void)state;
    static const struct {
        const char *data, *says;
        uint32_t context;
    } cases[] = {
        { "{\"a\": \"x\", \"label\": 0}", "the record has no \"b\"", CONTEXT },
        { "{\"a\": \"x\", \"b\": [1], \"label\": 0}", "\"b\" is neither a string nor a number", CONTEXT },
        { "{\"a\": \"\", \"b\": \"\", \"label\": 0}", "record 1: neither of its texts has a token", CONTEXT },
        { "{\"a\": \"x\", \"b\": \"~\", \"label\": 0}", "record 1: the text has a token 32", CONTEXT },
        { "{\"a\": \"x\", \"b\": \"y\", \"label\": 0}", "no room for text beside the 3 tokens", 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        labelled_options o = options(cases[i].context);
        labelled_tokens t = tokens();
        labelled *l;
        write_text(cases[i].data);
        assert_int_equal(labelled_open(&o, &t, &l), STATUS_INVALID);
        if (!strstr(status_message(), cases[i].says)) fail_msg("'%s': %s", cases[i].says, status_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(both_texts_stand_in_a_sample),
                                        cmocka_unit_test(two_texts_are_cut_as_the_library_cuts_them),
                                        cmocka_unit_test(what_is_wrong_with_pairs_is_said) };
    return cmocka_run_group_tests_name("pairs of texts", tests, scratch_open, scratch_close);
}
