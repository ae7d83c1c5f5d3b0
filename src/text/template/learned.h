/* Which bytes of a rendered chat are of which message, and which a model learns to write. */
#pragma once

#include "text/template/run.h"

/* Fills out->ranges, in order and covering the text. STATUS_FAILED without memory. */
status learned_ranges(const run *r, const builder *text, template_output *out);
