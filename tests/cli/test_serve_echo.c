/* Prompts that are told before their answers, and answers that are the best of several. */
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

enum { TOKENS = 64, CHOICES = 8 };

typedef struct {
    char text[512], reason[16];
    int tokens;             /* that are told of */
    double logprob[TOKENS]; /* 1: there is none */
    int likeliest[TOKENS], offset[TOKENS];
    char token[TOKENS][8];
} said;

typedef struct {
    said of[CHOICES];
    int count;
} choices;

/* ---- asking ---- */

static json_value item_of(json_value v, const char *key, size_t i) {
    json_value list;
    assert_int_equal(json_get(v, key, &list), STATUS_OK);
    return json_item(list, i);
}

static void take_logprobs(said *s, json_value v) {
    json_value list, each;
    size_t count;
    const char *word;
    double x;
    assert_int_equal(json_get(v, "tokens", &list), STATUS_OK);
    assert_int_equal(json_as_array(list, &count), STATUS_OK);
    for (size_t i = 0; i < count; i++, s->tokens++) {
        int n = s->tokens;
        assert_true(n < TOKENS);
        assert_int_equal(json_as_string(json_item(list, i), &word), STATUS_OK);
        snprintf(s->token[n], sizeof s->token[n], "%s", word);
        json_value number = item_of(v, "token_logprobs", i), top = item_of(v, "top_logprobs", i);
        s->logprob[n] = 1;
        if (number.object) assert_int_equal(json_as_number(number, -1e9, 0, &s->logprob[n]), STATUS_OK);
        assert_int_equal(json_as_number(item_of(v, "text_offset", i), 0, 999, &x), STATUS_OK);
        s->offset[n] = (int)x, s->likeliest[n] = 0;
        for (void *cursor = NULL; top.object && json_next(top, &cursor, &each);) s->likeliest[n]++;
    }
}

static void take_object(choices *c, const char *from, size_t count) {
    json_document d;
    json_value list, value;
    size_t n;
    const char *words;
    if (json_parse("answer", from, count, &d) != STATUS_OK) fail_msg("%s: %s", status_message(), from);
    assert_int_equal(json_get(d.root, "choices", &list), STATUS_OK);
    assert_int_equal(json_as_array(list, &n), STATUS_OK);
    for (size_t i = 0; i < n; i++) {
        int64_t index;
        assert_int_equal(json_get_integer(json_item(list, i), "index", 0, CHOICES - 1, &index), STATUS_OK);
        said *s = &c->of[index];
        if (index >= c->count) c->count = (int)index + 1;
        assert_int_equal(json_get_string(json_item(list, i), "text", &words), STATUS_OK);
        strcat(s->text, words);
        if (json_find(json_item(list, i), "finish_reason", &value)) {
            assert_int_equal(json_as_string(value, &words), STATUS_OK);
            snprintf(s->reason, sizeof s->reason, "%s", words);
        }
        if (json_find(json_item(list, i), "logprobs", &value)) take_logprobs(s, value);
    }
    json_close(&d);
}

static int ask(const char *fields, bool streamed, choices *c) {
    char body[1024];
    snprintf(body, sizeof body, "{%s%s}", fields, streamed ? ", \"stream\": true" : "");
    int code = serving_post("/v1/completions", body, answer);
    memset(c, 0, sizeof *c);
    if (code != 200) return code;
    const char *said_ = serving_body(answer);
    if (!streamed) take_object(c, said_, strlen(said_));
    for (const char *at = said_; streamed && (at = strstr(at, "data: {")); at++)
        take_object(c, at + strlen("data: "), strcspn(at, "\n") - strlen("data: "));
    return code;
}

