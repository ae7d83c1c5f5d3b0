/* A training on one device or another, and whether two of them are the same. Failures end the test. */
#pragma once

#include "device/device.h"
#include "train/train.h"

typedef struct {
    double losses[24], evaluations[16];
    uint32_t evaluation_count;
    plan_pool pools[POOL_COUNT];
    uint64_t measured[POOL_COUNT];
    uint64_t staging_bytes;
    compose_choice choice;
} outcome;

/* `on`: NULL for what the options say. At most 24 steps. */
void on_device_setup(const device *on, const setup_options *o, setup *s);
void on_device_run(const setup_options *o, const device *on, outcome *out);

/* A run that has to fail, and what is said of it. */
void on_device_fail(const setup_options *o, const device *on, char said[1024]);
/* The same of a run that has no room: it ends with STATUS_NO_FIT. */
void on_device_refused(const setup_options *o, const device *on, char said[1024]);

/* The same losses of so many steps, and of validations, bit for bit; the same bytes. */
void on_device_same(const outcome *a, const outcome *b, int64_t steps);
void on_device_same_file(const char *one, const char *other);

int on_device_pass(const char *name);                          /* its place in setup_options.passes */
void on_device_pin(const compose_choice *c, setup_options *o); /* all passes, and the micro-batch */
