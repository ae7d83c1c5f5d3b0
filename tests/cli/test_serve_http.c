/* The HTTP side of snug serve: what it tells of itself, requests that are damaged or meant to deceive, more
 * connections than are planned, sockets with a path, and how it ends. */
#define _GNU_SOURCE
#include "cli/serving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/philox.h"
#include "io/scratch.h"
#include "sanitized.h"

static bool left_out;
static char answer[SERVING_ANSWER];

/* The value of a line of /metrics. */
static double metric(const char *name) {
    const char *at = serving_body(answer);
    size_t length = strlen(name);
    while ((at = strstr(at, name))) {
        if ((at[-1] == '\n' || at == serving_body(answer)) && at[length] == ' ') return atof(at + length);
        at += length;
    }
    fail_msg("there is no %s in\n%s", name, answer);
    return 0;
}

static void read_metrics(void) { assert_int_equal(serving_get("/metrics", answer), 200); }

/* ---- what it tells of itself ---- */

static const char *const categories[] = { "weights", "temporaries", "scratch", "inputs",
                                          "gaps",    "runtime",     "cache" };

static void the_plan_is_told(void **state) {
    (void)state;
    if (left_out) return;
    json_document dry = command_json("serve model --dry-run --json --threads 1"), told;
    uint64_t sum = 0;
    char path[96];
    serving_start("");
    assert_int_equal(serving_get("/plan", answer), 200);
    const char *body = serving_body(answer);
    assert_int_equal(json_parse("/plan", body, strlen(body), &told), STATUS_OK);
    static const char *const numbers[] = { "predicted.peak_bytes", "max_model_len", "max_num_seqs", "blocks",
                                           "texts_at_once" };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_int_equal(command_number(&dry, numbers[i]), command_number(&told, numbers[i]));
    assert_int_equal(command_number(&told, "max_model_len"), 64);
    assert_int_equal(command_number(&told, "texts_at_once"), 16);
    read_metrics();
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
        snprintf(path, sizeof path, "predicted.by_category.%s", categories[i]);
        uint64_t planned = command_number(&told, path);
        assert_int_equal(planned, command_number(&dry, path));
        snprintf(path, sizeof path, "snug_planned_bytes{category=\"%s\"}", categories[i]);
        assert_true(metric(path) == (double)planned);
        sum += planned;
    }
    assert_int_equal(sum, command_number(&told, "predicted.peak_bytes"));
    json_close(&dry), json_close(&told);
    command_result r = serving_stop();
    command_free(&r);
}

/* Every line of the text format is a remark, or a name with its labels and a number. */
static void check_format(const char *at) {
    for (const char *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        assert_non_null(end);
        double number;
        char name[128];
        bool remark = strncmp(at, "# HELP snug_", 12) == 0 || strncmp(at, "# TYPE snug_", 12) == 0;
        if (!remark && sscanf(at, "%127[^ \n] %lf\n", name, &number) != 2) fail_msg("%.80s", at);
        if (!remark) assert_true(strncmp(name, "snug_", 5) == 0 && number >= 0);
    }
}

static void what_is_done_is_counted(void **state) {
    (void)state;
    if (left_out) return;
    serving_start("");
    read_metrics();
    check_format(serving_body(answer));
    double blocks = metric("snug_blocks{state=\"free\"}");
    assert_true(metric("snug_blocks{state=\"used\"}") == 0 && blocks == 64);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            serving_post("/v1/completions", "{\"prompt\": \"abcde\", \"max_tokens\": 7}", answer), 200);
    assert_int_equal(serving_post("/v1/completions", "{\"prompt\": 1}", answer), 400);
    assert_int_equal(serving_post("/v1/nothing", "{}", answer), 404);
    usleep(100000); /* the last connection ends */
    read_metrics();
    assert_true(metric("snug_requests_total{outcome=\"length\"}") == 3);
    assert_true(metric("snug_requests_total{outcome=\"refused\"}") == 2);
    assert_true(metric("snug_requests_total{outcome=\"left\"}") == 0);
    assert_true(metric("snug_prompt_tokens_total") == 15);
    assert_true(metric("snug_drawn_tokens_total") == 21);
    assert_true(metric("snug_time_to_first_token_seconds_count") == 3);
    assert_true(metric("snug_time_between_tokens_seconds_count") == 18);
    assert_true(metric("snug_time_between_tokens_seconds_bucket{le=\"+Inf\"}") == 18);
    assert_true(metric("snug_texts") == 0 && metric("snug_queue_length") == 0);
    assert_true(metric("snug_blocks{state=\"used\"}") == 0);
    assert_true(metric("snug_pages{state=\"used\"}") <= 2); /* its own */
    assert_true(metric("snug_connections") == 1);
    command_result r = serving_stop();
    command_free(&r);
}

