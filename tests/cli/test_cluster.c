/* Clusters: files are read whole or refused in a sentence, the fewest of the smallest devices are chosen, and
 * scripts are ones that bash reads and that ask for what was chosen. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "cli/command.h"
#include "estimate/clusters/cluster.h"
#include "io/scratch.h"
#include "sanitized.h"

/* ---- files ---- */

static void built_in_ones_are_whole(void **state) {
    (void)state;
    int count = 0;
    for (const hardware_file *x = cluster_files; x->name; x++, count++) {
        cluster c;
        if (cluster_find(x->name, &c) != STATUS_OK) fail_msg("%s", status_message());
        assert_true(c.kind_count > 0 && c.title[0]);
        for (uint32_t i = 0; i < c.kind_count; i++) {
            hardware h;
            if (hardware_find(c.kinds[i].device, &h) != STATUS_OK) fail_msg("%s", status_message());
        }
    }
    assert_int_equal(count, 3);
}

#define GOOD                                                                                                 \
    "nodes: [small, large]\ndevices: [t4, a100-80]\ngpus: [2, 4]\ncores: [16, 64]\n"                         \
    "memory: [64GiB, 512GiB]\ncount: [4, 8]\n"

static void own_files_are_checked(void **state) {
    (void)state;
    static const struct {
        const char *yaml, *said;
        int exit;
    } files[] = {
        { GOOD, "t4", 0 },
        { GOOD "partitions: [gpu, \"a b\"]\n", "cannot stand in a script", 2 },
        { GOOD "constraints: [\"x\\ny\", none]\n", "cannot stand in a script", 2 },
        { GOOD "flags: [\"--wrap=$(reboot)\"]\n", "cannot stand in a script", 2 },
        { GOOD "flags: [account]\n", "no option of sbatch", 2 },
        { GOOD "partitions: [gpu]\n", "every list has one for each kind", 2 },
        { GOOD "title: \"two\\nlines\"\n", "more than a line", 2 },
        { GOOD "ask: politely\n", "must be gres or gpus-per-node", 2 },
        { GOOD "hours: 0\n", "from 1 to", 2 },
        { GOOD "speed: 3\n", "under no key of a cluster", 2 },
        { GOOD "within: [none, 300e9]\nbetween: [25e9, 25e9]\nlatency_between: [none, 5e-6]\n", "t4", 0 },
        { GOOD "between: [25e9]\n", "every list has one for each kind", 2 },
        { GOOD "between: [0, 25e9]\n", "neither a number from 1000 to 1e+15 nor none", 2 },
        { GOOD "within: [-1, 25e9]\n", "neither a number from", 2 },
        { GOOD "within: [25GB/s, none]\n", "neither a number from", 2 },
        { GOOD "latency_within: [nan, 1e999]\n", "neither a number from 1e-09 to 10 nor none", 2 },
        { "nodes: [a]\n", "devices is missing", 2 },
        { "", "nodes is missing", 2 },
        { "nodes: [a]\ndevices: [warp]\ngpus: [1]\ncores: [1]\nmemory: [1GiB]\ncount: [1]\n",
          "no device 'warp'", 2 },
        { "nodes: [a]\ndevices: [t4]\ngpus: [99999999999999999999]\ncores: [1]\nmemory: [1GiB]\ncount: [1]\n",
          "gpus", 2 },
        { "nodes: [a]\ndevices: [t4]\ngpus: [1]\ncores: [1]\nmemory: [99999999999999999999]\ncount: [1]\n",
          "99999999999999999999", 2 },
        { "nodes: [a]\ndevices: [t4]\ngpus: [1]\ncores: [1]\nmemory: [3]\ncount: [1]\n",
          "less than a mebibyte", 2 },
        { "nodes: {a: 1}\n", "maps in maps", 2 },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        scratch_write("own.yaml", files[i].yaml, strlen(files[i].yaml));
        assert_true(command_says("estimate gpt2 --batch 4 --context 256 --cluster own.yaml", files[i].exit,
                                 files[i].said));
    }
    static const char two[] =
        "nodes: [a]\ndevices: [t4]\ngpus: [2]\ncores: [16]\nmemory: [64GiB]\ncount: [1]\n";
    scratch_write("two.yaml", two, sizeof two - 1);
    assert_true(command_says("estimate llama-3-8b --cluster two.yaml --batch 1 --context 1024", 3,
                             "with adapters, which train something else, 2 would do: "));
    /* batches that a batch norm sees are not cut */
    assert_true(
        command_says("estimate resnet-50 --cluster two.yaml --batch 512", 3, "no nodes on which this fits"));
    assert_true(command_says("estimate gpt2 --cluster ascent", 2, "did you mean ascend"));
    assert_true(command_says("estimate gpt2 --cluster no.yaml", 2, "no.yaml"));
    assert_true(command_says("estimate gpt2 --emit slurm", 2, "say --cluster"));
    assert_true(command_says("estimate gpt2 --cluster ascend --solve batch", 2, "say --gpu"));
    assert_true(
        command_says("estimate gpt2 --cluster ascend --emit slurm --json", 2, "both write to stdout"));
}

