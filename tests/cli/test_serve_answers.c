/* A model that answers (T5), served: the prompt is what its encoder reads, and the answer is a text of its
 * own, the one that generate gives, alone and among others. */
#define _GNU_SOURCE
#include "cli/serving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/json.h"
#include "io/scratch.h"

enum { WORDS = 4096, PAIRS = 6, CLIENTS = 8, TURNS = 6 };

static bool left_out;
static char answer[SERVING_ANSWER];

static const char *const asked[PAIRS] = { "red", "green", "blue sun", "one-two-three", "moon", "two red" };

#define MODEL                                                                                                \
    "{\"model_type\":\"t5\",\"d_model\":32,\"d_kv\":8,\"d_ff\":48,\"num_layers\":1,"                         \
    "\"num_decoder_layers\":2,\"num_heads\":4,\"vocab_size\":392,\"relative_attention_num_buckets\":8,"      \
    "\"relative_attention_max_distance\":12,\"dropout_rate\":0,\"n_positions\":32}"

static int open_model(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_shell("mkdir t5 && cp " SNUG_ROOT "/tests/text/golden/t5.json t5/tokenizer.json");
    scratch_write("t5/config.json", MODEL, strlen(MODEL));
    FILE *file = fopen("pairs.jsonl", "w");
    for (int i = 0; i < 20 * PAIRS; i++)
        fprintf(file, "{\"prompt\": \"%s\", \"completion\": \"%s\"}\n", asked[i % PAIRS],
                asked[(i + 1) % PAIRS]);
    fclose(file);
    command_expect(0, "train t5 --data pairs.jsonl --out model --batch 8 --context 16 --lr 1e-2 --steps 60 "
                      "--threads 2 --quiet");
    command_expect(0,
                   "train model --data pairs.jsonl --out adapter --batch 8 --context 16 --lr 1e-2 --steps 8 "
                   "--lora rank=2,target=q+v --threads 2 --quiet");
    command_shell("cp -r model chats && echo '{\"chat_template\": \"{{ messages[0].content }}</s>\"}' "
                  ">chats/tokenizer_config.json");
    left_out = serving_left_out();
    return 0;
}

/* What is said by a field of the first choice, "text" or that of a message. */
static void text_of(const char *whole, char out[WORDS]) {
    json_document d;
    json_value choices, message;
    const char *words, *said = serving_body(whole);
    size_t count;
    if (json_parse("answer", said, strlen(said), &d) != STATUS_OK) fail_msg("%s: %s", status_message(), said);
    assert_int_equal(json_get(d.root, "choices", &choices), STATUS_OK);
    assert_int_equal(json_as_array(choices, &count), STATUS_OK);
    assert_true(count > 0);
    json_value first = json_item(choices, 0);
    bool chat = json_get(first, "text", &message) != STATUS_OK;
    if (chat) assert_int_equal(json_get(first, "message", &first), STATUS_OK);
    if (chat) assert_int_equal(json_get(first, "content", &message), STATUS_OK);
    assert_int_equal(json_as_string(message, &words), STATUS_OK);
    snprintf(out, WORDS, "%s", words);
    json_close(&d);
}

/* The pieces of an answer in events, one behind the other. */
static void pieces_of(const char *events, char out[WORDS]) {
    out[0] = 0;
    for (const char *at = events; (at = strstr(at, "data: {"));) {
        char line[WORDS], piece[WORDS];
        at += strlen("data: ");
        const char *end = strchr(at, '\n');
        snprintf(line, sizeof line, "\r\n\r\n%.*s", (int)(end - at), at);
        text_of(line, piece);
        strcat(out, piece);
        at = end;
    }
}

static void ask(const char *path, const char *body, char out[WORDS]) {
    int code = serving_post(path, body, answer);
    if (code != 200) fail_msg("%s is answered with %d: %s", body, code, answer);
    text_of(answer, out);
}

/* Drawn far from the likeliest, so that answers are long; or the likeliest, which begin with a blank that is
 * left out. */
#define DRAWN "\"temperature\": 3, \"seed\": 5"
static const struct {
    const char *field, *option;
} ways[] = { { DRAWN, "--temperature 3 --seed 5" }, { "\"temperature\": 0", "--temperature 0" } };
enum { WAYS = 2 };