static void tokens_are_told(void **state) {
    (void)state;
    if (left_out) return;
    static const struct {
        const char *path, *body;
        int code;
        const char *words;
    } cases[] = {
        { "/tokenize", "{\"prompt\": \"Hi\"}", 200,
          "{\"count\":2,\"max_model_len\":64,\"tokens\":[72,105]}" },
        { "/tokenize", "{\"prompt\": \"\\u00e9\", \"add_special_tokens\": false}", 200, "[195,169]" },
        { "/tokenize", "{}", 400, "\"prompt\"" },
        { "/tokenize", "{\"prompt\": \"a\", \"messages\": []}", 400, "both" },
        { "/tokenize", "{\"prompt\": \"a\", \"max_tokens\": 3}", 400, "max_tokens" },
        { "/detokenize", "{\"tokens\": [72, 105, 195, 169, 34]}", 200, "{\"prompt\":\"Hi\xc3\xa9\\\"\"}" },
        { "/detokenize", "{\"tokens\": [195]}", 200, "{\"prompt\":\"\xef\xbf\xbd\"}" },
        { "/detokenize", "{\"tokens\": [256]}", 400, "from 0 to 255" },
        { "/detokenize", "{\"tokens\": \"Hi\"}", 400, "list of ids" },
        { "/detokenize", "{\"tokens\": []}", 400, "empty" },
        { "/detokenize", "{\"tokens\": [72], \"model\": \"other\"}", 404, "'model'" },
    };
    serving_start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = serving_post(cases[i].path, cases[i].body, answer);
        if (code != cases[i].code || !strstr(serving_body(answer), cases[i].words))
            fail_msg("%s %s is answered with %s", cases[i].path, cases[i].body, answer);
    }
    command_result r = serving_stop();
    command_free(&r);
}

/* ---- requests that are damaged, or meant to deceive ---- */

#define HEAD "POST /v1/completions HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
#define BODY "{\"prompt\":\"a\",\"max_tokens\":1}" /* of 29 bytes */

