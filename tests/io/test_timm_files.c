/* Files by timm's names: the very tensors that timm has (tests/golden/timm_names.txt), and what is read back
 * is what was written, bit for bit. Configurations come back, and wrong ones get a sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "models/families.h"

static const struct {
    const char *kind, *config;
} kinds[] = {
    { "vit",
      "\"vit_tiny_patch16_224\", \"model_args\": {\"img_size\": 32, \"patch_size\": 8, \"embed_dim\": 24, "
      "\"depth\": 2, \"num_heads\": 2}" },
    { "resnet_basic", "\"resnet18\", \"model_args\": {\"layers\": [2, 1, 1, 1]}" },
    { "resnet", "\"resnet50\", \"model_args\": {\"layers\": [1, 1, 2, 1]}" },
    { "convnext",
      "\"convnext_tiny\", \"model_args\": {\"depths\": [1, 1, 2, 1], \"dims\": [8, 16, 24, 32]}" },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void read_config(int k, model_config *c) {
    char json[600];
    snprintf(json, sizeof json, "{\"num_classes\": 3, \"architecture\": %s}", kinds[k].config);
    scratch_write("config.json", json, strlen(json));
    if (model_config_read("config.json", c, NULL) != STATUS_OK) fail_msg("%s", status_message());
}

/* All that files hold of the model, filled with numbers; or zeros. */
static model_weight *weights_of(const model_config *c, bool filled, graph *g, uint32_t *count) {
    model_ports ports;
    uint64_t random = 9;
    model m;
    families_model(c, "timm", &m);
    assert_int_equal(graph_open(g), STATUS_OK);
    m.build(&m, g, &(model_run){ .mode = MODEL_EVALUATE, .batch = 1, .context = 1 }, &ports);
    assert_int_equal(graph_status(g), STATUS_OK);
    model_weight *list = calloc(g->tensors.count, sizeof *list);
    *count = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (x->producer || !(x->role == ROLE_PARAMETER || x->flags & TENSOR_OF_MODEL)) continue;
        int64_t n = shape_elements(&x->shape);
        float *data = calloc((size_t)n, sizeof *data);
        for (int64_t i = 0; filled && i < n; i++)
            data[i] = (float)(scratch_random(&random) % 2001) / 1000 - 1;
        list[(*count)++] = (model_weight){
            .name = graph_name(g, t), .shape = x->shape, .type = DTYPE_F32, .data = data, .side_by_side = true
        };
    }
    return list;
}

static void free_weights(model_weight *list, uint32_t count, graph *g) {
    for (uint32_t i = 0; i < count; i++) free(list[i].data);
    free(list);
    graph_close(g);
}

/* "24x3x8x8" */
static bool has_sides(const safetensors_entry *e, const char *sides) {
    char is[128] = "";
    size_t used = 0;
    for (uint32_t d = 0; d < e->rank; d++)
        used += (size_t)snprintf(is + used, sizeof is - used, "%s%lld", d ? "x" : "", (long long)e->dim[d]);
    return strcmp(is, sides) == 0;
}

static void expect_names(const char *kind) {
    FILE *names = fopen(SNUG_ROOT "/tests/golden/timm_names.txt", "r");
    char of[32], name[128], sides[64];
    uint32_t met = 0;
    safetensors s;
    assert_non_null(names);
    assert_int_equal(safetensors_open("model.safetensors", &s), STATUS_OK);
    while (fscanf(names, "%31s %127s %63s", of, name, sides) == 3) {
        if (strcmp(of, kind) != 0 || strstr(name, "num_batches_tracked")) continue;
        const safetensors_entry *e = safetensors_find(&s, name);
        if (!e) fail_msg("%s: there is no %s", kind, name);
        if (!has_sides(e, sides)) fail_msg("%s: %s is not %s", kind, name, sides);
        met++;
    }
    assert_true(met > 20);
    assert_int_equal(met, s.count);
    safetensors_close(&s);
    fclose(names);
}