static void generated(const char *more, int i, char out[WORDS]) {
    char line[256];
    scratch_write("prompt", asked[i], strlen(asked[i]));
    snprintf(line, sizeof line,
             "generate model --prompt-file prompt --tokens 24 --json --threads 1 --quiet %s", more);
    json_document d = command_json(line);
    snprintf(out, WORDS, "%s", command_string(&d, "text"));
    json_close(&d);
}

/* `more` fields: the answer to prompt i, whole or in events. */
static void expect(int i, const char *more, bool events, const char *truth) {
    static char out[WORDS];
    char body[512];
    snprintf(body, sizeof body, "{\"prompt\": \"%s\", \"max_tokens\": 24, %s}", asked[i], more);
    if (events) {
        assert_int_equal(serving_post("/v1/completions", body, answer), 200);
        pieces_of(answer, out);
    } else {
        ask("/v1/completions", body, out);
    }
    if (strcmp(out, truth) != 0) fail_msg("%s is answered with '%s', and not with '%s'", body, out, truth);
}

static void answers_are_those_of_generate(void **state) {
    (void)state;
    static char truths[WAYS][PAIRS][WORDS], adapted[PAIRS][WORDS];
    char more[256];
    int differ = 0, learned = 0;
    if (left_out) return;
    for (int i = 0; i < PAIRS; i++) {
        for (int w = 0; w < WAYS; w++) generated(ways[w].option, i, truths[w][i]);
        snprintf(more, sizeof more, "--adapter adapter %s", ways[0].option);
        generated(more, i, adapted[i]);
        differ += strcmp(truths[0][i], adapted[i]) != 0;
        learned += strcmp(truths[1][i], asked[(i + 1) % PAIRS]) == 0;
    }
    assert_true(differ > PAIRS / 2 && learned > PAIRS / 2);
    serving_start("--adapter other=adapter");
    for (int i = 0; i < PAIRS; i++)
        for (int w = 0; w < WAYS; w++) {
            expect(i, ways[w].field, false, truths[w][i]);
            snprintf(more, sizeof more, "\"logprobs\": 1, %s", ways[w].field);
            expect(i, more, false, truths[w][i]); /* told behind its logarithms, from its ids */
            snprintf(more, sizeof more, "\"stream\": true, %s", ways[w].field);
            expect(i, more, true, truths[w][i]);
            snprintf(more, sizeof more, "\"model\": \"other\", %s", ways[w].field);
            if (!w) expect(i, more, false, adapted[i]);
            snprintf(more, sizeof more, "\"best_of\": 3, %s", ways[w].field);
            if (w) expect(i, more, false, truths[w][i]); /* all of them are the same */
        }
    command_result r = serving_stop();
    command_free(&r);
}

#define LONGEST "[9,8,7,6,5,4,3,2,9,8,7,6,5,4,3,2,9,8,7,6,5,4,3,2,9,8,7,6,5,4,3,2]"

/* A prompt and an answer of as many tokens as there may be, which a job has room for when its answer is held;
 * and an answer to a prompt that ends amidst a text is none that goes on there. */
static void prompts_are_no_part_of_answers(void **state) {
    (void)state;
    static char whole[WORDS], held[WORDS];
    if (left_out) return;
    serving_start("");
    const char *longest =
        "{\"prompt\": " LONGEST ", \"max_tokens\": %d, \"logit_bias\": {\"1\": -100}, " DRAWN "%s}";
    char body[512], few[512];
    snprintf(body, sizeof body, longest, 32, "");
    ask("/v1/completions", body, whole);
    assert_non_null(strstr(answer, "\"completion_tokens\":32"));
    snprintf(body, sizeof body, longest, 8, ", \"logprobs\": 2");
    ask("/v1/completions", body, held);
    const char *numbers = strstr(answer, "\"token_logprobs\":[");
    assert_non_null(numbers);
    snprintf(few, sizeof few, "%.*s", (int)(strchr(numbers, ']') - numbers), numbers);
    snprintf(body, sizeof body, longest, 32, ", \"logprobs\": 2");
    ask("/v1/completions", body, held);
    assert_string_equal(held, whole);
    if (!strstr(answer, few)) fail_msg("%s does not stand in %s", few, answer);
    assert_int_equal(
        serving_post("/tokenize", "{\"prompt\": \"red\", \"add_special_tokens\": false}", answer), 200);
    const char *ids = strchr(serving_body(answer), '['), *end = ids ? strchr(ids, ']') : NULL;
    assert_non_null(end);
    snprintf(body, sizeof body, "{\"prompt\": %.*s, \"max_tokens\": 4, \"temperature\": 0}",
             (int)(end + 1 - ids), ids);
    ask("/v1/completions", body, whole);
    assert_true(whole[0] && whole[0] != ' ');
    command_result r = serving_stop();
    command_free(&r);
}

