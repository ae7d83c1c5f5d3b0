/* What an op does once before a program is run for the first time: what takes time, or the host's memory,
 * beside its calls. Few ops do anything; they stand in a list here. */
#pragma once

#include "ir/op.h"

/* A call of an op, whose data nobody has yet. INVALID: it can't be run, with a sentence. */
status prepare_call(const op_def *op, const op_call *c);