/* ---- scripts ---- */

/* Five of these hold llama-2-13b, and four do not. */
#define EIGHTS "nodes: [eights]\ndevices: [eight.yaml]\ngpus: [8]\ncores: [16]\nmemory: [64GiB]\ncount: [1]\n"

static void scripts_ask_for_what_fits(void **state) {
    (void)state;
    static const struct {
        const char *options, *lines[6];
    } cases[] = {
        { "gpt2 --cluster pitzer --batch 8",
          { "--constraint=40core\n", "--nodes=1\n", "--gpus-per-node=1\n", "--cpus-per-task=20\n",
            "--mem=185856M\n", "torchrun --standalone --nproc-per-node=1" } },
        { "gpt2 --cluster pitzer --batch 16", { "--constraint=48core\n", "v100-32", "--gpus-per-node=1\n" } },
        { "gpt2 --cluster pitzer --batch 1 --context 256 --gpus 8 --shard ddp",
          { "--nodes=4\n", "--gpus-per-node=2\n", "--rdzv-endpoint", "--nnodes=4" } },
        { "llama-3-8b --cluster ascend --batch 1 --context 4096",
          { "--gpus-per-node=2\n", "--job-name=llama-3-8b\n", "--account=PROJECT\n", "--time=04:00:00\n",
            "# Estimated: snug estimate llama-3-8b --batch 1 --context 4096 --cluster ascend "
            "--gradient-checkpointing --loss fused --gpus 2 --shard fsdp --gpu a100-80\n",
            "shared by fsdp, with --loss fused --gradient-checkpointing, which change nothing that is "
            "learned; as asked it takes 3\n" } },
        { "llama-3-8b --cluster ascend --batch 1 --context 4096 --gpus 3 --shard zero3",
          { "--gpus-per-node=3\n", "3 of 4 a100-80 on 1 quad node, shared by zero3\n" } },
        { "llama-3.2-1b --cluster pitzer --batch 4 --context 4096",
          { "--gpus-per-node=1\n", "with --loss fused --gradient-checkpointing, which change",
            "as asked it fits on none" } },
        { "gpt2 --cluster pitzer --batch 8", { "the whole context of 1024 tokens is assumed" } },
        { "llama-3-70b --cluster cardinal --batch 1 --context 4096 --gradient-checkpointing",
          { "--partition=gpu\n", "--gpus-per-node=4\n", "torchrun --nnodes=" } },
        { "gpt2-xl --cluster pitzer --framework snug --batch 4 --context 512",
          { "snug train gpt2-xl", "--batch 4 --context 512", "--gpus-per-node=1\n" } },
        { "gpt2 --cluster ascend --framework snug --batch 32 --unit 4 --ranks 8",
          { "--nodes=2\n", "--gpus-per-node=4\n", "--ntasks-per-node=4\n", "--cpus-per-task=22\n",
            "--ranks 8x4 ", "srun --mpi=pmix " } },
        { "llama-3-70b --cluster ascend --framework vllm --context 4096",
          { "--tensor-parallel-size 2 \\\n", "--gpus-per-node=2\n" } },
        { "meta-llama/Meta-Llama-3-8B --cluster ascend --framework vllm --context 4096",
          { "vllm serve meta-llama/Meta-Llama-3-8B ", "--job-name=llama-3-8b\n" } },
        { "llama-3-8b --cluster pitzer --framework llama.cpp --context 4096", { "llama-server" } },
        { "gpt2 --cluster own.yaml --batch 4 --context 256",
          { "--gres=gpu:tesla:1\n", "--partition=batch\n", "--exclusive\n" } },
    };
    static const char own[] =
        GOOD "types: [tesla, a100]\npartitions: [batch, none]\nask: gres\nflags: [--exclusive]\n";
    scratch_write("own.yaml", own, sizeof own - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "estimate %s --emit slurm", cases[i].options);
        command_result r = command_run(line);
        if (r.exit != 0) fail_msg("%s: %d: %s", line, r.exit, r.err);
        assert_int_equal(strncmp(r.out, "#!/bin/bash\n", 12), 0);
        for (int k = 0; k < 6 && cases[i].lines[k]; k++)
            if (!strstr(r.out, cases[i].lines[k]))
                fail_msg("%s:\n%s\nhas no '%s'", line, r.out, cases[i].lines[k]);
        scratch_write("job.sh", r.out, strlen(r.out));
        assert_int_equal(system("bash -n job.sh"), 0);
        command_free(&r);
    }
}

