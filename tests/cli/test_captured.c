/* --eager no on the emulated GPU: programs are captured before the first step and given to it as a whole. The
 * bits are those of kernels that are given one by one, what the device keeps is planned, and what can't be
 * captured is not. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/scratch.h"

#ifdef SNUG_CUDA_EMULATED

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/serving.h"

#define RUN                                                                                                  \
    "train tiny --data text --batch 4 --context 16 --threads 1 --save-every off --eval-samples 2 "           \
    "--quiet --json --overwrite --device emulated "

static bool no_server;

/* What a run said, and what the device counted. */
typedef struct {
    json_document said, counts;
} ran;

static ran run(const char *options, bool eager, const char *out) {
    static const char *const with[] = { "SNUG_EMULATED=counts=counts", NULL };
    char line[600];
    ran r;
    snprintf(line, sizeof line, RUN "%s --eager %s --out %s", options, eager ? "yes" : "no", out);
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

static const struct {
    const char *options;
    uint64_t captured; /* programs */
} cases[] = {
    { "--steps 4 --offload off", 2 }, /* its step, and validation */
    { "--steps 3 --micro-batch 2 --recompute block --clip 1 --dropout 0.1 --offload off", 3 },
    { "--steps 3 --precision mixed-bf16 --optimizer lion --offload off", 2 },
    { "--steps 3 --optimizer-state 8bit --chunk-loss 16 --offload off", 2 },
    { "--steps 3 --offload optimizer --micro-batch 2", 2 }, /* the update's states come piece by piece */
};

static void the_bits_are_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ran eager = run(cases[i].options, true, "one"), whole = run(cases[i].options, false, "all");
        uint64_t captured = command_number(&whole.counts, "captured");
        command_shell("for f in one/*.safetensors; do cmp $f all/${f#one/} || exit 1; done");
        assert_int_equal(command_number(&eager.counts, "captured"), 0);
        if (captured != cases[i].captured)
            fail_msg("%s: %llu programs were captured", cases[i].options, (unsigned long long)captured);
        assert_true(command_number(&whole.counts, "replayed") > 0);
        assert_int_equal(command_number(&whole.counts, "launches"),
                         command_number(&eager.counts, "launches"));
        assert_int_equal(command_number(&whole.counts, "waits"), command_number(&eager.counts, "waits"));
        done(&eager), done(&whole);
    }
}

enum { DEVICE, HOST };

/* What of a pool was planned. */
static uint64_t of_pool_at(const json_document *d, uint32_t which, const char *key, const char *part) {
    json_value pool = json_item(command_value(d, "pools"), which), v;
    int64_t number = 0;
    assert_int_equal(json_get(pool, key, &v), STATUS_OK);
    if (part && json_get_integer(v, part, 0, INT64_MAX, &number) != STATUS_OK) return 0;
    if (!part) assert_int_equal(json_as_integer(v, 0, INT64_MAX, &number), STATUS_OK);
    return (uint64_t)number;
}

static uint64_t of_pool(const json_document *d, const char *key, const char *part) {
    return of_pool_at(d, DEVICE, key, part);
}

/* What is kept is part of the plan, of the budget, and of what was measured. */
static void what_is_kept_is_planned(void **state) {
    (void)state;
    ran eager = run("--steps 3 --offload off", true, "one"),
        whole = run("--steps 3 --offload off", false, "all");
    uint64_t kept = of_pool(&whole.said, "runtime", "captured_bytes");
    uint64_t held = of_pool(&whole.said, "measured_runtime", "captured_bytes");
    assert_int_equal(of_pool(&eager.said, "runtime", "captured_bytes"), 0);
    assert_true(held > 0 && held <= kept);
    assert_int_equal(of_pool(&whole.said, "predicted_bytes", NULL),
                     of_pool(&eager.said, "predicted_bytes", NULL) + kept);
    assert_int_equal(of_pool(&whole.said, "pool_bytes", NULL), of_pool(&eager.said, "pool_bytes", NULL));
    assert_int_equal(of_pool_at(&whole.said, HOST, "process_bytes", NULL), /* the driver has them too */
                     of_pool_at(&eager.said, HOST, "process_bytes", NULL) + kept);
    done(&eager), done(&whole);
}

/* A device that refuses: nothing was begun, and the sentence names the way out. */
static void a_refusal_ends_the_run(void **state) {
    (void)state;
    for (int captured = 0; captured < 2; captured++) {
        char told[32];
        snprintf(told, sizeof told, "SNUG_EMULATED=capture=%d", captured);
        const char *with[] = { told, NULL };
        command_result r = command_run_with(RUN "--steps 2 --offload off --eager no --out refused", with);
        assert_int_equal(r.exit, 1);
        assert_non_null(strstr(r.err, "--eager yes"));
        assert_null(strstr(r.out, "\"steps\""));
        command_free(&r);
        r = command_run_with(RUN "--steps 2 --offload off --eager yes --out refused", with);
        if (r.exit != 0) fail_msg("%s", r.err);
        command_free(&r);
    }
}

