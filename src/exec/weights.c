/* The weights of a plan, for those who fill and save them. */
#include "base/memory.h"
#include "exec/exec_internal.h"

status exec_weights(const exec *e, model_weight **list, uint32_t *count) {
    const plan *p = e->plan;
    *count = 0;
    *list = memory_new(p->persistent_count + 1u, sizeof **list);
    if (!*list) return status_set(STATUS_FAILED, "no memory to list the weights");
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != CATEGORY_WEIGHTS) continue;
        (*list)[(*count)++] = (model_weight){ .name = x->name,
                                              .shape = x->shape,
                                              .data = exec_persistent(e, x->name),
                                              .type = x->dtype,
                                              .by_rows = x->by_rows };
    }
    return STATUS_OK;
}
