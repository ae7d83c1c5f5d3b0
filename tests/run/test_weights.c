#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "chain/compose.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "oracle/reach.h"
#include "run/weights.h"

/* ---- configurations ---- */

static status read_config(const char *path, gpt2_config *c) {
    model_config all;
    TRY(model_config_read(path, &all, NULL));
    assert_int_equal(all.family, FAMILY_GPT2);
    *c = all.gpt2;
    return STATUS_OK;
}

static status write_config(const char *directory, const gpt2_config *c) {
    return model_config_write(directory, &(model_config){ .family = FAMILY_GPT2, .gpt2 = *c }, NULL);
}

static gpt2_config tiny(void) {
    gpt2_config c = gpt2_default();
    c.layers = 2, c.heads = 2, c.channels = 16, c.context = 8, c.vocabulary = 40, c.inner = 24;
    c.dropout_embedding = 0.1, c.dropout_attention = 0.25, c.dropout_residual = 0;
    return c;
}

static void assert_same_config(const gpt2_config *a, const gpt2_config *b) {
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->channels, b->channels);
    assert_int_equal(a->context, b->context);
    assert_int_equal(a->vocabulary, b->vocabulary);
    assert_int_equal(a->inner, b->inner);
    assert_true(a->dropout_embedding == b->dropout_embedding &&
                a->dropout_attention == b->dropout_attention && a->dropout_residual == b->dropout_residual);
    assert_true(a->epsilon == b->epsilon && a->deviation == b->deviation);
    assert_int_equal(a->tied, b->tied);
    assert_int_equal(a->tanh, b->tanh);
}

static void configs_come_back(void **state) {
    (void)state;
    gpt2_config cases[3] = { tiny(), tiny(), tiny() };
    cases[1].tied = false, cases[1].tanh = false, cases[1].inner = 64, cases[1].epsilon = 3e-6;
    assert_true(gpt2_preset("gpt2", &cases[2]));
    for (int i = 0; i < 3; i++) {
        gpt2_config back;
        assert_int_equal(write_config(".", &cases[i]), STATUS_OK);
        assert_int_equal(read_config(".", &back), STATUS_OK);
        assert_same_config(&cases[i], &back);
        assert_int_equal(read_config("./config.json", &back), STATUS_OK);
        assert_same_config(&cases[i], &back);
    }
}

static const char usual[] = "\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 16, "
                            "\"n_positions\": 8, \"vocab_size\": 40";

static status read_text(const char *json, gpt2_config *c) {
    scratch_write("given.json", json, strlen(json));
    return read_config("given.json", c);
}

static void absent_keys_have_the_defaults_of_transformers(void **state) {
    (void)state;
    char json[512];
    gpt2_config c = { 0 };
    snprintf(json, sizeof json, "{%s, \"n_inner\": null, \"summary_type\": [1, {}], \"eos_token_id\": null}",
             usual);
    assert_int_equal(read_text(json, &c), STATUS_OK);
    assert_int_equal(c.inner, 64);
    assert_true(c.dropout_embedding == 0.1 && c.dropout_attention == 0.1 && c.dropout_residual == 0.1);
    assert_true(c.epsilon == 1e-5 && c.deviation == 0.02 && c.tied && c.tanh);
}

/* `add` follows the usual members, so it replaces one of them where it has its key: the last one counts. */
static const struct {
    const char *add, *sentence;
} bad_members[] = {
    { "\"model_type\": \"mamba2\"", "'model_type' is 'mamba2'" },
    { "\"model_type\": 2", "'model_type' is 2" },
    { "\"n_layer\": \"2\"", "'n_layer' is \"2\"" },
    { "\"n_layer\": 0", "'n_layer' is 0" },
    { "\"n_layer\": 2.5", "'n_layer' is 2.5" },
    { "\"n_layer\": 100000", "n_layer is 100000" },
    { "\"n_head\": -2", "'n_head' is -2" },
    { "\"n_head\": 3", "n_embd 16 cannot be divided among n_head 3" },
    { "\"n_embd\": null", "'n_embd'" },
    { "\"n_embd\": 1e30", "'n_embd' is 1e30" },
    { "\"n_embd\": 99999999999999999999", "'n_embd'" },
    { "\"n_positions\": true", "'n_positions' is true" },
    { "\"vocab_size\": 2147483647", "vocab_size is 2147483647" },
    { "\"n_inner\": 0", "'n_inner' is 0" },
    { "\"n_inner\": [64]", "'n_inner' is a list" },
    { "\"activation_function\": \"relu\"", "'activation_function' is 'relu'" },
    { "\"activation_function\": 1", "'activation_function' is 1" },
    { "\"resid_pdrop\": 1", "'resid_pdrop' is 1" },
    { "\"attn_pdrop\": -0.1", "'attn_pdrop' is -0.1" },
    { "\"embd_pdrop\": NaN", "'embd_pdrop' is NaN" },
    { "\"layer_norm_epsilon\": 0", "layer_norm_epsilon is 0" },
    { "\"initializer_range\": \"small\"", "'initializer_range' is \"small\"" },
    { "\"tie_word_embeddings\": 1", "'tie_word_embeddings' is 1" },
    { "\"scale_attn_weights\": false", "'scale_attn_weights' is false" },
    { "\"scale_attn_by_inverse_layer_idx\": true", "'scale_attn_by_inverse_layer_idx' is true" },
    { "\"add_cross_attention\": true", "'add_cross_attention' is true" },
};

