/* The weights of a plan, for those who fill and save them. */
#include "base/memory.h"
#include "exec/exec_internal.h"

static status view(void *context, const void *which, uint64_t first, void **data, uint64_t *bytes) {
    exec_part part;
    exec_value x = exec_state_of(context, which);
    TRY(exec_view_some(context, &x, first, *bytes, &part));
    *data = part.data, *bytes = part.bytes;
    return STATUS_OK;
}

static status room(void *context, const void *which, uint64_t first, void **data, uint64_t *bytes) {
    exec_part part;
    exec_value x = exec_state_of(context, which);
    TRY(exec_room(context, &x, first, &part));
    *data = part.data, *bytes = part.bytes;
    return STATUS_OK;
}

static status put(void *context, const void *which, uint64_t first, void *data, uint64_t bytes) {
    exec_value x = exec_state_of(context, which);
    return exec_put(context, &x, first, &(exec_part){ data, bytes });
}

static bool here(void *context, const void *which, uint64_t first) {
    exec_value x = exec_state_of(context, which);
    return exec_is_here(context, &x, first);
}

static const weight_parts by_parts = { view, room, put, here };

status exec_weights(exec *e, model_weight **list, uint32_t *count) {
    const plan *p = e->plan;
    *count = 0;
    *list = memory_new(p->persistent_count + 1u, sizeof **list);
    if (!*list) return status_set(STATUS_FAILED, "no memory to list the weights");
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != CATEGORY_WEIGHTS) continue;
        (*list)[(*count)++] =
            (model_weight){ .name = x->name,
                            .shape = x->global,
                            .type = x->dtype,
                            .by_rows = x->by_rows,
                            .panels = x->panels,
                            .side_by_side = x->pool == POOL_MEMORY && !p->device->apart && !plan_is_share(x),
                            .parts = &by_parts,
                            .context = e,
                            .which = x };
    }
    return STATUS_OK;
}
