/* Validation of exec/runner.h: forward programs over samples that the caller brings one by one. */
#include <math.h>
#include <string.h>

#include "exec/runner.h"

/* Validation so far. */
typedef struct {
    runner *run;
    const runner_samples *samples;
    uint64_t counted; /* labels */
    double hits;
    uint64_t judged; /* samples that hits were looked for among */
} validation;

/* One sample of validation becomes number `place` of the program's inputs. */
static status evaluate_sample(validation *v, const runner_inputs *in, uint64_t sample, uint64_t place) {
    const runner *r = v->run;
    const void *fields[MODEL_MAX_FIELDS] = { 0 };
    TRY(v->samples->read(v->samples->context, sample, fields, &v->counted));
    for (uint32_t i = 0; i < r->field_count; i++) {
        uint64_t bytes = runner_field_bytes(r, i);
        TRY(exec_write(r->exec, &in->field[i], place * bytes, fields[i], bytes));
    }
    return STATUS_OK;
}

static status evaluate_call(validation *v, const plan_call *call) {
    runner *r = v->run;
    const runner_inputs *in = &r->programs[call->program];
    int64_t count = r->plan->programs[call->program].program.shape.batch;
    double hits;
    for (int64_t place = 0; place < count; place++)
        TRY(evaluate_sample(v, in, (uint64_t)(call->first + place), (uint64_t)place));
    TRY(exec_write_number(r->exec, &in->loss_scale, 1)); /* losses are summed, and divided at the end */
    exec_run(r->exec, call->program);
    if (!in->hits.bytes) return STATUS_OK;
    TRY(exec_read_number(r->exec, &in->hits, &hits));
    v->hits += hits, v->judged += (uint64_t)count;
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

status runner_evaluate(runner *r, const runner_samples *samples, runner_verdict *out) {
    int64_t calls = plan_calls(r->plan, TASK_EVALUATE);
    validation v = { .run = r, .samples = samples };
    *out = (runner_verdict){ .accuracy = (double)NAN };
    TRY(exec_write_number(r->exec, &r->total, 0));
    for (int64_t number = 0; number < calls; number++) {
        plan_call call = plan_call_of(r->plan, TASK_EVALUATE, number);
        if (samples->stop && *samples->stop) return STATUS_OK;
        TRY(evaluate_call(&v, &call));
    }
    TRY(exec_failed(r->exec));
    TRY(exec_read_number(r->exec, &r->total, &out->loss));
    out->loss /= (double)(v.counted ? v.counted : 1);
    if (v.judged) out->accuracy = v.hits / (double)v.judged;
    out->whole = true;
    return STATUS_OK;
}
