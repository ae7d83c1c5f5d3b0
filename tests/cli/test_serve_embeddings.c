/* Vectors of texts: what the model's folder says of pooling, beside hidden states that are asked for one by
 * one, and the logits that those make. */
#define _GNU_SOURCE
#include "cli/serving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "sanitized.h"

enum { MOST_WIDTH = 64, LONGEST = 40, TEXTS = 16 };

static bool left_out;
static char answer[SERVING_ANSWER];
static int width;

typedef struct {
    double x[MOST_WIDTH];
} vector;

/* ---- asking ---- */

static void take_base64(const char *letters, vector *v) {
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char bytes[MOST_WIDTH * 4 + 3];
    size_t n = 0;
    assert_int_equal(strlen(letters) % 4, 0);
    for (const char *at = letters; *at; at += 4) {
        uint32_t group = 0;
        for (int k = 0; k < 4; k++)
            group = group << 6 | (uint32_t)(at[k] == '=' ? 0 : strchr(all, at[k]) - all);
        for (int k = 2; k >= 0; k--)
            if (at[3 - k] != '=') bytes[n++] = (unsigned char)(group >> (8 * k));
    }
    assert_int_equal(n % 4, 0);
    width = (int)(n / 4);
    for (int i = 0; i < width; i++) {
        float x;
        memcpy(&x, bytes + 4 * i, 4);
        v->x[i] = (double)x;
    }
}

static void take_list(json_value list, vector *v) {
    size_t n;
    assert_int_equal(json_as_array(list, &n), STATUS_OK);
    assert_in_range(n, 1, MOST_WIDTH);
    width = (int)n;
    for (int i = 0; i < width; i++) {
        assert_int_equal(json_as_number(json_item(list, (size_t)i), -1e9, 1e9, &v->x[i]), STATUS_OK);
        v->x[i] = (double)(float)v->x[i]; /* it has as many digits as that needs */
    }
}

/* `fields` of a request; how many vectors come, and the tokens that are counted. */
static int ask(const char *fields, vector *out, int64_t *tokens) {
    char body[4096];
    json_document d;
    json_value data, item, usage;
    size_t count;
    int64_t index, all;
    const char *word;
    snprintf(body, sizeof body, "{%s}", fields);
    int code = serving_post("/v1/embeddings", body, answer);
    if (code != 200) fail_msg("%s is answered with %d: %s", body, code, answer);
    const char *said = serving_body(answer);
    if (json_parse("answer", said, strlen(said), &d) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(json_get(d.root, "data", &data), STATUS_OK);
    assert_int_equal(json_as_array(data, &count), STATUS_OK);
    assert_in_range(count, 1, TEXTS);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(json_get_integer(json_item(data, i), "index", 0, TEXTS, &index), STATUS_OK);
        assert_int_equal(index, i);
        assert_int_equal(json_get(json_item(data, i), "embedding", &item), STATUS_OK);
        if (json_is_array(item)) {
            take_list(item, &out[i]);
        } else {
            assert_int_equal(json_as_string(item, &word), STATUS_OK);
            take_base64(word, &out[i]);
        }
    }
    assert_int_equal(json_get(d.root, "usage", &usage), STATUS_OK);
    assert_int_equal(json_get_integer(usage, "prompt_tokens", 0, 9999, tokens), STATUS_OK);
    assert_int_equal(json_get_integer(usage, "total_tokens", 0, 9999, &all), STATUS_OK);
    assert_int_equal(*tokens, all);
    json_close(&d);
    return (int)count;
}

static void assert_near(const vector *a, const vector *b, double most, const char *what) {
    for (int i = 0; i < width; i++)
        if (!(fabs(a->x[i] - b->x[i]) <= most))
            fail_msg("%s: number %d is %.9g, and not %.9g", what, i, a->x[i], b->x[i]);
}

/* ---- folders ---- */

/* "pooled": the model with this list of modules and this Pooling module; NULL: no such file. */
static void make_folder(const char *modules, const char *config) {
    command_shell("rm -rf pooled && cp -r model pooled && mkdir pooled/1_Pooling");
    char line[1024];
    if (modules) {
        snprintf(line, sizeof line, "cat >pooled/modules.json <<'END'\n%s\nEND", modules);
        command_shell(line);
    }
    if (!config) return;
    snprintf(line, sizeof line, "cat >pooled/1_Pooling/config.json <<'END'\n%s\nEND", config);
    command_shell(line);
}