static void assert_same(const said *a, const said *b) {
    assert_string_equal(a->text, b->text);
    assert_string_equal(a->reason, b->reason);
    assert_int_equal(a->tokens, b->tokens);
    assert_memory_equal(a->logprob, b->logprob, sizeof a->logprob);
    assert_memory_equal(a->offset, b->offset, sizeof a->offset);
    assert_memory_equal(a->token, b->token, sizeof a->token);
    assert_memory_equal(a->likeliest, b->likeliest, sizeof a->likeliest);
}

/* Whole and in events, which say the same. */
static void both(const char *fields, said *s) {
    static choices whole, streamed;
    if (ask(fields, false, &whole) != 200) fail_msg("%s: %s", fields, answer);
    if (ask(fields, true, &streamed) != 200) fail_msg("%s: %s", fields, answer);
    assert_same(&whole.of[0], &streamed.of[0]);
    *s = whole.of[0];
}

static void stop_serving(void) {
    command_result r = serving_stop();
    const char *at = strstr(r.err, "Planned: ");
    assert_non_null(at);
    unsigned long long planned = strtoull(strchr(at, '(') + 1, NULL, 10);
    if (!SANITIZED && r.resident_peak > planned)
        fail_msg("%llu bytes are resident, and %llu are planned", (unsigned long long)r.resident_peak,
                 planned);
    command_free(&r);
}

/* ---- the prompt ---- */

static const char prompt[] = "the letter of the law and";

/* What a token of the prompt is told with is what it would be drawn with behind those before it. */
static void assert_logarithms(const said *s) {
    static choices c;
    char fields[256];
    for (int i = 1; i < (int)strlen(prompt); i++) {
        snprintf(fields, sizeof fields,
                 "\"prompt\": \"%.*s\", \"max_tokens\": 1, \"temperature\": 0, \"logprobs\": 4, "
                 "\"logit_bias\": {\"%d\": 100}",
                 i, prompt, prompt[i]);
        assert_int_equal(ask(fields, false, &c), 200);
        assert_int_equal(c.of[0].text[0], prompt[i]);
        if (c.of[0].logprob[0] != s->logprob[i] || c.of[0].likeliest[0] != s->likeliest[i])
            fail_msg("token %d is told with %g, and drawn with %g", i, s->logprob[i], c.of[0].logprob[0]);
    }
}

static void prompts_are_told(void **state) {
    (void)state;
    if (left_out) return;
    static said first, s, plain, behind;
    static const char *const options[] = { "", "--max-num-seqs 1",
                                           "--max-num-seqs 3 --max-num-batched-tokens 2",
                                           "--admission expected --speculate 3" };
    static const int tokens[] = { 0, 1, 9 };
    int n = (int)strlen(prompt);
    char fields[256];
    for (int o = 0; o < 4; o++) {
        serving_start(options[o]);
        for (int k = 0; k < 3; k++) {
            snprintf(fields, sizeof fields,
                     "\"prompt\": \"%s\", \"max_tokens\": %d, \"temperature\": 0, \"echo\": true", prompt,
                     tokens[k]);
            both(fields, &plain);
            assert_int_equal(plain.tokens, 0);
            strcat(fields, ", \"logprobs\": 4");
            both(fields, &s);
            assert_string_equal(s.text, plain.text);
            assert_string_equal(s.reason, "length");
            assert_int_equal(strncmp(s.text, prompt, strlen(prompt)), 0);
            assert_int_equal(s.tokens, n + tokens[k]);
            assert_true(s.logprob[0] > 0 && !s.likeliest[0]); /* there is nothing before it */
            for (int i = 0; i < s.tokens; i++) {
                assert_int_equal(s.offset[i], i);
                assert_int_equal(s.token[i][0], s.text[i]);
                if (i) assert_true(s.logprob[i] <= 0 && s.likeliest[i] >= 4);
            }
            if (o == 0 && k == 2) first = s;
            if (k == 2) assert_same(&first, &s); /* whatever the server has room for */
        }
        snprintf(fields, sizeof fields,
                 "\"prompt\": \"%s\", \"max_tokens\": 9, \"temperature\": 0, \"logprobs\": 4", prompt);
        both(fields, &behind);
        assert_string_equal(behind.text, first.text + n);
        assert_memory_equal(behind.logprob, first.logprob + n, 9 * sizeof(double));
        both("\"prompt\": \"t\", \"max_tokens\": 0, \"echo\": true, \"logprobs\": 0", &s);
        assert_string_equal(s.text, "t");
        assert_int_equal(s.tokens, 1);
        /* What stops an answer does not stop its prompt. */
        snprintf(
            fields, sizeof fields,
            "\"prompt\": \"%s\", \"max_tokens\": 9, \"temperature\": 0, \"echo\": true, \"logprobs\": 1, "
            "\"stop\": [\"the\", \"%.2s\"]",
            prompt, first.text + n + 3);
        both(fields, &s);
        assert_string_equal(s.reason, "stop");
        assert_int_equal(strncmp(s.text, prompt, strlen(prompt)), 0);
        if (!o) assert_logarithms(&first);
        stop_serving();
    }
}

