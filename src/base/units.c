#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* strtod also takes blanks in front, hexadecimal, "inf" and "nan", which nobody means here. */
static double number_of(const char *text, char **end) {
    const char *digits = text + (*text == '-' || *text == '+');
    *end = (char *)text;
    if (!strchr("0123456789.", *digits) || !*digits || strpbrk(text, "xX")) return NAN;
    return strtod(text, end);
}

status units_parse_bytes(const char *text, const char *name, uint64_t *bytes) {
    static const struct {
        const char *suffix;
        double factor;
    } units[] = { { "", 1 },         { "B", 1 },        { "KiB", 0x1p10 },
                  { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 } };
    char *end;
    double value = number_of(text, &end);
    while (end != text && *end == ' ') end++;
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].suffix) != 0) continue;
        value *= units[i].factor;
        if (!(value >= 1 && value < 0x1p62))
            return status_set(STATUS_INVALID, "%s: '%s' is out of range; sizes go from 1 byte to 4194304TiB",
                              name, text);
        *bytes = (uint64_t)value;
        return STATUS_OK;
    }
    return status_set(STATUS_INVALID,
                      "%s: '%s' is not a size; write bytes or a number with KiB, MiB or GiB, as in 4GiB",
                      name, text);
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
