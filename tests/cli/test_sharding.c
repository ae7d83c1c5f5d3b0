/* What several ranks have shares of: sums, states, weights. However it is cut, and beside whatever technique,
 * losses and weights are those of one process, bit by bit; planned and measured bytes are equal on every
 * rank; files hold whole tensors, which any number of ranks goes on from. */
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

#include "cli/command.h"
#include "cli/several.h"
#include "io/scratch.h"
#include "sanitized.h"

enum { LINE = 700 };

/* Its matrices are just large enough to be cut. Over three ranks the last has less than the others, and over
 * four and more of some tensors nothing. */
static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 4, \"n_embd\": 128, "
                             "\"n_positions\": 32, \"vocab_size\": 600}\n";

static int open_all(void **state) {
    if (several_open(state) != 0) return -1;
    mkdir("cut", 0700), mkdir("away", 0700);
    scratch_write("cut/config.json", config, sizeof config - 1);
    return 0;
}

static const char usual[] = "train cut --data text --context 32 --warmup 1 --eval-every 2 --save-every 2 "
                            "--threads 1 --quiet";

static void one_process(const char *options) {
    char line[LINE];
    command_shell("rm -rf one");
    snprintf(line, sizeof line, "%s --steps 3 %s --out one", usual, options);
    command_expect(0, line);
}

static void several(int ranks, const char *options, const char *sharding) {
    char line[LINE];
    command_shell("rm -rf several");
    snprintf(line, sizeof line, "%s --steps 3 %s --sharding %s --out several", usual, options, sharding);
    int code = several_start(ranks, line);
    if (code) fail_msg("%d ranks: %s: exit %d: %s", ranks, line, code, several_said());
    several_same_losses("one", "several");
    several_kept_to_plans("several", ranks);
    if (system("for f in model.safetensors checkpoint-2/model.safetensors "
               "checkpoint-2/optimizer.safetensors; do "
               "cmp -s one/$f several/$f || exit 1; done") != 0)
        fail_msg("%d ranks, --sharding %s: other files: %s", ranks, sharding, options);
}

/* ---- the bits of one process ---- */

static const char *const all_settings[] = { "copies",          "optimizer",
                                            "gradients",       "weights",
                                            "weights:ahead=0", "weights:ahead=8",
                                            "weights:keep=1",  "weights:keep=9:ahead=2" };
enum { SETTINGS = sizeof all_settings / sizeof *all_settings };

static void each_setting_has_the_bits_of_one_process(void **state) {
    static const int worlds[] = { 2, 3, 4 };
    (void)state;
    if (several_left_out()) return;
    one_process("--batch 24 --unit 2 --exact --dropout 0.1 --clip 0.5");
    for (int i = 0; i < SETTINGS; i++)
        several(worlds[i % 3], "--batch 24 --unit 2 --exact --dropout 0.1 --clip 0.5", all_settings[i]);
}

/* Several units a rank, of which sums are kept; and one. */
static void units_follow_each_other(void **state) {
    static const char units[] = "--batch 8 --unit 2 --micro-batch 2 --recompute block --clip off";
    (void)state;
    if (several_left_out()) return;
    one_process(units);
    several(2, units, "weights");
    several(4, units, "weights");
    several(2, units, "gradients");
    several(4, units, "gradients");
    static const char parts[] = "--batch 8 --unit 2 --micro-batch 1 --attention flash --clip off";
    one_process(parts);
    several(2, parts, "weights");
    several(4, parts, "weights");
    several(4, parts, "copies");
}

/* Groups of ranks have a copy each: two, three and four of them, with one unit a rank and with several.
 * Groups of one are copies, and a group of all is none. */
static void groups_have_the_bits_of_one_process(void **state) {
    static const struct {
        int ranks;
        const char *sharding;
    } parts[] = { { 4, "weights:group=2" },
                  { 6, "weights:group=2:ahead=0" },
                  { 6, "weights:ahead=8:group=3:keep=1" },
                  { 4, "gradients:group=2" },
                  { 6, "gradients:group=2" },
                  { 6, "gradients:group=3" },
                  { 4, "weights:group=1" },
                  { 4, "weights:group=4" },
                  { 4, "gradients:group=4" },
                  { 8, "weights:group=2" },
                  { 8, "gradients:group=2" },
                  { 6, "weights:late=1:group=2" },
                  { 8, "weights:late=1:keep=1:group=2" },
                  { 6, "gradients:late=1:group=2" } };
    static const struct {
        int units, ranks; /* ranks: so many alone; 0: all by which units can be divided */
        const char *options;
    } batches[] = { { 12, 0, "--batch 24 --unit 2 --exact --dropout 0.1 --clip 0.5" },
                    { 6, 6, "--batch 12 --unit 2 --exact --clip 0.5" },
                    { 4, 4, "--batch 8 --unit 2 --micro-batch 1 --attention flash --clip off" },
                    { 16, 8, "--batch 16 --unit 1 --exact --clip 0.5" } };
    (void)state;
    if (several_left_out()) return;
    for (int b = 0; b < (int)(sizeof batches / sizeof *batches); b++) {
        if (SANITIZED && batches[b].ranks == 8)
            continue; /* three groups pass through the same lines as four */
        one_process(batches[b].options);
        for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++)
            if (batches[b].ranks ? batches[b].ranks == parts[i].ranks
                                 : batches[b].units % parts[i].ranks == 0)
                several(parts[i].ranks, batches[b].options, parts[i].sharding);
    }
}

