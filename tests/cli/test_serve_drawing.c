/* What requests say of how tokens are drawn: penalties, biases, logarithms, and answers by a schema; whole
 * and in events, which say the same. */
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
#include <unistd.h>

#include "io/json.h"
#include "io/scratch.h"
#include "sanitized.h"

static bool left_out;
static char answer[SERVING_ANSWER];

enum { TOKENS = 64 };

/* What an answer says, put together where it comes in events. */
typedef struct {
    char text[1024], reason[16];
    int tokens; /* that are told of */
    char token[TOKENS][16];
    double logprob[TOKENS], best[TOKENS];
    int offset[TOKENS], likeliest[TOKENS]; /* how many of these */
} said;

static json_value item_of(json_value v, const char *key, size_t i) {
    json_value list;
    assert_int_equal(json_get(v, key, &list), STATUS_OK);
    return json_item(list, i);
}

static double number_in(json_value v) {
    double x;
    if (json_as_number(v, -1e9, 1e9, &x) != STATUS_OK) fail_msg("%s", status_message());
    return x;
}

static void take_completion(said *s, json_value logprobs) {
    json_value list, top;
    size_t count;
    const char *word;
    assert_int_equal(json_get(logprobs, "tokens", &list), STATUS_OK);
    assert_int_equal(json_as_array(list, &count), STATUS_OK);
    for (size_t i = 0; i < count; i++, s->tokens++) {
        int n = s->tokens;
        assert_int_equal(json_as_string(json_item(list, i), &word), STATUS_OK);
        snprintf(s->token[n], sizeof s->token[n], "%s", word);
        s->logprob[n] = number_in(item_of(logprobs, "token_logprobs", i));
        s->offset[n] = (int)number_in(item_of(logprobs, "text_offset", i));
        s->best[n] = -1e9;
        top = item_of(logprobs, "top_logprobs", i);
        json_value each;
        for (void *cursor = NULL; json_next(top, &cursor, &each);) {
            double x = number_in(each);
            s->likeliest[n]++;
            if (x > s->best[n]) s->best[n] = x;
        }
    }
}

static void take_chat(said *s, json_value logprobs) {
    json_value list, value;
    size_t count;
    const char *word;
    assert_int_equal(json_get(logprobs, "content", &list), STATUS_OK);
    assert_int_equal(json_as_array(list, &count), STATUS_OK);
    for (size_t i = 0; i < count; i++, s->tokens++) {
        json_value entry = json_item(list, i);
        size_t top, bytes;
        assert_int_equal(json_get_string(entry, "token", &word), STATUS_OK);
        snprintf(s->token[s->tokens], sizeof s->token[0], "%s", word);
        assert_int_equal(json_get_number(entry, "logprob", -1e9, 0, &s->logprob[s->tokens]), STATUS_OK);
        assert_int_equal(json_get(entry, "bytes", &value), STATUS_OK);
        assert_int_equal(json_as_array(value, &bytes), STATUS_OK);
        assert_int_equal(bytes, 1);
        assert_int_equal(json_get(entry, "top_logprobs", &value), STATUS_OK);
        assert_int_equal(json_as_array(value, &top), STATUS_OK);
        s->likeliest[s->tokens] = (int)top;
    }
}

static void take_choice(said *s, json_value choice) {
    json_value inner, value;
    const char *words;
    bool chat = json_find(choice, "message", &inner) || json_find(choice, "delta", &inner);
    if (!chat) inner = choice;
    assert_int_equal(json_get_string(inner, chat ? "content" : "text", &words), STATUS_OK);
    strcat(s->text, words);
    if (json_find(choice, "finish_reason", &value)) {
        assert_int_equal(json_as_string(value, &words), STATUS_OK);
        snprintf(s->reason, sizeof s->reason, "%s", words);
    }
    if (json_find(choice, "logprobs", &value)) chat ? take_chat(s, value) : take_completion(s, value);
}

static int wanted; /* the answer that is looked at, of several */

