/* Megatron-LM's bytes beside figures derived by hand: activations of a layer as Korthikanti et al. (2022,
 * arXiv:2205.05198, equations 1, 2 and 4) count them, kept micro-batches as Narayanan et al. (2021,
 * arXiv:2104.04473) do, weights and states from their shapes; settings that contradict each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/megatron/megatron_calls.h"
#include "estimate/megatron/megatron_weights.h"
#include "models/families.h"

/* A GPT: everything the paper counts, of 4 * channels within. */
static const megatron_shape gpt = { .layers = 8,
                                    .channels = 512,
                                    .vocabulary = 1000,
                                    .context = 1024,
                                    .heads = 8,
                                    .kv_heads = 8,
                                    .head_size = 64,
                                    .inner = 2048,
                                    .layer_norm = true,
                                    .bias_qkv = true,
                                    .bias_o = true,
                                    .bias_feed = true,
                                    .tied = true,
                                    .drops = true };

static const megatron_settings plain = { .tensor = 1,
                                         .pipeline = 1,
                                         .contexts = 1,
                                         .experts = 1,
                                         .instances = 1,
                                         .gpus = 1,
                                         .stage = -1,
                                         .batch = 2,
                                         .context = 1024,
                                         .divisible = 128 };

static double kept_by(const megatron_shape *m, megatron_settings s, const megatron_chunk *c) {
    megatron_shape with = *m;
    array calls;
    double sum = 0;
    assert_int_equal(megatron_settle(&s, &with, "it"), STATUS_OK);
    assert_int_equal(array_open(&calls, sizeof(megatron_call), 4096), STATUS_OK);
    assert_int_equal(megatron_write(&with, &s, c, &calls), STATUS_OK);
    for (uint32_t i = 1; i < calls.count; i++) sum += ((const megatron_call *)calls.data)[i].kept;
    array_close(&calls);
    return sum;
}

static double layer_keeps(const megatron_shape *m, megatron_settings s) {
    return kept_by(m, s, &(megatron_chunk){ 1, 1, false, false });
}

/* What the paper leaves out as small: means and deviations of two norms, and fused attention's sums. */
static double small_of(double tokens, double own, double heads) { return own * 2 * 8 + tokens * heads * 4; }

static void a_layer_keeps_what_the_paper_says(void **state) {
    (void)state;
    const double sbh = 2048.0 * 512;
    megatron_settings s = plain;
    assert_true(layer_keeps(&gpt, s) == 34 * sbh + small_of(2048, 2048, 8));
    s.tensor = s.gpus = 4;
    assert_true(layer_keeps(&gpt, s) == (10 + 24.0 / 4) * sbh + small_of(2048, 2048, 2));
    s.sequence = true;
    assert_true(layer_keeps(&gpt, s) == 34.0 / 4 * sbh + small_of(2048, 512, 2));
    s.contexts = 2, s.gpus = 8;
    assert_true(layer_keeps(&gpt, s) == 34.0 / 8 * sbh + small_of(1024, 256, 2));
    s.recompute = MEGATRON_FULL;
    assert_true(layer_keeps(&gpt, s) == 2.0 / 8 * sbh);
}

/* Of a Llama: 2 x 2 for each norm, q, k, v and out, and 2 x 3 of the gated feed-forward's width. */
static void grouped_heads_and_gates_are_counted(void **state) {
    (void)state;
    megatron_shape m = gpt;
    m.kv_heads = 2, m.gated = true, m.drops = m.layer_norm = false, m.inner = 1024;
    const double tokens = 2048;
    assert_true(layer_keeps(&m, plain) ==
                tokens * (2 * 4 * 512 + 2 * (512 + 128 + 128 + 512) + 2 * 3 * 1024) + tokens * 2 * 4 +
                    tokens * 8 * 4);
}

/* Two of four experts for each token, on two devices: as many rows come as go. */
static void experts_keep_rows(void **state) {
    (void)state;
    megatron_shape m = gpt;
    m.experts = 4, m.chosen = 2, m.expert_inner = 256, m.gated = true, m.drops = m.layer_norm = false;
    megatron_settings s = plain;
    s.experts = s.gpus = 2;
    const double tokens = 2048, rows = 2 * tokens, x = tokens * 512 * 2;
    double attention = 6 * x + tokens * 4 + tokens * 8 * 4;
    double router = tokens * 4 * (3 * 4 + 2 + 2), map = tokens * (2 * 4 + 1) * 4 + rows * 4;
    double experts = rows * (2 * 512 + 2 * 2 * 256 + 2 * 256);
    assert_true(layer_keeps(&m, s) == attention + 2 * x + tokens * 4 + router + map + experts);
    s.recompute = MEGATRON_SELECTIVE, s.again_names = "moe_act";
    assert_true(layer_keeps(&m, s) ==
                attention + 2 * x + tokens * 4 + router + map + experts - rows * 2 * 256);
    s.again_names = "moe,layernorm";
    assert_true(layer_keeps(&m, s) == attention + x + tokens * 4);
    s.again_names = NULL, s.recompute = MEGATRON_KEEPS;
    s.capacity = 1.5, s.pads = true; /* half as many rows again */
    assert_true(layer_keeps(&m, s) ==
                attention + 2 * x + tokens * 4 + router + map + rows * 2 + 1.5 * experts);
}

