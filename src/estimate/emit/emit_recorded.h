/* The plan of a recorded step as a Python file for PyTorch: which modules, and what applies it. */
#pragma once

#include "base/text.h"
#include "estimate/recorded/recorded_chunks.h"
#include "estimate/recorded/recorded_plan.h"

/* Modules with that mark, for people: "transformer.h.{0-5}, lm_head". Nothing where there are none.
 * STATUS_FAILED: no memory. */
status emit_recorded_names(const recording *r, const uint8_t *marks, uint8_t mark, text *out);

/* Of a way the modules that are computed again with the same results kept are a group. */
typedef struct {
    uint32_t count;
    uint64_t *kinds; /* by group, from 0: whose results stay; of the first none */
    uint8_t *marks;  /* by module: its group, from 1; 0: it is not computed again */
} emit_recorded_groups;

/* STATUS_FAILED: no memory. STATUS_INVALID: more groups than marks. Close them in any case. */
status emit_recorded_groups_find(const recording *r, const plan_way *w, emit_recorded_groups *g);
void emit_recorded_groups_close(emit_recorded_groups *g);
/* A set of kinds, for people: "mm, attention". */
void emit_recorded_kinds(const recording *r, uint64_t kinds, text *out);

typedef struct {
    const recording *recording;
    const torch_settings *settings; /* that the plan was made with, and types and pieces of the way */
    const plan_way *way;
    const char *promised; /* a sentence on what it takes, of one line */
} emit_recorded_of;

/* STATUS_INVALID: PyTorch has no words for one of the settings. */
status emit_recorded(const emit_recorded_of *q, text *out);

/* ---- between the files of it ---- */

/* A list NAME = [...] of the modules that have that mark. */
typedef struct {
    const char *name, *says; /* says: a comment of one line */
    const uint8_t *marks;    /* by module */
    uint8_t mark;
} emit_recorded_list;
status emit_recorded_names_of(const recording *r, const emit_recorded_list *list, text *out);
/* The modules alone, of a list within a list. */
status emit_recorded_modules(const recording *r, const uint8_t *marks, uint8_t mark, text *out);

/* What is computed again (emit_recorded_again.c): lists of modules, imports, functions, and lines of
 * prepare(model). */
status emit_recorded_again_lists(const emit_recorded_of *q, text *out);
void emit_recorded_again_imports(const plan_way *w, bool chunks, text *out);
void emit_recorded_again_functions(const plan_way *w, text *out);
void emit_recorded_again_prepare(const plan_way *w, text *out);

/* Head and loss in pieces (emit_recorded_loss.c), with loss_chunks of the settings. The lists fill `h`. */
status emit_recorded_loss_lists(const emit_recorded_of *q, recorded_head *h, text *out);
void emit_recorded_loss_functions(const emit_recorded_of *q, const recorded_head *h, text *out);
void emit_recorded_loss_prepare(const torch_settings *s, text *out);

/* What settings say in PyTorch's words (emit_recorded_settings.c): imports, lists of modules, and lines of
 * prepare(model) before and behind those of the plan. What is planned stands in `base` there. */
status emit_recorded_check(const torch_settings *s);
void emit_recorded_imports(const torch_settings *s, text *out);
status emit_recorded_lists(const emit_recorded_of *q, text *out);
void emit_recorded_before(const emit_recorded_of *q, text *out);
void emit_recorded_behind(const emit_recorded_of *q, text *out);
