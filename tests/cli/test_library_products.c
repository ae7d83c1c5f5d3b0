/* --library-products on the emulated GPU, with a stand-in in the place of cuBLASLt (tests/device/standin),
 * which looks at what it is asked: products are the library's where it is allowed, bytes are those that were
 * planned, losses are near, and a resume says of which version the products are. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/scratch.h"

#ifdef SNUG_CUDA_EMULATED

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "cli/command.h"
#include "device/library.h"

#define RUN                                                                                                  \
    "train tiny --data text --batch 4 --context 16 --threads 1 --eval-samples 2 --quiet --json "             \
    "--device emulated --steps 3 "
#define LIBRARY "LD_LIBRARY_PATH=" SNUG_BUILD "/standin"

enum { STEPS = 3 };

typedef struct {
    json_document said, counts;
} ran;

static ran run(const char *options, const char *out, const char *told) {
    const char *with[] = { "SNUG_EMULATED=counts=counts", LIBRARY, told, NULL };
    char line[600];
    ran r;
    snprintf(line, sizeof line, RUN "--overwrite --save-every off %s --out %s", options, out);
    command_result c = command_run_with(line, with);
    if (c.exit != 0) fail_msg("%s: exit %d, %s", line, c.exit, c.err);
    assert_int_equal(json_parse("said", c.out, strlen(c.out), &r.said), STATUS_OK);
    assert_int_equal(json_open("counts", &r.counts), STATUS_OK);
    command_free(&c);
    return r;
}

static void done(ran *r) {
    json_close(&r->said);
    json_close(&r->counts);
}

static double loss(const ran *r, size_t step) {
    double x = 0;
    json_value all = command_value(&r->said, "losses");
    assert_int_equal(json_as_number(json_item(all, step), 0, 1e9, &x), STATUS_OK);
    return x;
}

static uint64_t of_pool(const ran *r, const char *key) {
    json_value v;
    int64_t number = 0;
    assert_int_equal(json_get(json_item(command_value(&r->said, "pools"), 0), key, &v), STATUS_OK);
    assert_int_equal(json_as_integer(v, 0, INT64_MAX, &number), STATUS_OK);
    return (uint64_t)number;
}

/* The pool that was opened is the one that was planned, and the losses are as near as their types say. */
static const struct {
    const char *options;
    double near; /* of the losses */
} cases[] = {
    { "", 1e-5 },
    { "--precision mixed-bf16", 2e-3 },
    { "--micro-batch 2 --recompute block --clip 1", 1e-5 },
    { "--chunk-loss 16 --optimizer-state 8bit", 1e-4 },
    { "--offload optimizer --micro-batch 2", 1e-5 },
    { "--eager no", 1e-5 },
};

static void planned_is_measured(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char with[200];
        snprintf(with, sizeof with, "%s --library-products on", cases[i].options);
        ran own = run(cases[i].options, "own", NULL), theirs = run(with, "theirs", NULL);
        assert_int_equal(command_number(&own.counts, "products"), 0);
        if (!command_number(&theirs.counts, "products")) fail_msg("%s: no product", with);
        if (of_pool(&theirs, "pool_bytes") != command_number(&theirs.counts, "pool_bytes"))
            fail_msg("%s: another pool than was planned", with);
        assert_true(of_pool(&theirs, "measured_bytes") <= of_pool(&theirs, "predicted_bytes"));
        for (size_t s = 0; s < STEPS; s++)
            if (fabs(loss(&own, s) - loss(&theirs, s)) > cases[i].near)
                fail_msg("%s: loss %.9g of step %zu, and %.9g by the library", with, loss(&own, s), s,
                         loss(&theirs, s));
        done(&own), done(&theirs);
    }
    command_shell("cmp -s own/model.safetensors theirs/model.safetensors && exit 1; exit 0");
}

/* A workspace is planned: a pool without room for it is smaller. */
static void workspaces_are_planned(void **state) {
    (void)state;
    ran none = run("--library-products on", "none", "STANDIN_LT_WORKSPACE=0"),
        large = run("--library-products on", "large", "STANDIN_LT_WORKSPACE=4194304");
    assert_true(of_pool(&large, "pool_bytes") > of_pool(&none, "pool_bytes") + (2 << 20));
    assert_int_equal(of_pool(&large, "pool_bytes"), command_number(&large.counts, "pool_bytes"));
    done(&none), done(&large);
}

/* The planner takes it where it is allowed, since it is said to be faster here, and where its bytes fit. */
static void the_planner_decides(void **state) {
    (void)state;
    ran unasked = run("", "a", NULL), allowed = run("--allow library-products", "b", NULL),
        large = run("--allow library-products --memory 10MiB", "c", "STANDIN_LT_WORKSPACE=16777216"),
        none = run("--allow library-products", "d", "STANDIN_LT_WORKSPACE=67108864");
    assert_int_equal(command_number(&unasked.counts, "products"), 0);
    assert_true(command_number(&allowed.counts, "products") > 0);
    assert_int_equal(command_number(&large.counts, "products"), 0);
    assert_int_equal(command_number(&none.counts, "products"), 0);
    done(&unasked), done(&allowed), done(&large), done(&none);
}

static void refuse(const char *options, const char *told, int code, const char *sentence) {
    const char *with[] = { told, NULL };
    char line[600];
    snprintf(line, sizeof line, RUN "--overwrite --out refused %s", options);
    command_result c = command_run_with(line, with);
    if (c.exit != code || !strstr(c.err, sentence)) fail_msg("%s: exit %d, %s", line, c.exit, c.err);
    command_free(&c);
}

