/* snug serve as its clients see it: answers are those of generate, alone or among others, in events or whole;
 * who leaves, dawdles or asks for nonsense harms nobody; nothing takes more memory than was planned. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/philox.h"
#include "cli/serving.h"
#include "io/scratch.h"
#include "sanitized.h"

/* Without the library the program says so, and there is nothing more to see. */
static bool left_out;

/* ---- a client ---- */

enum { ANSWER = SERVING_ANSWER };

static int send_request(int s, const char *method, const char *path, const char *head, const char *body) {
    char line[1024];
    int count = snprintf(line, sizeof line, "%s %s HTTP/1.0\r\nHost: here\r\n%sContent-Length: %zu\r\n\r\n",
                         method, path, head, strlen(body));
    return send(s, line, (size_t)count, MSG_NOSIGNAL) == count &&
                   send(s, body, strlen(body), MSG_NOSIGNAL) == (ssize_t)strlen(body)
               ? 0
               : -1;
}

/* The status, and the body in `out`. */
static int ask_as(const char *method, const char *path, const char *head, const char *body,
                  char out[ANSWER]) {
    int code = serving_ask(method, path, head, body, out);
    const char *words = serving_body(out);
    memmove(out, words, strlen(words) + 1);
    return code;
}

static int ask(const char *path, const char *body, char out[ANSWER]) {
    return ask_as("POST", path, "", body, out);
}

/* choices[0].text of a whole answer, or the pieces of all events one behind the other. */
static void text_of(const char *answer, bool streamed, char *out) {
    *out = 0;
    while (*answer) {
        const char *from = streamed ? strstr(answer, "data: {") : answer, *end;
        if (!from) return;
        if (streamed) from += strlen("data: ");
        end = strchr(from, '\n');
        if (!end) end = from + strlen(from);
        json_document d;
        if (json_parse("answer", from, (size_t)(end - from), &d) != STATUS_OK)
            fail_msg("%s: %s", status_message(), from);
        json_value choices, value;
        if (json_get(d.root, "choices", &choices) != STATUS_OK) fail_msg("%s", status_message());
        size_t count;
        assert_int_equal(json_as_array(choices, &count), STATUS_OK);
        const char *words;
        if (count && json_get(json_item(choices, 0), "text", &value) == STATUS_OK &&
            json_as_string(value, &words) == STATUS_OK)
            strcat(out, words);
        json_close(&d);
        if (!streamed) return;
        answer = end;
    }
}

/* ---- one by one ---- */

