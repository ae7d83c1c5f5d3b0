/* What is said of a message on memory that ran out: the parts of `snug explain-oom`. */
#pragma once

#include "base/text.h"
#include "base/units.h"
#include "cli/cli.h"
#include "estimate/oom/oom.h"

enum { EXPLAIN_TRIES = 3, EXPLAIN_MOST = EXPLAIN_TRIES + 1, EXPLAIN_WORDS = 360 };

/* What to try next, the best first. */
typedef struct {
    char words[EXPLAIN_MOST][EXPLAIN_WORDS];
    uint64_t saves[EXPLAIN_MOST]; /* bytes; 0: not known */
    int count;
    cli_savings estimate; /* of what --for says; of 0 bytes without it */
    bool far;             /* that is not what the message is about */
} explain_advice;

/* With --for the savings of that run are estimated. */
status explain_advise(const options *o, const oom *m, oom_verdict why, explain_advice *a);

/* For people, and for programs. */
void explain_say(text *t, const oom *m, oom_verdict why, const explain_advice *a);
void explain_json(text *t, const oom *m, oom_verdict why, const explain_advice *a);

/* "14.06 GiB", "8.89 GB", "10.51G": as the message writes it. Of a few buffers that are used in turn. */
const char *explain_bytes(const oom *m, uint64_t bytes);

/* What belongs to a backend. */
typedef struct {
    const char *name;    /* in JSON */
    const char *shows;   /* the tool that shows who holds the device */
    const char *chooses; /* the variable that says which devices a process sees */
    const char *conf;    /* the variable of PyTorch's allocator; "": none */
} explain_backend;
const explain_backend *explain_backend_of(const oom *m);
