/* The model of a run, written to a folder as others read it: weights or an adapter, configuration, tokenizer.
 */
#pragma once

#include "exec/exec.h"
#include "run/decision.h"
#include "run/identity.h"

typedef struct {
    exec *exec;
    const setup *s;
    const decision *d;
    const identity *run;
    int64_t done; /* steps */
} model_saved;

/* All ranks call it; what comes back may differ from rank to rank. Each file is whole at any time. Where
 * ranks write several files of weights, these take the place of earlier ones when all are there; killed while
 * they do, the folder has no model until the next start (model_save_clean). */
status model_save(const model_saved *m, const char *folder);

/* STATUS_INVALID where something stands in the way of a file of weights, in options.out or in the folder of
 * the best: that is to be known before the first step. */
status model_save_check(const setup *s, const decision *d, const identity *run);

/* Removes what killed runs have left half written in the folder of a run, and puts in place what was whole.
 */
status model_save_clean(const char *out);