static double seconds_of(const json_document *d) {
    double seconds = 0;
    assert_int_equal(json_as_number(command_value(d, "predicted.step_seconds"), 0, 1e9, &seconds), STATUS_OK);
    return seconds;
}

/* A GPU that is elsewhere: bytes, and less time where starting kernels is what takes it. */
static void plans_know_of_it(void **state) {
    (void)state;
    json_document eager = command_json("plan tiny --batch 4 --gpu h200 --json"),
                  same = command_json("plan tiny --batch 4 --gpu h200 --eager yes --json"),
                  whole = command_json("plan tiny --batch 4 --gpu h200 --eager no --json");
    double a = seconds_of(&eager), b = seconds_of(&same), c = seconds_of(&whole);
    assert_true(a > 0 && a == b);
    if (c >= 0.8 * a || c <= 0.4 * a) fail_msg("%g s eagerly, and %g s captured", a, c);
    assert_true(of_pool(&whole, "runtime", "captured_bytes") > 0);
    json_close(&eager), json_close(&same), json_close(&whole);
    assert_true(command_says("plan tiny --batch 4 --gpu h200 --eager no", 0, "captured programs"));
    assert_true(
        command_says("plan tiny --batch 4 --eager no --json", 0, "peak_bytes")); /* nothing on a CPU */
    assert_true(command_says("plan tiny --batch 4 --eager maybe", 2, "--eager"));
}

/* Times are taken kernel by kernel. */
static void profiles_are_eager(void **state) {
    (void)state;
    static const char *const with[] = { "SNUG_EMULATED=counts=counts", NULL };
    json_document counts;
    command_result r = command_run_with(
        "profile tiny --batch 4 --context 16 --threads 1 --steps 3 --device emulated --eager no", with);
    if (r.exit != 0) fail_msg("%s", r.err);
    assert_int_equal(json_open("counts", &counts), STATUS_OK);
    assert_true(command_number(&counts, "captured") > 0);
    assert_int_equal(command_number(&counts, "replayed"), 0);
    json_close(&counts);
    command_free(&r);
}

/* The engine that serves runs its programs captured as well. */
static void texts_are_the_same(void **state) {
    (void)state;
    static const char *const with[] = { "SNUG_EMULATED=counts=counts", NULL };
    json_document counts;
    command_result one = command_run_with(
        "generate model --prompt the --tokens 9 --seed 3 --quiet --device emulated --eager yes", with);
    command_result all = command_run_with(
        "generate model --prompt the --tokens 9 --seed 3 --quiet --device emulated --eager no", with);
    assert_int_equal(one.exit, 0);
    assert_int_equal(all.exit, 0);
    assert_string_equal(one.out, all.out);
    assert_int_equal(json_open("counts", &counts), STATUS_OK);
    assert_true(command_number(&counts, "captured") > 0 && command_number(&counts, "replayed") > 0);
    json_close(&counts);
    command_free(&one), command_free(&all);
}

static void ask(const char *options, char answer[SERVING_ANSWER]) {
    static const char body[] =
        "{\"prompt\": \"the small\", \"max_tokens\": 12, \"seed\": 5, \"temperature\": 0.9}";
    serving_start(options);
    int code = serving_post("/v1/completions", body, answer);
    command_result r = serving_stop();
    if (code != 200) fail_msg("%s: %d, %s", options, code, r.err);
    command_free(&r);
}

/* The text of an answer; its id is another each time. */
static void assert_same_text(const char *a, const char *b) {
    const char *x = strstr(serving_body(a), "\"text\""), *y = strstr(serving_body(b), "\"text\"");
    assert_true(x && y);
    size_t n = strcspn(x + 7, "}");
    assert_memory_equal(x, y, n);
}

static void answers_are_the_same(void **state) {
    static char eager[SERVING_ANSWER], whole[SERVING_ANSWER];
    (void)state;
    if (no_server) return;
    ask("--device emulated --max-num-seqs 2 --enforce-eager --eager no", eager);
    ask("--device emulated --max-num-seqs 2 --eager no", whole);
    assert_same_text(eager, whole);
}

static int make_model(void **state) { return serving_make_model(state, 3, &no_server); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_the_same),  cmocka_unit_test(what_is_kept_is_planned),
        cmocka_unit_test(a_refusal_ends_the_run), cmocka_unit_test(plans_know_of_it),
        cmocka_unit_test(profiles_are_eager),     cmocka_unit_test(texts_are_the_same),
        cmocka_unit_test(answers_are_the_same),
    };
    return cmocka_run_group_tests(tests, make_model, scratch_close);
}

#else
#include "emulation_left_out.h"

int main(void) { return emulation_left_out("captured programs"); }
#endif
