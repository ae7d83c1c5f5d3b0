/* Programs that the device starts as a whole (device.capture). */
#include "exec/exec_internal.h"
#include "exec/joined.h"

static status capture_program(exec *e, bound_program *b) {
    const device *d = e->plan->device;
    const program *p = &b->plan->program;
    TRY(d->capture(d));
    for (uint32_t s = 0; s < p->count;) s += exec_sweep(e, b, s);
    return d->captured(d, &b->captured);
}

status capture_open(exec *e) {
    bool wanted = device_captures(e->plan->device) && !(e->modes & (EXEC_SEPARATE | EXEC_POISON));
    for (uint32_t k = 0; wanted && k < e->plan->program_count; k++)
        if (lower_capturable(&e->plan->programs[k].program)) TRY(capture_program(e, &e->programs[k]));
    return STATUS_OK;
}

void capture_close(exec *e) {
    const device *d = e->plan->device;
    for (uint32_t k = 0; k < e->plan->program_count; k++)
        if (e->programs[k].captured) d->release(d, e->programs[k].captured);
}

bool capture_run(exec *e, const bound_program *b) {
    const device *d = e->plan->device;
    bool observed = e->modes & EXEC_OBSERVE && !b->seen.done;
    if (!b->captured || observed) return false;
    d->replay(d, b->captured);
    return true;
}
