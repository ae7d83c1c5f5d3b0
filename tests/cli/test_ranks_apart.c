/* Several processes that train together on GPUs, as a user starts them, with the emulated GPU in the place of
 * theirs and a stand-in upon MPI in the place of NCCL (tests/comm/standin), which looks at what it is asked:
 * the bits of one process on the CPU, at every pace of lanes; planned bytes; one sentence where something is
 * wrong. Left out where there is no MPI, or no emulated GPU. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/several.h"
#include "io/scratch.h"

#define STANDIN SNUG_BUILD "/standin"

static int make_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    command_allow_mpirun();
    setenv("SNUG_RATES", "built-in", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* MPI keeps some memory to the end */
    /* Two tensors of 73,984 elements, of which ranks have shares of whole cells: the last ones are shorter.
     */
    command_shell("echo '{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 136, "
                  "\"n_positions\": 32, \"vocab_size\": 256}' >uneven.json");
    command_shell("sed 's/: 136/: 32/; s/: 32, \"vocab/: 256, \"vocab/' uneven.json >long.json");
    command_shell("sed 's/}/, \"tie_word_embeddings\": false}/' uneven.json >untied.json");
    command_shell("sed 's/: 256}/: 2000}/' uneven.json >words.json"); /* an embedding that goes in pieces */
    command_shell("mkdir -p broken && echo no library >broken/libnccl.so.2");
    return 0;
}

static bool left_out(void) {
    bool there =
        access(STANDIN "/libnccl.so.2", R_OK) == 0 && system("mpirun --version >/dev/null 2>&1") == 0;
    if (!there) print_message("no MPI, or no emulated GPU: left out\n");
    return !there;
}

static char *said(void) {
    static char all[16384];
    FILE *file = fopen("said", "r");
    size_t n = file ? fread(all, 1, sizeof all - 1, file) : 0;
    if (file) fclose(file);
    all[n] = 0;
    return all;
}

static int sentences(void) {
    int count = 0;
    for (const char *at = said(); (at = strstr(at, "snug: ")); at++) count++;
    return count;
}

