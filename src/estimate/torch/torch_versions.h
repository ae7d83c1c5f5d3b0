/* What older versions of PyTorch do otherwise, where it changes memory: one function a rule. docs/estimate.md
 * has the source of each. Settings without a version (TORCH_ANY) are read as today's. */
#pragma once

#include "base/text.h"
#include "estimate/torch/torch.h"

const char *torch_version_name(torch_version v); /* "1.10"; of TORCH_ANY "any" */

/* The settings say a version, and one before `v`. */
bool torch_is_before(const torch_settings *s, torch_version v);

/* zero_grad fills gradients with zeros, so from the second step on all are there through the whole step. */
bool torch_fills_gradients(const torch_settings *s);
/* softmax and log-softmax keep what they read beside what they make. */
bool torch_softmax_keeps_input(const torch_settings *s);
/* Copies of all trained weights that a foreach update of Adam has at once. */
int torch_foreach_copies(const torch_settings *s);
/* All kernels of a library are on the device as soon as it is used. */
bool torch_loads_at_once(const torch_settings *s);

/* How torch.optim goes over weights where nobody says it: of transformers' Trainer, or of torch itself. */
torch_update torch_usual_update(torch_version v, bool transformers);

/* Attention likewise: eager where there is no fused kernel to be asked for. */
torch_attention torch_usual_attention(torch_version v, bool transformers);

/* The oldest version that these settings can be of. `attends`: the model has attention. */
torch_version torch_oldest(const torch_settings *s, bool attends);

/* A line for people: what the version that is said does otherwise; none where it is nothing. */
void torch_describe_version(const torch_settings *s, text *out);

/* STATUS_INVALID: the version that is said has not got what the settings ask for. */
status torch_check_version(const torch_settings *s);