static void bad_configs_are_refused_with_file_and_key(void **state) {
    (void)state;
    gpt2_config c = { 0 };
    for (size_t i = 0; i < sizeof bad_members / sizeof *bad_members; i++) {
        char json[512];
        snprintf(json, sizeof json, "{%s, %s}", usual, bad_members[i].add);
        assert_int_equal(read_text(json, &c), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "given.json"));
        assert_non_null(strstr(status_message(), bad_members[i].sentence));
    }
    static const char *const missing[] = { "{}", "{\"model_type\": \"gpt2\"}",
                                           "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2}" };
    static const char *const keys[] = { "'model_type'", "'n_layer'", "'n_embd'" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_text(missing[i], &c), STATUS_INVALID);
        assert_non_null(strstr(status_message(), keys[i]));
    }
    static const char *const broken[] = { "", "{", "[]", "7", "{\"n_layer\": 2" };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_int_equal(read_text(broken[i], &c), STATUS_INVALID);
    assert_int_equal(read_config("no-such-place", &c), STATUS_INVALID);
    assert_int_equal(mkdir("empty", 0755), 0);
    assert_int_equal(read_config("empty", &c), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "empty has no config.json"));
}

/* ---- weights ---- */

typedef struct {
    gpt2_config config;
    model model;
    plan plan;
    exec *exec;
} bench;

static void open_bench(bench *b, const gpt2_config *c) {
    b->config = *c;
    gpt2_model(&b->config, "tiny", &b->model);
    lower_options lower = { .threads = threads_count(), .rates = device_rates_default(1) };
    assert_int_equal(compose_rows(&(compose_run){ .model = &b->model, .lower = lower }, NULL,
                                  &(paged_sizes){ 1, 1, 0, 1, 1, DTYPE_F32, false },
                                  &(compose_steps){ { 1 }, 1 }, &(compose_steps){ .count = 0 }, &b->plan),
                     STATUS_OK);
    assert_int_equal(exec_open(&b->plan, 0, &b->exec), STATUS_OK);
}

static void close_bench(bench *b) {
    exec_close(b->exec);
    plan_close(&b->plan);
}

static bool is_weight(const plan_persistent *x) { return x->category == CATEGORY_WEIGHTS; }

static void assert_same_weights(const bench *a, const bench *b) {
    for (uint32_t i = 0; i < a->plan.persistent_count; i++) {
        const plan_persistent *x = &a->plan.persistent[i];
        if (is_weight(x))
            assert_memory_equal(exec_persistent(a->exec, x->name), exec_persistent(b->exec, x->name),
                                (size_t)shape_elements(&x->shape) * sizeof(float));
    }
}

static void saved_weights_come_back(void **state) {
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        gpt2_config c = tiny(), read;
        c.tied = tied;
        bench a, b;
        open_bench(&a, &c);
        assert_int_equal(weights_initialise(a.exec, &a.model, 7), STATUS_OK);
        assert_int_equal(weights_save(a.exec, &(model_config){ .gpt2 = c }, "made/deep"), STATUS_OK);
        assert_int_equal(read_config("made/deep", &read), STATUS_OK);
        assert_same_config(&c, &read);
        open_bench(&b, &read);
        assert_int_equal(weights_load(b.exec, "made/deep"), STATUS_OK);
        assert_same_weights(&a, &b);
        safetensors s;
        assert_int_equal(safetensors_open("made/deep", &s), STATUS_OK);
        assert_int_equal(s.count, 2 + 2 * 12 + 2 + !tied);
        assert_int_equal(safetensors_find(&s, "lm_head.weight") == NULL, tied);
        const safetensors_entry *e = safetensors_find(&s, "transformer.h.1.attn.c_attn.weight");
        assert_non_null(e);
        assert_true(safetensors_has_shape(e, &SHAPE(16, 48)));
        safetensors_close(&s);
        close_bench(&a);
        close_bench(&b);
    }
}