static void answers_are_those_of_generate(void **state) {
    (void)state;
    if (left_out) return;
    static const char *const prompts[] = { "The", "a dog and", "0123", "z" };
    static char answer[ANSWER], whole[ANSWER], streamed[ANSWER];
    json_document truths[4]; /* before: the program's words go to one file */
    for (int i = 0; i < 4; i++) {
        scratch_write("prompt", prompts[i], strlen(prompts[i]));
        truths[i] = command_json(
            "generate model --prompt-file prompt --tokens 12 --temperature 0 --threads 1 --json --quiet");
    }
    serving_start("");
    for (int i = 0; i < 4; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"prompt\": \"%s\", \"max_tokens\": 12, \"temperature\": 0, \"model\": \"model\"}",
                 prompts[i]);
        assert_int_equal(ask("/v1/completions", body, answer), 200);
        text_of(answer, false, whole);
        assert_string_equal(command_string(&truths[i], "text"), whole);
        assert_non_null(strstr(answer, "\"completion_tokens\":12"));
        assert_non_null(strstr(answer, "\"finish_reason\":\"length\""));
        snprintf(body, sizeof body,
                 "{\"prompt\": \"%s\", \"max_tokens\": 12, \"temperature\": 0, \"stream\": true, "
                 "\"stream_options\": {\"include_usage\": true}}",
                 prompts[i]);
        assert_int_equal(ask("/v1/completions", body, answer), 200);
        text_of(answer, true, streamed);
        assert_string_equal(whole, streamed);
        assert_non_null(strstr(answer, "data: [DONE]\n\n"));
        assert_non_null(strstr(answer, "\"choices\":[],\"usage\":{"));
        json_close(&truths[i]);
    }
    command_result r = serving_stop();
    if (!command_has_words(r.err, "8 requests: 8 answered, 0 left by their clients, 0 refused"))
        fail_msg("%s", r.err);
    command_free(&r);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    if (left_out) return;
    static char answer[ANSWER], long_body[1 << 20];
    static const struct {
        const char *method, *path, *body;
        int code;
        const char *words;
    } cases[] = {
        { "POST", "/v1/completions", "{\"prompt\": \"a\"", 400, "wrong at byte 14" },
        { "POST", "/v1/completions", "[]", 400, "must be a JSON object" },
        { "POST", "/v1/completions", "", 400, "wrong at byte" },
        { "POST", "/v1/completions", "{}", 400, "it is missing" },
        { "POST", "/v1/completions", "{\"prompt\": 3}", 400, "must be one text" },
        { "POST", "/v1/completions", "{\"prompt\": []}", 400, "it is empty" },
        { "POST", "/v1/completions", "{\"prompt\": [300]}", 400, "from 0 to 255" },
        { "POST", "/v1/completions", "{\"prompt\": [-1]}", 400, "from 0 to 255" },
        { "POST", "/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 0}", 400, "max_tokens" },
        { "POST", "/v1/completions", "{\"prompt\": \"aaaa\", \"max_tokens\": 64}", 400,
          "behind 4 of the prompt" },
        { "POST", "/v1/completions", "{\"prompt\": \"a\", \"temperature\": -1}", 400, "temperature" },
        { "POST", "/v1/completions", "{\"prompt\": \"a\", \"top_p\": 0}", 400, "above 0" },
        { "POST", "/v1/completions", "{\"prompt\": \"a\", \"n\": 200}", 400, "\"n\"" },
        { "POST", "/v1/completions", "{\"prompt\": \"a\", \"stop\": \"\"}", 400, "stop string" },
        { "POST", "/v1/completions", "{\"prompt\": \"a\", \"stop\": [\"a\",\"b\",\"c\",\"d\",\"e\"]}", 400,
          "at most 4" },
        { "POST", "/v1/completions", "{\"prompt\": \"a\", \"model\": \"gpt-4\"}", 404, "'model'" },
        { "POST", "/v1/chat/completions", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", 400,
          "no chat template" },
        { "POST", "/v1/nothing", "{}", 404, "nothing of this name" },
        { "GET", "/nothing", "", 404, "nothing of this name" },
        { "DELETE", "/v1/models", "", 405, "GET and POST" },
        { "GET", "/health", "", 200, "ok" },
        { "GET", "/v1/models", "", 200, "\"max_model_len\": 64" },
    };
    serving_start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = ask_as(cases[i].method, cases[i].path, "", cases[i].body, answer);
        if (code != cases[i].code || !strstr(answer, cases[i].words))
            fail_msg("%s %s is answered with %d: %s", cases[i].path, cases[i].body, code, answer);
    }
    memset(long_body, 'a', sizeof long_body - 1);
    memcpy(long_body, "{\"prompt\": \"", 12);
    assert_int_equal(ask("/v1/completions", long_body, answer), 413);
    memset(long_body, '[', 1000), long_body[1000] = 0;
    assert_int_equal(ask("/v1/completions", long_body, answer), 400);
    assert_int_equal(ask("/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 2}", answer),
                     200); /* all is well */
    command_result r = serving_stop();
    assert_true(command_has_words(r.err, "1 requests: 1 answered"));
    command_free(&r);
}

static void keys_are_asked_for(void **state) {
    (void)state;
    if (left_out) return;
    static char answer[ANSWER];
    FILE *file = fopen("key", "w");
    fputs("secret\n", file);
    fclose(file);
    serving_start("--api-key-file key");
    const char *body = "{\"prompt\": \"a\", \"max_tokens\": 1}";
    assert_int_equal(ask("/v1/completions", body, answer), 401);
    assert_int_equal(ask_as("POST", "/v1/completions", "Authorization: Bearer secre\r\n", body, answer), 401);
    assert_int_equal(ask_as("POST", "/v1/completions", "Authorization: Bearer secret!\r\n", body, answer),
                     401);
    assert_int_equal(ask_as("POST", "/v1/completions", "Authorization: Bearer secret\r\n", body, answer),
                     200);
    assert_int_equal(ask_as("GET", "/v1/models", "", "", answer), 401);
    assert_int_equal(ask_as("GET", "/health", "", "", answer), 200);
    command_result r = serving_stop();
    command_free(&r);
}

