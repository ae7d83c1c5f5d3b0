/* A real browser for tests of pages: Chromium's headless shell, driven by messages through two pipes
 * (chromedevtools.github.io/devtools-protocol). It has a profile of its own, reaches no other host, and is
 * gone with its profile however the test ends.
 *
 * Functions fail with a sentence (base/status.h); each waits for a limited time. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct browser browser;

/* Is a browser needed here? It is where SNUG_TEST_BROWSER is set, as test.sh does: a test without one fails
 * there and is left out elsewhere. */
bool browser_needed(void);

/* The program: that of SNUG_BROWSER, or the first known name in PATH; NULL where there is none. */
const char *browser_program(void);

/* To be closed. `program`: see above. */
status browser_start(const char *program, browser **out);
void browser_close(browser *b); /* NULL is fine */

/* The folder of its profile, and the leader of its group of processes. */
const char *browser_profile(const browser *b);
int browser_process(const browser *b);

/* Seconds that one answer may take: 20 at first. */
void browser_set_patience(browser *b, double seconds);

typedef struct {
    int width, height; /* CSS pixels; 0: 1280 and 900 */
    bool dark, print, no_scripts;
} browser_view;

/* Shows a file, in place of what was shown, and waits until it is loaded and drawn. What was heard before is
 * forgotten. */
status browser_open(browser *b, const char *file, browser_view view);

/* From asking for the file until it was drawn, the script's work at its beginning included. */
double browser_ready_seconds(const browser *b);
/* What of it the page's own thread had of a processor: on a machine that others use, all that can be asked.
 */
double browser_ready_work(const browser *b);

/* What went wrong since the page was opened, a sentence each: errors and warnings of the console, exceptions,
 * what its policy forbade, dialogs. Strings, the browser's. */
struct json_object *browser_complaints(const browser *b);
/* The addresses that it asked for since, the file's among them. Strings, the browser's. */
struct json_object *browser_requests(const browser *b);
/* Hears what comes within this time. */
status browser_listen(browser *b, double seconds);

/* What an expression of JavaScript gives, a promise's value included, to be put back (json_object_put). */
status browser_value(browser *b, const char *expression, struct json_object **out);

/* What assistive technology is told: an array of { "role", "name", "description", "value" }, without what is
 * left out for it, in the order of the page; to be put back. */
status browser_tree(browser *b, struct json_object **out);
/* How many of its members have this role (NULL: any) and hold this text in their name. */
int browser_named(const struct json_object *tree, const char *role, const char *name);

/* Moves the pointer, in CSS pixels of the window; `seconds` (may be NULL): from the movement until what the
 * page made of it was drawn. */
status browser_point(browser *b, double x, double y, double *seconds);
/* Moves it there, presses and lets go. */
status browser_click(browser *b, double x, double y);
/* Presses a key and lets it go: a name of KeyboardEvent.key, as "ArrowRight", or one character. */
status browser_key(browser *b, const char *key);

typedef struct {
    int width, height;
    int colours;      /* different ones; more than 4096 are not told apart */
    double commonest; /* the share of the pixels that have the commonest one, which is nearly 1 where it is
                         blank */
} browser_picture;

/* A picture of the first element that the selector finds (NULL: of the window). */
status browser_look(browser *b, const char *selector, browser_picture *out);
