/* One question: what does it take with these options, and does that fit? The same for snug, whose answer is a
 * search, and for the frameworks that are elsewhere. */
#pragma once

#include "cli/estimate/estimate.h"

typedef struct {
    interval bytes; /* of the device where one is named, else reserved; of snug what it needs at least */
    bool fits;      /* true where there is nothing that it is to fit */
    hardware hardware;
    char model[96]; /* as it is called */
    text notes;     /* sentences for people; text_close */
} ask_answer;

/* STATUS_INVALID: these options can't be. `named`: a model in place of that of the options; NULL: that. With
 * `whole`, bytes are those needed also where they are too many; else snug may say less of what doesn't fit.
 */
status ask(const options *o, const char *named, bool whole, ask_answer *a);

/* What a setting can be at most; 0: the framework has none of the kind. */
status ask_most(const options *o, framework_variable v, int64_t *most);
/* Numbers of devices that the framework accepts, ascending: it may want whole heads on each, say. */
enum { ASK_MOST_DEVICES = 1024 };
typedef struct {
    int64_t of[ASK_MOST_DEVICES];
    int64_t count; /* at least 1: one device is what everything else is asked of */
} device_counts;
status ask_counts(const options *o, device_counts *out);
/* The options with that setting. */
options ask_with(const options *o, framework_variable v, int64_t value);
