/* Validation of exec/runner.h: forward programs over samples that the caller brings one by one. */
#include <math.h>
#include <string.h>

#include "exec/judged.h"
#include "exec/runner.h"

/* Validation so far. */
typedef struct {
    runner *run;
    const runner_samples *samples;
    uint64_t counted; /* labels */
    double hits;
    uint64_t seen; /* samples that hits were looked for among */
    judged judged;
} validation;

/* One sample of validation becomes number `place` of the program's inputs. */
static status evaluate_sample(validation *v, const runner_inputs *in, uint64_t sample, uint64_t place) {
    const runner *r = v->run;
    const void *fields[MODEL_MAX_FIELDS] = { 0 };
    TRY(v->samples->read(v->samples->context, sample, fields, &v->counted));
    for (uint32_t i = 0; i < r->field_count; i++) {
        uint64_t bytes = runner_field_bytes(r, i);
        TRY(exec_write(r->exec, &in->field[i], place * bytes, fields[i], bytes));
        if (v->judged.list && strcmp(r->fields[i].name, "labels") == 0)
            memcpy(&v->judged.labels[place], fields[i], sizeof(int32_t));
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
    v->hits += hits, v->seen += (uint64_t)count;
    if (!v->judged.list || !in->logits.bytes) return STATUS_OK;
    return judged_add(&v->judged, r->exec, &in->logits, (uint64_t)count);
}

status runner_rehearse_validation(runner *r) {
    for (uint32_t k = 0; k < r->plan->program_count; k++) {
        const runner_inputs *in = &r->programs[k];
        if (r->plan->programs[k].program.shape.task != TASK_EVALUATE) continue;
        for (uint32_t i = 0; i < r->field_count; i++) TRY(exec_clear(r->exec, &in->field[i]));
        TRY(exec_write_number(r->exec, &in->loss_scale, 1));
        exec_run(r->exec, k);
    }
    return STATUS_OK;
}

static status evaluate_all(validation *v, runner_verdict *out) {
    runner *r = v->run;
    int64_t calls = plan_calls(r->plan, TASK_EVALUATE);
    const exec_value *total = r->of_unit.bytes ? &r->of_unit : &r->total; /* validation knows no units */
    TRY(exec_clear(r->exec, total));
    for (int64_t number = 0; number < calls; number++) {
        plan_call call = plan_call_of(r->plan, TASK_EVALUATE, number);
        if (v->samples->stop && *v->samples->stop) return STATUS_OK;
        TRY(evaluate_call(v, &call));
    }
    TRY(exec_failed(r->exec));
    TRY(exec_read_number(r->exec, total, &out->loss));
    out->loss /= (double)(v->counted ? v->counted : 1);
    if (v->seen) out->accuracy = v->hits / (double)v->seen;
    if (v->judged.list) out->f1 = judged_f1(&v->judged);
    out->whole = true;
    return STATUS_OK;
}

/* What a head of classes keeps of each sample is a number for each of them. */
static uint32_t classes_of(const graph *g) {
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (graph_tensor(g, t)->flags & TENSOR_KEEP && strcmp(graph_name(g, t), "logits") == 0)
            return (uint32_t)shape_last(graph_shape(g, t));
    return 0;
}

/* Where a program of validation has a head of classes: there is to be room for its largest call. */
static status open_judged(const runner *r, judged *j) {
    uint64_t most = 0;
    uint32_t classes = 0;
    for (uint32_t k = 0; k < r->plan->program_count; k++) {
        const program *p = &r->plan->programs[k].program;
        if (p->shape.task != TASK_EVALUATE || !r->programs[k].hits.bytes) continue;
        if (p->shape.batch > (int64_t)most) most = (uint64_t)p->shape.batch;
        classes = classes_of(&p->graph);
    }
    return classes ? judged_open(j, classes, most) : STATUS_OK;
}

status runner_evaluate(runner *r, const runner_samples *samples, runner_verdict *out) {
    validation v = { .run = r, .samples = samples };
    *out = (runner_verdict){ .accuracy = (double)NAN, .f1 = (double)NAN };
    TRY(open_judged(r, &v.judged));
    status result = evaluate_all(&v, out);
    judged_close(&v.judged);
    return result;
}
