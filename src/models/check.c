#include "models/check.h"

status model_check_ranges(const model_range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return status_set(STATUS_INVALID, "%s is %lld; it must be from %lld to %lld", ranges[i].name,
                              (long long)ranges[i].value, (long long)ranges[i].least,
                              (long long)ranges[i].most);
    return STATUS_OK;
}

status model_check_between(const char *name, double value, double below, double usual) {
    if (value > 0 && value < below) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s is %g; it must lie between 0 and %g, as %g does", name, value,
                      below, usual);
}

status model_check_epsilon(const char *name, double value) {
    return model_check_between(name, value, 1, 1e-5);
}

status model_check_deviation(double value) {
    return model_check_between("initializer_range", value, 10, 0.02);
}

status model_check_dropout(const double *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(values[i] >= 0 && values[i] < 1))
            return status_set(STATUS_INVALID, "a dropout probability is %g; it must be in [0, 1)", values[i]);
    return STATUS_OK;
}

status model_check_heads(const char *name, int64_t heads, const char *width, int64_t channels) {
    if (channels % heads == 0) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s %lld cannot be divided among %s %lld; it must be a multiple", width,
                      (long long)channels, name, (long long)heads);
}