#define TRANSFORMER "{\"idx\": 0, \"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"}"
#define POOLING "{\"idx\": 1, \"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}"
#define NORMALIZE                                                                                            \
    "{\"idx\": 2, \"path\": \"2_Normalize\", \"type\": \"sentence_transformers.models.Normalize\"}"

static const char words[] = "the quick brown fox jumps over 'em all";

/* The hidden state of each of the tokens, as that of the last one of what they begin with. */
static int ask_states(vector *states) {
    char fields[LONGEST + 64];
    int64_t tokens;
    int n = (int)strlen(words);
    for (int i = 0; i < n; i++) {
        snprintf(fields, sizeof fields, "\"input\": \"%.*s\"", i + 1, words);
        assert_int_equal(ask(fields, &states[i], &tokens), 1);
        assert_int_equal(tokens, i + 1);
    }
    return n;
}

/* ---- what a hidden state is ---- */

/* The logits that it makes by the embedding of gpt2's words are those that a token is drawn from. */
static void assert_logits(const vector *state) {
    static float table[256 * MOST_WIDTH];
    safetensors s;
    if (safetensors_open("model/model.safetensors", &s) != STATUS_OK) fail_msg("%s", status_message());
    const safetensors_entry *e = safetensors_find(&s, "transformer.wte.weight");
    if (!e) e = safetensors_find(&s, "wte.weight");
    assert_non_null(e);
    assert_int_equal(safetensors_read(&s, e, table, sizeof(float) * 256 * (size_t)width), STATUS_OK);
    double best = -INFINITY, sum = 0, logits[256], said;
    for (int id = 0; id < 256; id++) {
        logits[id] = 0;
        for (int i = 0; i < width; i++) logits[id] += state->x[i] * (double)table[id * width + i];
        if (logits[id] > best) best = logits[id];
    }
    for (int id = 0; id < 256; id++) sum += exp(logits[id] - best);
    char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\": \"%s\", \"max_tokens\": 1, \"temperature\": 0, \"logprobs\": 0}", words);
    assert_int_equal(serving_post("/v1/completions", body, answer), 200);
    const char *at = strstr(answer, "\"token_logprobs\":[");
    assert_non_null(at);
    said = atof(at + strlen("\"token_logprobs\":["));
    assert_true(fabs(said + log(sum)) < 1e-5); /* the likeliest's is minus the logarithm of that sum */
    safetensors_close(&s);
}

static void pooling_is_the_folders(void **state) {
    (void)state;
    if (left_out) return;
    static vector states[LONGEST], got[TEXTS];
    static const struct {
        const char *name, *config;
    } kinds[] = { { "mean", "{\"word_embedding_dimension\": 32, \"pooling_mode_mean_tokens\": true, "
                            "\"pooling_mode_cls_token\": false}" },
                  { "cls", "{\"pooling_mode\": \"cls\"}" },
                  { "last", "{\"pooling_mode_lasttoken\": true, \"include_prompt\": true}" },
                  { "weighted", "{\"pooling_mode_weightedmean_tokens\": true}" } };
    char fields[128];
    int64_t tokens;
    make_folder("[" TRANSFORMER ", " POOLING "]", kinds[2].config);
    serving_start_model("pooled", "");
    int n = ask_states(states);
    command_result r = serving_stop();
    command_free(&r);
    serving_start("");
    assert_logits(&states[n - 1]);
    r = serving_stop();
    command_free(&r);
    snprintf(fields, sizeof fields, "\"input\": \"%s\"", words);
    for (int k = 0; k < 4; k++) {
        vector expected = { { 0 } };
        double all = 0, squares = 0;
        for (int t = 0; t < n; t++) {
            double weight = k == 0 ? 1 : k == 1 ? t == 0 : k == 2 ? t == n - 1 : t + 1;
            for (int i = 0; i < width; i++) expected.x[i] += weight * states[t].x[i];
            all += weight;
        }
        for (int i = 0; i < width; i++) expected.x[i] /= all, squares += expected.x[i] * expected.x[i];
        for (int normalized = 0; normalized < 2; normalized++) {
            make_folder(normalized ? "[" TRANSFORMER ", " POOLING ", " NORMALIZE "]" : NULL, kinds[k].config);
            serving_start_model("pooled", normalized ? "--max-num-batched-tokens 5" : "");
            assert_int_equal(ask(fields, got, &tokens), 1);
            if (normalized)
                for (int i = 0; i < width; i++) expected.x[i] /= sqrt(squares);
            assert_near(got, &expected, 1e-6, kinds[k].name);
            r = serving_stop();
            command_free(&r);
        }
    }
}