static int run(const char *line) {
    int code = system(line);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

/* The exit code of `ranks` processes, with these variables ("" for none). */
static int start(int ranks, const char *variables, const char *line) {
    char whole[1600];
    snprintf(whole, sizeof whole,
             "LD_LIBRARY_PATH=" STANDIN
             " timeout -k 5 120 env %s mpirun --oversubscribe --bind-to none -n %d " SNUG_BUILD
             "/snug %s >said 2>&1 </dev/null",
             variables, ranks, line);
    return run(whole);
}

/* ---- the same run ---- */

#define ENDLESS                                                                                              \
    "uneven.json --data text --batch 4 --unit 1 --dropout 0.1 --eval-samples 2 --threads 1 --exact --quiet"

static const char *const uneven = ENDLESS " --steps 2";

/* What is left to the plan would have other bits, as flash attention. */
#define SAME "--attention off --recompute off"
#define ADDED " --accumulation add"

static void same_as(const char *one, const char *other, const char *what) {
    char line[300];
    snprintf(line, sizeof line,
             "cmp %s/model.safetensors %s/model.safetensors && test \"$(grep '\"losses\"' %s/run.json)\" = "
             "\"$(grep '\"losses\"' %s/run.json)\"",
             one, other, one, other);
    if (run(line)) fail_msg("%s: other losses or weights: %s", what, said());
}

/* What every rank took of its GPU is what was planned, but for the transport's reserve. */
static void kept_to_plan(const char *folder, int ranks) {
    json_document d;
    char path[200];
    size_t count;
    snprintf(path, sizeof path, "%s/run.json", folder);
    assert_int_equal(json_open(path, &d), STATUS_OK);
    assert_int_equal(command_number(&d, "world"), ranks);
    json_value rows = command_value(&d, "ranks");
    assert_int_equal(json_as_array(rows, &count), STATUS_OK);
    assert_int_equal(count, ranks);
    for (size_t r = 0; r < count; r++) {
        int64_t measured, predicted;
        bool equal = false;
        assert_int_equal(json_get_bool(json_item(rows, r), "equal", &equal), STATUS_OK);
        assert_true(equal);
        assert_int_equal(json_get_integer(json_item(rows, r), "measured_bytes", 1, INT64_MAX, &measured),
                         STATUS_OK);
        assert_int_equal(json_get_integer(json_item(rows, r), "predicted_bytes", 1, INT64_MAX, &predicted),
                         STATUS_OK);
        assert_true(measured <= predicted);
    }
    json_close(&d);
}

/* Pools alone, once the reserves are left out; nothing moves after the rehearsal. */
static void pools_are_equal(const char *folder) {
    char line[400];
    snprintf(line, sizeof line,
             "python3 - %s/run.json <<'E'\nimport json, sys\np = json.load(open(sys.argv[1]))['pools'][0]\n"
             "assert p['predicted_bytes'] - sum(p['runtime'].values()) == p['pool_bytes']\n"
             "assert p['moved_bytes'] == 0, p\nE",
             folder);
    if (run(line)) fail_msg("%s: pools are not as planned", folder);
}

/* Without a unit: messages from one rank to the next, in which not all take part. With micro-batches each
 * call begins with what comes around from the last rank to the first. A token embedding that is tied to the
 * logits has the order of one process in micro-batches of all ranks. */
static void a_chain_has_the_bits_of_one_process(void **state) {
    static const char words[] = "--data text --steps 2 --dropout 0.1 --eval-samples 2 --threads 1 --quiet";
    static const struct {
        int ranks;
        const char *pace, *model, *several, *one; /* the last two: options of ranks, and of one process */
    } runs[] = {
        { 2, "late-copies", "uneven.json --batch 32 --exact", "", "" },
        { 3, "eager", "uneven.json --batch 24 --exact", "", "" },
        { 4, "late-kernels", "uneven.json --batch 32 --exact", "", "" },
        { 4, "random", "uneven.json --batch 32 --exact", "", "" },
        { 2, "late-copies", "untied.json --batch 32 --exact", "--micro-batch 8", "" },
        { 3, "late-kernels", "untied.json --batch 48 --exact", "--micro-batch 8", "" },
        { 4, "random", "untied.json --batch 64 --exact", "--micro-batch 8", "" },
        { 2, "random", "uneven.json --batch 48 " SAME, "--micro-batch 8", "--micro-batch 16" ADDED },
        { 4, "eager", "uneven.json --batch 64 " SAME, "--micro-batch 8", "--micro-batch 32" ADDED },
    };
    char line[600], variables[200];
    (void)state;
    if (left_out()) return;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        command_shell("rm -rf one several counts");
        snprintf(line, sizeof line, "train %s %s %s --out one --device cpu", runs[i].model, words,
                 runs[i].one);
        command_expect(0, line);
        snprintf(line, sizeof line, "train %s %s %s --out several --device emulated", runs[i].model, words,
                 runs[i].several);
        snprintf(variables, sizeof variables, "SNUG_EMULATED='pace=%s' STANDIN_COUNTS=counts", runs[i].pace);
        int code = start(runs[i].ranks, variables, line);
        if (code) fail_msg("%d ranks: %s: exit %d: %s", runs[i].ranks, line, code, said());
        same_as("one", "several", line);
        kept_to_plan("several", runs[i].ranks);
        command_shell("grep -q '\"sends\": [1-9]' counts"); /* by NCCL's names, and not by MPI's */
    }
}

static void the_bits_of_one_process(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *pace;
    } runs[] = { { 1, "eager" },        { 2, "eager" },  { 2, "late-copies" },
                 { 2, "late-kernels" }, { 2, "random" }, { 4, "late-copies" } };
    char line[600], variables[200];
    if (left_out()) return;
    snprintf(line, sizeof line, "train %s --out one --device cpu", uneven);
    command_shell("rm -rf one");
    command_expect(0, line);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        command_shell("rm -rf several counts");
        snprintf(line, sizeof line, "train %s --out several --device emulated", uneven);
        snprintf(variables, sizeof variables, "SNUG_EMULATED='pace=%s' STANDIN_COUNTS=counts", runs[i].pace);
        int code = start(runs[i].ranks, variables, line);
        if (code) fail_msg("%d ranks, %s: exit %d: %s", runs[i].ranks, runs[i].pace, code, said());
        same_as("one", "several", runs[i].pace);
        if (runs[i].ranks == 1) continue;
        kept_to_plan("several", runs[i].ranks);
        pools_are_equal("several");
        command_shell("grep -q '\"sends\": [1-9]' counts && grep -q '\"gathers\": [1-9]' counts");
    }
}

