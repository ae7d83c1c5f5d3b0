/* Whole runs on tensor cores, emulated: products and attention of numbers of 16 bits have bits of their own,
 * which a plan takes where they are asked for. Losses are near the CPU's; micro-batches, and a run that stops
 * and goes on, change no bit. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/scratch.h"

#ifdef SNUG_CUDA_EMULATED

#include <math.h>
#include <string.h>

#include "base/instructions.h"
#include "base/units.h"
#include "device/cuda/device_emulated.h"
#include "device/cuda/emulate_order.h"
#include "sanitized.h"
#include "train/on_device.h"

enum { STEPS = 4, FEW = 2, BATCH = 16, CONTEXT = 32, HALF = 8 /* samples that are whole slices of a sum */ };

#define GPT2                                                                                                 \
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 64, \"n_positions\": 32, "        \
    "\"vocab_size\": 256, \"tie_word_embeddings\": false, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, "       \
    "\"attn_pdrop\": 0.1}\n"

#define BERT                                                                                                 \
    "{\"model_type\": \"bert\", \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"hidden_size\": 32, " \
    "\"intermediate_size\": 64, \"vocab_size\": 256, \"max_position_embeddings\": 64, "                      \
    "\"type_vocab_size\": 2, \"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.1, "                       \
    "\"attention_probs_dropout_prob\": 0.1, \"layer_norm_eps\": 1e-12, \"pad_token_id\": 0, "                \
    "\"mask_token_id\": 3, \"architectures\": [\"BertForMaskedLM\"]}\n"

static const struct {
    const char *name, *config, *precision;
    int64_t steps, batch;
    double near; /* its losses are to the CPU's */
} families[] = {
    { "gpt2.json", GPT2, "mixed-bf16", STEPS, BATCH, 1e-3 },
    { "gpt2-fp8.json", GPT2, "fp8-mixed", STEPS, BATCH, 1e-3 },
    { "llama.json",
      "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
      "\"num_key_value_heads\": 2, \"hidden_size\": 64, \"intermediate_size\": 96, \"vocab_size\": 256, "
      "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
      "\"tie_word_embeddings\": false}\n",
      "mixed-bf16", STEPS, BATCH, 1e-3 },
    { "bert.json", BERT, "mixed-f16", STEPS, BATCH, 1e-3 },
    { "bert-bf16.json", BERT, "mixed-bf16", 20, BATCH / 4, 1e-4 },
};
enum {
    FAMILIES = sizeof families / sizeof *families,
    UNTIED =
        3 /* the first ones: a tied table's gradient is added up micro-batch by micro-batch, on the CPU too */
};

static bool is_fp8(int family) { return strcmp(families[family].precision, "fp8-mixed") == 0; }

static int open_all(void **state) {
    int result = scratch_open(state);
    device_runtime_host(16 << 20); /* the emulation, and what earlier runs have left */
    char words[9000];
    for (size_t i = 0; i < sizeof words; i++) words[i] = (char)('a' + (i * i + i / 7) % 26);
    scratch_write("text", words, sizeof words);
    for (int f = 0; f < FAMILIES; f++)
        scratch_write(families[f].name, families[f].config, strlen(families[f].config));
    return result;
}

static setup_options usual(int family, const char *out) {
    setup_options o = setup_defaults();
    o.model = families[family].name, o.data = "text", o.out = out, o.overwrite = true;
    o.batch = o.micro_batch = BATCH, o.context = CONTEXT, o.threads = 2, o.steps = STEPS;
    o.eval_samples = 2, o.eval_every = STEPS;
    o.rates = RATES_BUILT_IN, o.schedule = SCHEDULE_CONSTANT;
    o.passes[on_device_pass("precision")] = families[family].precision;
    o.passes[on_device_pass("attention")] = "flash";
    return o;
}

/* How many steps of the run's programs have this kernel. */
static int count_of(const setup_options *o, const char *kernel) {
    setup s;
    decision d = { 0 };
    int count = 0;
    on_device_setup(&device_emulated, o, &s);
    assert_int_equal(decision_make(&s, &d), STATUS_OK);
    for (uint32_t i = 0; i < d.plan.program_count; i++) {
        const program *p = &d.plan.programs[i].program;
        for (uint32_t k = 0; k < p->count; k++) count += strcmp(p->steps[k].kernel->name, kernel) == 0;
    }
    decision_close(&d);
    setup_close(&s);
    return count;
}

static const char *kind = INSTRUCTIONS_TENSOR; /* of tensor cores' products */

static void run_on_tensor_cores(const setup_options *o, int variant, outcome *out) {
    assert_int_equal(instructions_pin(kind), STATUS_OK);
    emulated_seen = (emulated_counts){ 0 };
    emulate_order_set((emulate_order)(variant % EMULATE_ORDERS));
    emulated_pace_set((emulated_pace)(variant % EMULATED_PACES), (uint64_t)variant + 1);
    on_device_run(o, &device_emulated, out);
    emulate_order_set(EMULATE_FORWARD);
    const plan_pool *memory = &out->pools[POOL_MEMORY];
    assert_int_equal(emulated_seen.most_bytes, memory->persistent_bytes + memory->arena_bytes);
    assert_int_equal(emulated_seen.by_host, 0);
}