/* ---- how it is asked for ---- */

/* Each form of a request has the same bits, whatever stands beside. */
static void forms_say_the_same(void **state) {
    (void)state;
    if (left_out) return;
    static vector one[TEXTS], other[TEXTS], longer;
    static const char *const forms[] = {
        "\"input\": [\"the fox\", \"a\", \"the quick brown fox and so on and so on and on\", \"the fox\"]",
        "\"input\": [\"the fox\", \"a\", \"the quick brown fox and so on and so on and on\", \"the fox\"], "
        "\"encoding_format\": \"base64\"",
        "\"input\": [[116,104,101,32,102,111,120],[97],[116,104,101,32,113,117,105,99,107,32,98,114,111,119,"
        "110,32,102,111,120,32,97,110,100,32,115,111,32,111,110,32,97,110,100,32,115,111,32,111,110,32,97,"
        "110,100,32,111,110],\"the fox\"], \"encoding_format\": \"float\", \"user\": \"me\""
    };
    static const char few[] = "--max-num-seqs 2 --max-num-batched-tokens 3 --memory 31MiB";
    const char *const options[] = { "", SANITIZED ? "--max-num-seqs 2 --max-num-batched-tokens 3" : few,
                                    "--share-prefixes off --kv-cache-dtype f32 --admission expected" };
    int64_t tokens;
    for (int o = 0; o < 3; o++) {
        serving_start(options[o]);
        for (int f = 0; f < 3; f++) {
            assert_int_equal(ask(forms[f], other, &tokens), 4);
            assert_int_equal(tokens, 7 + 1 + 46 + 7);
            if (!o && !f) memcpy(one, other, sizeof one);
            for (int i = 0; i < 4; i++) assert_near(&one[i], &other[i], 0, forms[f]);
        }
        assert_near(&one[0], &one[3], 0, "twice");
        assert_int_equal(
            ask("\"input\": \"the fox\", \"dimensions\": 32, \"model\": \"model\"", other, &tokens), 1);
        assert_near(&one[0], other, 0, "alone");
        assert_int_equal(ask("\"input\": [97]", other, &tokens), 1);
        assert_near(&one[1], other, 0, "ids");
        assert_int_equal(ask("\"input\": [97, 98]", &longer, &tokens), 1);
        assert_int_equal(tokens, 2);
        double squares = 0;
        for (int i = 0; i < width; i++) squares += longer.x[i] * longer.x[i];
        assert_true(fabs(squares - 1) < 1e-6); /* where the folder says nothing */
        command_result r = serving_stop();
        command_free(&r);
    }
}

/* The first numbers, of length 1 again where the folder's vectors are: in both forms, each as long as it is
 * asked for, beside whole ones. */
