/* Rules that published measurements on GPUs showed, and some of these measurements: live bytes on one device,
 * from bench/estimate/points_published.csv, where their sources are. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "estimate/small.h"
#include "io/published.h"
#include "models/families.h"

/* ---- single rules ---- */

static tape_call *call_of(small *x, tape_value made) {
    for (uint32_t i = 1; i < x->t.calls.count; i++)
        if (((tape_call *)x->t.calls.data)[i].out == made) return (tape_call *)x->t.calls.data + i;
    fail();
    return NULL;
}

/* bitsandbytes' Linear4bit: cast, multiplied, cast back. Older ones took the type of an input in f32, whose
 * weight autocast narrowed again, and kept it with the graph (before 0.43.2). */
static void products_of_4_bits_cast_there_and_back(void **state) {
    (void)state;
    for (int older = 0; older < 2; older++) {
        small x;
        small_open(&x, (torch_settings){ .types = TORCH_AUTOCAST, .older = older });
        tape_value in = small_source(&x, 100, 4, TAPE_ACTIVATIONS, true),
                   w = small_source(&x, 100, 0.5, TAPE_WEIGHTS, false);
        tape_value y = torch_linear(&x.r, in, w, 0, 10);
        assert_true(torch_width(&x.r, y) == 4);
        tape_call *product = call_of(&x, call_of(&x, y)->in[0]);
        assert_string_equal(product->what, "linear");
        assert_true(torch_width(&x.r, product->in[0]) == (older ? 4 : 2));
        assert_true(product->forward == (older ? 3 * 200 + 200 : 200));
        assert_int_equal(product->keeps_in, older ? 3 : 2);
        assert_int_equal(product->clings, older ? 1 : 0);
        tape_close(&x.t);
    }
}

static void adapters_stand_beside_what_is_named(void **state) {
    (void)state;
    torch_settings s = { .adapter_rank = 8 };
    const char *q = "model.layers.0.self_attn.q_proj.weight", *k = "model.layers.0.self_attn.k_proj.weight";
    assert_true(torch_is_target(&s, q, true) && !torch_is_target(&s, "lm_head.weight", false));
    s.adapter_targets = "q_proj,v_proj,lm_head";
    assert_true(torch_is_target(&s, q, true) && torch_is_target(&s, "lm_head.weight", false));
    assert_false(torch_is_target(&s, k, true));
    s.adapter_targets = "k";
    assert_false(torch_is_target(&s, k, true));
    s.adapter_rank = 0;
    assert_false(torch_is_target(&s, q, true));
}

/* w (100): its gradient is there in forward when earlier samples have made it. */
static void gradients_of_earlier_samples_are_there_in_forward(void **state) {
    (void)state;
    uint64_t peaks[2];
    for (int again = 0; again < 2; again++) {
        small x;
        tape_result r;
        small_open(&x, (torch_settings){ 0 });
        tape_value in = small_source(&x, 100, 4, TAPE_INPUTS, false),
                   w = small_source(&x, 100, 4, TAPE_WEIGHTS, true);
        torch_linear(&x.r, in, w, 0, 10);
        assert_int_equal(tape_play(&x.t, &(tape_settings){ .accumulates = again }, &r), STATUS_OK);
        peaks[again] = r.peak;
        tape_close(&x.t);
    }
    assert_true(peaks[1] == peaks[0] + 400);
}

/* Shares of weights and gradients; what is gathered and sent is there for a while only. */
static void several_devices_hold_shares(void **state) {
    (void)state;
    small x;
    tape_result r;
    small_open(&x, (torch_settings){ 0 });
    x.r.site = 0;
    tape_value in = small_source(&x, 100, 4, TAPE_INPUTS, false),
               w = small_source(&x, 1000, 4, TAPE_WEIGHTS, true);
    torch_linear(&x.r, in, w, 0, 10);
    tape_settings s = { .weight_share = 0.25,
                        .gradient_share = 0.25,
                        .gathered_bytes = 4000,
                        .fetched_bytes = 50,
                        .sending_bytes = 7,
                        .update_bytes = 100000 };
    assert_int_equal(tape_play(&x.t, &s, &r), STATUS_OK);
    assert_true(r.at_peak[TAPE_WEIGHTS] == 1000 && r.at_peak[TAPE_GRADIENTS] == 1000);
    assert_true(r.at_peak[TAPE_TEMPORARIES] == 100007); /* nothing is gathered any more */
    s.update_bytes = 0;
    assert_int_equal(tape_play(&x.t, &s, &r), STATUS_OK);
    /* 40: the gradient of the product; nothing is fetched beyond the first block */
    assert_true(r.peak == 400 + 1000 + 1000 + 4000 + 7 + 40);
    tape_close(&x.t);
}

