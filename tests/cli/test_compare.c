/* snug compare as a user runs it: a row for everything in the registry, sums that add up, rows that run as
 * they were planned, and the three forms of the table. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "autodiff/optimizer.h"
#include "cli/command.h"
#include "io/scratch.h"
#include "passes/pass.h"

static void compare(const char *line, json_document *d) {
    char whole[512];
    snprintf(whole, sizeof whole, "compare %s --json --quiet", line);
    command_result r = command_run(whole);
    if (r.exit) fail_msg("snug %s: exit %d, %s", whole, r.exit, r.err);
    assert_string_equal(r.err, "");
    if (json_parse("compare", r.out, strlen(r.out), d) != STATUS_OK) fail_msg("%s", status_message());
    command_free(&r);
}

/* ---- reading rows ---- */

typedef struct {
    const char *group, *name, *setting, *class, *optimizer, *note, *not_measured;
    json_value planned, measured;
    bool is_planned, is_measured;
    uint64_t peak;
} row;

static double number(json_value v, const char *key) {
    double x = NAN;
    if (json_get_number(v, key, -1e300, 1e300, &x) != STATUS_OK) fail_msg("%s", status_message());
    return x;
}

static uint64_t integer(json_value v, const char *key) {
    int64_t x = 0;
    if (json_get_integer(v, key, 0, INT64_MAX, &x) != STATUS_OK) fail_msg("%s", status_message());
    return (uint64_t)x;
}

static size_t count_rows(const json_document *d) {
    size_t count;
    assert_int_equal(json_as_array(command_value(d, "rows"), &count), STATUS_OK);
    return count;
}

static row read_row(const json_document *d, size_t i) {
    json_value v = json_item(command_value(d, "rows"), i);
    row r;
    const struct {
        const char *key, **to;
    } texts[] = { { "group", &r.group },
                  { "name", &r.name },
                  { "setting", &r.setting },
                  { "class", &r.class },
                  { "optimizer", &r.optimizer },
                  { "note", &r.note },
                  { "not_measured", &r.not_measured } };
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
        if (json_get_string(v, texts[k].key, texts[k].to) != STATUS_OK) fail_msg("%s", status_message());
    r.is_planned = json_get(v, "planned", &r.planned) == STATUS_OK && json_has(r.planned, "peak_bytes");
    r.is_measured = json_get(v, "measured", &r.measured) == STATUS_OK && json_has(r.measured, "peak_bytes");
    r.peak = r.is_planned ? integer(r.planned, "peak_bytes") : 0;
    return r;
}

static row find_row(const json_document *d, const char *group, const char *name) {
    for (size_t i = 0; i < count_rows(d); i++) {
        row r = read_row(d, i);
        if (strcmp(r.group, group) == 0 && strcmp(r.name, name) == 0) return r;
    }
    fail_msg("no row '%s' in the group '%s'", name, group);
    return read_row(d, 0);
}

/* ---- what is planned ---- */