static void vectors_are_cut(void **state) {
    (void)state;
    if (left_out) return;
    static vector whole[TEXTS], cut[TEXTS], before[TEXTS];
    char fields[160];
    int64_t tokens;
    for (int normalized = 0; normalized < 2; normalized++) {
        make_folder(normalized ? "[" TRANSFORMER ", " POOLING ", " NORMALIZE "]"
                               : "[" TRANSFORMER ", " POOLING "]",
                    "{\"pooling_mode\": \"mean\"}");
        serving_start_model("pooled", "--max-num-seqs 3");
        assert_int_equal(ask("\"input\": [\"the fox\", \"a\", \"the quick one\"]", whole, &tokens), 3);
        for (int n = 1; n <= 32; n++) {
            double squares[3] = { 0 };
            snprintf(fields, sizeof fields,
                     "\"input\": [\"the fox\", \"a\", \"the quick one\"], \"dimensions\": %d, "
                     "\"encoding_format\": "
                     "\"%s\"",
                     n, n % 2 ? "float" : "base64");
            assert_int_equal(ask(fields, cut, &tokens), 3);
            assert_int_equal(width, n);
            for (int k = 0; k < 3; k++) {
                for (int i = 0; i < n; i++) squares[k] += whole[k].x[i] * whole[k].x[i];
                for (int i = 0; i < n; i++)
                    before[k].x[i] = whole[k].x[i] / (normalized ? sqrt(squares[k]) : 1);
                assert_near(&cut[k], &before[k], normalized ? 1e-6 : 0, fields);
            }
        }
        command_result r = serving_stop();
        command_free(&r);
    }
}

static void refused(const char *fields, const char *words_of_it, const char *field) {
    char body[8192], param[64];
    snprintf(body, sizeof body, "{%s}", fields);
    snprintf(param, sizeof param, "\"param\": \"%s\"", field);
    int code = serving_post("/v1/embeddings", body, answer);
    if (code != 400 || !strstr(answer, words_of_it) || !strstr(answer, param))
        fail_msg("%.200s is answered with %d: %s", body, code, answer);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    if (left_out) return;
    static vector got[TEXTS];
    char many[4096] = "\"input\": [\"a\"";
    int64_t tokens;
    for (int i = 1; i < 9; i++) strcat(many, ", \"a\"");
    serving_start("--max-num-seqs 4 --max-queue 4");
    refused("\"input\": \"\"", "it is an empty text", "input");
    refused("\"input\": [\"a\", \"\"]", "it is an empty text", "input");
    refused("\"input\": []", "it is empty", "input");
    refused("\"input\": [[]]", "it is empty", "input");
    refused("\"model\": \"model\"", "it is missing", "input");
    refused("\"input\": {}", "it must be one text", "input");
    refused("\"input\": [\"a\", 5]", "it must be one text", "input");
    refused("\"input\": [5, \"a\"]", "whole number", "input");
    refused("\"input\": [[1], [256]]", "whole number from 0 to 255", "input");
    refused("\"input\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
            "it has 70 tokens, and a text here has 64 at most", "input");
    refused("\"input\": \"a\", \"dimensions\": 33", "whole number from 1 to 32", "dimensions");
    refused("\"input\": \"a\", \"dimensions\": 0", "whole number from 1 to 32", "dimensions");
    refused("\"input\": \"a\", \"dimensions\": 8.5", "whole number from 1 to 32", "dimensions");
    refused("\"input\": \"a\", \"encoding_format\": \"int8\"", "must be \\\"float\\\" or", "encoding_format");
    refused("\"input\": \"a\", \"temperature\": 1", "does not know it", "temperature");
    strcat(many, "]");
    refused(many, "it has 9 texts, and 8 are written or wait here at most", "input");
    strcpy(strrchr(many, ','), "]"); /* one less */
    assert_int_equal(ask(many, got, &tokens), 8);
    command_result r = serving_stop();
    command_free(&r);
    static const struct {
        const char *modules, *config, *words;
    } folders[] = {
        { "[" TRANSFORMER ", " POOLING ", {\"idx\": 2, \"path\": \"2_Dense\", \"type\": "
          "\"sentence_transformers.models.Dense\"}]",
          "{\"pooling_mode\": \"mean\"}", "models.Dense" },
        { NULL, "{\"pooling_mode_max_tokens\": true}", "pooling_mode_max_tokens" },
        { NULL, "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": true}", "several ways" },
        { NULL, "{\"pooling_mode_mean_tokens\": true, \"word_embedding_dimension\": 31}", "another width" },
        { "[" TRANSFORMER "]", NULL, "no Pooling module" },
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        make_folder(folders[i].modules, folders[i].config);
        serving_start_model("pooled", "");
        refused("\"input\": \"a\"", folders[i].words, "input");
        assert_int_equal(serving_post("/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 2}", answer),
                         200);
        r = serving_stop();
        command_free(&r);
    }
    make_folder("{", NULL);
    r = command_run("serve pooled --port 0 --dry-run");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "modules.json"));
    command_free(&r);
}

