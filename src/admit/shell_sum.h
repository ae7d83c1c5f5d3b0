/* Sums of whole numbers in a shell's script: $((...)). */
#pragma once

#include "admit/shell.h"

/* + - * / % and brackets over numbers and variables. False: it holds something else, or no 64 bits hold the
 * result. `*unsure`: it is the likely one, since a variable may have another value. */
bool shell_sum(const shell *s, const char *written, int64_t *value, bool *unsure);
