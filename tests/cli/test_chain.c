/* Ranks without units: one sum goes on from rank to rank. Losses and weights are those of one process, bit by
 * bit, however that one cuts its batch; planned and measured bytes are equal on every rank; any number of
 * ranks goes on from what others have saved; and what can't have those bits is refused in a sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli/command.h"
#include "cli/several.h"
#include "io/scratch.h"

enum { LINE = 700 };

/* With a token embedding that is tied to the logits: its gradient has links of two kinds. */
static const char tied[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 4, \"n_embd\": 64, "
                           "\"n_positions\": 32, \"vocab_size\": 300}\n";
static const char apart[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"hidden_size\": 64, \"intermediate_size\": 96, "
    "\"max_position_embeddings\": 64, \"vocab_size\": 300, \"rms_norm_eps\": 1e-5, "
    "\"tie_word_embeddings\": false}\n";
/* 76 gradients, which clipping reads all at once, and so does the check of 16-bit floats. */
static const char deep[] = "{\"model_type\": \"gpt2\", \"n_layer\": 6, \"n_head\": 2, \"n_embd\": 32, "
                           "\"n_positions\": 32, \"vocab_size\": 300}\n";
/* 102,400 elements in a weight of each layer, 76,800 in another, 48,000 in the embedding: of three ranks the
 * first is told in two steps, of four all of them. */
static const char wide[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 4, \"n_embd\": 160, "
                           "\"n_positions\": 32, \"vocab_size\": 300}\n";
static const char filling[] = "{\"model_type\": \"bert\", \"num_hidden_layers\": 2, \"num_attention_heads\": "
                              "4, \"hidden_size\": 64, \"intermediate_size\": 96, "
                              "\"max_position_embeddings\": 64, \"vocab_size\": 300}\n";
static const char distances[] = "{\"model_type\": \"t5\", \"d_model\": 32, \"d_kv\": 8, \"num_heads\": 4, "
                                "\"d_ff\": 64, \"num_layers\": 2, \"vocab_size\": 300}\n";

static void make_model(const char *name, const char *config) {
    char path[64];
    mkdir(name, 0700);
    snprintf(path, sizeof path, "%s/config.json", name);
    scratch_write(path, config, strlen(config));
}

static int open_all(void **state) {
    if (several_open(state) != 0) return -1;
    make_model("tied", tied), make_model("apart", apart);
    make_model("filling", filling), make_model("distances", distances);
    make_model("deep", deep), make_model("wide", wide);
    mkdir("away", 0700);
    return 0;
}

/* 1,024 rows of a batch: of two ranks each has two tiles, of four one. */
static const char usual[] = "--data text --context 32 --warmup 1 --eval-every 2 --eval-samples 37 "
                            "--save-every 2 --threads 1 --quiet";

static const char *batch_of(const char *options) { return strstr(options, "--batch") ? "" : "--batch 32"; }

static void one_process(const char *model, const char *options) {
    char line[LINE];
    command_shell("rm -rf one");
    snprintf(line, sizeof line, "train %s %s --steps 3 %s %s --out one", model, usual, batch_of(options),
             options);
    command_expect(0, line);
}

static void several(int ranks, const char *model, const char *options) {
    char line[LINE];
    command_shell("rm -rf several");
    snprintf(line, sizeof line, "train %s %s --steps 3 %s %s --out several", model, usual, batch_of(options),
             options);
    int code = several_start(ranks, line);
    if (code) fail_msg("%d ranks: %s: exit %d: %s", ranks, line, code, several_said());
    several_same_losses("one", "several");
    several_kept_to_plans("several", ranks);
    if (system("for f in model.safetensors checkpoint-2/model.safetensors "
               "checkpoint-2/optimizer.safetensors; do "
               "[ ! -e one/$f ] || cmp -s one/$f several/$f || exit 1; done") != 0)
        fail_msg("%d ranks: other files: %s %s", ranks, model, options);
}

/* ---- the bits of one process ---- */

static void each_model_has_the_bits_of_one_process(void **state) {
    static const char *const models[] = { "tied", "apart", "filling" };
    (void)state;
    if (several_left_out()) return;
    for (int i = 0; i < 3; i++) {
        one_process(models[i], "--exact --dropout 0.1 --clip 0.5");
        several(2, models[i], "--exact --dropout 0.1 --clip 0.5");
        several(4, models[i], "--exact --dropout 0.1 --clip 0.5 --sharding chain");
    }
}

/* Some nodes read every gradient, and a deep model has more than any link has inputs. */
static void models_may_be_deep(void **state) {
    static const char *const options[] = { "--attention flash --clip 0.5",
                                           "--attention flash --clip off --precision mixed-f16" };
    char line[LINE];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line,
                 "plan gpt2 --context 256 --batch 8 --ranks 2 --device cpu --quiet --recompute block %s",
                 options[i]);
        command_expect(0, line);
    }
    if (several_left_out()) return;
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s --micro-batch 32", options[i]);
        one_process("deep", line);
        several(2, "deep", options[i]);
    }
}