/* Who does not read makes room for nobody else, and a ring that is full loses nothing: events of the longest
 * prompt with twenty likeliest for each token. */
static void long_echoes_come_whole(void **state) {
    (void)state;
    if (left_out) return;
    static choices one, several;
    static char long_answer[1 << 20];
    const char *body =
        "{\"prompt\": \""
        "aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbcccccccccccccccccccc\", "
        "\"max_tokens\": 2, \"temperature\": 0, \"echo\": true, \"logprobs\": 20, \"stream\": true}";
    char request[512];
    serving_start("--max-num-seqs 4");
    int count = snprintf(request, sizeof request,
                         "POST /v1/completions HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         strlen(body), body);
    int slow = serving_reach();
    assert_true(serving_send(slow, request, (size_t)count)); /* and reads nothing for now */
    const char *fields = "\"prompt\": \"aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbcccccccccccccccccccc\", "
                         "\"max_tokens\": 2, \"temperature\": 0, \"echo\": true, \"logprobs\": 20";
    assert_int_equal(ask(fields, false, &one), 200);
    assert_int_equal(one.of[0].tokens, 62);
    size_t got = serving_receive(slow, long_answer, sizeof long_answer - 1);
    assert_non_null(strstr(long_answer + got - 20, "[DONE]"));
    memset(&several, 0, sizeof several);
    for (const char *at = long_answer; (at = strstr(at, "data: {")); at++)
        take_object(&several, at + strlen("data: "), strcspn(at, "\n") - strlen("data: "));
    assert_same(&one.of[0], &several.of[0]);
    stop_serving();
}

/* ---- the best ---- */

static double mean_of(const said *s) {
    double sum = 0;
    for (int i = 0; i < s->tokens; i++) sum += s->logprob[i];
    return sum / s->tokens;
}

static void the_best_are_kept(void **state) {
    (void)state;
    if (left_out) return;
    static choices all, best;
    static const char *const options[] = { "", "--max-num-seqs 1 --max-queue 8",
                                           "--max-num-batched-tokens 3" };
    char fields[256];
    int order[6];
    for (int o = 0; o < 3; o++) {
        serving_start(options[o]);
        if (!o) {
            snprintf(fields, sizeof fields,
                     "\"prompt\": \"%s\", \"max_tokens\": 11, \"seed\": 9, \"n\": 6, \"logprobs\": 0",
                     prompt);
            assert_int_equal(ask(fields, false, &all), 200);
            for (int i = 0; i < 6; i++) {
                int at = i;
                for (; at > 0 && mean_of(&all.of[order[at - 1]]) < mean_of(&all.of[i]); at--)
                    order[at] = order[at - 1];
                order[at] = i;
            }
            assert_int_not_equal(order[0], 0); /* or the test would see little */
        }
        for (int kind = 0; kind < 12; kind++) {
            int n = kind % 3 == 0 ? 1 : kind % 3 == 1 ? 2 : 5;
            bool echoes = kind / 3 % 2, told = kind / 6;
            snprintf(fields, sizeof fields,
                     "\"prompt\": \"%s\", \"max_tokens\": 11, \"seed\": 9, \"n\": %d, \"best_of\": 6%s%s",
                     prompt, n, echoes ? ", \"echo\": true" : "", told ? ", \"logprobs\": 0" : "");
            if (ask(fields, false, &best) != 200) fail_msg("%s: %s", fields, answer);
            assert_int_equal(best.count, n);
            size_t before = echoes ? strlen(prompt) : 0;
            for (int i = 0; i < n; i++) {
                const said *is = &best.of[i], *was = &all.of[order[i]];
                assert_int_equal(strncmp(is->text, prompt, before), 0);
                assert_string_equal(is->text + before, was->text);
                assert_int_equal(is->tokens, told ? (int)before + 11 : 0);
                if (told) assert_memory_equal(is->logprob + before, was->logprob, 11 * sizeof(double));
                if (told && echoes) assert_true(is->logprob[0] > 0 && is->logprob[1] <= 0);
            }
            assert_non_null(strstr(answer, "\"completion_tokens\":66"));
        }
        stop_serving();
    }
}

/* Candidates whose client leaves are gone at once, and so are their blocks. */
static void who_leaves_is_not_waited_for(void **state) {
    (void)state;
    if (left_out) return;
    static choices c;
    char request[400];
    const char *body = "{\"prompt\": \"a\", \"max_tokens\": 60, \"best_of\": 4}";
    serving_start("--max-num-seqs 2 --max-queue 4");
    int count = snprintf(request, sizeof request,
                         "POST /v1/completions HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         strlen(body), body);
    for (int i = 0; i < 12; i++) {
        int s = serving_reach();
        assert_true(serving_send(s, request, (size_t)count));
        if (i % 2) serving_receive(s, answer, (size_t)i * 20);
        close(s);
    }
    for (int tries = 0; tries < 200; tries++) {
        if (ask("\"prompt\": \"a\", \"max_tokens\": 3, \"best_of\": 5, \"n\": 2", false, &c) == 200) break;
        usleep(20000);
    }
    assert_int_equal(c.count, 2);
    assert_int_equal(serving_get("/metrics", answer), 200);
    assert_non_null(strstr(answer, "snug_blocks{state=\"used\"} 0"));
    stop_serving();
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    if (left_out) return;
    static choices c;
    static const struct {
        const char *fields, *words, *field;
    } cases[] = {
        { "\"n\": 3, \"best_of\": 2", "it must be at least n, which is 3", "best_of" },
        { "\"best_of\": 2, \"stream\": true", "can't come as events", "best_of" },
        { "\"best_of\": 2, \"logprobs\": 1", "no memory for the likeliest tokens", "best_of" },
        { "\"best_of\": 81", "81 answers at once are more than the 80", "best_of" },
        { "\"max_tokens\": 0", "0 is only for an echo", "max_tokens" },
        { "\"echo\": 1", "it must be true or false", "echo" },
        { "\"echo\": true, \"max_tokens\": 65", "from 0 to 64", "max_tokens" },
    };
    char body[256], param[64];
    serving_start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(body, sizeof body, "\"prompt\": \"a\", %s", cases[i].fields);
        snprintf(param, sizeof param, "\"param\": \"%s\"", cases[i].field);
        int code = ask(body, false, &c);
        if (code != 400 || !strstr(answer, cases[i].words) || !strstr(answer, param))
            fail_msg("%s is answered with %d: %s", body, code, answer);
    }
    stop_serving();
}

static int make(void **state) { return serving_make_model(state, 30, &left_out); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_told),
        cmocka_unit_test(long_echoes_come_whole),
        cmocka_unit_test(the_best_are_kept),
        cmocka_unit_test(who_leaves_is_not_waited_for),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, make, scratch_close);
}
