/* Data of a run whose model judges whole samples: texts with labels, through the model's tokenizer. */
#pragma once

#include "run/setup.h"

/* What makes ids of texts by the tokenizer.json of a model directory and the tokens added to it. It is the
 * program's, since the library that is installed knows no tokenizers. */
typedef struct labelled_language {
    /* Sets t's context, encode, before and behind. `*words` is closed in any case. */
    status (*open)(const char *directory, const wanted_tokens *added, void **words, labelled_tokens *t);
    void (*close)(void *words); /* NULL is fine */
    /* The id of the token that hides others; -1: its tokenizer has none. */
    status (*mask)(const char *directory, int64_t *id);
} labelled_language;

/* The names of the head's classes: those of its config.json, or, where the head is new, those of the data;
 * s->config.head.outputs becomes their number where it is 0. STATUS_INVALID where they are not as many as
 * --head says. Scores have none. */
status labelled_settle_names(setup *s);

/* Opens s->train and s->validation as the options say, every tenth record held out where there is no
 * --eval-data. */
status labelled_open_data(setup *s);

void labelled_close_data(setup *s);
