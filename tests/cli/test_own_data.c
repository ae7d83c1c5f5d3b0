/* What tokenize and train write replaces nothing of others, and does not become their data. */
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

static void weights_are_not_overwritten(void **state) {
    (void)state;
    expect(0, "train tiny --data text --out weights" SHORT, "");
    command_shell("cp weights/model.safetensors kept; : >nothing.safetensors; cp text text.safetensors");
    expect(2, "tokenize m --data text --out weights/model.safetensors", "no file of tokens that snug");
    expect(0, "tokenize m --data text --out nothing.safetensors", "");
    expect(2, "tokenize m --data text.safetensors --out text.safetensors", "is one of the data");
    expect(2, "tokenize m --data text --data ./text.safetensors --out text.safetensors",
           "is one of the data");
    command_shell(
        "cmp weights/model.safetensors kept && cmp text text.safetensors && ! ls *.partial *.lock 2>errors");
    /* what it has made itself is */
    tokens_make("m", "text", "", "own.safetensors");
    tokens_make("m", "few.jsonl", "", "own.safetensors");
    tokens_check("m", "few.jsonl", "own.safetensors");
    expect(2, "tokenize m --data own.safetensors --out own.safetensors", "is one of the data");
}

static void tokens_are_not_written_into_their_data(void **state) {
    (void)state;
    static const char *const refused[] = {
        "tokenize m --data folder --out folder/t.safetensors",
        "tokenize m --data folder/ --out ./folder/inner/t.safetensors",
        "tokenize m --data few.jsonl --data folder --out folder/t.safetensors",
        "tokenize m --data linked --out folder/t.safetensors",
        "tokenize m --data . --out t.safetensors",
        "train m --data folder --out folder" SHORT,
        "train m --data folder --out folder/inner/new/run" SHORT,
        "train m --data few.jsonl --eval-data folder --out folder/run" SHORT,
        "train m --data few.jsonl --data folder --out folder/run" SHORT,
        "train tiny --data folder --out folder" SHORT,
        "train tiny --data few.jsonl --eval-data folder --out linked/" SHORT,
        "train tiny --head classes --data labels --out labels/run" SHORT,
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        command_shell("find folder labels weights text | sort > before");
        expect(2, refused[i], "the next start would read it too");
        command_shell("find folder labels weights text | sort | cmp - before");
    }
    command_shell("mkdir -p run/data && cp few.jsonl run/data");
    expect(2, "train m --data run/data --out run" SHORT, "the next start would read it too");
}

/* What is not read as data is no reason to refuse. */
static void other_places_are_free(void **state) {
    (void)state;
    expect(0, "tokenize m --data folder --out folder/.t.safetensors", "");
    expect(0, "tokenize m --data folder --out folder2.safetensors", "");
    expect(0, "tokenize m --data folder/a.jsonl --out folder/inner/t.safetensors", "");
    command_shell("rm folder/inner/t.safetensors*");
    expect(0, "train tiny --data folder --out folder/inner/run" SHORT, "");
    command_shell("rm -r folder/inner/run");
    expect(0, "train m --data folder --out folder/.run" SHORT, "");
    expect(0, "train m --data folder --out folder/.run --overwrite" SHORT, "");
    expect(0, "train m --data few.jsonl --out ." SHORT, "");
}

static void kinds_in_one_folder(void **state) {
    (void)state;
    command_shell("mkdir kinds && cp few.jsonl kinds/a.jsonl && cp text kinds/b.txt");
    expect(2, "tokenize m --data kinds --out k.safetensors",
           "kinds/b.txt holds text by their names; put files of one kind into a folder of their own");
}

static int open_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    tokens_model("m", "gpt2");
    tokens_texts("few.jsonl", 40, 30, 9);
    command_shell("mkdir -p folder/inner labels && cp few.jsonl folder/a.jsonl && ln -s folder linked && for "
                  "i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo '{\"text\": \"so it is\", \"label\": "
                  "\"'$((i%%2))'\"}'; done >labels/a.jsonl");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_not_overwritten),
        cmocka_unit_test(tokens_are_not_written_into_their_data),
        cmocka_unit_test(other_places_are_free),
        cmocka_unit_test(kinds_in_one_folder),
    };
    return cmocka_run_group_tests_name("own data", tests, open_files, scratch_close);
}