/* Of an estimate's JSON: the seconds of snug's own plan; NAN: of another framework. */
static double step_seconds(const char *json) {
    json_document d;
    double seconds = NAN;
    assert_int_equal(json_parse("estimate", json, strlen(json), &d), STATUS_OK);
    if (strstr(json, "\"step_seconds\""))
        assert_int_equal(json_as_number(command_value(&d, "predicted.step_seconds"), 0, 1e300, &seconds),
                         STATUS_OK);
    json_close(&d);
    return seconds;
}

/* The line that a script has of what was estimated gives the same again: bytes, and of snug's ranks seconds
 * by the cluster's own links. "The fewest" stands there where nobody said how many. */
static void what_was_estimated_can_be_asked_again(void **state) {
    (void)state;
    static const struct {
        const char *question;
        bool counted;
    } cases[] = {
        { "gpt2 --cluster slow.yaml --framework snug --batch 32 --unit 4 --ranks 8", true },
        { "gpt2 --cluster slow.yaml --framework snug --batch 32 --unit 4", false },
        { "llama-3-8b --cluster ascend --batch 1 --context 4096 --gpus 3 --shard zero3", true },
        { "llama-3-8b --cluster ascend --batch 1 --context 4096 --gpus 2 --shard fsdp "
          "--gradient-checkpointing --loss fused",
          true },
        { "gpt2 --cluster pitzer --batch 8", false },
    };
    static const char slow[] = "nodes: [a]\ndevices: [a100-80]\ngpus: [4]\ncores: [16]\nmemory: [512GiB]\n"
                               "count: [4]\nwithin: [1e9]\nbetween: [1e7]\n";
    scratch_write("slow.yaml", slow, sizeof slow - 1);
    enum { SEARCHES = 2 }; /* the first ones, which the sanitizers make minutes of */
    for (size_t i = SANITIZED ? SEARCHES : 0; i < sizeof cases / sizeof *cases; i++) {
        char line[512];
        snprintf(line, sizeof line, "estimate %s --emit slurm", cases[i].question);
        command_result r = command_run(line);
        if (r.exit != 0) fail_msg("%s: %d: %s", line, r.exit, r.err);
        const char *again = strstr(r.out, "# Estimated: snug ");
        assert_non_null(again);
        again += strlen("# Estimated: snug ");
        bool counted = strstr(r.out, "As many of them as were asked for."),
             fewest = strstr(r.out, "The fewest of them on which it fits.");
        if (counted != cases[i].counted || fewest == counted) fail_msg("%s: %.300s", line, r.out);
        snprintf(line, sizeof line, "%.*s --json", (int)strcspn(again, "\n"), again);
        command_free(&r);
        command_result second = command_run(line);
        if (second.exit != 0) fail_msg("%s: %d: %s", line, second.exit, second.err);
        snprintf(line, sizeof line, "estimate %s --json", cases[i].question);
        command_result first = command_run(line);
        double seconds = step_seconds(first.out);
        bool same = isnan(seconds) ? strcmp(first.out, second.out) == 0 : seconds == step_seconds(second.out);
        if (!same) fail_msg("%s: %s\nand again: %s", line, first.out, second.out);
        command_free(&first);
        command_free(&second);
    }
}