static void heads_are_looked_at(void **state) {
    (void)state;
    if (left_out) return;
    static const struct {
        const char *bytes;
        int code, other; /* other: a status that is as right; 0: none */
    } cases[] = {
        { HEAD "Content-Length: 29\r\n\r\n" BODY, 200, 0 },
        { HEAD "Transfer-Encoding: chunked\r\n\r\n1d\r\n" BODY "\r\n0\r\n\r\n", 200, 0 },
        { HEAD
          "Transfer-Encoding: chunked\r\n\r\n3\r\n{\"p\r\n1A\r\nrompt\":\"a\",\"max_tokens\":1}\r\n0\r\n\r\n",
          200, 0 },
        { HEAD "Content-Length: 29\r\nContent-Length: 29\r\n\r\n" BODY, 400, 0 },
        { HEAD "Content-Length: 29\r\nContent-Length: 5\r\n\r\n" BODY, 400, 0 },
        { HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\n" BODY "\r\n0\r\n\r\n", 400, 0 },
        { HEAD "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n1d\r\n" BODY "\r\n0\r\n\r\n", 400, 0 },
        { HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n1d\r\n" BODY "\r\n0\r\n\r\n", 400, 0 },
        { HEAD "Transfer-Encoding: identity\r\nContent-Length: 29\r\n\r\n" BODY, 400, 0 },
        { HEAD "Content-Length: -1\r\n\r\n" BODY, 400, 0 },
        { HEAD "Content-Length: 29x\r\n\r\n" BODY, 400, 0 },
        { HEAD "Content-Length: 18446744073709551617\r\n\r\n" BODY, 400, 413 },
        { HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n" BODY "\r\n0\r\n\r\n", 400, 0 },
        { "POST /v1/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: 29\r\n\r\n" BODY, 400, 0 },
        { "GET  HTTP/1.1\r\n\r\n", 400, 404 },
        { "\r\n\r\nnonsense\r\n\r\n", 400, -1 },
        { "GET /health HTTP/9.9\r\nHost: a\r\n\r\n", 505, 400 },
    };
    serving_start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = serving_say(cases[i].bytes, strlen(cases[i].bytes), answer);
        if (code != cases[i].code && (!cases[i].other || code != cases[i].other))
            fail_msg("case %zu is answered with %d: %s", i, code, answer);
        /* Nothing behind it was taken for another request. */
        if (code != 200 && strstr(serving_body(answer), " 200 ")) fail_msg("case %zu: %s", i, answer);
    }
    assert_int_equal(serving_post("/v1/completions", BODY, answer), 200);
    command_result r = serving_stop();
    assert_true(command_has_words(r.err, "4 requests: 4 answered"));
    command_free(&r);
}

/* A head without an end is cut off with the right status, long before it takes memory. */
static void endless_heads_end(void **state) {
    (void)state;
    if (left_out) return;
    static const struct {
        const char *begin, *repeat;
        int least, most;
    } cases[] = { { "GET /health HTTP/1.1\r\nHost: here\r\n", "X-Endless: and on it goes\r\n", 400, 431 },
                  { "GET /health HTTP/1.1\r\nHost: here\r\nX-Long: ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 400,
                    431 },
                  { "GET /", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 400, 431 } };
    serving_start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int s = serving_reach(), code = -1;
        bool taken = serving_send(s, cases[i].begin, strlen(cases[i].begin));
        for (int k = 0; k < 100000 && taken; k++) {
            struct pollfd p = { s, POLLIN, 0 };
            taken = poll(&p, 1, 0) == 0 && serving_send(s, cases[i].repeat, strlen(cases[i].repeat));
        }
        assert_false(taken);
        serving_receive(s, answer, SERVING_ANSWER - 1);
        close(s);
        sscanf(answer, "HTTP/1.%*d %d", &code);
        if (*answer && (code < cases[i].least || code > cases[i].most)) fail_msg("case %zu: %s", i, answer);
    }
    assert_int_equal(serving_get("/health", answer), 200);
    command_result r = serving_stop();
    command_free(&r);
}

/* ---- requests at random ---- */

static uint64_t random_state = 17;
static uint32_t below(uint32_t n) { return scratch_random(&random_state) % n; }

static size_t mutate(char *bytes, size_t count, size_t room) {
    static const char *const words[] = { "\r\n",
                                         "\r\n\r\n",
                                         "Content-Length: ",
                                         "Transfer-Encoding: chunked\r\n",
                                         "0\r\n\r\n",
                                         "99999999999",
                                         "-1",
                                         "%00",
                                         "\"",
                                         "{",
                                         "\xff",
                                         ": ",
                                         "HTTP/1.0",
                                         "Connection: keep-alive\r\n",
                                         "Expect: 100-continue\r\n" };
    size_t at = below((uint32_t)count + 1), rest = count - at;
    const char *word = words[below(sizeof words / sizeof *words)];
    size_t length = strlen(word), gone = below((uint32_t)(rest < 12 ? rest : 12) + 1);
    switch (below(4)) {
    case 0: return rest ? (bytes[at] = (char)below(256), count) : count;
    case 1: return at;
    case 2: memmove(bytes + at, bytes + at + gone, rest - gone); return count - gone;
    default:
        if (count + length > room) return count;
        memmove(bytes + at + length, bytes + at, rest);
        memcpy(bytes + at, word, length);
        return count + length;
    }
}

static bool is_answer(const char *said) {
    static const int known[] = { 100, 200, 400, 401, 404, 405, 413, 414, 429, 431, 500, 501, 503, 505 };
    int code = 0;
    if (sscanf(said, "HTTP/1.%*d %d", &code) != 1) return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (code == known[i] && code != 500) return true;
    return false;
}

/* Whatever is sent, it is answered or the connection ends, and the next client is served. */
static void requests_at_random_harm_nobody(void **state) {
    (void)state;
    if (left_out) return;
    static const char *const seeds[] = {
        HEAD "Content-Length: 29\r\n\r\n" BODY,
        HEAD "Transfer-Encoding: chunked\r\n\r\n1d\r\n" BODY "\r\n0\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\nGET /plan HTTP/1.0\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: here\r\nContent-Length: 15\r\n\r\n{\"prompt\": \"a\"}",
        "POST /detokenize HTTP/1.0\r\nContent-Length: 16\r\n\r\n{\"tokens\": [72]}",
    };
    int turns = getenv("SNUG_TEST_LONG") ? 30000 : SANITIZED ? 200 : 600;
    serving_start("");
    for (int turn = 0; turn < turns; turn++) {
        char bytes[2048];
        const char *seed = seeds[turn % 5];
        size_t count = strlen(seed);
        memcpy(bytes, seed, count);
        for (uint32_t n = 1 + below(4); n > 0; n--) count = mutate(bytes, count, sizeof bytes);
        int s = serving_reach();
        assert_true(s >= 0);
        serving_send(s, bytes, count);
        shutdown(s, SHUT_WR);
        serving_receive(s, answer, SERVING_ANSWER - 1);
        close(s);
        if (*answer && !is_answer(answer)) fail_msg("turn %d: %.*s\n-> %s", turn, (int)count, bytes, answer);
    }
    assert_int_equal(serving_post("/v1/completions", BODY, answer), 200);
    usleep(100000);
    read_metrics();
    assert_true(metric("snug_connections") == 1 && metric("snug_pages{state=\"used\"}") <= 2);
    assert_true(metric("snug_blocks{state=\"used\"}") == 0 && metric("snug_texts") == 0);
    command_result r = serving_stop();
    command_free(&r);
}

static void bodies_are_looked_at(void **state) {
    (void)state;
    if (left_out) return;
    enum { LONG = 1 << 20 };
    static char body[LONG + 64];
    static const struct {
        const char *body, *words;
    } cases[] = {
        { "", "wrong at byte" },
        { "{\"prompt\": \"\xff\"}", "UTF-8" },
        { "{\"prompt\": \"\xc3\"}", "UTF-8" },
        { "{\"prompt\": \"\\ud800\"}", "wrong at byte" },
        { "{\"prompt\": \"a\", \"temperature\": NaN}", "wrong at byte" },
        { "{\"prompt\": \"a\", \"temperature\": 1e999}", "wrong at byte" },
        { "{\"prompt\": \"a\", \"seed\": 123456789012345678901234567890}", "wrong at byte" },
        { "{\"prompt\": \"a\"} {}", "wrong at byte" },
        { "{\"prompt\": \"a", "wrong at byte" },
        { "{\"prompt\": \"a\",}", "wrong at byte" },
    };
    serving_start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = serving_post("/v1/completions", cases[i].body, answer);
        if (code != 400 || !strstr(answer, cases[i].words) || !strstr(answer, "\"invalid_request_error\""))
            fail_msg("%s is answered with %s", cases[i].body, answer);
    }
    for (int depth = 499; depth <= 501; depth++) { /* of lists, within the object */
        int count = sprintf(body, "{\"metadata\": ");
        memset(body + count, '[', (size_t)depth), count += depth;
        memset(body + count, ']', (size_t)depth), count += depth;
        sprintf(body + count, ", \"prompt\": \"a\", \"max_tokens\": 1}");
        assert_int_equal(serving_post("/v1/completions", body, answer), depth < 500 ? 200 : 400);
    }
    memset(body, ' ', LONG);
    memcpy(body + LONG, BODY, sizeof BODY);
    assert_int_equal(serving_post("/v1/completions", body, answer), 413);
    memcpy(body + 100000, BODY, sizeof BODY); /* many pages, of blanks */
    assert_int_equal(serving_post("/v1/completions", body, answer), 200);
    command_result r = serving_stop();
    command_free(&r);
}

