/* Models that see images: published ones have exactly the parameters that transformers gives them, what flows
 * through them has the shapes of the papers, CLIP's tower is found inside of a whole CLIP, configurations
 * that make no model get one sentence, and they plan: without time, and with batch norm in one piece. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "io/published.h"
#include "ir/op.h"
#include "models/build.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/class_token/class_token.h"
#include "ops/mean_space/mean_space.h"
#include "run/decision.h"

/* ---- sizes ---- */

static void published_ones_have_their_parameters(void **state) {
    (void)state;
    static const build_published published[] = {
        { "vit-base", 86567656 },      { "vit-large", 304326632 },     { "vit-huge", 632045800 },
        { "clip-vit-b-32", 87849216 }, { "clip-vit-l-14", 303966208 }, { "resnet-18", 11689512 },
        { "resnet-34", 21797672 },     { "resnet-50", 25557032 },      { "resnet-101", 44549160 },
        { "resnet-152", 60192808 },    { "convnext-tiny", 28589128 },  { "convnext-small", 50223688 },
        { "convnext-base", 88591464 }, { "convnext-large", 197767336 }
    };
    build_expect_parameters(published, sizeof published / sizeof *published);
}

static void build(const model_config *c, model_mode mode, int64_t batch, graph *g, model_ports *ports) {
    build_graph(c, &(model_run){ .mode = mode, .batch = batch, .context = 1 }, g, ports);
}

/* The shape of what the first node of an op is given. */
static shape given_to(const graph *g, const op_def *op) {
    for (node_id id = 1; id < g->nodes.count; id++)
        if (graph_node(g, id)->op == op) return *graph_shape(g, node_in(g, graph_node(g, id), 0));
    return (shape){ 0 };
}

static void images_shrink_as_in_the_papers(void **state) {
    (void)state;
    static const struct {
        const char *name;
        const op_def *op;
        shape given;
    } expected[] = { { "resnet-50", &op_mean_space, { { 2, 7, 7, 2048 }, 4 } },
                     { "resnet-18", &op_mean_space, { { 2, 7, 7, 512 }, 4 } },
                     { "convnext-tiny", &op_mean_space, { { 2, 7, 7, 768 }, 4 } },
                     { "vit-base", &op_class_token, { { 2, 196, 768 }, 3 } },
                     { "clip-vit-l-14", &op_class_token, { { 2, 256, 1024 }, 3 } } };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        model_config c;
        const char *name;
        graph g;
        model_ports ports;
        assert_true(published_find(expected[i].name, &c, &name));
        build(&c, MODEL_EVALUATE, 2, &g, &ports);
        shape given = given_to(&g, expected[i].op);
        assert_true(shape_equal(&given, &expected[i].given));
        assert_int_equal(graph_shape(&g, ports.logits)->dim[1], c.vit.task.labels);
        graph_close(&g);
    }
}

/* Training takes the batch's mean and variance and moves the running ones; evaluation takes those. */
static void norms_differ_between_training_and_evaluation(void **state) {
    (void)state;
    model_config c;
    const char *name;
    assert_true(published_find("resnet-18", &c, &name));
    for (int training = 0; training < 2; training++) {
        graph g;
        model_ports ports;
        int own = 0, moved = 0, fixed = 0;
        build(&c, training ? MODEL_TRAIN : MODEL_EVALUATE, 2, &g, &ports);
        for (node_id id = 1; id < g.nodes.count; id++) {
            const op_def *op = graph_node(&g, id)->op;
            own += op == &op_batch_norm, moved += op == &op_batch_norm_running,
                fixed += op == &op_batch_norm_fixed;
        }
        assert_int_equal(own, training ? 20 : 0);
        assert_int_equal(moved, training ? 20 : 0);
        assert_int_equal(fixed, training ? 0 : 20);
        graph_close(&g);
    }
}

/* ---- configurations ---- */

