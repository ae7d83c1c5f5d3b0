/* Low-rank adapters beside the linear modules of a recorded step, as PEFT has them: all else is frozen, so
 * gradients of weights, and what is kept for them alone, are not made. */
#pragma once

#include "estimate/recorded/edit.h"

/* With --adapter-rank, --adapter-targets, --adapter-dropout and --base-bits of `s`. STATUS_INVALID where no
 * module is of those names, with the names there are. */
status recorded_adapt(recorded_edit *e, const torch_settings *s);
/* Marks modules beside whose weight `s` asks for an adapter; `marks` has room for all modules. STATUS_FAILED:
 * no memory. */
status recorded_adapted(const recording *r, const torch_settings *s, uint8_t *marks);
