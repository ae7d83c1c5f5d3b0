/* Training on the emulated GPU (device_emulated.h): its kernels, its closed memory and its lanes, in whole
 * runs of several families and techniques, have the CPU's bits, whatever the order of threads and the pace
 * of lanes; and each pool is as large as planned. */
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

#include "base/instructions.h"
#include "base/units.h"
#include "device/cuda/device_emulated.h"
#include "device/cuda/emulate_order.h"
#include "sanitized.h"
#include "train/on_device.h"

static const struct {
    const char *name, *config;
} families[] = {
    { "gpt2.json",
      "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, \"n_positions\": 32, "
      "\"vocab_size\": 256, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1}\n" },
    { "llama.json",
      "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
      "\"num_key_value_heads\": 2, \"hidden_size\": 64, \"intermediate_size\": 96, \"vocab_size\": 256, "
      "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
      "\"tie_word_embeddings\": false}\n" },
    { "bert.json",
      "{\"model_type\": \"bert\", \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"hidden_size\": 32, "
      "\"intermediate_size\": 64, \"vocab_size\": 256, \"max_position_embeddings\": 64, "
      "\"type_vocab_size\": 2, \"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.1, "
      "\"attention_probs_dropout_prob\": 0.1, \"layer_norm_eps\": 1e-12, \"pad_token_id\": 0, "
      "\"mask_token_id\": 3, \"architectures\": [\"BertForMaskedLM\"]}\n" },
};
enum { FAMILIES = sizeof families / sizeof *families };

/* Its table of words passes in two pieces. */
static const char in_pieces[] =
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, \"n_positions\": 32, "
    "\"vocab_size\": 8200}\n";

static int open_all(void **state) {
    int result = scratch_open(state);
    assert_int_equal(instructions_pin("widened"), STATUS_OK); /* which has the bits of kernels for GPUs */
    device_runtime_host(16 << 20); /* the emulation, and what earlier runs have left */
    char words[9000];
    for (size_t i = 0; i < sizeof words; i++) words[i] = (char)('a' + (i * i + i / 7) % 26);
    scratch_write("text", words, sizeof words);
    for (int f = 0; f < FAMILIES; f++)
        scratch_write(families[f].name, families[f].config, strlen(families[f].config));
    scratch_write("pieces.json", in_pieces, strlen(in_pieces));
    return result;
}

static setup_options usual(const char *network, const char *out) {
    setup_options o = setup_defaults();
    o.model = network, o.data = "text", o.out = out, o.overwrite = true;
    o.batch = 6, o.micro_batch = 6, o.context = 32, o.threads = 2, o.steps = 2;
    o.eval_samples = 2, o.eval_every = 2;
    o.rates = RATES_BUILT_IN, o.schedule = SCHEDULE_CONSTANT;
    return o;
}

static void assert_planned(const outcome *there) {
    const plan_pool *memory = &there->pools[POOL_MEMORY];
    uint64_t bytes = memory->persistent_bytes + memory->arena_bytes;
    assert_int_equal(emulated_seen.most_bytes, bytes);
    assert_int_equal(there->measured[POOL_MEMORY], units_align(bytes, 4096));
}

/* The run on the device in some order of threads and at some pace of lanes, beside the same on the CPU. */
static void assert_same_run(const setup_options *o, int variant) {
    outcome here = { 0 }, there = { 0 };
    setup_options on_cpu = *o;
    on_cpu.out = "here";
    on_device_run(&on_cpu, NULL, &here);
    setup_options on_gpu = *o;
    on_gpu.out = "there";
    on_device_pin(&here.choice, &on_gpu);
    emulated_seen = (emulated_counts){ 0 };
    emulate_order_set((emulate_order)(variant % EMULATE_ORDERS));
    emulated_pace_set((emulated_pace)(variant % EMULATED_PACES), (uint64_t)variant + 1);
    on_device_run(&on_gpu, &device_emulated, &there);
    emulate_order_set(EMULATE_FORWARD);
    on_device_same(&here, &there, o->steps);
    on_device_same_file("here/model.safetensors", "there/model.safetensors");
    assert_planned(&there);
    assert_true(emulated_seen.launches > 0);
    assert_int_equal(emulated_seen.by_host, 0);
}

static void families_train_with_the_bits_of_the_cpu(void **state) {
    (void)state;
    for (int f = 0; f < (SANITIZED ? 1 : FAMILIES); f++) {
        setup_options o = usual(families[f].name, NULL);
        assert_same_run(&o, f);
    }
}

/* What changes how a step is computed: pieces of the batch, values computed again, attention without its
 * matrix, numbers of 16 bits, other updates. */
static void techniques_train_with_the_bits_of_the_cpu(void **state) {
    (void)state;
    static const struct {
        const char *pass, *setting;
        int64_t micro_batch;
    } techniques[] = {
        { "recompute", "block", 6 }, { "attention", "flash", 3 },     { "precision", "mixed-bf16", 6 },
        { "chunk_loss", "2", 4 },    { "quantize_state", "8bit", 6 }, { "update_early", "twice", 6 },
        { "fuse", "off", 2 }
    };
    for (size_t t = 0; t < sizeof techniques / sizeof *techniques; t += SANITIZED ? 4 : 1) {
        setup_options o = usual(families[t % FAMILIES].name, NULL);
        o.micro_batch = techniques[t].micro_batch;
        o.passes[on_device_pass(techniques[t].pass)] = techniques[t].setting;
        assert_same_run(&o, (int)t);
    }
}