/* Random bits of updates know where a share begins, and so do scales of codes. */
static void groups_stand_beside_techniques(void **state) {
    static const char *const techniques[] = {
        "--micro-batch 2 --attention flash --precision bf16 --optimizer-state 8bit:all",
        "--micro-batch 2 --attention flash --precision mixed-bf16",
        "--micro-batch 2 --attention flash --qat int8",
        "--exact --offload optimizer,activations --recompute block --offload-to away",
        "--exact --optimizer sgd --momentum 0.9 --lr 0.01 --recompute block",
    };
    (void)state;
    if (several_left_out()) return;
    for (int i = 0; i < (int)(sizeof techniques / sizeof *techniques); i++) {
        char options[LINE / 2];
        snprintf(options, sizeof options, "--batch %d --unit 2 %s", i % 2 ? 16 : 8, techniques[i]);
        one_process(options);
        several(4, options, "weights:group=2");
        several(4, options, "gradients:group=2");
    }
}

static void beside_every_technique(void **state) {
    static const char *const techniques[] = {
        "--micro-batch 2 --attention flash --precision mixed-bf16",
        "--micro-batch 2 --attention flash --precision mixed-f16",
        "--micro-batch 2 --attention flash --precision bf16 --optimizer-state 8bit:all",
        "--micro-batch 2 --attention flash --precision int8",
        "--micro-batch 2 --attention flash --qat int8",
        "--micro-batch 2 --attention flash --optimizer lion --optimizer-state bf16",
        "--exact --optimizer sgd --momentum 0.9 --lr 0.01",
        "--exact --offload optimizer --offload-to away",
        "--micro-batch 2 --attention flash --precision mixed-bf16 --offload optimizer,master --offload-to "
        "away",
        "--exact --offload optimizer,activations --recompute block --offload-to away",
        "--micro-batch 2 --chunk-loss 32 --attention flash",
    };
    (void)state;
    if (several_left_out()) return;
    for (int i = 0; i < (int)(sizeof techniques / sizeof *techniques); i++) {
        char options[LINE / 2];
        snprintf(options, sizeof options, "--batch 8 --unit 2 %s", techniques[i]);
        one_process(options);
        several(2 + 2 * (i % 2), options, "weights");
        several(4 - 2 * (i % 2), options, "gradients");
    }
}

/* Frozen weights are shared in the bits that they have. */
static void adapters_stand_beside_shares(void **state) {
    static const char *const bases[] = { "f32", "int8", "nf4" };
    static const int worlds[] = { 2, 4, 2 };
    char line[LINE];
    (void)state;
    if (several_left_out()) return;
    snprintf(line, sizeof line, "%s --steps 1 --batch 8 --out base", usual);
    command_expect(0, line);
    for (int i = 0; i < 3; i++) {
        const char *options =
            "train base --data text --context 32 --steps 2 --batch 8 --unit 2 --micro-batch 2 "
            "--attention flash --threads 1 --quiet --save-every 1";
        command_shell("rm -rf one several");
        snprintf(line, sizeof line, "%s --lora rank=4,base=%s --out one", options, bases[i]);
        command_expect(0, line);
        snprintf(line, sizeof line, "%s --lora rank=4,base=%s --sharding weights --out several", options,
                 bases[i]);
        if (several_start(worlds[i], line)) fail_msg("%s: %s", line, several_said());
        several_same_losses("one", "several");
        several_kept_to_plans("several", worlds[i]);
        command_shell("cmp one/adapter_model.safetensors several/adapter_model.safetensors");
    }
}

/* ---- from one number of ranks to another ---- */