/* Three ranks with one tile each. */
static void ranks_need_not_be_a_power_of_two(void **state) {
    (void)state;
    if (several_left_out()) return;
    one_process("tied", "--batch 24 --exact");
    several(3, "tied", "--batch 24 --exact");
}

/* Of three ranks some sums, of four more: a piece goes to each rank, and from there to the others. */
static void large_sums_are_told_in_two_steps(void **state) {
    (void)state;
    if (several_left_out()) return;
    one_process("wide", "--batch 24 --exact --clip 0.5");
    several(3, "wide", "--batch 24 --exact --clip 0.5");
    one_process("wide", "--batch 64 --exact --dropout 0.1");
    several(4, "wide", "--batch 64 --exact --dropout 0.1");
}

/* How one process cuts its batch is another matter. */
static void one_process_may_have_other_micro_batches(void **state) {
    (void)state;
    if (several_left_out()) return;
    one_process("tied", "--exact --micro-batch 8 --clip off");
    several(2, "tied", "--exact --clip off");
    several(4, "tied", "--exact --clip off --accumulate 4"); /* which is what the ranks do */
}

/* The sum goes through all ranks with the first micro-batch of each, then with the second, and so on. */
static void ranks_may_have_micro_batches(void **state) {
    static const struct {
        int ranks;
        const char *options, *alone, *several;
    } cases[] = {
        { 2, "--exact --dropout 0.1 --clip 0.5", "", "--micro-batch 8" },
        { 3, "--batch 72 --exact --clip off", "--micro-batch 72", "--micro-batch 8 --sharding chain" },
        { 4, "--batch 64 --exact --recompute block --offload optimizer --offload-to away", "",
          "--accumulate 8" },
        { 2, "--attention flash --precision mixed-bf16 --chunk-loss 64 --clip off", "--micro-batch 32",
          "--micro-batch 8" },
        { 2, "--attention flash --precision bf16 --optimizer-state 8bit:all", "--micro-batch 8",
          "--micro-batch 8" },
    };
    (void)state;
    if (several_left_out()) return;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        char line[LINE];
        snprintf(line, sizeof line, "%s %s", cases[i].options, cases[i].alone);
        one_process("apart", line);
        snprintf(line, sizeof line, "%s %s", cases[i].options, cases[i].several);
        several(cases[i].ranks, "apart", line);
        command_shell("grep -q '\"accumulate\": [2-9]' several/run.json");
    }
}

/* Of links of two kinds each micro-batch of all ranks has both, as that of one process has. */
static void tied_tables_add_in_the_order_of_micro_batches(void **state) {
    static const char options[] = "--attention flash --clip 0.5 --dropout 0.1 --accumulation add";
    char line[LINE];
    (void)state;
    if (several_left_out()) return;
    snprintf(line, sizeof line, "%s --micro-batch 16", options);
    one_process("tied", line);
    snprintf(line, sizeof line, "%s --micro-batch 8", options);
    several(2, "tied", line);
}

/* A budget that a rank's part takes too much of at once. */
static void less_memory_is_met_by_micro_batches(void **state) {
    static const char options[] = "--batch 64 --exact";
    char line[LINE];
    (void)state;
    if (several_left_out()) return;
    snprintf(line, sizeof line, "plan apart --context 32 %s --ranks 2 --micro-batch 32 --json", options);
    unsigned long long whole = command_least_budget(line);
    snprintf(line, sizeof line, "plan apart --context 32 %s --ranks 2 --json", options);
    unsigned long long least = command_least_budget(line);
    if (least >= whole) fail_msg("%llu bytes with micro-batches, and %llu without", least, whole);
    one_process("apart", options);
    snprintf(line, sizeof line, "%s --memory %llu", options, least);
    several(2, "apart", line);
    command_shell("grep -q '\"accumulate\": [2-9]' several/run.json");
}

