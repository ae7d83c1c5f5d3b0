/* A page: shown, heard, asked, pointed at. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "browser/browser_internal.h"

static void complain(browser *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void complain(browser *b, const char *format, ...) {
    char line[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    json_object_array_add(b->complaints, json_object_new_string(line));
}

/* What console.error was given, in one line. */
static void complain_of_console(browser *b, struct json_object *parameters) {
    const char *kind = browser_text(parameters, "type");
    if (strcmp(kind, "error") != 0 && strcmp(kind, "warning") != 0 && strcmp(kind, "assert") != 0) return;
    char said[512] = "";
    struct json_object *given = browser_member(parameters, "args");
    for (size_t i = 0; given && i < json_object_array_length(given); i++) {
        struct json_object *one = json_object_array_get_idx(given, i);
        struct json_object *value = browser_member(one, "value");
        size_t used = strlen(said);
        snprintf(said + used, sizeof said - used, " %s",
                 value ? json_object_get_string(value) : browser_text(one, "description"));
    }
    complain(b, "console.%s:%s", kind, said);
}

/* Issues are what the browser's own panel of them would show: breaches of the policy among them. */
static void complain_of_issue(browser *b, struct json_object *issue) {
    complain(b, "issue %s: %s", browser_text(issue, "code"), browser_text(issue, "details"));
}

status browser_event(browser *b, const char *method, struct json_object *p) {
    if (strcmp(method, "Page.loadEventFired") == 0) b->loaded = true;
    if (strcmp(method, "Runtime.consoleAPICalled") == 0) complain_of_console(b, p);
    if (strcmp(method, "Runtime.exceptionThrown") == 0)
        complain(b, "exception: %s %s", browser_text(p, "exceptionDetails.text"),
                 browser_text(p, "exceptionDetails.exception.description"));
    if (strcmp(method, "Log.entryAdded") == 0 && (strcmp(browser_text(p, "entry.level"), "error") == 0 ||
                                                  strcmp(browser_text(p, "entry.level"), "warning") == 0))
        complain(b, "log of %s: %s %s", browser_text(p, "entry.source"), browser_text(p, "entry.text"),
                 browser_text(p, "entry.url"));
    if (strcmp(method, "Audits.issueAdded") == 0) complain_of_issue(b, browser_member(p, "issue"));
    if (strcmp(method, "Network.requestWillBeSent") == 0)
        json_object_array_add(b->requests, json_object_new_string(browser_text(p, "request.url")));
    if (strcmp(method, "Inspector.targetCrashed") == 0)
        return status_set(STATUS_FAILED, "the page has crashed");
    if (strcmp(method, "Page.javascriptDialogOpening") == 0) { /* which would hold up the page for ever */
        complain(b, "dialog: %s", browser_text(p, "message"));
        struct json_object *accepted = json_object_new_object();
        json_object_object_add(accepted, "accept", json_object_new_boolean(true));
        return browser_tell(b, true, "Page.handleJavaScriptDialog", accepted);
    }
    return STATUS_OK;
}

/* Parameters by a format of JSON, which must be right. */
static struct json_object *made(const char *format, ...) __attribute__((format(printf, 1, 2)));
static struct json_object *made(const char *format, ...) {
    char *text = NULL;
    va_list list;
    va_start(list, format);
    int length = vasprintf(&text, format, list);
    va_end(list);
    struct json_object *o = length < 0 ? NULL : json_tokener_parse(text);
    free(text);
    return o;
}

static status turn_on(browser *b, browser_view v) {
    static const char *const domains[] = { "Performance.enable",  "Page.enable",    "Runtime.enable",
                                           "Log.enable",          "Network.enable", "Audits.enable",
                                           "Accessibility.enable" };
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        TRY(browser_call(b, true, domains[i], NULL, NULL));
    TRY(browser_call(b, true, "Emulation.setDeviceMetricsOverride",
                     made("{\"width\":%d,\"height\":%d,\"deviceScaleFactor\":1,\"mobile\":false}",
                          v.width ? v.width : 1280, v.height ? v.height : 900),
                     NULL));
    TRY(browser_call(
        b, true, "Emulation.setEmulatedMedia",
        made("{\"media\":\"%s\",\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"%s\"}]}",
             v.print ? "print" : "", v.dark ? "dark" : "light"),
        NULL));
    return browser_call(b, true, "Emulation.setScriptExecutionDisabled",
                        made("{\"value\":%s}", v.no_scripts ? "true" : "false"), NULL);
}