static void initial_values_follow_the_rule(void **state) {
    (void)state;
    gpt2_config c = tiny();
    c.layers = 1, c.channels = 64, c.inner = 256, c.vocabulary = 256;
    bench a, b, other;
    threads_set(1);
    open_bench(&a, &c);
    assert_int_equal(weights_initialise(a.exec, &a.model, 7), STATUS_OK);
    threads_set(3);
    open_bench(&b, &c);
    assert_int_equal(weights_initialise(b.exec, &b.model, 7), STATUS_OK);
    assert_same_weights(&a, &b);
    open_bench(&other, &c);
    assert_int_equal(weights_initialise(other.exec, &other.model, 8), STATUS_OK);
    const float *x = exec_persistent(a.exec, "transformer.wte.weight"),
                *y = exec_persistent(other.exec, "transformer.wte.weight");
    double squares = 0, equal = 0;
    for (int i = 0; i < 256 * 64; i++) squares += (double)x[i] * (double)x[i], equal += x[i] == y[i];
    assert_true(fabs(sqrt(squares / (256 * 64)) - 0.02) < 5e-4);
    assert_true(equal < 10);
    const float *gamma = exec_persistent(a.exec, "transformer.h.0.ln_1.weight"),
                *beta = exec_persistent(a.exec, "transformer.h.0.ln_1.bias");
    for (int i = 0; i < 64; i++) assert_true(gamma[i] == 1 && beta[i] == 0);
    close_bench(&a);
    close_bench(&b);
    close_bench(&other);
}

/* ---- files of others ---- */

enum { MOST = 64, NAME = 96, ROOM = 1 << 16 };

/* A model file in memory, to be changed and written again. */
typedef struct {
    safetensors_item items[MOST];
    char names[MOST][NAME];
    char data[ROOM];
    uint32_t count;
} copy;

static void add_item(copy *k, const safetensors_item *item) {
    size_t used = 0;
    for (uint32_t i = 0; i < k->count; i++) used += k->items[i].bytes;
    assert_true(used + item->bytes <= ROOM && k->count < MOST);
    memcpy(k->data + used, item->data, item->bytes);
    snprintf(k->names[k->count], NAME, "%s", item->name);
    k->items[k->count] = *item;
    k->items[k->count].name = k->names[k->count];
    k->items[k->count].data = k->data + used;
    k->count++;
}

static void copy_weights(const bench *b, copy *k) {
    k->count = 0;
    for (uint32_t i = 0; i < b->plan.persistent_count; i++) {
        const plan_persistent *x = &b->plan.persistent[i];
        if (is_weight(x))
            add_item(k,
                     &(safetensors_item){ x->name, "F32", x->shape, .data = exec_persistent(b->exec, x->name),
                                          .bytes = (uint64_t)shape_elements(&x->shape) * sizeof(float) });
    }
}

static safetensors_item *item_of(copy *k, const char *name) {
    for (uint32_t i = 0; i < k->count; i++)
        if (strcmp(k->names[i], name) == 0) return &k->items[i];
    return NULL;
}

static status load_copy(const copy *k, bench *into) {
    assert_int_equal(safetensors_write("copy.safetensors", k->items, k->count), STATUS_OK);
    return weights_load(into->exec, "copy.safetensors");
}

static void names_without_prefix_and_buffers_are_fine(void **state) {
    (void)state;
    gpt2_config c = tiny();
    bench a, b;
    static copy k;
    open_bench(&a, &c);
    open_bench(&b, &c);
    assert_int_equal(weights_initialise(a.exec, &a.model, 7), STATUS_OK);
    copy_weights(&a, &k);
    for (uint32_t i = 0; i < k.count; i++)
        memmove(k.names[i], k.names[i] + strlen("transformer."), NAME - 12);
    static const float mask[64];
    add_item(&k,
             &(safetensors_item){ "h.0.attn.bias", "F32", SHAPE(1, 1, 8, 8), .data = mask, .bytes = 256 });
    add_item(&k,
             &(safetensors_item){ "h.0.attn.masked_bias", "F32", { .rank = 0 }, .data = mask, .bytes = 4 });
    safetensors_item head = *item_of(&k, "wte.weight");
    head.name = "lm_head.weight";
    add_item(&k, &head);
    assert_int_equal(load_copy(&k, &b), STATUS_OK);
    assert_same_weights(&a, &b);
    close_bench(&a);
    close_bench(&b);
}