static void other_models(void **state) {
    (void)state;
    static const char *const options[] = {
        "long.json --steps 1 --batch 4 --unit 2 --micro-batch 1 --eval-samples 1 --exact",
        "uneven.json --steps 2 --batch 4 --unit 1 --sharding optimizer --eval-samples 2 --exact",
        "uneven.json --steps 2 --batch 4 --unit 1 --sharding gradients --eval-samples 2 --exact",
        "uneven.json --steps 2 --batch 2 --unit 1 --sharding weights --eval-samples 2 --exact",
        "uneven.json --steps 2 --batch 8 --unit 1 --sharding weights:group=2 --eval-samples 2 --exact",
        "uneven.json --steps 2 --batch 8 --unit 1 --sharding gradients:group=2 --eval-samples 2 --exact",
        "uneven.json --steps 2 --batch 4 --unit 1 --precision mixed-bf16 --attention off --sharding weights "
        "--instructions widened --eval-samples 2",
        "tiny/config.json --steps 2 --batch 4 --unit 1 --optimizer adafactor --eval-samples 2 --exact",
    };
    char line[600];
    if (left_out()) return;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        command_shell("rm -rf one several");
        char one[300];
        snprintf(one, sizeof one, "%s", options[i]);
        char *sharding = strstr(one, "--sharding "); /* which one process has none of */
        if (sharding) memset(sharding, ' ', strcspn(sharding + strlen("--sharding "), " ") + 11);
        snprintf(line, sizeof line, "train %s --data text --out one --threads 1 --quiet --device cpu", one);
        command_expect(0, line);
        snprintf(line, sizeof line,
                 "train %s --data text --out several --threads 1 --quiet --device emulated", options[i]);
        int ranks = strstr(options[i], ":group=2") ? 4 : 2;
        int code = start(ranks, "SNUG_EMULATED=pace=random", line);
        if (code) fail_msg("%s: exit %d: %s", options[i], code, said());
        same_as("one", "several", options[i]);
        kept_to_plan("several", ranks);
    }
}

/* Three groups of two: sums pass through the one in the middle, and are told in two steps; and two of three.
 * With two units a rank the first group goes on with what it was told. */
static void groups_of_six_ranks(void **state) {
    static const struct {
        const char *pace, *options;
    } runs[] = {
        { "late-copies", "uneven.json --batch 6 --unit 1 --sharding weights:group=2" },
        { "late-kernels", "uneven.json --batch 6 --unit 1 --sharding gradients:group=2" },
        { "random", "uneven.json --batch 12 --unit 1 --sharding weights:group=2:ahead=0:keep=1" },
        { "random", "uneven.json --batch 12 --unit 1 --sharding gradients:group=2" },
        { "eager", "uneven.json --batch 12 --unit 2 --recompute block --sharding weights:group=3" },
        { "late-copies", "words.json --batch 6 --unit 1 --sharding weights:group=2" },
        { "random", "words.json --batch 6 --unit 1 --sharding weights:late=1:group=2" },
        { "late-kernels", "words.json --batch 12 --unit 1 --sharding gradients:late=1:group=2" },
    };
    static const char words[] =
        "--data text --steps 2 --eval-samples 2 --threads 1 --exact --quiet --clip 0.5";
    char line[600], variables[100];
    (void)state;
    if (left_out()) return;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        int alone = (int)(strstr(runs[i].options, " --sharding") - runs[i].options);
        command_shell("rm -rf one several");
        snprintf(line, sizeof line, "train %.*s %s --out one --device cpu", alone, runs[i].options, words);
        command_expect(0, line);
        snprintf(line, sizeof line, "train %s %s --out several --device emulated", runs[i].options, words);
        snprintf(variables, sizeof variables, "SNUG_EMULATED='pace=%s'", runs[i].pace);
        int code = start(6, variables, line);
        if (code) fail_msg("%s: exit %d: %s", runs[i].options, code, said());
        same_as("one", "several", runs[i].options);
        kept_to_plan("several", 6);
    }
}

