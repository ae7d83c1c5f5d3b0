#include "exec/runner.h"

#include <stdio.h>
#include <string.h>

static void find_inputs(runner *r, program_kind k) {
    runner_inputs *in = &r->programs[k];
    for (uint32_t i = 0; i < r->field_count; i++) {
        char whole[96];
        snprintf(whole, sizeof whole, "%s.batch", r->fields[i].name);
        in->field[i] = exec_input(r->exec, k, r->fields[i].name);
        in->whole[i] = exec_input(r->exec, k, whole);
    }
    in->loss_scale = exec_input(r->exec, k, "loss_scale");
    in->learning_rate = exec_input(r->exec, k, "learning_rate");
    in->first_row = exec_input(r->exec, k, "first_row");
    in->key = exec_input(r->exec, k, "key");
}

void runner_open(runner *r, exec *e, const model *m, const runner_sizes *sizes) {
    *r = (runner){ .exec = e, .sizes = *sizes };
    r->field_count = m->fields(m, sizes->context, r->fields);
    for (int k = 0; k < PROGRAM_COUNT; k++) find_inputs(r, (program_kind)k);
    r->loss = exec_persistent(e, "loss");
    r->norm = exec_output(e, PROGRAM_STEP, "gradient_norm");
    r->scaled = exec_persistent(e, "gradient_scale") != NULL;
}

uint64_t runner_field_bytes(const runner *r, uint32_t i) {
    return (uint64_t)shape_elements(&r->fields[i].of) * dtype_bytes(r->fields[i].dtype);
}

/* ---- steps ---- */

void runner_hand_in(runner *r, program_kind k, const runner_batch *batch, int64_t first, int64_t count) {
    const runner_inputs *in = &r->programs[k];
    for (uint32_t i = 0; i < r->field_count; i++) {
        uint64_t bytes = runner_field_bytes(r, i);
        const char *from = batch->fields[i];
        if (in->field[i]) memcpy(in->field[i], from + (uint64_t)first * bytes, (uint64_t)count * bytes);
        if (in->whole[i]) memcpy(in->whole[i], from, batch->samples * bytes);
    }
    if (in->loss_scale) *in->loss_scale = 1.0f / (float)(batch->counted_labels ? batch->counted_labels : 1);
    if (in->first_row) *in->first_row = (int32_t)(first * r->sizes.context);
    if (in->learning_rate) *in->learning_rate = (float)batch->learning_rate;
    if (in->key)
        *in->key = (philox_key){ .seed_low = (uint32_t)r->sizes.seed,
                                 .seed_high = (uint32_t)(r->sizes.seed >> 32),
                                 .step = (uint32_t)batch->step,
                                 .first_sample = (uint32_t)first };
}

/* Runs all micro-batches of a step. With `fault` it looks for one; true: found. */
static bool run_calls(runner *r, const runner_batch *batch, exec_fault *fault) {
    const runner_sizes *s = &r->sizes;
    int64_t size = s->accumulate ? (s->batch - s->last) / s->accumulate : 0;
    *r->loss = 0;
    for (int64_t call = 0; call <= s->accumulate; call++) {
        program_kind k = call < s->accumulate ? PROGRAM_ACCUMULATE : PROGRAM_STEP;
        runner_hand_in(r, k, batch, call * size, k == PROGRAM_STEP ? s->last : size);
        if (!fault)
            exec_run(r->exec, k);
        else if (exec_find_fault(r->exec, k, fault))
            return true;
    }
    return false;
}

double runner_step(runner *r, const runner_batch *batch) {
    run_calls(r, batch, NULL);
    return (double)*r->loss;
}

bool runner_find_fault(runner *r, const runner_batch *batch, exec_fault *fault) {
    return run_calls(r, batch, fault);
}

/* ---- validation ---- */

static status evaluate_call(runner *r, program_kind k, const runner_samples *samples, uint64_t first,
                            uint64_t *counted) {
    const runner_inputs *in = &r->programs[k];
    int64_t count = k == PROGRAM_EVALUATE ? r->sizes.eval_batch : r->sizes.eval_rest;
    for (int64_t place = 0; place < count; place++) {
        void *to[MODEL_MAX_FIELDS] = { 0 };
        for (uint32_t i = 0; i < r->field_count; i++)
            if (in->field[i]) to[i] = (char *)in->field[i] + (uint64_t)place * runner_field_bytes(r, i);
        TRY(samples->read(samples->context, first + (uint64_t)place, to, counted));
    }
    if (in->loss_scale) *in->loss_scale = 1; /* losses are summed, and divided at the end */
    exec_run(r->exec, k);
    return STATUS_OK;
}

status runner_evaluate(runner *r, const runner_samples *samples, double *loss, bool *whole) {
    const runner_sizes *s = &r->sizes;
    uint64_t counted = 0, first = 0;
    *r->loss = 0;
    *whole = false;
    for (int64_t call = 0; call < s->eval_calls; call++, first += (uint64_t)s->eval_batch) {
        if (samples->stop && *samples->stop) return STATUS_OK;
        TRY(evaluate_call(r, PROGRAM_EVALUATE, samples, first, &counted));
    }
    if (s->eval_rest) TRY(evaluate_call(r, PROGRAM_EVALUATE_REST, samples, first, &counted));
    TRY(exec_failed(r->exec));
    *loss = (double)*r->loss / (double)(counted ? counted : 1);
    *whole = true;
    return STATUS_OK;
}
