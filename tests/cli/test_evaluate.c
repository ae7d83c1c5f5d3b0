/* Validation alone, as a user has it: the loss that training has reported, in the memory of forward alone, as
 * planned and within the least budget; and what is wrong said in a sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/scratch.h"

#define EVALUATE "train model --data text --eval-only "

static int make_model(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    command_expect(0, "train tiny/config.json --data text --out model --steps 40 --batch 8 --lr 3e-3 "
                      "--save-every 20 --eval-batch 4 --quiet");
    return 0;
}

typedef struct {
    double loss, perplexity;
    uint64_t weights, peak, least;
} evaluated;

/* Runs the line with --json, and sees that bytes are as planned and nothing of training is among them. */
static evaluated evaluate(const char *line) {
    static const char *const categories[] = { "weights",     "gradients", "optimizer", "activations",
                                              "temporaries", "scratch",   "inputs",    "gaps" };
    char whole[512], path[64];
    json_document d;
    evaluated e = { 0 };
    snprintf(whole, sizeof whole, "%s --json --quiet", line);
    command_result r = command_run(whole);
    if (r.exit) fail_msg("snug %s: %s", whole, r.err);
    assert_int_equal(json_parse("evaluation", r.out, strlen(r.out), &d), STATUS_OK);
    json_value about = command_value(&d, "evaluation");
    assert_int_equal(json_get_number(about, "loss", 0, 1e9, &e.loss), STATUS_OK);
    assert_int_equal(json_get_number(about, "perplexity", 0, 1e9, &e.perplexity), STATUS_OK);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        snprintf(path, sizeof path, "predicted.by_category.%s", categories[i]);
        uint64_t planned = command_number(&d, path);
        snprintf(path, sizeof path, "measured.by_category.%s", categories[i]);
        assert_int_equal(command_number(&d, path), planned);
        if (i >= 1 && i <= 3) assert_int_equal(planned, 0);
    }
    e.weights = command_number(&d, "predicted.by_category.weights");
    e.peak = command_number(&d, "predicted.peak_bytes");
    e.least = command_number(&d, "least_budget_bytes");
    assert_true(r.resident_peak <= e.peak);
    json_close(&d);
    command_free(&r);
    return e;
}

