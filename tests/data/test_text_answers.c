/* Texts and their answers as samples: of random lengths, cut and filled up as data/answers.h says, from one
 * file and from several; what is no such pair is refused before a run begins. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/text_source.h"
#include "io/safetensors.h"
#include "io/scratch.h"

enum { CONTEXT = 40, DOCUMENTS = 300, LONGEST = 700, VOCABULARY = 1000, START = 7, PADDING = 3 };

typedef struct {
    uint32_t ids[DOCUMENTS * LONGEST];
    uint8_t learned[DOCUMENTS * LONGEST];
    uint64_t ends[DOCUMENTS], text[DOCUMENTS], count; /* text: tokens of it */
} made;
static made all;

/* Mostly short ones; some beyond the context, and beyond what is read at once. */
static uint64_t draw_length(uint64_t *random) {
    uint64_t most = scratch_random(random) % 20 == 0 ? LONGEST / 2 - 1 : 60;
    return 1 + scratch_random(random) % most;
}

static void draw(void) {
    uint64_t random = 5;
    all.count = 0;
    for (int d = 0; d < DOCUMENTS; d++) {
        uint64_t text = all.text[d] = draw_length(&random), answer = draw_length(&random);
        for (uint64_t i = 0; i < text + answer; i++) {
            all.ids[all.count] = (uint32_t)(scratch_random(&random) % VOCABULARY);
            all.learned[all.count++] = i >= text;
        }
        all.ends[d] = all.count;
    }
}

/* Documents first .. end-1. */
static void save(const char *path, int first, int end, bool learned) {
    static uint64_t ends[DOCUMENTS];
    uint64_t begin = first ? all.ends[first - 1] : 0, tokens = all.ends[end - 1] - begin;
    for (int d = first; d < end; d++) ends[d - first] = all.ends[d] - begin;
    int64_t count = (int64_t)tokens, documents = end - first;
    safetensors_item items[] = {
        { .name = "ends",
          .dtype = "U64",
          .shape = SHAPE(documents),
          .data = ends,
          .bytes = (uint64_t)documents * 8 },
        { .name = "tokens",
          .dtype = "U32",
          .shape = SHAPE(count),
          .data = all.ids + begin,
          .bytes = tokens * 4 },
        { .name = "learned",
          .dtype = "U8",
          .shape = SHAPE(count),
          .data = all.learned + begin,
          .bytes = tokens },
    };
    assert_int_equal(safetensors_write(path, items, learned ? 3 : 2), STATUS_OK);
}

static data_source opened(const char *path, data_source *held) {
    data_source s;
    text_source_options o = { .path = path, .context = CONTEXT, .vocabulary = VOCABULARY, .hold_out = held };
    text_source_packing p = { .way = TEXT_SOURCE_ANSWERS, .padding = PADDING, .start = START };
    if (text_source_open(&o, &s) != STATUS_OK) fail_msg("%s", status_message());
    if (held) assert_int_equal(text_source_held_out(&s, held), STATUS_OK);
    assert_int_equal(text_source_pack(&s, &p), STATUS_OK);
    if (held) assert_int_equal(text_source_pack(held, &p), STATUS_OK);
    return s;
}

/* What stands at `place` of a list that is cut to the context and keeps its last. */
static int32_t cut(const uint32_t *list, uint64_t count, uint64_t place, int32_t behind) {
    if (place >= count) return behind;
    return (int32_t)(place == CONTEXT - 1 ? list[count - 1] : list[place]);
}