/* A page in a context of its own: nothing is left of the one before. */
static status new_page(browser *b) {
    if (b->context[0])
        TRY(browser_call(b, false, "Target.disposeBrowserContext",
                         made("{\"browserContextId\":\"%s\"}", b->context), NULL));
    b->session[0] = b->context[0] = 0;
    struct json_object *answer;
    TRY(browser_call(b, false, "Target.createBrowserContext", NULL, &answer));
    snprintf(b->context, sizeof b->context, "%s", browser_text(answer, "browserContextId"));
    json_object_put(answer);
    TRY(browser_call(b, false, "Target.createTarget",
                     made("{\"url\":\"about:blank\",\"browserContextId\":\"%s\"}", b->context), &answer));
    struct json_object *target = made("{\"flatten\":true}");
    json_object_object_add(target, "targetId", json_object_get(browser_member(answer, "targetId")));
    json_object_put(answer);
    TRY(browser_call(b, false, "Target.attachToTarget", target, &answer));
    snprintf(b->session, sizeof b->session, "%s", browser_text(answer, "sessionId"));
    json_object_put(answer);
    return STATUS_OK;
}

/* The file as an address: bytes that an address can't hold are written as %XX. */
static struct json_object *address_of(const char *file) {
    char address[3 * PATH_MAX + 16] = "file://", *absolute = realpath(file, NULL);
    if (!absolute) return NULL;
    size_t n = strlen(address);
    for (const char *c = absolute; *c && n + 4 < sizeof address; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                     strchr("/-_.~", *c);
        n += (size_t)snprintf(address + n, sizeof address - n, plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
    free(absolute);
    return json_object_new_string(address);
}

/* Processor time of the page's thread. */
static status take_work(browser *b) {
    struct json_object *answer;
    TRY(browser_call(b, true, "Performance.getMetrics", NULL, &answer));
    struct json_object *list = browser_member(answer, "metrics");
    b->work = -1;
    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        if (strcmp(browser_text(one, "name"), "ThreadTime") == 0)
            b->work = json_object_get_double(browser_member(one, "value"));
    }
    json_object_put(answer);
    return b->work >= 0 ? STATUS_OK : status_set(STATUS_FAILED, "the browser does not tell processor time");
}

/* Two frames: the first one may have been asked for before what the page did last. */
#define DRAWN "new Promise(r=>requestAnimationFrame(()=>requestAnimationFrame(()=>r(1))))"

status browser_open(browser *b, const char *file, browser_view view) {
    struct json_object *address = address_of(file), *answer;
    if (!address) return status_set(STATUS_FAILED, "%s: there is no such file to show", file);
    struct json_object *where = json_object_new_object();
    json_object_object_add(where, "url", address);
    status result = new_page(b);
    if (result == STATUS_OK) result = turn_on(b, view);
    if (result != STATUS_OK) {
        json_object_put(where);
        return result;
    }
    json_object_put(b->complaints);
    json_object_put(b->requests);
    b->complaints = json_object_new_array();
    b->requests = json_object_new_array();
    b->loaded = false;
    double began = browser_clock();
    TRY(browser_call(b, true, "Page.navigate", where, &answer));
    char refused[256];
    snprintf(refused, sizeof refused, "%s", browser_text(answer, "errorText"));
    json_object_put(answer);
    if (*refused) return status_set(STATUS_FAILED, "%s: the browser can't show it: %s", file, refused);
    TRY(browser_hear(b, &b->loaded, b->patience));
    if (!b->loaded)
        return status_set(STATUS_FAILED, "%s: the page was not loaded within %g s", file, b->patience);
    if (!view.no_scripts) {
        TRY(browser_value(b, DRAWN, &answer));
        json_object_put(answer);
    }
    b->ready = browser_clock() - began;
    return take_work(b);
}

status browser_value(browser *b, const char *expression, struct json_object **out) {
    struct json_object *p = made("{\"returnByValue\":true,\"awaitPromise\":true}"), *answer;
    json_object_object_add(p, "expression", json_object_new_string(expression));
    *out = NULL;
    TRY(browser_call(b, true, "Runtime.evaluate", p, &answer));
    struct json_object *thrown = browser_member(answer, "exceptionDetails");
    if (thrown) {
        const char *what = browser_text(thrown, "exception.description");
        status result = status_set(STATUS_FAILED, "the page can't tell %s: %s", expression,
                                   *what ? what : browser_text(thrown, "text"));
        json_object_put(answer);
        return result;
    }
    *out = json_object_get(browser_member(answer, "result.value"));
    json_object_put(answer);
    return STATUS_OK;
}

status browser_tree(browser *b, struct json_object **out) {
    struct json_object *answer;
    *out = NULL;
    TRY(browser_call(b, true, "Accessibility.getFullAXTree", NULL, &answer));
    struct json_object *nodes = browser_member(answer, "nodes");
    static const char *const kept[] = { "role", "name", "description", "value" };
    *out = json_object_new_array();
    for (size_t i = 0; nodes && i < json_object_array_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        if (json_object_get_boolean(browser_member(node, "ignored"))) continue;
        struct json_object *one = json_object_new_object();
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
            struct json_object *member = browser_member(browser_member(node, kept[k]), "value");
            if (member) json_object_object_add(one, kept[k], json_object_get(member));
        }
        json_object_array_add(*out, one);
    }
    json_object_put(answer);
    return STATUS_OK;
}

