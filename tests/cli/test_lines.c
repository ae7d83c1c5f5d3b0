/* What people read is at most 100 columns wide where it goes to a file, but for the lines of steps, which are
 * one each, and the sentence at the end; names from outside stay within their lines. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "io/scratch.h"

enum { WIDEST = 100 };
#define LONG                                                                                                 \
    "in/a/folder/that/lies/far/from/here/and/has/a/name/which/is/longer/than/a/line/of/the/page/would/be/"   \
    "with/all/that/stands/before/it/a-text"
#define SMALL "--batch 4 --context 16 --steps 3 "

static int make_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    if (system("mkdir -p $(dirname " LONG ") && cp text " LONG) != 0) return -1;
    command_expect(0, "train tiny --data text --out model --quiet " SMALL);
    return 0;
}

/* Characters, not bytes. */
static int columns_of(const char *line, size_t length) {
    int columns = 0;
    for (size_t i = 0; i < length; i++) columns += ((unsigned char)line[i] & 0xc0) != 0x80;
    return columns;
}

static void check_lines(const char *command, const char *whole) {
    for (const char *line = whole; *line;) {
        size_t length = strcspn(line, "\n");
        bool step = strncmp(line, "step ", 5) == 0, sentence = strncmp(line, "snug: ", 6) == 0;
        if (!step && !sentence && columns_of(line, length) > WIDEST)
            fail_msg("snug %s: %d columns: %.*s", command, columns_of(line, length), (int)length, line);
        line += length + (line[length] != 0);
    }
}

static void no_line_is_wider_than_a_page(void **state) {
    (void)state;
    static const char *const lines[] = {
        "help",
        "plan gpt2 --memory 2100MiB",
        "plan gpt2 --memory 1GiB",
        "plan tiny --lora rank=4 --allow all --chunk-loss 64",
        "train tiny --data text --out o --overwrite " SMALL,
        "train tiny --data text:2 --data " LONG ":1 --out o --overwrite " SMALL,
        "train model --data text --eval-only --context 16",
        "status model",
        "quantize model --to int8:static --calibrate text --out q",
        "quantize model --to int4:all --out q4",
        "profile tiny " SMALL,
        "compare tiny --batch 4 --context 16",
        "devices",
        "generate model --prompt a --tokens 4",
        "estimate llama-3-8b --device rtx-4090 --batch 1 --context 4096",
        "estimate llama-3-8b --device h100-80 --solve gpu --batch 1 --context 4096",
        "estimate 7B --framework vllm --device h100-80",
        "estimate 7B --framework llama.cpp --device rtx-4090",
        "estimate 7B --cluster ascend --batch 1 --context 4096",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        command_result r = command_run(lines[i]);
        if (r.exit != 0 && r.exit != 3) fail_msg("snug %s: %s", lines[i], r.err);
        check_lines(lines[i], r.out);
        check_lines(lines[i], r.err);
        command_free(&r);
    }
}

static void help_is_as_wide_as_it_may_be(void **state) {
    (void)state;
    command_result all = command_run("help");
    for (char *rest, *line = strtok_r(all.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char name[32], command[64];
        if (strcmp(line, "Models") == 0) break;
        if (strncmp(line, "  snug ", 7) != 0 || sscanf(line, "  snug %31[a-z-]", name) != 1 ||
            name[0] == '-' || strcmp(name, "help") == 0)
            continue;
        snprintf(command, sizeof command, "help %s", name);
        command_result r = command_run_with(command, (const char *const[]){ "COLUMNS=200", NULL });
        assert_int_equal(r.exit, 0);
        check_lines(command, r.out);
        command_free(&r);
    }
    command_free(&all);
}

/* --config is spoken of where it is taken, and nowhere else. */
static void help_speaks_of_files_where_they_are_read(void **state) {
    (void)state;
    static const char *const commands[] = { "plan",     "train",       "profile",    "compare",
                                            "estimate", "explain-oom", "admit",      "snapshot",
                                            "status",   "generate",    "merge",      "quantize",
                                            "export",   "devices",     "completion", "manual" };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char help[64], page[64];
        snprintf(help, sizeof help, "help %s", commands[i]);
        snprintf(page, sizeof page, "manual %s", commands[i]);
        command_result h = command_run(help), m = command_run(page);
        bool takes = strstr(h.out, "\n  --config FILE") != NULL;
        assert_int_equal(command_has_words(h.out, "in a YAML file (--config FILE"), takes);
        assert_int_equal(strstr(m.out, "in a YAML file (\\-\\-config FILE") != NULL, takes);
        command_free(&h), command_free(&m);
    }
}

/* ---- how lines are broken ---- */

static const char *written(const char *whole, int width) {
    static char said[4096];
    FILE *file = tmpfile();
    output o = output_of(file);
    o.width = width;
    for (const char *at = whole; *at; at++) output_add(&o, "%c", *at); /* a line comes in pieces */
    output_flush(&o);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
    return said;
}