/* A model is whatever its folder is called; its name must not become a command. */
static void names_stay_names(void **state) {
    (void)state;
    command_make_files();
    assert_int_equal(system("cp -r tiny \"$(printf 'a\\047;touch;b')\""), 0);
    command_result r =
        command_run("estimate a';touch;b --framework snug --cluster pitzer --batch 1 --emit slurm");
    assert_int_equal(r.exit, 0);
    assert_non_null(strstr(r.out, "\nsrun snug train 'a'\\'';touch;b' --data DATA"));
    assert_non_null(strstr(r.out, "--job-name=a--touch-b\n"));
    scratch_write("job.sh", r.out, strlen(r.out));
    command_free(&r);
    static const char srun[] = "srun() { [ \"$3\" = \"a';touch;b\" ]; }\nSLURM_JOB_ID=1\n";
    scratch_write("srun.sh", srun, sizeof srun - 1);
    assert_int_equal(system("bash -c '. ./srun.sh; . ./job.sh'"), 0);
}

/* What runs is what was estimated. */
static void commands_have_what_was_asked(void **state) {
    (void)state;
    static const struct {
        const char *options, *parts[8];
    } cases[] = {
        { "llama-3-8b --cluster cardinal --framework vllm --context 4096 --quantization fp8 --enforce-eager "
          "--kv-cache-dtype fp8 --gpu-memory-utilization 0.8 --max-num-batched-tokens 3000",
          { "srun vllm serve llama-3-8b ", "--quantization fp8", "--enforce-eager", "--kv-cache-dtype fp8",
            "--gpu-memory-utilization 0.8", "--max-num-batched-tokens 3000", "--max-model-len 4096" } },
        { "meta-llama/Meta-Llama-3-8B --cluster ascend --framework vllm --context 4096",
          { "vllm serve meta-llama/Meta-Llama-3-8B ", "--job-name=llama-3-8b\n" } },
        { "llama-3-8b --cluster pitzer --framework llama.cpp --context 4096",
          { "srun llama-server --model llama-3-8b-", "--ctx-size 4096", "--n-gpu-layers" } },
        { "gpt2 --cluster pitzer --framework snug --batch 4 --context 256 --precision bf16 --recompute block "
          "--lora rank=8 --clip off --accumulate 2",
          { "srun snug train gpt2 ", "--batch 4", "--context 256", "--precision bf16", "--recompute block",
            "--lora rank=8", "--clip off", "--accumulate 2" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 8 && cases[i].parts[k]; k++) {
            char line[512];
            snprintf(line, sizeof line, "estimate %s --emit slurm", cases[i].options);
            assert_true(command_says(line, 0, cases[i].parts[k]));
        }
}

/* A path that is longer than a model's name comes into the script whole. */
static void paths_stay_whole(void **state) {
    (void)state;
    char path[128], line[256];
    memset(path, 'p', sizeof path);
    path[100] = 0;
    command_make_files();
    snprintf(line, sizeof line, "cp -r tiny %s", path);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "estimate %s --framework snug --cluster pitzer --batch 1 --emit slurm", path);
    assert_true(command_says(line, 0, path));
}

/* What was asked for is taken or refused, and not made something else. */
static void numbers_stay_numbers(void **state) {
    (void)state;
    static const char small[] = "estimate gpt2 --batch 1 --context 256 --shard ddp --emit slurm --cluster";
    char line[256];
    static const struct {
        const char *end, *said;
        int exit;
    } cases[] = {
        { "ascend --gpus 3", "--gpus-per-node=3\n", 0 },
        { "ascend --gpus 8", "--nodes=2\n", 0 },
        { "ascend --gpus 7", "ask for 4 or 8", 2 },
        { "own.yaml --gpus 6", "--nodes=3\n", 0 }, /* of those that have two */
        { "own.yaml --gpus 7", "ask for", 2 },
        { "own.yaml --gpus 36", "on which this fits", 3 },
    };
    scratch_write("own.yaml", GOOD, sizeof GOOD - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, "%s %s", small, cases[i].end);
        assert_true(command_says(line, cases[i].exit, cases[i].said));
    }
    scratch_write("eight.yaml", "memory: 7GiB\n", 13);
    scratch_write("own.yaml", EIGHTS, sizeof EIGHTS - 1);
    static const char line_13b[] =
        "estimate llama-2-13b --framework vllm --context 512 --cluster own.yaml --emit slurm";
    assert_true(command_says(line_13b, 0, "--gpus-per-node=5\n"));
    snprintf(line, sizeof line, "%s --gpus 4", line_13b);
    assert_true(command_says(line, 3, "on which this fits"));
    snprintf(line, sizeof line, "%s --gpus 7", line_13b);
    assert_true(command_says(line, 2, "whole heads"));
}