/* ---- many at once ---- */

enum { CLIENTS = 12, KINDS = 16 };

/* What is asked, and the answer to it alone. */
static struct { char body[512], alone[ANSWER]; } kinds[KINDS];

/* Whom they ask, in turns: model, adapters; NULL: nobody by name. */
static const char *const *asked_models;

static uint32_t drawn(uint32_t client, uint32_t turn, uint32_t what, uint32_t below) {
    return philox_draw(11, (philox_block){ { client, turn, what } }).word[0] % below;
}

static void make_kinds(void) {
    static char answer[ANSWER];
    for (uint32_t i = 0; i < KINDS; i++) {
        char prompt[40] = "";
        uint32_t length = 1 + drawn(i, 0, 1, 30), tokens = 1 + drawn(i, 0, 2, 64 - length);
        for (uint32_t k = 0; k < length; k++) prompt[k] = (char)('a' + drawn(i, k, 3, 26));
        snprintf(kinds[i].body, sizeof kinds[i].body,
                 "{\"model\": \"%s\", \"prompt\": \"%s\", \"max_tokens\": %u, \"seed\": %u, "
                 "\"temperature\": %s, \"top_p\": %s, \"stream\": %s}",
                 asked_models ? asked_models[i / 2 % 3] : "model", prompt, tokens, i, i % 3 ? "1.1" : "0",
                 i % 2 ? "0.9" : "1", i % 4 ? "true" : "false");
        assert_int_equal(ask("/v1/completions", kinds[i].body, answer), 200);
        text_of(answer, i % 4 != 0, kinds[i].alone);
    }
}

typedef struct {
    uint32_t number, turns;
    int answered;
    const char *wrong;
} client;

static void sleep_some(uint32_t milliseconds) { usleep(milliseconds * 1000); }

/* A byte, or some, at a time. */
static void send_slowly(int s, const char *body) {
    char head[128];
    int count = snprintf(head, sizeof head, "POST /v1/completions HTTP/1.0\r\nContent-Length: %zu\r\n\r\n",
                         strlen(body));
    for (int i = 0; i < count; i++)
        if (send(s, head + i, 1, MSG_NOSIGNAL) != 1) return;
    for (size_t i = 0; body[i]; i++) {
        if (send(s, body + i, 1, MSG_NOSIGNAL) != 1) return;
        if (i % 16 == 0) sleep_some(1);
    }
}

/* How a client behaves in a turn. */
enum { GOES_AMIDST_ITS_REQUEST, SENDS_SLOWLY, GOES_AMIDST_THE_ANSWER, GOES_SOON_TOO, READS_LATE, WAYS = 8 };

static uint32_t way_of(uint32_t number, uint32_t turn) { return drawn(number, turn, 2, WAYS); }

static bool stays(uint32_t way) {
    return way != GOES_AMIDST_ITS_REQUEST && way != GOES_AMIDST_THE_ANSWER && way != GOES_SOON_TOO;
}

/* One request of one turn; false: there was no room for it. */
static bool ask_in_turn(client *c, uint32_t turn, char *answer, char *said) {
    uint32_t kind = drawn(c->number, turn, 1, KINDS), way = way_of(c->number, turn);
    int s = serving_reach();
    if (s < 0) return false;
    if (way == GOES_AMIDST_ITS_REQUEST) {
        send(s, kinds[kind].body, drawn(c->number, turn, 3, 40), MSG_NOSIGNAL);
        close(s);
        return true;
    }
    if (way == SENDS_SLOWLY)
        send_slowly(s, kinds[kind].body);
    else
        send_request(s, "POST", "/v1/completions", "", kinds[kind].body);
    if (!stays(way)) {
        serving_receive(s, answer, drawn(c->number, turn, 4, 600));
        close(s);
        return true;
    }
    if (way == READS_LATE) sleep_some(drawn(c->number, turn, 5, 60));
    serving_receive(s, answer, ANSWER - 1);
    close(s);
    if (strstr(answer, " 503 ") || strstr(answer, " 429 ")) return false;
    char *words = strstr(answer, "\r\n\r\n");
    if (!words || !strstr(answer, " 200 ")) {
        c->wrong = "an answer is none";
        return true;
    }
    text_of(words + 4, kind % 4 != 0, said);
    c->answered++;
    if (strcmp(said, kinds[kind].alone) != 0) c->wrong = "an answer is another one than alone";
    return true;
}

