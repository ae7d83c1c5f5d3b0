#include "train/feed.h"

#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "base/units.h"
#include "train/loader_plan.h"

static void find_inputs(feed *f, program_kind k) {
    feed_inputs *in = &f->programs[k];
    for (uint32_t i = 0; i < f->field_count; i++) {
        char whole[96];
        snprintf(whole, sizeof whole, "%s.batch", f->fields[i].name);
        in->field[i] = exec_input(f->exec, k, f->fields[i].name);
        in->whole[i] = exec_input(f->exec, k, whole);
    }
    in->loss_scale = exec_input(f->exec, k, "loss_scale");
    in->learning_rate = exec_input(f->exec, k, "learning_rate");
    in->first_row = exec_input(f->exec, k, "first_row");
    in->key = exec_input(f->exec, k, "key");
}

void feed_open(feed *f, const setup *s, const decision *d, exec *e) {
    *f = (feed){ .setup = s, .split = &d->split, .exec = e };
    f->field_count = s->model.fields(&s->model, s->request.run.context, f->fields);
    for (int k = 0; k < PROGRAM_COUNT; k++) find_inputs(f, (program_kind)k);
    f->loss = exec_persistent(e, "loss");
    f->norm = exec_output(e, PROGRAM_STEP, "gradient_norm");
    f->scaled = exec_persistent(e, "gradient_scale") != NULL;
}

static uint64_t field_bytes(const feed *f, uint32_t i) {
    return (uint64_t)shape_elements(&f->fields[i].of) * dtype_bytes(f->fields[i].dtype);
}

/* Samples [first, first + count) of the batch become the inputs of program k. */
static void hand_in(feed *f, program_kind k, const loader_batch *batch, int64_t first, int64_t count) {
    const feed_inputs *in = &f->programs[k];
    for (uint32_t i = 0; i < f->field_count; i++) {
        uint64_t bytes = field_bytes(f, i);
        const char *from = batch->fields[i];
        if (in->field[i]) memcpy(in->field[i], from + (uint64_t)first * bytes, (uint64_t)count * bytes);
        if (in->whole[i]) memcpy(in->whole[i], from, batch->samples * bytes);
    }
    if (in->loss_scale) *in->loss_scale = 1.0f / (float)(batch->counted_labels ? batch->counted_labels : 1);
    if (in->first_row) *in->first_row = (int32_t)(first * f->setup->request.run.context);
}

/* All micro-batches of a step; with `fault` looking for one, true when it is found. */
static bool run_calls(feed *f, const loader_batch *batch, int64_t step, double learning_rate,
                      exec_fault *fault) {
    int64_t micro = f->setup->request.run.batch - f->split->last; /* samples of the accumulating calls */
    int64_t size = f->split->accumulate ? micro / f->split->accumulate : 0;
    uint64_t seed = (uint64_t)f->setup->options.seed;
    *f->loss = 0;
    for (int64_t call = 0; call <= f->split->accumulate; call++) {
        program_kind k = call < f->split->accumulate ? PROGRAM_ACCUMULATE : PROGRAM_STEP;
        int64_t first = call * size, count = k == PROGRAM_STEP ? f->split->last : size;
        hand_in(f, k, batch, first, count);
        const feed_inputs *in = &f->programs[k];
        if (in->key)
            *in->key = (philox_key){ .seed_low = (uint32_t)seed,
                                     .seed_high = (uint32_t)(seed >> 32),
                                     .step = (uint32_t)step,
                                     .first_sample = (uint32_t)first };
        if (in->learning_rate) *in->learning_rate = (float)learning_rate;
        if (!fault)
            exec_run(f->exec, k);
        else if (exec_find_fault(f->exec, k, fault))
            return true;
    }
    return false;
}

double feed_step(feed *f, const loader_batch *batch, int64_t step, double learning_rate) {
    run_calls(f, batch, step, learning_rate, NULL);
    return (double)*f->loss;
}

bool feed_find_fault(feed *f, const loader_batch *batch, int64_t step, double learning_rate,
                     exec_fault *fault) {
    return run_calls(f, batch, step, learning_rate, fault);
}

/* ---- validation ---- */

/* Reads one validation sample into the inputs of program k, as its sample `place`; what the program does not
 * take goes to the spare buffer. Counts the labels. */
static status read_sample(feed *f, program_kind k, uint64_t sample, int64_t place, uint64_t *counted) {
    const data_source *source = &f->setup->validation;
    char *spare = exec_persistent(f->exec, "sample");
    void *scratch = spare, *to[MODEL_MAX_FIELDS];
    spare += units_align(source->scratch_bytes, LIVE_ALIGN);
    for (uint32_t i = 0; i < f->field_count; i++) {
        char *input = f->programs[k].field[i];
        to[i] = input ? input + (uint64_t)place * field_bytes(f, i) : spare;
        spare += units_align(field_bytes(f, i), LIVE_ALIGN);
    }
    TRY(source->read(source, sample, scratch, to));
    data_masking masking = loader_plan_masking(f->setup, true);
    data_masking_apply(&masking, sample, to[0], to[1]);
    if (source->label_field < 0) {
        ++*counted;
        return STATUS_OK;
    }
    const int32_t *labels = to[source->label_field];
    for (uint64_t i = 0; i < source->field_bytes[source->label_field] / sizeof *labels; i++)
        *counted += labels[i] != DATA_IGNORED_LABEL;
    return STATUS_OK;
}

static status evaluate_call(feed *f, program_kind k, uint64_t first, int64_t count, uint64_t *counted) {
    for (int64_t i = 0; i < count; i++) TRY(read_sample(f, k, first + (uint64_t)i, i, counted));
    if (f->programs[k].loss_scale) *f->programs[k].loss_scale = 1; /* sums; divided at the end */
    exec_run(f->exec, k);
    return STATUS_OK;
}

status feed_evaluate(feed *f, const volatile sig_atomic_t *stop, double *loss, bool *whole) {
    const compose_split *s = f->split;
    uint64_t counted = 0, first = 0;
    *f->loss = 0;
    *whole = false;
    for (int64_t call = 0; call < s->eval_calls; call++, first += (uint64_t)s->eval_batch) {
        if (stop && *stop) return STATUS_OK;
        TRY(evaluate_call(f, PROGRAM_EVALUATE, first, s->eval_batch, &counted));
    }
    if (s->eval_rest) TRY(evaluate_call(f, PROGRAM_EVALUATE_REST, first, s->eval_rest, &counted));
    *loss = (double)*f->loss / (double)(counted ? counted : 1);
    *whole = true;
    return STATUS_OK;
}
