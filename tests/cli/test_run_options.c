/* What a run is comes from the rows of its options: every field has a row, every option of train a field with
 * one; and at a resume another value of one is refused by its name unless its row says that it is free. */
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
#include "cli/options.h"
#include "io/scratch.h"
#include "run/run_options.h"

/* What every run here is told; the first of each pair is an option's name. */
static const char *const told[][2] = { { "data", "text" },    { "steps", "4" },        { "batch", "4" },
                                       { "save-every", "2" }, { "eval-samples", "2" }, { "threads", "2" },
                                       { "keep", "5" } };
enum { TOLD = sizeof told / sizeof *told };

static const char *told_of(const char *name) {
    for (size_t i = 0; i < TOLD; i++)
        if (strcmp(told[i][0], name) == 0) return told[i][1];
    return NULL;
}

/* "train tiny --data text …", without one option. */
static void write_line(char line[1024], const char *without) {
    int n = snprintf(line, 1024, "train tiny");
    for (size_t i = 0; i < TOLD; i++)
        if (!without || strcmp(told[i][0], without) != 0)
            n += snprintf(line + n, 1024 - (size_t)n, " --%s %s", told[i][0], told[i][1]);
}

/* ---- rows ---- */

static void every_byte_has_a_row(void **state) {
    (void)state;
    static const size_t sizes[] = {
        [RUN_OPTION_INTEGER] = sizeof(int64_t), [RUN_OPTION_NUMBER] = sizeof(double),
        [RUN_OPTION_BYTES] = sizeof(uint64_t),  [RUN_OPTION_FLAG] = sizeof(bool),
        [RUN_OPTION_CHOICE] = sizeof(int),      [RUN_OPTION_POINTER] = sizeof(void *)
    };
    char seen[sizeof(setup_options)] = { 0 };
    for (const run_option *row = run_options; row->name; row++) {
        assert_int_equal(row->bytes % sizes[row->kind], 0);
        if (row->kind != RUN_OPTION_POINTER) assert_int_equal(row->bytes, sizes[row->kind]);
        for (size_t b = 0; b < row->bytes; b++) {
            if (seen[row->offset + b]) fail_msg("%s: its field has another row", row->name);
            seen[row->offset + b] = 1;
        }
    }
    for (size_t b = 0, gap = 0; b < sizeof seen; b++) { /* padding ends where the next eight bytes begin */
        gap = seen[b] ? 0 : gap + 1;
        bool ends = gap && b + 1 < sizeof seen && seen[b + 1];
        if (gap >= 8 || (ends && (b + 1) % 8)) fail_msg("byte %zu of setup_options has no row", b);
    }
}

/* The row of an option; NULL: it is none of the run's. */
static const run_option *row_of(const option *o) {
    size_t begin = offsetof(options, run), end = begin + sizeof(setup_options);
    if (o->offset < begin || o->offset >= end) return NULL;
    for (const run_option *row = run_options; row->name; row++)
        if (o->offset - begin >= row->offset && o->offset - begin < row->offset + row->bytes) return row;
    fail_msg("--%s has no row in train/run_options.c", o->name);
    return NULL;
}

static void options_are_called_as_their_rows(void **state) {
    (void)state;
    option_table t;
    options_table(&t);
    for (uint32_t i = 0; i < t.count; i++) {
        const option *o = &t.rows[i];
        const run_option *row = o->commands & COMMAND_TRAIN ? row_of(o) : NULL;
        if (!row || o->kind == OPTION_SETTING || o->kind == OPTION_MAYBE) continue;
        assert_string_equal(row->name, o->name);
        for (int c = 0; o->kind == OPTION_CHOICE && row->word && c < 2; c++) { /* words in one order */
            options read = options_defaults();
            char word[OPTION_NAME_BYTES];
            *(int *)((char *)&read + o->offset) = c;
            assert_string_equal(row->word(c), options_choice(o, &read, word));
        }
    }
}

/* ---- resuming with another value ---- */