/* Who finds no room asks again: a slow machine answers late, and answers everybody. */
static void *behave(void *context) {
    enum { TRIES = 3000 }; /* of 20 ms: a minute */
    client *c = context;
    char *answer = malloc(ANSWER), *said = malloc(ANSWER);
    for (uint32_t turn = 0; turn < c->turns && !c->wrong; turn++) {
        int tries = 0;
        while (!ask_in_turn(c, turn, answer, said) && ++tries < TRIES) sleep_some(20);
        if (tries == TRIES) c->wrong = "there was never room";
    }
    free(answer);
    free(said);
    return NULL;
}

/* Answers that a client waits for. */
static int awaited(const client *c) {
    int count = 0;
    for (uint32_t turn = 0; turn < c->turns; turn++) count += stays(way_of(c->number, turn));
    return count;
}

static void many_at_once(const char *options) {
    client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    static char answer[ANSWER];
    int answered = 0;
    serving_start(options);
    make_kinds();
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = (client){ .number = i, .turns = SANITIZED ? 5 : 10 };
        assert_int_equal(pthread_create(&threads[i], NULL, behave, &clients[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        if (clients[i].wrong) fail_msg("%s: %s", options, clients[i].wrong);
        assert_int_equal(clients[i].answered, awaited(&clients[i]));
        answered += clients[i].answered;
    }
    assert_true(answered > CLIENTS);
    for (uint32_t i = 0; i < KINDS; i++) { /* nothing was lost: all of it is there again */
        assert_int_equal(ask("/v1/completions", kinds[i].body, answer), 200);
        static char again[ANSWER];
        text_of(answer, i % 4 != 0, again);
        assert_string_equal(again, kinds[i].alone);
    }
    command_result r = serving_stop();
    unsigned long long requests, finished, left;
    const char *line = strstr(r.err, " requests: ");
    assert_non_null(line);
    while (line > r.err && line[-1] >= '0' && line[-1] <= '9') line--;
    assert_int_equal(sscanf(line, "%llu requests: %llu answered, %llu left", &requests, &finished, &left), 3);
    assert_int_equal(requests, finished + left);
    assert_true(finished >= (unsigned)answered);
    command_free(&r);
}

static void neighbours_and_clients_change_nothing(void **state) {
    (void)state;
    if (left_out) return;
    many_at_once("");
    many_at_once("--max-num-seqs 3 --max-num-batched-tokens 5 --kv-cache-dtype bf16");
    many_at_once("--speculate 4 --admission expected --max-num-seqs 5 --share-prefixes all");
    many_at_once(
        "--max-num-seqs 1 --share-prefixes off --max-queue 2 --max-connections 6 --kv-cache-dtype int8");
}

/* ---- what is shared, and what is damaged ---- */

static long long usage_of(const char *answer, const char *what) {
    const char *at = strstr(answer, what);
    if (!at) fail_msg("no %s in %s", what, answer);
    return strtoll(at + strlen(what) + 2, NULL, 10);
}

/* Of a prompt that somebody with the same key has asked before, whole blocks are there. */
static void beginnings_are_told(void **state) {
    (void)state;
    if (left_out) return;
    static char answer[ANSWER];
    static const char *const body =
        "{\"prompt\": \"a prompt of forty letters, one for each id\", \"max_tokens\": 2, \"temperature\": 0}";
    static const struct {
        const char *options, *second_key;
        long long cached;
    } cases[] = { { "", "one", 32 },
                  { "", "two", 0 },
                  { "--share-prefixes all", "two", 32 },
                  { "--share-prefixes off", "one", 0 } };
    scratch_write("keys", "one\n\ntwo\r\n", 10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[128], head[64];
        snprintf(line, sizeof line, "--api-key-file keys %s", cases[i].options);
        serving_start(line);
        assert_int_equal(ask_as("POST", "/v1/completions", "Authorization: Bearer one\r\n", body, answer),
                         200);
        assert_int_equal(usage_of(answer, "cached_tokens"), 0);
        snprintf(head, sizeof head, "Authorization: Bearer %s\r\n", cases[i].second_key);
        assert_int_equal(ask_as("POST", "/v1/completions", head, body, answer), 200);
        assert_int_equal(usage_of(answer, "cached_tokens"), cases[i].cached);
        assert_int_equal(ask_as("POST", "/v1/completions", "Authorization: Bearer \r\n", body, answer), 401);
        command_result r = serving_stop();
        command_free(&r);
    }
}

/* The model with positions from 40 on whose numbers become none. */
static void damage_model(void) {
    enum { POSITION = 40, CONTEXT = 64 };
    command_shell("rm -rf damaged && cp -r model damaged");
    static char head[1 << 16];
    uint64_t length = 0;
    FILE *file = fopen("damaged/model.safetensors", "r+b");
    assert_true(file && fread(&length, sizeof length, 1, file) == 1 && length < sizeof head);
    assert_int_equal(fread(head, 1, length, file), length);
    unsigned long long from, to;
    const char *at = strstr(strstr(head, "wpe.weight\""), "\"data_offsets\":");
    assert_int_equal(sscanf(at + strlen("\"data_offsets\":"), " [%llu , %llu", &from, &to), 2);
    uint64_t row = (to - from) / CONTEXT;
    const float huge = 3e38f;
    fseek(file, (long)(sizeof length + length + from + POSITION * row), SEEK_SET);
    for (uint64_t i = 0; i < row; i += sizeof huge) fwrite(&huge, sizeof huge, 1, file);
    fclose(file);
}

/* A text whose numbers are none ends with an error of its own; who is beside it goes on. */
static void damage_ends_one_answer(void **state) {
    (void)state;
    if (left_out) return;
    static char answer[ANSWER], beside[ANSWER];
    damage_model();
    serving_start_model("damaged", "");
    int s = serving_reach();
    send_request(s, "POST", "/v1/completions", "",
                 "{\"prompt\": \"abc\", \"max_tokens\": 36, \"stream\": true, \"temperature\": 0}");
    ask("/v1/completions", "{\"prompt\": \"abc\", \"max_tokens\": 50, \"stream\": true}", answer);
    assert_non_null(strstr(answer, "\"text\":"));
    assert_non_null(strstr(answer, "data: {\"error\": {\"message\": \"the logit of token"));
    assert_non_null(strstr(answer, "\"type\": \"server_error\""));
    assert_null(strstr(answer, "finish_reason\":\"length"));
    serving_receive(s, beside, ANSWER - 1);
    close(s);
    assert_non_null(strstr(beside, "finish_reason\":\"length"));
    assert_int_equal(ask("/v1/completions", "{\"prompt\": \"abc\", \"max_tokens\": 50}", answer), 500);
    assert_non_null(strstr(answer, "{\"error\": {\"message\": \"the logit of token"));
    assert_null(strstr(answer, "choices"));
    assert_int_equal(ask("/v1/completions", "{\"prompt\": \"abc\", \"max_tokens\": 30}", answer), 200);
    assert_non_null(strstr(answer, "finish_reason\":\"length"));
    command_result r = serving_stop();
    command_free(&r);
}

/* Who is asked to stop finishes what it has begun, and takes nothing new. */
static void what_has_begun_is_finished(void **state) {
    (void)state;
    if (left_out) return;
    static char answer[ANSWER];
    serving_start("--max-num-seqs 2");
    int s = serving_reach();
    send_request(s, "POST", "/v1/completions", "",
                 "{\"prompt\": \"a\", \"max_tokens\": 60, \"stream\": true, \"temperature\": 0}");
    assert_true(serving_receive(s, answer, 1) == 1);
    kill(serving_pid, SIGTERM);
    size_t count = 1 + serving_receive(s, answer + 1, ANSWER - 2);
    close(s);
    assert_true(count > 0 && strstr(answer, "data: [DONE]") != NULL);
    command_result r = command_wait(serving_pid);
    assert_int_equal(r.exit, 0);
    command_free(&r);
}

/* ---- the plan ---- */

/* MiB of the lines behind `head`, up to the next head or the end; and what the head itself says. */
static double sum_of_lines(const char *all, const char *head, double *said) {
    static const struct {
        const char *name;
        double mib;
    } units[] = { { "bytes", 1.0 / (1 << 20) }, { "KiB", 1.0 / 1024 }, { "MiB", 1 }, { "GiB", 1024 } };
    const char *at = strstr(all, head);
    double sum = 0;
    assert_non_null(at);
    *said = atof(at + strlen(head));
    while ((at = strchr(at, '\n')) && strncmp(at, "\n  ", 3) == 0) {
        char *unit;
        double x = strtod(at += strlen("\n  ") + 16, &unit);
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strncmp(unit + 1, units[i].name, strlen(units[i].name)) == 0) sum += x * units[i].mib;
    }
    return sum;
}

/* Here, and where a GPU has a memory of its own: the lines are what their heads say. */
static void lines_add_up(void **state) {
    (void)state;
    if (left_out) return;
    double said, sum;
    command_result r = command_run("serve model --dry-run --threads 1");
    sum = sum_of_lines(r.err, "Planned: ", &said);
    if (fabs(sum - said) > 0.5) fail_msg("%g and %g: %s", sum, said, r.err);
    command_free(&r);
    r = command_run("serve model --dry-run --threads 1 --gpu h200");
    sum = sum_of_lines(r.err, "Planned: ", &said);
    if (fabs(sum - said) > 0.5) fail_msg("%g and %g: %s", sum, said, r.err);
    sum = sum_of_lines(r.err, "In the host's memory: ", &said);
    if (fabs(sum - said) > 0.5) fail_msg("%g and %g: %s", sum, said, r.err);
    command_free(&r);
}

static void plans_are_kept(void **state) {
    (void)state;
    if (left_out) return;
    command_result r = command_run("serve model --dry-run --threads 1");
    assert_int_equal(r.exit, 0);
    const char *at = strstr(r.err, "(");
    unsigned long long planned = at ? strtoull(at + 1, NULL, 10) : 0;
    assert_true(planned > 1 << 20);
    assert_true(command_has_words(r.err, "64 blocks of 16 positions; 16 texts of 64 at once"));
    command_free(&r);
    serving_start("");
    make_kinds();
    r = serving_stop();
    if (!SANITIZED && r.resident_peak > planned)
        fail_msg("%llu bytes are resident, and %llu are planned", (unsigned long long)r.resident_peak,
                 planned);
    command_free(&r);
    assert_true(command_says("serve model --memory 1MiB --dry-run", 3, "does not fit"));
    assert_true(command_says("serve nowhere", 2, "nowhere"));
    assert_true(command_says("serve model --max-model-len 65", 2, "the model's context 64"));
    assert_true(command_says("serve model --host there", 2, "no IPv4 address"));
    serving_start("");
    char line[64];
    snprintf(line, sizeof line, "serve model --port %d", serving_port);
    assert_true(command_says(line, 2, "cannot be listened at"));
    r = command_wait((kill(serving_pid, SIGTERM), serving_pid));
    command_free(&r);
}

static int open_model(void **state) { return serving_make_model(state, 30, &left_out); }

/* ---- adapters ---- */

/* More than two blocks, which must not be shared between adapters. */
#define BEGINNING "The dog and the cat and the bird are"

/* Two of other ranks and products. */
static void make_adapters(void) {
    command_expect(0, "train model --data text --out ada --steps 12 --batch 4 --lr 3e-2 --quiet --lora "
                      "rank=4,target=c_attn+mlp.c_proj");
    command_expect(0, "train model --data text --out adb --steps 9 --batch 4 --lr 3e-2 --quiet --lora "
                      "rank=7,alpha=3,target=c_fc+attn.c_proj");
}

static void answer_of(const char *model, char out[ANSWER]) {
    static char answer[ANSWER];
    char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\": \"" BEGINNING
             "\", \"max_tokens\": 24, \"temperature\": 1.5, \"seed\": 5, \"model\": \"%s\"}",
             model);
    assert_int_equal(ask("/v1/completions", body, answer), 200);
    char said[64];
    snprintf(said, sizeof said, "\"model\":\"%s\"", model);
    assert_non_null(strstr(answer, said));
    text_of(answer, false, out);
}

