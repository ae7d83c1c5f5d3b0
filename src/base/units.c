#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* strtod also takes blanks in front, hexadecimal, "inf" and "nan", which nobody means here. */
static double number_of(const char *text, char **end) {
    const char *digits = text + (*text == '-' || *text == '+');
    *end = (char *)text;
    if (!strchr("0123456789.", *digits) || !*digits || strpbrk(text, "xX")) return NAN;
    return strtod(text, end);
}

/* What may stand behind a size, in any case of letters: K, Ki and KiB as Slurm and the GNU tools take them;
 * KB as the standard has it. */
static double size_factor(const char *suffix) {
    static const struct {
        const char *suffix;
        double factor;
    } units[] = { { "", 1 },         { "B", 1 },    { "K", 0x1p10 }, { "Ki", 0x1p10 },
                  { "KiB", 0x1p10 }, { "KB", 1e3 }, { "M", 0x1p20 }, { "Mi", 0x1p20 },
                  { "MiB", 0x1p20 }, { "MB", 1e6 }, { "G", 0x1p30 }, { "Gi", 0x1p30 },
                  { "GiB", 0x1p30 }, { "GB", 1e9 }, { "T", 0x1p40 }, { "Ti", 0x1p40 },
                  { "TiB", 0x1p40 }, { "TB", 1e12 } };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(suffix, units[i].suffix) == 0) return units[i].factor;
    return NAN;
}

status units_parse_bytes(const char *text, const char *name, uint64_t *bytes) {
    char *end;
    double value = number_of(text, &end);
    while (end != text && *end == ' ') end++;
    double factor = end == text ? NAN : size_factor(end);
    if (isnan(factor))
        return status_set(STATUS_INVALID,
                          "%s: '%.60s' is not a size; write bytes, or a number with KiB, MiB or GiB (K, M, G "
                          "are the same) or with KB, MB or GB (powers of ten), as in 4GiB",
                          name, text);
    value *= factor;
    if (!(value >= 1 && value < 0x1p62))
        return status_set(STATUS_INVALID, "%s: '%.60s' is out of range; sizes go from 1 byte to 4194304TiB",
                          name, text);
    *bytes = (uint64_t)value;
    return STATUS_OK;
}

status units_parse_integer(const char *text, const char *name, int64_t low, int64_t high, int64_t *value) {
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *text == ' ' || *end || errno || v < low || v > high)
        return status_set(STATUS_INVALID, "%s: '%s' is not a whole number from %lld to %lld", name, text,
                          (long long)low, (long long)high);
    *value = v;
    return STATUS_OK;
}

status units_parse_count(const char *text, const char *name, double low, double high, double *count) {
    static const char letters[] = "KMBT";
    char *end;
    double v = number_of(text, &end), factor = 1e3;
    bool number = end != text, letter = number && *end;
    const char *at = letters;
    while (letter && *at && toupper((unsigned char)*end) != *at) at++, factor *= 1e3;
    if (!number || (letter && (!*at || end[1])) || !isfinite(v))
        return status_set(STATUS_INVALID,
                          "%s: '%.60s' is not a count; write a number, or one with K, M, B or T, as in 10B",
                          name, text);
    v *= letter ? factor : 1;
    if (!(v >= low && v <= high))
        return status_set(STATUS_INVALID, "%s: '%.60s' is not from %g to %g", name, text, low, high);
    *count = v;
    return STATUS_OK;
}

status units_parse_number(const char *text, const char *name, double low, double high, double *value) {
    char *end;
    double v = number_of(text, &end);
    if (end == text || *end || !isfinite(v) || v < low || v > high)
        return status_set(STATUS_INVALID, "%s: '%s' is not a number from %g to %g", name, text, low, high);
    *value = v;
    return STATUS_OK;
}

typedef enum { UNIT_B, UNIT_KIB, UNIT_MIB, UNIT_GIB } byte_unit;

/* GiB begin at ten of them: below, a MiB more or less still shows. */
static byte_unit unit_of(uint64_t bytes) {
    enum { MIB = 1 << 20, LEAST_GIB = 10240 };
    return bytes < 1024                        ? UNIT_B
           : bytes < MIB                       ? UNIT_KIB
           : bytes < (uint64_t)LEAST_GIB * MIB ? UNIT_MIB
                                               : UNIT_GIB;
}

static const char *bytes_in(byte_unit unit, uint64_t bytes, char text[UNITS_TEXT_BYTES]) {
    static const char *const names[] = { "B", "KiB", "MiB", "GiB" };
    static const int digits[] = { 0, 1, 1, 2 };
    double value = (double)bytes / (double)(1ull << (10 * unit)), least = unit == UNIT_GIB ? 0.005 : 0.05;
    if (unit != UNIT_B && bytes && value < least)
        snprintf(text, UNITS_TEXT_BYTES, "<%g %s", 2 * least, names[unit]);
    else
        snprintf(text, UNITS_TEXT_BYTES, "%.*f %s", digits[unit], value, names[unit]);
    return text;
}

const char *units_bytes_text(uint64_t bytes, char text[UNITS_TEXT_BYTES]) {
    return bytes_in(unit_of(bytes), bytes, text);
}

const char *units_column_text(uint64_t bytes, uint64_t largest, char text[UNITS_TEXT_BYTES]) {
    return bytes_in(unit_of(largest), bytes, text);
}

const char *units_count_text(uint64_t count, char text[UNITS_TEXT_BYTES]) {
    if (count >= 1000000000)
        snprintf(text, UNITS_TEXT_BYTES, "%.2f billion", (double)count / 1e9);
    else if (count >= 1000000)
        snprintf(text, UNITS_TEXT_BYTES, "%.2f million", (double)count / 1e6);
    else if (count >= 1000)
        snprintf(text, UNITS_TEXT_BYTES, "%u,%03u", (unsigned)(count / 1000), (unsigned)(count % 1000));
    else
        snprintf(text, UNITS_TEXT_BYTES, "%u", (unsigned)count);
    return text;
}

const char *units_seconds_text(double seconds, char text[UNITS_TEXT_BYTES]) {
    if (seconds < 1e-3)
        snprintf(text, UNITS_TEXT_BYTES, "%.0f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(text, UNITS_TEXT_BYTES, "%.1f ms", seconds * 1e3);
    else
        snprintf(text, UNITS_TEXT_BYTES, "%.2f s", seconds);
    return text;
}
