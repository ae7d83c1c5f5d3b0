/* One question: how many bytes does the model take with these options, and do they fit the device? Asked in
 * the same way of snug, which searches for a plan, and of other frameworks, which are estimated. */
#pragma once

#include "cli/estimate/estimate.h"
#include "estimate/clusters/choose.h"

typedef struct {
    interval bytes; /* of the device where one is named, else reserved bytes; of snug its least budget */
    bool fits;      /* also true where neither a device nor a budget is named */
    hardware hardware;
    char model[96]; /* its name */
    text notes;     /* sentences for people; text_close */
} ask_answer;

/* STATUS_INVALID: the options contradict each other. `named`: a model that replaces the options' own; NULL:
 * the options' own. `whole`: bytes must be right also where the model does not fit; without it snug may stop
 * its search as soon as that is known, and bytes are then too few. */
status ask(const options *o, const char *named, bool whole, ask_answer *a);

/* The largest value of a setting; 0: the framework has no such setting. */
status ask_most(const options *o, framework_variable v, int64_t *most);
/* The least number of devices that the sizes of --framework megatron allow; 1 of all others. */
int64_t ask_least_devices(const options *o);
/* Numbers of devices that the framework accepts. */
status ask_counts(const options *o, device_counts *out);
/* Values of that setting are multiples of this. */
int64_t ask_step(const options *o, framework_variable v);
/* Batches that divide the step that was said; none (count 0): all batches are accepted alike. */
status ask_batches(const options *o, device_counts *out);
/* A copy of the options with that setting at `value`. */
options ask_with(const options *o, framework_variable v, int64_t value);
