/* Commands on the emulated GPU as a user runs them (SNUG_EMULATED, device/cuda/emulated_told.h): they say,
 * save and refuse what they do on the CPU; a run that is killed, or whose GPU is lost, goes on from a whole
 * checkpoint, on either; and a step waits once. */
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
#include <sys/stat.h>

#include "cli/command.h"

#define NETWORK "tiny/config.json"
#define RUN                                                                                                  \
    "train " NETWORK " --data text --batch 4 --context 16 --threads 1 --exact --steps 6 --save-every 2 "     \
    "--eval-every 3 --eval-samples 2 --keep 9 --quiet "
#define BARE                                                                                                 \
    "train " NETWORK " --data text --batch 4 --context 16 --threads 1 --save-every off "                     \
    "--eval-samples 1 --quiet --overwrite --device emulated "

static int open_all(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    command_expect(0, RUN "--out whole --device cpu");
    return 0;
}

/* Runs it with the GPU told to be something. */
static command_result run_told(const char *told, const char *line) {
    char variable[256];
    snprintf(variable, sizeof variable, "SNUG_EMULATED=%s", told);
    const char *with[] = { variable, NULL };
    return command_run_with(line, with);
}

static void assert_told(const char *told, const char *line, int code, const char *words) {
    command_result r = run_told(told, line);
    if (r.exit != code || !command_has_words(r.err, words))
        fail_msg("%s, %s: exit %d, %s", told, line, r.exit, r.err);
    command_free(&r);
}

/* What it has counted at the end of such a run. */
static uint64_t counted(const char *line, const char *what) {
    json_document d;
    assert_told("counts=counts", line, 0, "");
    if (json_open("counts", &d) != STATUS_OK) fail_msg("%s", status_message());
    uint64_t number = command_number(&d, what);
    json_close(&d);
    return number;
}

/* ---- the same as on the CPU ---- */

static char *said_on(const char *line, const char *on) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s --device %s", line, on);
    command_result r = command_run(whole);
    if (r.exit != 0) fail_msg("%s: exit %d, %s", whole, r.exit, r.err);
    free(r.err);
    return r.out;
}

/* The part of JSON that is the same whenever it runs. */
static void assert_same_part(const char *line, const char *first, const char *last) {
    char *here = said_on(line, "cpu"), *there = said_on(line, "emulated");
    char *a = strstr(here, first), *b = strstr(there, first);
    assert_true(a && b);
    char *a_end = strstr(a, last), *b_end = strstr(b, last);
    assert_true(a_end && b_end && a_end - a == b_end - b);
    assert_memory_equal(a, b, (size_t)(a_end - a));
    free(here);
    free(there);
}

static void evaluation_and_texts_are_those_of_the_cpu(void **state) {
    (void)state;
    assert_same_part("train whole --data text --eval-only --eval-samples 5 --eval-batch 2 --json --quiet",
                     "\"loss\":", "\"tokens_per_second\"");
    assert_same_part("generate whole --prompt the --prompt small --tokens 9 --seed 3 --json --quiet",
                     "\"texts\":", "\"prompt_tokens\": 8");
    assert_same_part("generate whole --prompt the --tokens 9 --temperature 0 --repetition-penalty 1.2 --json "
                     "--quiet",
                     "\"text\":", "\"seconds_prompt\"");
}

static void codes_are_those_of_the_cpu(void **state) {
    (void)state;
    command_expect(0, "quantize whole --to int8 --data text --eval-samples 2 --out codes-here --device cpu");
    command_expect(
        0, "quantize whole --to int8 --data text --eval-samples 2 --out codes-there --device emulated");
    command_shell("cmp codes-here/model.safetensors codes-there/model.safetensors");
    assert_same_part("generate codes-here --prompt the --tokens 6 --seed 3 --json --quiet",
                     "\"text\":", "\"seconds_prompt\"");
    command_expect(0, "quantize whole --to int8:all --out codes-all --device cpu");
    assert_same_part("generate codes-all --prompt the --tokens 6 --seed 3 --json --quiet",
                     "\"text\":", "\"seconds_prompt\"");
}

/* ---- products on tensor cores ---- */

