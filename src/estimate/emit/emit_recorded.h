/* The plan of a recorded step as a Python file for PyTorch: which modules, and what applies it. */
#pragma once

#include "base/text.h"
#include "estimate/recorded/recorded_plan.h"

/* Modules of a way with that action, for people: "transformer.h.{0-5}, lm_head". Nothing where there are
 * none. STATUS_FAILED: no memory. */
status emit_recorded_names(const recording *r, const plan_way *w, plan_action action, text *out);

/* `promised`: a sentence on what it takes, of one line. */
status emit_recorded(const recording *r, const plan_way *w, const char *promised, text *out);
