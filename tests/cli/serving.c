#define _GNU_SOURCE
#include "cli/serving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/json.h"
#include "io/scratch.h"
#include "sanitized.h"

pid_t serving_pid;
int serving_port;

bool serving_left_out(void) {
    command_result r = command_run("serve model --port 0 --memory 1MiB");
    bool out = strstr(r.err, "without libmicrohttpd") != NULL;
    command_free(&r);
    return out;
}

int serving_make_model(void **state, int steps, bool *left_out) {
    char line[160];
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    command_shell(
        "mkdir longer && sed 's/positions\": 32/positions\": 64/' tiny/config.json >longer/config.json");
    snprintf(line, sizeof line,
             "train longer --data text --context 64 --batch 4 --steps %d --lr 3e-3 --out model --quiet",
             steps);
    command_expect(0, line);
    *left_out = serving_left_out();
    return 0;
}

/* Has it said that it serves? */
static bool is_heard(void) {
    char said[8192];
    FILE *file = fopen("err", "r");
    size_t count = file ? fread(said, 1, sizeof said - 1, file) : 0;
    if (file) fclose(file);
    said[count] = 0;
    const char *at = strstr(said, "http://127.0.0.1:");
    serving_port = at && strchr(at, '/') ? atoi(at + strlen("http://127.0.0.1:")) : 0;
    return (at && strchr(at, '/')) || strstr(said, "at the socket here");
}

void serving_start(const char *more) { serving_start_model("model", more); }

void serving_start_model(const char *model, const char *more) {
    char line[512];
    bool has_port = strstr(more, "--port") || strstr(more, "unix:");
    snprintf(line, sizeof line, "serve %s %s --threads 1 %s", model, has_port ? "" : "--port 0", more);
    unlink("err");
    serving_pid = command_start(line, NULL, -1);
    for (int tries = 0; tries < 6000 && kill(serving_pid, 0) == 0; tries++) {
        if (is_heard()) return;
        usleep(5000);
    }
    fail_msg("%s is not heard", line);
}

command_result serving_stop(void) {
    kill(serving_pid, SIGTERM);
    command_result r = command_wait(serving_pid);
    if (r.exit != 0) fail_msg("the server ends with %d: %s", r.exit, r.err);
    return r;
}

int serving_reach(void) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)serving_port) };
    struct sockaddr_un u = { .sun_family = AF_UNIX, .sun_path = "here" };
    struct timeval most = { .tv_sec = 60 };
    bool here = !serving_port;
    int s = socket(here ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    const struct sockaddr *to = here ? (struct sockaddr *)&u : (struct sockaddr *)&a;
    if (connect(s, to, here ? sizeof u : sizeof a) == 0) return s;
    close(s);
    return -1;
}

bool serving_send(int s, const char *bytes, size_t count) {
    for (ssize_t n; count > 0; bytes += n, count -= (size_t)n)
        if ((n = send(s, bytes, count, MSG_NOSIGNAL)) <= 0) return false;
    return true;
}

size_t serving_receive(int s, char *out, size_t most) {
    size_t count = 0;
    for (ssize_t n; count < most && (n = recv(s, out + count, most - count, 0)) > 0;) count += (size_t)n;
    out[count] = 0;
    return count;
}

static int status_of(const char *answer) {
    int code;
    return sscanf(answer, "HTTP/1.%*d %d", &code) == 1 ? code : -1;
}

int serving_say(const char *bytes, size_t count, char out[SERVING_ANSWER]) {
    int s = serving_reach();
    out[0] = 0;
    if (s < 0) return -1;
    serving_send(s, bytes, count);
    serving_receive(s, out, SERVING_ANSWER - 1);
    close(s);
    return status_of(out);
}

int serving_ask(const char *method, const char *path, const char *head, const char *body,
                char out[SERVING_ANSWER]) {
    size_t length = strlen(body), room = length + strlen(head) + 512;
    char *whole = malloc(room);
    int count = snprintf(whole, room, "%s %s HTTP/1.0\r\nHost: here\r\n%sContent-Length: %zu\r\n\r\n%s",
                         method, path, head, length, body);
    int code = serving_say(whole, (size_t)count, out);
    free(whole);
    return code;
}

int serving_post(const char *path, const char *body, char out[SERVING_ANSWER]) {
    return serving_ask("POST", path, "", body, out);
}

int serving_get(const char *path, char out[SERVING_ANSWER]) { return serving_ask("GET", path, "", "", out); }

const char *serving_body(const char *answer) {
    const char *at = strstr(answer, "\r\n\r\n");
    return at ? at + 4 : answer + strlen(answer);
}

/* ---- bytes ---- */

static const char *const exact[] = { "weights", "activations", "temporaries", "scratch", "inputs", "cache" };

void serving_compare_bytes(const command_result *r) {
    json_document planned, measured;
    char path[96];
    const char *out = r->out, *second = strstr(out, "\n{");
    assert_non_null(second);
    assert_int_equal(json_parse("plan", out, (size_t)(second - out), &planned), STATUS_OK);
    assert_int_equal(json_parse("end", second, strlen(second), &measured), STATUS_OK);
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        snprintf(path, sizeof path, "predicted.by_category.%s", exact[i]);
        uint64_t was_planned = command_number(&planned, path);
        snprintf(path, sizeof path, "measured.by_category.%s", exact[i]);
        if (was_planned != command_number(&measured, path))
            fail_msg("%s: %llu planned, %llu measured", exact[i], (unsigned long long)was_planned,
                     (unsigned long long)command_number(&measured, path));
    }
    uint64_t peak = command_number(&planned, "predicted.peak_bytes");
    if (!SANITIZED && r->resident_peak > peak)
        fail_msg("%llu bytes are resident, and %llu are planned", (unsigned long long)r->resident_peak,
                 (unsigned long long)peak);
    json_close(&planned), json_close(&measured);
}
