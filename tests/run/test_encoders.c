/* The encoders against Hugging Face's transformers, a tiny model of each family, alone and under techniques;
 * planned bytes are measured ones. Encoder-decoders as well. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"
#include "io/scratch.h"
#include "run/transformers.h"

static const char *const families[] = {
    "bert",       "roberta",           "xlm-roberta", "data2vec-text", "distilbert",
    "modernbert", "modernbert_biased", "t5",          "t5_gated",      "t5_untied",
    NULL
};

static void losses_are_those_of_transformers(void **state) {
    (void)state;
    transformers_losses_of(families, 0, "");
}

static void gradients_are_those_of_transformers(void **state) {
    (void)state;
    transformers_gradients_of(families);
}

static void techniques_change_nothing(void **state) {
    (void)state;
    transformers_losses_of(families, 0,
                           "fuse=on attention=flash recompute=block update_early=twice chunk_loss=32");
    transformers_losses_of(families, 1, "attention=flash recompute=cheap accumulate=add");
    transformers_losses_of(families, 1, "gelu_epilogue=on accumulate=defer offload=optimizer");
}

/* A lab of an encoder with everything that is random on, 64 tokens a sample, so that four are a tile. */
typedef struct {
    encoder_config config;
    lab lab;
} random_encoder;

static void open_random(random_encoder *r) {
    lab_open(&r->lab, &(lab_sizes){ .layers = 2,
                                    .heads = 2,
                                    .channels = 24,
                                    .context = 64,
                                    .vocabulary = 53,
                                    .batch = 8,
                                    .clip = 1 });
    r->config = lab_encoder("roberta", 64);
    r->config.dropout = 0.2, r->config.dropout_attention = 0.3;
    assert_int_equal(encoder_check(&r->config), STATUS_OK);
    encoder_model(&r->config, "lab", &r->lab.model);
}

/* EXACT settings give the bits of the plain run, others come near; bytes are as planned everywhere. */
static void techniques_keep_their_class(void **state) {
    (void)state;
    static const lab_case cases[] = { { 0, "recompute=block fuse=on", 0 },
                                      { 0, "recompute=cheap chunk_loss=256 update_early=twice", 0 },
                                      { 4, "accumulate=defer gelu_epilogue=on", 0 },
                                      { 4, "accumulate=defer recompute=block offload=optimizer", 0 },
                                      { 0, "attention=flash", 1e-4 },
                                      { 2, "attention=flash accumulate=add recompute=block", 1e-4 },
                                      { 0, "precision=bf16", 0.1 },
                                      { 0, "precision=mixed-bf16 recompute=block attention=flash", 0.1 },
                                      { 0, "compress_activations=8bit", 0.1 },
                                      { 0, "quantize_state=8bit", 0.2 },
                                      { 0, "qat=int8", 0.5 } };
    random_encoder r;
    open_random(&r);
    lab_keep_distance(&r.lab, "roberta", cases, sizeof cases / sizeof *cases);
}

/* Layers that see all, and layers with windows that end within a sample. */
static void techniques_keep_their_class_in_windows(void **state) {
    (void)state;
    static const lab_case cases[] = { { 0, "recompute=block fuse=on", 0 },
                                      { 0, "recompute=cheap chunk_loss=256 update_early=twice", 0 },
                                      { 4, "accumulate=defer gelu_epilogue=on", 0 },
                                      { 0, "attention=flash", 1e-4 },
                                      { 2, "attention=flash accumulate=add recompute=block", 1e-4 },
                                      { 0, "precision=mixed-bf16 recompute=block attention=flash", 0.1 },
                                      { 0, "qat=int8", 0.5 } };
    modernbert_config c = { .layers = 3,
                            .heads = 2,
                            .channels = 24,
                            .inner = 40,
                            .context = 64,
                            .vocabulary = 53,
                            .local = 20,
                            .far = { 1 },
                            .theta = 500,
                            .near_theta = 50,
                            .bias_words = true,
                            .tied = true,
                            .mask = 52,
                            .dropout_embedding = 0.1,
                            .dropout_attention = 0.3,
                            .dropout_feed = 0.2,
                            .epsilon = 1e-5,
                            .deviation = 0.02 };
    lab l;
    assert_int_equal(modernbert_check(&c), STATUS_OK);
    lab_open(&l, &(lab_sizes){ .layers = 3,
                               .heads = 2,
                               .channels = 24,
                               .context = 64,
                               .vocabulary = 53,
                               .batch = 8,
                               .clip = 1 });
    modernbert_model(&c, "lab", &l.model);
    lab_keep_distance(&l, "modernbert", cases, sizeof cases / sizeof *cases);
}