/* A device has many names: what people and drivers say, and what the cluster's file says. */
static void devices_go_by_any_name(void **state) {
    static const char *const names[] = { "a100-80", "A100-80", "a100-80gb", "NVIDIA-A100-SXM4-80GB" };
    static const char nodes[] = "nodes: [small, large]\ndevices: [T4, NVIDIA-A100-80GB]\ngpus: [2, 4]\n"
                                "cores: [16, 64]\nmemory: [64GiB, 512GiB]\ncount: [4, 8]\n"
                                "between: [none, 25e9]\n";
    static const char *const files[] = { "ascend", "named.yaml" };
    char line[256];
    (void)state;
    scratch_write("named.yaml", nodes, sizeof nodes - 1);
    scratch_write("eight.yaml", "memory: 7GiB\n", 13);
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            snprintf(line, sizeof line, "estimate gpt2 --batch 4 --context 256 --cluster %s --gpu %s",
                     files[f], names[i]);
            assert_true(command_says(line, 0, "1 of 4 "));
            snprintf(line, sizeof line,
                     "plan char-gpt --batch 8 --context 64 --unit 2 --ranks 4x2 --sharding gradients "
                     "--micro-batch 2 --recompute off --cluster %s --gpu %s",
                     files[f], names[i]);
            assert_true(command_says(line, 0, files[f]));
        }
    assert_true(command_says("plan char-gpt --batch 8 --unit 1 --ranks 8x4 --cluster ascend --gpu a100-40", 2,
                             "they have a100-80"));
    scratch_write("own.yaml", EIGHTS, sizeof EIGHTS - 1);
    assert_true(command_says("estimate gpt2 --batch 1 --context 64 --cluster own.yaml --gpu eight.yaml", 0,
                             "1 of 8 eight.yaml"));
}

/* One device less, or the next smaller kind, does not fit. The sanitizers see these commands in other tests.
 */
static void it_is_the_fewest(void **state) {
    (void)state;
    if (SANITIZED) skip();
    assert_true(command_says("estimate llama-3-8b --cluster ascend --batch 1 --context 4096", 0,
                             "2 of 4 a100-80 on 1 quad"));
    static const char switched[] =
        "estimate llama-3-8b --device a100-80 --batch 1 --context 4096 --loss fused "
        "--gradient-checkpointing";
    char line[256];
    assert_true(command_says(switched, 3, "too much"));
    snprintf(line, sizeof line, "%s --gpus 2 --shard fsdp", switched);
    assert_true(command_says(line, 0, "give free segments back"));
    assert_true(
        command_says("estimate llama-3-8b --device a100-80 --gpus 2 --shard fsdp --batch 1 --context 4096", 3,
                     "too much"));
    assert_true(command_says("estimate gpt2 --cluster pitzer --batch 16", 0, "1 of 2 v100-32"));
    assert_true(command_says("estimate gpt2 --device v100-16 --batch 16", 3, "too much"));
    assert_true(
        command_says("estimate gpt2 --cluster pitzer --batch 4 --device v100-32", 0, "1 of 2 v100-32"));
    assert_true(command_says("estimate llama-3.1-405b --cluster pitzer --batch 1 --context 4096", 3,
                             "on which this fits"));
}

/* ---- links ---- */

static json_document planned_with(const char *said, const char *options) {
    char yaml[600], line[400];
    snprintf(yaml, sizeof yaml,
             "nodes: [n]\ndevices: [a100-80]\ngpus: [4]\ncores: [16]\nmemory: [64GiB]\ncount: [4]\n%s", said);
    scratch_write("site.yaml", yaml, strlen(yaml));
    snprintf(line, sizeof line,
             "plan char-gpt --batch 8 --context 64 --unit 2 --threads 1 --rates built-in --json "
             "--quiet --cluster site.yaml %s",
             options);
    return command_json(line);
}

