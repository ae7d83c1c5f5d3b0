/* What tests with a browser have in common. For programs that include cmocka. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "browser/browser.h"
#include "io/scratch.h"

#define must(call)                                                                                           \
    do {                                                                                                     \
        if ((call) != STATUS_OK) fail_msg("%s: %s", #call, status_message());                                \
    } while (0)

/* false: there is no browser, which was said. Then the program ends with browser_needed(). */
static inline bool browser_can_be_tested(void) {
    if (browser_program()) return true;
    if (browser_needed())
        fprintf(stderr, "there is no chromium-headless-shell, which SNUG_TEST_BROWSER asks for\n");
    else
        printf("skipped: there is no chromium-headless-shell to show pages with\n");
    return false;
}

/* A group's browser and the folder that its tests write to. */
static inline int browser_tests_open(void **state, browser **b) {
    if (scratch_open(state) != 0) return -1;
    if (browser_start(browser_program(), b) == STATUS_OK) return 0;
    print_error("%s\n", status_message());
    return -1;
}

static inline int browser_tests_close(void **state, browser *b) {
    browser_close(b);
    return scratch_close(state);
}

static inline const char *json_line(struct json_object *o) {
    return json_object_is_type(o, json_type_string)
               ? json_object_get_string(o)
               : json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* What an expression gives, as text: a string itself, all else as JSON. Good until the next call. */
static inline const char *asked(browser *b, const char *expression) {
    static struct json_object *last;
    json_object_put(last);
    last = NULL;
    must(browser_value(b, expression, &last));
    return json_line(last);
}

/* No fault in the page that is shown; prints those that there are. */
static inline void expect_no_complaint(const browser *b) {
    if (json_object_array_length(browser_complaints(b)) > 0)
        fail_msg("the page has faults: %s", json_line(browser_complaints(b)));
}

/* Nothing was asked for but the file itself. */
static inline void expect_one_request(const browser *b, const char *file) {
    struct json_object *all = browser_requests(b);
    const char *first =
        json_object_array_length(all) == 1 ? json_object_get_string(json_object_array_get_idx(all, 0)) : "";
    if (strncmp(first, "file://", 7) != 0 || !strstr(first, file))
        fail_msg("the page asked for %s", json_line(all));
}
