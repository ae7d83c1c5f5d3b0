/* What the parts of the browser's driver share. */
#pragma once

#include <sys/types.h>

#include "browser/browser.h"

struct browser {
    int to, from; /* messages, each ended by a zero byte */
    int lifeline; /* closed: the guard ends the browser and removes its profile */
    pid_t guard, process;
    char profile[64];
    char *heard; /* of a message that has not ended yet */
    size_t heard_bytes, heard_capacity;
    int last_id;
    double patience;
    char session[64], context[64]; /* of the page; "" before there is one */
    bool loaded;
    double ready, work;
    struct json_object *complaints, *requests;
};

double browser_clock(void); /* seconds */

/* Starts the program under a guard; its pipes, profile, guard and process are then the browser's. */
status browser_launch(browser *b, const char *program);
/* Ends both and removes the profile. */
void browser_end(browser *b);
/* What it wrote last before it ended, in `out`. */
void browser_last_words(const browser *b, char *out, size_t bytes);

/* Calls a method of the protocol, of the page or else of the browser. `parameters` (may be NULL) is given
 * away; `out` (may be NULL) is to be put back. */
status browser_call(browser *b, bool of_page, const char *method, struct json_object *parameters,
                    struct json_object **out);
/* The same without waiting for the answer. */
status browser_tell(browser *b, bool of_page, const char *method, struct json_object *parameters);
/* Hears messages until `*flag` or the time is over, which is no failure. */
status browser_hear(browser *b, const bool *flag, double seconds);

/* An event of the protocol: keeps what pages must not do, and what they asked for. */
status browser_event(browser *b, const char *method, struct json_object *parameters);

/* A member at "a.b.c", NULL where there is none. */
struct json_object *browser_member(struct json_object *o, const char *path);
const char *browser_text(struct json_object *o, const char *path); /* "" where there is none */