/* All clients send half of a long body, so that there are no pages left: some are told to come again, and
 * when they have gone all pages are free. */
static void pages_are_given_back(void **state) {
    (void)state;
    if (left_out) return;
    enum { CLIENTS = 12, HALF = 60000 };
    static char body[HALF];
    int sockets[CLIENTS], refused = 0;
    serving_start("--max-connections 16");
    memset(body, ' ', sizeof body);
    for (int i = 0; i < CLIENTS; i++) {
        static const char head[] = HEAD "Content-Length: 120029\r\n\r\n";
        sockets[i] = serving_reach();
        assert_true(serving_send(sockets[i], head, sizeof head - 1));
        assert_true(serving_send(sockets[i], body, sizeof body));
    }
    for (int i = 0; i < CLIENTS; i++) {
        serving_send(sockets[i], body, sizeof body);
        serving_send(sockets[i], BODY, strlen(BODY));
        serving_receive(sockets[i], answer, SERVING_ANSWER - 1);
        bool full = strstr(answer, " 429 ") && strstr(answer, "Retry-After: ");
        refused += full;
        if (!full && !strstr(answer, " 200 ")) fail_msg("%s", answer);
        close(sockets[i]);
    }
    assert_true(refused > 0 && refused < CLIENTS);
    usleep(100000);
    read_metrics();
    assert_true(metric("snug_pages{state=\"used\"}") <= 2);
    command_result r = serving_stop();
    command_free(&r);
}

