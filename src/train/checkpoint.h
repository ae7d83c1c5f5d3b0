/* Checkpoints of a run: everything that the next step depends on, in a model directory that others read too.
 *
 *     checkpoint-N/  config.json generation_config.json model.safetensors     the model after N steps
 *                    optimizer.safetensors                                    all other persistent state
 *                    trainer_state.json                                       train/trainer_state.h
 *
 * Several ranks write several files of each kind, with an index (io/shards.h), where that is worth it.
 *
 * Where adapters are trained, adapter_config.json and adapter_model.safetensors stand in the model's place;
 * of the weights beside them, which do not change, trainer_state.json has the digest.
 *
 * Tensors are written from where they lie in the pool and read to there; what lists and headers take beside
 * it is part of every plan (plan/plan.c), so saving needs no memory that was not planned. */
#pragma once

#include "exec/exec.h"
#include "io/checkpoint_folder.h"
#include "run/decision.h"
#include "train/trainer_state.h"

/* Saves to options.out as checkpoint-`step`, durably, then removes those beyond options.keep. All ranks call
 * it; what comes back may differ from rank to rank. When it fails on one the earlier checkpoints are as they
 * were. */
status checkpoint_save(exec *e, const setup *s, const decision *d, const identity *run, int64_t step);

/* Is all of this folder as it was written? STATUS_INVALID with a sentence when not. Reads every byte. */
status checkpoint_verify(const char *folder, trainer_state *t);

/* The same in two steps: what it says of itself; and whether its files are that, of which each of `parts`
 * looks at some, one of them at each. */
status checkpoint_read(const char *folder, trainer_state *t);
status checkpoint_verify_part(const char *folder, const trainer_state *t, int part, int parts);

/* Has a verified checkpoint, which t describes, every value that the plan begins a step with, in its type and
 * shape? STATUS_INVALID with a sentence when not. Reads headers alone. */
status checkpoint_check(const plan *p, const char *folder, const trainer_state *t);

/* Weights and optimizer state of a verified checkpoint, which t describes, to their places; what adapters
 * stand beside comes from the setup's model directory, STATUS_INVALID where that has changed. */
status checkpoint_load(exec *e, const setup *s, const decision *d, const char *folder,
                       const trainer_state *t);