static void take_object(said *s, const char *from, size_t count) {
    json_document d;
    json_value choices;
    size_t n;
    if (json_parse("answer", from, count, &d) != STATUS_OK) fail_msg("%s: %s", status_message(), from);
    assert_int_equal(json_get(d.root, "choices", &choices), STATUS_OK);
    assert_int_equal(json_as_array(choices, &n), STATUS_OK);
    for (size_t i = 0; i < n; i++) {
        int64_t index;
        assert_int_equal(json_get_integer(json_item(choices, i), "index", 0, 127, &index), STATUS_OK);
        if (index == wanted) take_choice(s, json_item(choices, i));
    }
    json_close(&d);
}

static void read_answer(bool streamed, said *s) {
    *s = (said){ 0 };
    const char *body = serving_body(answer);
    if (!streamed) {
        take_object(s, body, strlen(body));
        return;
    }
    for (const char *at = body; (at = strstr(at, "data: {")); at++)
        take_object(s, at + strlen("data: "), strcspn(at, "\n") - strlen("data: "));
    assert_non_null(strstr(body, "data: [DONE]"));
}

/* `fields` behind the prompt; whole or in events. */
static void ask(const char *fields, bool streamed, said *s) {
    char body[2048];
    bool chat = strstr(fields, "top_logprobs") != NULL;
    snprintf(body, sizeof body, "{%s, %s%s}",
             chat ? "\"messages\": [{\"role\": \"user\", \"content\": \"the \"}]" : "\"prompt\": \"the \"",
             fields, streamed ? ", \"stream\": true" : "");
    int code = serving_post(chat ? "/v1/chat/completions" : "/v1/completions", body, answer);
    if (code != 200) fail_msg("%s is answered with %d: %s", body, code, answer);
    read_answer(streamed, s);
}

static void assert_same(const said *a, const said *b) {
    assert_string_equal(a->text, b->text);
    assert_string_equal(a->reason, b->reason);
    assert_int_equal(a->tokens, b->tokens);
    assert_memory_equal(a->token, b->token, sizeof a->token);
    assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
    assert_memory_equal(a->offset, b->offset, sizeof a->offset);
    assert_memory_equal(a->likeliest, b->likeliest, sizeof a->likeliest);
}

static void both(const char *fields, said *s) {
    static said streamed;
    ask(fields, false, s);
    ask(fields, true, &streamed);
    assert_same(s, &streamed);
}

/* ---- logarithms ---- */

static void logarithms_are_told(void **state) {
    (void)state;
    if (left_out) return;
    static said plain, s;
    serving_start("");
    both("\"max_tokens\": 20, \"temperature\": 0", &plain);
    both("\"max_tokens\": 20, \"temperature\": 0, \"logprobs\": 5", &s);
    assert_string_equal(plain.text, s.text);
    assert_int_equal(s.tokens, 20);
    for (int i = 0; i < s.tokens; i++) { /* the likeliest was drawn, and a token is a letter */
        assert_int_equal(s.likeliest[i], 5);
        assert_true(s.logprob[i] <= 0 && fabs(s.logprob[i] - s.best[i]) < 1e-6);
        assert_int_equal(s.offset[i], i);
        assert_int_equal(s.token[i][0], s.text[i]);
    }
    both("\"max_tokens\": 20, \"temperature\": 5, \"seed\": 3, \"logprobs\": 2", &s);
    int others = 0;
    for (int i = 0; i < s.tokens; i++)
        others += s.likeliest[i] == 3; /* what was drawn beside the likeliest */
    assert_true(others > 5);
    both("\"max_tokens\": 12, \"temperature\": 0, \"logprobs\": true, \"top_logprobs\": 20", &s);
    assert_int_equal(s.tokens, 12);
    for (int i = 0; i < s.tokens; i++) assert_int_equal(s.likeliest[i], 20);
    /* A stop string cuts the text; what was drawn is told. */
    char fields[128];
    snprintf(fields, sizeof fields,
             "\"max_tokens\": 20, \"temperature\": 0, \"logprobs\": 1, \"stop\": \"%.3s\"", plain.text + 6);
    both(fields, &s);
    assert_string_equal(s.reason, "stop");
    assert_true(strlen(s.text) <= 6 && strncmp(s.text, plain.text, strlen(s.text)) == 0);
    assert_true(s.tokens >= (int)strlen(s.text) + 3);
    command_result r = serving_stop();
    command_free(&r);
}

