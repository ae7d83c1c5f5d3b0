/* What people read of the tokens that they add. */
#pragma once

#include "cli/output.h"
#include "run/setup.h"

/* A line for each token that is new, and for each that was there. */
void wanted_say(output *out, const wanted_tokens *w);
/* And what becomes of the model's vocabulary. */
void wanted_say_all(output *out, const setup *s);