/* Rounded towards zero, so that what is read back is known: all values in place are replaced. */
static void narrow(safetensors_item *item, float *values, bool brain) {
    int64_t n = shape_elements(&item->shape);
    uint16_t *half = (uint16_t *)(uintptr_t)item->data;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if (brain) {
            half[i] = (uint16_t)(bits >> 16);
            bits &= 0xffff0000u;
        } else { /* 0x3c00 is 1, 0x0001 the least of all, 0xfbff the lowest, 0x7c00 infinity */
            static const uint16_t halves[] = { 0x3c00, 0x0001, 0xfbff, 0x8000, 0x3555, 0x83ff };
            static const float as[] = { 1, 0x1p-24f, -65504, -0.0f, 0x1.554p-2f, -0x1.ff8p-15f };
            half[i] = halves[i % 6];
            memcpy(&bits, &as[i % 6], sizeof bits);
        }
        memcpy(&values[i], &bits, sizeof bits);
    }
    item->dtype = brain ? "BF16" : "F16";
    item->bytes = 2 * (uint64_t)n;
}

static void narrow_floats_are_widened(void **state) {
    (void)state;
    gpt2_config c = tiny();
    bench a, b;
    open_bench(&a, &c);
    open_bench(&b, &c);
    assert_int_equal(weights_initialise(a.exec, &a.model, 7), STATUS_OK);
    static copy k;
    copy_weights(&a, &k);
    for (uint32_t i = 0; i < k.count; i++)
        narrow(&k.items[i], exec_persistent(a.exec, k.names[i]), i % 2 == 0);
    assert_int_equal(load_copy(&k, &b), STATUS_OK);
    assert_same_weights(&a, &b);
    item_of(&k, "transformer.wpe.weight")->dtype = "I16";
    assert_int_equal(load_copy(&k, &b), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "'transformer.wpe.weight' is of type I16"));
    close_bench(&a);
    close_bench(&b);
}

static void wrong_tensors_are_refused(void **state) {
    (void)state;
    gpt2_config c = tiny();
    bench b;
    static copy k;
    open_bench(&b, &c);
    assert_int_equal(weights_initialise(b.exec, &b.model, 7), STATUS_OK);

    copy_weights(&b, &k);
    item_of(&k, "transformer.h.1.mlp.c_fc.weight")->shape = SHAPE(24, 16);
    assert_int_equal(load_copy(&k, &b), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "copy.safetensors"));
    assert_non_null(
        strstr(status_message(), "'transformer.h.1.mlp.c_fc.weight' is (24,16), the model needs (16,24)"));

    char missing[NAME];
    copy_weights(&b, &k);
    strcpy(missing, k.names[3]);
    strcpy(k.names[3], "transformer.h.7.attn.bias");
    assert_int_equal(load_copy(&k, &b), STATUS_INVALID);
    assert_non_null(strstr(status_message(), missing));

    copy_weights(&b, &k);
    static const float more[4];
    add_item(
        &k, &(safetensors_item){ "transformer.h.2.ln_1.weight", "F32", SHAPE(4), .data = more, .bytes = 16 });
    assert_int_equal(load_copy(&k, &b), STATUS_INVALID);
    assert_non_null(
        strstr(status_message(), "'transformer.h.2.ln_1.weight', for which the model has no place"));
    close_bench(&b);

    c.tied = false; /* the projection is needed now, and the file has none */
    open_bench(&b, &c);
    k.count--;
    assert_int_equal(load_copy(&k, &b), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "'lm_head.weight'"));
    assert_int_equal(weights_load(b.exec, "no-such-directory"), STATUS_INVALID);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configs_come_back),
        cmocka_unit_test(absent_keys_have_the_defaults_of_transformers),
        cmocka_unit_test(bad_configs_are_refused_with_file_and_key),
        cmocka_unit_test(saved_weights_come_back),
        cmocka_unit_test(initial_values_follow_the_rule),
        cmocka_unit_test(names_without_prefix_and_buffers_are_fine),
        cmocka_unit_test(narrow_floats_are_widened),
        cmocka_unit_test(wrong_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