/* Their bits are their own: a checkpoint names them, and a resume without them says so, or is refused. */
static void tensor_cores_are_part_of_a_run(void **state) {
    (void)state;
#define HALF                                                                                                 \
    "train " NETWORK " --data text --batch 4 --context 16 --threads 1 --steps 4 --save-every 2 "             \
    "--eval-samples 1 --precision mixed-bf16 --device emulated "
    command_expect(0, HALF "--quiet --out cores --instructions tensor-cores");
    command_expect(0, HALF "--quiet --out again --instructions tensor-cores");
    command_expect(0, HALF "--quiet --out groups --instructions tensor-groups");
    command_shell("grep -q '\"products\": \"tensor-groups-9.0\"' groups/checkpoint-2/trainer_state.json");
    assert_told("capability=100", HALF "--quiet --out memory --instructions tensor-groups", 0, "");
    command_shell("grep -q '\"products\": \"tensor-groups-10.0\"' memory/checkpoint-2/trainer_state.json");
    command_expect(0, HALF "--quiet --out wide --instructions widened");
    command_expect(0, HALF "--quiet --out unasked --instructions auto");
    command_shell("grep -q '\"products\": \"tensor-cores-9.0\"' cores/checkpoint-2/trainer_state.json");
    command_shell("! grep -q '\"products\"' unasked/checkpoint-2/trainer_state.json");
    command_shell("cmp cores/model.safetensors again/model.safetensors");
    command_shell("! cmp -s cores/model.safetensors wide/model.safetensors");
    command_shell("cmp wide/model.safetensors unasked/model.safetensors");
    command_shell("rm -r cores/checkpoint-4");
    assert_true(
        command_says(HALF "--out cores --resume --exact --instructions widened", 2,
                     "products of 16 bits were tensor-cores-9.0 and would be widened; take --instructions "
                     "tensor-cores, on a GPU of capability 9.0, or leave --exact out"));
    command_shell("rm -r groups/checkpoint-4");
    assert_true(
        command_says(HALF "--out groups --resume --exact --instructions tensor-cores", 2,
                     "products of 16 bits were tensor-groups-9.0 and would be tensor-cores-9.0; take "
                     "--instructions tensor-groups, on a GPU of capability 9.0, or leave --exact out"));
    assert_true(command_says(HALF "--out cores --resume --instructions widened", 0,
                             "products of 16 bits were tensor-cores-9.0 and are widened"));
}

/* ---- memory and waiting ---- */

/* One allocation of each kind, as large as planned; and each step more waits once more, however many
 * micro-batches it has. */
static void a_step_waits_once(void **state) {
    (void)state;
    static const char *const kinds[] = { "--micro-batch 4", "--micro-batch 2 --recompute block",
                                         "--micro-batch 4 --offload optimizer" };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint64_t waits[2];
        for (int steps = 2; steps <= 5; steps += 3) {
            char line[512];
            snprintf(line, sizeof line, BARE "--out bare %s --steps %d", kinds[k], steps);
            waits[steps > 2] = counted(line, "waits");
            assert_int_equal(counted(line, "pools"), 1);
            assert_int_equal(counted(line, "pinned_pools"), 1);
        }
        if (waits[1] - waits[0] != 3)
            fail_msg("%s: three steps more wait %d times", kinds[k], (int)(waits[1] - waits[0]));
    }
}

/* What a step's numbers take of copies: of a micro-batch one for all, beside those of its two fields; and one
 * for all that is read at the end. */
static void a_steps_numbers_pass_together(void **state) {
    (void)state;
    for (int micro = 4; micro; micro /= 2) {
        uint64_t carried[2];
        for (int steps = 2; steps <= 5; steps += 3) {
            char line[512];
            snprintf(line, sizeof line, BARE "--out bare --micro-batch %d --steps %d", micro, steps);
            carried[steps > 2] = counted(line, "carried");
        }
        assert_int_equal(carried[1] - carried[0], 3 * (4 / micro * (2 + 1) + 1));
    }
}

/* ---- killed ---- */

static int start_killed(const char *line, long at) {
    char call[1024];
    snprintf(call, sizeof call, "SNUG_RATES=built-in KILL_CALL=%ld KILL_COUNT=calls %s %s >said 2>&1", at,
             SNUG_BUILD "/snug-killed", line);
    return system(call);
}

static long calls_counted(void) {
    long calls;
    FILE *file = fopen("calls", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &calls), 1);
    fclose(file);
    return calls;
}

/* ---- files behind the host's memory ---- */

#define LARGE                                                                                                \
    "char-small --data text --batch 4 --micro-batch 4 --context 16 --threads 1 --exact --recompute off "     \
    "--offload optimizer "
#define LARGE_RUN "train " LARGE "--steps 4 --save-every 2 --eval-every 2 --eval-samples 2 --keep 9 --quiet "

/* The options with which the host's memory has no room for 3 MiB of what is away. */
static const char *behind(void) {
    static char words[128];
    char *said = said_on("plan " LARGE "--json --quiet", "emulated");
    json_document d;
    double pool, process;
    assert_int_equal(json_parse("plan", said, strlen(said), &d), STATUS_OK);
    json_value host = json_item(command_value(&d, "pools"), 1);
    assert_int_equal(json_get_number(host, "predicted_bytes", 0, 1e18, &pool), STATUS_OK);
    assert_int_equal(json_get_number(host, "process_bytes", 0, 1e18, &process), STATUS_OK);
    snprintf(words, sizeof words, "--offload-to . --offload-limit %.0f", pool + process - (3 << 20));
    json_close(&d);
    free(said);
    return words;
}

