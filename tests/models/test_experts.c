/* Mixtures of experts: published ones have exactly the parameters that transformers gives them; a plan counts
 * k rows a token, whatever a router does; and configurations that make no model get one sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "io/expert_files.h"
#include "io/published.h"
#include "ir/op.h"
#include "models/build.h"
#include "ops/expert_matmul/expert_matmul.h"
#include "run/setup.h"

/* ---- sizes ---- */

static void published_ones_have_their_parameters(void **state) {
    (void)state;
    static const build_published published[] = {
        { "olmoe-1b-7b", 6919161856 },     { "qwen1.5-moe-a2.7b", 14315784192 },
        { "qwen3-30b-a3b", 30532122624 },  { "mixtral-8x7b", 46702792704 },
        { "mixtral-8x22b", 140620634112 }, { "qwen3-235b-a22b", 235093634560 }
    };
    build_expect_parameters(published, sizeof published / sizeof *published);
}

/* A size in numbers means a model all of whose weights are used. */
static void sizes_name_no_mixture(void **state) {
    (void)state;
    static const char *const sizes[] = { "7B", "14B", "30B", "47B", "141B", "235B" };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        model_config c;
        const char *name;
        assert_true(published_find(sizes[i], &c, &name));
        assert_int_equal(c.decoder.experts.count, 0);
    }
}

/* ---- the worst case ---- */

static void every_product_has_k_rows_a_token(void **state) {
    (void)state;
    model_config c;
    graph g;
    model_ports ports;
    int products = 0;
    assert_int_equal(model_config_read(SNUG_ROOT "/bench/estimate/models/qwen3_moe.json", &c, NULL),
                     STATUS_OK);
    build_graph(&c, &(model_run){ .mode = MODEL_TRAIN, .batch = 3, .context = 50 }, &g, &ports);
    for (node_id id = 1; id < g.nodes.count; id++) {
        const node *n = graph_node(&g, id);
        if (n->op != &op_expert_matmul) continue;
        assert_int_equal(graph_shape(&g, node_out(&g, n, 0))->dim[0], 3 * 50 * c.decoder.experts.chosen);
        products++;
    }
    assert_int_equal(products, 2 * 3); /* of four layers one is in mlp_only_layers */
    graph_close(&g);
}

/* ---- configurations ---- */

#define SIZES                                                                                                \
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"hidden_size\": "    \
    "64, \"intermediate_size\": 96, "                                                                        \
    "\"max_position_embeddings\": 128, \"vocab_size\": 300"

static void hostile_ones_get_one_sentence(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{ \"model_type\": \"mixtral\", " SIZES ", \"num_local_experts\": 0 }",
        "{ \"model_type\": \"mixtral\", " SIZES ", \"num_local_experts\": -8 }",
        "{ \"model_type\": \"mixtral\", " SIZES ", \"num_local_experts\": 2000000000 }",
        "{ \"model_type\": \"mixtral\", " SIZES ", \"num_local_experts\": 99999999999999999999 }",
        "{ \"model_type\": \"mixtral\", " SIZES ", \"num_local_experts\": 4, \"num_experts_per_tok\": 5 }",
        "{ \"model_type\": \"mixtral\", " SIZES ", \"num_experts_per_tok\": 0 }",
        "{ \"model_type\": \"mixtral\", " SIZES ", \"num_experts_per_tok\": 1.5 }",
        "{ \"model_type\": \"qwen2_moe\", " SIZES ", \"moe_intermediate_size\": 0 }",
        "{ \"model_type\": \"qwen2_moe\", " SIZES ", \"moe_intermediate_size\": 2147483647 }",
        "{ \"model_type\": \"qwen2_moe\", " SIZES ", \"shared_expert_intermediate_size\": -1 }",
        "{ \"model_type\": \"qwen3_moe\", " SIZES ", \"mlp_only_layers\": [4] }",
        "{ \"model_type\": \"qwen3_moe\", " SIZES ", \"mlp_only_layers\": 1 }",
        "{ \"model_type\": \"qwen3_moe\", " SIZES ", \"decoder_sparse_step\": 0 }",
        "{ \"model_type\": \"olmoe\", " SIZES ", \"num_experts\": \"many\" }",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        model_config c;
        if (build_read_text(bad[i], &c) != STATUS_INVALID) fail_msg("accepted: %s", bad[i]);
        assert_true(strlen(status_message()) > 20);
        assert_null(strchr(status_message(), '\n'));
    }
}