/* ---- logits that are changed ---- */

static void logits_are_changed(void **state) {
    (void)state;
    if (left_out) return;
    static said plain, s;
    serving_start("");
    both("\"max_tokens\": 20, \"temperature\": 0", &plain);
    both("\"max_tokens\": 5, \"temperature\": 0, \"logit_bias\": {\"122\": 100}", &s);
    assert_string_equal(s.text, "zzzzz");
    char fields[160];
    snprintf(fields, sizeof fields, "\"max_tokens\": 20, \"temperature\": 0, \"logit_bias\": {\"%d\": -100}",
             plain.text[0]);
    both(fields, &s);
    assert_null(strchr(s.text, plain.text[0]));
    both("\"max_tokens\": 40, \"temperature\": 0, \"frequency_penalty\": 2, \"presence_penalty\": 2", &s);
    int seen[256] = { 0 }, most = 0, usual = 0, before[256] = { 0 };
    for (const char *c = s.text; *c; c++)
        most = ++seen[(unsigned char)*c] > most ? seen[(unsigned char)*c] : most;
    for (const char *c = plain.text; *c; c++)
        usual = ++before[(unsigned char)*c] > usual ? before[(unsigned char)*c] : usual;
    assert_true(most < 2 * usual);
    both("\"max_tokens\": 20, \"temperature\": 3, \"seed\": 5, \"min_p\": 1", &s);
    assert_string_equal(s.text, plain.text); /* the likeliest alone */
    command_result r = serving_stop();
    command_free(&r);
}

/* ---- answers by a schema ---- */

#define NO_BLANKS "\"logit_bias\": {\"32\": -100, \"10\": -100, \"9\": -100, \"13\": -100}, "
#define SCHEMA(s)                                                                                            \
    "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"it\", \"schema\": " s "}}"

static void answers_are_of_their_schema(void **state) {
    (void)state;
    if (left_out) return;
    static said s;
    json_document d;
    int64_t number;
    const char *word;
    serving_start("");
    both("\"max_tokens\": 50, " NO_BLANKS SCHEMA("{\"const\": \"yes\"}"), &s);
    assert_string_equal(s.text, "\"yes\"");
    assert_string_equal(s.reason, "stop");
    for (int seed = 0; seed < 8; seed++) {
        char fields[700];
        snprintf(
            fields, sizeof fields,
            "\"max_tokens\": 59, \"temperature\": %d, \"seed\": %d, \"logprobs\": 1, " NO_BLANKS SCHEMA(
                "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}, \"w\": {\"type\": "
                "\"string\", \"maxLength\": 3}}, \"required\": [\"w\", \"n\"], \"additionalProperties\": "
                "false}"),
            seed % 3, seed);
        both(fields, &s);
        assert_string_equal(s.reason, "stop");
        if (json_parse("text", s.text, strlen(s.text), &d) != STATUS_OK)
            fail_msg("%s: %s", status_message(), s.text);
        assert_int_equal(json_get_integer(d.root, "n", INT64_MIN, INT64_MAX, &number), STATUS_OK);
        assert_int_equal(json_get_string(d.root, "w", &word), STATUS_OK);
        json_close(&d);
    }
    both("\"max_tokens\": 9, \"temperature\": 0, \"response_format\": {\"type\": \"json_object\"}", &s);
    assert_true(strchr("{ \n\t\r", s.text[0]) != NULL);
    assert_string_equal(s.reason, "length");
    both("\"max_tokens\": 9, \"temperature\": 0, \"response_format\": {\"type\": \"text\"}", &s);
    command_result r = serving_stop();
    command_free(&r);
    serving_start("--no-response-format");
    assert_int_equal(serving_post("/v1/completions",
                                  "{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_object\"}}",
                                  answer),
                     400);
    assert_non_null(strstr(answer, "no memory for answers by a schema"));
    r = serving_stop();
    command_free(&r);
}

