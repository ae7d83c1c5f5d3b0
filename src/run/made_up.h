/* Samples for runs without data: random numbers of the sizes that the model takes. What they teach is
 * nothing; what they cost is what data costs. */
#pragma once

#include "run/setup.h"

/* Give a setup without data a source to train on, and one to validate on of as many samples as were planned
 * for. Those that it has stay. */
status made_up_train(setup *s);
status made_up_validation(setup *s);