/* Values that don't follow from what an option is; and those that say something of their own. */
static const struct {
    const char *name, *value;
    int code;
    const char *says;
} special[] = {
    { "data", "changed", 2, "other data: digest was" },
    { "data-kind", "u16", 2, "" },
    { "head", "score", 2, "a head wants records with a label each" },
    { "text-column", "text", 2, "say --head" },
    { "image-column", "image", 2, "is of pictures" },
    { "label-column", "label", 2, "say --head" },
    { "pair-column", "other", 2, "say --head" },
    { "augment", "off", 2, "is of pictures" },
    { "columns", "text=text", 2, "no directory with a tokenizer.json" }, /* of documents */
    { "learn", "all", 2, "no directory with a tokenizer.json" },
    { "replace", "", 2, "no directory with a tokenizer.json" },
    { "add-token", "<a>", 2, "is no model directory with a tokenizer.json" },
    { "epochs", "0.5", 2, "both say how long to train" },
    { "patience", "1", 2, "say how often to validate with --eval-every" },
    { "unit", "2", 2, "other options: --unit was off and is 2" },
    { "pack", "documents", 0, "resuming" }, /* the text is one document: nothing changes */
    { "dropout", "0.5", 2, "another model: embd_pdrop was 0.1 and is 0.5" },
    { "context", "16", 2, "--context was 32 and is 16" },
    { "eval-data", "text", 2, "other data: samples was" },
    { "eval-only", "", 2, "nothing to --resume" },
    { "overwrite", "", 2, "leave one of the two out" },
    { "allow", "compress-activations", 0, "resuming" },
    { "offload-to", SNUG_BUILD, -1, "" }, /* where that is a disk */
    { "offload-limit", "1GiB", 2, "is of what is in --offload-to" },
    { "device", "cpu", 0, "resuming" },
    { "instructions", "widened", 0, "resuming" },
    { "eager", "yes", 0, "resuming" },
    { "gpu", "h200", 2, "--device cuda" }, /* which is not here */
    { "config", "more.yaml", 0, "resuming" },
    { "memory", "1GiB", 0, "resuming" },
    { "transport-memory", "1GiB", 2, "is of several processes on GPUs" },
    { "momentum", NULL, 2, "--momentum was 0 and is" }, /* with an optimizer that has it */
    { "html", "page.html", 0, "resuming" },
    { "out", NULL, -1, "" }, /* by every other test */
    { "resume", NULL, -1, "" },
    { "help", NULL, -1, "" },
};

static int find_special(const char *name) {
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strcmp(special[i].name, name) == 0) return (int)i;
    return -1;
}

/* Another value than the run has had. */
static void draw_value(const option *o, char value[64]) {
    options defaults = options_defaults();
    const char *field = (const char *)&defaults + o->offset, *was = told_of(o->name);
    char word[OPTION_NAME_BYTES];
    switch (o->kind) {
    case OPTION_FLAG: *value = 0; return;
    case OPTION_SETTING: strcpy(value, "off"); return;
    case OPTION_INTEGER:
        snprintf(value, 64, "%lld", (was ? atoll(was) : (long long)*(const int64_t *)field) + 1);
        return;
    case OPTION_NUMBER: {
        double number = *(const double *)field;
        snprintf(value, 64, "%g", number > 0 ? number / 2 : 0.5);
        return;
    }
    case OPTION_CHOICE: /* the second word, or the first */
        options_choice(o, &defaults, word);
        if (strncmp(o->words, word, strlen(word)) != 0)
            snprintf(value, 64, "%.*s", (int)strcspn(o->words, ","), o->words);
        else
            snprintf(value, 64, "%.*s", (int)strcspn(strchr(o->words, ' ') + 1, ","),
                     strchr(o->words, ' ') + 1);
        return;
    case OPTION_TEXT:
    case OPTION_COUNT:
    case OPTION_RANKS:
    case OPTION_BYTES:
    case OPTION_MAYBE:
    case OPTION_LIST: break;
    }
    fail_msg("say another value of --%s in this test", o->name);
}

