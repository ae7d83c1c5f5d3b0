/* Hours of training, where they are asked for: beside published ones, and what they follow from. */
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

#define PATHS "--json --quiet --framework pytorch --dtype autocast --batch 1 --shard fsdp --gpus 1024 "

static double number(const char *line, const char *path) {
    json_document d;
    command_result r = command_run(line);
    if (r.exit != 0 && r.exit != 3) fail_msg("%s: exit %d: %s", line, r.exit, r.err);
    assert_int_equal(json_parse("estimate", r.out, strlen(r.out), &d), STATUS_OK);
    double value = 0;
    assert_int_equal(json_as_number(command_value(&d, path), 0, 1e18, &value), STATUS_OK);
    json_close(&d);
    command_free(&r);
    return value;
}

/* arXiv:2307.09288, and Llama 3.1's model card. */
static void published_hours_are_within_the_interval(void **state) {
    (void)state;
    static const struct {
        const char *line;
        double hours;
    } points[] = {
        { "estimate llama-2-7b --gpu a100-80 --context 4096 --tokens 2T " PATHS, 184320 },
        { "estimate llama-2-70b --gpu a100-80 --context 4096 --tokens 2T " PATHS, 1720320 },
        { "estimate llama-3.1-8b --gpu h100-80 --context 8192 --tokens 15T " PATHS, 1.46e6 },
        { "estimate llama-3.1-70b --gpu h100-80 --context 8192 --tokens 15T " PATHS, 7.0e6 },
    };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        double low = number(points[i].line, "gpu_hours.low"), high = number(points[i].line, "gpu_hours.high"),
               likely = number(points[i].line, "gpu_hours.likely");
        if (!(low < points[i].hours && points[i].hours < high) || likely < low || likely > high ||
            high > 4 * low)
            fail_msg("%s: %.0f, %.0f to %.0f, published are %.0f", points[i].line, likely, low, high,
                     points[i].hours);
    }
}

#define ONE "estimate gpt2 --gpu a100-80 --batch 8 --context 1024 --dtype half --json --quiet "

#define WIDE "estimate gpt2 --gpu a100-80 --batch 8 --context 1024 --dtype float32 --json --quiet --tokens 1B"

static void near(double a, double b) {
    if (a < 0.999 * b || a > 1.001 * b) fail_msg("%g where %g was expected", a, b);
}

/* Six operations for each weight of a product and each token, and twelve for each layer, channel and token
 * that is looked back at: by 312e12 a second, half of them. */
static void a_share_of_ones_own_is_taken_as_published_ones_are(void **state) {
    (void)state;
    double weights = 12 * 12 * 768.0 * 768 + 50257 * 768.0, token = 6 * weights + 12 * 12 * 768.0 * 1024,
           expected = 1e9 * token / (0.5 * 312e12) / 3600;
    double found = number(ONE "--tokens 1B --mfu 0.5", "gpu_hours.likely");
    if (found < 0.99 * expected || found > 1.03 * expected)
        fail_msg("%g where %g was expected", found, expected);
    near(number(ONE "--tokens 1B --mfu 0.5", "gpu_hours.low"), found);
    /* recomputation is not in such shares */
    near(number(ONE "--tokens 1B --mfu 0.5 --gradient-checkpointing", "gpu_hours.likely"), found);
}

static void hours_follow_from_what_is_asked(void **state) {
    (void)state;
    double once = number(ONE "--tokens 1B", "gpu_hours.likely");
    near(number(ONE "--tokens 2000M", "gpu_hours.likely"), 2 * once);
    near(number(ONE "--tokens 1e9", "gpu_hours.likely"), once);
    near(number(ONE "--steps 8192", "gpu_hours.likely"), once * 8192 * 8192 / 1e9);
    double four = number(ONE "--tokens 1B --gpus 4 --shard ddp", "hours.likely");
    near(4 * four, number(ONE "--tokens 1B --gpus 4 --shard ddp", "gpu_hours.likely"));
    near(4 * four, once);
    double again = number(ONE "--tokens 1B --gradient-checkpointing", "gpu_hours.likely");
    assert_true(again > 1.1 * once && again < 1.2 * once);
    assert_true(number(ONE "--tokens 1B --adapter-rank 8", "gpu_hours.likely") < 0.75 * once);
    assert_true(number(WIDE, "gpu_hours.likely") > 4 * once);
}

