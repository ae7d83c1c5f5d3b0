/* Which bytes of a rendered chat are of which message, and which a model learns to write. */
#pragma once

#include "text/template/run.h"

/* What prompts an answer; of no length where that is not known. */
typedef struct {
    const char *bytes;
    size_t length;
} learned_prompt;

/* What the prompted text has at its end and the other has not, which may have an end of its own. It lives as
 * long as they do. */
learned_prompt learned_difference(const builder *plain, const builder *prompted);

/* Fills out->ranges, in order and covering the text. STATUS_FAILED without memory. */
status learned_ranges(const run *r, const builder *text, const learned_prompt *prompt, template_output *out);