/* DeepSeek's: latents with and without their norm, and heads of 16 + 8 numbers, values of 12. */
static void latent_attention_is_counted(void **state) {
    (void)state;
    megatron_shape m = gpt;
    m.gated = true, m.drops = m.layer_norm = false;
    m.kv_rank = 32, m.q_rank = 48, m.turned = 8, m.head_size = 16, m.value_size = 12;
    const double tokens = 2048, x = tokens * 512 * 2, feed = 2 * x + tokens * 4 + tokens * 2 * 3 * 2048;
    double latents = tokens * 2 * (2 * 48 + 2 * 32 + 8) + tokens * 4;
    double heads = tokens * 2 * 8 * (24 + 24 + 12 + 12) + tokens * 8 * 4;
    assert_true(layer_keeps(&m, plain) == 2 * x + tokens * 4 + latents + heads + feed);
    megatron_settings s = plain;
    s.recompute = MEGATRON_SELECTIVE, s.again_names = "mla_up_proj";
    assert_true(layer_keeps(&m, s) == 2 * x + tokens * 4 + latents + heads - tokens * 2 * 8 * 60 + feed);
}

static void the_loss_is_kept_in_f32_unless_it_is_fused(void **state) {
    (void)state;
    const megatron_chunk none = { 0, 1, false, false }, end = { 0, 1, false, true };
    const double tokens = 2048, logits = tokens * 1024, norm = 2 * tokens * 512 * 2 + tokens * 4;
    megatron_settings s = plain;
    assert_true(kept_by(&gpt, s, &end) - kept_by(&gpt, s, &none) == norm + 4 * logits);
    s.loss = MEGATRON_LOSS_TE;
    assert_true(kept_by(&gpt, s, &end) - kept_by(&gpt, s, &none) == norm + 2 * logits);
}

static megatron_result answer(const megatron_shape *m, megatron_settings s) {
    megatron_shape with = *m;
    megatron_result r;
    assert_int_equal(megatron_settle(&s, &with, "it"), STATUS_OK);
    assert_int_equal(megatron_estimate(&with, &s, &r), STATUS_OK);
    return r;
}

static void a_stage_keeps_what_its_place_says(void **state) {
    (void)state;
    megatron_settings s = plain;
    s.pipeline = s.gpus = 4, s.accumulate = 8;
    for (s.stage = 0; s.stage < 4; s.stage++) assert_int_equal(answer(&gpt, s).at.kept, 4 - s.stage);
    s.stage = 0, s.accumulate = 2;
    assert_int_equal(answer(&gpt, s).at.kept, 2);
    s.accumulate = 8, s.virtual_layers = 1; /* 2 virtual stages: (4 - 1) * 2 + (2 - 1) * 4 + 1 */
    assert_int_equal(answer(&gpt, s).at.kept, 11);
    s.stage = 3;
    assert_int_equal(answer(&gpt, s).at.kept, 5);
}

/* 18 bytes a weight on one device; of several replicas 6 and a share of 12. */
static void weights_follow_from_shapes(void **state) {
    (void)state;
    const uint64_t layer = 512 * 1536 + 1536 + 512 * 512 + 512 + 2 * (512 * 2048) + 2048 + 512 + 4 * 512;
    const uint64_t all = 8 * layer + 1024 * 512 + 2 * 512;
    megatron_settings s = plain;
    megatron_stage a = answer(&gpt, s).at;
    assert_true(a.parameters == all && answer(&gpt, s).parameters == all);
    assert_true(a.weights == 2 * all && a.gradients == 4 * all && a.optimizer == 12 * all);
    s.gpus = 4;
    assert_true(answer(&gpt, s).at.optimizer == 12 * all);
    s.shares = true;
    assert_true(answer(&gpt, s).at.optimizer == 3 * all);
    s.instances = 2; /* two groups of two */
    assert_true(answer(&gpt, s).at.optimizer == 6 * all);
}