static void everything_has_a_row(void **state) {
    (void)state;
    json_document d;
    compare("tiny --batch 8", &d);
    assert_string_equal(read_row(&d, 0).name, "plain");
    for (int i = 0; pass_table[i]; i++) {
        char name[PASS_OPTION_BYTES + 2] = "--";
        pass_option(pass_table[i], name + 2);
        row r = find_row(&d, "alone", name);
        assert_true(r.is_planned || r.note[0]);
        if (pass_table[i]->class == PASS_LOSSY && r.is_planned) assert_string_equal(r.class, "lossy");
    }
    for (int kind = 1; kind < OPTIMIZER_COUNT; kind++) {
        bool found = false;
        for (size_t i = 0; i < count_rows(&d); i++)
            found |= strcmp(read_row(&d, i).optimizer, optimizer_name((optimizer_kind)kind)) == 0;
        assert_true(found);
    }
    static const char *const others[][2] = { { "--batch", "4" },
                                             { "--context", "16" },
                                             { "--eval-batch", "1" },
                                             { "--workers", "4" },
                                             { "--eval-only", "" } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        row r = find_row(&d, "alone", others[i][0]);
        assert_string_equal(r.setting, others[i][1]);
        assert_true(r.is_planned && r.peak > 0);
    }
    assert_true(find_row(&d, "alone", "--batch").peak < read_row(&d, 0).peak);
    assert_true(find_row(&d, "alone", "--context").peak < read_row(&d, 0).peak);
    assert_true(find_row(&d, "alone", "--workers").peak > read_row(&d, 0).peak);
    json_value bytes;
    assert_int_equal(json_get(find_row(&d, "alone", "--eval-only").planned, "by_category", &bytes),
                     STATUS_OK);
    assert_int_equal(integer(bytes, "gradients") + integer(bytes, "optimizer"), 0);
    uint32_t bases = 0;
    for (size_t i = 0; i < count_rows(&d); i++) {
        row r = read_row(&d, i);
        bases += strcmp(r.name, "--lora") == 0 && strstr(r.setting, "base=") && r.is_planned;
    }
    assert_int_equal(bases, 3);
    json_close(&d);
    compare("tiny --batch 8 --recompute off --chunk-loss 64", &d);
    for (size_t i = 0; i < count_rows(&d); i++) assert_null(strstr(read_row(&d, i).name, "--recompute"));
    assert_string_equal(find_row(&d, "alone", "--chunk-loss").setting, "64");
    json_close(&d);
}

static void sums_add_up(void **state) {
    (void)state;
    json_document d;
    compare("tiny --batch 7", &d);
    uint64_t plain = read_row(&d, 0).peak;
    for (size_t i = 0; i < count_rows(&d); i++) {
        row r = read_row(&d, i);
        json_value categories, member;
        void *cursor = NULL;
        uint64_t sum = 0;
        if (!r.is_planned) continue;
        assert_int_equal(json_get(r.planned, "by_category", &categories), STATUS_OK);
        while (json_next(categories, &cursor, &member)) sum += integer(categories, member.key);
        assert_int_equal(sum, r.peak);
        double change = 100 * ((double)r.peak / (double)plain - 1);
        double said = number(json_item(command_value(&d, "rows"), i), "peak_percent");
        assert_true(fabs(said - change) < 1e-3);
        if (change > 0.1) assert_string_equal(r.note, "costs memory");
        if (i && fabs(change) < 0.01) assert_string_equal(r.note, "saves nothing");
    }
    json_close(&d);
}

/* Each row lets one more technique go, so none needs more than the one before; all of them come to what `snug
 * plan` calls the least budget, and the row of a budget to what it would choose. */
static void rows_together_fall_to_the_least_budget(void **state) {
    (void)state;
    json_document d, p;
    compare("tiny --batch 8 --eval-samples 8 --steps 5", &d);
    uint64_t before = UINT64_MAX,
             least = command_least_budget("plan tiny --batch 8 --eval-samples 8 --steps 5 --json --quiet");
    for (size_t i = 0; i < count_rows(&d); i++) {
        row r = read_row(&d, i);
        if (strcmp(r.group, "lossless") || strstr(r.name, "at most")) continue;
        assert_true(r.is_planned && r.peak <= before);
        before = r.peak;
    }
    assert_int_equal(find_row(&d, "lossless", "everything lossless").peak, least);
    json_close(&d);

    char line[128];
    snprintf(line, sizeof line, "tiny --batch 8 --eval-samples 8 --steps 5 --memory %llu",
             (unsigned long long)least + 4096);
    compare(line, &d);
    char plan[160];
    snprintf(plan, sizeof plan, "plan %s --json --quiet", line);
    command_result r = command_run(plan);
    assert_int_equal(json_parse("plan", r.out, strlen(r.out), &p), STATUS_OK);
    assert_int_equal(find_row(&d, "asked", "within --memory").peak,
                     command_number(&p, "predicted.peak_bytes"));
    command_free(&r);
    json_close(&p);
    json_close(&d);
}

/* ---- what is measured ---- */

