/* Heads that judge whole samples: against transformers' ...ForSequenceClassification, alone and under
 * techniques; planned bytes are measured ones; what fills samples up is not seen. */
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

static const char *const families[] = { "bert_classes",
                                        "roberta_classes",
                                        "distilbert_classes",
                                        "modernbert_classes",
                                        "gpt2_classes",
                                        "llama_classes",
                                        "qwen2_classes",
                                        "bert_pairs",
                                        "bert_score",
                                        "llama_score",
                                        NULL };

static void losses_are_those_of_transformers(void **state) {
    (void)state;
    transformers_losses_of(families, 0, "");
}

static void gradients_are_those_of_transformers(void **state) {
    (void)state;
    transformers_gradients_of(families);
}

static void logits_are_those_of_transformers(void **state) {
    (void)state;
    for (int i = 0; families[i]; i++) transformers_logits(families[i]);
}

static void techniques_change_nothing(void **state) {
    (void)state;
    transformers_losses_of(families, 0,
                           "fuse=on attention=flash recompute=block update_early=twice chunk_loss=2");
    transformers_losses_of(families, 1, "attention=flash recompute=cheap accumulate=add");
    transformers_losses_of(families, 1, "gelu_epilogue=on accumulate=add offload=optimizer");
}

static void configurations_come_back(void **state) {
    (void)state;
    for (int i = 0; families[i]; i++) transformers_configuration(families[i]);
}

/* ---- a lab of each kind ---- */

typedef struct {
    lab_sizes sizes;
    encoder_config encoder; /* kind NULL: none */
    lab lab;
} judge;

static void open_judge(judge *j, const char *kind, model_head head, int64_t batch, int64_t context) {
    const encoder_kind *encoder = encoder_kind_find(kind);
    bool gpt2 = strcmp(kind, "gpt2") == 0;
    j->sizes = (lab_sizes){ .layers = 2,
                            .heads = 2,
                            .channels = 24,
                            .context = context,
                            .vocabulary = 53,
                            .batch = batch,
                            .clip = 1,
                            .decoder = encoder || gpt2 ? NULL : kind,
                            .head = head };
    lab_open(&j->lab, &j->sizes);
    if (!encoder) return;
    j->encoder = lab_encoder(kind, context);
    j->encoder.dropout = j->encoder.dropout_attention = 0.1, j->encoder.dropout_head = 0.2;
    assert_int_equal(encoder_check(&j->encoder), STATUS_OK);
    encoder_model(&j->encoder, "lab", &j->lab.model);
    lab_judge(&j->lab, &head);
}

static const model_head three = { HEAD_CLASSES, 3 }, score = { HEAD_SCORE, 1 };
static const char *const kinds[] = { "bert", "roberta", "distilbert", "gpt2", "llama", NULL };

/* EXACT settings give the bits of the plain run, others come near; bytes are as planned everywhere. The
 * gradient of an encoder's key biases is 0 but for rounding, which AdamW makes steps of: so sums in another
 * order are further away than elsewhere. */
static void techniques_keep_their_class(void **state) {
    (void)state;
    static const lab_case cases[] = { { 0, "recompute=block fuse=on", 0 },
                                      { 0, "recompute=cheap chunk_loss=256 update_early=twice", 0 },
                                      { 0, "offload=optimizer", 0 },
                                      { 4, "accumulate=add gelu_epilogue=on", 5e-3 },
                                      { 2, "attention=flash accumulate=add recompute=block", 5e-3 },
                                      { 0, "chunk_loss=3 attention=flash", 5e-3 },
                                      { 0, "precision=bf16", 0.1 },
                                      { 0, "precision=mixed-f16 recompute=block attention=flash", 0.1 },
                                      { 0, "compress_activations=8bit", 0.1 },
                                      { 0, "quantize_state=8bit", 0.2 },
                                      { 0, "qat=int8", 0.5 } };
    for (int k = 0; k < 2 * 5; k++) {
        judge j;
        open_judge(&j, kinds[k / 2], k % 2 ? score : three, 8, 32);
        lab_keep_distance(&j.lab, kinds[k / 2], cases, sizeof cases / sizeof *cases);
    }
}

