#include "base/units.h"

#include <errno.h>
#include <math.h>
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

status units_parse_number(const char *text, const char *name, double low, double high, double *value) {
    char *end;
    double v = number_of(text, &end);
    if (end == text || *end || !isfinite(v) || v < low || v > high)
        return status_set(STATUS_INVALID, "%s: '%s' is not a number from %g to %g", name, text, low, high);
    *value = v;
    return STATUS_OK;
}

const char *units_bytes_text(uint64_t bytes, char text[UNITS_TEXT_BYTES]) {
    static const char *const names[] = { "B", "KiB", "MiB" };
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 2) value /= 1024, unit++;
    if (unit == 2 && value >= 10240)
        snprintf(text, UNITS_TEXT_BYTES, "%.2f GiB", value / 1024);
    else
        snprintf(text, UNITS_TEXT_BYTES, unit ? "%.1f %s" : "%.0f %s", value, names[unit]);
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