/* Experts have fewer copies than the rest: each device's share of their states is larger. */
static void experts_are_shared_by_their_own_copies(void **state) {
    (void)state;
    megatron_shape m = gpt;
    m.experts = 4, m.chosen = 2, m.expert_inner = 256, m.gated = true;
    megatron_settings s = plain;
    s.shares = true, s.gpus = 8, s.experts = 4;
    megatron_stage a = answer(&m, s).at;
    const double experts = 8 * (2 * 256 * 512 + 512 * 256), rest = (double)a.parameters - experts;
    assert_true(a.optimizer == (uint64_t)(12 * (rest / 8 + experts / 2)));
}

static void what_cannot_be_divided_is_said(void **state) {
    (void)state;
    static const struct {
        megatron_settings s;
        const char *says;
    } cases[] = {
        { { .tensor = 3, .gpus = 3 }, "heads: 8 can't be divided by --tensor-model-parallel-size 3" },
        { { .tensor = 2, .gpus = 3 }, "say a multiple of 2" },
        { { .pipeline = 3, .gpus = 3 }, "can't be divided evenly over 3 stages" },
        { { .pipeline = 16, .gpus = 16 }, "a stage has none" },
        { { .pipeline = 2, .gpus = 2, .first_layers = 8 }, "a stage has none" },
        { { .pipeline = 2, .gpus = 2, .first_layers = 4, .last_layers = 3 }, "not as many as those two" },
        { { .pipeline = 2, .gpus = 2, .virtual_layers = 3 }, "can't be divided by that" },
        { { .pipeline = 2, .gpus = 2, .virtual_layers = 2, .accumulate = 3 }, "a multiple of the 2 stages" },
        { { .experts = 2, .gpus = 2 }, "has no experts" },
        { { .gpus = 2, .step = 5 }, "no multiple" },
        { { .stage = 1 }, "there are 1" },
        { { .recompute = MEGATRON_SELECTIVE, .again_names = "mlp,heads" }, "'heads' is none of" },
        { { .recompute = MEGATRON_SELECTIVE, .again_names = "moe" }, "has no experts" },
        { { .again_layers = 2 }, "granularity full" },
        { { .instances = 2, .gpus = 2 }, "is of --use-distributed-optimizer" },
        { { .instances = 2, .gpus = 3, .shares = true }, "can't be divided by that" },
        { { .pads = true }, "capacity-factor" },
        { { .contexts = 3, .gpus = 3 }, "--context 1024 is no multiple of 6, twice --context-parallel-size" },
        { { .contexts = 2, .gpus = 2, .context = 1026 }, "--context 1026 is no multiple of 4, twice" },
        { { .contexts = 2, .gpus = 2, .context = 1025 }, "--context 1025 is no multiple of 4, twice" },
        { { .method = MEGATRON_BLOCK }, "--recompute-method is of" },
        { { .context_kind = MEGATRON_ALL_TO_ALL }, "--cp-comm-type says how contexts meet" },
        { { .expert_tensor = 7 }, "--expert-tensor-parallel-size 7: the model has no experts" },
        { { .contexts = 16, .gpus = 16, .context_kind = MEGATRON_ALL_TO_ALL }, "a device's heads" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        megatron_settings s = cases[i].s;
        megatron_shape m = gpt;
        int64_t *const ones[] = { &s.tensor, &s.pipeline, &s.contexts, &s.experts,
                                  &s.gpus,   &s.batch,    &s.instances };
        for (size_t k = 0; k < sizeof ones / sizeof *ones; k++)
            if (!*ones[k]) *ones[k] = 1;
        if (!s.context) s.context = 1024;
        m.context = 2048, s.divisible = 128;
        assert_int_equal(megatron_settle(&s, &m, "it"), STATUS_INVALID);
        if (!strstr(status_message(), cases[i].says)) fail_msg("%s: %s", cases[i].says, status_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_layer_keeps_what_the_paper_says),
                                        cmocka_unit_test(grouped_heads_and_gates_are_counted),
                                        cmocka_unit_test(experts_keep_rows),
                                        cmocka_unit_test(latent_attention_is_counted),
                                        cmocka_unit_test(the_loss_is_kept_in_f32_unless_it_is_fused),
                                        cmocka_unit_test(a_stage_keeps_what_its_place_says),
                                        cmocka_unit_test(weights_follow_from_shapes),
                                        cmocka_unit_test(experts_are_shared_by_their_own_copies),
                                        cmocka_unit_test(what_cannot_be_divided_is_said) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
