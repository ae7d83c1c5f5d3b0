/* P5 with less memory: of runs that are drawn, resumed at budgets below what they were begun with. Where any
 * plan with the same bits is within the budget, whichever cut into micro-batches it takes, a resume takes
 * one; what --exact lets through is always the same run; and what is said of a change is so. */
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
#include "io/scratch.h"

static const char same_bits[] = "results stay the same bit for bit", same_plan[] = "that it was begun with",
                  other_sums[] = "takes some sums in another order",
                  other_numbers[] = "computes with other numbers";

static uint64_t random_state = 20261122;
static int draw(int from, int to) {
    return from + (int)(scratch_random(&random_state) % (uint32_t)(to - from + 1));
}

/* ---- runs ---- */

typedef struct {
    char line[512]; /* "train model.json --data text …", without a budget and a folder */
    int batch;
    uint64_t least, whole; /* bytes: of the least plan, and of the one that it was begun with */
} drawn;

static void draw_run(drawn *r) {
    char config[512];
    static const char *const optimizers[] = { "adamw", "sgd", "lion" };
    int heads = draw(1, 2), tied = draw(0, 1), context = 16 << draw(0, 2);
    int n = snprintf(
        config, sizeof config,
        "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_head\": %d, \"n_embd\": %d, \"n_positions\": "
        "64, \"vocab_size\": 256, \"tie_word_embeddings\": %s, \"embd_pdrop\": 0.%d}",
        draw(1, 4), heads, heads * 16 * draw(1, 2), tied ? "true" : "false", draw(0, 1));
    scratch_write("model.json", config, (size_t)n);
    r->batch = 4 << draw(0, 3);
    snprintf(r->line, sizeof r->line,
             "train model.json --data text --steps 4 --save-every 2 --keep 4 --eval-samples 2 --lr 1e-2 "
             "--batch %d "
             "--context %d --optimizer %s",
             r->batch, context, optimizers[draw(0, 2)]);
    char plan[600];
    snprintf(plan, sizeof plan, "plan%s", strchr(r->line, ' '));
    char *saving = strstr(plan, "--save-every"); /* of training alone */
    assert_non_null(saving);
    strcat(plan, " --threads 2 --json --quiet");
    r->least = command_least_budget(plan);
}

static uint64_t peak_of(const char *run) {
    char path[64];
    json_document d;
    snprintf(path, sizeof path, "%s/run.json", run);
    assert_int_equal(json_open(path, &d), STATUS_OK);
    uint64_t peak = command_number(&d, "predicted.peak_bytes");
    json_close(&d);
    return peak;
}

/* Begins it, and leaves "half" where it has two steps behind it. */
static void begin(drawn *r, const char *more) {
    char line[1024];
    assert_int_equal(system("rm -rf whole half"), 0);
    snprintf(line, sizeof line, "%s --threads 2 --out whole %s", r->line, more);
    command_expect(0, line);
    r->whole = peak_of("whole");
    assert_int_equal(
        system("cp -r whole half && rm -r half/checkpoint-4 half/model.safetensors half/run.json"), 0);
}

/* Goes on from there with these options too; its exit code. What it said stays in *r. */
static int go_on(const drawn *d, const char *more, command_result *r) {
    char line[1024];
    assert_int_equal(system("rm -rf went && cp -r half went"), 0);
    snprintf(line, sizeof line, "%s --out went --resume %s", d->line, more);
    *r = command_run(line);
    return r->exit;
}

static bool same_weights(void) {
    return system(
               "cmp -s whole/model.safetensors went/model.safetensors && "
               "cmp -s whole/checkpoint-4/optimizer.safetensors went/checkpoint-4/optimizer.safetensors") ==
           0;
}

static bool says(const command_result *r, const char *words) {
    return command_has_words(r->out, words) || command_has_words(r->err, words);
}

/* ---- budgets ---- */

/* By asking for each cut into micro-batches by itself. */
static bool has_exact_plan(const drawn *d, uint64_t budget) {
    bool any = false;
    for (int micro = d->batch; micro && !any; micro /= 2) {
        char more[128];
        command_result r;
        snprintf(more, sizeof more, "--threads 2 --exact --micro-batch %d --memory %llu", micro,
                 (unsigned long long)budget);
        int code = go_on(d, more, &r);
        any = code == 0;
        if (any && !same_weights()) fail_msg("%s %s: --exact has changed the weights", d->line, more);
        command_free(&r);
    }
    return any;
}

static void resume_at(const drawn *d, uint64_t budget, int counts[3]) {
    char more[128];
    command_result r;
    snprintf(more, sizeof more, "--threads %d --memory %llu", draw(1, 2), (unsigned long long)budget);
    int code = go_on(d, more, &r);
    bool same = code == 0 && same_weights(), told = says(&r, same_bits) || says(&r, same_plan);
    if (code != 0 && code != 3) fail_msg("%s %s: exit %d, %s", d->line, more, code, r.err);
    if (code == 0 && told && !same) fail_msg("%s %s: other weights, and it says %s", d->line, more, r.out);
    if (code == 0 && !told && !says(&r, other_sums)) fail_msg("%s %s: says %s", d->line, more, r.out);
    bool exact = has_exact_plan(d, budget);
    if (exact && !same)
        fail_msg("%s %s: an EXACT plan is there, and it says %s%s", d->line, more, r.out, r.err);
    counts[code == 3 ? 2 : !exact] += 1;
    command_free(&r);
}