static void adapters_are_chosen_by_name(void **state) {
    (void)state;
    static const char *const names[] = { "model", "a", "b" }, *const folders[] = { "", "--adapter ada",
                                                                                   "--adapter adb" };
    static char is[3][ANSWER], answer[ANSWER];
    json_document truths[3];
    if (left_out) return;
    make_adapters();
    scratch_write("prompt", BEGINNING, strlen(BEGINNING));
    for (int i = 0; i < 3; i++) {
        char line[256];
        snprintf(line, sizeof line,
                 "generate model --prompt-file prompt --tokens 24 --temperature 1.5 --seed 5 --threads 1 "
                 "--json --quiet %s",
                 folders[i]);
        truths[i] = command_json(line);
    }
    command_result r = command_run("serve model --dry-run --threads 1 --adapter a=ada --adapter b=adb");
    const char *at = strstr(r.err, "(");
    unsigned long long planned = at ? strtoull(at + 1, NULL, 10) : 0;
    command_free(&r);
    serving_start("--adapter a=ada --adapter b=adb");
    for (int i = 0; i < 3; i++) {
        answer_of(names[i], is[i]);
        assert_string_equal(command_string(&truths[i], "text"), is[i]);
        json_close(&truths[i]);
    }
    assert_string_not_equal(is[0], is[1]);
    assert_string_not_equal(is[1], is[2]);
    assert_int_equal(ask_as("GET", "/v1/models", "", "", answer), 200);
    assert_non_null(strstr(answer, "\"id\": \"b\""));
    assert_int_equal(ask("/v1/completions", "{\"prompt\": \"a\", \"model\": \"c\"}", answer), 404);
    r = serving_stop();
    if (!SANITIZED && r.resident_peak > planned)
        fail_msg("%llu bytes are resident, and %llu are planned", (unsigned long long)r.resident_peak,
                 planned);
    command_free(&r);
}