static void losses_are_near_the_cpus(void **state) {
    (void)state;
    for (int f = 0; f < (SANITIZED ? 1 : FAMILIES); f++) {
        outcome here = { 0 }, there = { 0 };
        setup_options o = usual(f, "here");
        o.steps = o.eval_every = families[f].steps, o.batch = o.micro_batch = families[f].batch;
        assert_int_equal(instructions_pin("widened"), STATUS_OK);
        on_device_run(&o, NULL, &here);
        o.out = "there";
        on_device_pin(&here.choice, &o);
        kind = is_fp8(f) ? INSTRUCTIONS_GROUPS : INSTRUCTIONS_TENSOR; /* what this capability has of these */
        run_on_tensor_cores(&o, f, &there);
        kind = INSTRUCTIONS_TENSOR;
        assert_true(count_of(&o, "attention_flash_cuda_tensor") >=
                    2); /* blocks, in training and validation */
        assert_int_equal(count_of(&o, "attention_flash_backward_cuda_tensor"), 2);
        assert_int_equal(count_of(&o, "attention_flash_cuda_tiled"), 0);
        assert_int_equal(count_of(&o, "matmul_fp8_cuda_group") > 0, is_fp8(f));
        assert_int_equal(count_of(&o, "matmul_fp8_cuda_plain"), 0);
        bool same = true;
        for (int k = 0; k < o.steps; k++) {
            assert_true(fabs(there.losses[k] / here.losses[k] - 1) < families[f].near);
            same &= there.losses[k] == here.losses[k];
        }
        assert_false(same); /* which shows that their bits are their own */
    }
}

/* Whatever the order of threads and the pace of lanes. */
static void micro_batches_change_nothing(void **state) {
    (void)state;
    for (int f = 0; f < (SANITIZED ? 1 : UNTIED); f++) {
        outcome whole = { 0 }, cut = { 0 };
        setup_options o = usual(f, "whole");
        o.steps = o.eval_every = FEW;
        if (is_fp8(f)) o.batch = 2 * BATCH; /* its gradients are rounded to 16 bits where nothing is cut */
        run_on_tensor_cores(&o, 0, &whole);
        o.out = "cut", o.micro_batch = HALF;
        run_on_tensor_cores(&o, f + 1, &cut);
        on_device_same(&whole, &cut, FEW);
        on_device_same_file("whole/model.safetensors", "cut/model.safetensors");
    }
}

/* By groups of warps. Their twins have the bits of those of single warps, and so have losses. */
static void groups_train_the_same(void **state) {
    (void)state;
    for (int f = 0; f < (SANITIZED ? 1 : 2); f++) {
        outcome warps = { 0 }, groups = { 0 }, cut = { 0 };
        setup_options o = usual(f, "warps");
        o.steps = o.eval_every = FEW;
        if (is_fp8(f)) o.batch = 2 * BATCH;
        run_on_tensor_cores(&o, 0, &warps);
        kind = INSTRUCTIONS_GROUPS;
        o.out = "groups";
        run_on_tensor_cores(&o, 1, &groups);
        assert_true(count_of(&o, "matmul_cuda_group") + count_of(&o, "matmul_fp8_cuda_group") > 0);
        assert_int_equal(count_of(&o, "matmul_cuda_tensor") + count_of(&o, "matmul_fp8_cuda_tensor"), 0);
        o.out = "groups-cut", o.micro_batch = HALF;
        run_on_tensor_cores(&o, 2, &cut);
        kind = INSTRUCTIONS_TENSOR;
        on_device_same(&warps, &groups, FEW), on_device_same(&groups, &cut, FEW);
        on_device_same_file("groups/model.safetensors", "groups-cut/model.safetensors");
    }
}

static void a_run_that_goes_on_has_the_same_bits(void **state) {
    (void)state;
    outcome whole = { 0 }, part = { 0 };
    setup_options o = usual(0, "at-once");
    o.steps = FEW, o.save_every = 1;
    run_on_tensor_cores(&o, 0, &whole);
    o.out = "on", o.resume = true, o.overwrite = false, o.resume_from = "at-once/checkpoint-1";
    run_on_tensor_cores(&o, 1, &part);
    on_device_same_file("at-once/model.safetensors", "on/model.safetensors");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_near_the_cpus),
        cmocka_unit_test(micro_batches_change_nothing),
        cmocka_unit_test(groups_train_the_same),
        cmocka_unit_test(a_run_that_goes_on_has_the_same_bits),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("training on tensor cores", tests, open_all, scratch_close);
}

#else

#include "emulation_left_out.h"

int main(void) { return emulation_left_out("training on tensor cores"); }

#endif
