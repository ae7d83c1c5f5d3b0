/* The weights of a run, in their planned places: where they come from and where they go. */
#pragma once

#include "base/text.h"
#include "exec/exec.h"
#include "io/adapter_files.h"
#include "models/families.h"
#include "run/decision.h"
#include "run/identity.h"

/* Initial values of every weight of the plan, by the model's rule, from the run's seed: the same bits for any
 * number of threads. `m` NULL: only of those that passes have added. */
status weights_initialise(exec *e, const model *m, uint64_t seed);

/* What a run begins with: the weights of its model directory, initial values of what passes add and of what
 * the directory lacks of a new head; all of them where there is no directory. */
status weights_begin(exec *e, const setup *s);

/* Names of the weights of a new head that the directory lacks, with ", " between them: none is empty. */
status weights_new(const setup *s, text *names);

/* Before anything is planned: does the model's directory, where it begins from one, have all its weights in
 * their shapes? */
status weights_check(const setup *s);

/* Every weight of the plan that is the model's own from a model directory; what is refused says
 * io/model_files.h. */
status weights_load(exec *e, const char *directory);
/* The same of a run's own model, beside whose weights an adapter is trained: a new head stays as it is. */
status weights_load_base(exec *e, const setup *s);

/* Writes config.json, generation_config.json and model.safetensors to `directory` (made if missing),
 * atomically file by file, streaming the weights from where they are. `c` NULL: the model is not of this
 * family, and the weights are written alone. */
status weights_save(exec *e, const model_config *c, const char *directory);
/* The same in another type of floats (NONE: as they are), with how many batches batch norms have seen. */
typedef struct {
    dtype type;
    int64_t batches; /* 0: that is not written */
} weights_form;
status weights_save_as(exec *e, const model_config *c, const char *directory, const weights_form *as);

/* The adapter that a plan trains, beside the weights that the run has begun at; pass NULL: it trains the
 * weights themselves. */
adapter_files_about weights_adapter(const setup *s, const decision *d, const identity *run);

/* Its weights, from a folder of them. */
status weights_load_adapter(exec *e, const setup *s, const char *directory);

/* Writes config.json and generation_config.json alone, which say how the weights are stored (`as` NONE: as
 * they are). */
status weights_save_config(exec *e, const model_config *c, const char *directory, dtype as);

/* In how many files the ranks of a run write its model (io/shards.h), and file k of them alone, into a folder
 * that is there. */
int weights_files(const plan *p, const model_config *c);
status weights_save_file(exec *e, const model_config *c, const char *directory, const weights_form *as, int k,
                         int files);

/* Writes the weights that a pass has added, as an adapter: io/adapter_files.h. */
status weights_save_adapter(exec *e, const adapter_files_about *about, const char *directory);