static void check_sample(const data_source *s, uint64_t sample, int document, void *scratch) {
    int32_t tokens[CONTEXT], labels[CONTEXT], decoder[CONTEXT], length;
    uint64_t begin = document ? all.ends[document - 1] : 0, text = all.text[document],
             answer = all.ends[document] - begin - text;
    const uint32_t *asked = all.ids + begin, *answered = asked + text;
    assert_int_equal(s->read(s, sample, scratch, (void *[]){ tokens, labels, decoder, &length }), STATUS_OK);
    assert_int_equal(length, text < CONTEXT ? text : CONTEXT);
    for (uint64_t i = 0; i < CONTEXT; i++) {
        assert_int_equal(tokens[i], cut(asked, text, i, PADDING));
        assert_int_equal(labels[i], cut(answered, answer, i, DATA_IGNORED_LABEL));
        if (i && i <= answer) assert_int_equal(decoder[i], labels[i - 1]);
    }
    assert_int_equal(decoder[0], START);
}

static void check_samples(const data_source *s, int first) {
    void *scratch = calloc(1, s->scratch_bytes);
    assert_int_equal(s->field_count, 4);
    assert_int_equal(s->field_bytes[3], sizeof(int32_t));
    assert_int_equal(data_source_check(s), STATUS_OK);
    for (uint64_t k = s->samples; k-- > 0;) check_sample(s, k, first + (int)k, scratch);
    free(scratch);
}

static void samples_are_pairs(void **state) {
    (void)state;
    data_source held;
    draw();
    save("one.safetensors", 0, DOCUMENTS, true);
    data_source s = opened("one.safetensors", NULL);
    assert_int_equal(s.samples, DOCUMENTS);
    check_samples(&s, 0);
    data_source_close(&s);
    /* those that begin in the last tenth of the tokens validate */
    s = opened("one.safetensors", &held);
    assert_int_equal(s.samples + held.samples, DOCUMENTS);
    assert_true(held.samples > DOCUMENTS / 20);
    check_samples(&s, 0);
    check_samples(&held, (int)s.samples);
    data_source_close(&s);
    data_source_close(&held);
}

static void a_folder_is_one(void **state) {
    (void)state;
    mkdir("folder", 0700);
    save("folder/a.safetensors", 0, 17, true);
    save("folder/b.safetensors", 17, 18, true);
    save("folder/c.safetensors", 18, DOCUMENTS, true);
    data_source s = opened("folder", NULL);
    assert_int_equal(s.samples, DOCUMENTS);
    check_samples(&s, 0);
    data_source_close(&s);
}

static void expect_wrong(const char *says) {
    save("wrong.safetensors", 0, DOCUMENTS, true);
    data_source s = opened("wrong.safetensors", NULL);
    assert_int_equal(data_source_check(&s), STATUS_INVALID);
    if (!strstr(status_message(), says)) fail_msg("%s", status_message());
    data_source_close(&s);
}

static void what_is_no_pair_is_refused(void **state) {
    (void)state;
    text_source_packing p = { .way = TEXT_SOURCE_ANSWERS };
    data_source s;
    uint64_t begin = all.ends[99];
    draw();
    memset(all.learned + begin, 1, all.ends[100] - begin);
    expect_wrong("document 100 has no text before its answer");
    memset(all.learned + begin, 0, all.ends[100] - begin);
    expect_wrong("document 100 has no answer");
    memset(all.learned + begin, 0, 1), all.learned[begin + 1] = 1;
    all.learned[all.ends[100] - 1] = 0;
    if (all.ends[100] - begin > 2) expect_wrong("document 100 goes on behind an answer");
    draw();
    all.ids[begin] = VOCABULARY;
    expect_wrong("vocabulary");
    draw();
    save("all.safetensors", 0, DOCUMENTS, false);
    text_source_options o = { .path = "all.safetensors", .context = CONTEXT, .vocabulary = VOCABULARY };
    assert_int_equal(text_source_open(&o, &s), STATUS_OK);
    assert_int_equal(text_source_pack(&s, &p), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "doesn't say what is a text and what the answer to it"));
    data_source_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(samples_are_pairs),
                                        cmocka_unit_test(a_folder_is_one),
                                        cmocka_unit_test(what_is_no_pair_is_refused) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
