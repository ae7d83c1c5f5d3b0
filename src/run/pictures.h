/* Data of a run whose model tells classes of pictures (data/images/). */
#pragma once

#include "run/setup.h"

/* What pictures become for this model, by its preprocessor_config.json, and the names of its classes: those
 * of its config.json, or, where the head is new or nobody has named them, those of the data. Settles the
 * head's outputs and, where the model takes pictures of any size, theirs. */
status pictures_settle(setup *s);

/* Opens s->train and s->validation, every tenth picture held out where there is no --eval-data. */
status pictures_open_data(setup *s);
void pictures_close_data(setup *s);

/* preprocessor_config.json, as it was used, beside what is made of the model. */
status pictures_save(const setup *s, const char *directory);
