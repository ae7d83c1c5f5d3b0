/* Every key of a config.json is read, or known to say nothing of what is computed: in the configurations that
 * transformers wrote for the goldens each number and each answer at the top is changed, and then another
 * model must come out, or a refusal. And what is written reads back as what it was. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/model_config.h"
#include "io/scratch.h"
#include "io/spoil.h"

enum { BYTES = 1 << 15 };

/* KEY, or FILE:KEY, or of several files BEGIN*:KEY, where other families read it: what says nothing here of
 * the models that are computed. */
static const char *const unread[] = {
    "_name_or_path",
    "_sliding_window_pattern",
    "chunk_size_feed_forward",
    "clip_vision.json:attention_probs_dropout_prob",
    "clip_vision.json:hidden_dropout_prob",
    "clip_vision.json:initializer_factor",
    "clip_vision.json:initializer_range",
    "classifier_dropout",
    "convnext.json:drop_path_rate",
    "convnext.json:initializer_range",
    "convnext.json:layer_scale_init_value",
    "dense_act_fn",
    "dinov2*:apply_layernorm",
    "dinov2*:drop_path_rate",
    "dinov2*:initializer_range",
    "dinov2*:layerscale_value",
    "dinov2*:reshape_hidden_states",
    "encoder_stride",
    "falcon*:attention_dropout",
    "falcon.json:num_kv_heads",
    "falcon_narrow.json:multi_query",
    "falcon_wide.json:multi_query",
    "gpt_neox.json:is_decoder",
    "t5*:is_decoder",
    "id2label",
    "is_encoder_decoder",
    "is_gated_act",
    "label2id",
    "modernbert*:cls_token_id",
    "modernbert*:deterministic_flash_attn",
    "modernbert*:initializer_cutoff_factor",
    "modernbert*:sep_token_id",
    "modernbert*:sparse_pred_ignore_index",
    "num_stages",
    "out_features",
    "out_indices",
    "output_attentions",
    "output_hidden_states",
    "phi3.json:original_max_position_embeddings",
    "pooler_act",
    "pooler_output_size",
    "pretraining_tp",
    "qa_dropout",
    "gpt2_classes.json:reorder_and_upcast_attn",
    "gpt2_classes.json:summary_first_dropout",
    "gpt2_classes.json:summary_proj_to_labels",
    "gpt2_classes.json:summary_type",
    "gpt2_classes.json:summary_use_proj",
    "qwen2*:max_window_layers",
    "qwen2_classes.json:layer_types",
    "qwen2_moe.json:layer_types",
    "qwen2_moe.json:sliding_window",
    "qwen3.json:layer_types",
    "qwen3.json:max_window_layers",
    "qwen3_moe*:decoder_sparse_step",
    "qwen3_moe*:max_window_layers",
    "qwen3_yarn.json:layer_types",
    "qwen3_yarn.json:max_window_layers",
    "return_dict",
    "router_jitter_noise",
    "seq_classif_dropout",
    "sinusoidal_pos_embds",
    "smollm3.json:layer_types",
    "smollm3.json:no_rope_layer_interval",
    "smollm3.json:use_sliding_window",
    "stage_names",
    "t5*:pad_token_id",
    "transformers_version",
    "use_bidirectional_attention",
    "use_cache",
    "vit.json:initializer_range",
};

/* Keys that no file of the goldens has. */
#define DECODER                                                                                              \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "                     \
    "\"hidden_size\": 64, \"intermediate_size\": 96, \"max_position_embeddings\": 64, \"vocab_size\": 61"
