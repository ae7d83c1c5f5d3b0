/* Messages to the browser and from it: JSON, each ended by a zero byte. Answers bear their call's number;
 * what bears none is an event. */
#define _GNU_SOURCE
#include "browser/browser.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "browser/browser_internal.h"

double browser_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct json_object *browser_member(struct json_object *o, const char *path) {
    char name[64];
    while (o && *path) {
        size_t length = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        path += length + (path[length] == '.');
        struct json_object *next = NULL;
        if (!json_object_is_type(o, json_type_object) || !json_object_object_get_ex(o, name, &next))
            return NULL;
        o = next;
    }
    return o;
}

const char *browser_text(struct json_object *o, const char *path) {
    struct json_object *member = browser_member(o, path);
    return member ? json_object_get_string(member) : "";
}

static status ended(const browser *b) {
    char words[512];
    browser_last_words(b, words, sizeof words);
    return status_set(STATUS_FAILED, "the browser has ended; it said last: %s", words);
}

/* The number of the call, or 0 where it can't be sent. */
static status send(browser *b, bool of_page, const char *method, struct json_object *parameters, int *id) {
    struct json_object *message = json_object_new_object();
    *id = ++b->last_id;
    json_object_object_add(message, "id", json_object_new_int(*id));
    json_object_object_add(message, "method", json_object_new_string(method));
    json_object_object_add(message, "params", parameters ? parameters : json_object_new_object());
    if (of_page) json_object_object_add(message, "sessionId", json_object_new_string(b->session));
    const char *said = json_object_to_json_string_ext(message, JSON_C_TO_STRING_PLAIN);
    size_t left = strlen(said) + 1;
    while (left > 0) {
        ssize_t n = write(b->to, said, left);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) said += n, left -= (size_t)n;
    }
    json_object_put(message);
    return left ? ended(b) : STATUS_OK;
}

status browser_tell(browser *b, bool of_page, const char *method, struct json_object *parameters) {
    int id;
    return send(b, of_page, method, parameters, &id);
}

/* A message, to be put back, or NULL when the time is over. */
static status next(browser *b, double until, struct json_object **out) {
    *out = NULL;
    for (size_t seen = 0;;) {
        char *end = b->heard_bytes > seen ? memchr(b->heard + seen, 0, b->heard_bytes - seen) : NULL;
        if (end) {
            size_t taken = (size_t)(end - b->heard) + 1;
            *out = json_tokener_parse(b->heard);
            memmove(b->heard, end + 1, b->heard_bytes - taken);
            b->heard_bytes -= taken;
            return *out ? STATUS_OK : status_set(STATUS_FAILED, "the browser sent what is no JSON");
        }
        seen = b->heard_bytes;
        if (b->heard_capacity - b->heard_bytes < 1 << 16) {
            b->heard_capacity = 2 * b->heard_capacity + (1 << 17);
            b->heard = realloc(b->heard, b->heard_capacity);
            if (!b->heard) return status_set(STATUS_FAILED, "no memory for what the browser says");
        }
        double left = until - browser_clock();
        if (left <= 0) return STATUS_OK;
        struct pollfd p = { .fd = b->from, .events = POLLIN };
        if (poll(&p, 1, (int)(left * 1000) + 1) <= 0) continue;
        ssize_t n = read(b->from, b->heard + b->heard_bytes, b->heard_capacity - b->heard_bytes);
        if (n == 0 || (n < 0 && errno != EINTR)) return ended(b);
        if (n > 0) b->heard_bytes += (size_t)n;
    }
}

/* Only events of the page that is shown are its own. */
static status take_event(browser *b, struct json_object *message) {
    if (!b->session[0] || strcmp(browser_text(message, "sessionId"), b->session) != 0) return STATUS_OK;
    return browser_event(b, browser_text(message, "method"), browser_member(message, "params"));
}

status browser_hear(browser *b, const bool *flag, double seconds) {
    double until = browser_clock() + seconds;
    while (!(flag && *flag)) {
        struct json_object *message;
        TRY(next(b, until, &message));
        if (!message) return STATUS_OK;
        status result = take_event(b, message);
        json_object_put(message);
        TRY(result);
    }
    return STATUS_OK;
}

status browser_listen(browser *b, double seconds) { return browser_hear(b, NULL, seconds); }

status browser_call(browser *b, bool of_page, const char *method, struct json_object *parameters,
                    struct json_object **out) {
    int id;
    if (out) *out = NULL;
    TRY(send(b, of_page, method, parameters, &id));
    double until = browser_clock() + b->patience;
    for (;;) {
        struct json_object *message;
        TRY(next(b, until, &message));
        if (!message)
            return status_set(STATUS_FAILED, "the browser did not answer %s within %g s", method,
                              b->patience);
        struct json_object *number = browser_member(message, "id"), *member;
        status result = STATUS_OK;
        bool done = number && json_object_get_int(number) == id;
        if (!number)
            result = take_event(b, message);
        else if (done && (member = browser_member(message, "error")))
            result = status_set(STATUS_FAILED, "the browser refused %s: %s", method,
                                browser_text(member, "message"));
        else if (done && out && (member = browser_member(message, "result")))
            *out = json_object_get(member);
        json_object_put(message);
        if (done || result != STATUS_OK) return result;
    }
}

status browser_start(const char *program, browser **out) {
    *out = NULL;
    signal(SIGPIPE, SIG_IGN); /* a browser that has ended is a failed write */
    browser *b = calloc(1, sizeof *b);
    if (!b) return status_set(STATUS_FAILED, "no memory for a browser");
    b->patience = 20;
    b->complaints = json_object_new_array();
    b->requests = json_object_new_array();
    status result = browser_launch(b, program);
    if (result == STATUS_OK) result = browser_call(b, false, "Browser.getVersion", NULL, NULL);
    if (result != STATUS_OK) {
        browser_close(b);
        return result;
    }
    *out = b;
    return STATUS_OK;
}

void browser_close(browser *b) {
    if (!b) return;
    browser_end(b);
    json_object_put(b->complaints);
    json_object_put(b->requests);
    free(b->heard);
    free(b);
}

void browser_set_patience(browser *b, double seconds) { b->patience = seconds; }
const char *browser_profile(const browser *b) { return b->profile; }
int browser_process(const browser *b) { return b->process; }
double browser_ready_seconds(const browser *b) { return b->ready; }
double browser_ready_work(const browser *b) { return b->work; }
struct json_object *browser_complaints(const browser *b) {
    return b->complaints;
}
struct json_object *browser_requests(const browser *b) {
    return b->requests;
}