/* What goes on ends at the same weights, save where it has said that it can't. */
static void expect_said(const option *o, const char *value, int code, const char *says) {
    char line[1200];
    write_line(line, o->name);
    snprintf(line + strlen(line), sizeof line - strlen(line), " --out went --resume --%s %s", o->name, value);
    assert_int_equal(system("rm -rf went && cp -r begun went"), 0);
    command_result r = command_run(line);
    bool said = command_has_words(r.out, says) || command_has_words(r.err, says),
         differs = command_has_words(r.out, "so results differ");
    if (r.exit != code || !said)
        fail_msg("%s: exit %d, nothing of '%s' in %s%s", line, r.exit, says, r.out, r.err);
    if (code == 0 && !differs && system("cmp -s end.safetensors went/model.safetensors") != 0)
        fail_msg("%s: other weights, and not a word of it", line);
    command_free(&r);
}

static void resume_with_another(const option *o, const run_option *row) {
    char value[64], says[96] = "resuming";
    int known = find_special(o->name);
    if (known >= 0 && special[known].code < 0) return;
    if (known >= 0 && special[known].value) {
        expect_said(o, special[known].value, special[known].code, special[known].says);
        return;
    }
    draw_value(o, value);
    bool fixed = row && (row->part == RUN_OPTION_FIXED || row->part == RUN_OPTION_FALLING);
    if (fixed) snprintf(says, sizeof says, "of a run with other options: --%s was", o->name);
    if (o->needs && strstr(o->needs, "=sgd")) return; /* below */
    if (strcmp(o->name, "quiet") == 0 || strcmp(o->name, "json") == 0) *says = 0;
    expect_said(o, value, fixed ? 2 : 0, says);
}

static void each_option_is_fixed_or_free(void **state) {
    (void)state;
    option_table t;
    options_table(&t);
    uint32_t walked = 0;
    for (uint32_t i = 0; i < t.count; i++)
        if (t.rows[i].commands & COMMAND_TRAIN) resume_with_another(&t.rows[i], row_of(&t.rows[i])), walked++;
    assert_true(walked > 40);
}

/* Of other optimizers, and what has no option of its own by that name. */
static void what_only_some_have(void **state) {
    (void)state;
    char line[1200], first[1024];
    write_line(first, NULL);
    snprintf(line, sizeof line, "%s --optimizer sgd --momentum 0.5 --out moved --quiet", first);
    command_expect(0, line);
    snprintf(line, sizeof line, "%s --optimizer sgd --momentum 0.25 --out moved --resume", first);
    assert_true(command_says(line, 2, "--momentum was 0.5 and is 0.25"));
    snprintf(line, sizeof line, "%s --optimizer lion --beta2 0.9 --out lion --quiet", first);
    command_expect(0, line);
    snprintf(line, sizeof line, "%s --optimizer lion --out lion --resume", first);
    assert_true(command_says(line, 2, "--beta2 was 0.9 and is 0.99"));
}

/* A constant rate is the same whenever it ends. */
static void constant_rates_may_go_on(void **state) {
    (void)state;
    char line[1200];
    write_line(line, NULL);
    strcat(line, " --schedule constant --out level --quiet");
    command_expect(0, line);
    write_line(line, "steps");
    strcat(line, " --steps 6 --schedule constant --out level --resume");
    assert_true(command_says(line, 0, "resuming level/checkpoint-4"));
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (failed) return failed;
    command_make_files();
    if (system("tr e x <text >changed && echo 'batch: 4' >more.yaml") != 0) return -1;
    char line[1200];
    write_line(line, NULL);
    strcat(line, " --out begun --quiet");
    command_expect(0, line);
    return system("rm -r begun/checkpoint-4 && mv begun/model.safetensors end.safetensors");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_has_a_row),         cmocka_unit_test(options_are_called_as_their_rows),
        cmocka_unit_test(each_option_is_fixed_or_free), cmocka_unit_test(what_only_some_have),
        cmocka_unit_test(constant_rates_may_go_on),
    };
    return cmocka_run_group_tests_name("run options", tests, open_files, scratch_close);
}
