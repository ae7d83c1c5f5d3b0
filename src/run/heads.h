/* The head that a run's model ends in: the one that its configuration has, or a new one (--head). */
#pragma once

#include "base/text.h"
#include "run/setup.h"

/* "classes:3", "classes" (outputs 0: as many as the data has) or "score"; STATUS_INVALID names --head. */
status heads_parse(const char *words, model_head *h);

/* Settles s->config.head by s->options.head, and s->new_head. STATUS_INVALID where the model can't have one.
 */
status heads_choose(setup *s);

/* The model whose files may lack its head; NULL: they have all of it. */
static inline const model *heads_new(const setup *s) { return s->new_head ? &s->model : NULL; }