static const char *const rare[] = {
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 8, \"n_inner\": 24, "
    "\"n_positions\": 8, \"vocab_size\": 9, \"embd_pdrop\": 0.125, \"attn_pdrop\": 0.25, "
    "\"resid_pdrop\": 0.375, \"layer_norm_epsilon\": 0.5, \"tie_word_embeddings\": true, "
    "\"scale_attn_weights\": true, \"scale_attn_by_inverse_layer_idx\": false, "
    "\"add_cross_attention\": false, \"activation_function\": \"gelu\", \"initializer_range\": 0.5}",
    "{\"model_type\": \"llama\", " DECODER ", \"rope_theta\": 5000.0, \"partial_rotary_factor\": 0.5, "
    "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 4.0, \"low_freq_factor\": 1.0, "
    "\"high_freq_factor\": 8.0, \"original_max_position_embeddings\": 16}}",
    "{\"model_type\": \"qwen3\", " DECODER ", \"rope_parameters\": {\"rope_type\": \"yarn\", "
    "\"factor\": 3.0, \"beta_slow\": 2.0, \"beta_fast\": 16.0, \"mscale\": 2.0, "
    "\"mscale_all_dim\": 3.0, \"original_max_position_embeddings\": 12, \"truncate\": false, "
    "\"rope_theta\": 50.0, \"partial_rotary_factor\": 0.5}}",
    "{\"model_type\": \"llama\", " DECODER ", \"rope_scaling\": {\"rope_type\": \"yarn\", "
    "\"factor\": 3.0, \"attention_factor\": 2.0}}",
    "{\"model_type\": \"gemma3_text\", " DECODER ", \"head_dim\": 8, \"rope_theta\": 5000.0, "
    "\"rope_local_base_freq\": 500.0, \"sliding_window\": 6, \"sliding_window_pattern\": 2, "
    "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}}",
    "{\"model_type\": \"gemma3_text\", " DECODER ", \"head_dim\": 8, \"rope_theta\": 1.0, "
    "\"rope_local_base_freq\": 1.0, \"sliding_window\": 6, \"sliding_window_pattern\": 2}",
    "{\"model_type\": \"qwen2\", " DECODER ", \"use_sliding_window\": true, \"sliding_window\": 6, "
    "\"max_window_layers\": 0, \"qk_layernorm\": false}",
    "{\"model_type\": \"qwen2_moe\", " DECODER ", \"num_experts\": 4, \"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 32, \"shared_expert_intermediate_size\": 48, \"mlp_only_layers\": [1], "
    "\"decoder_sparse_step\": 1, \"norm_topk_prob\": true, \"qkv_bias\": false}",
    "{\"model_type\": \"clip\", \"projection_dim\": 8, \"vision_config\": {\"hidden_size\": 16, "
    "\"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"intermediate_size\": 32, "
    "\"hidden_act\": \"gelu\", \"image_size\": [16, 24], \"patch_size\": [8, 8], \"layer_norm_eps\": 0.5, "
    "\"num_channels\": 2, \"attention_dropout\": 0.25}}",
    "{\"model_type\": \"resnet\", \"depths\": [1, 1], \"hidden_sizes\": [8, 16], \"embedding_size\": 8, "
    "\"layer_type\": \"bottleneck\", \"hidden_act\": \"relu\", \"num_labels\": 3}",
    "{\"model_type\": \"convnext\", \"patch_size\": 2, \"depths\": [1, 1], \"hidden_sizes\": [8, 16], "
    "\"hidden_act\": \"gelu\", \"layer_norm_eps\": 0.5, \"image_size\": 32}",
    "{\"model_type\": \"gpt_neox\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"hidden_size\": "
    "64, \"intermediate_size\": 96, \"max_position_embeddings\": 64, \"vocab_size\": 61, "
    "\"rotary_pct\": 0.5, \"rotary_emb_base\": 5000, \"eos_token_id\": [1, 2], \"bos_token_id\": 3}",
    "{\"model_type\": \"convnext\", \"layer_scale_init_value\": 0.0}",
    "{\"model_type\": \"bert\", \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"hidden_size\": 8, "
    "\"intermediate_size\": 24, \"max_position_embeddings\": 8, \"vocab_size\": 9, \"is_decoder\": false, "
    "\"add_cross_attention\": false, \"position_embedding_type\": \"absolute\"}",
    "{\"model_type\": \"modernbert\", \"num_hidden_layers\": 5, \"num_attention_heads\": 2, "
    "\"hidden_size\": 8, \"intermediate_size\": 12, \"max_position_embeddings\": 8, \"vocab_size\": 9, "
    "\"mask_token_id\": 3, \"pad_token_id\": 2, \"global_attn_every_n_layers\": 2, "
    "\"global_rope_theta\": 500.0, \"local_rope_theta\": 50.0, \"local_attention\": 5, "
    "\"rope_scaling\": {\"type\": \"default\"}, \"classifier_pooling\": \"mean\", "
    "\"hidden_activation\": \"gelu_pytorch_tanh\", \"embedding_dropout\": 0.125, \"mlp_dropout\": 0.25}",
    "{\"model_type\": \"t5\", \"num_layers\": 2, \"num_heads\": 2, \"d_kv\": 4, \"d_model\": 8, \"d_ff\": "
    "16, \"vocab_size\": 61, \"n_positions\": 32, \"scale_decoder_outputs\": true}",
};

static const char *const folder = SNUG_ROOT "/tests/golden";