static void files_are_those_of_timm(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        model_config c;
        graph g, other;
        uint32_t count, again;
        model_files_form form = { .timm = true };
        read_config(k, &c);
        model_weight *from = weights_of(&c, true, &g, &count), *to = weights_of(&c, false, &other, &again);
        assert_int_equal(model_files_save_as(".", from, count, &form), STATUS_OK);
        expect_names(kinds[k].kind);
        if (model_files_load(".", to, again) != STATUS_OK) fail_msg("%s", status_message());
        for (uint32_t i = 0; i < count; i++)
            if (memcmp(from[i].data, to[i].data, (size_t)shape_elements(&from[i].shape) * sizeof(float)) != 0)
                fail_msg("%s: %s comes back otherwise", kinds[k].kind, from[i].name);
        /* in 16 bits as well, which go through a block of memory */
        form.type = DTYPE_BF16;
        assert_int_equal(model_files_save_as(".", from, count, &form), STATUS_OK);
        expect_names(kinds[k].kind);
        assert_int_equal(model_files_load(".", to, again), STATUS_OK);
        for (uint32_t i = 0; i < count; i++) {
            float a = ((const float *)from[i].data)[0], b = ((const float *)to[i].data)[0];
            assert_true(a - b < 0.01f && b - a < 0.01f);
        }
        free_weights(from, count, &g);
        free_weights(to, again, &other);
    }
}

static void configurations_come_back(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        static const char *const names[] = { "a", "b", "c" };
        model_config c, back;
        text once = { 0 }, twice = { 0 };
        label_names read = { 0 };
        read_config(k, &c);
        c.label_names = names;
        assert_int_equal(model_config_write(".", &c, NULL), STATUS_OK);
        if (model_config_read("config.json", &back, NULL) != STATUS_OK) fail_msg("%s", status_message());
        assert_int_equal(model_config_labels("config.json", &back, &read), STATUS_OK);
        assert_int_equal(read.count, 3);
        back.label_names = read.name;
        model_config_text(&c, &once);
        model_config_text(&back, &twice);
        assert_string_equal(once.data, twice.data);
        assert_int_equal(c.family, back.family);
        label_names_close(&read);
        text_close(&once);
        text_close(&twice);
    }
}

static void wrong_configurations_get_a_sentence(void **state) {
    (void)state;
    static const struct {
        const char *json, *says;
    } bad[] = {
        { "{\"architecture\": \"resnet50d\"}",
          "'architecture' is 'resnet50d'; of timm's architectures there are" },
        { "{\"architecture\": \"vit_base_patch_224\"}", "of timm's architectures there are" },
        { "{\"architecture\": \"vit_base_patch16_8\"}", "of timm's architectures there are" },
        { "{\"architecture\": \"vit_base_patch16_224_miil\"}", "of timm's architectures there are" },
        { "{\"architecture\": \"vit_base_patch99999999999999999999_999999999999999999999\"}", "must be" },
        { "{\"architecture\": 5}", "'architecture'" },
        { "{\"architecture\": \"resnet18\", \"num_classes\": 0}", "'num_classes' is 0" },
        { "{\"architecture\": \"resnet18\", \"model_args\": {\"stem_type\": \"deep\"}}",
          "is an argument of timm's that is not known here" },
        { "{\"architecture\": \"resnet18\", \"model_args\": {\"layers\": [1, 1]}}", "there are four stages" },
        { "{\"architecture\": \"convnext_tiny\", \"model_args\": {\"dims\": [1, 1, 1, -2]}}", "must be" },
        { "{\"architecture\": \"resnet18\", \"pretrained_cfg\": {\"mean\": [1, 2]}}", "has 2 numbers" },
        { "{\"architecture\": \"resnet18\", \"pretrained_cfg\": {\"input_size\": 5}}", "'input_size'" },
        { "{\"architecture\": \"resnet18\", \"pretrained_cfg\": {\"crop_pct\": 0}}",
          "'crop_pct' in 'pretrained_cfg' is 0" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        model_config c;
        scratch_write("config.json", bad[i].json, strlen(bad[i].json));
        if (model_config_read("config.json", &c, NULL) != STATUS_INVALID) fail_msg("taken: %s", bad[i].json);
        if (!strstr(status_message(), bad[i].says)) fail_msg("%s: %s", bad[i].json, status_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(files_are_those_of_timm),
                                        cmocka_unit_test(configurations_come_back),
                                        cmocka_unit_test(wrong_configurations_get_a_sentence) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