/* One process computes the batch at once, but where its sums would then have 16 bits. Loss and gradients that
 * are chained over parts of the rows, one sum within another, are begun and handed on in one order. */
static void beside_every_technique(void **state) {
    static const struct {
        const char *options, *alone;
    } techniques[] = {
        { "--attention flash --precision mixed-bf16", "--micro-batch 32" },
        { "--attention flash --precision mixed-f16", "--micro-batch 32" },
        { "--attention flash --precision bf16 --optimizer-state 8bit:all",
          "--micro-batch 8 --accumulation defer" },
        { "--attention flash --precision int8", "--micro-batch 32" },
        { "--attention flash --qat int8", "--micro-batch 32" },
        { "--attention flash --optimizer lion --optimizer-state bf16", "--micro-batch 32" },
        { "--attention flash --optimizer adafactor", "--micro-batch 32" },
        { "--attention flash --chunk-loss 64 --clip off", "--micro-batch 32" },
        { "--exact --optimizer sgd --momentum 0.9 --lr 0.01", "" },
        { "--exact --offload optimizer,activations --recompute block --offload-to away", "" },
        { "--attention flash --precision mixed-bf16 --offload optimizer,master --offload-to away",
          "--micro-batch 32" },
    };
    char alone[LINE / 2];
    (void)state;
    if (several_left_out()) return;
    for (int i = 0; i < (int)(sizeof techniques / sizeof *techniques); i++) {
        snprintf(alone, sizeof alone, "%s %s", techniques[i].options, techniques[i].alone);
        one_process("tied", alone);
        several(2 + 2 * (i % 2), "tied", techniques[i].options);
    }
}

static void adapters_are_chained_as_well(void **state) {
    static const char options[] = "--lora rank=4,base=int8 --attention flash";
    char line[LINE];
    (void)state;
    if (several_left_out()) return;
    snprintf(line, sizeof line, "train tied %s --batch 32 --steps 1 --out base", usual);
    command_expect(0, line);
    snprintf(line, sizeof line, "%s --micro-batch 32", options);
    one_process("base", line);
    several(2, "base", options);
    command_shell("cmp one/adapter_model.safetensors several/adapter_model.safetensors");
}

/* ---- from one number of ranks to another ---- */

static void any_ranks_go_on(void **state) {
    static const int ranks[] = { 4, 2, 1, 4 };
    char line[LINE];
    (void)state;
    if (several_left_out()) return;
    snprintf(line, sizeof line, "train tied %s --batch 32 --exact --steps 8 --schedule constant --out whole",
             usual);
    command_expect(0, line);
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line,
                 "train tied %s --batch 32 --exact --steps %d --schedule constant --out went %s", usual,
                 2 + 2 * i, i ? "--resume" : "");
        if (several_start(ranks[i], line)) fail_msg("%d ranks %s: %s", ranks[i], line, several_said());
    }
    several_same_losses("whole", "went");
    command_shell("cmp whole/model.safetensors went/model.safetensors");
    command_shell("cmp whole/checkpoint-8/optimizer.safetensors went/checkpoint-8/optimizer.safetensors");
}

/* ---- what is refused ---- */