/* Without MPI's launcher there is NCCL alone, for words as well. The stand-in finds MPI by other variables.
 */
static int start_by_torchrun(int ranks, const char *line) {
    char whole[1800];
    snprintf(whole, sizeof whole,
             "LD_LIBRARY_PATH=" STANDIN " timeout -k 5 120 mpirun --oversubscribe --bind-to none -n %d sh -c "
             "'export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=%d "
             "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500; unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE; "
             "exec " SNUG_BUILD "/snug %s' >said 2>&1 </dev/null",
             ranks, ranks, line);
    return run(whole);
}

static void torchrun(void **state) {
    (void)state;
    char line[600];
    if (left_out()) return;
    command_shell("rm -rf one several");
    snprintf(line, sizeof line, "train %s --out one --device cpu", uneven);
    command_expect(0, line);
    snprintf(line, sizeof line, "train %s --out several --device emulated", uneven);
    int code = start_by_torchrun(2, line);
    if (code) fail_msg("exit %d: %s", code, said());
    same_as("one", "several", "torchrun");
    kept_to_plan("several", 2);
    snprintf(line, sizeof line, "train %s --out no --data gone --device emulated", uneven);
    code = start_by_torchrun(2, line);
    if (code != 2 || sentences() != 1 || !command_has_words(said(), "gone"))
        fail_msg("exit %d, %d sentences: %s", code, sentences(), said());
}

/* What was begun on GPUs goes on on a CPU, and the other way round. */
static void other_devices_go_on(void **state) {
    (void)state;
    static const char *const usual =
        "uneven.json --data text --batch 4 --unit 1 --eval-samples 2 --threads 1 "
        "--exact --quiet --save-every 1 --schedule constant";
    char line[600];
    if (left_out()) return;
    command_shell("rm -rf whole begun went");
    snprintf(line, sizeof line, "train %s --steps 3 --out whole --device cpu", usual);
    command_expect(0, line);
    snprintf(line, sizeof line, "train %s --steps 2 --out begun --device emulated", usual);
    if (start(2, "", line)) fail_msg("%s", said());
    command_shell("cp -r begun went");
    snprintf(line, sizeof line, "train %s --steps 3 --out went --resume --device cpu", usual);
    command_expect(0, line);
    same_as("whole", "went", "a CPU");
    snprintf(line, sizeof line, "train %s --steps 3 --out begun --resume --device emulated", usual);
    if (start(4, "", line)) fail_msg("%s", said());
    same_as("whole", "begun", "four GPUs");
}

/* ---- what is refused ---- */

static void refused(const char *variables, const char *more, int code, const char *words) {
    char line[600];
    snprintf(line, sizeof line, "train %s --out no --device emulated %s", uneven, more);
    int is = start(2, variables, line);
    if (is != code || sentences() != 1 || !command_has_words(said(), words))
        fail_msg("%s %s: exit %d, and %d sentences: %s", variables, more, is, sentences(), said());
}

static void one_sentence(void **state) {
    (void)state;
    if (left_out()) return;
    refused("LD_LIBRARY_PATH=$PWD/broken", "", 2,
            "ranks on GPUs speak to each other by NCCL, and it is not to");
    refused("STANDIN_VERSION=2604", "", 2, "the NCCL of this machine is 2.6, and ranks on GPUs take 2.7");
    refused("SNUG_EMULATED=gpu=7", "", 2, "ranks 0 and 1 compute on one GPU");
    refused("SNUG_EMULATED=transport=2000000000", "", 3, "transport between ranks 2000000000), more than");
    refused("SNUG_EMULATED=transport=2000000", "--transport-memory 1000000", 3, "--transport-memory says");
    refused("", "--memory 3MiB --transport-memory 1MiB", 3, "does not fit");
    assert_int_equal(start(2, "SNUG_EMULATED=transport=2000000",
                           "train uneven.json --data text --steps 1 --batch 4 --unit 1 --eval-samples 2 "
                           "--threads 1 --quiet --out no --device emulated --transport-memory 3000000"),
                     0);
    command_shell("rm -r no");
    assert_true(command_says("plan tiny --batch 8 --unit 4 --ranks 2 --transport-memory 1MiB", 2,
                             "--transport-memory is of several processes on GPUs, and this is on a CPU"));
}

