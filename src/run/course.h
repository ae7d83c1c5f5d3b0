/* How long a run trains and at which learning rate. What nobody said depends on what the run begins with: a
 * model that comes with weights wants smaller steps than one that begins at random. */
#pragma once

#include "run/setup.h"

/* What stands for "not said" in setup_options: of steps, warmup and the learning rate. */
enum { COURSE_UNSAID = -1 };

/* Of models that begin at random; and what the public API has as defaults. */
enum { COURSE_STEPS = 1000, COURSE_WARMUP = 20 };
#define COURSE_RATE 6e-4

/* Settles these in s->options, once its data are open: steps from the epochs where those were said.
 * STATUS_INVALID where both were, or epochs of no data. */
status course_settle(setup *s);

/* Why the learning rate and the warmup are what they are, as a clause; NULL: they were said, or are those of
 * models that begin at random. */
const char *course_reason(const setup *s);

/* How often the steps go through the data, the last time perhaps not to the end; 0: there is none. */
double course_epochs(const setup *s);
