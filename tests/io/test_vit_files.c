/* ViT's weights are called otherwise in files than in transformers' modules: under which names, and that both
 * are read. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "io/model_files.h"
#include "io/scratch.h"
#include "io/vit_files.h"
#include "io/weight_files.h"

static void names_are_those_of_files(void **state) {
    (void)state;
    /* By transformers 5.24: what a saved model's file holds, beside its modules' names. */
    static const char *const pairs[][2] = {
        { "vit.layers.0.attention.q_proj.weight", "vit.encoder.layer.0.attention.attention.query.weight" },
        { "vit.layers.11.attention.k_proj.bias", "vit.encoder.layer.11.attention.attention.key.bias" },
        { "vit.layers.3.attention.v_proj.weight", "vit.encoder.layer.3.attention.attention.value.weight" },
        { "vit.layers.3.attention.o_proj.weight", "vit.encoder.layer.3.attention.output.dense.weight" },
        { "vit.layers.3.mlp.fc1.bias", "vit.encoder.layer.3.intermediate.dense.bias" },
        { "vit.layers.3.mlp.fc2.bias", "vit.encoder.layer.3.output.dense.bias" },
        { "vit.layers.3.layernorm_before.weight", "vit.encoder.layer.3.layernorm_before.weight" },
        { "vit.layers.3.layernorm_after.bias", "vit.encoder.layer.3.layernorm_after.bias" }
    };
    static const char *const others[] = {
        "vit.embeddings.cls_token",  "vit.layernorm.weight",
        "classifier.bias",           "vit.layers.mlp.fc1.bias",
        "vit.layers.3.other.weight", "vision_model.encoder.layers.0.mlp.fc1.weight"
    };
    char name[VIT_FILES_NAME_BYTES];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_true(vit_files_name(pairs[i][0], name));
        assert_string_equal(name, pairs[i][1]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_false(vit_files_name(others[i], name));
}

static void both_names_are_read(void **state) {
    (void)state;
    float from[2][6] = { { 1, 2, 3, 4, 5, 6 }, { 7, 8, 9, 10, 11, 12 } }, to[2][6];
    model_weight w[2] = { { .name = "vit.layers.1.mlp.fc1.weight", .shape = SHAPE(2, 3), .type = DTYPE_F32 },
                          { .name = "classifier.weight", .shape = SHAPE(3, 2), .type = DTYPE_F32 } };
    safetensors s;
    for (int module = 0; module < 2; module++) {
        for (int i = 0; i < 2; i++) w[i].data = from[i];
        safetensors_item items[2] = { weight_files_item(&w[0], w[0].name),
                                      weight_files_item(&w[1], w[1].name) };
        if (module)
            assert_int_equal(safetensors_write("model.safetensors", items, 2), STATUS_OK);
        else
            assert_int_equal(model_files_save(".", w, 2), STATUS_OK);
        assert_int_equal(safetensors_open(".", &s), STATUS_OK);
        assert_true(!safetensors_find(&s, "vit.encoder.layer.1.intermediate.dense.weight") == (module == 1));
        safetensors_close(&s);
        memset(to, 0, sizeof to);
        for (int i = 0; i < 2; i++) w[i].data = to[i];
        assert_int_equal(model_files_load(".", w, 2), STATUS_OK);
        assert_memory_equal(from, to, sizeof to);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(names_are_those_of_files),
                                        cmocka_unit_test(both_names_are_read) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