static void exact_plans_are_taken(void **state) {
    (void)state;
    enum { RUNS = 8, BUDGETS = 3 };
    static const char *const begun[] = { "", "--attention flash", "--attention off", "--accumulation add" };
    int counts[3] = { 0 };
    for (int i = 0; i < RUNS; i++) {
        drawn d;
        char more[128];
        draw_run(&d);
        snprintf(more, sizeof more, "%s", begun[draw(0, 3)]);
        if (strstr(more, "add"))
            snprintf(more, sizeof more, "--accumulation add --micro-batch %d", d.batch / 2);
        begin(&d, more);
        for (int b = 0; b < BUDGETS; b++) {
            double part = (double)draw(b * 30, b * 30 + 40) / 100;
            uint64_t room = d.whole > d.least ? d.whole - d.least : 0;
            resume_at(&d, d.least + (uint64_t)(part * (double)room), counts);
        }
    }
    print_message("%d with an EXACT plan, %d without, %d that did not fit\n", counts[0], counts[1],
                  counts[2]);
    assert_true(counts[0] >= RUNS);
}

/* The one that was found: other whole tiles than those that it was begun with, beside flash attention. */
static void another_cut_is_exact(void **state) {
    (void)state;
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 2, \"n_embd\": 64, \"n_positions\": 64, "
        "\"vocab_size\": 256, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1, \"resid_pdrop\": 0.1}";
    drawn d = { .batch = 16 };
    command_result r;
    scratch_write("model.json", config, sizeof config - 1);
    strcpy(d.line, "train model.json --data text --batch 16 --steps 4 --save-every 2 --keep 4 --eval-every 4 "
                   "--eval-samples 16 --lr 1e-3");
    /* Pinned, since which cut is the fastest depends on this machine's caches. */
    begin(&d, "--attention flash --micro-batch 16");
    char more[160];
    uint64_t less = d.whole - (4u << 20);
    snprintf(more, sizeof more, "--threads 1 --memory %llu", (unsigned long long)less);
    assert_int_equal(go_on(&d, more, &r), 0);
    assert_true(says(&r, same_bits) && same_weights());
    command_free(&r);
    strcat(more, " --exact");
    assert_int_equal(go_on(&d, more, &r), 0);
    assert_true(says(&r, same_bits) && same_weights());
    command_free(&r);
    assert_int_equal(go_on(&d, "--exact", &r), 0); /* speaks of the run as it was begun */
    assert_true(says(&r, same_plan) && same_weights());
    command_free(&r);
    assert_int_equal(go_on(&d, "--exact --attention off", &r), 2);
    assert_true(says(&r, "--exact keeps the results of went/checkpoint-2"));
    command_free(&r);
    snprintf(more, sizeof more, "--exact --memory %llu", (unsigned long long)8 << 20);
    assert_int_equal(go_on(&d, more, &r), 3);
    command_free(&r);
}

/* ---- what is said ---- */

static void write_gpt2(int layers, int channels) {
    char config[256];
    int n = snprintf(config, sizeof config,
                     "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_head\": 2, \"n_embd\": %d, "
                     "\"n_positions\": 64, \"vocab_size\": 256}",
                     layers, channels);
    scratch_write("model.json", config, (size_t)n);
}

static void classes_are_said(void **state) {
    (void)state;
    drawn d = { .batch = 8 };
    command_result r;
    write_gpt2(2, 32);
    strcpy(d.line,
           "train model.json --data text --batch 8 --steps 4 --save-every 2 --keep 4 --eval-samples 2");
    begin(&d, "--attention flash --micro-batch 8");
    static const struct {
        const char *more, *said;
    } cases[] = {
        { "--precision mixed-bf16", other_numbers },
        { "--qat int8", "--qat was off and is int8" },
        { "--compress-activations 8bit", other_numbers },
        { "--attention off", other_sums },
        { "--recompute block", same_bits },
        { "--micro-batch 4 --context 64", same_bits },
        { "", same_plan },
        { "--allow all", same_plan },
        { "--micro-batch 3", other_sums },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = go_on(&d, cases[i].more, &r);
        bool loads = code == 0 || says(&r, "has not the type and shape") || says(&r, "has no tensor");
        if (!loads || !says(&r, cases[i].said))
            fail_msg("%s: exit %d, nothing of '%s' in %s%s", cases[i].more, code, cases[i].said, r.out,
                     r.err);
        command_free(&r);
    }
}

/* What --allow brings is used only where a checkpoint has values for it, and then it is said. */
static void allowances_fit_the_checkpoint(void **state) {
    (void)state;
    drawn d = { .batch = 8 };
    int used = 0, left_out = 0;
    write_gpt2(3, 96);
    strcpy(d.line,
           "train model.json --data text --batch 8 --steps 4 --save-every 2 --keep 4 --eval-samples 2");
    begin(&d, "");
    d.least = command_least_budget(
        "plan model.json --data text --batch 8 --steps 4 --eval-samples 2 --json --quiet");
    for (int part = 0; part < 6; part++) {
        char more[96];
        command_result r;
        snprintf(more, sizeof more, "--allow all --memory %llu",
                 (unsigned long long)(d.least - (uint64_t)part * 150000 + 100000));
        int code = go_on(&d, more, &r);
        if (code != 0 && code != 3) fail_msg("%s: exit %d, %s", more, code, r.err);
        used += code == 0 && says(&r, other_numbers);
        left_out += says(&r, "is left out");
        command_free(&r);
    }
    print_message("%d of 6 with what --allow names, %d that left some of it out\n", used, left_out);
    assert_true(left_out > 0);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (failed) return failed;
    command_make_files();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_cut_is_exact),
        cmocka_unit_test(exact_plans_are_taken),
        cmocka_unit_test(classes_are_said),
        cmocka_unit_test(allowances_fit_the_checkpoint),
    };
    return cmocka_run_group_tests_name("resume budgets", tests, open_files, scratch_close);
}
