#include "ops/gradient_scale/gradient_scale.h"
#include "ops/reference.h"

/* Far from where a product of f32 would overflow or vanish. */
static const double smallest = 1, largest = 1 << 24;

static double value_of(const op_call *c) {
    double state = reference_get(op_in(c, 0), 0);
    return state > 0 ? state : GRADIENT_SCALE_FIRST;
}

static void now_reference(const op_call *c) { reference_set(&c->out[0], 0, value_of(c)); }

static void update_reference(const op_call *c) {
    const gradient_scale_attributes *a = c->attributes;
    double scale = value_of(c), good = reference_get(op_in(c, 1), 0) + 1;
    bool ok = reference_get(op_in(c, 2), 0) != 0, grows = ok && good >= a->interval;
    if (!ok) scale = scale / 2 > smallest ? scale / 2 : smallest;
    if (grows) scale = scale * 2 < largest ? scale * 2 : largest;
    reference_set(&c->out[0], 0, scale);
    reference_set(&c->out[1], 0, ok && !grows ? good : 0);
}

const op_kernel gradient_scale_now_cpu[] = { { "gradient_scale_now_reference", NULL, NULL, now_reference },
                                             { 0 } };
const op_kernel gradient_scale_update_cpu[] = {
    { "gradient_scale_update_reference", NULL, NULL, update_reference }, { 0 }
};
