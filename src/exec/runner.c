#include "exec/runner.h"

#include <math.h>
#include <stdio.h>

#include "autodiff/units.h"
#include "base/memory.h"

static void find_inputs(runner *r, uint32_t which) {
    runner_inputs *in = &r->programs[which];
    for (uint32_t i = 0; i < r->field_count; i++) {
        char whole[96];
        snprintf(whole, sizeof whole, "%s.batch", r->fields[i].name);
        in->field[i] = exec_input(r->exec, which, r->fields[i].name);
        in->whole[i] = exec_input(r->exec, which, whole);
    }
    in->loss_scale = exec_input(r->exec, which, "loss_scale");
    in->learning_rate = exec_input(r->exec, which, "learning_rate");
    in->first_row = exec_input(r->exec, which, "first_row");
    in->key = exec_input(r->exec, which, "key");
    in->hits = exec_output(r->exec, which, "hits"), in->logits = exec_output(r->exec, which, "logits");
}

/* The program that updates has the norm of all gradients, where one is computed. */
static exec_value find_norm(const runner *r) {
    exec_value norm = { 0 };
    for (uint32_t k = 0; k < r->plan->program_count && !norm.bytes; k++)
        norm = exec_output(r->exec, k, "gradient_norm");
    return norm;
}

status runner_open(runner *r, exec *e, const plan *p, const model *m, int64_t context, uint64_t seed) {
    *r = (runner){ .exec = e, .plan = p, .context = context, .seed = seed, .last_norm = (double)NAN };
    r->programs = memory_new(p->program_count, sizeof *r->programs);
    if (!r->programs) return status_set(STATUS_FAILED, "no memory to run a plan");
    r->field_count = m->fields(m, context, r->fields);
    for (uint32_t k = 0; k < p->program_count; k++) find_inputs(r, k);
    r->total = exec_state(e, UNITS_LOSS);
    r->of_unit = r->total.bytes ? exec_state(e, "loss") : (exec_value){ 0 };
    if (!r->total.bytes) r->total = exec_state(e, "loss");
    r->norm = find_norm(r);
    r->scale = exec_state(e, "gradient_scale");
    return STATUS_OK;
}

void runner_close(runner *r) {
    memory_free(r->programs);
    *r = (runner){ 0 };
}

uint64_t runner_field_bytes(const runner *r, uint32_t i) {
    return (uint64_t)shape_elements(&r->fields[i].of) * dtype_bytes(r->fields[i].dtype);
}

/* The number of a sample of this rank in the batch of all. */
static int64_t in_all(const runner *r, int64_t sample) {
    if (r->ranks < 2) return sample;
    return (sample / r->unit * r->ranks + r->rank) * r->unit + sample % r->unit;
}

status runner_hand_in(runner *r, uint32_t which, const runner_batch *batch, int64_t first, int64_t count) {
    const runner_inputs *in = &r->programs[which];
    int64_t unit = r->unit ? r->unit : (int64_t)batch->samples, begin = first / unit * unit;
    for (uint32_t i = 0; i < r->field_count; i++) {
        uint64_t bytes = runner_field_bytes(r, i);
        const char *from = batch->fields[i];
        TRY(exec_write(r->exec, &in->field[i], 0, from + (uint64_t)first * bytes, (uint64_t)count * bytes));
        TRY(exec_write(r->exec, &in->whole[i], 0, from + (uint64_t)begin * bytes, (uint64_t)unit * bytes));
    }
    int32_t first_row = (int32_t)((first - begin) * r->context);
    philox_key key = { .seed_low = (uint32_t)r->seed,
                       .seed_high = (uint32_t)(r->seed >> 32),
                       .step = (uint32_t)batch->step,
                       .first_sample = (uint32_t)in_all(r, first) };
    float scale = 1.0f / (float)(batch->counted_labels ? batch->counted_labels : 1),
          rate = (float)batch->learning_rate;
    const exec_item items[] = { { in->loss_scale, &scale },
                                { in->learning_rate, &rate },
                                { in->first_row, &first_row },
                                { in->key, &key } };
    return exec_write_items(r->exec, items, sizeof items / sizeof *items);
}

/* One micro-batch. Where a fault is looked for, the first that is found stays. */
static void run_call(runner *r, uint32_t which, int64_t number, exec_fault *fault, bool *found) {
    if (!fault || *found) {
        exec_run(r->exec, which);
    } else if (exec_find_fault(r->exec, which, fault)) {
        *found = true, fault->call = number;
    }
}

/* Runs all micro-batches of a step. With `fault` it looks for one, and ends where it is found, but for ranks,
 * whom others wait for. */
static status run_calls(runner *r, const runner_batch *batch, exec_fault *fault, bool *found) {
    int64_t calls = plan_calls(r->plan, TASK_TRAIN);
    TRY(exec_clear(r->exec, &r->total));
    TRY(exec_clear(r->exec, &r->of_unit));
    for (int64_t number = 0; number < calls; number++) {
        plan_call call = plan_call_of(r->plan, TASK_TRAIN, number);
        int64_t count = r->plan->programs[call.program].program.shape.batch;
        TRY(runner_hand_in(r, call.program, batch, call.first, count));
        run_call(r, call.program, number, fault, found);
        if (fault && *found && r->ranks < 2) return STATUS_OK;
    }
    return STATUS_OK;
}

status runner_step(runner *r, const runner_batch *batch) {
    exec_begin(r->exec);
    status result = run_calls(r, batch, NULL, NULL);
    const exec_value values[] = { r->total, r->scale, r->norm };
    exec_question asked[3];
    exec_ask(r->exec, values, asked, 3);
    exec_end(r->exec);
    TRY(result);
    if (r->norm.bytes) TRY(exec_answer(r->exec, &asked[2], &r->last_norm));
    TRY(exec_answer(r->exec, &asked[1], &r->last_scale));
    return exec_answer(r->exec, &asked[0], &r->loss);
}

status runner_find_fault(runner *r, const runner_batch *batch, exec_fault *fault, bool *found) {
    *found = false;
    TRY(run_calls(r, batch, fault, found));
    return exec_failed(r->exec); /* what was found is of a device that works */
}
