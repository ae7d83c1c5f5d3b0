#include "train/fault.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/finite.h"
#include "base/memory.h"
#include "comm/comm.h"

static bool spoilt(exec *e, const plan_persistent *x) {
    exec_value value = exec_own(e, x); /* others look at theirs */
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

/* ---- several ranks: what each has seen, and which of it came first ---- */

typedef struct {
    bool found;
    exec_fault fault;
    char weight[96]; /* that is spoilt; empty: none is */
    char host[64];
    int rank;
} finding;

static bool is_before(const finding *a, const finding *b) {
    if (!a->found || !b->found) return a->found;
    return a->fault.call != b->fault.call ? a->fault.call < b->fault.call : a->fault.step < b->fault.step;
}

/* Of all ranks' findings the first. What came from another rank was found there earlier. */
static status first_of(const finding *mine, finding *first) {
    int world = comm_world().world;
    *first = *mine;
    if (world < 2) return STATUS_OK;
    finding *all = memory_new((size_t)world, sizeof *all);
    status result = comm_agree(all ? STATUS_OK : status_set(STATUS_FAILED, "no memory to find a fault"));
    if (result == STATUS_OK) result = comm_share(mine, all, sizeof *mine);
    for (int r = 0; r < world && result == STATUS_OK; r++)
        if (!r || is_before(&all[r], first) || (all[r].weight[0] && !first->weight[0])) *first = all[r];
    memory_free(all);
    return result;
}

/* Looks for it, unless an update has left something that is not finite on any rank. */
static status look(feed *f, const plan *p, const loader_batch *batch, int64_t step, double learning_rate,
                   finding *first) {
    finding mine = { .rank = comm_world().rank };
    const char *weight = spoilt_by_updates(f->exec, p);
    if (gethostname(mine.host, sizeof mine.host - 1) != 0) mine.host[0] = 0;
    if (weight) snprintf(mine.weight, sizeof mine.weight, "%s", weight);
    TRY(first_of(&mine, first));
    if (first->weight[0]) return STATUS_OK;
    TRY(comm_agree(feed_find_fault(f, batch, step, learning_rate, &mine.fault, &mine.found)));
    return first_of(&mine, first);
}

status fault_of_step(feed *f, const plan *p, const loader_batch *batch, int64_t step, double learning_rate) {
    double loss = f->run.loss;
    bool in_loss = !isfinite(loss);
    double value = in_loss ? loss : f->run.last_norm;
    if (isnan(value)) value = (double)NAN; /* whose sign says nothing */
    char where[256] = "where from is not seen again", whose[96] = "";
    finding first;
    TRY(look(f, p, batch, step, learning_rate, &first));
    if (first.weight[0])
        snprintf(where, sizeof where, "the update of step %lld had left '%s' not finite", (long long)step,
                 first.weight);
    else if (first.found)
        describe(&first.fault, where);
    if (first.found && comm_world().world > 1)
        snprintf(whose, sizeof whose, ", on rank %d on %s", first.rank, first.host);
    return status_set(
        STATUS_FAILED,
        "the %s became %g in step %lld: %s%s; try a smaller --lr, a longer --warmup or --clip 1",
        in_loss ? "loss" : "norm of all gradients", value, (long long)step + 1, where, whose);
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
