/* Every key of a config.json is read, or known to say nothing of what is computed: in the configurations that
 * transformers wrote for the goldens each number and each answer at the top is changed, and then another
 * model must come out, or a refusal. And what is written reads back as what it was. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/model_config.h"

enum { BYTES = 1 << 16, KEY = 64 };

/* KEY, or FILE:KEY where other families read it. Outputs of a library, weights before the first step, what is
 * only used by other tasks or derived from others; and what is passed over with a note: routers' losses,
 * chances of dropping of models that plan only, attention to both sides. */
static const char *const unread[] = {
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
    "encoder_stride",
    "gpt_neox.json:is_decoder",
    "t5.json:is_decoder",
    "t5_gated.json:is_decoder",
    "is_encoder_decoder",
    "is_gated_act",
    "max_window_layers",
    "num_stages",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "phi3.json:original_max_position_embeddings",
    "pooler_act",
    "pooler_output_size",
    "pretraining_tp",
    "qa_dropout",
    "qwen2_moe.json:sliding_window",
    "qwen3_moe.json:decoder_sparse_step",
    "return_dict",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "seq_classif_dropout",
    "sinusoidal_pos_embds",
    "t5.json:pad_token_id",
    "t5_gated.json:pad_token_id",
    "transformers_version",
    "use_bidirectional_attention",
    "use_cache",
    "vit.json:initializer_range",
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

static bool read(const char *json, model_config *c) {
    memset(c, 0, sizeof *c);
    return model_config_parse("config.json", json, c) == STATUS_OK;
}

/* Another value instead of the one in a line like ` "key": 0.5,`; false: it has none of its own. */
static bool change(const char *line, size_t length, char *changed, size_t room, char key[KEY]) {
    int before = 0;
    char value[32] = "";
    if (sscanf(line, " \"%63[^\"]\": %n%31[-+.0-9a-z]", key, &before, value) != 2 || line[1] != '"')
        return false;
    const char *rest = line + before + strlen(value);
    char other[40];
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        snprintf(other, sizeof other, "%s", *value == 't' ? "false" : "true");
    else if (strcmp(value, "null") == 0)
        return false;
    else if (strpbrk(value, ".e"))
        snprintf(other, sizeof other, "%.9g", strtod(value, NULL) * 0.75 + 0.001);
    else
        snprintf(other, sizeof other, "%ld", strtol(value, NULL, 10) + 1);
    snprintf(changed, room, "%.*s%s%.*s", before, line, other, (int)(length - (size_t)(rest - line)), rest);
    return true;
}

static bool is_unread(const char *name, const char *key) {
    char both[512];
    snprintf(both, sizeof both, "%s:%s", name, key);
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        if (strcmp(unread[i], key) == 0 || strcmp(unread[i], both) == 0) return true;
    return false;
}

static int check_keys(const char *name, const char *json, const model_config *c) {
    static char with[BYTES + 256];
    char changed[1024], key[KEY];
    int missed = 0;
    for (const char *line = json; *line;) {
        size_t length = strcspn(line, "\n") + 1;
        model_config other;
        if (change(line, length, changed, sizeof changed, key)) {
            snprintf(with, sizeof with, "%.*s%s%s", (int)(line - json), json, changed, line + length);
            bool same = read(with, &other) && memcmp(c, &other, sizeof other) == 0;
            if (same && !is_unread(name, key)) missed++, print_error("%s: '%s' is not read\n", name, key);
        }
        line += length;
    }
    return missed;
}

/* A value of another kind instead of the one in a line like ` "key": 0.5,`: text for a number, a number for
 * text and for what is true or false. */
static bool spoil(const char *line, size_t length, char *changed, size_t room, char key[KEY]) {
    int before = 0, after = 0;
    if (sscanf(line, " \"%63[^\"]\": %n", key, &before) != 1 || !before || line[1] != '"') return false;
    bool quoted = line[before] == '"', word = line[before] == 't' || line[before] == 'f';
    if (quoted)
        sscanf(line + before, "\"%*[^\"]\"%n", &after);
    else
        sscanf(line + before, "%*[-+.0-9a-z]%n", &after);
    if (!after || strncmp(line + before, "null", 4) == 0) return false;
    snprintf(changed, room, "%.*s%s%.*s", before, line, quoted || word ? "7" : "\"odd\"",
             (int)(length - (size_t)(before + after)), line + before + after);
    return true;
}

/* Of a key that is read, a value of another kind is refused with the key's name: no failure of a reader is
 * dropped. */
static int check_kinds(const char *name, const char *json, const model_config *c) {
    static char with[BYTES + 256];
    char changed[1024], key[KEY];
    int missed = 0;
    (void)c;
    for (const char *line = json; *line;) {
        size_t length = strcspn(line, "\n") + 1;
        model_config other;
        if (spoil(line, length, changed, sizeof changed, key) && !is_unread(name, key)) {
            snprintf(with, sizeof with, "%.*s%s%s", (int)(line - json), json, changed, line + length);
            if (read(with, &other))
                missed++, print_error("%s: '%s' of another kind is taken\n", name, key);
            else if (!strstr(status_message(), key))
                missed++, print_error("%s: '%s' is refused with '%s'\n", name, key, status_message());
        }
        line += length;
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
        if (!read(json, &c)) fail_msg("%s: %s", names[i]->d_name, status_message());
        missed += check(names[i]->d_name, json, &c);
        free(names[i]);
    }
    free(names);
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
    bool same = read(written.data, &again) && memcmp(c, &again, sizeof again) == 0;
    if (!same) print_error("%s: written, it is another: %s\n", name, written.data);
    text_close(&written);
    return !same;
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    for_all(check_writing);
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
            if (!read(json, &c[k])) fail_msg("%s: %s", words[k], status_message());
        }
        if (memcmp(&c[0], &c[1], sizeof c[0]) != 0) fail_msg("%s is not %s", rows[i].older, rows[i].newer);
        if (memcmp(&c[0], &c[2], sizeof c[0]) == 0) fail_msg("%s is not read", rows[i].older);
    }
}

/* In a configuration of images that says nothing else each of these is refused by its key. */
static void wrong_sizes_of_images_are_refused(void **state) {
    (void)state;
    static const char *const types[] = { "vit", "clip_vision_model", "resnet", "convnext" };
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
            if (!read(json, &c)) fail_msg("%s: %s", types[t], status_message());
            snprintf(json, sizeof json, "{\"model_type\": \"%s\", %s}", types[t], rows[i].more);
            if (read(json, &c)) fail_msg("%s is read", json);
            if (!strstr(status_message(), rows[i].key)) fail_msg("%s: %s", json, status_message());
        }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_key_is_read),
                                        cmocka_unit_test(other_kinds_are_refused),
                                        cmocka_unit_test(what_is_written_reads_back),
                                        cmocka_unit_test(older_words_are_read),
                                        cmocka_unit_test(wrong_sizes_of_images_are_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