/* More bytes than there are addresses: refused when it is built, with what is too large. */
static void what_overflows_is_refused(void **state) {
    (void)state;
    model_config c;
    graph g;
    model m;
    model_ports ports;
    assert_int_equal(
        build_read_text(
            "{ \"model_type\": \"mixtral\", \"num_hidden_layers\": 1, \"num_attention_heads\": 8, "
            "\"hidden_size\": 1048576, \"head_dim\": 64, \"intermediate_size\": 4194304, "
            "\"max_position_embeddings\": 128, \"vocab_size\": 300, \"num_local_experts\": 16384 }",
            &c),
        STATUS_OK);
    families_model(&c, "x", &m);
    assert_int_equal(graph_open(&g), STATUS_OK);
    m.build(&m, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = 1, .context = 16 }, &ports);
    assert_int_equal(graph_status(&g), STATUS_INVALID);
    graph_close(&g);
}

static void which_layers_have_them(void **state) {
    (void)state;
    model_config c, again;
    model m;
    text out = { 0 };
    assert_int_equal(
        build_read_text("{ \"model_type\": \"qwen2_moe\", " SIZES ", \"decoder_sparse_step\": 2 }", &c),
        STATUS_OK);
    assert_false(decoder_experts_at(&c.decoder.experts, 0));
    assert_true(decoder_experts_at(&c.decoder.experts, 1));
    assert_int_equal(c.decoder.experts.count, 60);
    families_model(&c, "x", &m);
    assert_int_equal(model_computes(&m), STATUS_OK);
    assert_string_equal(families_experts(&c)->half, "mlp");
    assert_int_equal(families_expert_tensors(&c), 2 * 3 * 60);
    model_config_text(&c, &out);
    assert_int_equal(build_read_text(out.data, &again), STATUS_OK);
    assert_memory_equal(&c.decoder.experts, &again.decoder.experts, sizeof c.decoder.experts);
    text_close(&out);
}

/* Reading and writing files with a matrix for each expert holds a list of these: it is part of the plan. */
static uint64_t kept_bytes(const char *config) {
    setup s;
    setup_options o = setup_defaults();
    char path[256];
    snprintf(path, sizeof path, SNUG_ROOT "/tests/golden/%s.json", config);
    o.model = path, o.rates = RATES_BUILT_IN;
    if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s", status_message());
    uint64_t bytes = s.request.run.kept_bytes;
    setup_close(&s);
    return bytes;
}

static void lists_of_their_matrices_are_planned(void **state) {
    (void)state;
    uint64_t none = kept_bytes("llama");
    assert_int_equal(EXPERT_FILES_BYTES, 512);
    assert_int_equal(kept_bytes("mixtral") - none, 2 * 3 * 5 * 512);
    assert_int_equal(kept_bytes("qwen3_moe") - none, 1 * 3 * 4 * 512); /* its first layer has none */
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(published_ones_have_their_parameters),
                                        cmocka_unit_test(sizes_name_no_mixture),
                                        cmocka_unit_test(every_product_has_k_rows_a_token),
                                        cmocka_unit_test(hostile_ones_get_one_sentence),
                                        cmocka_unit_test(what_overflows_is_refused),
                                        cmocka_unit_test(which_layers_have_them),
                                        cmocka_unit_test(lists_of_their_matrices_are_planned) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
