/* --library-attention on the emulated GPU, with a stand-in in the place of cuDNN (tests/device/standin),
 * which carries out the graph that it is given: attention is the library's where it is allowed, in either
 * direction, bytes are those that were planned, losses are near, a resume says of which version it is, and
 * what is declined is said with its reason. */
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
#include "base/memory.h"
#include "cli/command.h"
#include "cli/pages.h"
#include "device/library_attention.h"
#include "sanitized.h"

#define RUN                                                                                                  \
    "train %s --data text --batch 4 --context 16 --threads 1 --eval-samples 2 --quiet --json "               \
    "--device emulated --steps 3 "
#define HALF " --precision mixed-bf16 --attention flash "
#define LIBRARY "LD_LIBRARY_PATH=" SNUG_BUILD "/standin"

enum { STEPS = 3 };

static const char gpt2[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, "
                           "\"n_positions\": 32, \"vocab_size\": 256, \"resid_pdrop\": 0, \"embd_pdrop\": 0, "
                           "\"attn_pdrop\": 0}\n",
                  dropping[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 32, "
                               "\"n_positions\": 32, \"vocab_size\": 256}\n",
                  narrow[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 8, \"n_embd\": 32, "
                             "\"n_positions\": 32, \"vocab_size\": 256, \"resid_pdrop\": 0, "
                             "\"embd_pdrop\": 0, \"attn_pdrop\": 0}\n",
                  llama[] =
                      "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                      "\"num_key_value_heads\": 2, \"hidden_size\": 64, \"intermediate_size\": 96, "
                      "\"vocab_size\": 256, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, "
                      "\"hidden_act\": \"silu\", \"tie_word_embeddings\": false}\n";

typedef struct {
    json_document said, counts;
} ran;

static command_result start(const char *model, const char *options, const char *told) {
    const char *with[] = { "SNUG_EMULATED=counts=counts", LIBRARY, told, NULL };
    char line[800];
    snprintf(line, sizeof line, RUN "%s", model, options);
    return command_run_with(line, with);
}

static ran run(const char *model, const char *options, const char *out, const char *told) {
    char more[500];
    ran r;
    snprintf(more, sizeof more, "--overwrite --save-every off --out %s %s", out, options);
    command_result c = start(model, more, told);
    if (c.exit != 0) fail_msg("%s %s: exit %d, %s", model, more, c.exit, c.err);
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

static void assert_planned(const ran *r, const char *what) {
    if (of_pool(r, "pool_bytes") != command_number(&r->counts, "pool_bytes"))
        fail_msg("%s: another pool than was planned", what);
    assert_true(of_pool(r, "measured_bytes") <= of_pool(r, "predicted_bytes"));
}

/* Calls of the library in a step: two layers, forward and backward, for each micro-batch. */
static const struct {
    const char *model, *options;
    uint64_t attentions; /* in a run */
} cases[] = {
    { "gpt2.json", "--library-attention on", 2 * 2 * STEPS },
    { "gpt2.json", "--library-attention forward", 2 * STEPS },
    { "llama.json", "--library-attention on", 2 * 2 * STEPS },
    { "llama.json", "--library-attention on --micro-batch 2 --clip 1", 2 * 2 * 2 * STEPS },
    { "gpt2.json", "--library-attention on --micro-batch 2 --recompute block", 3 * 2 * 2 * STEPS },
    { "gpt2.json", "--library-attention on --library-products on", 2 * 2 * STEPS },
    { "gpt2.json", "--library-attention on --eager no", 2 * 2 } /* when it was captured */,
    { "gpt2.json", "--library-attention on --offload optimizer --optimizer-state 8bit", 2 * 2 * STEPS },
};
enum { CASES = SANITIZED ? 3 : sizeof cases / sizeof *cases };

/* The pool that was opened is the one that was planned, and losses are as near as 16 bits say. */
static void planned_is_measured(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        const char *model = cases[i].model, *options = cases[i].options;
        char with[300];
        snprintf(with, sizeof with, HALF "%s", options);
        ran own = run(model, HALF, "own", NULL), theirs = run(model, with, "theirs", NULL);
        assert_int_equal(command_number(&own.counts, "attentions"), 0);
        if (command_number(&theirs.counts, "attentions") != cases[i].attentions)
            fail_msg("%s %s: %llu calls of the library", model, with,
                     (unsigned long long)command_number(&theirs.counts, "attentions"));
        assert_planned(&theirs, with);
        for (size_t s = 0; s < STEPS; s++)
            if (!(fabs(loss(&own, s) - loss(&theirs, s)) < 3e-3))
                fail_msg("%s %s: loss %.9g of step %zu, and %.9g by the library", model, with, loss(&own, s),
                         s, loss(&theirs, s));
        command_shell("cmp -s own/model.safetensors theirs/model.safetensors && exit 1; exit 0");
        done(&own), done(&theirs);
    }
}

/* A workspace is planned: a pool without room for it is smaller. */
static void workspaces_are_planned(void **state) {
    (void)state;
    ran none = run("gpt2.json", HALF "--library-attention on", "none", "STANDIN_DNN_WORKSPACE=0"),
        large = run("gpt2.json", HALF "--library-attention on", "large", "STANDIN_DNN_WORKSPACE=4194304");
    assert_true(of_pool(&large, "pool_bytes") > of_pool(&none, "pool_bytes") + (2 << 20));
    assert_planned(&none, "no workspace"), assert_planned(&large, "a large workspace");
    done(&none), done(&large);
}

/* It is taken where it is allowed, since it is said to be faster here, where its bytes fit, and in the
 * direction that the library has. */
static void the_planner_decides(void **state) {
    (void)state;
    const char *allowed = "--precision mixed-bf16 --allow library-attention",
               *within = "--precision mixed-bf16 --allow library-attention --memory 10MiB";
    ran unasked = run("gpt2.json", HALF, "a", NULL), taken = run("gpt2.json", allowed, "b", NULL),
        large = run("gpt2.json", within, "c", "STANDIN_DNN_WORKSPACE=16777216"),
        forward = run("gpt2.json", allowed, "d", "STANDIN_DNN_FORWARD=1");
    assert_int_equal(command_number(&unasked.counts, "attentions"), 0);
    assert_true(command_number(&taken.counts, "attentions") >= 2 * 2 * STEPS);
    assert_int_equal(command_number(&large.counts, "attentions"), 0);
    assert_int_equal(command_number(&forward.counts, "attentions"), 2 * STEPS);
    done(&unasked), done(&taken), done(&large), done(&forward);
}

static void refuse(const char *model, const char *options, const char *library, const char *told, int code,
                   const char *sentence) {
    const char *with[] = { library, told, NULL };
    char line[600];
    snprintf(line, sizeof line, RUN "--overwrite --out refused %s", model, options);
    command_result c = command_run_with(line, with);
    if (c.exit != code || !strstr(c.err, sentence)) fail_msg("%s: exit %d, %s", line, c.exit, c.err);
    command_free(&c);
}

static void refusals_are_said(void **state) {
    (void)state;
    const char *on = HALF "--library-attention on";
    refuse("gpt2.json", on, "LD_LIBRARY_PATH=/nowhere", NULL, 2, "libcudnn");
    refuse("gpt2.json", "--allow library-attention", "LD_LIBRARY_PATH=/nowhere", NULL, 2, "libcudnn");
    refuse("gpt2.json", on, LIBRARY, "STANDIN_DNN_VERSION=8907", 2, "9 or later");
    refuse("gpt2.json", HALF "--library-attention on --exact", LIBRARY, NULL, 2, "--exact");
    refuse("gpt2.json", "--library-attention maybe", LIBRARY, NULL, 2, "neither auto, on, forward nor off");
    refuse("gpt2.json", "--precision f32 --library-attention on", LIBRARY, NULL, 2, "not of 16 bits");
    refuse("dropping.json", on, LIBRARY, NULL, 2, "1 see by dropout");
    refuse("narrow.json", on, LIBRARY, NULL, 2, "1 have heads that don't begin");
    refuse("gpt2.json", on, LIBRARY, "STANDIN_DNN_BARS=16", 2, "for 2 it has no engine");
    refuse("gpt2.json", on, LIBRARY, "STANDIN_DNN_NO_PLANS=1", 2, "makes no plan by the engine");
    refuse("gpt2.json", on, LIBRARY, "STANDIN_DNN_GROWS=64", 2,
           "wants 8256 bytes of workspace for attention, and said 8192 before");
    refuse("gpt2.json", on, LIBRARY, "STANDIN_DNN_FAILS=7", 1, "cuDNN 9.26.0: CUDNN_STATUS_NOT_SUPPORTED");
    assert_true(
        command_says("plan gpt2.json --batch 4 --library-attention on --device cpu", 2, "it is for GPUs"));
    assert_true(
        command_says("plan gpt2.json --batch 4 --gpu h200 --library-attention on", 2, "where the GPU is"));
}

/* Lines of a plan are broken where they are long. */
static void join_lines(char *of) {
    char *to = of;
    for (const char *at = of; *at; at++)
        if (*at != '\n' && *at != ' ')
            *to++ = *at;
        else if (to > of && to[-1] != ' ')
            *to++ = ' ';
    *to = 0;
}

static void plan_says(const char *options, const char *told, const char *sentence) {
    const char *with[] = { LIBRARY, told, NULL };
    char line[600];
    snprintf(line, sizeof line,
             "plan gpt2.json --batch 4 --context 16 --threads 1 --device emulated --eval-samples 2 %s",
             options);
    command_result c = command_run_with(line, with);
    join_lines(c.out);
    if (c.exit != 0 || !strstr(c.out, sentence)) fail_msg("%s: exit %d, %s%s", line, c.exit, c.out, c.err);
    command_free(&c);
}

/* And its page. An apostrophe is written as a page has it. */
static void page_says(const char *options, const char *told, const char *sentence) {
    const char *with[] = { LIBRARY, told, NULL };
    char line[600];
    snprintf(line, sizeof line,
             "plan gpt2.json --batch 4 --context 16 --threads 1 --device emulated --eval-samples 2 --quiet "
             "--html page %s",
             options);
    command_result c = command_run_with(line, with);
    if (c.exit != 0) fail_msg("%s: exit %d, %s", line, c.exit, c.err);
    char *page = pages_read("page", 8 << 20), *at = strstr(page, sentence);
    if (!at) fail_msg("%s: no '%s'", line, sentence);
    assert_null(strstr(at + 1, sentence));
    memory_free(page);
    command_free(&c);
}

/* Of products as well: what is left to snug's kernels, and why what was allowed is not taken. */
static void plans_say_what_is_declined(void **state) {
    (void)state;
    plan_says(HALF "--library-attention on", "STANDIN_DNN_FORWARD=1",
              "of a micro-batch's attention, gradients' too, it makes 2; declined: 0 by their types, 0 by "
              "what they see, 0 by where their heads begin, 2 without an engine");
    plan_says(
        "--library-products on", "STANDIN_LT_BARS=96",
        "of a micro-batch's products, gradients' too, it makes 23; declined: 0 by their types, 0 by where "
        "their lines begin, 4 without an algorithm");
    plan_says("--precision f32 --allow library-attention", NULL,
              "--library-attention was allowed and declined: cuDNN 9.26.0 makes none");
    plan_says("--precision mixed-bf16 --attention flash --allow library-attention --memory 10MiB",
              "STANDIN_DNN_WORKSPACE=16777216",
              "--library-attention was allowed and declined: with its workspaces the peak is ");
    plan_says("--allow library-products --memory 10MiB", "STANDIN_LT_WORKSPACE=16777216",
              "--library-products was allowed and declined: with its workspaces the peak is ");
    plan_says("--allow library-products", "STANDIN_LT_WORKSPACE=67108864",
              "--library-products was allowed and declined: cuBLASLt 13.1.0 makes none");
}

static void pages_say_what_is_declined(void **state) {
    (void)state;
    page_says(HALF "--library-attention on", "STANDIN_DNN_FORWARD=1",
              "<p>--library-attention: of a micro-batch&#39;s attention, gradients&#39; too, it makes 2; "
              "declined: 0 by their types, 0 by what they see, 0 by where their heads begin, 2 without an "
              "engine.</p>");
    page_says("--library-products on", "STANDIN_LT_BARS=96", "4 without an algorithm.</p>");
    page_says("--precision f32 --allow library-attention", NULL,
              "<p>--library-attention was allowed and declined: cuDNN 9.26.0 makes none");
    page_says("--allow library-products --memory 10MiB", "STANDIN_LT_WORKSPACE=16777216",
              "<p>--library-products was allowed and declined: with its workspaces the peak is ");
}

/* The smallest shapes at least: kernels are emulated. */
static void shapes_are_measured(void **state) {
    (void)state;
    const char *with[] = { LIBRARY, "XDG_CACHE_HOME=.", NULL };
    command_result c = command_run_with("devices --measure --device emulated --json --quiet", with);
    json_document d;
    if (c.exit != 0) fail_msg("exit %d: %s", c.exit, c.err);
    assert_int_equal(json_parse("devices", c.out, strlen(c.out), &d), STATUS_OK);
    json_value libraries = command_value(&d, "libraries");
    for (size_t i = 0; i < 2; i++) {
        json_value shapes, own, theirs;
        double seconds = 0;
        assert_int_equal(json_get(json_item(libraries, i), "shapes", &shapes), STATUS_OK);
        assert_int_equal(json_get(json_item(shapes, 0), "own_seconds", &own), STATUS_OK);
        assert_int_equal(json_as_number(own, 1e-9, 1e3, &seconds), STATUS_OK);
        assert_int_equal(json_get(json_item(shapes, 0), "library_seconds", &theirs), STATUS_OK);
        assert_int_equal(json_as_number(theirs, 1e-9, 1e3, &seconds), STATUS_OK);
    }
    json_close(&d);
    command_free(&c);
    const char *known[] = { LIBRARY, "XDG_CACHE_HOME=.", NULL };
    c = command_run_with(
        "plan gpt2.json --batch 4 --context 16 --device emulated --rates known --json --quiet", known);
    if (c.exit != 0 || !strstr(c.out, "products and attention measured here")) fail_msg("%s%s", c.out, c.err);
    command_free(&c);
}

static command_result go_on(const char *options, const char *told) {
    const char *with[] = { LIBRARY, told, NULL };
    char line[600];
    snprintf(
        line, sizeof line,
        "train gpt2.json --data text --batch 4 --context 16 --threads 1 --eval-samples 2 --device emulated "
        "--steps 3 --out resumed " HALF "%s",
        options);
    return command_run_with(line, with);
}

/* A run goes on with the library that it had, and says where that is another version. */
static void resumes_say_the_version(void **state) {
    (void)state;
    ran whole = run("gpt2.json", HALF "--library-attention on", "whole", NULL);
    command_result c = go_on("--save-every 1 --library-attention on", "STANDIN_DNN_FAILS=12");
    if (c.exit != 1) fail_msg("exit %d: %s", c.exit, c.err);
    command_free(&c);
    done(&whole);
    command_shell("cp -r resumed again");
    c = go_on("--save-every 1 --library-attention on --resume", NULL);
    if (c.exit != 0 || strstr(c.out, "last digits") || strstr(c.err, "last digits"))
        fail_msg("exit %d: %s%s", c.exit, c.out, c.err);
    command_free(&c);
    command_shell("cmp resumed/model.safetensors whole/model.safetensors");
    command_shell("rm -r resumed && mv again resumed");
    c = go_on("--save-every 1 --library-attention on --resume --exact", "STANDIN_DNN_VERSION=92700");
    if (c.exit != 2 || !strstr(c.err, "cuDNN 9.26.0")) fail_msg("exit %d: %s", c.exit, c.err);
    command_free(&c);
    c = go_on("--save-every 1 --resume", "STANDIN_DNN_VERSION=92700");
    const char *said = strstr(c.out, "cuDNN 9.26.0") ? c.out : c.err;
    if (c.exit != 0 || !strstr(said, "cuDNN 9.26.0") || !strstr(said, "cuDNN 9.27.0"))
        fail_msg("exit %d: %s%s", c.exit, c.out, c.err);
    command_free(&c);
}

/* Each is always made in the same way, and the first engine is not taken, whose results differ. */
static void engines_are_chosen_once(void **state) {
    library_attention p = { .batch = 2,
                            .queries = 16,
                            .keys = 16,
                            .heads = 4,
                            .kv_heads = 2,
                            .size = 16,
                            .type = DTYPE_F16,
                            .causal = 1 };
    library_algorithm way, again;
    (void)state;
    assert_int_equal(library_attention_choose(&p, &way), LIBRARY_ATTENTION_NO_WAY); /* it is not open */
    assert_int_equal(library_attention_open(NULL, true), STATUS_OK);
    assert_string_equal(library_attention_name(), "cuDNN 9.26.0");
    assert_int_equal(library_attention_choose(&p, &way), LIBRARY_ATTENTION_MAKES);
    assert_int_equal(way.words[0], 9);
    assert_int_equal(library_attention_choose(&p, &again), LIBRARY_ATTENTION_MAKES);
    assert_memory_equal(&way, &again, sizeof way);
    assert_int_equal(library_attention_scratch(&p, &way), way.workspace_bytes + 192);
    p.gradient = 1;
    assert_int_equal(library_attention_choose(&p, &again), LIBRARY_ATTENTION_MAKES);
    assert_int_equal(library_attention_scratch(&p, &again), 2 * 4 * 16 * 4 + again.workspace_bytes + 192);
    p.size = 24, p.gradient = 0;
    assert_int_equal(library_attention_choose(&p, &again), LIBRARY_ATTENTION_MAKES);
    assert_memory_not_equal(&way, &again, sizeof way); /* other knobs */
    p.size = 20;
    assert_int_equal(library_attention_choose(&p, &way), LIBRARY_ATTENTION_PLACES);
    p.size = 16, p.type = DTYPE_F32;
    assert_int_equal(library_attention_choose(&p, &way), LIBRARY_ATTENTION_TYPES);
}

static int make_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    scratch_write("gpt2.json", gpt2, sizeof gpt2 - 1);
    scratch_write("dropping.json", dropping, sizeof dropping - 1);
    scratch_write("narrow.json", narrow, sizeof narrow - 1);
    scratch_write("llama.json", llama, sizeof llama - 1);
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
        cmocka_unit_test(engines_are_chosen_once),    cmocka_unit_test(planned_is_measured),
        cmocka_unit_test(workspaces_are_planned),     cmocka_unit_test(the_planner_decides),
        cmocka_unit_test(refusals_are_said),          cmocka_unit_test(plans_say_what_is_declined),
        cmocka_unit_test(pages_say_what_is_declined), cmocka_unit_test(resumes_say_the_version),
        cmocka_unit_test(shapes_are_measured),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}

#else
#include "emulation_left_out.h"

int main(void) { return emulation_left_out("attention by a library"); }
#endif