static char *contents(const char *name) {
    char path[4096];
    static char bytes[BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    bytes[fread(bytes, 1, sizeof bytes - 1, file)] = 0;
    fclose(file);
    return bytes;
}

static bool reads(const char *json, model_config *c) {
    memset(c, 0, sizeof *c);
    return model_config_parse("config.json", json, c) == STATUS_OK;
}

/* Another value instead of number or answer i; NULL: it is neither. */
static const char *change(const spoil_text *t, int i) {
    const spoil_value *v = &t->at[i];
    char other[40];
    int length = (int)(v->end - v->begin);
    if (spoil_is_word(v)) return spoil_replaced(t, i, *v->begin == 't' ? "false" : "true");
    if (!spoil_is_number(v)) return NULL;
    if (memchr(v->begin, '.', (size_t)length) || memchr(v->begin, 'e', (size_t)length))
        snprintf(other, sizeof other, "%.9g", strtod(v->begin, NULL) * 0.75 + 0.001);
    else
        snprintf(other, sizeof other, "%ld", strtol(v->begin, NULL, 10) + 1);
    return spoil_replaced(t, i, other);
}

/* Is its key, or one around it, of those that say nothing? */
static bool is_unread(const char *name, const spoil_text *t, int i) {
    char key[SPOIL_KEY], both[512];
    for (; i > 0; i = t->at[i].above) {
        snprintf(both, sizeof both, "%s:%s", name, spoil_key(t, i, key));
        for (size_t k = 0; k < sizeof unread / sizeof *unread; k++)
            if (strcmp(unread[k], key) == 0 || fnmatch(unread[k], both, 0) == 0) return true;
    }
    return false;
}

static int check_keys(const char *name, const char *json, const model_config *c) {
    static spoil_text t;
    char key[SPOIL_KEY];
    int missed = 0;
    spoil_read(&t, json);
    for (int i = 1; i < t.count; i++) {
        model_config other;
        const char *with = change(&t, i);
        bool same = with && reads(with, &other) && memcmp(c, &other, sizeof other) == 0;
        if (same && !is_unread(name, &t, i))
            missed++, print_error("%s: '%s' is not read\n", name, spoil_key(&t, i, key));
    }
    return missed;
}

/* Of a key that is read, a value of another kind is refused with the key's name: no failure of a reader is
 * dropped. */
static int check_kinds(const char *name, const char *json, const model_config *c) {
    static spoil_text t;
    char key[SPOIL_KEY];
    int missed = 0;
    (void)c;
    spoil_read(&t, json);
    for (int i = 1; i < t.count; i++) {
        model_config other;
        if (spoil_is_null(&t.at[i]) || is_unread(name, &t, i)) continue;
        spoil_key(&t, i, key);
        if (reads(spoil_replaced(&t, i, spoil_other(&t.at[i])), &other))
            missed++, print_error("%s: '%s' of another kind is taken\n", name, key);
        else if (!strstr(status_message(), key) || !strstr(status_message(), "must be"))
            missed++, print_error("%s: '%s' is refused with '%s'\n", name, key, status_message());
    }
    return missed;
}

/* Sizes and counts are whole numbers from 1 on, shares, chances and what is added to a divisor are up to 1;
 * these are other. The lower end of some is of another key beside them. */
static const char *range_of(const char *key, bool whole) {
    static const struct {
        const char *key, *range;
    } others[] = {
        { "alpha", "a number from 1 to 1e+06 " },
        { "attention_factor", "a number from 1e-06 to 1e+06 " },
        { "attention_multiplier", "a number from 1e-06 to 1e+06 " },
        { "attn_logit_softcapping", "a number from 0.001 to 1e+09 " },
        { "beta_fast", " to 1e+07 " },
        { "beta_slow", "a number from 1e-06 to 1e+06 " },
        { "bos_token_id", "a whole number from 0 to 2147483647 " },
        { "clip_qkv", "a number from 1e-06 to 1e+09 " },
        { "decoder_start_token_id", "a whole number from 0 to 2147483647 " },
        { "eos_token_id", "a whole number from 0 to 2147483647 " },
        { "embedding_multiplier", "a number from 1e-06 to 1e+06 " },
        { "factor", "a number from 1 to 1e+06 " },
        { "global_rope_theta", "a number from 1 to 1e+12 " },
        { "local_rope_theta", "a number from 1 to 1e+12 " },
        { "mask_token_id", "a whole number from 0 to 2147483647 " },
        { "final_logit_softcapping", "a number from 0.001 to 1e+09 " },
        { "high_freq_factor", " to 1e+07 " },
        { "initializer_factor", "a number from 0 to 1000 " },
        { "initializer_range", "a number from 0 to 10 " },
        { "logit_scale", "a number from 1e-06 to 1e+06 " },
        { "logits_scaling", "a number from 1e-06 to 1e+06 " },
        { "low_freq_factor", "a number from 1e-06 to 1e+06 " },
        { "layer_scale_init_value", "a number from 0 to 1e+06 " },
        { "max_window_layers", "a whole number from 0 to 2147483647 " },
        { "mlp_ratio", "a number from 0.001 to 10000 " },
        { "mlp_only_layers", "a whole number from 0 to 2147483647 " },
        { "mscale", "a number from 0 to 1e+06 " },
        { "mscale_all_dim", "a number from 0 to 1e+06 " },
        { "original_max_position_embeddings", "a number from 1 to 1e+12 " },
        { "pad_token_id", "a whole number from 0 to 2147483647 " },
        { "no_rope_layers", "a whole number from 0 to 1 " },
        { "num_ln_in_parallel_attn", "a whole number from 1 to 2 " },
        { "query_pre_attn_scalar", "a number from 1 to 1e+09 " },
        { "residual_multiplier", "a number from 1e-06 to 1e+06 " },
        { "router_aux_loss_coef", "a number from 0 to 1e+06 " },
        { "rope_local_base_freq", "a number from 1 to 1e+12 " },
        { "rotary_emb_base", "a number from 1 to 1e+12 " },
        { "rope_theta", "a number from 1 to 1e+12 " },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].key, key) == 0) return others[i].range;
    return whole ? "a whole number from 1 to 2147483647 " : "a number from 0 to 1 ";
}

