/* Validation of exec/runner.h: forward programs over samples that the caller brings one by one.
 *
 * The losses of a unit of samples are added where they are made, from zero; those of units by the host, in
 * the order of samples. Ranks have units in turn, and after each round tell each other what theirs came to.
 * So the sums of several ranks are those of one.
 *
 * Where ranks share weights the programs gather them, which all ranks take part in. Then all run the same
 * programs in the same order: who has no samples for one runs it aside, on zeros. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "exec/judged.h"
#include "exec/runner.h"

/* What a unit came to, or all of them so far. */
typedef struct {
    double loss, hits;
    uint64_t counted, seen; /* labels; samples that hits were looked for among */
    bool stops, failed;
} part;

/* Validation so far. */
typedef struct {
    runner *run;
    const runner_samples *samples;
    part own, *all;  /* of this rank's unit; by rank, NULL where there is one */
    int64_t *begins; /* of a round: the first call of each rank's unit, and behind the last one's */
    bool together;   /* programs need the other ranks */
    uint32_t ran;    /* programs that this rank has run, a bit each */
    judged judged;
} validation;

/* One sample of validation becomes number `place` of the program's inputs. */
static status evaluate_sample(validation *v, const runner_inputs *in, uint64_t sample, uint64_t place) {
    const runner *r = v->run;
    const void *fields[MODEL_MAX_FIELDS] = { 0 };
    TRY(v->samples->read(v->samples->context, sample, fields, &v->own.counted));
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
    v->ran |= 1u << call->program;
    if (!in->hits.bytes) return STATUS_OK;
    TRY(exec_read_number(r->exec, &in->hits, &hits));
    v->own.hits += hits, v->own.seen += (uint64_t)count;
    if (!v->judged.list || !in->logits.bytes) return STATUS_OK;
    return judged_add(&v->judged, r->exec, &in->logits, (uint64_t)count);
}

static status run_on_zeros(runner *r, uint32_t which) {
    const runner_inputs *in = &r->programs[which];
    for (uint32_t i = 0; i < r->field_count; i++) TRY(exec_clear(r->exec, &in->field[i]));
    TRY(exec_write_number(r->exec, &in->loss_scale, 1));
    exec_run(r->exec, which);
    return STATUS_OK;
}

static bool is_evaluation(const runner *r, uint32_t which) {
    return r->plan->programs[which].program.shape.task == TASK_EVALUATE;
}

/* Runs the programs of validation but those of `ran` on zeros. */
static status rehearse_but(runner *r, uint32_t ran) {
    for (uint32_t k = 0; k < r->plan->program_count; k++)
        if (is_evaluation(r, k) && !(ran >> k & 1)) TRY(run_on_zeros(r, k));
    return STATUS_OK;
}

status runner_rehearse_validation(runner *r) { return rehearse_but(r, 0); }

/* ---- units and ranks ---- */

static int64_t unit_of(const validation *v, int64_t call) {
    const runner *r = v->run;
    return r->eval_unit ? plan_call_of(r->plan, TASK_EVALUATE, call).first / r->eval_unit : 0;
}

/* The first call behind the unit of this one. */
static int64_t unit_end(const validation *v, int64_t call) {
    int64_t calls = plan_calls(v->run->plan, TASK_EVALUATE), unit = unit_of(v, call);
    while (call < calls && unit_of(v, call) == unit) call++;
    return call;
}

static const exec_value *total_of(const runner *r) { return r->of_unit.bytes ? &r->of_unit : &r->total; }

/* A program that others run: what this rank has added up stays. */
static status run_aside(validation *v, uint32_t which) {
    runner *r = v->run;
    double before;
    TRY(exec_read_number(r->exec, total_of(r), &before));
    TRY(run_on_zeros(r, which));
    v->ran |= 1u << which;
    return exec_write_number(r->exec, total_of(r), (float)before);
}

/* Call `at` of rank q's unit, where that takes this program. */
static bool has_call(const validation *v, int64_t q, int64_t at, uint32_t which) {
    int64_t number = v->begins[q] + at;
    return number < v->begins[q + 1] && plan_call_of(v->run->plan, TASK_EVALUATE, number).program == which;
}

static bool somebody_has_call(const validation *v, int64_t at, uint32_t which) {
    bool any = false;
    for (int64_t q = 0; q < v->run->ranks && !any; q++) any = has_call(v, q, at, which);
    return any;
}

/* Step `at` of a round, of units of all ranks. What fails here is no reason to leave the others alone. */
static status step_together(validation *v, int64_t at, status so_far) {
    const runner *r = v->run;
    for (uint32_t k = 0; k < r->plan->program_count; k++) {
        if (!is_evaluation(r, k) || !somebody_has_call(v, at, k)) continue;
        if (so_far == STATUS_OK && has_call(v, r->rank, at, k)) {
            plan_call call = plan_call_of(r->plan, TASK_EVALUATE, v->begins[r->rank] + at);
            so_far = evaluate_call(v, &call);
            if (so_far == STATUS_OK) continue;
        }
        status aside = run_aside(v, k);
        if (so_far == STATUS_OK) so_far = aside;
    }
    return so_far;
}

