/* What no GPU of a plan's capability has confirmed is said once when it is chosen, by every command and in
 * JSON; of plain kernels, and on the CPU, there is nothing to say. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/pages.h"
#include "io/scratch.h"
#include "run/unconfirmed.h"

#define BEGINS "has confirmed"
#define RUN                                                                                                  \
    "train tiny --data text --batch 4 --context 16 --threads 1 --save-every off --eval-samples 2 --steps 2 " \
    "--overwrite --device emulated --dropout 0 --precision mixed-bf16 --attention flash --out run "

static int make_files(void **state) {
    int result = scratch_open(state);
    command_make_files();
    return result;
}

/* Lines may be broken anywhere between words. */
static void join_lines(char *said) {
    char *to = said;
    for (const char *at = said; *at; at++) {
        char c = *at == '\n' ? ' ' : *at;
        if (c != ' ' || (to > said && to[-1] != ' ')) *to++ = c;
    }
    *to = 0;
}

static int times(const char *said, const char *words) {
    int count = 0;
    for (const char *at = said; (at = strstr(at, words)); at++) count++;
    return count;
}

/* It says so once, in these words; NULL: it says nothing of the kind. */
static void says_once(const char *line, const char *const *with, const char *sentence) {
    command_result r = command_run_with(line, with);
    if (r.exit != 0) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
    join_lines(r.out), join_lines(r.err);
    int found = times(r.out, BEGINS) + times(r.err, BEGINS);
    if (found != (sentence != NULL)) fail_msg("%s: said %d times: %s%s", line, found, r.out, r.err);
    if (sentence && !strstr(r.out, sentence) && !strstr(r.err, sentence)) fail_msg("%s: %s", line, r.out);
    command_free(&r);
}

/* "products on tensor cores, captured programs", as JSON has them; "absent" where there is no such key. */
static void lists(const json_document *d, const char *names) {
    char found[600] = "absent";
    json_value all;
    size_t count = 0;
    if (json_find(d->root, "unconfirmed", &all)) {
        found[0] = 0;
        assert_int_equal(json_as_array(all, &count), STATUS_OK);
        for (size_t i = 0; i < count; i++) {
            const char *name = NULL;
            assert_int_equal(json_as_string(json_item(all, i), &name), STATUS_OK);
            size_t used = strlen(found);
            snprintf(found + used, sizeof found - used, "%s%s", i ? ", " : "", name);
        }
    }
    assert_string_equal(found, names);
}

/* ---- elsewhere ---- */

#define NO_GPU "No GPU of capability "
#define UNTRIED ": they were tested without one"
#define HALF " --precision mixed-bf16 --attention flash "

static const struct {
    const char *options, *sentence, *names;
} elsewhere[] = {
    { "--gpu h200", NULL, "" },
    { "--gpu h200" HALF, NULL, "" },
    { "--gpu h200 --instructions tensor-cores", NULL, "" }, /* nothing of it is of 16 bits */
    { "--gpu h200 --instructions tensor-cores" HALF,
      NO_GPU "9.0 " BEGINS " products on tensor cores and attention on tensor cores" UNTRIED,
      "products on tensor cores, attention on tensor cores" },
    { "--gpu a100-80gb --eager no --instructions tensor-cores" HALF,
      NO_GPU "8.0 " BEGINS
             " products on tensor cores, attention on tensor cores and captured programs" UNTRIED,
      "products on tensor cores, attention on tensor cores, captured programs" },
    { "--gpu h200 --eager no", NO_GPU "9.0 " BEGINS " captured programs" UNTRIED, "captured programs" },
    { "--gpu h200 --precision fp8-mixed", NULL, "" },
    { "--gpu rtx-4090 --instructions tensor-cores --precision fp8-mixed --attention off",
      NO_GPU "8.9 " BEGINS
             " products on tensor cores and products of floats of 8 bits on tensor cores" UNTRIED,
      "products on tensor cores, products of floats of 8 bits on tensor cores" },
    { "--gpu rtx-4090 --instructions tensor-cores --precision int8-mixed --attention off",
      NO_GPU "8.9 " BEGINS
             " products on tensor cores and products of codes of 8 bits on tensor cores" UNTRIED,
      "products on tensor cores, products of codes of 8 bits on tensor cores" },
    { "--gpu h200 --instructions tensor-groups --attention off --precision fp8-mixed",
      NO_GPU "9.0 " BEGINS
             " products by groups of warps and products of floats of 8 bits by groups of warps" UNTRIED,
      "products by groups of warps, products of floats of 8 bits by groups of warps" },
    { "--gpu b200 --instructions tensor-groups --attention off --precision mixed-bf16",
      NO_GPU "10.0 " BEGINS " products in tensor memory" UNTRIED, "products in tensor memory" },
    { "--gpu b200 --instructions tensor-groups --attention off --precision fp8-mixed",
      NO_GPU "10.0 " BEGINS
             " products in tensor memory and products of floats of 8 bits in tensor memory" UNTRIED,
      "products in tensor memory, products of floats of 8 bits in tensor memory" },
    { "--instructions tensor-cores --eager no --device cpu" HALF, NULL, "absent" },
};

