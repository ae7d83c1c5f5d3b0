/* The process's peak as the operating system counts it, against what was planned and what was allowed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "device/device.h"
#include "io/safetensors.h"
#include "io/scratch.h"

/* Trains within `budget` and looks at the three numbers. */
static void train_within(const char *model, const char *more, uint64_t budget) {
    char line[512];
    json_document d;
    snprintf(line, sizeof line,
             "train %s --data text --out run --overwrite --steps 2 --eval-samples 4 --json --quiet %s "
             "--memory %llu",
             model, more, (unsigned long long)budget);
    command_result r = command_run(line);
    if (r.exit) fail_msg("snug %s: exit %d, %s", line, r.exit, r.err);
    assert_int_equal(json_parse("run", r.out, strlen(r.out), &d), STATUS_OK);
    uint64_t predicted = command_number(&d, "predicted.peak_bytes");
    if (r.resident_peak > predicted || predicted > budget)
        fail_msg("snug %s: the process took %llu bytes, planned %llu, allowed %llu", line,
                 (unsigned long long)r.resident_peak, (unsigned long long)predicted,
                 (unsigned long long)budget);
    assert_true(command_number(&d, "measured.peak_bytes") <= r.resident_peak);
    json_close(&d);
    command_free(&r);
}

/* A refused process takes less than the least budget that it names. */
static void refused_within(const char *model, const char *more, uint64_t budget) {
    char line[512];
    json_document d;
    snprintf(line, sizeof line, "plan %s --data text --eval-samples 4 --json --quiet %s --memory %llu", model,
             more, (unsigned long long)budget);
    command_result r = command_run(line);
    assert_int_equal(r.exit, 3);
    assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
    uint64_t least = command_number(&d, "least_budget_bytes");
    json_close(&d);
    if (r.resident_peak >= least)
        fail_msg("snug %s: the process took %llu bytes, and the least is %llu", line,
                 (unsigned long long)r.resident_peak, (unsigned long long)least);
    command_free(&r);
}

/* Budgets from the least to plenty. */
static void every_budget_is_kept(void **state) {
    (void)state;
    static const struct {
        const char *model, *more;
    } cases[] = { { "tiny", "--batch 8" },
                  { "char-small", "--batch 4 --context 64" },
                  { "char-small", "--batch 6 --context 128 --threads 1" },
                  { "tiny", "--batch 32 --workers 4" },
                  { "deep", "--batch 8" },
                  { "char-small", "--batch 4 --context 64 --offload optimizer --offload-to " SNUG_BUILD } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        json_document d;
        snprintf(line, sizeof line, "plan %s --data text --eval-samples 4 --json --quiet %s", cases[i].model,
                 cases[i].more);
        command_result r = command_run(line);
        assert_int_equal(r.exit, 0);
        assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
        uint64_t least = command_number(&d, "least_budget_bytes"),
                 most = command_number(&d, "predicted.peak_bytes");
        json_close(&d);
        command_free(&r);
        refused_within(cases[i].model, cases[i].more, least - 1);
        train_within(cases[i].model, cases[i].more, least);
        train_within(cases[i].model, cases[i].more, (least + most) / 2);
        train_within(cases[i].model, cases[i].more, most);
    }
    refused_within("deep", "--batch 4 --allow all --threads 3 --offload-to " SNUG_BUILD, 16 << 20);
}

/* A long run remembers its losses and times, and sorts these: measured, 24 bytes a step. They are planned. */
static void long_runs_plan_what_they_remember(void **state) {
    (void)state;
    uint64_t peak[2];
    for (int i = 0; i < 2; i++) {
        json_document d;
        command_result r = command_run(i ? "plan tiny --steps 1000001 --json --quiet"
                                         : "plan tiny --steps 1 --json --quiet");
        assert_int_equal(r.exit, 0);
        assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
        peak[i] = command_number(&d, "predicted.peak_bytes");
        json_close(&d);
        command_free(&r);
    }
    assert_true(peak[1] >= peak[0] + 24 * UINT64_C(1000000));
}

static void generating_keeps_its_plan(void **state) {
    (void)state;
    json_document d;
    command_expect(0, "train char-small --data text --out model --steps 1 --batch 2 --quiet");
    command_result r = command_run("generate model --prompt=the --tokens 50 --json --quiet");
    assert_int_equal(r.exit, 0);
    assert_int_equal(json_parse("generate", r.out, strlen(r.out), &d), STATUS_OK);
    assert_true(r.resident_peak <= command_number(&d, "predicted.peak_bytes"));
    json_close(&d);
    command_free(&r);
}