static uint64_t waits_of(const char *behind, int steps) {
    char line[1024];
    snprintf(line, sizeof line,
             "train " LARGE "%s --steps %d --save-every off --eval-samples 1 --quiet --overwrite "
             "--device emulated --out bare",
             behind, steps);
    assert_true(counted(line, "calls") > 0);
    assert_int_equal(counted(line, "pinned_pools"), 1);
    return counted(line, "waits");
}

/* What is filed passes beside computing, and the host still waits once for a step. A disk or a GPU that fails
 * and a process that is killed leave what was saved whole. */
static void what_is_filed_passes_beside_a_step(void **state) {
    (void)state;
    const char *with = behind();
    char line[1024];
    assert_int_equal(waits_of(with, 5) - waits_of(with, 2), 3);
    command_expect(0, LARGE_RUN "--offload-to . --out large --device cpu");
    snprintf(line, sizeof line, LARGE_RUN "%s --out large-there --device emulated", with);
    uint64_t all = counted(line, "operations");
    command_shell(
        "diff -r -x 'events.*' -x run.json -x metrics.jsonl -x trainer_state.json large large-there");
    for (int k = 0; k < 4; k++) {
        char told[96];
        static const char *const paces[] = { "eager", "late-copies", "late-kernels", "random" };
        snprintf(told, sizeof told, "lost=%llu pace=%s", (unsigned long long)(all * (uint64_t)(k + 4) / 8),
                 paces[k]);
        command_shell("rm -rf lost");
        snprintf(line, sizeof line, LARGE_RUN "%s --out lost --device emulated", with);
        command_result r = run_told(told, line);
        if (r.exit != 1 || !command_has_words(r.err, "the emulated GPU was lost"))
            fail_msg("%s: exit %d, %s", told, r.exit, r.err);
        command_free(&r);
        snprintf(line, sizeof line, LARGE_RUN "%s --out lost --resume --device %s",
                 k % 2 ? with : "--offload-to .", k % 2 ? "emulated" : "cpu");
        command_expect(0, line);
        command_shell("diff -r -x 'events.*' -x run.json -x metrics.jsonl -x trainer_state.json large lost");
    }
}

static void killed_with_files_it_goes_on(void **state) {
    (void)state;
    const char *with = behind();
    char line[1024];
    snprintf(line, sizeof line, LARGE_RUN "%s --out large-uncut --device emulated", with);
    assert_int_equal(start_killed(line, -1), 0);
    long calls = calls_counted();
    for (int k = 0; k < 2; k++) {
        command_shell("rm -rf killed");
        snprintf(line, sizeof line, LARGE_RUN "%s --out killed --device emulated", with);
        assert_int_not_equal(start_killed(line, calls * (2 * k + 1) / 4), 0);
        snprintf(line, sizeof line, LARGE_RUN "%s --out killed --resume --device %s",
                 k % 2 ? "--offload-to ." : with, k % 2 ? "cpu" : "emulated");
        command_expect(0, line);
        command_shell(
            "diff -r -x 'events.*' -x run.json -x metrics.jsonl -x trainer_state.json large killed");
    }
}

/* Kernels are timed where they run: on a lane that comes to them only when the host waits, too. */
static void kernels_are_timed_on_their_lane(void **state) {
    (void)state;
    command_result r = run_told(
        "pace=late-kernels", "profile " NETWORK " --data text --batch 4 --context 16 --steps 2 --threads 1 "
                             "--quiet --json --device emulated --micro-batch 2");
    json_document d;
    double kernels, seconds;
    if (r.exit != 0) fail_msg("%s", r.err);
    assert_int_equal(json_parse("profile", r.out, strlen(r.out), &d), STATUS_OK);
    json_value step = command_value(&d, "profile.step");
    assert_int_equal(json_get_number(step, "kernels", 0, 1e9, &kernels), STATUS_OK);
    assert_int_equal(json_get_number(step, "seconds", 0, 1e9, &seconds), STATUS_OK);
    assert_true(kernels > 0.5 * seconds && kernels <= seconds);
    json_close(&d);
    command_free(&r);
}

/* What the process emulates the GPU in is not what it takes of the host's memory. */
static void no_kind_of_memory_is_more_than_planned(void **state) {
    (void)state;
    char *said = said_on("train tiny/config.json --data text --batch 4 --context 16 --threads 1 --steps 1 "
                         "--offload optimizer --eval-samples 1 --out kinds --overwrite",
                         "emulated");
    if (!strstr(said, "host, peak") || strstr(said, "too many")) fail_msg("%s", said);
    free(said);
}

