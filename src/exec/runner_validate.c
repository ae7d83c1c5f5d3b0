/* Validation of exec/runner.h: forward programs over samples that the caller brings one by one. */
#include <string.h>

#include "exec/runner.h"

/* One sample of validation becomes number `place` of the program's inputs. */
static status evaluate_sample(runner *r, const runner_inputs *in, const runner_samples *samples,
                              uint64_t sample, uint64_t place, uint64_t *counted) {
    const void *fields[MODEL_MAX_FIELDS] = { 0 };
    TRY(samples->read(samples->context, sample, fields, counted));
    for (uint32_t i = 0; i < r->field_count; i++) {
        uint64_t bytes = runner_field_bytes(r, i);
        TRY(exec_write(r->exec, &in->field[i], place * bytes, fields[i], bytes));
    }
    return STATUS_OK;
}

static status evaluate_call(runner *r, const plan_call *call, const runner_samples *samples,
                            uint64_t *counted) {
    const runner_inputs *in = &r->programs[call->program];
    int64_t count = r->plan->programs[call->program].program.shape.batch;
    for (int64_t place = 0; place < count; place++)
        TRY(evaluate_sample(r, in, samples, (uint64_t)(call->first + place), (uint64_t)place, counted));
    TRY(exec_write_number(r->exec, &in->loss_scale, 1)); /* losses are summed, and divided at the end */
    exec_run(r->exec, call->program);
    return STATUS_OK;
}

static status write_zeros(runner *r, const exec_value *x) {
    exec_part part;
    for (uint64_t done = 0; done < x->bytes; done += part.bytes) {
        TRY(exec_room(r->exec, x, done, &part));
        memset(part.data, 0, part.bytes);
        TRY(exec_put(r->exec, x, done, &part));
    }
    return STATUS_OK;
}

status runner_rehearse_validation(runner *r) {
    for (uint32_t k = 0; k < r->plan->program_count; k++) {
        const runner_inputs *in = &r->programs[k];
        if (r->plan->programs[k].program.shape.task != TASK_EVALUATE) continue;
        for (uint32_t i = 0; i < r->field_count; i++) TRY(write_zeros(r, &in->field[i]));
        TRY(exec_write_number(r->exec, &in->loss_scale, 1));
        exec_run(r->exec, k);
    }
    return STATUS_OK;
}

status runner_evaluate(runner *r, const runner_samples *samples, double *loss, bool *whole) {
    int64_t calls = plan_calls(r->plan, TASK_EVALUATE);
    uint64_t counted = 0;
    *whole = false;
    TRY(exec_write_number(r->exec, &r->total, 0));
    for (int64_t number = 0; number < calls; number++) {
        plan_call call = plan_call_of(r->plan, TASK_EVALUATE, number);
        if (samples->stop && *samples->stop) return STATUS_OK;
        TRY(evaluate_call(r, &call, samples, &counted));
    }
    TRY(exec_failed(r->exec));
    TRY(exec_read_number(r->exec, &r->total, loss));
    *loss /= (double)(counted ? counted : 1);
    *whole = true;
    return STATUS_OK;
}
