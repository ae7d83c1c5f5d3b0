/* What a run is: every number of its model's configuration that changes what is computed makes it another
 * run, and so does each option that is fixed. (tests/cli/test_run_options.c has the options one by one.) */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "io/safetensors.h"
#include "io/scratch.h"
#include "run/identity.h"

static void identity_with(const char *json, identity *i) {
    setup s;
    setup_options o = setup_defaults();
    scratch_write("config.json", json, strlen(json));
    o.model = "config.json", o.batch = 1, o.threads = 1;
    if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s: %s", json, status_message());
    if (identity_of(&s, i) != STATUS_OK) fail_msg("%s", status_message());
    setup_close(&s);
}

#define GPT2                                                                                                 \
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 8, \"n_inner\": 24, "             \
    "\"n_positions\": 8, \"vocab_size\": 9, \"embd_pdrop\": 0.125, \"attn_pdrop\": 0.25, "                   \
    "\"resid_pdrop\": 0.375, \"layer_norm_epsilon\": 0.5, \"tie_word_embeddings\": true, "                   \
    "\"activation_function\": \"gelu\"}"
#define LLAMA                                                                                                \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "                     \
    "\"num_key_value_heads\": 2, \"hidden_size\": 16, \"intermediate_size\": 24, "                           \
    "\"max_position_embeddings\": 8, \"vocab_size\": 9, \"rope_theta\": 5000, \"rms_norm_eps\": 0.5, "       \
    "\"tie_word_embeddings\": true, \"attention_dropout\": 0.25}"

#define BERT                                                                                                 \
    "{\"model_type\": \"bert\", \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"hidden_size\": 8, "  \
    "\"intermediate_size\": 24, \"max_position_embeddings\": 8, \"vocab_size\": 9, \"mask_token_id\": 3, "   \
    "\"layer_norm_eps\": 0.5, \"hidden_dropout_prob\": 0.125, \"attention_probs_dropout_prob\": 0.25}"
/* Which layers see all is in no number of its own. */
#define GEMMA                                                                                                \
    "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 3, \"num_attention_heads\": 2, "                    \
    "\"num_key_value_heads\": 1, \"head_dim\": 4, \"hidden_size\": 8, \"intermediate_size\": 24, "           \
    "\"max_position_embeddings\": 8, \"vocab_size\": 9, \"sliding_window\": 4, \"layer_types\": "            \
    "[\"sliding_attention\", \"full_attention\", \"sliding_attention\"]}"
#define OTHER_LAYERS "[\"full_attention\", \"sliding_attention\", \"sliding_attention\"]"