static status step_alone(validation *v, int64_t at) {
    int64_t number = v->begins[v->run->rank] + at;
    if (number >= v->begins[v->run->rank + 1]) return STATUS_OK;
    plan_call call = plan_call_of(v->run->plan, TASK_EVALUATE, number);
    return evaluate_call(v, &call);
}

/* Without units all is one rank's: the others wait no longer than a call for it, and it hears of theirs. */
static status keep_in_touch(validation *v, status mine) {
    bool failed = false;
    v->own.failed = mine != STATUS_OK;
    TRY(comm_share(&v->own, v->all, sizeof v->own));
    for (int64_t r = 0; r < v->run->ranks; r++) v->own.stops |= v->all[r].stops, failed |= v->all[r].failed;
    return failed ? comm_agree(mine) : STATUS_OK;
}

/* This rank's unit of a round: v->own. */
static status evaluate_unit(validation *v) {
    runner *r = v->run;
    status result = exec_clear(r->exec, total_of(r));
    int64_t most = 0;
    for (int64_t q = 0; q < (r->ranks > 1 ? r->ranks : 1); q++)
        if (v->begins[q + 1] - v->begins[q] > most) most = v->begins[q + 1] - v->begins[q];
    for (int64_t at = 0; at < most; at++) {
        v->own.stops |= v->samples->stop && *v->samples->stop;
        if (!v->together && (v->own.stops || result != STATUS_OK)) return result;
        result = v->together ? step_together(v, at, result) : step_alone(v, at);
        if (v->all && !r->eval_unit) result = keep_in_touch(v, result);
    }
    TRY(result);
    TRY(exec_failed(r->exec));
    return exec_read_number(r->exec, total_of(r), &v->own.loss);
}

static void add_part(part *sum, const part *x) {
    sum->loss += x->loss, sum->hits += x->hits;
    sum->counted += x->counted, sum->seen += x->seen;
    sum->stops |= x->stops, sum->failed |= x->failed;
}

/* `mine`: how this rank's unit of the round has gone. Ranks without one have added nothing. */
static status end_round(validation *v, status mine, part *sum) {
    if (!v->all) {
        add_part(sum, &v->own);
        return mine;
    }
    v->own.failed = mine != STATUS_OK;
    TRY(comm_share(&v->own, v->all, sizeof v->own));
    for (int64_t r = 0; r < v->run->ranks; r++) add_part(sum, &v->all[r]);
    return sum->failed ? comm_agree(mine) : STATUS_OK;
}

/* Whose units are next; the first call behind them. */
static int64_t begin_round(validation *v, int64_t number) {
    int64_t ranks = v->run->ranks > 1 ? v->run->ranks : 1, calls = plan_calls(v->run->plan, TASK_EVALUATE);
    for (int64_t q = 0; q < ranks; q++) {
        v->begins[q] = number;
        if (number < calls) number = unit_end(v, number);
    }
    return v->begins[ranks] = number;
}

/* Adds what all units came to, until somebody is asked to stop. */
static status evaluate_units(validation *v, part *sum) {
    int64_t calls = plan_calls(v->run->plan, TASK_EVALUATE);
    for (int64_t number = 0; number < calls && !sum->stops;) {
        number = begin_round(v, number);
        v->own = (part){ 0 };
        TRY(end_round(v, evaluate_unit(v), sum));
    }
    return STATUS_OK;
}

static status evaluate_all(validation *v, runner_verdict *out) {
    part sum = { 0 };
    TRY(evaluate_units(v, &sum));
    if (sum.stops) return STATUS_OK;
    if (v->all) TRY(comm_agree(rehearse_but(v->run, v->ran))); /* few samples: this rank had none of some */
    if (v->judged.list && v->all) TRY(judged_share(&v->judged));
    out->loss = sum.loss / (double)(sum.counted ? sum.counted : 1);
    if (sum.seen) out->accuracy = sum.hits / (double)sum.seen;
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

static bool needs_ranks(const runner *r) {
    bool any = false;
    for (uint32_t k = 0; k < r->plan->program_count; k++) {
        const graph *g = &r->plan->programs[k].program.graph;
        for (node_id id = 1; is_evaluation(r, k) && id < g->nodes.count && !any; id++)
            any = (graph_node(g, id)->op->traits & OP_COLLECTIVE) != 0;
    }
    return any;
}

/* What ranks are told. */
static status open_ranks(validation *v) {
    int64_t ranks = v->run->ranks > 1 ? v->run->ranks : 1;
    v->begins = memory_new((size_t)ranks + 1, sizeof *v->begins);
    if (ranks > 1) v->all = memory_new((size_t)ranks, sizeof *v->all);
    v->together = needs_ranks(v->run);
    return v->begins && (v->all || ranks == 1)
               ? STATUS_OK
               : status_set(STATUS_FAILED, "no memory to speak to other ranks");
}

status runner_evaluate(runner *r, const runner_samples *samples, runner_verdict *out) {
    validation v = { .run = r, .samples = samples };
    *out = (runner_verdict){ .accuracy = (double)NAN, .f1 = (double)NAN };
    status result = open_judged(r, &v.judged);
    if (result == STATUS_OK) result = open_ranks(&v);
    if (r->ranks > 1) result = comm_agree(result);
    if (result == STATUS_OK) result = evaluate_all(&v, out);
    judged_close(&v.judged);
    memory_free(v.all);
    memory_free(v.begins);
    return result;
}