/* ---- more than are planned ---- */

enum { LONG_TEXT = 56 };

static void who_waits_is_told(void **state) {
    (void)state;
    if (left_out) return;
    int sockets[5];
    static const char body[] = "{\"prompt\": \"abc\", \"max_tokens\": 60, \"stream\": true}";
    char head[256];
    int count = snprintf(head, sizeof head, HEAD "Content-Length: %zu\r\n\r\n%s", sizeof body - 1, body);
    serving_start("--max-num-seqs 1 --max-queue 2 --max-num-batched-tokens 1");
    kill(serving_pid, SIGSTOP); /* all of them stand there before the first one begins */
    for (int i = 0; i < 5; i++) {
        sockets[i] = serving_reach();
        assert_true(sockets[i] >= 0 && serving_send(sockets[i], head, (size_t)count));
    }
    kill(serving_pid, SIGCONT);
    int queued = 0, refused = 0, told = 0;
    for (int i = 0; i < 5; i++) {
        serving_receive(sockets[i], answer, SERVING_ANSWER - 1);
        close(sockets[i]);
        const char *before = strstr(answer, "X-Queue-Before: "), *wait = strstr(answer, "Retry-After: ");
        if (strstr(answer, " 200 ")) {
            queued++, told += before != NULL;
            if (before) assert_in_range(atoi(before + strlen("X-Queue-Before: ")), 1, 2);
            assert_non_null(strstr(answer, "data: [DONE]"));
        } else {
            refused++;
            assert_true(strstr(answer, " 429 ") && wait && atoi(wait + strlen("Retry-After: ")) >= 1);
        }
    }
    assert_true(queued >= 3 && queued + refused == 5);
    read_metrics();
    assert_true(metric("snug_requests_total{outcome=\"full\"}") == refused);
    (void)told;
    command_result r = serving_stop();
    command_free(&r);
}