static void memory_that_is_not_there_is_refused(void **state) {
    (void)state;
    assert_told("memory=100000", RUN "--out none --device emulated", 3, "has 100000 bytes of memory left");
    assert_told("pinned=1000", RUN "--out none --device emulated", 3, "ulimit -l");
    assert_told("memory=1000", "generate whole --prompt a --tokens 2 --device emulated", 3,
                "bytes of memory left");
    struct stat is;
    assert_int_not_equal(stat("none", &is), 0); /* refused before anything is written */
}

/* ---- ends before their time ---- */

static bool is_there(const char *path) {
    struct stat is;
    return stat(path, &is) == 0;
}

/* What has gone on to its end, on `on`, is what was never stopped. */
static void assert_goes_on(const char *out, const char *on, long at) {
    char line[512];
    snprintf(line, sizeof line, RUN "--out %s --resume --device %s", out, on);
    command_result r = command_run(line);
    if (r.exit != 0) fail_msg("lost or killed at %ld, resuming on %s: exit %d, %s", at, on, r.exit, r.err);
    command_free(&r);
    command_shell("diff -r -x 'events.*' -x run.json -x metrics.jsonl -x 'trainer_state.json' whole %s", out);
}

/* Whenever it is lost, what was saved before is whole, and says what it was saved by. */
static void a_lost_gpu_leaves_whole_checkpoints(void **state) {
    (void)state;
    uint64_t all = counted(RUN "--out counted --device emulated", "operations");
    command_shell("diff -r -x 'events.*' -x run.json -x metrics.jsonl -x trainer_state.json whole counted");
    int saved = 0;
    for (int k = 0; k < 9; k++) {
        char told[64];
        uint64_t at = k == 8 ? all - 1 : 1 + all * (uint64_t)k / 8;
        snprintf(told, sizeof told, "lost=%llu", (unsigned long long)at);
        command_shell("rm -rf lost");
        command_result r = run_told(told, RUN "--out lost --device emulated");
        if (r.exit != 1 || !command_has_words(r.err, "the emulated GPU was lost"))
            fail_msg("%s: exit %d, %s", told, r.exit, r.err);
        bool any = is_there("lost/checkpoint-2");
        saved += any;
        if (any && !command_has_words(r.err, "--resume goes on from lost/checkpoint-")) fail_msg("%s", r.err);
        command_free(&r);
        if (any) assert_goes_on("lost", k % 2 ? "cpu" : "emulated", (long)at);
    }
    assert_true(saved >= 3 && saved < 9);
    command_result r = run_told("lost=40", "generate whole --prompt the --tokens 9 --device emulated");
    assert_int_equal(r.exit, 1);
    assert_true(command_has_words(r.err, "the emulated GPU was lost"));
    command_free(&r);
}

/* Killed in place of a call that changes a file, and resumed on the other device. */
static void a_killed_run_goes_on_on_the_other_device(void **state) {
    (void)state;
    enum { KILLS = 6 };
    assert_int_equal(start_killed(RUN "--out uncut --device emulated", -1), 0);
    long calls = calls_counted();
    for (int k = 0; k < KILLS; k++) {
        const char *first = k % 2 ? "cpu" : "emulated", *then = k % 2 ? "emulated" : "cpu";
        char line[512];
        long at = calls * (2 * k + 1) / (2 * KILLS);
        command_shell("rm -rf killed");
        snprintf(line, sizeof line, RUN "--out killed --device %s", first);
        assert_int_not_equal(start_killed(line, at), 0);
        assert_goes_on("killed", then, at);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluation_and_texts_are_those_of_the_cpu),
        cmocka_unit_test(codes_are_those_of_the_cpu),
        cmocka_unit_test(tensor_cores_are_part_of_a_run),
        cmocka_unit_test(a_step_waits_once),
        cmocka_unit_test(a_steps_numbers_pass_together),
        cmocka_unit_test(what_is_filed_passes_beside_a_step),
        cmocka_unit_test(killed_with_files_it_goes_on),
        cmocka_unit_test(kernels_are_timed_on_their_lane),
        cmocka_unit_test(no_kind_of_memory_is_more_than_planned),
        cmocka_unit_test(memory_that_is_not_there_is_refused),
        cmocka_unit_test(a_lost_gpu_leaves_whole_checkpoints),
        cmocka_unit_test(a_killed_run_goes_on_on_the_other_device),
    };
    return cmocka_run_group_tests_name("commands on the emulated GPU", tests, open_all, scratch_close);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("the emulated GPU"); }

#endif
