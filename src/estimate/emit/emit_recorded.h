/* The plan of a recorded step as a Python file for PyTorch: which modules, and what applies it. */
#pragma once

#include "base/text.h"
#include "estimate/recorded/recorded_plan.h"

/* Modules of a way with that action, for people: "transformer.h.{0-5}, lm_head". Nothing where there are
 * none. STATUS_FAILED: no memory. */
status emit_recorded_names(const recording *r, const plan_way *w, plan_action action, text *out);

typedef struct {
    const recording *recording;
    const torch_settings *settings; /* that the plan was made with */
    const plan_way *way;
    const char *promised; /* a sentence on what it takes, of one line */
} emit_recorded_of;

/* STATUS_INVALID: PyTorch has no words for one of the settings. */
status emit_recorded(const emit_recorded_of *q, text *out);

/* ---- between the two files of it ---- */

/* A list NAME = [...] of the modules that have that mark. */
typedef struct {
    const char *name, *says; /* says: a comment of one line */
    const uint8_t *marks;    /* by module */
    uint8_t mark;
} emit_recorded_list;
status emit_recorded_names_of(const recording *r, const emit_recorded_list *list, text *out);

/* What settings say in PyTorch's words (emit_recorded_settings.c): imports, lists of modules, and lines of
 * prepare(model) before and behind those of the plan. What is planned stands in `base` there. */
status emit_recorded_check(const torch_settings *s);
void emit_recorded_imports(const torch_settings *s, text *out);
status emit_recorded_lists(const emit_recorded_of *q, text *out);
void emit_recorded_before(const emit_recorded_of *q, text *out);
void emit_recorded_behind(const emit_recorded_of *q, text *out);