/* Vectors of products in 16 bits point where those of f32 do; the plan says what they are. */
static void vectors_are_planned(void **state) {
    (void)state;
    if (left_out) return;
    static vector exact[TEXTS], rounded[TEXTS];
    int64_t tokens;
    double inner = 0;
    serving_start("");
    ask("\"input\": \"the quick brown fox\"", exact, &tokens);
    command_result r = serving_stop();
    command_free(&r);
    serving_start("--dtype bf16");
    ask("\"input\": \"the quick brown fox\"", rounded, &tokens);
    assert_int_equal(serving_get("/plan", answer), 200);
    assert_non_null(strstr(answer, "\"embeddings\": {"));
    assert_non_null(strstr(answer, "\"dimensions\": 32"));
    assert_non_null(strstr(answer, "\"pooling\": \"last token\""));
    r = serving_stop();
    command_free(&r);
    for (int i = 0; i < width; i++) inner += exact[0].x[i] * rounded[0].x[i];
    if (!(inner > 0.999 && inner < 1 + 1e-6)) fail_msg("their cosine is %g", inner);
    assert_true(memcmp(exact, rounded, sizeof *exact) != 0);
}

/* A file that sentence-transformers saves has the model without its head, and names without its prefix. */
static void files_may_lack_the_head(void **state) {
    (void)state;
    if (left_out) return;
    static const char config[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 256, \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true}\n";
    static vector named[TEXTS], bare[TEXTS];
    int64_t tokens;
    command_shell("rm -rf bare; mkdir -p kin");
    scratch_write("kin/config.json", config, sizeof config - 1);
    command_expect(0, "train kin --data text --context 64 --batch 2 --steps 1 --out llama --quiet");
    serving_start_model("llama", "");
    ask("\"input\": \"the quick brown fox\"", named, &tokens);
    command_result r = serving_stop();
    command_free(&r);
    command_shell("cp -r llama bare && LC_ALL=C sed -i 's/\"model\\./      \"/g' bare/model.safetensors");
    command_shell("! LC_ALL=C grep -q '\"model\\.' bare/model.safetensors");
    serving_start_model("bare", "");
    ask("\"input\": \"the quick brown fox\"", bare, &tokens);
    r = serving_stop();
    command_free(&r);
    assert_near(named, bare, 0, "without a prefix");
}

/* ---- encoders ---- */

static const char encoder_forms[] =
    "\"input\": [\"the fox\", \"a\", \"the quick brown fox and so on and so on and on\", \"the fox\"]";

/* Vectors of a folder, with these options. */
static void ask_encoder(const char *model, const char *options, vector out[TEXTS]) {
    int64_t tokens;
    serving_start_model(model, options);
    assert_int_equal(ask(encoder_forms, out, &tokens), 4);
    assert_int_equal(tokens, 7 + 1 + 46 + 7);
    assert_near(&out[0], &out[3], 0, "twice");
    command_result r = serving_stop();
    assert_int_equal(r.exit, 0);
    command_free(&r);
}

/* It answers what is of vectors and of tokens, and says what it does not. */
static void look_at_encoder(const vector *first) {
    static vector own;
    int64_t tokens;
    serving_start_model("encoder", "");
    assert_int_equal(ask("\"input\": \"the fox\", \"dimensions\": 5", &own, &tokens), 1);
    assert_int_equal(width, 5);
    assert_int_equal(ask("\"input\": [116,104,101,32,102,111,120]", &own, &tokens), 1);
    assert_near(first, &own, 0, "alone");
    static const char *const paths[] = { "/v1/completions", "/v1/chat/completions" };
    for (int i = 0; i < 2; i++) {
        int code = serving_post(paths[i], "{\"prompt\": \"a\"}", answer);
        if (code != 400 || !strstr(answer, "the model is an encoder, and writes no text"))
            fail_msg("%s", answer);
    }
    assert_int_equal(serving_post("/tokenize", "{\"prompt\": \"abc\"}", answer), 200);
    assert_non_null(strstr(answer, "[97,98,99]"));
    assert_int_equal(serving_post("/detokenize", "{\"tokens\": [97]}", answer), 200);
    static const char *const pages[] = { "/health", "/ready", "/v1/models", "/metrics", "/plan" };
    for (int i = 0; i < 5; i++) assert_int_equal(serving_get(pages[i], answer), 200);
    assert_non_null(strstr(answer, "\"pooling\": \"mean\""));
    assert_non_null(strstr(answer, "\"normalized\": true"));
    refused("\"input\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
            "it has 65 tokens, and a text here has 64 at most", "input");
    command_result r = serving_stop();
    command_free(&r);
}