/* ---- several answers ---- */

static int64_t usage_of(void) {
    const char *at = strstr(answer, "\"completion_tokens\":");
    assert_non_null(at);
    assert_null(strstr(at + 1, "\"completion_tokens\":"));
    return atoll(at + strlen("\"completion_tokens\":"));
}

static void several_answers_are_given(void **state) {
    (void)state;
    if (left_out) return;
    static said one, each[3], other;
    static const char *const asked[] = {
        "\"max_tokens\": 26, \"temperature\": 1, \"seed\": 4",
        "\"max_tokens\": 9, \"temperature\": 2, \"seed\": 5, \"logprobs\": 3",
        ("\"max_tokens\": 9, \"temperature\": 0, \"logprobs\": true, "
         "\"top_logprobs\": 2")
    };
    static const char *const options[] = { "", "--max-num-seqs 2",
                                           "--max-num-seqs 3 --max-num-batched-tokens 4" };
    char fields[256];
    for (int o = 0; o < 3; o++) {
        serving_start(options[o]);
        for (int k = 0; k < 3; k++) {
            wanted = 0;
            both(asked[k], &one);
            snprintf(fields, sizeof fields, "%s, \"n\": 3", asked[k]);
            for (wanted = 0; wanted < 3; wanted++) {
                both(fields, &other);
                if (o && !k) assert_same(&each[wanted], &other); /* whatever the server has room for */
                if (!wanted) assert_same(&one, &other);
                if (k == 2) assert_string_equal(one.text, other.text);
                if (wanted && k < 2) assert_string_not_equal(one.text, other.text);
                if (k == 0) each[wanted] = other;
            }
            if (o) continue;
            ask(fields, false, &other);
            assert_int_equal(usage_of(), 3 * (k ? 9 : 26));
            strcat(fields, ", \"stream_options\": {\"include_usage\": true}");
            ask(fields, true, &other);
            assert_int_equal(usage_of(), 3 * (k ? 9 : 26));
        }
        wanted = 0;
        for (int i = 0; i < 12; i++) { /* who leaves gives all of them back */
            char request[300];
            int s = serving_reach();
            const char *body = "{\"prompt\": \"a\", \"max_tokens\": 60, \"n\": 2, \"stream\": true}";
            int count = snprintf(request, sizeof request,
                                 "POST /v1/completions HTTP/1.1\r\nHost: here\r\nConnection: "
                                 "close\r\nContent-Length: %zu\r\n\r\n%s",
                                 strlen(body), body);
            assert_true(serving_send(s, request, (size_t)count));
            if (i % 3) serving_receive(s, answer, (size_t)i * 40);
            close(s);
        }
        snprintf(fields, sizeof fields, "%s, \"n\": 3", asked[0]);
        for (wanted = 0; wanted < 3; wanted++) {
            both(fields, &other);
            assert_same(&each[wanted], &other);
        }
        wanted = 0;
        command_result r = serving_stop();
        command_free(&r);
    }
}

/* ---- nonsense ---- */