static void reasons_are_said(void **state) {
    (void)state;
    refuse("--library-products on", "LD_LIBRARY_PATH=/nowhere", 2, "libcublasLt");
    refuse("--allow library-products", "LD_LIBRARY_PATH=/nowhere", 2, "libcublasLt");
    refuse("--library-products on --exact", LIBRARY, 2, "--exact");
    refuse("--library-products maybe", LIBRARY, 2, "neither auto, on nor off");
    assert_true(command_says("plan tiny --batch 4 --library-products on --device cpu", 2, "it is for GPUs"));
    assert_true(command_says("plan tiny --batch 4 --gpu h200 --library-products on", 2, "where the GPU is"));
    const char *with[] = { LIBRARY, "STANDIN_LT_WORKSPACE=67108864", NULL };
    command_result c = command_run_with(RUN "--overwrite --out refused --library-products on", with);
    assert_int_equal(c.exit, 2);
    assert_non_null(strstr(c.err, "no algorithm without split sums"));
    command_free(&c);
    const char *fails[] = { LIBRARY, "STANDIN_LT_FAILS=30", NULL };
    c = command_run_with(RUN "--overwrite --out refused --library-products on", fails);
    assert_int_equal(c.exit, 1);
    assert_non_null(strstr(c.err, "cuBLASLt 13.1.0: the requested functionality is not supported"));
    command_free(&c);
}

/* A run goes on with the library that it had, and says where that is another version. */
static command_result go_on(const char *options, const char *told) {
    const char *with[] = { LIBRARY, told, NULL };
    char line[600];
    snprintf(line, sizeof line,
             "train tiny --data text --batch 4 --context 16 --threads 1 --eval-samples 2 --device emulated "
             "--steps 3 --out resumed %s",
             options);
    return command_run_with(line, with);
}

/* Stopped by a product of its last step, behind the checkpoints of the others. */
static void stop_in_the_last_step(void) {
    char fails[64];
    ran whole = run("--library-products on", "whole", NULL);
    snprintf(fails, sizeof fails, "STANDIN_LT_FAILS=%llu",
             (unsigned long long)command_number(&whole.counts, "products") - 1);
    command_result c = go_on("--save-every 1 --library-products on", fails);
    if (c.exit != 1) fail_msg("exit %d: %s", c.exit, c.err);
    command_free(&c);
    done(&whole);
    command_shell("cp -r resumed again");
}

static void resumes_say_the_version(void **state) {
    (void)state;
    stop_in_the_last_step();
    command_result c = go_on("--save-every 1 --library-products on --resume", NULL);
    if (c.exit != 0 || strstr(c.out, "last digits") || strstr(c.err, "last digits"))
        fail_msg("exit %d: %s%s", c.exit, c.out, c.err);
    command_free(&c);
    command_shell("cmp resumed/model.safetensors whole/model.safetensors");
    command_shell("rm -r resumed && mv again resumed");
    c = go_on("--save-every 1 --library-products on --resume --exact", "STANDIN_LT_VERSION=130200");
    if (c.exit != 2 || !strstr(c.err, "cuBLASLt 13.1.0")) fail_msg("exit %d: %s", c.exit, c.err);
    command_free(&c);
    c = go_on("--save-every 1 --resume", "STANDIN_LT_VERSION=130200");
    const char *said = strstr(c.out, "cuBLASLt 13.1.0") ? c.out : c.err;
    if (c.exit != 0 || !strstr(said, "cuBLASLt 13.1.0") || !strstr(said, "cuBLASLt 13.2.0"))
        fail_msg("exit %d: %s%s", c.exit, c.out, c.err);
    command_free(&c);
}

/* A search asks for the products of many micro-batches; none of them may be left out for want of a place, and
 * each is always made in the same way. */
static void any_number_of_products_is_known(void **state) {
    enum { MANY = 3000 };
    static library_algorithm first[MANY];
    (void)state;
    assert_int_equal(library_open(NULL, true), STATUS_OK);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < MANY; i++) {
            library_product p = {
                .rows = 4 * (i + 1), .columns = 64, .depth = 32, .type = DTYPE_F32, .result = DTYPE_F32
            };
            library_algorithm way;
            assert_int_equal(library_choose(&p, &way), LIBRARY_MAKES);
            if (turn) assert_memory_equal(&way, &first[i], sizeof way);
            first[i] = way;
        }
}

static int make_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    return 0;
}

/* The stand-in is found by this program's own environment too, which is read when it begins. */
int main(int count, char **words) {
    (void)count;
    if (!getenv("LD_LIBRARY_PATH") || strcmp(getenv("LD_LIBRARY_PATH"), SNUG_BUILD "/standin") != 0) {
        setenv("LD_LIBRARY_PATH", SNUG_BUILD "/standin", 1);
        execv("/proc/self/exe", words);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_products_is_known),
        cmocka_unit_test(planned_is_measured),
        cmocka_unit_test(workspaces_are_planned),
        cmocka_unit_test(the_planner_decides),
        cmocka_unit_test(reasons_are_said),
        cmocka_unit_test(resumes_say_the_version),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}

#else
#include "emulation_left_out.h"

int main(void) { return emulation_left_out("products by a library"); }
#endif