/* In the least memory so many fit, and with a byte less they do not. */
static void look_at_least_memory(void) {
    static const char sizes[] = "--max-num-seqs 3 --max-model-len 40 --threads 1";
    char line[160];
    snprintf(line, sizeof line, "serve encoder --solve memory %s", sizes);
    command_result r = command_run(line);
    const char *at = strchr(r.err, '(');
    unsigned long long least = at ? strtoull(at + 1, NULL, 10) : 0;
    command_free(&r);
    for (int less = 0; less < 2; less++) {
        snprintf(line, sizeof line, "serve encoder --dry-run --memory %llu %s", least - (unsigned)less,
                 sizes);
        r = command_run(line);
        assert_true(command_has_words(r.err, "3 texts of 40 at once") == !less);
        command_free(&r);
    }
}

/* A folder of BERT's gives vectors, with the bits that they have alone, however many rows a step has and
 * whatever its files are called by. */
static void encoders_give_vectors(void **state) {
    (void)state;
    if (left_out) return;
    static const char config[] =
        "{\"model_type\": \"bert\", \"vocab_size\": 257, \"hidden_size\": 32, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"intermediate_size\": 48, \"max_position_embeddings\": 64, "
        "\"type_vocab_size\": 2}\n";
    static const char *const options[] = { "--max-num-seqs 2 --max-num-batched-tokens 3",
                                           "--kv-cache-dtype f32",
                                           "--admission expected --speculate 3 --max-model-len 46" };
    static vector one[TEXTS], other[TEXTS];
    command_shell("rm -rf bare; mkdir -p bert");
    scratch_write("bert/config.json", config, sizeof config - 1);
    command_expect(0, "train bert --data text --context 64 --batch 2 --steps 1 --out encoder --quiet");
    ask_encoder("encoder", "", one);
    assert_int_equal(width, 32);
    look_at_encoder(one);
    look_at_least_memory();
    for (int i = 0; i < 3; i++) {
        ask_encoder("encoder", options[i], other);
        for (int k = 0; k < 4; k++) assert_near(&one[k], &other[k], 0, options[i]);
    }
    command_shell("cp -r encoder bare && LC_ALL=C sed -i 's/\"bert\\./     \"/g' bare/model.safetensors");
    command_shell("! LC_ALL=C grep -q '\"bert\\.' bare/model.safetensors && mkdir bare/1_Pooling");
    ask_encoder("bare", "", other);
    for (int k = 0; k < 4; k++) assert_near(&one[k], &other[k], 0, "without a prefix");
    command_shell("echo '{\"pooling_mode_cls_token\": true}' >bare/1_Pooling/config.json");
    ask_encoder("bare", "", other);
    assert_true(memcmp(one, other, sizeof one) != 0);
    command_shell("echo '{\"pooling_mode_max_tokens\": true}' >bare/1_Pooling/config.json");
    command_result r = command_run("serve bare --port 0 --dry-run");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "pooling_mode_max_tokens"));
    command_free(&r);
    r = command_run("generate encoder --prompt a");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "can't continue a text"));
    command_free(&r);
}

static int make(void **state) { return serving_make_model(state, 5, &left_out); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pooling_is_the_folders), cmocka_unit_test(forms_say_the_same),
        cmocka_unit_test(vectors_are_cut),        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(vectors_are_planned),    cmocka_unit_test(files_may_lack_the_head),
        cmocka_unit_test(encoders_give_vectors),
    };
    return cmocka_run_group_tests(tests, make, scratch_close);
}