static void what_can_not_be_is_refused(void **state) {
    static const struct {
        const char *options, *words;
    } wrong[] = {
        { "tied --batch 32 --ranks 3", "a batch of 32 can't be divided among 3 ranks" },
        { "tied --batch 16 --ranks 4", "each of 4 ranks would have 128 rows" },
        { "tied --batch 32 --ranks 2 --micro-batch 8 --exact", "what is pinned leaves no plan to try" },
        { "apart --batch 32 --ranks 2 --micro-batch 6", "do not divide the 16 samples" },
        { "apart --batch 32 --ranks 2 --micro-batch 32", "do not divide the 16 samples" },
        { "apart --batch 32 --ranks 2 --micro-batch 4", "would have 128 rows of the batch at once" },
        { "apart --batch 32 --ranks 2 --micro-batch 8 --accumulation defer", "whose rows can't wait" },
        { "tied --batch 32 --ranks 2 --sharding weights", "there is --sharding chain" },
        { "tied --batch 32 --ranks 2 --sharding off", "--sharding off" },
        { "tied --batch 32 --ranks 2 --unit 8 --sharding chain", "is of runs without --unit" },
        { "tied --batch 32 --sharding chain", "is of several ranks, and there is one" },
        { "tied --batch 32 --ranks 2 --sharding chain:ahead=1", "is neither" },
        { "tied --batch 32 --ranks 2 --update-early on --clip off", "gradients of all ranks must be" },
        { "tied --batch 32 --ranks 2 --offload gradients --offload-to away", "several ranks travel" },
        { "distances --batch 32 --ranks 2", "sums over samples, not over rows" },
        { "distances --batch 32 --ranks 2 --sharding chain", "sums over samples, not over rows" },
        { "resnet-18 --batch 512 --ranks 2", "samples of a batch see each other" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[LINE];
        bool sees = strncmp(wrong[i].options, "resnet", 6) == 0;
        snprintf(line, sizeof line, "plan %s %s --quiet --device cpu", wrong[i].options,
                 sees ? "" : "--context 32");
        command_result r = command_run(line);
        if (r.exit != 2 || !command_has_words(r.err, wrong[i].words))
            fail_msg("snug %s: exit %d: %s", line, r.exit, r.err);
        command_free(&r);
    }
}

/* What comes from another rank was found there, and never in what receives it. */
static void steps_that_are_not_finite(void **state) {
    static const char *const cases[][2] = {
        { "--optimizer sgd --clip off", "in forward, on rank " },
        { "", "became inf in step" },
    };
    (void)state;
    if (several_left_out()) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[LINE];
        command_shell("rm -rf infinite");
        snprintf(
            line, sizeof line,
            "train tied --context 32 --data text --batch 32 --eval-samples 2 --threads 1 --quiet --steps 30 "
            "--lr 1000 --schedule constant --warmup 0 --out infinite %s",
            cases[i][0]);
        several_refused(4, line, 1, cases[i][1]);
        assert_true(command_has_words(several_said(), "made it first"));
        assert_false(command_has_words(several_said(), "arrive") ||
                     command_has_words(several_said(), "pass_on"));
    }
}

/* Its neighbours wait for it, and others for these: whoever says so first names the one that says nothing. */
static void who_is_stopped_is_named(void **state) {
    static const char *const ranks[] = { "1", "2", "0" };
    static const char *const signals[] = { "kill -STOP " SEVERAL_RANK("stopped", "1"),
                                           "kill -STOP " SEVERAL_RANK("stopped", "2"),
                                           "kill -STOP " SEVERAL_RANK("stopped", "0") };
    char line[2 * LINE], words[100];
    (void)state;
    if (several_left_out()) return;
    for (int i = 0; i < 3; i++) {
        command_shell("rm -rf stopped");
        snprintf(line, sizeof line,
                 "(for i in $(seq 600); do grep -qs '\"step\": 3,' stopped/metrics.jsonl && break; sleep "
                 "0.05; done; %s) & timeout -k 5 60 mpirun --oversubscribe --bind-to none -n 4 " SEVERAL_SNUG
                 " train tied %s --batch 32 --steps 100000 --rank-timeout 3 --out stopped >said 2>&1 "
                 "</dev/null",
                 signals[i], usual);
        int code = system(line);
        snprintf(words, sizeof words, "rank %s has been waited for for 3 s (--rank-timeout)", ranks[i]);
        if (!WIFEXITED(code) || WEXITSTATUS(code) != 1 || !command_has_words(several_said(), words) ||
            several_times(several_said(), "snug: ") != 1)
            fail_msg("rank %s is stopped: %d: %s", ranks[i], code, several_said());
        several_all_gone("stopped", 5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_model_has_the_bits_of_one_process),
        cmocka_unit_test(models_may_be_deep),
        cmocka_unit_test(ranks_need_not_be_a_power_of_two),
        cmocka_unit_test(large_sums_are_told_in_two_steps),
        cmocka_unit_test(who_is_stopped_is_named),
        cmocka_unit_test(one_process_may_have_other_micro_batches),
        cmocka_unit_test(ranks_may_have_micro_batches),
        cmocka_unit_test(tied_tables_add_in_the_order_of_micro_batches),
        cmocka_unit_test(less_memory_is_met_by_micro_batches),
        cmocka_unit_test(beside_every_technique),
        cmocka_unit_test(adapters_are_chained_as_well),
        cmocka_unit_test(any_ranks_go_on),
        cmocka_unit_test(steps_that_are_not_finite),
        cmocka_unit_test(what_can_not_be_is_refused),
    };
    return cmocka_run_group_tests(tests, open_all, several_close);
}
