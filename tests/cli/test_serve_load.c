/* snug serve under clients of every kind: texts of random lengths, who leaves at any point, who sends a byte
 * at a time, who reads nothing. Afterwards all of it is there again, and nothing took more than was planned.
 * SNUG_TEST_LONG=1: ten thousand requests. */
#define _GNU_SOURCE
#include "cli/serving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/philox.h"
#include "io/scratch.h"
#include "sanitized.h"

enum { CLIENTS = 48 };

static bool left_out;
static char answer[SERVING_ANSWER];

typedef struct {
    uint32_t number, turns;
    uint32_t answered, left, busy, wrong;
} client;

static uint32_t drawn(const client *c, uint32_t turn, uint32_t what, uint32_t below) {
    return philox_draw(23, (philox_block){ { c->number, turn, what } }).word[0] % below;
}

static size_t write_request(const client *c, uint32_t turn, char out[1024]) {
    char body[512], prompt[64];
    uint32_t length = 1 + drawn(c, turn, 1, 60), tokens = 1 + drawn(c, turn, 2, 64 - length);
    for (uint32_t i = 0; i < length; i++) prompt[i] = (char)('a' + drawn(c, turn, 100 + i, 26));
    prompt[length] = 0;
    int count = snprintf(body, sizeof body, "{\"prompt\": \"%s\", \"max_tokens\": %u, \"stream\": %s}",
                         prompt, tokens, drawn(c, turn, 3, 2) ? "true" : "false");
    return (size_t)snprintf(out, 1024,
                            "POST /v1/completions HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
                            "Content-Length: %d\r\n\r\n%s",
                            count, body);
}

/* How a client behaves in a turn. */
typedef enum { READS, LEAVES_ASKING, LEAVES_READING, LEAVES_AT_ONCE, TRICKLES, READS_NOTHING, WAYS } way;

static void send_by_bytes(int s, const char *bytes, size_t count) {
    for (size_t i = 0; i < count && serving_send(s, bytes + i, 1); i++)
        if (i % 64 == 0) usleep(500);
}

static void read_answer(client *c, int s, char *out) {
    serving_receive(s, out, SERVING_ANSWER - 1);
    bool busy = strstr(out, " 429 ") || strstr(out, " 503 ");
    bool whole = strstr(out, " 200 ") && (strstr(out, "data: [DONE]") || strstr(out, "\"total_tokens\""));
    c->busy += busy, c->answered += whole && !busy, c->wrong += !whole && !busy;
}

static void take_turn(client *c, uint32_t turn, char *out) {
    char request[1024];
    way how = (way)drawn(c, turn, 4, WAYS);
    size_t count = write_request(c, turn, request);
    int s = serving_reach(), small = 2048;
    if (s < 0) {
        c->wrong++;
        return;
    }
    if (how == READS_NOTHING) setsockopt(s, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (how == TRICKLES)
        send_by_bytes(s, request, count);
    else
        serving_send(s, request, how == LEAVES_ASKING ? drawn(c, turn, 5, (uint32_t)count) : count);
    if (how == LEAVES_READING) serving_receive(s, out, 1 + drawn(c, turn, 6, 900));
    if (how == READS_NOTHING) usleep(drawn(c, turn, 7, 30000));
    if (how == READS || how == TRICKLES)
        read_answer(c, s, out);
    else
        c->left++;
    close(s);
}

static void *behave(void *context) {
    client *c = context;
    char *out = malloc(SERVING_ANSWER);
    for (uint32_t turn = 0; turn < c->turns; turn++) take_turn(c, turn, out);
    free(out);
    return NULL;
}

static double metric(const char *name) {
    char line[128];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(answer, line);
    if (!at) fail_msg("there is no %s in\n%s", name, answer);
    return atof(at + strlen(line));
}

/* Once nobody is served: the same as before anybody was. */
static void expect_rest(double blocks) {
    for (int tries = 0; tries < 200; tries++) {
        assert_int_equal(serving_get("/metrics", answer), 200);
        if (metric("snug_connections") == 1 && metric("snug_texts") == 0) break;
        usleep(50000);
    }
    assert_true(metric("snug_connections") == 1);
    assert_true(metric("snug_texts") == 0 && metric("snug_queue_length") == 0);
    assert_true(metric("snug_blocks{state=\"used\"}") == 0);
    assert_true(metric("snug_blocks{state=\"free\"}") + metric("snug_blocks{state=\"kept\"}") == blocks);
    assert_true(metric("snug_pages{state=\"used\"}") <= 2);
    assert_true(metric("snug_failed_texts_total") == 0);
}

static void load(const char *options) {
    static client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    client all = { 0 };
    uint32_t turns = getenv("SNUG_TEST_LONG") ? 209 : SANITIZED ? 4 : 8;
    char line[256];
    snprintf(line, sizeof line, "%s --json", options);
    serving_start(line);
    assert_int_equal(serving_get("/metrics", answer), 200);
    double blocks = metric("snug_blocks{state=\"free\"}"), before = metric("snug_resident_bytes");
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = (client){ .number = i, .turns = turns };
        assert_int_equal(pthread_create(&threads[i], NULL, behave, &clients[i]), 0);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        all.answered += clients[i].answered, all.left += clients[i].left;
        all.busy += clients[i].busy, all.wrong += clients[i].wrong;
    }
    expect_rest(blocks);
    double after = metric("snug_resident_bytes");
    if (all.wrong || !all.answered)
        fail_msg("%s: %u answered, %u left, %u busy, %u wrong", options, all.answered, all.left, all.busy,
                 all.wrong);
    command_result r = serving_stop();
    serving_compare_bytes(&r);
    printf("%s: %u answered, %u left, %u told to come again; resident %.2f MiB before, %.2f after, %.2f at "
           "most\n",
           options, all.answered, all.left, all.busy, before / 0x1p20, after / 0x1p20,
           (double)r.resident_peak / 0x1p20);
    command_free(&r);
}

static void nothing_is_lost_under_load(void **state) {
    (void)state;
    if (left_out) return;
    load("--max-num-batched-tokens 16");
    load("--max-num-batched-tokens 8 --max-num-seqs 3 --max-queue 40 --kv-cache-dtype int8");
    const char *few = "--max-num-batched-tokens 8 --max-num-seqs 2 --max-queue 4 --max-connections 12";
    char line[160];
    snprintf(line, sizeof line, "%s%s", few, SANITIZED ? "" : " --memory 26MiB"); /* they take of their own */
    load(line);
}

static int open_model(void **state) { return serving_make_model(state, 2, &left_out); }

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_is_lost_under_load) };
    return cmocka_run_group_tests(tests, open_model, scratch_close);
}