/* A chain of frozen blocks behind a trained one. */
static uint64_t peak_of_frozen_blocks(int blocks, bool lingering) {
    small x;
    tape_result r;
    small_open(&x, (torch_settings){ 0 });
    tape_value v = small_source(&x, 100, 4, TAPE_INPUTS, false),
               w = small_source(&x, 100, 4, TAPE_WEIGHTS, true);
    v = torch_linear(&x.r, v, w, 0, 10);
    for (int i = 0; i < blocks; i++) {
        x.r.site = i;
        v = torch_linear(&x.r, v, small_source(&x, 100, 4, TAPE_WEIGHTS, false), 0, 10);
    }
    x.r.site = -1;
    torch_linear(&x.r, v, small_source(&x, 10, 4, TAPE_WEIGHTS, false), 0, 1);
    tape_settings s = { .checkpointing = true, .reentrant = lingering, .lingering = lingering };
    assert_int_equal(tape_play(&x.t, &s, &r), STATUS_OK);
    tape_close(&x.t);
    return r.peak - 400 * (uint64_t)blocks; /* their weights */
}

/* Tensors of the model's width a block: one; two under FSDP and use_reentrant=True (measure_fsdp.py). */
static void frozen_units_hold_inputs_and_their_gradients(void **state) {
    (void)state;
    assert_true(peak_of_frozen_blocks(12, false) - peak_of_frozen_blocks(4, false) == 8 * 400);
    assert_true(peak_of_frozen_blocks(12, true) - peak_of_frozen_blocks(4, true) == 8 * 2 * 400);
}

/* Autocast with shares: 16 bits compute. FSDP's shares of weights are f32, DeepSpeed's 16 bits beside f32
 * masters: 16 bytes a parameter in all of either. */
static void shares_of_16_bits_have_masters(void **state) {
    (void)state;
    static const torch_shard kinds[] = { TORCH_FSDP, TORCH_ZERO3, TORCH_ZERO2 };
    static const double weights[] = { 4.0 / 8, 2.0 / 8, 2 }, optimizer[] = { 8.0 / 8, 12.0 / 8, 12.0 / 8 };
    for (int i = 0; i < 3; i++) {
        model_config c;
        model m;
        const char *name;
        torch_result r;
        torch_settings s = { .transformers = true,
                             .cuda = true,
                             .types = TORCH_AUTOCAST,
                             .update = TORCH_FUSED,
                             .shard = kinds[i],
                             .gpus = 8,
                             .state_bits = 32,
                             .batch = 1,
                             .context = 4096,
                             .checkpointing = true };
        assert_true(published_find("llama-3-8b", &c, &name));
        families_model(&c, name, &m);
        assert_int_equal(torch_estimate(&m, &s, &r), STATUS_OK);
        double n = (double)r.parameters;
        assert_true(fabs((double)r.by_term[TAPE_WEIGHTS] / (n * weights[i]) - 1) < 1e-6);
        assert_true(fabs((double)r.by_term[TAPE_OPTIMIZER] / (n * optimizer[i]) - 1) < 1e-6);
    }
}

/* ---- whole steps, as others measured them ---- */

#define LORA .adapter_rank = 32, .base_bits = 16, .adapter_targets = "q_proj,v_proj", .adapter_dropout = 0.05
#define LITGPT .litgpt = true, .types = TORCH_HALF, .context = 512, .step = 1 << 20
#define OLDER .transformers = true, .older = true, .checkpointing = true, .context = 4096
#define TUNED OLDER, .types = TORCH_HALF
#define PREPARED OLDER, .types = TORCH_AUTOCAST, .base_bits = 4
#define FSDP .gpus = 2, .shard = TORCH_FSDP
#define SHARED                                                                                               \
    FSDP, .litgpt = true, .older = true, .types = TORCH_HALF, .checkpointing = true, .context = 1304,        \
          .step = 1 << 20, .adapter_rank = 8, .base_bits = 16, .adapter_targets = "q_proj,v_proj",           \
          .adapter_dropout = 0.05
#define HELD .reentrant = true, .workspace = 8 << 20
#define QKVO .adapter_rank = 16, .adapter_targets = "q_proj,k_proj,v_proj,o_proj"