static void any_ranks_go_on(void **state) {
    static const char options[] = "--batch 8 --unit 1 --exact";
    static const struct {
        int ranks;
        const char *sharding;
    } parts[] = { { 4, "--sharding weights" },
                  { 2, "--sharding gradients" },
                  { 4, "--sharding weights:group=2" },
                  { 1, "" },
                  { 8, "--sharding weights:group=4:keep=1" },
                  { 4, "--sharding gradients:group=2" },
                  { 2, "" } };
    char line[LINE];
    (void)state;
    if (several_left_out()) return;
    snprintf(line, sizeof line, "%s %s --steps 14 --schedule constant --out whole", usual, options);
    command_expect(0, line);
    for (int i = 0; i < (int)(sizeof parts / sizeof *parts); i++) {
        snprintf(line, sizeof line, "%s %s --steps %d --schedule constant --out went %s %s", usual, options,
                 2 + 2 * i, parts[i].sharding, i ? "--resume" : "");
        if (several_start(parts[i].ranks, line))
            fail_msg("%d ranks %s: %s", parts[i].ranks, line, several_said());
    }
    several_same_losses("whole", "went");
    command_shell("cmp whole/model.safetensors went/model.safetensors");
    command_shell("cmp whole/checkpoint-14/optimizer.safetensors went/checkpoint-14/optimizer.safetensors");
}

/* ---- bytes ---- */

/* A number of what is predicted for a rank. */
static uint64_t predicted(const char *sharding, int ranks, const char *name) {
    char line[LINE], path[64];
    snprintf(line, sizeof line,
             "plan cut --context 32 --batch 8 --unit 2 --ranks %d --sharding %s --json --quiet --device cpu",
             ranks, sharding);
    command_result r = command_run(line);
    json_document d;
    if (r.exit) fail_msg("%s: %s", line, r.err);
    assert_int_equal(json_parse("plan", r.out, strlen(r.out), &d), STATUS_OK);
    snprintf(path, sizeof path, "predicted.%s", name);
    uint64_t bytes = command_number(&d, path);
    json_close(&d);
    command_free(&r);
    return bytes;
}

static uint64_t share_of(uint64_t elements, uint64_t ranks) {
    uint64_t cells = (elements + 4095) / 4096;
    return (cells + ranks - 1) / ranks * 4096;
}

/* What the model's tensors of 65,536 numbers or more become: one of 600 x 128, and four of 128 x 512. */
static uint64_t cut_bytes(uint64_t whole, uint64_t ranks, uint64_t each) {
    uint64_t before = 600 * 128 + 4 * 65536, after = share_of(600 * 128, ranks) + 4 * share_of(65536, ranks);
    return whole - each * before + each * after;
}

static void shares_are_as_large_as_they_should_be(void **state) {
    (void)state;
    uint64_t weights = predicted("copies", 2, "by_category.weights"),
             states = predicted("copies", 2, "by_category.optimizer");
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        assert_int_equal(predicted("gradients", ranks, "by_category.weights"), weights);
        assert_int_equal(predicted("gradients", ranks, "by_category.optimizer"),
                         cut_bytes(states, (uint64_t)ranks, 8));
        assert_int_equal(predicted("weights", ranks, "by_category.weights"),
                         cut_bytes(weights, (uint64_t)ranks, 4));
        assert_int_equal(predicted("weights", ranks, "by_category.optimizer"),
                         cut_bytes(states, (uint64_t)ranks, 8));
    }
}

/* A rank of a group has what it would have if there were no other groups. */
static void groups_have_shares_of_their_own(void **state) {
    static const char *const names[] = { "by_category.weights", "by_category.optimizer",
                                         "by_category.gradients", "arena_bytes" };
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint64_t of_one = predicted("weights:group=1", 4, names[i]),
                 of_four = predicted("weights:group=4", 4, names[i]),
                 of_two = predicted("weights:group=2", 4, names[i]);
        assert_int_equal(of_one, predicted("copies", 4, names[i]));
        assert_int_equal(of_four, predicted("weights", 4, names[i]));
        if (i < 2) assert_int_equal(of_two, predicted("weights", 2, names[i]));
    }
}

/* What is fetched earlier, or stays longer, takes memory for it; one gather ahead where nothing is said. */
static void fetching_ahead_and_keeping_take_memory(void **state) {
    (void)state;
    uint64_t plain = predicted("weights", 2, "arena_bytes"),
             none = predicted("weights:ahead=0", 2, "arena_bytes");
    assert_int_equal(plain, predicted("weights:ahead=1", 2, "arena_bytes"));
    assert_true(none < plain && plain < predicted("weights:ahead=8", 2, "arena_bytes"));
    uint64_t one = predicted("weights:keep=1", 2, "arena_bytes");
    assert_true(plain < one && one < predicted("weights:keep=2", 2, "arena_bytes"));
    assert_int_equal(predicted("optimizer", 2, "arena_bytes"), predicted("gradients", 2, "arena_bytes"));
}

/* The least budget that a rank of gpt2 trains in: where the loss holds the peak it is cut into parts of a
 * tile, but with --exact; and an embedding's sum is not received beside the gradient as a whole. */