/* Copies pass through slots at every pace: none comes too early or too late. */
static void what_is_away_comes_back_in_time(void **state) {
    (void)state;
    static const char *const kinds[] = { "optimizer", "optimizer+master+gradients+activations" };
    for (int k = SANITIZED; k < 2; k++) { /* the second has all that the first has */
        outcome here = { 0 }, there = { 0 };
        setup_options o = usual(k ? "char-small" : "pieces.json", "filed");
        if (!k) o.batch = o.micro_batch = 2;
        o.exact = k == 0, o.folder = ".";
        o.passes[on_device_pass("offload")] = kinds[k];
        if (k) o.passes[on_device_pass("precision")] = "mixed-bf16";
        on_device_run(&o, NULL, &here);
        on_device_pin(&here.choice, &o);
        o.out = "hosted", o.folder = NULL;
        for (int pace = SANITIZED ? EMULATED_RANDOM : 0; pace < EMULATED_PACES; pace++) {
            emulated_seen = (emulated_counts){ 0 };
            emulated_pace_set((emulated_pace)pace, 11);
            on_device_run(&o, &device_emulated, &there);
            on_device_same(&here, &there, o.steps);
            on_device_same_file("filed/model.safetensors", "hosted/model.safetensors");
            assert_planned(&there);
            assert_true(emulated_seen.copies > 0);
        }
    }
    emulated_pace_set(EMULATED_EAGER, 1);
}

/* Of what waits in the host's memory a part has no room there, and is in a file behind it. Gradients are read
 * soon after they were written: reading ahead has to wait for that. */
static void what_is_filed_comes_back_in_time(void **state) {
    (void)state;
    outcome here = { 0 }, hosted = { 0 }, there = { 0 };
    setup_options o = usual("char-small", "filed");
    o.folder = ".", o.micro_batch = 3, o.steps = 3;
    o.passes[on_device_pass("offload")] = "optimizer+gradients";
    on_device_run(&o, NULL, &here);
    on_device_pin(&here.choice, &o);
    o.out = "hosted", o.folder = NULL;
    on_device_run(&o, &device_emulated, &hosted);
    o.out = "behind", o.folder = ".";
    uint64_t away = here.pools[POOL_FILE].persistent_bytes;
    for (int pace = SANITIZED ? EMULATED_RANDOM : 0; pace < EMULATED_PACES; pace++) {
        const plan_pool *host = &hosted.pools[POOL_HOST], *file = &there.pools[POOL_FILE];
        o.away_limit = host->persistent_bytes + host->runtime_bytes - away * (uint64_t)(pace + 1) / 8;
        emulated_seen = (emulated_counts){ 0 };
        emulated_pace_set((emulated_pace)pace, 12);
        on_device_run(&o, &device_emulated, &there);
        on_device_same(&here, &there, o.steps);
        on_device_same_file("filed/model.safetensors", "behind/model.safetensors");
        assert_planned(&there);
        assert_true(emulated_seen.calls > 0 && file->persistent_bytes > 0);
        assert_int_equal(there.measured[POOL_FILE], file->persistent_bytes);
        assert_int_equal(emulated_seen.pinned_most_bytes, there.pools[POOL_HOST].persistent_bytes);
        assert_int_equal(emulated_seen.by_host, 0);
    }
    emulated_pace_set(EMULATED_EAGER, 1);
}

/* A run begun on one goes on on the other. */
static void checkpoints_know_no_device(void **state) {
    (void)state;
    outcome whole = { 0 }, part = { 0 };
    setup_options o = usual("llama.json", "whole");
    o.steps = 4, o.save_every = 2;
    on_device_run(&o, NULL, &whole);
    for (int first = 0; first < 2; first++) {
        o.out = first ? "begun-there" : "begun-here", o.steps = 2, o.resume = false, o.overwrite = true;
        on_device_run(&o, first ? &device_emulated : NULL, &part);
        o.steps = 4, o.resume = true, o.overwrite = false;
        on_device_run(&o, first ? NULL : &device_emulated, &part);
        char path[64];
        snprintf(path, sizeof path, "%s/model.safetensors", o.out);
        on_device_same_file("whole/model.safetensors", path);
    }
}

/* A loss that is not finite: both devices name the kernel that made it first. */
static void faults_are_found(void **state) {
    (void)state;
    char said[2][1024];
    for (int k = 0; k < 2; k++) {
        setup_options o = usual("gpt2.json", NULL);
        o.learning_rate = 1e30, o.optimizer.clip = 0, o.steps = 4, o.eval_samples = 0;
        on_device_fail(&o, k ? &device_emulated : NULL, said[k]);
    }
    assert_string_equal(said[0], said[1]);
    if (!strstr(said[0], "made it first")) fail_msg("%s", said[0]);
}

/* With an argument: the test of that name only. With sanitizers, which see a kernel's accesses in any run,
 * the first alone: the others take minutes there. */
int main(int argc, char **argv) {
    if (SANITIZED) cmocka_set_test_filter("families*");
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_train_with_the_bits_of_the_cpu),
        cmocka_unit_test(techniques_train_with_the_bits_of_the_cpu),
        cmocka_unit_test(what_is_away_comes_back_in_time),
        cmocka_unit_test(what_is_filed_comes_back_in_time),
        cmocka_unit_test(checkpoints_know_no_device),
        cmocka_unit_test(faults_are_found),
    };
    return cmocka_run_group_tests_name("the emulated GPU", tests, open_all, scratch_close);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("the emulated GPU"); }

#endif
