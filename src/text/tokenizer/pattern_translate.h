/* From Oniguruma's patterns to PCRE2's: see pattern.h. */
#pragma once

#include <stddef.h>

#include "base/status.h"

/* `*out` is to be freed with memory_free, also ends in a zero. STATUS_INVALID names what in the pattern is
 * not known here. */
status pattern_translate(const char *text, size_t bytes, char **out, size_t *length);
status pattern_translate_text(const char *text, size_t bytes, char **out, size_t *length);