static void a_plan_says_it_once(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        char line[300];
        snprintf(line, sizeof line, "plan tiny --batch 4 %s", elsewhere[i].options);
        says_once(line, NULL, elsewhere[i].sentence);
        snprintf(line, sizeof line, "plan tiny --batch 4 --quiet --json %s", elsewhere[i].options);
        json_document d = command_json(line);
        lists(&d, elsewhere[i].names);
        json_close(&d);
    }
}

static void a_plan_that_does_not_fit_says_it(void **state) {
    (void)state;
    command_result r = command_run("plan tiny --batch 4 --gpu h200 --eager no --memory 700MiB");
    assert_int_equal(r.exit, 3);
    assert_int_equal(times(r.out, BEGINS), 1);
    command_free(&r);
}

#define COMPARE "compare tiny --batch 4 --gpu h200 --precision mixed-bf16 "

static void a_comparison_says_it_once(void **state) {
    (void)state;
    says_once(COMPARE, NULL, NULL);
    says_once(COMPARE "--instructions tensor-cores", NULL, NO_GPU "9.0 " BEGINS " products on tensor cores");
    says_once("compare tiny --batch 4 --instructions tensor-cores", NULL, NULL);
    json_document d = command_json(COMPARE "--instructions tensor-cores --attention off --quiet --json");
    lists(&d, "products on tensor cores");
    json_close(&d);
    d = command_json(COMPARE "--quiet --json");
    lists(&d, "");
    json_close(&d);
}

static void pages_say_it_once(void **state) {
    (void)state;
    static const char *const lines[] = { "plan tiny --batch 4 --gpu h200 --eager no --quiet --html page",
                                         COMPARE "--eager no --quiet --html page" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        command_expect(0, lines[i]);
        char *page = pages_read("page", 8 << 20);
        assert_int_equal(times(page, "<p>" NO_GPU "9.0 " BEGINS), 1);
        memory_free(page);
    }
}

/* ---- the sentence ---- */

static void there_is_room_for_all(void **state) {
    (void)state;
    char said[UNCONFIRMED_BYTES];
    uint32_t all = (1u << CONFIRM_KINDS) - 1 - (1u << CONFIRM_NOTHING);
    assert_string_equal(unconfirmed_text(0, 90, said), "");
    unconfirmed_text(all, 120, said);
    assert_int_equal(strncmp(said, NO_GPU "12.0 ", strlen(NO_GPU "12.0 ")), 0);
    assert_true(strlen(said) > strlen(UNTRIED));
    assert_string_equal(said + strlen(said) - strlen(UNTRIED), UNTRIED);
    for (int kind = CONFIRM_NOTHING + 1; kind < CONFIRM_KINDS; kind++)
        assert_non_null(strstr(said, confirmed_name((confirm_kind)kind)));
    assert_true(confirmed_on(CONFIRM_NOTHING, 75));
}

/* ---- here ---- */

#ifdef SNUG_CUDA_EMULATED

static void a_run_says_it_once(void **state) {
    (void)state;
    static const char *const library[] = { "LD_LIBRARY_PATH=" SNUG_BUILD "/standin", NULL };
    says_once(RUN, NULL, NULL);
    says_once(RUN "--instructions tensor-cores", NULL,
              NO_GPU "9.0 " BEGINS " products on tensor cores and attention on tensor cores" UNTRIED);
    json_document d;
    assert_int_equal(json_open("run/run.json", &d), STATUS_OK);
    lists(&d, "products on tensor cores, attention on tensor cores");
    json_close(&d);
    says_once(RUN "--library-products on", library, NO_GPU "9.0 " BEGINS " products by cuBLASLt" UNTRIED);
    says_once(RUN "--library-attention on --eager no", library,
              NO_GPU "9.0 " BEGINS " captured programs and attention by cuDNN" UNTRIED);
    says_once("profile tiny --batch 4 --context 16 --steps 2 --device emulated --eager no", NULL,
              NO_GPU "9.0 " BEGINS " captured programs" UNTRIED);
}

static void texts_and_servers_say_it(void **state) {
    (void)state;
    command_expect(0, "train tiny --data text --batch 4 --context 16 --steps 1 --overwrite --quiet "
                      "--precision bf16 --out model");
    says_once("generate model --prompt ab --tokens 3 --device emulated", NULL, NULL);
    says_once("generate model --prompt ab --tokens 3 --device emulated --instructions tensor-cores", NULL,
              NO_GPU "9.0 " BEGINS " products on tensor cores" UNTRIED);
    json_document d = command_json(
        "generate model --prompt ab --tokens 3 --device emulated --instructions tensor-cores --json --quiet");
    lists(&d, "products on tensor cores");
    json_close(&d);
    says_once("serve model --device emulated --dry-run", NULL, NULL);
    says_once("serve model --device emulated --dry-run --eager no", NULL,
              NO_GPU "9.0 " BEGINS " captured programs" UNTRIED);
    d = command_json("serve model --device emulated --dry-run --eager no --json");
    lists(&d, "captured programs");
    json_close(&d);
}

#endif

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_says_it_once),       cmocka_unit_test(a_plan_that_does_not_fit_says_it),
        cmocka_unit_test(a_comparison_says_it_once), cmocka_unit_test(pages_say_it_once),
        cmocka_unit_test(there_is_room_for_all),
#ifdef SNUG_CUDA_EMULATED
        cmocka_unit_test(a_run_says_it_once),        cmocka_unit_test(texts_and_servers_say_it),
#endif
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("what no GPU has confirmed", tests, make_files, scratch_close);
}
