/* A folder that is to be written to and holds something already: the model or the checkpoints of a run that
 * was before, or a model from elsewhere. Nobody's work is replaced without a word for it. */
#pragma once

#include "run/identity.h"

/* STATUS_INVALID where the run `given` may not begin in options.out, which it shall not go on in: because of
 * what lies there, with a sentence of what that is and what to do. Fine with options.overwrite, save where
 * the model to begin from is among what would go; and with options.resume where an unfinished start of the
 * same run has left it. Nothing is touched. */
status occupied_check(const setup *s, const identity *given);

/* Has a start of this very run written to the folder? */
bool occupied_by(const char *out, const identity *given);

/* Has a run come to its end there, with all that it writes? */
bool occupied_is_finished(const char *out);

/* With options.overwrite: removes what a run leaves in options.out, except a model that this one begins
 * from. When all is ready for the first step, so that what is refused has cost nothing. */
status occupied_clear(const setup *s);