static double seconds_with(const char *said, const char *options) {
    double seconds = 0;
    json_document d = planned_with(said, options);
    assert_int_equal(json_as_number(command_value(&d, "predicted.step_seconds"), 0, 1e300, &seconds),
                     STATUS_OK);
    json_close(&d);
    return seconds;
}

/* A rate and a latency, each of its link alone, and of processors none within a host. */
static void slower_links_take_longer(void **state) {
#define PINS "--sharding gradients --micro-batch 2 --recompute off --exact"
    static const char cpus[] = "--ranks 4x2 --device cpu " PINS, gpus[] = "--ranks 4x2 --gpu a100-80 " PINS;
#undef PINS
    static const char fast[] = "within: [300e9]\nbetween: [100e9]\n";
    static const struct {
        const char *said, *options;
        bool longer;
    } slow[] = {
        { "within: [300e9]\nbetween: [1e8]\n", cpus, true },
        { "within: [300e9]\nbetween: [1e8]\n", gpus, true },
        { "within: [300e9]\nbetween: [100e9]\nlatency_between: [0.01]\n", cpus, true },
        { "within: [1e8]\nbetween: [100e9]\n", gpus, true },
        { "within: [300e9]\nbetween: [100e9]\nlatency_within: [0.01]\n", gpus, true },
        { "within: [1e8]\nbetween: [100e9]\nlatency_within: [0.01]\n", cpus, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        double quick = seconds_with(fast, slow[i].options),
               other = seconds_with(slow[i].said, slow[i].options);
        if (slow[i].longer ? other <= quick : other != quick)
            fail_msg("%zu: %g s, and %g s with links that are slower", i, quick, other);
    }
}

/* What ranks share where links are such. */
static void shared_with(const char *said, char setting[64]) {
    static const char of[] = "plan char-gpt --batch 8 --context 64 --unit 2 --threads 1 --rates built-in "
                             "--device cpu --ranks 4x2 --cluster site.yaml --json";
    json_document d = planned_with(said, "--device cpu --ranks 4x2"); /* writes the file */
    json_close(&d);
    command_result r = command_run(of);
    const char *at = strstr(r.out, "\"name\": \"sharding\"");
    const char *set = at ? strstr(at, "\"setting\": \"") : NULL;
    if (!set || sscanf(set, "\"setting\": \"%63[^\"]", setting) != 1)
        fail_msg("%s: nothing is shared: %.200s", said, at ? at : r.err);
    if (!command_has_words(r.err, "links of site.yaml")) fail_msg("%s", r.err);
    command_free(&r);
}

/* Which setting it is follows from this processor's rates as well. */
static void other_links_may_choose_otherwise(void **state) {
    char quick[64], slow[64];
    (void)state;
    if (SANITIZED) skip(); /* whole searches */
    shared_with("between: [100e9]\nlatency_between: [1e-6]\n", quick);
    shared_with("between: [1.25e9]\nlatency_between: [100e-6]\n", slow);
    if (strcmp(quick, slow) == 0) fail_msg("%s with either", quick);
}

/* A plan says whose links it has where it has any of them. */
static void links_are_named_where_they_are_used(void **state) {
#define PINS " --sharding gradients --micro-batch 2 --recompute off"
    static const struct {
        const char *said, *options;
        bool used;
    } cases[] = {
        { "within: [300e9]\n", "--ranks 4x2 --device cpu" PINS, false },
        { "within: [300e9]\n", "--ranks 4x4 --device cpu" PINS, false },
        { "within: [300e9]\n", "--ranks 4x1 --gpu a100-80" PINS, false },
        { "within: [300e9]\n", "--ranks 4x2 --gpu a100-80" PINS, true },
        { "within: [300e9]\n", "--ranks 4x4 --gpu a100-80" PINS, true },
        { "between: [25e9]\n", "--ranks 4 --device cpu" PINS, false },
        { "between: [25e9]\n", "--ranks 4x4 --gpu a100-80" PINS, false },
        { "between: [25e9]\n", "--ranks 4x2 --device cpu" PINS, true },
        { "between: [25e9]\n", "--ranks 4x1 --gpu a100-80" PINS, true },
        { "latency_between: [5e-6]\n", "--ranks 4x2 --device cpu" PINS, true },
        { "latency_between: [5e-6]\n", "--ranks 4x4 --gpu a100-80" PINS, false },
        { "latency_within: [5e-6]\n", "--ranks 4x4 --gpu a100-80" PINS, true },
    };
#undef PINS
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *from;
        json_document d = planned_with(cases[i].said, cases[i].options);
        assert_int_equal(json_as_string(command_value(&d, "rates"), &from), STATUS_OK);
        if (cases[i].used != (strstr(from, "; links of site.yaml") != NULL))
            fail_msg("%s and %s: %s", cases[i].said, cases[i].options, from);
        json_close(&d);
    }
}

