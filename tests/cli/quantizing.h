/* Models of codes as a user asks them: what tests of each width share. */
#pragma once

#include <stdint.h>

#include "cli/command.h"

/* The JSON of a command that succeeds, and what it took. Close and free both. */
json_document quantizing_asks(const char *line, command_result *r);
/* As `train --eval-only` says of a folder, and further words; with bytes as planned, and those of weights. */
double quantizing_loss(const char *words, uint64_t *weights);
/* The first text that a `generate ... --json` has added; to be freed. */
char *quantizing_text(const char *line);
/* `quantize model --to KIND` says how many bytes it needs; with so many "exactly" is made, with one less it
 * is not. */
void quantizing_needs_what_it_says(const char *kind);