/* A model that answers texts, with everything that is random on; texts of all lengths. */
static void open_answering(t5_config *c, lab *l) {
    *c = (t5_config){ .type = "t5",
                      .layers = 2,
                      .decoder_layers = 2,
                      .heads = 2,
                      .head_size = 8,
                      .channels = 16,
                      .inner = 24,
                      .context = 64,
                      .vocabulary = 53,
                      .buckets = 8,
                      .farthest = 20,
                      .tied = true,
                      .scaled = true,
                      .gated = true,
                      .activation = T5_GELU_TANH,
                      .dropout = 0.1,
                      .epsilon = 1e-6,
                      .factor = 0.2 };
    lab_open(l, &(lab_sizes){ .layers = 1,
                              .heads = 2,
                              .channels = 16,
                              .context = 64,
                              .vocabulary = 53,
                              .batch = 8,
                              .clip = 1 });
    t5_model(c, "lab", &l->model);
}

static void techniques_keep_their_class_where_texts_are_answered(void **state) {
    (void)state;
    static const lab_case cases[] = { { 0, "recompute=block fuse=on", 0 },
                                      { 0, "recompute=cheap chunk_loss=256 update_early=twice", 0 },
                                      { 0, "offload=optimizer gelu_epilogue=on", 0 },
                                      { 4, "accumulate=add", 1e-4 },
                                      { 0, "attention=flash", 1e-4 },
                                      { 2, "attention=flash accumulate=add recompute=block", 1e-4 },
                                      { 0, "precision=bf16", 0.1 },
                                      { 0, "precision=mixed-f16 recompute=block attention=flash", 0.1 },
                                      { 0, "compress_activations=8bit", 0.1 },
                                      { 0, "quantize_state=8bit", 0.2 },
                                      { 0, "qat=int8", 0.5 } };
    t5_config c;
    lab l;
    lab_result adapted;
    open_answering(&c, &l);
    lab_keep_distance(&l, "t5", cases, sizeof cases / sizeof *cases);
    c.dropout = 0;
    lab_run_settings(&l, 0, "lora=rank=4,target=q+v", &adapted);
    lab_result_close(&adapted);
    lab_run_settings(&l, 4, "lora=rank=2,base=nf4 recompute=block accumulate=add", &adapted);
    lab_result_close(&adapted);
}

/* What stands behind a text's length is seen by nobody: other tokens there are the same run. */
static int64_t half(int step, int64_t sample) { return 20 + (step + sample) % 5; }
static int32_t one_way(int step, int64_t sample, int64_t time) {
    return (int32_t)((5 * time + 11 * sample + 3 * step) % 50);
}
static int32_t another_behind(int step, int64_t sample, int64_t time) {
    return time < half(step, sample) ? one_way(step, sample, time) : 51;
}
static int32_t answer_of(int step, int64_t sample, int64_t time) {
    return time < 9 ? (int32_t)((time + sample + step) % 40) : -100;
}

static void padding_is_not_seen(void **state) {
    (void)state;
    t5_config c;
    lab l;
    lab_result a, b;
    open_answering(&c, &l);
    c.dropout = 0, l.length = half, l.label = answer_of;
    for (int flash = 0; flash < 2; flash++) {
        const char *settings = flash ? "attention=flash" : "";
        l.token = one_way;
        lab_run_settings(&l, 0, settings, &a);
        l.token = another_behind;
        lab_run_settings(&l, 0, settings, &b);
        for (int i = 0; i < a.steps; i++) assert_true(a.losses[i] == b.losses[i]);
        lab_result_close(&a);
        lab_result_close(&b);
    }
}