/* estimate chooses the nodes, and each device has a rank; its links are those of plan. */
static void estimates_take_links(void **state) {
    static const char of[] = "gpt2 --batch 8 --unit 1 --rates built-in --json --quiet";
    char line[300];
    double seconds[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s %s --ranks 8x4 --cluster ascend%s", i ? "plan" : "estimate", of,
                 i ? " --gpu a100-80" : " --framework snug");
        command_result r = command_run(line);
        if (r.exit || !strstr(r.out, "; links of ascend")) fail_msg("%s: %d, %s", line, r.exit, r.err);
        scratch_write("planned", r.out, strlen(r.out));
        command_free(&r);
        json_document d;
        assert_int_equal(json_open("planned", &d), STATUS_OK);
        json_value v = command_value(&d, "predicted.step_seconds");
        assert_int_equal(json_as_number(v, 0, 1e9, &seconds[i]), STATUS_OK);
        json_close(&d);
    }
    assert_true(seconds[0] == seconds[1]);
#define SNUG "estimate gpt2 --framework snug --cluster ascend --batch 32 --unit 4 "
    assert_true(command_says(SNUG "--ranks 8x2", 2, "--ranks 8x2: of nodes quad 4 devices are taken each"));
    assert_true(command_says(SNUG "--ranks 6", 2, "--ranks 6: nodes quad have 4 devices each"));
    assert_true(command_says(SNUG "--ranks 3", 2, "which 3 ranks can't divide among themselves"));
#undef SNUG
}

static void links_that_are_not_known_are_refused(void **state) {
    static const char site[] = "nodes: [n]\ndevices: [a100-80]\ngpus: [4]\ncores: [16]\nmemory: [64GiB]\n"
                               "count: [4]\n";
    (void)state;
    scratch_write("site.yaml", site, sizeof site - 1);
#define PLAN "plan char-gpt --batch 8 --unit 1 "
    assert_true(command_says(PLAN "--ranks 2 --cluster site.yaml", 2, "does not say how fast links"));
    assert_true(command_says(PLAN "--cluster ascend", 2, "there is one"));
    assert_true(command_says(PLAN "--ranks 8 --cluster ascend --gpu a100-80", 2, "say --ranks 8x4"));
    assert_true(command_says(PLAN "--ranks 8x4 --cluster ascend --gpu h100-94", 2, "they have a100-80"));
    assert_true(command_says(PLAN "--ranks 8x4 --cluster nowhere", 2, "there is no cluster"));
#undef PLAN
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_ones_are_whole),
        cmocka_unit_test(own_files_are_checked),
        cmocka_unit_test(scripts_ask_for_what_fits),
        cmocka_unit_test(what_was_estimated_can_be_asked_again),
        cmocka_unit_test(names_stay_names),
        cmocka_unit_test(it_is_the_fewest),
        cmocka_unit_test(commands_have_what_was_asked),
        cmocka_unit_test(paths_stay_whole),
        cmocka_unit_test(numbers_stay_numbers),
        cmocka_unit_test(devices_go_by_any_name),
        cmocka_unit_test(slower_links_take_longer),
        cmocka_unit_test(other_links_may_choose_otherwise),
        cmocka_unit_test(links_are_named_where_they_are_used),
        cmocka_unit_test(estimates_take_links),
        cmocka_unit_test(links_that_are_not_known_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
