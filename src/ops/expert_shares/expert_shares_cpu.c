#include "ops/cross_entropy/cross_entropy.h"
#include "ops/expert_shares/expert_shares.h"
#include "ops/expert_shares/expert_shares_math.h"
#include "ops/reference.h"

static int64_t counted(const op_arg *labels) {
    const int32_t *label = labels->data;
    int64_t count = 0;
    for (int64_t i = 0, n = shape_elements(&labels->shape); i < n; i++)
        count += label[i] != CROSS_ENTROPY_IGNORE;
    return count;
}

static void expert_shares_reference(const op_call *c) {
    const expert_shares_attributes *a = c->attributes;
    const op_arg *before = op_in(c, 1), *labels = op_in(c, 2);
    const int32_t *ends = op_in(c, 0)->data;
    int64_t experts = shape_elements(&c->out[0].shape);
    double load = 0;
    for (int64_t e = 0; e < experts; e++) {
        double own = (double)(ends[e] - (e ? ends[e - 1] : 0));
        if (before->data) own += reference_get(before, e);
        reference_set(&c->out[0], e, own);
        load += reference_get(&c->out[0], e);
    }
    if (!labels->data) return;
    double factor = expert_shares_factor(load, (double)counted(labels), reference_get(op_in(c, 3), 0),
                                         (double)a->coefficient, experts, a->chosen);
    for (int64_t e = 0; e < experts; e++) reference_set(&c->out[0], e, factor * reference_get(&c->out[0], e));
}

const op_kernel expert_shares_cpu[] = { { "expert_shares_reference", NULL, NULL, expert_shares_reference },
                                        { 0 } };
