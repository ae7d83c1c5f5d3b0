/* The head that judges samples which an adapter brings (modules_to_save in its adapter_config.json). */
#pragma once

#include "models/families.h"
#include "models/label_names.h"

/* Gives `c`, read from the folder of the model beside which the adapter was trained, the adapter's head, and
 * puts the names of its outputs into `names`, none where nobody says them. `*brings` false: the adapter
 * brings no head, and both stay as they are. adapter_base.json says what the head is; without it, as PEFT
 * writes adapters, it is the model's own where that has as many outputs as the adapter's tensors, else one of
 * so many without names. STATUS_INVALID for a model that can have none. */
status adapter_head_read(const char *directory, model_config *c, label_names *names, bool *brings);