static void connections_beyond_the_planned_are_refused(void **state) {
    (void)state;
    if (left_out) return;
    enum { MOST = 8, CLIENTS = 400 };
    static int sockets[CLIENTS];
    int served = 0, refused = 0;
    static const char ask[] = "GET /health HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    serving_start("--max-connections 8");
    for (int i = 0; i < CLIENTS; i++) {
        sockets[i] = serving_reach();
        assert_true(sockets[i] >= 0);
    }
    for (int i = 0; i < CLIENTS; i++) serving_send(sockets[i], ask, sizeof ask - 1);
    for (int i = 0; i < CLIENTS; i++) {
        serving_receive(sockets[i], answer, SERVING_ANSWER - 1);
        close(sockets[i]);
        served += strstr(answer, " 200 ") != NULL;
        refused += strstr(answer, " 503 ") && strstr(answer, "all connections are taken");
    }
    if (served < MOST || served + refused != CLIENTS) fail_msg("%d served, %d refused", served, refused);
    usleep(100000);
    read_metrics();
    assert_true(metric("snug_connections") == 1);
    assert_true(metric("snug_connections_refused_total") == refused);
    command_result r = serving_stop();
    command_free(&r);
}

/* ---- a socket with a path ---- */

static void sockets_have_paths(void **state) {
    (void)state;
    if (left_out) return;
    struct stat about;
    serving_start("--host unix:here");
    assert_int_equal(stat("here", &about), 0);
    assert_true(S_ISSOCK(about.st_mode) && (about.st_mode & 0777) == 0600);
    assert_int_equal(serving_post("/v1/completions", BODY, answer), 200);
    assert_int_equal(serving_get("/ready", answer), 200);
    rename("err", "kept");
    assert_true(command_says("serve model --threads 1 --host unix:here", 2, "cannot be listened at"));
    assert_int_equal(serving_get("/ready", answer), 200); /* it is still the first one's */
    command_result r = serving_stop();
    command_free(&r);
    assert_int_equal(stat("here", &about), -1);
    /* One that was killed has left it there. */
    serving_start("--host unix:here");
    kill(serving_pid, SIGKILL);
    r = command_wait(serving_pid);
    command_free(&r);
    assert_int_equal(stat("here", &about), 0);
    serving_start("--host unix:here");
    assert_int_equal(serving_post("/v1/completions", BODY, answer), 200);
    r = serving_stop();
    command_free(&r);
    /* No file of another kind is taken away. */
    scratch_write("here", "words", 5);
    assert_true(command_says("serve model --threads 1 --host unix:here", 2, "cannot be listened at"));
    assert_int_equal(stat("here", &about), 0);
    unlink("here");
    assert_true(command_says("serve model --threads 1 --host unix:nowhere/here", 2, "No such file"));
    assert_true(command_says("serve model --threads 1 --host unix:", 2, "path of a socket"));
}

/* ---- its end ---- */

static void who_comes_while_it_closes_is_told(void **state) {
    (void)state;
    if (left_out) return;
    static const char body[] = "{\"prompt\": \"a\", \"max_tokens\": 63, \"stream\": true}";
    char head[256], one;
    int count = snprintf(head, sizeof head, HEAD "Content-Length: %zu\r\n\r\n%s", sizeof body - 1, body);
    serving_start("--max-num-seqs 1 --stall-seconds 20");
    assert_int_equal(serving_get("/ready", answer), 200);
    int sockets[8]; /* the answer of the last one waits for those of the others */
    for (int i = 0; i < 8; i++) {
        sockets[i] = serving_reach();
        assert_true(serving_send(sockets[i], head, (size_t)count));
    }
    assert_int_equal(recv(sockets[0], &one, 1, 0), 1);
    kill(serving_pid, SIGSTOP), kill(serving_pid, SIGTERM);
    int late = serving_reach();
    static const char ask[] = "GET /ready HTTP/1.0\r\n\r\n";
    assert_true(late >= 0 && serving_send(late, ask, sizeof ask - 1));
    kill(serving_pid, SIGCONT);
    serving_receive(late, answer, SERVING_ANSWER - 1);
    close(late);
    if (*answer && !strstr(answer, " 503 ") && !strstr(answer, " 200 ")) fail_msg("%s", answer);
    for (int i = 0; i < 8; i++) {
        serving_receive(sockets[i], answer, SERVING_ANSWER - 1);
        close(sockets[i]);
        if (*answer && !strstr(answer, "data: [DONE]") && !strstr(answer, "503"))
            fail_msg("%d: %s", i, answer);
    }
    command_result r = command_wait(serving_pid);
    assert_int_equal(r.exit, 0);
    command_free(&r);
}