/* Two processes, each with variables and a line of its own. */
static int differ(const char *first, const char *device, const char *second, const char *other) {
    char whole[2400];
    snprintf(whole, sizeof whole,
             "LD_LIBRARY_PATH=" STANDIN
             " timeout -k 5 60 mpirun --oversubscribe --bind-to none -n 1 env %s " SNUG_BUILD
             "/snug train %s --out no --device %s : -n 1 env %s " SNUG_BUILD
             "/snug train %s --out no --device %s >said 2>&1 </dev/null",
             first, uneven, device, second, uneven, other);
    return run(whole);
}

static void ranks_that_differ(void **state) {
    (void)state;
    if (left_out()) return;
    int code = differ("A=1", "emulated", "A=1", "cpu");
    if (code != 2 || sentences() != 1 ||
        !command_has_words(said(), "rank 0 computes on a GPU, and rank 1 on a CPU"))
        fail_msg("exit %d: %s", code, said());
    command_shell("rm -rf no");
    code = differ("A=1", "emulated", "SNUG_EMULATED=lost=400", "emulated");
    if (code != 1 || !command_has_words(said(), "rank 1 can't reach the others: the emulated GPU was lost"))
        fail_msg("exit %d: %s", code, said());
}

static void a_movement_fails(void **state) {
    (void)state;
    if (left_out()) return;
    command_shell("rm -rf no");
    refused("STANDIN_FAILS=60", "", 1, "can't reach the others: NCCL can't go on: remote process exited");
    command_shell("rm -rf no");
}

/* NCCL itself would wait for ever. MPI, which has started them, finds who it is: the others wait as well, and
 * answer. Without MPI: test_torchrun. */
static void who_is_stopped_is_named(void **state) {
    (void)state;
    if (left_out()) return;
    command_shell("rm -rf stopped");
    command_shell("(sleep 4; kill -STOP " SEVERAL_RANK("stopped", "1") ") &");
    int code =
        start(4, "", "train " ENDLESS " --steps 100000 --rank-timeout 2 --out stopped --device emulated");
    if (code != 1 || sentences() != 1 ||
        !command_has_words(said(), "rank 1 has been waited for for 2 s (--rank-timeout)"))
        fail_msg("exit %d: %s", code, said());
    several_all_gone("stopped", 5);
}

/* ---- planned with nobody there ---- */

static void plans_for_gpus(void **state) {
    (void)state;
    static const char *const line = "plan char-gpt --batch 16 --unit 4 --gpu h200 --json --quiet --ranks";
    char whole[300];
    uint64_t one = 0;
    for (int ranks = 1; ranks <= 4; ranks *= 4) {
        snprintf(whole, sizeof whole, "%s %d", line, ranks);
        uint64_t runtime = command_asked(whole, "predicted.by_category.runtime");
        if (ranks == 1) one = runtime;
        if (ranks > 1) assert_int_equal(runtime - one, (1024 + 16 * 3) << 20);
    }
    snprintf(whole, sizeof whole, "%s 2 --transport-memory 64MiB", line);
    assert_int_equal(command_asked(whole, "predicted.by_category.runtime") - one, 64 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_has_the_bits_of_one_process),
        cmocka_unit_test(the_bits_of_one_process),
        cmocka_unit_test(other_models),
        cmocka_unit_test(groups_of_six_ranks),
        cmocka_unit_test(torchrun),
        cmocka_unit_test(other_devices_go_on),
        cmocka_unit_test(one_sentence),
        cmocka_unit_test(ranks_that_differ),
        cmocka_unit_test(a_movement_fails),
        cmocka_unit_test(who_is_stopped_is_named),
        cmocka_unit_test(plans_for_gpus),
    };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}
