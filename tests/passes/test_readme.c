/* README's table of techniques is made from the registry. SNUG_WRITE_README=1 writes it anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "passes/pass.h"

static const char README[] = SNUG_ROOT "/README.md",
                  HEAD[] = "| option | what it does | class |\n|---|---|---|\n";

/* What the settings of a technique do to results at most. */
static const char *class_text(const pass *p) {
    static const char *const texts[] = { "EXACT", "at most REASSOCIATING", "LOSSY" };
    return texts[p->class];
}

static void make_table(text *t) {
    for (int i = 0; pass_table[i]; i++) {
        const pass *p = pass_table[i];
        char option[PASS_OPTION_BYTES];
        text_add(t, "| [`--%s`](docs/techniques/%s.md) | %s | %s |\n", pass_option(p, option), p->name,
                 p->help, class_text(p));
    }
}

static void the_table_is_the_registry(void **state) {
    (void)state;
    static char all[1 << 17];
    text table = { 0 };
    FILE *f = fopen(README, "r");
    assert_non_null(f);
    all[fread(all, 1, sizeof all - 1, f)] = 0;
    fclose(f);
    char *begin = strstr(all, HEAD);
    assert_non_null(begin);
    begin += strlen(HEAD);
    size_t length = 0;
    while (begin[length] == '|') length += strcspn(begin + length, "\n") + 1;
    make_table(&table);
    bool same = length == table.length && memcmp(begin, table.data, length) == 0;
    if (!same && getenv("SNUG_WRITE_README")) {
        f = fopen(README, "w");
        assert_non_null(f);
        fprintf(f, "%.*s%s%s", (int)(begin - all), all, table.data, begin + length);
        assert_int_equal(fclose(f), 0);
    } else if (!same) {
        fail_msg("README's table of techniques is not the registry's; SNUG_WRITE_README=1 %s writes it:\n%s",
                 "build/test_readme", table.data);
    }
    text_close(&table);
}

static void every_technique_has_its_page(void **state) {
    (void)state;
    for (int i = 0; pass_table[i]; i++) {
        char path[512];
        snprintf(path, sizeof path, SNUG_ROOT "/docs/techniques/%s.md", pass_table[i]->name);
        FILE *f = fopen(path, "r");
        if (!f) fail_msg("no page docs/techniques/%s.md", pass_table[i]->name);
        fclose(f);
    }
}

/* Each page says what it does, when it helps and when not, with numbers, and README leads to it. */
static void pages_are_whole(void **state) {
    (void)state;
    static const char *const parts[] = { "**What it does.**",    "**Paper",
                                         "**Class.**",           "**When it helps.**",
                                         "**When it doesn't.**", "**Measured**" };
    static char all[1 << 17], page[1 << 16];
    FILE *f = fopen(README, "r");
    assert_non_null(f);
    all[fread(all, 1, sizeof all - 1, f)] = 0;
    fclose(f);
    DIR *folder = opendir(SNUG_ROOT "/docs/techniques");
    assert_non_null(folder);
    int pages = 0;
    for (struct dirent *e; (e = readdir(folder));) {
        char path[512];
        if (!strstr(e->d_name, ".md")) continue;
        snprintf(path, sizeof path, "docs/techniques/%s", e->d_name);
        if (!strstr(all, path)) fail_msg("README has no link to %s", path);
        snprintf(path, sizeof path, SNUG_ROOT "/docs/techniques/%s", e->d_name);
        f = fopen(path, "r");
        assert_non_null(f);
        page[fread(page, 1, sizeof page - 1, f)] = 0;
        fclose(f);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (!strstr(page, parts[i])) fail_msg("%s has no %s", e->d_name, parts[i]);
        pages++;
    }
    closedir(folder);
    assert_true(pages >= 19);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_the_registry),
        cmocka_unit_test(every_technique_has_its_page),
        cmocka_unit_test(pages_are_whole),
    };
    return cmocka_run_group_tests_name("readme", tests, NULL, NULL);
}