/* Products of experts and convolutions count as well: pytorch-image-models#1491 has 2,600 images a second,
 * and of Mixtral a token passes 12.9 of 46.7 billion weights. */
static void all_kinds_of_products_count(void **state) {
    (void)state;
#define IMAGES "estimate resnet-50 --gpu a100-80 --batch 512 --optimizer sgd --tokens 100M --json --quiet"
    double images = number(IMAGES, "gpu_hours.likely"), published = 100e6 / 2600 / 3600;
    assert_true(images > 0.8 * published && images < 1.25 * published);
#define EXPERTS "--gpu a100-80 --context 2048 --batch 1 --gpus 64 --shard fsdp --tokens 1B --json --quiet"
    double ratio = number("estimate mixtral-8x7b " EXPERTS, "gpu_hours.likely") /
                   number("estimate mistral-7b " EXPERTS, "gpu_hours.likely");
    assert_true(ratio > 1.6 && ratio < 2.0);
}

static void nothing_is_said_where_nobody_asks(void **state) {
    (void)state;
    command_result r = command_run(ONE);
    assert_null(strstr(r.out, "hours"));
    command_free(&r);
    assert_true(command_says("estimate gpt2 --gpu a100-80 --batch 8 --tokens 1B", 0, "hours of devices"));
    assert_true(command_says("estimate gpt2 --gpu m4-max-64 --tokens 1B", 0, "hours have no rule"));
}

static void what_cannot_be_asked_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *line, *said;
    } asks[] = { { "estimate gpt2 --tokens 1B", "say --gpu NAME" },
                 { "estimate gpt2 --gpu t4 --tokens 1X", "is not a count" },
                 { "estimate gpt2 --gpu t4 --tokens 1Bx", "is not a count" },
                 { "estimate gpt2 --gpu t4 --tokens 0", "is not from" },
                 { "estimate gpt2 --gpu t4 --tokens 1B --steps 7", "say one of them" },
                 { "estimate gpt2 --gpu t4 --mfu 0.4", "say --tokens or --steps" },
                 { "estimate gpt2 --gpu t4 --solve batch --tokens 1B", "--solve for something else" },
                 { "estimate gpt2 --gpu t4 --framework vllm --tokens 1B", "--framework hf" } };
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        assert_true(command_says(asks[i].line, 2, asks[i].said));
}

#define TITAN                                                                                                \
    "estimate llama-3.1-70b --framework torchtitan --gpu h100-96 --gpus 256 --batch 16 --context 8192 "      \
    "--tensor-parallel-degree 8 --activation-checkpoint full --compile --json --quiet "

/* torchtitan's seconds are counted: hours are those of its tokens a second, and so are those of steps. */
static void hours_of_torchtitan_follow_from_its_tokens_a_second(void **state) {
    (void)state;
    double speed = number(TITAN, "tokens_per_second.likely"), step = number(TITAN, "step_seconds.likely"),
           hours = number(TITAN "--tokens 1T", "gpu_hours.likely");
    near(hours, 1e12 / speed / 3600);
    near(number(TITAN "--tokens 1T", "hours.likely"), hours / 256);
    near(number(TITAN "--tokens 1T", "gpu_hours.high"), 1e12 / number(TITAN, "tokens_per_second.low") / 3600);
    near(number(TITAN "--steps 1000", "hours.likely"), 1000 * step / 3600);
    near(speed, 16 * 8192 / 8 / step);
    assert_true(number(TITAN "--enable-async-tensor-parallel", "tokens_per_second.likely") > 1.03 * speed);
    assert_true(number(TITAN "--float8 tensorwise", "tokens_per_second.likely") > 1.2 * speed);
    assert_true(command_says("estimate llama-3.1-8b --framework torchtitan --tokens 1T", 2,
                             "--tokens asks for the hours of a device"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(published_hours_are_within_the_interval),
                                        cmocka_unit_test(a_share_of_ones_own_is_taken_as_published_ones_are),
                                        cmocka_unit_test(hours_follow_from_what_is_asked),
                                        cmocka_unit_test(all_kinds_of_products_count),
                                        cmocka_unit_test(hours_of_torchtitan_follow_from_its_tokens_a_second),
                                        cmocka_unit_test(nothing_is_said_where_nobody_asks),
                                        cmocka_unit_test(what_cannot_be_asked_is_refused) };
    return cmocka_run_group_tests_name("hours", tests, scratch_open, scratch_close);
}