/* A head's sums run over samples, so samples, and not tokens, have to be whole row tiles. */
static void only_whole_tiles_of_samples_are_exact(void **state) {
    (void)state;
    static const struct {
        int64_t batch, micro_batch;
        pass_class class;
    } cases[] = { { 512, 256, PASS_EXACT },
                  { 512, 128, PASS_REASSOCIATING },
                  { 64, 32, PASS_REASSOCIATING } };
    const pass *accumulate = NULL;
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, "accumulate") == 0) accumulate = pass_table[i];
    assert_non_null(accumulate);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        judge j;
        graph g;
        pass_setting offered[4];
        pass_without without = PASS_OPTIONAL;
        open_judge(&j, "gpt2", three, cases[i].batch, 8);
        compose_choice c = lab_choose(&j.lab, cases[i].micro_batch, "");
        pass_context context = compose_context(&j.lab.run, &c);
        assert_int_equal(compose_graph(&j.lab.run, &c, PASS_STEP, &g), STATUS_OK);
        assert_int_equal(accumulate->settings(&g, &context, offered, 4, &without), 1);
        assert_int_equal(offered[0].class, cases[i].class);
        graph_close(&g);
        if (cases[i].class != PASS_EXACT) continue;
        lab_result whole, parts;
        lab_run_settings(&j.lab, 0, "", &whole);
        lab_run_settings(&j.lab, cases[i].micro_batch, "accumulate=add", &parts);
        assert_true(lab_same(&whole, &parts));
        lab_result_close(&whole);
        lab_result_close(&parts);
    }
}

/* Where a head drops numbers while it is trained: RoBERTa's before its first product as well. */
static void heads_drop_what_theirs_drop(void **state) {
    (void)state;
    static const int drops[] = { 1, 2, 1, 0, 0 };
    for (int k = 0; kinds[k]; k++) {
        judge j;
        graph g;
        int found = 0;
        open_judge(&j, kinds[k], three, 8, 32);
        j.encoder.dropout = j.encoder.dropout_attention = 0;
        compose_choice c = lab_choose(&j.lab, 0, "");
        assert_int_equal(compose_graph(&j.lab.run, &c, PASS_FORWARD, &g), STATUS_OK);
        for (node_id id = 1; id < g.nodes.count; id++)
            found += strcmp(graph_node(&g, id)->op->name, "dropout") == 0;
        if (found != drops[k]) fail_msg("%s: %d dropouts", kinds[k], found);
        graph_close(&g);
    }
}

/* ---- padding ---- */

static int64_t short_texts(int step, int64_t sample) { return 1 + (3 * step + 5 * sample) % 31; }
static int64_t whole_texts(int step, int64_t sample) {
    (void)step, (void)sample;
    return 32;
}

/* Whatever fills samples up changes no bit; one token more of the text does. */
static void padding_is_not_seen(void **state) {
    (void)state;
    for (int k = 0; kinds[k]; k++) {
        judge j;
        lab_result a, b, longer;
        open_judge(&j, kinds[k], three, 8, 32);
        j.encoder.dropout = j.encoder.dropout_attention = j.encoder.dropout_head = 0;
        j.lab.length = short_texts;
        for (int flash = 0; flash < 2; flash++) {
            const char *settings = flash ? "attention=flash" : "";
            j.lab.padding = 0;
            lab_run_settings(&j.lab, 0, settings, &a);
            j.lab.padding = 17;
            lab_run_settings(&j.lab, 0, settings, &b);
            assert_memory_equal(a.losses, b.losses, sizeof a.losses[0]);
            lab_result_close(&a);
            lab_result_close(&b);
        }
        lab_run_settings(&j.lab, 0, "", &a);
        j.lab.length = whole_texts;
        lab_run_settings(&j.lab, 0, "", &longer);
        assert_true(fabs((double)a.losses[0] - (double)longer.losses[0]) > 1e-6);
        lab_result_close(&a);
        lab_result_close(&longer);
    }
}

/* ---- adapters ---- */

/* Of the graph of a step with adapters in 4 bits: the head is f32 and gets gradients, no adapter stands
 * beside it, and of the rest only adapters get gradients. */
