/* Encoders with a classifier of tokens (--labels) in place of the head that fills gaps. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"

static uint64_t asked(const char *options, const char *path) {
    char line[256];
    snprintf(line, sizeof line, "estimate %s --json --quiet", options);
    return command_asked(line, path);
}

/* transformers counts 108,893,186 parameters of BertForQuestionAnswering: bert-base without a pooler, and 768
 * weights and a bias for each of two labels. */
static void a_classifier_is_small(void **state) {
    (void)state;
#define ASKED "bert-base --batch 8 --context 384 --framework hf "
    uint64_t two = asked(ASKED "--labels 2", "parameters");
    assert_int_equal(two, 108893186);
    assert_int_equal(asked(ASKED "--labels 9", "parameters"), two + 7 * 769);
    uint64_t gaps = asked(ASKED "--labels off", "live_bytes.likely"),
             few = asked(ASKED "--labels 2", "live_bytes.likely"),
             many = asked(ASKED "--labels 20000", "live_bytes.likely");
    assert_int_equal(gaps, asked(ASKED, "live_bytes.likely"));
    assert_true(gaps > few + (uint64_t)8 * 384 * 30522 * 4); /* logits, and more than that */
    assert_true(many > few && many < gaps);
}

static void only_encoders_have_one(void **state) {
    (void)state;
    assert_true(command_says("estimate gpt2 --framework hf --labels 2", 2, "--labels is of encoders"));
    assert_true(
        command_says("estimate vit-base --framework pytorch --labels 2", 2, "--labels is of encoders"));
    assert_true(command_says("estimate bert-base --framework hf --labels 0", 2, "--labels"));
    assert_true(command_says("estimate bert-base --framework snug --labels 2", 2, "--labels"));
}

static void the_answer_says_which_head(void **state) {
    (void)state;
    assert_true(command_says("estimate bert-base --framework hf", 0, "with the head that fills gaps"));
    command_result r = command_run("estimate bert-base --framework hf --labels 2");
    assert_int_equal(r.exit, 0);
    assert_false(command_has_words(r.out, "head that fills gaps"));
    command_free(&r);
    r = command_run("estimate roberta-base --framework hf --labels 5 --emit hf --quiet");
    assert_int_equal(r.exit, 0);
    assert_true(command_has_words(r.out, "AutoModelForTokenClassification.from_pretrained("));
    assert_true(command_has_words(r.out, "num_labels=5,"));
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_classifier_is_small),
                                        cmocka_unit_test(only_encoders_have_one),
                                        cmocka_unit_test(the_answer_says_which_head) };
    return cmocka_run_group_tests_name("classifiers", tests, scratch_open, scratch_close);
}
