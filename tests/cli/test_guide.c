/* The pages for users say what is true: every ```sh block of docs/guide/ is run as it stands, in the order of
 * its page, in an empty folder, with snug in the path. A block ends with exit code 0, or with N where it
 * begins
 * "```sh exit N". Blocks in other words (```text, ```bash, ```yaml) are for reading only. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "io/scratch.h"

enum { LINE = 4096, LONGEST_BLOCK = 300 /* seconds */ };

typedef struct {
    const char *page;
    FILE *script; /* open inside a block that is run */
    int expected, line, blocks;
} walk;

static void run_block(walk *w) {
    char command[512];
    fclose(w->script);
    w->script = NULL;
    snprintf(command, sizeof command, "PATH=" SNUG_BUILD ":$PATH timeout %d bash -eu block >said 2>&1",
             LONGEST_BLOCK);
    int how = system(command);
    int code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    if (code == w->expected) return;
    if (system("cat block said >&2") != 0) print_error("nothing was said\n");
    fail_msg("%s:%d: the block ends with %d, not %d", w->page, w->line, code, w->expected);
}

static void begin_block(walk *w, const char *line, int number) {
    w->expected = 0;
    bool known = strcmp(line, "```sh\n") == 0 || sscanf(line, "```sh exit %d", &w->expected) == 1;
    if (!known) fail_msg("%s:%d: what is to be run begins ```sh or ```sh exit N", w->page, number);
    w->line = number;
    w->blocks++;
    w->script = fopen("block", "w");
    assert_non_null(w->script);
}

static void walk_page(const char *name) {
    char path[LINE], line[LINE];
    walk w = { .page = name };
    bool reading_only = false;
    snprintf(path, sizeof path, SNUG_ROOT "/docs/guide/%s", name);
    FILE *page = fopen(path, "r");
    assert_non_null(page);
    for (int number = 1; fgets(line, sizeof line, page); number++) {
        bool fence = strncmp(line, "```", 3) == 0;
        if (w.script && fence)
            run_block(&w);
        else if (w.script)
            fputs(line, w.script);
        else if (reading_only)
            reading_only = !fence;
        else if (strncmp(line, "```sh", 5) == 0)
            begin_block(&w, line, number);
        else
            reading_only = fence;
    }
    fclose(page);
    if (w.script || reading_only) fail_msg("%s:%d: a block does not end", name, w.line);
    print_message("%s: %d blocks\n", name, w.blocks);
}

/* A tiny model that answers, as if it were a published one. */
static const char answering[] =
    "mkdir my-model && cp " SNUG_ROOT "/tests/text/golden/t5.json my-model/tokenizer.json && echo "
    "'{\"model_type\":\"t5\",\"d_model\":32,\"d_kv\":8,\"d_ff\":64,\"num_layers\":1,\"num_heads\":4,"
    "\"vocab_size\":392,\"dropout_rate\":0}' > my-model/config.json && echo "
    "'{\"prompt\":\"a\",\"completion\":\"b\"}' > made.jsonl && " SNUG_BUILD
    "/snug train my-model --data made.jsonl --context 16 --batch 1 --steps 1 --lr 0 --quiet --out made "
    ">said 2>&1 && mv made/model.safetensors my-model && rm -r made made.jsonl";

/* The model of a page that reads one: a published configuration, a small tokenizer with a chat template, and
 * random weights in the type that such are published in. */
static void make_model(const char *page) {
    static const char line[] =
        "mkdir made && cp " SNUG_ROOT "/published/smollm2-135m.json made/config.json && cp " SNUG_ROOT
        "/tests/golden/chat/*token* " SNUG_ROOT "/tests/golden/chat/chat_template.jinja made && " SNUG_BUILD
        "/snug train made --data " SNUG_ROOT "/tests/golden/chat/chats.jsonl --context 64 --batch 1 --steps "
        "1 --lr 0 --save-every 2 --save-dtype bf16 "
        "--quiet --out my-model >said 2>&1 && rm -r made my-model/data my-model/metrics.jsonl "
        "my-model/run.json";
    bool chats = strcmp(page, "chats.md") == 0;
    if (!chats && strcmp(page, "answers.md") != 0) return;
    if (system(chats ? line : answering) == 0) return;
    if (system("cat said >&2") != 0) print_error("nothing was said\n");
    fail_msg("the model of %s was not made", page);
}

static bool is_page(const char *name) {
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".md") == 0;
}

static void pages_do_what_they_say(void **state) {
    (void)state;
    struct dirent **names;
    int count = scandir(SNUG_ROOT "/docs/guide", &names, NULL, alphasort), pages = 0;
    assert_true(count > 0);
    if (access("/usr/share/common-licenses", R_OK) != 0) {
        print_message("no /usr/share/common-licenses, which the pages read: left out\n");
        skip();
    }
    for (int i = 0; i < count; i++) {
        char folder[32];
        if (is_page(names[i]->d_name)) {
            snprintf(folder, sizeof folder, "page%d", pages++);
            assert_int_equal(mkdir(folder, 0700), 0);
            assert_int_equal(chdir(folder), 0);
            make_model(names[i]->d_name);
            walk_page(names[i]->d_name);
            assert_int_equal(chdir(".."), 0);
        }
        free(names[i]);
    }
    free(names);
    assert_true(pages > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(pages_do_what_they_say) };
    return cmocka_run_group_tests_name("guide", tests, scratch_open, scratch_close);
}
