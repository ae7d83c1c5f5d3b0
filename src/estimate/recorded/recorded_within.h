/* Tensors that a call makes and lets go within itself. A recording has storages for them that are no call's
 * operands; their sizes hang on the types that the call computes in. */
#pragma once

#include "estimate/recorded/edit.h"

/* Where types are about to become f32: storages of products go, where nobody says what they have in f32. */
void recorded_within_widen(recorded_edit *e);
/* Behind a change of types. What was recorded for a call's other type takes the recorded one's place where it
 * has that type now, and copies have the type of what they copy. */
void recorded_within_retype(recorded_edit *e, bool cuda);
/* When types of all calls are what they are going to be: where they meet, a CPU's elementwise calls copy what
 * is not of the type that they compute in (TensorIterator). In place of such copies as were recorded. */
void recorded_within_mix(recorded_edit *e);
