/* Sizes and numbers as people write them. */
#pragma once

#include <stdint.h>

#include "base/status.h"

/* "4GiB", "512MiB", "1.5GiB", "1048576": bytes. "4G" and "4Gi" are 4GiB, as for Slurm and the GNU tools;
 * "4GB" is 4 * 10^9, as the standard has it; small letters are taken. `name` is the option, for the sentence.
 */
status units_parse_bytes(const char *text, const char *name, uint64_t *bytes);

/* A whole number in [low, high]. */
status units_parse_integer(const char *text, const char *name, int64_t low, int64_t high, int64_t *value);

/* A finite number in [low, high]. */
status units_parse_number(const char *text, const char *name, double low, double high, double *value);

/* "300B", "1.5T", "2M", "10K", "2e9", "4096": a count in [low, high]; B is 10^9, in any case of letters. */
status units_parse_count(const char *text, const char *name, double low, double high, double *count);

/* "1,747.3 MiB" style: into `text`, returns it. */
enum { UNITS_TEXT_BYTES = 32 };
const char *units_bytes_text(uint64_t bytes, char text[UNITS_TEXT_BYTES]);
/* One of several numbers that stand together, of which `largest` is the largest: all have its unit, so that a
 * larger number looks larger. */
const char *units_column_text(uint64_t bytes, uint64_t largest, char text[UNITS_TEXT_BYTES]);
/* "8.03 billion", "123.5 million", "1,024". */
const char *units_count_text(uint64_t count, char text[UNITS_TEXT_BYTES]);
const char *units_seconds_text(double seconds, char text[UNITS_TEXT_BYTES]);

/* Rounded up to a multiple of `step`, a power of two. */
static inline uint64_t units_align(uint64_t bytes, uint64_t step) { return (bytes + step - 1) & ~(step - 1); }
