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
#include <sys/wait.h>

#include "cli/command.h"
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
    { "plan tiny --batch 4 --threads 1 --memory 14MB --allow all --offload-to . --json", NULL, NULL },
    { "compare tiny --batch 4 --threads 1 --memory 16MB", NULL, NULL },
    { "profile tiny --batch 4 --threads 1 --steps 2 --data text --quiet", NULL, NULL },
    { "estimate tiny --device t4 --batch 4 --json", NULL, NULL },
    { "status begun --json", NULL, NULL },
    { TRAIN "tiny --steps 3", NULL, TRAIN "tiny --steps 3 --resume" },
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

/* Runs it with call `at` failing (-1: none) into out, err and o; its exit code, -1 where it was killed. */
static int start(const char *line, long at) {
    const char *all = getenv("SNUG_TEST_LONG");
    char call[2048];
    snprintf(call, sizeof call,
             "SNUG_RATES=built-in FAIL_CALL=%ld FAIL_LIST=%s FAIL_DEPTH=%d timeout 100 %s %s >out 2>err", at,
             at < 0 ? "calls" : "", all && atoi(all) ? 5 : 2, SNUG_BUILD "/snug-failing", line);
    int how = system(call);
    return WIFEXITED(how) && WEXITSTATUS(how) < 120 ? WEXITSTATUS(how) : -1;
}

static void fresh(const char *before) {
    assert_int_equal(system("rm -rf o out"), 0);
    if (before) assert_int_equal(system(before), 0);
}

/* What was said, but for what differs between any two runs: times, and the memory that was measured. */
#define SAID "sed '/\"measured\": {/,/^  }/d' out | grep -a -v -E 'second|measured_bytes|^  memory '"

/* A lock that could not be removed is no result, and who goes on takes it over. */
static bool same_files(void) {
    return system(
               "test -e o || mkdir o; diff -r -x 'events.*' -x run.json -x metrics.jsonl -x '*.lock' o whole "
               ">differ") == 0;
}

static bool same_results(void) { return same_files() && system(SAID " >said; cmp -s said expected") == 0; }

static void keep_results(void) {
    assert_int_equal(system("rm -rf whole; test ! -e o && mkdir o; mv o whole;" SAID " >expected; true"), 0);
}

static char *text_of(const char *path) {
    FILE *file = fopen(path, "rb");
    char *data = calloc(1, 1 << 16);
    assert_true(file && data);
    data[fread(data, 1, (1 << 16) - 1, file)] = 0;
    fclose(file);
    return data;
}

static void look(const trial *t, long at, uint32_t *refused) {
    fresh(t->before);
    int code = start(t->line, at);
    if (code == 0) {
        if (!same_results()) fail_msg("%s: call %ld fails, and the results are others", t->line, at);
        return;
    }
    char *said = text_of("err");
    if (code < 1 || code > 3 || !strstr(said, "snug: "))
        fail_msg("%s: call %ld fails: exit %d, %s", t->line, at, code, said);
    free(said);
    if (++*refused % 4 || !t->again) return; /* one in four: it takes as long again */
    code = start(t->again, -1);
    said = text_of("err");
    bool whole = code == 2 && (strstr(said, "it is finished") || strstr(said, "holds a model already") ||
                               strstr(said, "is there already"));
    if (!(code == 0 ? same_results() : whole && same_files())) /* whole: it failed behind its end */
        fail_msg("%s: call %ld failed, and then %s: exit %d, %s", t->line, at, t->again, code, said);
    free(said);
}

static void each_call(void **state) {
    const trial *t = *state;
    uint32_t refused = 0, ways = 0;
    long at;
    fresh(t->before);
    if (start(t->line, -1) != 0) fail_msg("%s: %s", t->line, text_of("err"));
    keep_results();
    assert_int_equal(rename("calls", "list"), 0);
    FILE *list = fopen("list", "r");
    assert_non_null(list);
    for (; fscanf(list, "%ld", &at) == 1; ways++) look(t, at, &refused);
    fclose(list);
    print_message("%u ways to a call, %u failures were said\n", ways, refused);
    assert_true(refused > 5 && refused > ways / 2);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (failed) return failed;
    command_make_files();
    if (start(TRAIN "tiny --steps 3", -1) || system("mv o begun")) return 1;
    if (start(TRAIN "begun --steps 2 --lora rank=2", -1) || system("mv o adapter")) return 1;
    return start("quantize begun --to int8 --out quantized --threads 1", -1);
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