static void gpt2_needs_little(void **state) {
    static const char of[] = "plan gpt2 --batch 8 --unit %d --ranks %d --json --quiet --device cpu %s";
    char line[LINE];
    (void)state;
    if (SANITIZED) return; /* which take more than the model */
    snprintf(line, sizeof line, of, 4, 2, "");
    assert_true(command_least_budget(line) <= 1300ull << 20);
    snprintf(line, sizeof line, of, 2, 4, "");
    unsigned long long least = command_least_budget(line);
    assert_true(least <= 810ull << 20);
    snprintf(line, sizeof line, of, 2, 4, "--exact");
    assert_true(command_least_budget(line) > least);
    snprintf(line, sizeof line, of, 2, 4, "--chunk-loss 64");
    assert_int_equal(command_least_budget(line), least);
}

/* ---- what is refused ---- */

static void what_can_not_be_is_refused(void **state) {
    static const struct {
        const char *options, *words;
    } wrong[] = {
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 2 --sharding some --quiet", "'some' is neither" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 2 --sharding weights:ahead=9 --quiet",
          "is neither" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 2 --sharding weights:group=0 --quiet",
          "is neither" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 2 --sharding copies:group=2 --quiet",
          "is neither" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 4 --sharding weights:late=1 --quiet",
          "is neither" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 4 --sharding weights:late=2:group=2 --quiet",
          "is neither" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 2 --sharding gradients:keep=1 --quiet",
          "is neither" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 4 --sharding gradients:group=3 --quiet",
          "no whole number of groups of 3" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 4 --sharding weights:group=3 --quiet",
          "no whole number of groups of 3" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 2 --sharding weights:group=4 --quiet",
          "no whole number of groups of 4" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 2 --sharding weights:keep= --quiet",
          "is neither" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 2 --sharding copies:keep=1 --quiet",
          "is neither" },
        { "plan cut --context 32 --batch 8 --unit 2 --ranks 2 --sharding weights --optimizer adafactor "
          "--quiet",
          "say --optimizer adamw" },
        { "plan tiny --context 32 --batch 8 --unit 2 --ranks 2 --sharding weights --quiet",
          "no weight of 65536 numbers" },
        { "plan cut --context 32 --batch 8 --unit 2 --sharding weights --quiet", "there is one" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        command_result r = command_run(wrong[i].options);
        if (r.exit != 2 || !command_has_words(r.err, wrong[i].words))
            fail_msg("snug %s: exit %d: %s", wrong[i].options, r.exit, r.err);
        command_free(&r);
    }
}

/* Rank 0 ends in the middle of a file, while others bring it what they have. */
static void a_full_disk_ends_all(void **state) {
    char line[LINE], both[2 * LINE + 200];
    (void)state;
    if (several_left_out()) return;
    snprintf(line, sizeof line, "%s --steps 3 --batch 8 --unit 2 --sharding weights --out full", usual);
    snprintf(both, sizeof both,
             "-n 1 sh -c 'ulimit -f 1000; exec " SEVERAL_SNUG " %s' : -n 1 " SEVERAL_SNUG " %s", line, line);
    int code = several_start_whole(both);
    if (code != 1 || several_times(several_said(), "snug: ") != 1)
        fail_msg("exit %d: %s", code, several_said());
    several_all_gone("full", 5);
}

/* Whatever is left to the planner, it finds what takes least: also where that is a way of sharding which a
 * state of the optimizer is not outlined with. */
static void what_is_left_open_finds_the_least(void **state) {
    (void)state;
#define LARGE "plan gpt2 --ranks 8 --unit 8 --batch 64 --context 1024 --threads 2 --device cpu --json --quiet"
    uint64_t open = command_least_budget(LARGE);
    assert_true(open <= command_least_budget(LARGE " --sharding weights:ahead=0"));
    assert_true(open <= command_least_budget(LARGE " --micro-batch 1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_setting_has_the_bits_of_one_process),
        cmocka_unit_test(units_follow_each_other),
        cmocka_unit_test(groups_have_the_bits_of_one_process),
        cmocka_unit_test(groups_stand_beside_techniques),
        cmocka_unit_test(beside_every_technique),
        cmocka_unit_test(adapters_stand_beside_shares),
        cmocka_unit_test(any_ranks_go_on),
        cmocka_unit_test(shares_are_as_large_as_they_should_be),
        cmocka_unit_test(groups_have_shares_of_their_own),
        cmocka_unit_test(fetching_ahead_and_keeping_take_memory),
        cmocka_unit_test(gpt2_needs_little),
        cmocka_unit_test(what_can_not_be_is_refused),
        cmocka_unit_test(a_full_disk_ends_all),
        cmocka_unit_test(what_is_left_open_finds_the_least),
    };
    return cmocka_run_group_tests(tests, open_all, several_close);
}
