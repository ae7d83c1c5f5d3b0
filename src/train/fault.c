#include "train/fault.h"

#include <math.h>
#include <stdio.h>

/* A weight that is not finite; NULL: all are. Without clipping nobody looks at gradients, so an update may
 * have spoilt it in the step before. */
static const char *spoilt_weight(const feed *f, const plan *p) {
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != CATEGORY_WEIGHTS || x->dtype != DTYPE_F32) continue;
        exec_part part;
        uint64_t bytes = (uint64_t)shape_elements(&x->shape) * sizeof(float);
        for (uint64_t done = 0; done < bytes; done += part.bytes) {
            if (exec_view(f->exec, x, done, &part) != STATUS_OK) return NULL;
            const float *value = part.data;
            for (uint64_t k = 0; k < part.bytes / sizeof *value; k++)
                if (!isfinite(value[k])) return x->name;
        }
    }
    return NULL;
}

static void describe(const exec_fault *fault, char where[256]) {
    static const char *const phases[] = {
        [PHASE_FORWARD] = "forward", [PHASE_BACKWARD] = "backward", [PHASE_UPDATE] = "update"
    };
    char block[32] = "outside of blocks";
    if (fault->site != SITE_NONE) snprintf(block, sizeof block, "in block %d", fault->site);
    snprintf(where, 256, "%s %s made it first, in %s", fault->op, block, phases[fault->phase]);
}

status fault_of_step(feed *f, const plan *p, const loader_batch *batch, int64_t step, double learning_rate) {
    double loss = (double)*f->loss;
    bool in_loss = !isfinite(loss);
    double value = in_loss ? loss : (double)*f->norm;
    if (isnan(value)) value = (double)NAN; /* whose sign says nothing */
    const char *weight = spoilt_weight(f, p);
    char where[256] = "where from is not seen again";
    exec_fault fault;
    if (weight)
        snprintf(where, sizeof where, "the update of step %lld had left '%s' not finite", (long long)step,
                 weight);
    else if (feed_find_fault(f, batch, step, learning_rate, &fault))
        describe(&fault, where);
    return status_set(STATUS_FAILED,
                      "the %s became %g in step %lld: %s; try a smaller --lr, a longer --warmup or --clip 1",
                      in_loss ? "loss" : "norm of all gradients", value, (long long)step + 1, where);
}
