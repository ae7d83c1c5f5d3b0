/* Documents that a training is given become tokens first, beside its output. */
#pragma once

#include "cli/cli.h"

enum { TRAIN_TOKENS_PATH = 4096 };

typedef struct {
    char eval_data[TRAIN_TOKENS_PATH];
    char *data[OPTION_LIST_MOST]; /* by part */
    setup_part parts[OPTION_LIST_MOST];
} train_tokens;

/* Where the model has a tokenizer.json and the data are documents: makes tokens of them in out/data, in a
 * process of its own, so that none of its memory is left when the run is planned; and has `o` name them
 * instead, each part of a mix by a file of its own. What is there already of the same data is taken.
 * STATUS_INVALID where an option of making tokens was said and none are to be made. `paths` must live as long
 * as `o`; train_tokens_close in any case. */
status train_tokens_make(options *o, cli_streams *streams, train_tokens *paths);
void train_tokens_close(train_tokens *paths);