/* At any instant: SIGTERM, another one behind it, SIGKILL. Each time it ends soon, with the right code, and
 * the next one begins in its place. */
static void it_ends_whenever_it_must(void **state) {
    (void)state;
    if (left_out) return;
    static const char body[] =
        "{\"prompt\": \"a\", \"max_tokens\": 3, \"stream\": true}"; /* waits in buffers */
    char head[256];
    int count = snprintf(head, sizeof head, HEAD "Content-Length: %zu\r\n\r\n%s", sizeof body - 1, body);
    for (uint32_t turn = 0; turn < (SANITIZED ? 6 : 18); turn++) {
        philox_block drawn = philox_draw(5, (philox_block){ { turn } });
        int sockets[6];
        serving_start("--host unix:here --max-num-seqs 2");
        for (int i = 0; i < 6; i++) {
            sockets[i] = serving_reach();
            serving_send(sockets[i], head, drawn.word[0] % 5 == (uint32_t)i ? 40 : (size_t)count);
        }
        usleep(drawn.word[1] % 20000);
        bool killed = turn % 3 == 2;
        kill(serving_pid, killed ? SIGKILL : SIGTERM);
        if (turn % 3 == 1) usleep(drawn.word[2] % 3000), kill(serving_pid, SIGTERM);
        command_result r = command_wait(serving_pid);
        if (r.exit != (killed ? -1 : 0)) fail_msg("turn %u ends with %d: %s", turn, r.exit, r.err);
        command_free(&r);
        for (int i = 0; i < 6; i++) {
            serving_receive(sockets[i], answer, SERVING_ANSWER - 1);
            close(sockets[i]);
        }
        struct stat about;
        assert_int_equal(stat("here", &about), killed ? 0 : -1);
        unlink("here");
    }
}

/* ---- inverse questions ---- */

static uint64_t asked(const char *options, const char *path) {
    char line[256];
    snprintf(line, sizeof line, "serve model --dry-run --json --threads 1 %s", options);
    return command_asked(line, path);
}

/* "...; --max-num-seqs 1 --memory 123 (4 MiB) would fit" */
static void follow_advice(const char *line) {
    char better[400], advice[120];
    command_result r = command_run(line);
    assert_int_equal(r.exit, 3);
    for (char *c = r.err; *c; c++) /* lines are broken for the terminal */
        if (*c == '\n') *c = ' ';
    const char *at = strstr(r.err, "; --max-num-seqs 1 --");
    if (!at || sscanf(at, "; --max-num-seqs 1 %119[^(w]", advice) != 1) fail_msg("%s", r.err);
    snprintf(better, sizeof better, "%s --max-num-seqs 1 %s", line, advice);
    if (strstr(advice, "--memory")) /* instead of the one that is too little */
        snprintf(better, sizeof better, "serve model --dry-run --threads 1 --max-num-seqs 1 %s", advice);
    command_free(&r);
    command_expect(0, better);
}

