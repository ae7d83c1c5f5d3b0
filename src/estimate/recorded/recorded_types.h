/* Another precision of a recorded step, by rule: what PyTorch would cast where, and what it then keeps.
 *
 * From casts to none (autocast or 16 bits to f32) all is known: a cast that does nothing makes no copy. The
 * other way autocast's own lists say which calls cast what they read; backward casts gradients to the type
 * that forward had. What a model's own code casts does nothing in f32 and makes no call there. A recording
 * says which tensors it casts to f32 (recording_program.widened): norms that are written out and the logits
 * before the loss are f32 where it does. An older one does not say, and they are taken to be. */
#pragma once

#include "estimate/recorded/edit.h"

/* How the step was recorded. */
torch_types recorded_types_of(const recording *r);

/* `own_casts`: those two are played; without them less is kept where all has 16 bits. `cuda`: autocast's
 * lists of a GPU, else of a CPU. */
void recorded_retype(recorded_edit *e, torch_types to, bool cuda, bool own_casts);
