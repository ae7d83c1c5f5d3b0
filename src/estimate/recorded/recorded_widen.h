/* A recorded step of 16 bits as one of f32: casts between the two go, with what they made. */
#pragma once

#include "estimate/recorded/edit.h"

/* `widened`: of storages, moves with what is replaced. */
void recorded_widen(recorded_edit *e, bool *widened);
