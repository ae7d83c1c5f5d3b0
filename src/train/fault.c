#include "train/fault.h"

#include <math.h>
#include <stdio.h>

#include "base/finite.h"

static bool spoilt(exec *e, const plan_persistent *x) {
    exec_value value = exec_state_of(e, x);
    exec_part part;
    for (uint64_t done = 0; done < value.bytes; done += part.bytes) {
        if (exec_view(e, &value, done, &part) != STATUS_OK) return false;
        if (finite_find(x->dtype, part.data, (int64_t)(part.bytes / dtype_bytes(x->dtype))) >= 0) return true;
    }
    return false;
}

/* A weight that is not finite, or else something that the optimizer remembers; NULL: all are. The loss and
 * the norm of gradients only show what was before the update. */
static const char *spoilt_by_updates(exec *e, const plan *p) {
    static const category looked_at[] = { CATEGORY_WEIGHTS, CATEGORY_OPTIMIZER };
    for (size_t c = 0; c < sizeof looked_at / sizeof *looked_at; c++)
        for (uint32_t i = 0; i < p->persistent_count; i++)
            if (p->persistent[i].category == looked_at[c] && spoilt(e, &p->persistent[i]))
                return p->persistent[i].name;
    return NULL;
}

static void describe(const exec_fault *fault, char where[256]) {
    static const char *const phases[] = { [PHASE_FORWARD] = "forward",
                                          [PHASE_BACKWARD] = "backward",
                                          [PHASE_REDUCE] = "reduce",
                                          [PHASE_UPDATE] = "update" };
    char block[32] = "outside of blocks";
    if (fault->site != SITE_NONE) snprintf(block, sizeof block, "in block %d", fault->site);
    snprintf(where, 256, "%s %s made it first, in %s", fault->op, block, phases[fault->phase]);
}

status fault_of_step(feed *f, const plan *p, const loader_batch *batch, int64_t step, double learning_rate) {
    double loss = f->run.loss;
    bool in_loss = !isfinite(loss), found = false;
    double value = in_loss ? loss : f->run.last_norm;
    if (isnan(value)) value = (double)NAN; /* whose sign says nothing */
    const char *weight = spoilt_by_updates(f->exec, p);
    char where[256] = "where from is not seen again";
    exec_fault fault;
    if (!weight && f->setup->comm.world > 1) /* ranks would look in different places */
        snprintf(where, sizeof where, "where from is not looked for with several ranks");
    else if (weight)
        snprintf(where, sizeof where, "the update of step %lld had left '%s' not finite", (long long)step,
                 weight);
    else
        TRY(feed_find_fault(f, batch, step, learning_rate, &fault, &found));
    if (found) describe(&fault, where);
    return status_set(STATUS_FAILED,
                      "the %s became %g in step %lld: %s; try a smaller --lr, a longer --warmup or --clip 1",
                      in_loss ? "loss" : "norm of all gradients", value, (long long)step + 1, where);
}

status fault_of_update(exec *e, const plan *p, int64_t done) {
    const char *name = spoilt_by_updates(e, p);
    if (!name) return STATUS_OK;
    return status_set(
        STATUS_FAILED,
        "'%s' is not finite after the update of step %lld, though its loss was; nothing is saved "
        "of it; try a smaller --lr, a longer --warmup or --clip 1",
        name, (long long)done);
}
