#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status units_parse_bytes(const char *text, const char *name, uint64_t *bytes) {
    static const struct {
        const char *suffix;
        double factor;
    } units[] = { { "", 1 },         { "B", 1 },        { "KiB", 0x1p10 },
                  { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 } };
    char *end;
    double value = strtod(text, &end);
    while (*end == ' ') end++;
    if (end != text && isfinite(value) && value > 0)
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strcmp(end, units[i].suffix) == 0 && value * units[i].factor >= 1 &&
                value * units[i].factor < 0x1p62) {
                *bytes = (uint64_t)(value * units[i].factor);
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
    if (end == text || *end || errno || v < low || v > high)
        return status_set(STATUS_INVALID, "%s: '%s' is not a whole number from %lld to %lld", name, text,
                          (long long)low, (long long)high);
    *value = v;
    return STATUS_OK;
}

status units_parse_number(const char *text, const char *name, double low, double high, double *value) {
    char *end;
    double v = strtod(text, &end);
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