int browser_named(const struct json_object *tree, const char *role, const char *name) {
    int count = 0;
    for (size_t i = 0; i < json_object_array_length(tree); i++) {
        struct json_object *one = json_object_array_get_idx(tree, i);
        if (role && strcmp(browser_text(one, "role"), role) != 0) continue;
        count += strstr(browser_text(one, "name"), name) != NULL;
    }
    return count;
}

static status move(browser *b, const char *kind, double x, double y, const char *button) {
    return browser_call(b, true, "Input.dispatchMouseEvent",
                        made("{\"type\":\"%s\",\"x\":%g,\"y\":%g,\"button\":\"%s\",\"clickCount\":%d}", kind,
                             x, y, button, strcmp(button, "none") != 0),
                        NULL);
}

/* The page's clock, from the event's own time until a task after the frame that follows the page's handlers.
 */
#define TIMED                                                                                                \
    "window.snugTimed=new Promise(r=>addEventListener('pointermove',e=>requestAnimationFrame(()=>{"          \
    "const c=new MessageChannel;c.port1.onmessage=()=>r(performance.now()-e.timeStamp);"                     \
    "c.port2.postMessage(0)}),{capture:true,once:true}));1"

status browser_point(browser *b, double x, double y, double *seconds) {
    struct json_object *value;
    if (seconds) {
        TRY(browser_value(b, TIMED, &value));
        json_object_put(value);
    }
    TRY(move(b, "mouseMoved", x, y, "none"));
    if (!seconds) return STATUS_OK;
    TRY(browser_value(b, "window.snugTimed", &value));
    *seconds = json_object_get_double(value) / 1000;
    json_object_put(value);
    return STATUS_OK;
}

status browser_click(browser *b, double x, double y) {
    TRY(move(b, "mouseMoved", x, y, "none"));
    TRY(move(b, "mousePressed", x, y, "left"));
    return move(b, "mouseReleased", x, y, "left");
}

status browser_key(browser *b, const char *key) {
    static const struct {
        const char *name;
        int code;
    } known[] = { { "Tab", 9 },       { "Enter", 13 },      { "Escape", 27 },   { "PageUp", 33 },
                  { "PageDown", 34 }, { "End", 35 },        { "Home", 36 },     { "ArrowLeft", 37 },
                  { "ArrowUp", 38 },  { "ArrowRight", 39 }, { "ArrowDown", 40 } };
    int code = key[1] ? 0 : (unsigned char)(key[0] >= 'a' && key[0] <= 'z' ? key[0] - 32 : key[0]);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i].name) == 0) code = known[i].code;
    if (!code) return status_set(STATUS_INVALID, "%s: no key that is known here", key);
    struct json_object *p =
        made("{\"type\":\"keyDown\",\"key\":\"%s\",\"code\":\"%s\",\"windowsVirtualKeyCode\":%d}", key,
             key[1] ? key : "", code);
    if (!key[1]) json_object_object_add(p, "text", json_object_new_string(key));
    if (strcmp(key, "Enter") == 0) json_object_object_add(p, "text", json_object_new_string("\r"));
    TRY(browser_call(b, true, "Input.dispatchKeyEvent", p, NULL));
    return browser_call(b, true, "Input.dispatchKeyEvent",
                        made("{\"type\":\"keyUp\",\"key\":\"%s\",\"windowsVirtualKeyCode\":%d}", key, code),
                        NULL);
}