static void rows_run_as_they_were_planned(void **state) {
    (void)state;
    json_document d;
    compare("tiny --batch 4 --eval-samples 5 --measure --steps 2 --data text", &d);
    assert_int_equal(command_number(&d, "steps"), 2);
    double plain = number(read_row(&d, 0).measured, "loss");
    for (size_t i = 0; i < count_rows(&d); i++) {
        row r = read_row(&d, i);
        if (!r.is_planned) continue;
        if (strcmp(r.not_measured, "trains nothing") == 0) continue;
        bool as_planned = false;
        if (!r.is_measured) fail_msg("%s %s: %s", r.name, r.setting, r.not_measured);
        assert_int_equal(json_optional_bool(r.measured, "as_planned", &as_planned), STATUS_OK);
        if (!as_planned) fail_msg("%s %s is not as planned", r.name, r.setting);
        assert_true(integer(r.measured, "peak_bytes") <= r.peak);
        assert_true(number(r.measured, "step_seconds") > 0);
        assert_int_equal(integer(r.measured, "steps"), 2);
        assert_true(isfinite(number(r.measured, "eval_loss")));
        bool same_optimizer = strcmp(r.optimizer, "adamw") == 0;
        double change = fabs(number(r.measured, "loss") - plain);
        if (same_optimizer && strcmp(r.class, "exact") == 0) assert_true(change == 0);
        if (same_optimizer && strcmp(r.class, "reassociating") == 0) assert_true(change < 1e-4);
    }
    json_close(&d);
}

/* Weights of 16 bits whose products are in 8 take what 16 bits take, and both tables say so. */
static void what_saves_no_more_is_said(void **state) {
    (void)state;
    json_document d;
    compare("char-small --batch 8", &d);
    uint32_t found = 0;
    for (size_t i = 0; i < count_rows(&d); i++) {
        row r = read_row(&d, i);
        if (strcmp(r.name, "--precision") != 0) continue;
        found += strcmp(r.setting, "int8") == 0 && !*r.note;
        found += strcmp(r.setting, "int8-mixed") == 0 && strcmp(r.note, "no less than bf16") == 0;
    }
    assert_int_equal(found, 2);
    json_close(&d);
    command_result r = command_run("plan char-small --batch 8 --precision int8-mixed");
    assert_non_null(strstr(r.err[0] ? r.err : r.out, "beside that it saves time, and no memory"));
    command_free(&r);
}

/* ---- text, chart, and what is documented ---- */

static void people_read_a_table(void **state) {
    (void)state;
    static const char *const words[] = {
        "plain",          "One technique alone",    "everything lossless",    "saves nothing",
        "a step",         "--optimizer sgd",        "Measured, 1 step a row", "equal",
        "random samples", "accumulation add, 4 x 1"
    };
    command_result r = command_run("compare tiny --batch 4 --measure --steps 1");
    assert_int_equal(r.exit, 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(r.out, words[i])) fail_msg("no '%s' in:\n%s", words[i], r.out);
    assert_null(strstr(r.out, "DIFFER"));
    for (const char *line = r.out; *line; line += strcspn(line, "\n") + 1)
        if (strcspn(line, "\n") > 110) fail_msg("too long: %.*s", (int)strcspn(line, "\n"), line);
    command_free(&r);
}

static char *read_file(const char *path) {
    FILE *f = fopen(path, "r");
    static char all[1 << 18];
    if (!f) fail_msg("no file %s", path);
    all[fread(all, 1, sizeof all - 1, f)] = 0;
    fclose(f);
    return all;
}