static void it_is_the_loss_that_training_reports(void **state) {
    (void)state;
    json_document d;
    double reported = 0;
    if (json_open("model/run.json", &d) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(
        json_get_number(json_item(command_value(&d, "eval_losses"), 0), "loss", 0, 1e9, &reported),
        STATUS_OK);
    uint64_t training = command_number(&d, "predicted.peak_bytes");
    json_close(&d);
    evaluated same = evaluate(EVALUATE "--eval-batch 4"),
              other = evaluate(EVALUATE "--eval-batch 3 --threads 1");
    if (same.loss != reported) fail_msg("%.17g, and training has reported %.17g", same.loss, reported);
    if (!(fabs(other.loss - reported) < 1e-6 * reported)) fail_msg("%.17g, not %.17g", other.loss, reported);
    assert_true(fabs(same.perplexity - exp(reported)) < 1e-9 * exp(reported));
    assert_true(same.peak < training);
}

static void checkpoints_and_other_texts_do_as_well(void **state) {
    (void)state;
    evaluated end = evaluate(EVALUATE),
              middle = evaluate("train model/checkpoint-20 --data text --eval-only");
    evaluated whole = evaluate("train model --eval-data text --eval-samples 1000 --eval-only");
    assert_true(end.loss < middle.loss);
    assert_true(whole.loss != end.loss && end.weights == whole.weights);
}

static void the_least_budget_is_the_least(void **state) {
    (void)state;
    char line[160];
    uint64_t least = evaluate(EVALUATE).least;
    snprintf(line, sizeof line, EVALUATE "--memory %llu", (unsigned long long)least);
    assert_int_equal(evaluate(line).peak, least);
    snprintf(line, sizeof line, EVALUATE "--memory %llu --quiet", (unsigned long long)least - 1);
    command_result r = command_run(line);
    assert_int_equal(r.exit, 3);
    assert_non_null(strstr(r.err, "does not fit"));
    command_free(&r);
    snprintf(line, sizeof line, EVALUATE "--eval-batch 16 --memory %llu --quiet", (unsigned long long)least);
    r = command_run(line);
    assert_int_equal(r.exit, 3);
    assert_non_null(strstr(r.err, "--eval-batch auto"));
    command_free(&r);
}

static void a_report_is_written_where_it_spoils_nothing(void **state) {
    (void)state;
    json_document d;
    command_expect(0, EVALUATE "--out seen --quiet");
    if (json_open("seen/run.json", &d) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(command_number(&d, "evaluation.samples"), 64);
    json_close(&d);
    assert_int_equal(system("cp model/run.json before && cp -r model kept"), 0);
    command_expect(2, EVALUATE "--out model");
    command_expect(2, EVALUATE "--out model --overwrite");
    command_expect(0, EVALUATE "--out seen --quiet");
    command_expect(0, EVALUATE "--quiet");
    assert_int_equal(system("cmp before model/run.json && diff -r model kept"), 0);
}

static void says_no_note(const char *line) {
    command_result r = command_run(line);
    assert_int_equal(r.exit, 0);
    assert_null(strstr(r.out, "note:"));
    assert_null(strstr(r.err, "note:"));
    command_free(&r);
}

/* Positions are learned: a model begun on fewer of them than it has is evaluated on those, and every command
 * says so once. */
static void weights_are_evaluated_as_they_were_trained(void **state) {
    (void)state;
#define BEGIN                                                                                                \
    "train tiny/config.json --data text --out %s --overwrite --steps 20 --save-every 20 --batch 8 --lr "     \
    "3e-3 "
    char line[256];
    snprintf(line, sizeof line, BEGIN "--context 8", "short8");
    assert_true(command_says(line, 0, "note: tiny/config.json learns a vector"));
    snprintf(line, sizeof line, BEGIN, "long");
    says_no_note(line);
    says_no_note("train model --data text --out more --steps 1 --context 8"); /* it has learned them all */
    evaluated own = evaluate("train short8 --data text --eval-only"),
              same = evaluate("train short8 --data text --eval-only --context 8"),
              step = evaluate("train short8/checkpoint-20 --data text --eval-only"),
              all = evaluate("train short8 --data text --eval-only --context 32");
    assert_true(own.loss == same.loss && own.loss == step.loss && own.loss != all.loss);
    assert_true(command_says("train short8 --data text --eval-only", 0, "note: samples of 8 tokens"));
    assert_true(command_says("quantize short8 --to int8 --data text --out short8q", 0,
                             "of 8 tokens, as in training"));
    assert_true(command_says("generate short8 --prompt the --tokens 12", 0,
                             "note: the model was trained on texts of 8"));
    says_no_note("generate short8 --prompt the --tokens 5");
}

static void refuses(const char *line, const char *says) {
    command_result r = command_run(line);
    if (r.exit != 2 || !strstr(r.err, says)) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
    command_free(&r);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    refuses("train model --eval-only", "wants --data");
    refuses("train tiny/config.json --data text --eval-only", "no weights");
    refuses("train char-small --data text --eval-only", "no weights");
    refuses("train nowhere --data text --eval-only", "nowhere");
    refuses("train model --data nowhere --eval-only", "nowhere");
    refuses(EVALUATE "--resume", "--resume");
    refuses(EVALUATE "--lora rank=4", "snug merge");
    refuses(EVALUATE "--context 100000", "--context");
    assert_int_equal(system("head -c 300 text > short"), 0);
    refuses("train model --data short --eval-only", "no whole sample");
    assert_int_equal(system("cp -r model odd && rm odd/metrics.jsonl && mkdir odd/metrics.jsonl"), 0);
    refuses("train odd --data text --eval-only", "odd/metrics.jsonl");
    refuses("profile model --eval-only", "--eval-only");
    command_expect(0, "plan gpt2 --eval-only --quiet");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_loss_that_training_reports),
        cmocka_unit_test(checkpoints_and_other_texts_do_as_well),
        cmocka_unit_test(weights_are_evaluated_as_they_were_trained),
        cmocka_unit_test(the_least_budget_is_the_least),
        cmocka_unit_test(a_report_is_written_where_it_spoils_nothing),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, make_model, scratch_close);
}
