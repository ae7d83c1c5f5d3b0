/* Trainings that make their own tokens: their budget is that of making them too, and a stop keeps what was
 * made until then. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "io/scratch.h"

#define SHORT "--context 32 --batch 4 --steps 1 --threads 1 --quiet "

static void the_budget_is_that_of_making_tokens(void **state) {
    (void)state;
    assert_true(command_says("train m --data few.jsonl --memory 1MiB --out none " SHORT, 3,
                             "making tokens with one thread takes"));
    command_shell("test ! -e none/data/train.safetensors");
}

static void what_is_learned_is_said_where_it_is_not_all(void **state) {
    (void)state;
    command_result r = command_run("tokenize m --data few.jsonl --out few.safetensors");
    assert_int_equal(r.exit, 0);
    assert_true(command_has_words(r.out, "tokens of 40 documents"));
    assert_false(command_has_words(r.out, "learned"));
    command_free(&r);
    assert_true(command_says("tokenize m --data pairs.jsonl --out pairs.safetensors", 0, "are learned"));
}

/* The process that makes tokens for this one; 0: this system doesn't say. */
static pid_t maker_of(pid_t pid) {
    char path[64];
    int maker = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%d", &maker) != 1) maker = 0;
    fclose(file);
    return maker;
}

/* A terminal's SIGINT comes to both processes: the one that makes tokens has one of them, so it sets a mark
 * behind the first round's. */
static void an_interrupt_of_both_marks_what_is_made(void **state) {
    (void)state;
    static const char mark[] = "halted/data/train.safetensors.progress";
    pid_t pid = command_start("train m --data lots.jsonl --out halted " SHORT, NULL, -1);
    for (int k = 0; k < 2000 && access(mark, F_OK) != 0; k++) usleep(5000);
    command_shell("cp %s first.mark", mark);
    pid_t maker = maker_of(pid);
    if (maker) assert_int_equal(kill(maker, SIGINT), 0);
    usleep(2000); /* two at once would be one */
    assert_int_equal(kill(pid, SIGINT), 0);
    command_result r = command_wait(pid);
    assert_int_equal(r.exit, STATUS_INTERRUPTED);
    command_free(&r);
    command_shell("! cmp -s %s first.mark && test ! -e halted/data/train.safetensors", mark);
}

static int make_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    tokens_model("m", "gpt2");
    tokens_texts("few.jsonl", 40, 30, 9);
    tokens_pairs("pairs.jsonl", 40, 9);
    /* rounds of chats take long enough for a signal to come before their end */
    tokens_chats("lots.jsonl", 150000, (const char *const[]){ "messages", "role", "content" }, 11);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_budget_is_that_of_making_tokens),
        cmocka_unit_test(what_is_learned_is_said_where_it_is_not_all),
        cmocka_unit_test(an_interrupt_of_both_marks_what_is_made),
    };
    return cmocka_run_group_tests_name("token_stops", tests, make_files, scratch_close);
}