/* What is beyond every range is refused with the one that the key has. */
static int check_ranges(const char *name, const char *json, const model_config *c) {
    static spoil_text t;
    char key[SPOIL_KEY], said[1024];
    int missed = 0;
    (void)c;
    spoil_read(&t, json);
    for (int i = 1; i < t.count; i++) {
        model_config other;
        if (!spoil_is_number(&t.at[i]) || is_unread(name, &t, i)) continue;
        spoil_key(&t, i, key);
        bool taken = reads(spoil_replaced(&t, i, "-7e30"), &other);
        snprintf(said, sizeof said, "%s ", taken ? "nothing" : status_message());
        const char *range = range_of(key, strstr(said, "whole") != NULL);
        if (!strstr(said, range))
            missed++, print_error("%s: '%s' is not said to be%s but %s\n", name, key, range, said);
    }
    return missed;
}

/* A word that nobody knows is refused by its key, or makes a model that only plans. */
static int check_words(const char *name, const char *json, const model_config *c) {
    static spoil_text t;
    char key[SPOIL_KEY];
    int missed = 0;
    spoil_read(&t, json);
    for (int i = 1; i < t.count; i++) {
        model_config other;
        if (*t.at[i].begin != '"' || is_unread(name, &t, i)) continue;
        bool taken = reads(spoil_replaced(&t, i, "\"odd\""), &other);
        spoil_key(&t, i, key);
        if (taken ? memcmp(c, &other, sizeof other) == 0 : !strstr(status_message(), key))
            missed++, print_error("%s: '%s': %s\n", name, key, taken ? "taken" : status_message());
    }
    return missed;
}

/* What is left out has a value that stands for silence, or is missed by its key; or that value does not go
 * with another. */
static int check_silence(const char *name, const char *json, const model_config *c) {
    static spoil_text t;
    char key[SPOIL_KEY];
    int missed = 0;
    (void)c;
    spoil_read(&t, json);
    for (int i = 1; i < t.count; i++) {
        model_config other;
        if (reads(spoil_left_out(&t, i), &other) || strstr(status_message(), spoil_key(&t, i, key))) continue;
        if (t.at[i].key && !strstr(status_message(), "must be"))
            missed++, print_error("%s: without '%s': %s\n", name, key, status_message());
    }
    return missed;
}

static int is_config(const struct dirent *d) { return strstr(d->d_name, ".json") != NULL; }

static void for_all(int (*check)(const char *name, const char *json, const model_config *c)) {
    struct dirent **names;
    int count = scandir(folder, &names, is_config, alphasort), missed = 0;
    assert_true(count > 20);
    for (int i = 0; i < count; i++) {
        model_config c;
        const char *json = contents(names[i]->d_name);
        if (!reads(json, &c)) fail_msg("%s: %s", names[i]->d_name, status_message());
        missed += check(names[i]->d_name, json, &c);
        free(names[i]);
    }
    free(names);
    for (size_t i = 0; i < sizeof rare / sizeof *rare; i++) {
        char name[16];
        model_config c;
        snprintf(name, sizeof name, "rare %zu", i);
        if (!reads(rare[i], &c)) fail_msg("%s: %s", rare[i], status_message());
        missed += check(name, rare[i], &c);
    }
    assert_int_equal(missed, 0);
}

static void every_key_is_read(void **state) {
    (void)state;
    for_all(check_keys);
}

static void other_kinds_are_refused(void **state) {
    (void)state;
    for_all(check_kinds);
}

static int check_writing(const char *name, const char *json, const model_config *c) {
    model_config again;
    text written = { 0 };
    (void)json;
    model_config_text(c, &written);
    assert_non_null(written.data);
    bool same = reads(written.data, &again) && memcmp(c, &again, sizeof again) == 0;
    if (!same) print_error("%s: written, it is another: %s\n", name, written.data);
    const char *list = strstr(written.data, "\"architectures\"");
    size_t named = list ? strspn(list + strcspn(list, "[") + 1, " \n\"") : 0;
    bool named_class = list && isupper((unsigned char)list[strcspn(list, "[") + 1 + named]);
    if (!named_class) print_error("%s: written, it names no class: %s\n", name, written.data);
    text_close(&written);
    return !same || !named_class;
}

