#include "ops/reference.h"
#include "ops/relative_bias/relative_bias.h"
#include "ops/relative_bias/relative_bias_math.h"

static void relative_bias_reference(const op_call *c) {
    const relative_bias_attributes *a = c->attributes;
    const op_arg *table = op_in(c, 0); /* (buckets,H) */
    int64_t heads = table->shape.dim[1], at = 0;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t t = 0; t < a->queries; t++)
            for (int64_t s = 0; s < a->keys; s++, at++) {
                int64_t bucket = relative_bias_bucket(s - t, (int32_t)table->shape.dim[0], a);
                reference_set(&c->out[0], at, reference_get(table, bucket * heads + h));
            }
}

/* Of one head's column: all of it is looked through for each bucket, so that each sum is one number. */
static double sum_of_bucket(const op_call *c, int64_t h, int64_t bucket) {
    const relative_bias_backward_attributes *a = c->attributes;
    int64_t at = h * a->of.queries * a->of.keys;
    double sum = 0;
    for (int64_t t = 0; t < a->of.queries; t++)
        for (int64_t s = 0; s < a->of.keys; s++, at++)
            if (relative_bias_bucket(s - t, a->buckets, &a->of) == bucket)
                sum += reference_get(op_in(c, 0), at);
    return sum;
}

static void relative_bias_backward_reference(const op_call *c) {
    const op_arg *accumulator = op_in(c, 1), *dtable = &c->out[0];
    int64_t heads = dtable->shape.dim[1];
    for (int64_t i = 0, n = shape_elements(&dtable->shape); i < n; i++) {
        double before = accumulator->data ? reference_get(accumulator, i) : 0;
        reference_set(dtable, i, before + sum_of_bucket(c, i % heads, i / heads));
    }
}

const op_kernel relative_bias_cpu[] = { { "relative_bias_reference", NULL, NULL, relative_bias_reference },
                                        { 0 } };
const op_kernel relative_bias_backward_cpu[] = {
    { "relative_bias_backward_reference", NULL, NULL, relative_bias_backward_reference }, { 0 }
};