#define CLIP                                                                                                 \
    "{ \"model_type\": \"clip\", \"projection_dim\": 24, \"text_config\": { \"hidden_size\": 8 }, "          \
    "\"vision_config\": { \"hidden_size\": 48, \"num_attention_heads\": 4, \"num_hidden_layers\": 3, "       \
    "\"intermediate_size\": 96, \"image_size\": 64, \"patch_size\": 8, \"projection_dim\": 99 } }"

static void the_tower_of_a_whole_clip_is_found(void **state) {
    (void)state;
    model_config c;
    assert_int_equal(build_read_text(CLIP, &c), STATUS_OK);
    assert_true(c.vit.kind == VIT_CLIP);
    assert_int_equal(c.vit.channels, 48);
    assert_int_equal(c.vit.task.labels, 24); /* of the whole, not of its tower */
    assert_int_equal(c.vit.activation, VIT_QUICK_GELU);
    assert_int_equal(build_read_text("{ \"model_type\": \"clip_vision_model\", \"projection_dim\": 40 }", &c),
                     STATUS_OK);
    assert_int_equal(c.vit.task.labels, 40);
    assert_int_equal(c.vit.patch, 32);
}

/* Blocks end in factors that begin as the configuration says, and is it silent as the paper has it. */
static void blocks_end_in_the_scale_that_is_said(void **state) {
    (void)state;
    static const struct {
        const char *words, *parameter;
        float mean;
    } cases[] = {
        { "{ \"model_type\": \"dinov2\" }", "dinov2.encoder.layer.0.layer_scale2.lambda1", 1 },
        { "{ \"model_type\": \"dinov2\", \"layerscale_value\": 0.5 }",
          "dinov2.encoder.layer.1.layer_scale1.lambda1", 0.5f },
        { "{ \"model_type\": \"convnext\" }", "convnext.x.layer_scale_parameter", 1e-6f },
        { "{ \"model_type\": \"convnext\", \"layer_scale_init_value\": 0.25 }",
          "convnext.x.layer_scale_parameter", 0.25f },
        { "{ \"architecture\": \"convnext_tiny\", \"num_classes\": 10 }", "convnext.x.layer_scale_parameter",
          1e-6f },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_config once, twice;
        model m;
        text written = { 0 };
        model_initial is;
        const shape s = SHAPE(8);
        if (build_read_text(cases[i].words, &once) != STATUS_OK) fail_msg("%s", status_message());
        families_model(&once, "m", &m);
        m.initial(&m, cases[i].parameter, &s, &is);
        if (is.mean != cases[i].mean || is.deviation != 0) fail_msg("%s: %g", cases[i].words, is.mean);
        model_config_text(&once, &written);
        assert_int_equal(build_read_text(written.data, &twice), STATUS_OK);
        assert_true(once.vit.task.layer_scale == twice.vit.task.layer_scale);
        text_close(&written);
    }
}

static void configurations_are_written_as_they_are_read(void **state) {
    (void)state;
    static const char *const words[] = {
        ("{ \"model_type\": \"vit\", \"image_size\": [64, 96], \"id2label\": { \"0\": \"a\", \"1\": \"b\", "
         "\"2\": \"c\" }, \"qkv_bias\": false, \"hidden_dropout_prob\": 0.1 }"),
        CLIP,
        ("{ \"model_type\": \"resnet\", \"depths\": [1, 2], \"hidden_sizes\": [32, 64], \"layer_type\": "
         "\"basic\", \"downsample_in_first_stage\": true }"),
        ("{ \"model_type\": \"convnext\", \"image_size\": 128, \"layer_scale_init_value\": 0, "
         "\"num_labels\": "
         "7 }"),
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        model_config once, twice;
        text first = { 0 }, second = { 0 };
        if (build_read_text(words[i], &once) != STATUS_OK) fail_msg("%s", status_message());
        model_config_text(&once, &first);
        assert_int_equal(build_read_text(first.data, &twice), STATUS_OK);
        model_config_text(&twice, &second);
        assert_string_equal(first.data, second.data);
        assert_int_equal(once.vit.task.labels, twice.vit.task.labels);
        assert_int_equal(once.vit.task.width, twice.vit.task.width);
        text_close(&first);
        text_close(&second);
    }
}