static void ranges_are_said(void **state) {
    (void)state;
    for_all(check_ranges);
}

static void what_is_left_out_is_silent_or_missed(void **state) {
    (void)state;
    for_all(check_silence);
    model_config c;
    assert_false(reads("{\"model_type\": \"clip\"}", &c));
    assert_non_null(strstr(status_message(), "'vision_config' is missing"));
}

static void unknown_words_are_refused(void **state) {
    (void)state;
    for_all(check_words);
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    for_all(check_writing);
}

/* The words of either generation of transformers say all of rotary positions: without the others the same
 * model is read. */
static int check_generations(const char *name, const char *json, const model_config *c) {
    static const char *const newer[] = { "rope_parameters", NULL },
                             *const older[] = { "rope_theta", "rope_scaling",         "rotary_emb_base",
                                                "rotary_pct", "rope_local_base_freq", "partial_rotary_factor",
                                                NULL },
                             *const *const leave_out[] = { newer, older };
    static spoil_text t;
    static char text_of[SPOIL_BYTES];
    int missed = 0;
    (void)json;
    for (int k = 0; k < 2; k++) {
        text written = { 0 };
        model_config other;
        model_config_text(c, &written);
        snprintf(text_of, sizeof text_of, "%s", written.data);
        text_close(&written);
        for (const char *const *key = leave_out[k]; *key; key++) {
            char is[SPOIL_KEY];
            int found = 0;
            spoil_read(&t, text_of);
            for (int i = 1; i < t.count; i++)
                if (t.at[i].above == 0 && strcmp(spoil_key(&t, i, is), *key) == 0) found = i;
            if (found) snprintf(text_of, sizeof text_of, "%s", spoil_left_out(&t, found));
        }
        if (!reads(text_of, &other) || memcmp(c, &other, sizeof other) != 0)
            missed++, print_error("%s: not the same without %s: %s\n", name, *leave_out[k], text_of);
    }
    return missed;
}

static void either_generation_says_all(void **state) {
    (void)state;
    for_all(check_generations);
}

/* Positions that are stretched are so by a factor. */
static void a_factor_is_needed(void **state) {
    (void)state;
    static const char *const kinds[] = { "linear", "yarn", "llama3" };
    for (int i = 0; i < 6; i++) {
        char json[1024];
        model_config c;
        snprintf(json, sizeof json,
                 "{\"model_type\": \"llama\", " DECODER ", \"rope_scaling\": {\"rope_type\": \"%s\", %s"
                 "\"low_freq_factor\": 1.0, \"high_freq_factor\": 8.0, "
                 "\"original_max_position_embeddings\": 16}}",
                 kinds[i / 2], i % 2 ? "\"factor\": 4.0, " : "");
        assert_int_equal(reads(json, &c), i % 2);
        if (i % 2 == 0 && !strstr(status_message(), "'factor' in 'rope_scaling' is missing"))
            fail_msg("%s: %s", kinds[i / 2], status_message());
    }
}

/* Of yarn the scales of attention count only where both are given. */
static void one_scale_alone_says_nothing(void **state) {
    (void)state;
    static const char *const scales[] = { "",
                                          ", \"mscale\": 2.0",
                                          ", \"mscale_all_dim\": 2.0",
                                          ", \"mscale\": 2.0, \"mscale_all_dim\": 0.0",
                                          ", \"mscale\": 0.0, \"mscale_all_dim\": 2.0",
                                          ", \"mscale\": 2.0, \"mscale_all_dim\": 3.0" };
    model_config c[6];
    for (int i = 0; i < 6; i++) {
        char json[1024];
        snprintf(json, sizeof json,
                 "{\"model_type\": \"qwen3\", " DECODER
                 ", \"head_dim\": 8, \"rope_scaling\": {\"rope_type\": "
                 "\"yarn\", \"factor\": 3.0, \"original_max_position_embeddings\": 12%s}}",
                 scales[i]);
        if (!reads(json, &c[i])) fail_msg("%s: %s", json, status_message());
    }
    for (int i = 1; i < 5; i++) assert_memory_equal(&c[0], &c[i], sizeof c[0]);
    assert_memory_not_equal(&c[0], &c[5], sizeof c[0]);
}

