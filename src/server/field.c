#include "server/field.h"

#include <math.h>

status field_number(const template_value *v, double low, double high, double *out) {
    double x = v->kind == TEMPLATE_INTEGER  ? (double)v->integer
               : v->kind == TEMPLATE_NUMBER ? v->number
                                            : NAN;
    if (!(x >= low && x <= high))
        return status_set(STATUS_INVALID, "it must be a number from %g to %g", low, high);
    *out = x;
    return STATUS_OK;
}

status field_whole(const template_value *v, int64_t low, int64_t high, int64_t *out) {
    if (v->kind != TEMPLATE_INTEGER || v->integer < low || v->integer > high)
        return status_set(STATUS_INVALID, "it must be a whole number from %lld to %lld", (long long)low,
                          (long long)high);
    *out = v->integer;
    return STATUS_OK;
}

status field_bool(const template_value *v, bool *out) {
    if (v->kind != TEMPLATE_BOOL) return status_set(STATUS_INVALID, "it must be true or false");
    *out = v->yes;
    return STATUS_OK;
}