static void see_what_is_trained(judge *j, const char *kind) {
    graph g;
    compose_choice c = lab_choose(&j->lab, 0, "lora=rank=2,base=nf4");
    int heads = 0;
    assert_int_equal(compose_graph(&j->lab.run, &c, PASS_STEP, &g), STATUS_OK);
    for (tensor_id t = 1; t < g.tensors.count; t++) {
        const tensor *x = graph_tensor(&g, t);
        if (x->role != ROLE_PARAMETER || x->producer) continue;
        const char *name = graph_name(&g, t);
        bool head = head_owns(&j->lab.model, name), adapter = strstr(name, ".lora_") != NULL;
        if (head && (adapter || x->dtype != DTYPE_F32)) fail_msg("%s: %s beside the head", kind, name);
        bool trained = (x->flags & TENSOR_TRAINABLE) != 0;
        if (trained != (head || adapter)) fail_msg("%s: %s is trained wrongly", kind, name);
        heads += head;
    }
    assert_true(heads >= 1);
    graph_close(&g);
}

/* Beside adapters the head is trained as a whole, as in PEFT. */
static void adapters_leave_the_head_its_gradient(void **state) {
    (void)state;
    for (int k = 0; kinds[k]; k++) {
        judge j;
        lab_result r;
        open_judge(&j, kinds[k], three, 8, 32);
        see_what_is_trained(&j, kinds[k]);
        lab_run_settings(&j.lab, 0, "lora=rank=4", &r);
        assert_true(isfinite(r.losses[2]));
        lab_result_close(&r);
        lab_run_settings(&j.lab, 4, "lora=rank=2,base=nf4 recompute=block accumulate=add", &r);
        lab_result_close(&r);
    }
}

/* ---- validation ---- */

static int32_t first_class(int step, int64_t sample, int64_t time) {
    (void)time;
    return step == 1000 ? (int32_t)(sample % 3) : 1;
}

/* A head that has learned one class tells it of every sample: of three one is of that class. */
static void hits_are_counted(void **state) {
    (void)state;
    for (int k = 0; kinds[k]; k++) {
        judge j;
        lab_result r;
        open_judge(&j, kinds[k], three, 8, 32);
        j.lab.label = first_class, j.lab.rate = 0.1f;
        compose_choice c = lab_choose(&j.lab, 0, "");
        lab_run(&j.lab, &c, EXEC_POISON, 6, &r);
        if (!(fabs(r.accuracy - 1.0 / 3) < 1e-9)) fail_msg("%s: accuracy %g", kinds[k], r.accuracy);
        if (!(fabs(r.f1 - 1.0 / 6) < 1e-9)) fail_msg("%s: F1 %g", kinds[k], r.f1); /* 1/2, 0 and 0 */
        lab_result_close(&r);
        c = lab_choose(&j.lab, 0, "precision=bf16");
        lab_run(&j.lab, &c, EXEC_POISON, 6, &r);
        if (!(fabs(r.accuracy - 1.0 / 3) < 1e-9 && fabs(r.f1 - 1.0 / 6) < 1e-9))
            fail_msg("%s, bf16: accuracy %g, F1 %g", kinds[k], r.accuracy, r.f1);
        lab_result_close(&r);
        open_judge(&j, kinds[k], score, 8, 32);
        c = lab_choose(&j.lab, 0, "");
        lab_run(&j.lab, &c, EXEC_POISON, 1, &r);
        assert_true(isnan(r.accuracy) && isnan(r.f1));
        lab_result_close(&r);
    }
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_those_of_transformers),
                                        cmocka_unit_test(gradients_are_those_of_transformers),
                                        cmocka_unit_test(logits_are_those_of_transformers),
                                        cmocka_unit_test(techniques_change_nothing),
                                        cmocka_unit_test(techniques_keep_their_class),
                                        cmocka_unit_test(only_whole_tiles_of_samples_are_exact),
                                        cmocka_unit_test(heads_drop_what_theirs_drop),
                                        cmocka_unit_test(padding_is_not_seen),
                                        cmocka_unit_test(adapters_leave_the_head_its_gradient),
                                        cmocka_unit_test(hits_are_counted),
                                        cmocka_unit_test(configurations_come_back) };
    return cmocka_run_group_tests_name("heads", tests, scratch_open, scratch_close);
}