/* Where a file is silent: what the classes of transformers 5 have. */
static void silence_means_what_transformers_has(void **state) {
    (void)state;
    static const struct {
        const char *type;
        double epsilon;
    } decoders[] = { { "llama", 1e-6 }, { "mistral", 1e-6 }, { "mixtral", 1e-5 }, { "qwen2", 1e-6 },
                     { "qwen3", 1e-6 }, { "gemma", 1e-6 },   { "gemma2", 1e-6 },  { "phi", 1e-5 },
                     { "phi3", 1e-5 },  { "olmoe", 1e-5 } };
    char json[512];
    model_config c;
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++) {
        snprintf(json, sizeof json, "{\"model_type\": \"%s\", " DECODER "}", decoders[i].type);
        if (!reads(json, &c)) fail_msg("%s: %s", json, status_message());
        if (c.decoder.epsilon != decoders[i].epsilon) fail_msg("%s: %g", decoders[i].type, c.decoder.epsilon);
    }
    static const char *const images[] = { "vit", "clip_vision_model" };
    for (size_t i = 0; i < 2; i++) {
        snprintf(json, sizeof json, "{\"model_type\": \"%s\"}", images[i]);
        if (!reads(json, &c)) fail_msg("%s: %s", json, status_message());
        assert_int_equal(c.vit.layers, 12);
        assert_int_equal(c.vit.heads, 12);
        assert_int_equal(c.vit.channels, 768);
        assert_int_equal(c.vit.inner, 3072);
        assert_int_equal(c.vit.patch, i ? 32 : 16);
        assert_int_equal(c.vit.task.height, 224);
        assert_int_equal(c.vit.task.width, 224);
        assert_int_equal(c.vit.task.channels, 3);
        assert_int_equal(c.vit.task.labels, i ? 512 : 2);
    }
    for (int newer = 0; newer < 2; newer++) {
        snprintf(json, sizeof json,
                 "{\"model_type\": \"%s\", \"num_layers\": 2, \"num_heads\": 2, \"d_kv\": 4, \"d_model\": 8, "
                 "\"d_ff\": 16, \"vocab_size\": 61}",
                 newer ? "mt5" : "t5");
        if (!reads(json, &c)) fail_msg("%s: %s", json, status_message());
        assert_int_equal(c.t5.buckets, 32);
        assert_int_equal(c.t5.farthest, 128);
        assert_int_equal(c.t5.decoder_layers, 2);
        assert_true(c.t5.factor == 1 && c.t5.dropout == 0.1 && c.t5.epsilon == 1e-6);
        assert_int_equal(c.t5.gated, newer);
        assert_int_equal(c.t5.tied, !newer);
    }
}

/* What ends too early is no JSON; what is JSON and no object says so. Both name the file. */
static void what_is_no_object_is_refused(void **state) {
    (void)state;
    model_config c;
    assert_false(reads("{\"model_type\": \"vit\"", &c));
    assert_non_null(strstr(status_message(), "config.json is not JSON"));
    assert_false(reads("[]", &c));
    assert_non_null(strstr(status_message(), "must be an object"));
}

/* What a path leads to that is no configuration is said by its name, and what can't be written too. */
static void folders_are_looked_at(void **state) {
    (void)state;
    model_config c;
    assert_int_equal(model_config_read("/nowhere", &c, NULL), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "/nowhere"));
    assert_int_equal(model_config_read(SNUG_ROOT "/tests/io", &c, NULL), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "has no config.json"));
    assert_true(reads("{\"model_type\": \"vit\"}", &c));
    assert_int_equal(model_config_write("/nowhere", &c, NULL), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "/nowhere/config.json"));
}

/* A list of sizes, of stages or of layers that is empty or too long says how many there should be. */
static void lists_of_other_lengths_are_refused(void **state) {
    (void)state;
    static const char *const keys[] = { "hidden_sizes", "depths", "image_size", "patch_size" };
    model_config c;
    assert_false(reads("{\"model_type\": \"resnet\", \"hidden_sizes\": [], \"depths\": []}", &c));
    assert_non_null(strstr(status_message(), "hidden_sizes"));
    static const char *const lists[] = { "[]", "[4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]" };
    for (size_t k = 0; k < 2 * sizeof keys / sizeof *keys; k++) {
        char json[512];
        snprintf(json, sizeof json, "{\"model_type\": \"convnext\", \"%s\": %s}", keys[k / 2], lists[k % 2]);
        if (reads(json, &c)) fail_msg("%s is read", json);
        if (!strstr(status_message(), keys[k / 2]) || !strstr(status_message(), " items"))
            fail_msg("%s: %s", json, status_message());
    }
}

