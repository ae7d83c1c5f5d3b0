/* Runs steps that are one start (schedule/sweep.h). Who looks at memory between steps has each by itself. */
#include "exec/exec_internal.h"
#include "ops/sweeps.h"

uint32_t exec_sweep(exec *e, const bound_program *b, uint32_t step) {
    uint32_t together = e->modes & EXEC_POISON ? 1 : b->together[step];
    if (together > 1)
        op_sweep_of(b->plan->program.steps[step].kernel)(&b->calls[step], together);
    else
        exec_step(e, b, step);
    return together;
}