static const struct {
    const char *model;
    torch_settings settings;
    double measured, off; /* off: at most */
} points[] = {
    { "llama-2-7b", { LITGPT, LORA, .batch = 2 }, 19.77e9, 0.005 },
    { "llama-3-8b", { LITGPT, LORA, .batch = 1 }, 19.73e9, 0.005 },
    { "mistral-7b", { LITGPT, LORA, .batch = 2 }, 20.66e9, 0.005 },
    { "tinyllama-1.1b", { LITGPT, .batch = 4 }, 14.10e9, 0.03 },
    { "llama-2-7b", { SHARED, .batch = 1 }, 22.18e9, 0.005 },
    { "llama-2-7b", { SHARED, .batch = 2 }, 22.47e9, 0.005 },
    { "mistral-7b", { TUNED, HELD, .batch = 4 }, 72971724288.0, 0.0005 },
    { "mistral-7b", { TUNED, HELD, FSDP, .batch = 4 }, 36763056128.0, 0.0005 },
    { "mistral-7b", { TUNED, HELD, QKVO, .base_bits = 16, .batch = 4 }, 26108963328.0, 0.0005 },
    { "mistral-7b", { TUNED, HELD, QKVO, .base_bits = 16, .batch = 8 }, 37098695168.0, 0.0005 },
    { "mistral-7b", { TUNED, HELD, QKVO, .base_bits = 4, .batch = 8 }, 26849751552.0, 0.0005 },
    { "mistral-7b", { PREPARED, HELD, QKVO, .batch = 4 }, 22825932800.0, 0.0005 },
    { "mistral-7b", { PREPARED, HELD, QKVO, .batch = 8 }, 40278956032.0, 0.0005 },
    { "mistral-7b", { TUNED, HELD, QKVO, FSDP, .base_bits = 16, .batch = 2 }, 15123161088.0, 0.0005 },
    { "mistral-7b", { TUNED, HELD, QKVO, FSDP, .base_bits = 16, .batch = 4 }, 21433753600.0, 0.0005 },
    { "mistral-7b", { TUNED, HELD, QKVO, FSDP, .base_bits = 4, .batch = 4 }, 16587205120.0, 0.0005 },
    { "llama-2-70b", { TUNED, HELD, QKVO, .base_bits = 4, .batch = 4 }, 68159977472.0, 0.0005 },
    { "llama-2-70b", { TUNED, HELD, QKVO, FSDP, .base_bits = 4, .batch = 2 }, 46524471808.0, 0.0005 },
    { "mixtral-8x7b", { TUNED, HELD, QKVO, .base_bits = 4, .batch = 8 }, 47207756288.0, 0.0005 },
    { "mixtral-8x7b", { PREPARED, HELD, QKVO, .batch = 8 }, 67089150464.0, 0.005 },
    { "mixtral-8x7b", { TUNED, HELD, QKVO, FSDP, .base_bits = 16, .batch = 2 }, 57540387840.0, 0.005 },
};

static void steps_take_what_others_measured(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        model_config c;
        model m;
        const char *name;
        torch_result r;
        torch_settings s = points[i].settings;
        s.cuda = true, s.gpus = s.gpus ? s.gpus : 1, s.state_bits = 32;
        assert_true(published_find(points[i].model, &c, &name));
        families_model(&c, name, &m);
        assert_int_equal(torch_estimate(&m, &s, &r), STATUS_OK);
        double ratio = (double)r.live.likely / points[i].measured;
        if (!(fabs(ratio - 1) < points[i].off)) fail_msg("%s: estimate over measured is %.4f", name, ratio);
    }
}

/* The whole device had 44,706 and 53,907 MiB, of which the context and the collectives' buffers are about one
 * GB. Without streams of their own gradients would take 7 GB less. */
static void fsdp_reserves_on_streams(void **state) {
    (void)state;
    static const double measured[] = { 46877638656.0 - 1e9, 56525586432.0 - 1e9 };
    for (int i = 0; i < 2; i++) {
        model_config c;
        model m;
        const char *name;
        torch_result r;
        torch_settings s = { TUNED, HELD, FSDP, .batch = 2 * (i + 1), .cuda = true, .state_bits = 32 };
        assert_true(published_find("mistral-7b", &c, &name));
        families_model(&c, name, &m);
        assert_int_equal(torch_estimate(&m, &s, &r), STATUS_OK);
        assert_true(fabs((double)r.reserved.likely / measured[i] - 1) < 0.06);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(products_of_4_bits_cast_there_and_back),
                                        cmocka_unit_test(adapters_stand_beside_what_is_named),
                                        cmocka_unit_test(gradients_of_earlier_samples_are_there_in_forward),
                                        cmocka_unit_test(several_devices_hold_shares),
                                        cmocka_unit_test(frozen_units_hold_inputs_and_their_gradients),
                                        cmocka_unit_test(shares_of_16_bits_have_masters),
                                        cmocka_unit_test(steps_take_what_others_measured),
                                        cmocka_unit_test(fsdp_reserves_on_streams) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
