/* Documents beside a tokenizer: options that can't be obeyed are refused, and each sentence says what to do.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/command.h"
#include "cli/token_data.h"
#include "io/scratch.h"

#define SHORT " --context 32 --batch 2 --steps 1 --eval-samples 1 --quiet"

static void expect(int code, const char *line, const char *says) {
    if (!command_says(line, code, says)) fail_msg("%s: not exit %d with '%s'", line, code, says);
}

static void what_can_not_be_obeyed_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *rest, *says;
    } cases[] = {
        { "m --data c.safetensors --learn all",
          "c.safetensors says itself what is learned; give --learn to" },
        { "m --data c.safetensors --learn answers", "says itself what is learned" },
        { "m --data c.safetensors --columns text=body", "holds tokens already; give --columns to snug" },
        { "m --data c.safetensors --replace", "holds tokens already; give --replace to snug" },
        { "m --data ids.bin --learn all", "ids.bin holds tokens already" },
        { "m --data c.safetensors --data c.safetensors --learn all", "says itself" },
        { "m --data few.jsonl --data-kind bytes --columns text=body", "leave one of the two out" },
        { "tiny --data few.jsonl --columns text=body", "no directory with a tokenizer.json" },
        { "tiny --data few.jsonl --learn all", "no directory with a tokenizer.json" },
        { "m --head classes --data labels.jsonl --columns text=body", "reads records with labels" },
        { "m --data nowhere --learn all", "nowhere: No such file" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "train %s --out refused" SHORT, cases[i].rest);
        expect(2, line, cases[i].says);
    }
    expect(2, "train m --eval-only --eval-data c.safetensors --learn all", "says itself");
    command_shell("test ! -e refused");
    /* where some of the data are documents it is of these; taken back it is nothing */
    expect(0, "train m --data few.jsonl --eval-data c.safetensors --learn all --out a" SHORT, "");
    expect(0, "train m --data c.safetensors --eval-data few.jsonl --replace --out b" SHORT, "");
    expect(0, "train m --data c.safetensors --no-replace --out c" SHORT, "");
    static const char *const habit[] = { "SNUG_LEARN=all", "SNUG_REPLACE=yes", NULL };
    command_result r = command_run_with("train m --data c.safetensors --out d" SHORT, habit);
    assert_int_equal(r.exit, 0);
    command_free(&r);
}

static int open_files(void **state) {
    static const char *const names[] = { "messages", "role", "content" };
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    tokens_model("m", "gpt2");
    tokens_texts("few.jsonl", 40, 30, 9);
    tokens_chats("chats.jsonl", 60, names, 3);
    tokens_make("m", "chats.jsonl", "", "c.safetensors");
    command_shell("head -c 4000 /dev/zero >ids.bin; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo '{\"text\": "
                  "\"so it is\", \"label\": \"'$((i%%2))'\"}'; done >labels.jsonl");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_not_be_obeyed_is_refused),
    };
    return cmocka_run_group_tests_name("making", tests, open_files, scratch_close);
}