static void adapters_are_served_together(void **state) {
    (void)state;
    static const char *const names[] = { "model", "a", "b" };
    if (left_out) return;
    asked_models = names;
    many_at_once("--adapter a=ada --adapter b=adb --max-num-batched-tokens 7");
    many_at_once("--adapter b=adb --adapter a=ada --dtype bf16 --max-num-seqs 5");
    asked_models = NULL;
}

static void wrong_adapters_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *options, *words;
    } cases[] = { { "--adapter a=ada --adapter a=adb", "two adapters are called 'a'" },
                  { "--adapter =ada", "is no NAME=DIR" },
                  { "--adapter model=ada", "what the model itself is called" },
                  { "--adapter a=nothing", "nothing" },
                  { "--adapter ada --adapter b=adb", "can't stand beside 'b'" },
                  { "--adapter a=other", "was trained beside the weights" } };
    if (left_out) return;
    command_expect(0, "train tiny/config.json --data text --out elsewhere --steps 2 --batch 4 --quiet");
    command_expect(0, "train elsewhere --data text --out other --steps 2 --batch 4 --quiet --lora rank=2");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        snprintf(line, sizeof line, "serve model --port 0 --dry-run %s", cases[i].options);
        command_result r = command_run(line);
        if (r.exit != 2 || !command_has_words(r.err, cases[i].words))
            fail_msg("snug %s: %d, %s", line, r.exit, r.err);
        command_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_generate),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(keys_are_asked_for),
        cmocka_unit_test(neighbours_and_clients_change_nothing),
        cmocka_unit_test(beginnings_are_told),
        cmocka_unit_test(damage_ends_one_answer),
        cmocka_unit_test(what_has_begun_is_finished),
        cmocka_unit_test(lines_add_up),
        cmocka_unit_test(plans_are_kept),
        cmocka_unit_test(adapters_are_chosen_by_name),
        cmocka_unit_test(adapters_are_served_together),
        cmocka_unit_test(wrong_adapters_are_refused),
    };
    return cmocka_run_group_tests(tests, open_model, scratch_close);
}