/* Layers have a bit each, also those behind the first 64, and there is none behind the last. */
static void every_layer_has_a_bit(void **state) {
    (void)state;
    enum { LAYERS = 70 };
    char json[1024];
    model_config c;
#define SIZES                                                                                                \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"hidden_size\": 64, "                          \
    "\"intermediate_size\": 96, \"max_position_embeddings\": 64, \"vocab_size\": 61"
    for (int dense = 0; dense <= LAYERS; dense++) {
        snprintf(json, sizeof json,
                 "{\"model_type\": \"qwen2_moe\", \"num_hidden_layers\": %d, " SIZES
                 ", \"mlp_only_layers\": [%d]}",
                 LAYERS, dense);
        bool taken = reads(json, &c);
        if (taken != (dense < LAYERS)) fail_msg("%s: %s", json, status_message());
        for (int i = 0; i < LAYERS && taken; i++)
            assert_int_equal(decoder_experts_at(&c.decoder.experts, i), i != dense);
        if (!taken) assert_non_null(strstr(status_message(), "is 70, and there are 70 layers"));
    }
    snprintf(json, sizeof json,
             "{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": %d, " SIZES
             ", \"head_dim\": 8, \"sliding_window\": 6, \"sliding_window_pattern\": 6}",
             LAYERS);
    if (!reads(json, &c)) fail_msg("%s: %s", json, status_message());
    for (int i = 0; i < LAYERS; i++) assert_int_equal(decoder_sees_far(&c.decoder, i), (i + 1) % 6 == 0);
    if (!reads("{\"model_type\": \"resnet\", \"hidden_sizes\": [8], \"depths\": [1]}", &c))
        fail_msg("%s", status_message());
    assert_int_equal(c.resnet.stages, 1);
}

static void notes_of(const char *json, text *notes) {
    model_config c;
    scratch_write("it.json", json, strlen(json));
    if (model_config_read("it.json", &c, notes) != STATUS_OK) fail_msg("%s: %s", json, status_message());
}

/* Nothing that is read is noted as ignored, in no family; what nobody knows is, or is counted. */
static int check_notes(const char *name, const char *json, const model_config *c) {
    static spoil_text t;
    char key[SPOIL_KEY], quoted[SPOIL_KEY + 2];
    int missed = 0;
    text notes = { 0 };
    (void)c;
    spoil_read(&t, json);
    notes_of(json, &notes);
    for (int i = 1; i < t.count; i++) {
        if (t.at[i].above != 0 || is_unread(name, &t, i)) continue;
        snprintf(quoted, sizeof quoted, " %s", spoil_key(&t, i, key));
        if (notes.data && strstr(notes.data, quoted)) missed++, print_error("%s: %s\n", name, notes.data);
    }
    for (int unknown = 1; unknown < 12; unknown++) {
        static char with[SPOIL_BYTES];
        size_t n = (size_t)snprintf(with, sizeof with, "{");
        text more = { 0 };
        int named = 0, counted = 0;
        for (int k = 0; k < unknown; k++)
            n += (size_t)snprintf(with + n, sizeof with - n, "\"nobodys_%d\": %d, ", k, k);
        snprintf(with + n, sizeof with - n, "%s", strchr(json, '{') + 1);
        notes_of(with, &more);
        for (const char *at = more.data; at && (at = strstr(at, "nobodys_")); at++) named++;
        const char *rest = more.data ? strstr(more.data, " and ") : NULL;
        if (rest) counted = atoi(rest + 5);
        if (!notes.length && named + counted != unknown)
            missed++, print_error("%s: of %d: %s\n", name, unknown, more.data ? more.data : "nothing");
        text_close(&more);
    }
    text_close(&notes);
    return missed;
}

static void what_is_ignored_is_noted(void **state) {
    (void)state;
    for_all(check_notes);
}

/* Words that other libraries look for, and the names that functions go by. */
static void others_can_read_it(void **state) {
    (void)state;
    static const char *const functions[] = { "gelu_new", "gelu_pytorch_tanh", "gelu" };
    static const char *const words[] = { "\"GPT2LMHeadModel\"",         "\"n_ctx\": 32",
                                         "\"n_inner\": null",           "\"use_cache\": true",
                                         "\"bos_token_id\": 50256",     "\"eos_token_id\": 50256",
                                         "\"torch_dtype\": \"float32\"" };
    for (int i = 0; i < 3; i++) {
        char json[512];
        model_config c;
        text written = { 0 };
        snprintf(
            json, sizeof json,
            "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 8, \"n_positions\": 32, "
            "\"vocab_size\": 50257, \"activation_function\": \"%s\"}",
            functions[i]);
        if (!reads(json, &c)) fail_msg("%s: %s", json, status_message());
        assert_int_equal(c.gpt2.tanh, i < 2);
        model_config_text(&c, &written);
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (!strstr(written.data, words[k])) fail_msg("no %s in %s", words[k], written.data);
        text_close(&written);
    }
}

