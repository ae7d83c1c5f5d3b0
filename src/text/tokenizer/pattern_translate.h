/* From Oniguruma's patterns to PCRE2's: see pattern.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* `*looks_back`: what it matches depends on what stands before.
 * `*out` is to be freed with memory_free, also ends in a zero. STATUS_INVALID names what in the pattern is
 * not known here. */
status pattern_translate(const char *text, size_t bytes, char **out, size_t *length, bool *looks_back);
status pattern_translate_text(const char *text, size_t bytes, char **out, size_t *length);
