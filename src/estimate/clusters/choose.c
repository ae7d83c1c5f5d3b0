#include "estimate/clusters/choose.h"

#include "estimate/solve.h"

/* Numbers of devices that a script can ask nodes of this kind for: more than a node has come as whole nodes.
 */
typedef struct {
    const choose_question *q;
    const cluster_nodes *kind;
    device_counts counts;
} trial;

static status fits_on(void *context, int64_t place, bool *fits) {
    const trial *t = context;
    return t->q->fits(t->q->context, t->kind, t->counts.of[place - 1], fits);
}

static bool is_whole(const cluster_nodes *k, int64_t gpus) { return gpus <= k->gpus || gpus % k->gpus == 0; }

static void keep_whole(trial *t) {
    const cluster_nodes *k = t->kind;
    device_counts kept = { .count = 0 };
    for (int64_t i = 0; i < t->counts.count; i++) {
        int64_t gpus = t->counts.of[i];
        if (is_whole(k, gpus) && (gpus + k->gpus - 1) / k->gpus <= k->count) kept.of[kept.count++] = gpus;
    }
    t->counts = kept;
}

static status as_asked(trial *t) {
    const cluster_nodes *k = t->kind;
    int64_t gpus = t->q->gpus;
    if (!is_whole(k, gpus))
        return status_set(STATUS_INVALID,
                          "%s %lld: nodes %s have %lld devices each, and of several nodes all are taken; "
                          "ask for %lld or %lld",
                          t->q->option, (long long)gpus, k->name, (long long)k->gpus,
                          (long long)(gpus - gpus % k->gpus), (long long)(gpus - gpus % k->gpus + k->gpus));
    t->counts = (device_counts){ .of = { gpus }, .count = gpus / k->gpus <= k->count };
    return STATUS_OK;
}

/* The fewest devices of this kind; 0: there are not enough. */
static status fewest_of(const choose_question *q, const cluster_nodes *k, int64_t *gpus) {
    trial t = { .q = q, .kind = k };
    int64_t place;
    *gpus = 0;
    if (q->gpus > 1) {
        TRY(as_asked(&t));
    } else {
        TRY(q->counts(q->context, k, &t.counts));
        keep_whole(&t);
    }
    TRY(solve_least(t.counts.count, fits_on, &t, &place));
    if (place) *gpus = t.counts.of[place - 1];
    return STATUS_OK;
}

static status memory_of(const cluster_nodes *k, uint64_t *memory) {
    hardware h;
    TRY(hardware_find(k->device, &h));
    *memory = h.memory;
    return STATUS_OK;
}

/* Is this kind better than what was found before? */
static status consider(const choose_question *q, const cluster_nodes *k, choose_answer *out,
                       uint64_t *smallest) {
    int64_t gpus, fewest = out->nodes * out->gpus;
    uint64_t memory;
    TRY(memory_of(k, &memory));
    TRY(fewest_of(q, k, &gpus));
    if (!gpus || (out->kind && (gpus > fewest || (gpus == fewest && memory >= *smallest)))) return STATUS_OK;
    out->kind = k, *smallest = memory;
    out->nodes = (gpus + k->gpus - 1) / k->gpus;
    out->gpus = gpus / out->nodes;
    return STATUS_OK;
}

status choose_nodes(const choose_question *q, choose_answer *out) {
    uint64_t smallest = 0;
    uint32_t asked = 0, refused = 0;
    status result = STATUS_OK;
    for (const cluster_nodes *k = out->of.kinds; k < out->of.kinds + out->of.kind_count; k++) {
        if (q->device && !hardware_same(q->device, k->device)) continue;
        result = consider(q, k, out, &smallest);
        if (result != STATUS_INVALID) TRY(result);
        asked++, refused += result == STATUS_INVALID;
    }
    if (asked && refused == asked) return result;
    if (out->kind) return STATUS_OK;
    return status_set(STATUS_NO_FIT,
                      "%s has no nodes%s%.40s on which this fits, however many; 'snug estimate' with "
                      "--gpu says what would help",
                      out->of.title, q->device ? " with " : "", q->device ? q->device : "");
}