/* As much of XML as a chart is made of: tags are closed in order, and what is special is escaped. */
static void assert_well_formed(const char *s) {
    char open[16][16];
    int depth = 0, roots = 0;
    for (const char *at = s; *at; at++) {
        if (*at == '&')
            assert_true(!strncmp(at, "&amp;", 5) || !strncmp(at, "&lt;", 4) || !strncmp(at, "&quot;", 6));
        if (*at != '<') continue;
        const char *end = strchr(at, '>');
        char name[16];
        assert_non_null(end);
        bool closing = at[1] == '/';
        assert_int_equal(sscanf(at + 1 + closing, "%15[a-zA-Z]", name), 1);
        if (closing) {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (end[-1] != '/') {
            assert_true(depth < 16);
            roots += depth == 0;
            strcpy(open[depth++], name);
        }
        at = end;
    }
    assert_int_equal(depth, 0);
    assert_int_equal(roots, 1);
}

static void charts_are_well_formed(void **state) {
    (void)state;
    assert_int_equal(rename("tiny", "a<b & \"c\""), 0);
    assert_int_equal(symlink("a<b & \"c\"", "tiny"), 0);
    command_expect(0, "compare tiny --batch 4 --svg chart.svg --quiet");
    const char *chart = read_file("chart.svg");
    assert_well_formed(chart);
    assert_non_null(strstr(chart, "everything lossless"));
    assert_non_null(strstr(chart, "saves nothing"));
    assert_non_null(strstr(chart, "prefers-color-scheme"));
    command_expect(0, "compare tiny --batch 4 --svg chart.svg --measure --steps 1 --quiet");
    chart = read_file("chart.svg");
    assert_well_formed(chart);
    assert_non_null(strstr(chart, ">measured<"));
    if (system("command -v xmllint >/dev/null") == 0)
        assert_int_equal(system("xmllint --noout chart.svg"), 0);
    assert_int_equal(unlink("tiny"), 0);
    assert_int_equal(rename("a<b & \"c\"", "tiny"), 0);
}

static void find_keys(json_value v, const char *pages) {
    json_value member;
    void *cursor = NULL;
    size_t count;
    if (json_as_array(v, &count) == STATUS_OK) {
        for (size_t i = 0; i < count; i++) find_keys(json_item(v, i), pages);
        return;
    }
    if (json_as_object(v) != STATUS_OK) return;
    while (json_next(v, &cursor, &member)) {
        char forms[3][64];
        snprintf(forms[0], sizeof *forms, "`%s`", member.key);
        snprintf(forms[1], sizeof *forms, ".%s`", member.key);
        snprintf(forms[2], sizeof *forms, ".%s[]`", member.key);
        if (!strstr(pages, forms[0]) && !strstr(pages, forms[1]) && !strstr(pages, forms[2]))
            fail_msg("docs/json.md does not know '%s'", member.key);
        find_keys(member, pages);
    }
}

static void keys_are_documented(void **state) {
    (void)state;
    json_document d;
    compare("tiny --batch 4 --measure --steps 1", &d);
    const char *page = strstr(read_file(SNUG_ROOT "/docs/json.md"), "\n## compare");
    assert_non_null(page);
    find_keys(command_value(&d, "rows"), read_file(SNUG_ROOT "/docs/json.md"));
    json_close(&d);
}

static void mistakes_are_found_early(void **state) {
    (void)state;
    command_expect(2, "compare");
    command_expect(2, "compare tiny --steps 0");
    command_expect(2, "compare tiny --out here");
    command_expect(2, "compare tiny --data nowhere --measure");
    command_expect(2, "compare tiny --exact --attention flash");
    command_expect(2, "compare tiny --batch 4 --svg nowhere/chart.svg");
    command_expect(2, "compare tiny --batch 4 --svg text/chart.svg");
    command_expect(2, "plan tiny --svg here");
    command_result r = command_run("compare tiny --svg nowhere/chart.svg --measure");
    assert_true(r.exit == 1 || r.exit == 2);
    assert_null(strstr(r.out, "plain"));
    assert_int_not_equal(access("nowhere", F_OK), 0);
    command_free(&r);
}

static int open_files(void **state) {
    int failed = scratch_open(state);
    if (!failed) command_make_files();
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_has_a_row),
        cmocka_unit_test(sums_add_up),
        cmocka_unit_test(rows_together_fall_to_the_least_budget),
        cmocka_unit_test(rows_run_as_they_were_planned),
        cmocka_unit_test(what_saves_no_more_is_said),
        cmocka_unit_test(people_read_a_table),
        cmocka_unit_test(charts_are_well_formed),
        cmocka_unit_test(keys_are_documented),
        cmocka_unit_test(mistakes_are_found_early),
    };
    return cmocka_run_group_tests_name("compare", tests, open_files, scratch_close);
}
