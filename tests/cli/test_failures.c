/* Nothing is dropped in silence: of each command every call for memory and to a file fails once, by every way
 * that leads to it (its caller and that one's caller; SNUG_TEST_LONG=1: five callers). Then the command says
 * why it stopped, or its results are those of a run in which nothing failed. What it has left behind by then
 * does not keep the next from the same results. tests/failures/fail_calls.c makes calls fail. */
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
#include "cli/trees.h"
#include "io/scratch.h"

#define TRAIN                                                                                                \
    "train --data text --batch 4 --eval-every 2 --eval-samples 2 --threads 1 --quiet --save-every 2 "        \
    "--keep 1 --schedule constant --out o "

typedef struct {
    const char *line;
    const char *before; /* a shell command that makes what it begins with; NULL: nothing */
    const char *again;  /* after a failure this ends in the same results; NULL: there is nothing to see */
} trial;

static const trial trials[] = {
    { "plan tiny --batch 4 --threads 1 --json", NULL, NULL },
    { "plan tiny --batch 4 --threads 1 --memory 16MB --allow all --offload-to . --json", NULL, NULL },
    { "plan tiny --batch 4 --threads 1 --html page.html --json --quiet", NULL, NULL },
    { "compare tiny --data text --batch 4 --threads 1 --memory 17MB", NULL, NULL },
    { "compare tiny --batch 4 --threads 1 --html page.html --quiet", NULL, NULL },
    { "profile tiny --batch 4 --threads 1 --steps 2 --data text --quiet", NULL, NULL },
    { "profile tiny --batch 4 --threads 1 --steps 2 --html page.html --quiet", NULL, NULL },
    { "estimate tiny --device t4 --batch 4 --json", NULL, NULL },
    { "estimate tiny --device t4 --batch 4 --html page.html --quiet", NULL, NULL },
    { "status begun --json", NULL, NULL },
    { "status begun --html page.html --json", NULL, NULL },
    { "snapshot memory.pickle.gz --html page.html --quiet",
      "cp " SNUG_ROOT "/bench/snapshots/streams.pickle.gz memory.pickle.gz", NULL },
    { "snapshot memory.pickle.gz --json",
      "cp " SNUG_ROOT "/bench/snapshots/streams.pickle.gz memory.pickle.gz", NULL },
    { TRAIN "tiny --steps 3", NULL, TRAIN "tiny --steps 3 --resume" },
    { TRAIN "tiny --steps 2 --html page.html", NULL, NULL },
    { TRAIN "tiny --steps 4 --resume", "cp -r begun o", TRAIN "tiny --steps 4 --resume" },
    { TRAIN "tiny --steps 3 --offload optimizer+activations --recompute block:1 --offload-to .", NULL, NULL },
    { TRAIN "begun --steps 2 --lora rank=2 --precision bf16", NULL, NULL },
    { TRAIN "words --steps 2 --context 16 --add-token [a]",
      "rm -rf words; cp -r begun words; rm -rf words/checkpoint-* words/*.jsonl words/run.json; "
      "echo '{\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": {\"type\": \"WordLevel\", "
      "\"unk_token\": \"u\", \"vocab\": {\"u\": 255}}, "
      "\"added_tokens\": []}' > words/tokenizer.json; "
      "echo '{\"added_tokens_decoder\": {}}' > words/tokenizer_config.json",
      NULL },
    { "train begun --eval-only --data text --threads 1 --json", NULL, NULL },
    { "quantize begun --to int8 --out o --threads 1", NULL, "quantize begun --to int8 --out o --threads 1" },
    { "quantize begun --to int8:static --calibrate text --out o --threads 1", NULL, NULL },
    { "quantize begun --to int4:all --out o --threads 1", NULL,
      "quantize begun --to int4:all --out o --threads 1" },
    { "train begun --eval-only --quantize int4 --data text --threads 1 --json", NULL, NULL },
    { "generate begun --prompt abc --tokens 5 --seed 1 --threads 1 --quiet", NULL, NULL },
    { "generate talks --chat-file said.json --prompt b --tokens 5 --seed 1 --threads 1 --quiet",
      "rm -rf talks; cp -r begun talks; echo '{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor "
      "%}' > "
      "talks/chat_template.jinja; echo '{\"eos_token\": \"e\"}' > talks/tokenizer_config.json; "
      "echo '[{\"content\": \"a\"}]' > said.json",
      NULL },
    { "generate quantized --prompt abc --tokens 5 --seed 1 --threads 1 --quiet", NULL, NULL },
    { "export begun --to gguf --out o", NULL, "export begun --to gguf --out o" },
    { "merge begun --adapter adapter --out o", NULL, "merge begun --adapter adapter --out o" },
};

/* Runs it with call `at` failing (-1: none, and the file `calls` lists them). */
static command_result start(const char *line, long at) {
    const char *all = getenv("SNUG_TEST_LONG");
    char call[64], depth[64];
    snprintf(call, sizeof call, "FAIL_CALL=%ld", at);
    snprintf(depth, sizeof depth, "FAIL_DEPTH=%d", all && atoi(all) ? 5 : 2);
    return command_run_program(
        "snug-failing", line,
        (const char *[]){ call, depth, at < 0 ? "FAIL_LIST=calls" : "FAIL_LIST=", NULL });
}

static void fresh(const char *before) {
    tree_remove("o");
    if (before) command_shell("%s", before);
}

/* ---- what differs between any two runs: times, the memory that was measured, and locks ---- */

static bool differs_anyway(const char *line, size_t length) {
    return memmem(line, length, "second", 6) || memmem(line, length, "measured_bytes", 14) ||
           strncmp(line, "  memory ", 9) == 0;
}

/* What was said without that, in place. */
static void leave_out_measured(char *said) {
    char *to = said;
    bool inside = false;
    for (char *line = said; *line;) {
        size_t length = strcspn(line, "\n");
        length += line[length] == '\n';
        bool begins = memmem(line, length, "\"measured\": {", 13) != NULL;
        bool ends = inside && strncmp(line, "  }", 3) == 0;
        inside = (inside || begins) && !ends;
        if (!inside && !ends && !differs_anyway(line, length)) {
            memmove(to, line, length);
            to += length;
        }
        line += length;
    }
    *to = 0;
}

static char *expected; /* what the run said in which nothing failed; its folder is "whole" */

/* A lock that could not be removed is no result, and who goes on takes it over. */
static bool same_files(char *different, unsigned size) {
    static const char *const except[] = { "events.*", "run.json", "metrics.jsonl", "*.lock", NULL };
    mkdir("o", 0700);
    return tree_same("o", "whole", except, different, size);
}

static bool same_results(command_result *r, char *different, unsigned size) {
    leave_out_measured(r->out);
    snprintf(different, size, "it says something else: %s", r->out);
    return strcmp(r->out, expected) == 0 && same_files(different, size);
}

static void keep_results(command_result *r) {
    tree_remove("whole");
    mkdir("o", 0700);
    assert_int_equal(rename("o", "whole"), 0);
    leave_out_measured(r->out);
    expected = strdup(r->out);
    assert_non_null(expected);
}

/* ---- one call after the other ---- */

static void go_on(const trial *t, long at) {
    char different[512];
    command_result r = start(t->again, -1);
    bool whole = r.exit == 2 && (strstr(r.err, "it is finished") || strstr(r.err, "holds a model already") ||
                                 strstr(r.err, "is there already"));
    /* whole: it failed behind its end */
    if (!(r.exit == 0 ? same_results(&r, different, sizeof different)
                      : whole && same_files(different, sizeof different)))
        fail_msg("%s: call %ld failed, and then %s: exit %d, %s", t->line, at, t->again, r.exit, r.err);
    command_free(&r);
}

static void look(const trial *t, long at, uint32_t *refused) {
    char different[512];
    fresh(t->before);
    command_result r = start(t->line, at);
    if (r.exit == 0 && !same_results(&r, different, sizeof different))
        fail_msg("%s: call %ld fails, and the results are others: %s", t->line, at, different);
    if (r.exit != 0 && (r.exit < 1 || r.exit > 3 || !strstr(r.err, "snug: ")))
        fail_msg("%s: call %ld fails: exit %d, %s", t->line, at, r.exit, r.err);
    if (r.exit != 0 && ++*refused % 4 == 0 && t->again)
        go_on(t, at); /* one in four: it takes as long again */
    command_free(&r);
}

static void each_call(void **state) {
    const trial *t = *state;
    uint32_t refused = 0, ways = 0;
    long at;
    fresh(t->before);
    command_result r = start(t->line, -1);
    if (r.exit != 0) fail_msg("%s: %s", t->line, r.err);
    keep_results(&r);
    command_free(&r);
    assert_int_equal(rename("calls", "list"), 0);
    FILE *list = fopen("list", "r");
    assert_non_null(list);
    for (; fscanf(list, "%ld", &at) == 1; ways++) look(t, at, &refused);
    fclose(list);
    free(expected);
    print_message("%u ways to a call, %u failures were said\n", ways, refused);
    assert_true(refused > 5 && refused > ways / 2);
}

static void make(const char *line, const char *as) {
    command_expect(0, line);
    assert_int_equal(rename("o", as), 0);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (failed) return failed;
    command_make_files();
    make(TRAIN "tiny --steps 3", "begun");
    make(TRAIN "begun --steps 2 --lora rank=2", "adapter");
    command_expect(0, "quantize begun --to int8 --out quantized --threads 1");
    return 0;
}

int main(void) {
    enum { TRIALS = sizeof trials / sizeof *trials };
    struct CMUnitTest tests[TRIALS];
    for (int i = 0; i < TRIALS; i++)
        tests[i] = (struct CMUnitTest){ .name = trials[i].line,
                                        .test_func = each_call,
                                        .initial_state = (void *)&trials[i] };
    return _cmocka_run_group_tests("failures", tests, TRIALS, open_files, scratch_close);
}