static void lines_are_broken_between_words(void **state) {
    (void)state;
    assert_string_equal(written("short\n", 10), "short\n");
    assert_string_equal(written("one two three four\n", 10), "one two\nthree four\n");
    assert_string_equal(written("  one two three\n", 10), "  one two\n  three\n");
    assert_string_equal(written("peak   5 MiB of all there is\n", 20),
                        "peak   5 MiB of all\n       there is\n");
    assert_string_equal(written("one   two   three\n", 12), "one   two\n      three\n");
    assert_string_equal(written("nothing-to-break-at-all\n", 10), "nothing-to-break-at-all\n");
    assert_string_equal(written("nothing-to-break-at all\n", 10), "nothing-to-break-at\nall\n");
    assert_string_equal(written("ääää öööö\n", 10), "ääää öööö\n");
    assert_string_equal(written("\033[1mbold\033[0m text\n", 10), "\033[1mbold\033[0m text\n");
    assert_string_equal(written("\rstep 1 of a live line", 10), "\rstep 1 of a live line");
    assert_string_equal(written("one two three four\n", 0), "one two three four\n");
    assert_string_equal(written("\n\n", 10), "\n\n");
}

/* ---- numbers that are none ---- */

static void a_step_of_no_length_has_no_rate(void **state) {
    (void)state;
    char line[PROGRESS_LINE_BYTES];
    train_progress p = {
        .step = 1, .steps = 2, .loss = 1, .tokens_per_second = 1.0 / 0.0, .peak_share = 1.0 / 0.0
    };
    progress_line(&p, 200, false, line);
    assert_non_null(strstr(line, "- tok/s"));
    assert_null(strstr(line, "inf"));
    p.tokens_per_second = 1234.4;
    progress_line(&p, 200, false, line);
    assert_non_null(strstr(line, "1,234 tok/s"));
    assert_null(strstr(line, "scale"));
    p.loss_scale = 65536;
    progress_line(&p, 200, false, line);
    assert_non_null(strstr(line, "scale 65536"));
}

/* The scale of the loss is shown, and noted, where the precision keeps one, and nowhere else. */
static void the_loss_scale_is_shown(void **state) {
    (void)state;
    command_result r =
        command_run("train tiny --data text --out half --overwrite --precision mixed-f16 " SMALL);
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "  scale 65536  "));
    command_free(&r);
    assert_int_equal(system("[ $(grep -c '\"loss_scale\": 65536' half/metrics.jsonl) = 3 ]"), 0);
    assert_int_not_equal(system("grep -q loss_scale model/metrics.jsonl"), 0);
    assert_true(command_says("status half", 0, "scale 65536"));
}

/* ---- names ---- */

static void names_command_no_terminal(void **state) {
    (void)state;
    static const char *const commands[] = {
        "plan $'a\\nb\\033[31m'",
        "train $'a\\nb\\033[31m' --data $'t\\nx\\007' --out $'o\\nu\\033[2J' " SMALL,
        "status $'o\\nu\\033[2J'",
        "train $'o\\nu\\033[2J' --data $'t\\nx\\007' --eval-only --context 16",
        "quantize $'o\\nu\\033[2J' --to int8 --data $'t\\nx\\007' --context 16 --out $'q\\n\\033[2J'",
        "profile $'a\\nb\\033[31m' --data $'t\\nx\\007' " SMALL,
    };
    char said[16384], shell[1024];
    assert_int_equal(
        system("bash -c \"mkdir \\$'a\\nb\\033[31m' && cp tiny/config.json \\$'a\\nb\\033[31m' && "
               "cp text \\$'t\\nx\\007'\""),
        0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(shell, sizeof shell, "#!/bin/bash\nexec " SNUG_BUILD "/snug %s\n", commands[i]);
        scratch_write("named.sh", shell, strlen(shell));
        assert_int_equal(system("bash named.sh >said 2>&1"), 0);
        FILE *file = fopen("said", "r");
        said[fread(said, 1, sizeof said - 1, file)] = 0;
        fclose(file);
        if (strchr(said, '\033') || strchr(said, '\007')) fail_msg("%s commands: %s", commands[i], said);
        if (strstr(said, "a\nb") || strstr(said, "t\nx") || strstr(said, "o\nu") || strstr(said, "q\n\033"))
            fail_msg("%s breaks a line: %s", commands[i], said);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_is_wider_than_a_page),
        cmocka_unit_test(help_is_as_wide_as_it_may_be),
        cmocka_unit_test(help_speaks_of_files_where_they_are_read),
        cmocka_unit_test(lines_are_broken_between_words),
        cmocka_unit_test(a_step_of_no_length_has_no_rate),
        cmocka_unit_test(the_loss_scale_is_shown),
        cmocka_unit_test(names_command_no_terminal),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}