static void what_is_wrong_is_said(void **state) {
    (void)state;
    if (left_out) return;
    static const struct {
        const char *field, *words;
    } cases[] = {
        { "\"logit_bias\": {\"256\": 1}", "from \\\"0\\\" to \\\"255\\\"" },
        { "\"logit_bias\": {\"-1\": 1}", "ids of tokens" },
        { "\"logit_bias\": {\"a\": 1}", "ids of tokens" },
        { "\"logit_bias\": {\"1\": 101}", "from -100 to 100" },
        { "\"logit_bias\": {\"1\": \"x\"}", "from -100 to 100" },
        { "\"logit_bias\": 3", "an object" },
        { "\"logit_bias\": {\"1\": NaN}", "wrong at byte" },
        { "\"temperature\": Infinity", "wrong at byte" },
        { "\"temperature\": 1e999", "wrong at byte" },
        { "\"min_p\": 2", "from 0 to 1" },
        { "\"n\": 0", "from 1 to 128" },
        { "\"n\": 100", "are more than the 80" },
        { "\"n\": 80", "80 answers of 2 tokens behind 1 of the prompt take 80 blocks, and the cache has 64" },
        { "\"n\": 3, \"best_of\": 2", "it must be at least n, which is 3" },
        { "\"presence_penalty\": -3", "from -2 to 2" },
        { "\"frequency_penalty\": null, \"presence_penalty\": 2.5", "from -2 to 2" },
        { "\"logprobs\": 21", "from 0 to 20" },
        { "\"logprobs\": true", "from 0 to 20" },
        { "\"top_logprobs\": 3", "does not know it" },
        { "\"response_format\": 3", "an object with a 'type'" },
        { "\"response_format\": {\"type\": \"xml\"}", "text, json_object or json_schema" },
        { "\"response_format\": {\"type\": \"json_schema\"}", "wants an object 'json_schema'" },
        { "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {}}", "wants a 'schema'" },
        { SCHEMA("{\"type\": \"string\", \"pattern\": \"a\"}"), "'pattern' in the schema is not known" },
        { SCHEMA("{\"type\": \"integer\", \"minimum\": 3}"), "'minimum' in the schema is not known" },
        { SCHEMA("{\"$ref\": \"#/nowhere\"}"), "leads nowhere" },
    };
    char body[1024];
    serving_start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body, "{\"prompt\": \"a\", \"max_tokens\": 2, %s}", cases[i].field);
        int code = serving_post("/v1/completions", body, answer);
        if (code != 400 || !strstr(answer, cases[i].words) || !strstr(answer, "invalid_request_error"))
            fail_msg("%s is answered with %d: %s", body, code, answer);
    }
    assert_int_equal(
        serving_post("/v1/chat/completions",
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"top_logprobs\": 3}",
                     answer),
        400);
    assert_non_null(strstr(answer, "\\\"logprobs\\\": true"));
    command_result r = serving_stop();
    command_free(&r);
}

/* ---- memory ---- */

static void plans_are_kept(void **state) {
    (void)state;
    if (left_out) return;
    static said s;
    serving_start("");
    for (int i = 0; i < 20; i++) {
        both("\"max_tokens\": 59, \"seed\": 1, \"logprobs\": 20, \"frequency_penalty\": 1, "
             "\"response_format\": {\"type\": \"json_object\"}",
             &s);
        both("\"max_tokens\": 20, \"seed\": 4, \"logprobs\": true, \"top_logprobs\": 20", &s);
    }
    command_result r = serving_stop();
    const char *at = strstr(r.err, "Planned: ");
    assert_non_null(at);
    unsigned long long planned = strtoull(strchr(at, '(') + 1, NULL, 10);
    if (!SANITIZED && r.resident_peak > planned)
        fail_msg("%llu bytes are resident, and %llu are planned", (unsigned long long)r.resident_peak,
                 planned);
    command_free(&r);
}

static int open_model(void **state) {
    static const char jinja[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
    int result = serving_make_model(state, 30, &left_out);
    if (result == 0) scratch_write("model/chat_template.jinja", jinja, sizeof jinja - 1);
    return result;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithms_are_told),         cmocka_unit_test(logits_are_changed),
        cmocka_unit_test(answers_are_of_their_schema), cmocka_unit_test(several_answers_are_given),
        cmocka_unit_test(what_is_wrong_is_said),       cmocka_unit_test(plans_are_kept),
    };
    return cmocka_run_group_tests(tests, open_model, scratch_close);
}