/* ---- many at once ---- */

static const char *const sizes[] = { "\"max_tokens\": 32", "\"max_tokens\": 3",
                                     "\"max_tokens\": 20, \"n\": 2" };
static char alone[PAIRS * 3][SERVING_ANSWER];

static void body_of(uint32_t kind, char body[512]) {
    snprintf(body, 512, "{\"prompt\": \"%s\", %s, \"temperature\": 3, \"seed\": %u}", asked[kind % PAIRS],
             sizes[kind / PAIRS], kind);
}

/* The choices alone: what goes before has a number and the time, and what comes after says what was shared.
 */
static bool same_choices(const char *a, const char *b) {
    const char *of = strstr(a, "\"choices\""), *other = strstr(b, "\"choices\"");
    const char *end = of ? strstr(of, "\"prompt_tokens_details\"") : NULL;
    return end && other && strncmp(of, other, (size_t)(end - of)) == 0;
}

static void *behave(void *context) {
    uint32_t client = *(const uint32_t *)context;
    char body[512], *out = malloc(SERVING_ANSWER);
    uintptr_t wrong = 0;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint32_t kind = (client * 7 + turn * 5) % (PAIRS * 3);
        body_of(kind, body);
        wrong += serving_post("/v1/completions", body, out) != 200 || !same_choices(out, alone[kind]);
    }
    free(out);
    return (void *)wrong;
}

/* Soon: an answer may be read before its text has left. */
static void expect_metric(const char *line) {
    for (int tries = 0; tries < 200; tries++) {
        assert_int_equal(serving_get("/metrics", answer), 200);
        if (strstr(answer, line)) return;
        usleep(20000);
    }
    fail_msg("there is no %s in\n%s", line, answer);
}

/* The longest prompt; and as many answers as there are places, to prompts that fit into one step. */
static void run_the_largest(int places) {
    char body[512];
    const char *longest = "{\"prompt\": " LONGEST ", \"max_tokens\": 2}";
    assert_int_equal(serving_post("/v1/completions", longest, answer), 200);
    assert_non_null(strstr(answer, "\"cached_tokens\":0"));
    snprintf(body, sizeof body,
             "{\"prompt\": [9, 8], \"n\": %d, \"max_tokens\": 8, \"temperature\": 3, \"logit_bias\": {\"1\": "
             "-100}}",
             places);
    assert_int_equal(serving_post("/v1/completions", body, answer), 200);
}

static void neighbours_change_nothing(void **state) {
    (void)state;
    static const int places[] = { 16, 3, 5 };
    pthread_t threads[CLIENTS];
    uint32_t numbers[CLIENTS];
    char body[512];
    static const char *const options[] = { "--json",
                                           "--json --max-num-seqs 3 --admission expected --speculate 2",
                                           "--json --kv-cache-dtype int8 --max-num-seqs 5" };
    for (int o = 0; o < 3 && !left_out; o++) {
        serving_start(options[o]);
        for (uint32_t kind = 0; kind < PAIRS * 3; kind++) {
            body_of(kind, body);
            assert_int_equal(serving_post("/v1/completions", body, alone[kind]), 200);
        }
        for (uint32_t i = 0; i < CLIENTS; i++) {
            numbers[i] = i;
            assert_int_equal(pthread_create(&threads[i], NULL, behave, &numbers[i]), 0);
        }
        for (uint32_t i = 0; i < CLIENTS; i++) {
            void *wrong;
            pthread_join(threads[i], &wrong);
            if (wrong) fail_msg("%s: client %u has other answers among its neighbours", options[o], i);
        }
        run_the_largest(places[o]);
        expect_metric("snug_blocks{state=\"used\"} 0");
        command_result r = serving_stop();
        if (o != 1) serving_compare_bytes(&r); /* guesses are as many as they are */
        command_free(&r);
    }
}

