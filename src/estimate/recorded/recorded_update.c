#include "estimate/recorded/recorded_update.h"

#include "base/memory.h"
#include "estimate/torch/torch_state.h"

/* The call of backward behind which each gradient is whole; 0: none. */
static uint32_t *whole_at(recorded_edit *e) {
    uint32_t *at = memory_new((size_t)e->storage_count + 1, sizeof *at);
    if (!at) e->failed = true;
    for (uint32_t call = edit_first(e); at && call; call = edit_next(e, call)) {
        bool backward = e->calls[call].phase == RECORDING_BACKWARD;
        for (uint32_t k = 0; backward && k < e->calls[call].reads + e->calls[call].makes; k++)
            at[edit_reads(e, call)[k]] = call;
    }
    return at;
}

/* The recorded update touches nothing any more. */
static void forget_update(recorded_edit *e) {
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call))
        if (e->calls[call].phase == RECORDING_UPDATE) e->calls[call].reads = e->calls[call].makes = 0;
}

static void update_at_once(recorded_edit *e, const torch_settings *s, uint32_t gradient, uint32_t behind) {
    double last = edit_dim(e, gradient, 1) > 1 ? edit_dim(e, gradient, -1) : 0,
           numbers = edit_numbers(e, gradient);
    torch_weight w = { last > 0 ? numbers / last : numbers, last, edit_width(edit_dtype(e, gradient)), true };
    uint32_t room =
        edit_add(e, &(edit_new){ .role = RECORDING_MADE, .dtype = "uint8", .rows = torch_update_of(s, &w) });
    edit_insert(e, behind,
                &(edit_new_call){ .name = "update",
                                  .phase = RECORDING_BACKWARD,
                                  .module = e->calls[behind].module,
                                  .reads = { gradient },
                                  .makes = { room } });
    edit_at(e, gradient)->held = false;
}

static void update_in_backward(recorded_edit *e, const torch_settings *s) {
    uint32_t known = e->storage_count, *at = whole_at(e);
    forget_update(e);
    for (uint32_t i = 1; at && i <= known; i++)
        if (edit_at(e, i)->role == RECORDING_GRADIENT && !edit_at(e, i)->gone && at[i])
            update_at_once(e, s, i, at[i]);
    memory_free(at);
}

static void keep_average(recorded_edit *e) {
    double bytes = 0;
    for (uint32_t i = 1; i <= e->storage_count; i++)
        if (edit_at(e, i)->role <= RECORDING_BUFFER) bytes += (double)edit_at(e, i)->bytes;
    edit_add(e, &(edit_new){ .role = RECORDING_BUFFER, .dtype = "uint8", .rows = bytes, .stays = true });
}

void recorded_update(recorded_edit *e, const torch_settings *s) {
    if (s->in_backward) update_in_backward(e, s);
    if (s->averages) keep_average(e);
}
