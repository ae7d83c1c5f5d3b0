#include "ops/gradient_scale/gradient_scale.h"
#include "ops/gradient_scale/gradient_scale_math.h"
#include "ops/reference.h"

static void now_reference(const op_call *c) {
    reference_set(&c->out[0], 0, gradient_scale_value(reference_get(op_in(c, 0), 0)));
}

static void update_reference(const op_call *c) {
    const gradient_scale_attributes *a = c->attributes;
    bool ok = *(const int32_t *)c->in[2].data != 0;
    gradient_scale_next next =
        gradient_scale_go_on(reference_get(op_in(c, 0), 0), *(const int32_t *)c->in[1].data, ok, a->interval);
    reference_set(&c->out[0], 0, next.scale);
    reference_set(&c->out[1], 0, next.good);
}

const op_kernel gradient_scale_now_cpu[] = { { "gradient_scale_now_reference", NULL, NULL, now_reference },
                                             { 0 } };
const op_kernel gradient_scale_update_cpu[] = {
    { "gradient_scale_update_reference", NULL, NULL, update_reference }, { 0 }
};