/* ---- plans, chats, and what is wrong ---- */

static void what_is_planned_fits(void **state) {
    (void)state;
    char line[200];
    if (left_out) return;
    const char *asks = "serve model --max-num-seqs 3 --max-model-len 30 --threads 1 --json";
    snprintf(line, sizeof line, "%s --solve memory", asks);
    json_document d = command_json(line);
    unsigned long long bytes = command_number(&d, "predicted.peak_bytes");
    assert_int_equal(command_number(&d, "blocks"), 3 * (2 + 2)); /* of a prompt, and of its answer */
    assert_int_equal(command_number(&d, "max_num_batched_tokens"), 3);
    json_close(&d);
    snprintf(line, sizeof line, "%s --dry-run --memory %llu", asks, bytes);
    d = command_json(line);
    assert_int_equal(command_number(&d, "texts_at_once"), 3);
    json_close(&d);
    snprintf(line, sizeof line, "%s --dry-run --memory %llu", asks, bytes - 1);
    d = command_json(line);
    assert_int_equal(command_number(&d, "texts_at_once"), 2);
    json_close(&d);
    assert_true(command_says("serve model --memory 1MiB --dry-run", 3, "does not fit"));
    assert_true(command_says("serve model --max-model-len 33", 2, "the model's context 32"));
}

static void chats_are_answered(void **state) {
    (void)state;
    static char plain[WORDS], chat[WORDS];
    if (left_out) return;
    serving_start_model("chats", "");
    ask("/v1/completions", "{\"prompt\": \"green\", \"max_tokens\": 20, " DRAWN "}", plain);
    ask("/v1/chat/completions",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"green\"}], \"max_tokens\": 20, " DRAWN "}",
        chat);
    assert_true(strlen(plain) > 4);
    assert_string_equal(plain, chat);
    command_result r = serving_stop();
    command_free(&r);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    static const struct {
        const char *path, *body, *says;
    } cases[] = {
        { "completions", "{\"prompt\": \"red\", \"echo\": true}", "answers a prompt in a text of its own" },
        { "completions", "{\"prompt\": \"red\", \"max_tokens\": 33}", "a whole number from 0 to 32" },
        { "completions", "{\"prompt\": []}", "it is empty" },
        { "completions",
          "{\"prompt\": \"red-green-blue-red-green-blue-red-green-blue-red-green-blue-red-green-blue-red\"}",
          "and a text here has 32 at most" },
        { "completions", "{\"prompt\": [9,8,7,6,5,4,3,2,9,8,7,6,5,4,3,2,9], \"max_tokens\": 17, \"n\": 20}",
          "take 80 blocks, and the cache has 64" },
        { "chat/completions", "{\"messages\": [{\"role\": \"user\", \"content\": \"red\"}]}",
          "no chat template" },
        { "embeddings", "{\"input\": \"red\"}", "answers texts and makes no vectors of them" },
    };
    if (left_out) return;
    serving_start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        snprintf(path, sizeof path, "/v1/%s", cases[i].path);
        assert_int_equal(serving_post(path, cases[i].body, answer), 400);
        if (!strstr(answer, cases[i].says)) fail_msg("%s is answered with %s", cases[i].body, answer);
    }
    command_result r = serving_stop();
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(answers_are_those_of_generate),
                                        cmocka_unit_test(prompts_are_no_part_of_answers),
                                        cmocka_unit_test(neighbours_change_nothing),
                                        cmocka_unit_test(what_is_planned_fits),
                                        cmocka_unit_test(chats_are_answered),
                                        cmocka_unit_test(what_is_wrong_is_said) };
    return cmocka_run_group_tests(tests, open_model, scratch_close);
}