static void hostile_ones_get_one_sentence(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{ \"model_type\": \"vit\", \"image_size\": 0 }",
        "{ \"model_type\": \"vit\", \"image_size\": [224] }",
        "{ \"model_type\": \"vit\", \"image_size\": \"large\" }",
        "{ \"model_type\": \"vit\", \"image_size\": 2147483647 }",
        "{ \"model_type\": \"vit\", \"patch_size\": 225 }",
        "{ \"model_type\": \"vit\", \"patch_size\": [16, 8] }",
        "{ \"model_type\": \"vit\", \"patch_size\": -16 }",
        "{ \"model_type\": \"vit\", \"num_attention_heads\": 7 }",
        "{ \"model_type\": \"vit\", \"num_hidden_layers\": 99999999999999999999 }",
        "{ \"model_type\": \"vit\", \"num_channels\": 0 }",
        "{ \"model_type\": \"vit\", \"hidden_act\": \"mish\" }",
        "{ \"model_type\": \"vit\", \"id2label\": {} }",
        "{ \"model_type\": \"vit\", \"id2label\": 3 }",
        "{ \"model_type\": \"vit\", \"hidden_dropout_prob\": 1 }",
        "{ \"model_type\": \"vit\", \"layer_norm_eps\": 0 }",
        "{ \"model_type\": \"clip\" }",
        "{ \"model_type\": \"clip\", \"vision_config\": [] }",
        "{ \"model_type\": \"clip\", \"vision_config\": { \"hidden_size\": 0 } }",
        "{ \"model_type\": \"clip_vision_model\", \"projection_dim\": -1 }",
        "{ \"model_type\": \"resnet\", \"depths\": [] }",
        "{ \"model_type\": \"resnet\", \"depths\": [3, 4, 6] }",
        "{ \"model_type\": \"resnet\", \"depths\": [3, 4, 0, 3] }",
        "{ \"model_type\": \"resnet\", \"depths\": [2000, 1, 1, 1] }",
        "{ \"model_type\": \"resnet\", \"hidden_sizes\": [256, 512, 1022, 2048] }",
        "{ \"model_type\": \"resnet\", \"layer_type\": \"wide\" }",
        "{ \"model_type\": \"resnet\", \"hidden_act\": \"gelu\" }",
        "{ \"model_type\": \"resnet\", \"embedding_size\": 0 }",
        "{ \"model_type\": \"resnet\", \"depths\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] }",
        "{ \"model_type\": \"convnext\", \"hidden_sizes\": [96] }",
        "{ \"model_type\": \"convnext\", \"patch_size\": 300 }",
        "{ \"model_type\": \"convnext\", \"hidden_sizes\": [96, 192, 384, -1] }",
        "{ \"model_type\": \"convnext\", \"hidden_act\": \"relu\" }",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        model_config c;
        if (build_read_text(bad[i], &c) != STATUS_INVALID) fail_msg("accepted: %s", bad[i]);
        assert_true(strlen(status_message()) > 20);
        assert_null(strchr(status_message(), '\n'));
    }
}

/* What passes as a configuration and is too small or too large once it is built. */
static void what_cannot_be_built_is_refused(void **state) {
    (void)state;
    static const char *const words[] = {
        "{ \"model_type\": \"convnext\", \"image_size\": 8 }", /* nothing is left to halve */
        "{ \"model_type\": \"vit\", \"image_size\": 16384, \"patch_size\": 1, \"hidden_size\": 1048576, "
        "\"num_attention_heads\": 1 }",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        model_config c;
        model m;
        model_ports ports;
        graph g;
        assert_int_equal(build_read_text(words[i], &c), STATUS_OK);
        families_model(&c, "x", &m);
        assert_int_equal(graph_open(&g), STATUS_OK);
        m.build(&m, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = 1 << 20, .context = 1 }, &ports);
        assert_int_equal(graph_status(&g), STATUS_INVALID);
        graph_close(&g);
    }
}

/* ---- plans ---- */