static void questions_are_turned_round(void **state) {
    (void)state;
    if (left_out) return;
    char options[160];
    uint64_t least = asked("--solve memory --max-num-seqs 5 --max-model-len 48", "predicted.peak_bytes");
    assert_int_equal(asked("--solve memory --max-num-seqs 5 --max-model-len 48", "texts_at_once"), 5);
    snprintf(options, sizeof options, "--max-num-seqs 5 --max-model-len 48 --memory %llu",
             (unsigned long long)least);
    assert_int_equal(asked(options, "texts_at_once"), 5);
    assert_int_equal(asked(options, "predicted.peak_bytes"), least);
    snprintf(options, sizeof options, "--max-num-seqs 5 --max-model-len 48 --memory %llu",
             (unsigned long long)least - 1);
    assert_true(asked(options, "texts_at_once") < 5);
    /* The longest text of so many, and the most of such a length: each is what the other was asked with. */
    snprintf(options, sizeof options, "--max-num-seqs 5 --max-model-len auto --memory %llu",
             (unsigned long long)least);
    uint64_t longest = asked(options, "max_model_len");
    assert_in_range(longest, 48, 63);
    assert_true(asked(options, "texts_at_once") == 5);
    snprintf(options, sizeof options, "--solve memory --max-num-seqs 5 --max-model-len %llu",
             (unsigned long long)longest + 1);
    assert_true(asked(options, "predicted.peak_bytes") > least);
    snprintf(options, sizeof options, "--max-num-seqs auto --max-model-len 48 --memory %llu",
             (unsigned long long)least);
    assert_int_equal(asked(options, "max_num_seqs"), 5);
    /* Without a budget all that there may be. */
    assert_int_equal(asked("--max-model-len auto", "max_model_len"), 64);
    assert_int_equal(asked("--max-num-seqs auto", "max_num_seqs"), 256);
    assert_int_equal(asked("--max-num-seqs auto --max-model-len auto", "max_model_len"), 64);
    /* A refusal names what would fit, and it does. */
    snprintf(options, sizeof options, "serve model --dry-run --threads 1 --memory %llu",
             (unsigned long long)asked("--solve memory --max-num-seqs 1 --max-model-len 9 "
                                       "--max-num-batched-tokens 1",
                                       "predicted.peak_bytes"));
    follow_advice(options);
    follow_advice("serve model --dry-run --threads 1 --memory 1MiB");
    assert_true(command_says("serve model --solve memory --max-num-seqs auto", 2, "as numbers"));
    assert_true(command_says("serve model --solve memory --memory 1GiB", 2, "leave one of the two out"));
}

static void words_of_others_are_known(void **state) {
    (void)state;
    if (left_out) return;
    assert_true(command_says("serve model --dry-run --enforce-eager", 0, "--enforce-eager changes nothing"));
    assert_true(command_says("serve model --dry-run --gpu-memory-utilization 0.5", 0, "Planned: "));
    assert_true(command_says("serve model --dry-run --gpu-memory-utilization 0.5 --memory 1GiB", 2,
                             "say one of them"));
    assert_true(command_says("serve model --dry-run --kv-cache-dtype bfloat16", 0, "Planned: "));
}

/* Keys and values are of what products multiply, unless another type is said. */
static void caches_follow_products(void **state) {
    (void)state;
    if (left_out) return;
    static const char cache[] = "predicted.by_category.cache";
    uint64_t plain = asked("", cache);
    assert_int_equal(asked("--dtype f32", cache), plain);
    assert_int_equal(asked("--dtype f16", cache), plain);
    assert_int_equal(2 * asked("--dtype bf16", cache), plain);
    assert_int_equal(asked("--dtype bf16 --kv-cache-dtype f32", cache), plain);
    assert_int_equal(2 * asked("--kv-cache-dtype f16", cache), plain);
}

static int open_model(void **state) { return serving_make_model(state, 2, &left_out); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_told),
        cmocka_unit_test(what_is_done_is_counted),
        cmocka_unit_test(tokens_are_told),
        cmocka_unit_test(heads_are_looked_at),
        cmocka_unit_test(endless_heads_end),
        cmocka_unit_test(requests_at_random_harm_nobody),
        cmocka_unit_test(bodies_are_looked_at),
        cmocka_unit_test(pages_are_given_back),
        cmocka_unit_test(who_waits_is_told),
        cmocka_unit_test(connections_beyond_the_planned_are_refused),
        cmocka_unit_test(sockets_have_paths),
        cmocka_unit_test(who_comes_while_it_closes_is_told),
        cmocka_unit_test(it_ends_whenever_it_must),
        cmocka_unit_test(questions_are_turned_round),
        cmocka_unit_test(words_of_others_are_known),
        cmocka_unit_test(caches_follow_products),
    };
    return cmocka_run_group_tests(tests, open_model, scratch_close);
}