/* Of images the class tells others what the outputs are. */
static void others_know_the_class(void **state) {
    (void)state;
    static const struct {
        const char *type, *written;
    } rows[] = { { "vit", "ViTForImageClassification" },
                 { "modernbert", "ModernBertForMaskedLM" },
                 { "dinov2", "Dinov2ForImageClassification" },
                 { "clip_vision_model", "CLIPVisionModelWithProjection" },
                 { "resnet", "ResNetForImageClassification" },
                 { "convnext", "ConvNextForImageClassification" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[128];
        model_config c;
        text written = { 0 };
        json_document d;
        json_value list;
        const char *said;
        size_t count;
        snprintf(json, sizeof json, "{\"model_type\": \"%s\"}", rows[i].type);
        if (!reads(json, &c)) fail_msg("%s: %s", json, status_message());
        model_config_text(&c, &written);
        assert_int_equal(json_parse("written", written.data, written.length, &d), STATUS_OK);
        assert_int_equal(json_get(d.root, "architectures", &list), STATUS_OK);
        assert_int_equal(json_as_array(list, &count), STATUS_OK);
        assert_int_equal(count, 1);
        assert_int_equal(json_as_string(json_item(list, 0), &said), STATUS_OK);
        assert_string_equal(said, rows[i].written);
        json_close(&d);
        text_close(&written);
    }
}

/* A word that older files have says what the newer one does; where it is absent, another model comes out. */
static void older_words_are_read(void **state) {
    (void)state;
    static const struct {
        const char *type, *older, *newer;
    } rows[] = {
        { "gpt_neox", "\"rotary_pct\": 0.5", "\"partial_rotary_factor\": 0.5" },
        { "gpt_neox", "\"rotary_emb_base\": 5000", "\"rope_theta\": 5000" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        model_config c[3];
        const char *words[] = { rows[i].older, rows[i].newer, "\"use_cache\": true" };
        for (int k = 0; k < 3; k++) {
            char json[1024];
            snprintf(json, sizeof json,
                     "{\"model_type\": \"%s\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
                     "\"num_attention_heads\": 2, \"intermediate_size\": 64, \"vocab_size\": 61, "
                     "\"max_position_embeddings\": 32, %s}",
                     rows[i].type, words[k]);
            if (!reads(json, &c[k])) fail_msg("%s: %s", words[k], status_message());
        }
        if (memcmp(&c[0], &c[1], sizeof c[0]) != 0) fail_msg("%s is not %s", rows[i].older, rows[i].newer);
        if (memcmp(&c[0], &c[2], sizeof c[0]) == 0) fail_msg("%s is not read", rows[i].older);
    }
}

/* Heads that are turned as a whole: said where silence means a part of them, and nowhere else. */
static void whole_heads_are_said(void **state) {
    (void)state;
#define WHOLE                                                                                                \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"hidden_size\": 64, "                            \
    "\"intermediate_size\": 96, \"max_position_embeddings\": 64, \"vocab_size\": 61"
    static const struct {
        const char *type, *word;
        int times;
    } rows[] = { { "gpt_neox", "\"rotary_pct\": 1", 1 },
                 { "phi", "\"partial_rotary_factor\": 1", 2 },
                 { "llama", "\"partial_rotary_factor\"", 0 },
                 { "llama", "\"rotary_pct\"", 0 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[512];
        model_config c, other;
        text written = { 0 };
        int times = 0;
        snprintf(json, sizeof json,
                 "{\"model_type\": \"%s\", " WHOLE ", \"partial_rotary_factor\": 1, \"rotary_pct\": 1}",
                 rows[i].type);
        if (!reads(json, &c)) fail_msg("%s: %s", json, status_message());
        model_config_text(&c, &written);
        for (const char *at = written.data; (at = strstr(at, rows[i].word)); at++) times++;
        if (times != rows[i].times)
            fail_msg("%s: %d times %s: %s", rows[i].type, times, rows[i].word, written.data);
        if (!reads(written.data, &other) || memcmp(&c, &other, sizeof c) != 0)
            fail_msg("%s: another model is read: %s", rows[i].type, written.data);
        text_close(&written);
    }
#undef WHOLE
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_key_is_read),
                                        cmocka_unit_test(other_kinds_are_refused),
                                        cmocka_unit_test(ranges_are_said),
                                        cmocka_unit_test(unknown_words_are_refused),
                                        cmocka_unit_test(every_layer_has_a_bit),
                                        cmocka_unit_test(what_is_ignored_is_noted),
                                        cmocka_unit_test(others_can_read_it),
                                        cmocka_unit_test(others_know_the_class),
                                        cmocka_unit_test(what_is_left_out_is_silent_or_missed),
                                        cmocka_unit_test(folders_are_looked_at),
                                        cmocka_unit_test(what_is_written_reads_back),
                                        cmocka_unit_test(older_words_are_read),
                                        cmocka_unit_test(either_generation_says_all),
                                        cmocka_unit_test(a_factor_is_needed),
                                        cmocka_unit_test(one_scale_alone_says_nothing),
                                        cmocka_unit_test(silence_means_what_transformers_has),
                                        cmocka_unit_test(what_is_no_object_is_refused),
                                        cmocka_unit_test(lists_of_other_lengths_are_refused),
                                        cmocka_unit_test(whole_heads_are_said) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
