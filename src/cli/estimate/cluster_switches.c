#include "cli/estimate/cluster_switches.h"

#include "estimate/framework.h"

static bool is_of_modules(const options *o) {
    return o->estimate.framework == FRAMEWORK_HF || o->estimate.framework == FRAMEWORK_PYTORCH;
}

/* transformers' default is fused already. */
static bool join_update(options *o) {
    bool off = o->estimate.framework == FRAMEWORK_PYTORCH && o->estimate.update == UPDATE_AUTO &&
               o->run.optimizer.kind == OPTIMIZER_ADAMW;
    if (off) o->estimate.update = UPDATE_FUSED;
    return off;
}

static bool join_loss(options *o) {
    bool off = is_of_modules(o) && o->estimate.loss == LOSS_PLAIN;
    if (off) o->estimate.loss = LOSS_FUSED;
    return off;
}

/* A step keeps its samples: their gradients add up. */
static bool cut_batch(options *o) {
    bool off = (is_of_modules(o) || o->estimate.framework == FRAMEWORK_LITGPT) && !o->run.micro_batch &&
               !o->run.accumulate && o->run.batch > 1;
    if (off) o->run.accumulate = o->run.batch, o->run.micro_batch = 1;
    return off;
}

static bool checkpoint(options *o) {
    bool off = (is_of_modules(o) || o->estimate.framework == FRAMEWORK_LITGPT) && !o->estimate.checkpointing;
    if (off) o->estimate.checkpointing = true;
    return off;
}

unsigned cluster_switches_apply(unsigned wanted, options *o) {
    static bool (*const switches[CLUSTER_SWITCHES])(options *) = { join_update, join_loss, cut_batch,
                                                                   checkpoint };
    unsigned on = 0;
    for (unsigned i = 0; i < CLUSTER_SWITCHES; i++)
        if (wanted & (1u << i) && switches[i](o)) on |= 1u << i;
    return on;
}