/* A table that two texts are looked up in has two kinds of additions: one waits, tied head or not. What
 * biases by distance add up were sums over samples before, so the bits are others. */
static void two_texts_add_to_one_table(void **state) {
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        lab l;
        lab_result plain, cut;
        t5_config c = { .type = "t5",
                        .layers = 1,
                        .decoder_layers = 1,
                        .heads = 2,
                        .head_size = 8,
                        .channels = 16,
                        .inner = 24,
                        .context = 64,
                        .vocabulary = 53,
                        .buckets = 8,
                        .farthest = 20,
                        .tied = tied,
                        .dropout = 0.2,
                        .epsilon = 1e-6,
                        .factor = 0.2 };
        lab_open(&l, &(lab_sizes){ .layers = 1,
                                   .heads = 2,
                                   .channels = 16,
                                   .context = 64,
                                   .vocabulary = 53,
                                   .batch = 8,
                                   .clip = 1 });
        t5_model(&c, "lab", &l.model);
        compose_choice whole = lab_choose(&l, 0, ""), parts = lab_choose(&l, 4, "accumulate=defer");
        lab_run(&l, &whole, 0, 3, &plain);
        lab_run(&l, &parts, 0, 3, &cut);
        for (int k = 0; k < CATEGORY_COUNT; k++) assert_int_equal(cut.planned[k], cut.measured[k]);
        assert_true(lab_distance(&plain, &cut) < 1e-5);
        lab_result_close(&plain);
        lab_result_close(&cut);
    }
}

/* Adapters stand beside the products that PEFT would take, and only they change. */
static void adapters_stand_beside_its_products(void **state) {
    (void)state;
    random_encoder r;
    lab_result adapted;
    open_random(&r);
    r.config.dropout = r.config.dropout_attention = 0;
    lab_run_settings(&r.lab, 0, "lora=rank=4,target=query+value", &adapted);
    assert_true(adapted.losses[2] < 6);
    lab_result_close(&adapted);
    lab_run_settings(&r.lab, 4, "lora=rank=2,base=nf4 recompute=block accumulate=add", &adapted);
    lab_result_close(&adapted);
}

/* What stands behind a token counts as much as what stands before it. */
static int32_t changed_last(int step, int64_t sample, int64_t time) {
    return time == 63 ? 7 : (int32_t)((5 * time + 11 * sample + 3 * step) % 50);
}
static int32_t unchanged(int step, int64_t sample, int64_t time) {
    return (int32_t)((5 * time + 11 * sample + 3 * step) % 50);
}
static int32_t first_alone(int step, int64_t sample, int64_t time) {
    (void)step, (void)sample;
    return time == 0 ? 9 : -100;
}

static void tokens_see_what_comes_after_them(void **state) {
    (void)state;
    random_encoder r;
    lab_result a, b;
    open_random(&r);
    r.config.dropout = r.config.dropout_attention = 0;
    r.lab.label = first_alone, r.lab.token = unchanged;
    lab_run_settings(&r.lab, 0, "attention=flash", &a);
    r.lab.token = changed_last;
    lab_run_settings(&r.lab, 0, "attention=flash", &b);
    assert_true(fabs((double)a.losses[0] - (double)b.losses[0]) > 1e-6);
    lab_result_close(&a);
    lab_result_close(&b);
}

static void configurations_come_back(void **state) {
    (void)state;
    for (int i = 0; families[i]; i++) transformers_configuration(families[i]);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_those_of_transformers),
                                        cmocka_unit_test(gradients_are_those_of_transformers),
                                        cmocka_unit_test(techniques_change_nothing),
                                        cmocka_unit_test(techniques_keep_their_class),
                                        cmocka_unit_test(techniques_keep_their_class_in_windows),
                                        cmocka_unit_test(
                                            techniques_keep_their_class_where_texts_are_answered),
                                        cmocka_unit_test(padding_is_not_seen),
                                        cmocka_unit_test(two_texts_add_to_one_table),
                                        cmocka_unit_test(adapters_stand_beside_its_products),
                                        cmocka_unit_test(tokens_see_what_comes_after_them),
                                        cmocka_unit_test(configurations_come_back) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
