/* The weights of a run, in their planned places: where they come from and where they go. */
#pragma once

#include "exec/exec.h"
#include "io/adapter_files.h"
#include "models/families.h"

/* Initial values of every weight of the plan, by the model's rule, from the run's seed: the same bits for any
 * number of threads. `m` NULL: only of those that passes have added. */
void weights_initialise(exec *e, const plan *p, const model *m, uint64_t seed);

/* Every weight of the plan that is the model's own from a model directory; what is refused says
 * io/model_files.h. */
status weights_load(exec *e, const char *directory);

/* Writes config.json, generation_config.json and model.safetensors to `directory` (made if missing),
 * atomically file by file, streaming the weights from where they are. `c` NULL: the model is not of this
 * family, and the weights are written alone. */
status weights_save(const exec *e, const model_config *c, const char *directory);

/* Writes config.json and generation_config.json alone, which say how the weights are stored. */
status weights_save_config(const exec *e, const model_config *c, const char *directory);

/* Writes the weights that a pass has added, as an adapter: io/adapter_files.h. */
status weights_save_adapter(const exec *e, const adapter_files_about *about, const char *directory);