static void each_number_of_a_model_counts(void **state) {
    (void)state;
    static const struct {
        const char *json, *was, *is, *name;
    } rows[] = {
        { GPT2, "\"n_layer\": 2", "\"n_layer\": 3", "n_layer" },
        { GPT2, "\"n_head\": 2", "\"n_head\": 4", "n_head" },
        { GPT2, "\"n_embd\": 8", "\"n_embd\": 10", "n_embd" },
        { GPT2, "\"n_inner\": 24", "\"n_inner\": 25", "n_inner" },
        { GPT2, "\"n_positions\": 8", "\"n_positions\": 9", NULL },
        { GPT2, "\"vocab_size\": 9", "\"vocab_size\": 10", "vocab_size" },
        { GPT2, "0.125", "0.126", "embd_pdrop" },
        { GPT2, "0.25", "0.26", "attn_pdrop" },
        { GPT2, "0.375", "0.376", "resid_pdrop" },
        { GPT2, "\"layer_norm_epsilon\": 0.5", "\"layer_norm_epsilon\": 0.6", "layer_norm_epsilon" },
        { GPT2, "true", "false", "tie_word_embeddings" },
        { GPT2, "\"gelu\"", "\"gelu_new\"", "activation_function" },
        { LLAMA, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", NULL },
        { LLAMA, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", NULL },
        { LLAMA, "\"intermediate_size\": 24", "\"intermediate_size\": 32", NULL },
        { LLAMA, "5000", "5001", NULL },
        { LLAMA, "\"rms_norm_eps\": 0.5", "\"rms_norm_eps\": 0.6", NULL },
        { LLAMA, "true", "false", NULL },
        { LLAMA, "0.25", "0.26", NULL },
        { GEMMA, "[\"sliding_attention\", \"full_attention\", \"sliding_attention\"]", OTHER_LAYERS, NULL },
        { GEMMA, "\"sliding_window\": 4", "\"sliding_window\": 5", NULL },
        { BERT, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", NULL },
        { BERT, "\"num_attention_heads\": 2", "\"num_attention_heads\": 4", NULL },
        { BERT, "\"intermediate_size\": 24", "\"intermediate_size\": 25", NULL },
        { BERT, "\"mask_token_id\": 3", "\"mask_token_id\": 4", NULL },
        { BERT, "\"layer_norm_eps\": 0.5", "\"layer_norm_eps\": 0.6", NULL },
        { BERT, "0.125", "0.126", NULL },
        { BERT, "0.25", "0.26", NULL },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char json[1024], one[IDENTITY_DIGEST_BYTES], two[IDENTITY_DIGEST_BYTES];
        const char *at = strstr(rows[r].json, rows[r].was);
        identity a, b, again;
        assert_non_null(at);
        snprintf(json, sizeof json, "%.*s%s%s", (int)(at - rows[r].json), rows[r].json, rows[r].is,
                 at + strlen(rows[r].was));
        identity_with(rows[r].json, &a);
        identity_with(json, &b);
        identity_with(rows[r].json, &again);
        assert_int_equal(identity_compare(&a, &again, "run"), STATUS_OK);
        if (identity_compare(&a, &b, "run") != STATUS_INVALID) fail_msg("%s is the same run", rows[r].is);
        if (rows[r].name && !strstr(status_message(), rows[r].name))
            fail_msg("%s: %s", rows[r].is, status_message());
        assert_string_not_equal(identity_digest(&a, one), identity_digest(&b, two));
        assert_string_equal(identity_digest(&a, one), identity_digest(&again, two));
    }
}

/* Samples of 8 bytes each, made on demand: the number of the sample, but for one that is other or fails. What
 * a read leaves in its scratch the next one finds, and the first one zeros. */
static uint64_t other_sample, failing_sample;
static unsigned char left;
static status read_made(const data_source *source, uint64_t sample, void *scratch, void *const *fields) {
    unsigned char *bytes = scratch;
    for (uint64_t i = 0; i < source->scratch_bytes; i++) {
        if (bytes[i] != left) fail_msg("byte %d of the scratch is %d", (int)i, bytes[i]);
        bytes[i] = 0x5a;
    }
    left = 0x5a;
    uint64_t value = sample == other_sample ? UINT64_MAX : sample;
    if (sample == failing_sample) return status_set(STATUS_FAILED, "sample %d can't be read", (int)sample);
    for (uint32_t f = 0; f < source->field_count; f++) {
        memset(fields[f], 0, source->field_bytes[f]);
        memcpy(fields[f], &value, sizeof value);
    }
    return STATUS_OK;
}

static status identity_of_made(setup *s, uint64_t other, uint64_t failing, identity *i) {
    other_sample = other, failing_sample = failing, left = 0;
    s->train = (data_source){
        .read = read_made, .samples = 40, .field_count = 1, .field_bytes = { 8 }, .scratch_bytes = 500
    };
    return identity_of(s, i);
}

/* Of so few samples all are looked at: each that is other makes it other data, each that can't be read ends
 * it. */
static void each_sample_counts(void **state) {
    (void)state;
    setup s;
    identity all, other;
    setup_options o = setup_defaults();
    scratch_write("config.json", GPT2, sizeof GPT2 - 1);
    o.model = "config.json", o.batch = 1, o.threads = 1;
    if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s", status_message());
    data_source own = s.train;
    assert_int_equal(identity_of_made(&s, UINT64_MAX, UINT64_MAX, &all), STATUS_OK);
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(identity_of_made(&s, i, UINT64_MAX, &other), STATUS_OK);
        if (identity_compare(&all, &other, "run") != STATUS_INVALID) fail_msg("another sample %d", (int)i);
        assert_non_null(strstr(status_message(), "data"));
        assert_int_equal(identity_of_made(&s, UINT64_MAX, i, &other), STATUS_FAILED);
        assert_non_null(strstr(status_message(), "can't be read"));
    }
    s.train = own;
    setup_close(&s);
}

/* Versions before samples were filled by size said "whole" alone: their runs can't go on with other samples.
 */
static void whole_in_order_was_another_run(void **state) {
    (void)state;
    static const uint16_t ids[] = { 1, 2, 3, 4, 5, 6 };
    static const uint64_t ends[] = { 2, 6 };
    const safetensors_item items[] = {
        { .name = "ends", .dtype = "U64", .shape = SHAPE(2), .data = ends, .bytes = sizeof ends },
        { .name = "tokens", .dtype = "U16", .shape = SHAPE(6), .data = ids, .bytes = sizeof ids },
    };
    assert_int_equal(safetensors_write("d.safetensors", items, 2), STATUS_OK);
    scratch_write("config.json", GPT2, strlen(GPT2));
    setup s;
    setup_options o = setup_defaults();
    o.model = "config.json", o.data = "d.safetensors", o.batch = 1, o.threads = 1, o.pack = PACK_WHOLE;
    if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s", status_message());
    identity is, was;
    assert_int_equal(identity_of(&s, &is), STATUS_OK);
    setup_close(&s);
    was = is;
    assert_int_equal(identity_compare(&was, &is, "run"), STATUS_OK);
    for (uint32_t i = 0; i < was.count; i++)
        if (strcmp(was.facts[i].name, "pack") == 0) strcpy(was.facts[i].text, "whole");
    assert_int_equal(identity_compare(&was, &is, "run"), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "--pack was whole and is whole by size"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_number_of_a_model_counts),
                                        cmocka_unit_test(each_sample_counts),
                                        cmocka_unit_test(whole_in_order_was_another_run) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