/* Lists of blocks, and a block in each reader's scratch: planned like all else. */
static void documents_that_stay_whole_keep_their_plan(void **state) {
    (void)state;
    enum { DOCUMENTS = 300000, TOKENS = 4 * DOCUMENTS };
    uint64_t *ends = malloc(DOCUMENTS * sizeof *ends), count = 0, random = 43;
    uint16_t *tokens = calloc(TOKENS, sizeof *tokens);
    for (int d = 0; d < DOCUMENTS; d++) ends[d] = count += 1 + scratch_random(&random) % 4;
    safetensors_item items[] = {
        { .name = "ends", .dtype = "U64", .shape = SHAPE(DOCUMENTS), .data = ends, .bytes = DOCUMENTS * 8 },
        { .name = "tokens",
          .dtype = "U16",
          .shape = SHAPE((int64_t)count),
          .data = tokens,
          .bytes = count * 2 },
    };
    assert_int_equal(safetensors_write("d.safetensors", items, 2), STATUS_OK);
    free(ends);
    free(tokens);
    const char *const cases[] = { "--context 8 --workers 0", "--context 8 --workers 6",
                                  "--context 64 --workers 2" };
    for (int i = 0; i < 3; i++) {
        char line[256];
        json_document d;
        snprintf(line, sizeof line,
                 "train char-small --data d.safetensors --pack whole --batch 16 --out whole --overwrite "
                 "--steps 3 --eval-samples 8 --json --quiet %s",
                 cases[i]);
        command_result r = command_run(line);
        if (r.exit) fail_msg("snug %s: exit %d, %s", line, r.exit, r.err);
        assert_int_equal(json_parse("run", r.out, strlen(r.out), &d), STATUS_OK);
        uint64_t predicted = command_number(&d, "predicted.peak_bytes");
        if (r.resident_peak > predicted)
            fail_msg("snug %s: took %llu bytes, planned %llu", line, (unsigned long long)r.resident_peak,
                     (unsigned long long)predicted);
        json_close(&d);
        command_free(&r);
    }
}

/* Making tokens, from the least memory on: with one thread, and with those that it asks for. */
static void making_tokens_keeps_its_plan(void **state) {
    (void)state;
    static const char *const names[] = { "messages", "role", "content" };
    static const char *const kinds[] = { "gpt2", "llama3", "xlmr" };
    static const char *const data[] = { "texts.jsonl", "pairs.jsonl", "chats.jsonl" };
    tokens_texts("texts.jsonl", 9000, 150, 6);
    tokens_pairs("pairs.jsonl", 9000, 4);
    tokens_chats("chats.jsonl", 3000, names, 3);
    for (int i = 0; i < 9; i++) {
        char line[256];
        json_document d;
        tokens_model("m", kinds[i / 3]);
        command_shell("rm -f t.safetensors*");
        snprintf(line, sizeof line, "tokenize m --data %s --out t.safetensors --threads %d --json --quiet",
                 data[i % 3], i % 2 ? 1 : 3);
        uint64_t planned = command_asked(line, "planned_bytes");
        command_shell("rm t.safetensors");
        snprintf(line + strlen(line), 64, " --memory %llu", (unsigned long long)planned);
        command_result r = command_run(line);
        if (r.exit) fail_msg("snug %s: exit %d, %s", line, r.exit, r.err);
        assert_int_equal(json_parse("it", r.out, strlen(r.out), &d), STATUS_OK);
        uint64_t within = command_number(&d, "planned_bytes");
        if (r.resident_peak > within || within > planned)
            fail_msg("snug %s: took %llu bytes, planned %llu", line, (unsigned long long)r.resident_peak,
                     (unsigned long long)within);
        json_close(&d);
        command_free(&r);
    }
    command_shell("rm -f t.safetensors");
    device_runtime own = device_runtime_reserve(1);
    char refused[160];
    snprintf(refused, sizeof refused, "tokenize m --data texts.jsonl --out t.safetensors --memory %llu",
             (unsigned long long)(own.code + own.threads));
    assert_true(command_says(refused, 3, "the program's own), and --memory is "));
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (!failed) command_make_files();
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_budget_is_kept),
        cmocka_unit_test(long_runs_plan_what_they_remember),
        cmocka_unit_test(generating_keeps_its_plan),
        cmocka_unit_test(documents_that_stay_whole_keep_their_plan),
        cmocka_unit_test(making_tokens_keeps_its_plan),
    };
    return cmocka_run_group_tests_name("memory from outside", tests, open_files, scratch_close);
}