static status decide(setup_options o, decision *d, setup *s) {
    o.threads = 1;
    TRY(setup_open(&o, NULL, s));
    return decision_make(s, d);
}

static void they_plan_and_want_pictures(void **state) {
    (void)state;
    static const char *const names[] = { "bench/estimate/models/vit.json",
                                         "bench/estimate/models/clip_vision.json",
                                         "bench/estimate/models/resnet.json",
                                         "bench/estimate/models/convnext.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        setup s = { 0 };
        decision d = { 0 };
        setup_options o = setup_defaults();
        snprintf(path, sizeof path, SNUG_ROOT "/%s", names[i]);
        o.model = path, o.batch = 2;
        if (decide(o, &d, &s) != STATUS_OK) fail_msg("%s: %s", names[i], status_message());
        assert_int_equal(model_computes(&s.model), STATUS_OK);
        decision_close(&d);
        setup_close(&s);
        o.context = 5;
        assert_int_equal(setup_open(&o, NULL, &s), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "images"));
        o.context = 0, o.data = SNUG_ROOT "/README.md";
        assert_int_equal(setup_open(&o, NULL, &s), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "README.md is no table by its name"));
    }
}

/* Batch norm sees the whole batch: no plan cuts it unless somebody says so, and that is another training. */
static void batch_norm_leaves_the_batch_whole(void **state) {
    (void)state;
    setup s = { 0 };
    decision d = { 0 };
    setup_options o = setup_defaults();
    o.model = SNUG_ROOT "/bench/estimate/models/resnet.json", o.batch = 4, o.micro_batch = 2;
    assert_int_equal(decide(o, &d, &s), STATUS_INVALID);
    decision_close(&d);
    setup_close(&s);
    o.model = SNUG_ROOT "/bench/estimate/models/convnext.json";
    if (decide(o, &d, &s) != STATUS_OK) fail_msg("%s", status_message());
    decision_close(&d);
    setup_close(&s);
}

/* In a configuration of images that says nothing else each of these is refused by its key. */
static void wrong_sizes_of_images_are_refused(void **state) {
    (void)state;
    static const char *const types[] = { "vit", "dinov2", "clip_vision_model", "resnet", "convnext" };
    static const struct {
        const char *more, *key;
    } rows[] = {
        { "\"image_size\": [\"x\", 8]", "image_size" }, { "\"image_size\": [8, 0]", "image_size" },
        { "\"image_size\": [8]", "image_size" },        { "\"image_size\": 0", "image_size" },
        { "\"num_channels\": 0", "num_channels" },      { "\"num_channels\": \"x\"", "num_channels" },
        { "\"num_labels\": 0", "num_labels" },          { "\"id2label\": 3", "id2label" }
    };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            char json[256];
            model_config c;
            snprintf(json, sizeof json, "{\"model_type\": \"%s\"}", types[t]);
            if (build_read_text(json, &c) != STATUS_OK) fail_msg("%s: %s", types[t], status_message());
            snprintf(json, sizeof json, "{\"model_type\": \"%s\", %s}", types[t], rows[i].more);
            if (build_read_text(json, &c) == STATUS_OK) fail_msg("%s is read", json);
            if (!strstr(status_message(), rows[i].key)) fail_msg("%s: %s", json, status_message());
        }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(published_ones_have_their_parameters),
                                        cmocka_unit_test(images_shrink_as_in_the_papers),
                                        cmocka_unit_test(norms_differ_between_training_and_evaluation),
                                        cmocka_unit_test(the_tower_of_a_whole_clip_is_found),
                                        cmocka_unit_test(blocks_end_in_the_scale_that_is_said),
                                        cmocka_unit_test(configurations_are_written_as_they_are_read),
                                        cmocka_unit_test(hostile_ones_get_one_sentence),
                                        cmocka_unit_test(what_cannot_be_built_is_refused),
                                        cmocka_unit_test(they_plan_and_want_pictures),
                                        cmocka_unit_test(batch_norm_leaves_the_batch_whole),
                                        cmocka_unit_test(wrong_sizes_of_images_are_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
