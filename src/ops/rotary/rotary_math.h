/* How fast each pair turns: radians per position. */
#pragma once

#include <math.h>

#include "ops/rotary/rotary.h"

static inline double rotary_speed(const rotary_angles_attributes *a, int64_t pair) {
    double speed = pow(a->theta, -2.0 * (double)pair / (double)a->turned);
    if (a->stretch == ROTARY_LINEAR) return speed / a->factor;
    if (a->stretch != ROTARY_LLAMA3) return speed;
    double wave = 2 * 3.14159265358979323846 / speed;
    if (wave < a->original / a->high) return speed;
    if (wave > a->original / a->low) return speed / a->factor;
    double share = (a->original / wave - a->low) / (a->high - a->low);
    return (1 - share) * speed / a->factor + share * speed;
}
