/* Using a trained network: its forward program for some samples at once, planned and bound like all others.
 */
#include <string.h>

#include "api/network.h"
#include "api/reserve.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "chain/compose.h"
#include "exec/exec.h"
#include "run/rates.h"
#include "run/weights.h"

struct snug_predictor {
    network network;
    model model;
    plan plan;
    exec *exec;
    model_field fields[MODEL_MAX_FIELDS];
    exec_value inputs[MODEL_MAX_FIELDS]; /* bytes 0: not read */
    int64_t batch, predicted;            /* samples: at most at once, and in the last call */
    network_output outputs[SNUG_MAX_OUTPUTS];
    exec_value values[SNUG_MAX_OUTPUTS];
    float *answers[SNUG_MAX_OUTPUTS]; /* the caller's until the next call */
    uint32_t output_count;
};

static status make_plan(snug_predictor *p, uint64_t memory, int64_t threads, const char *device_name) {
    int count = threads ? (int)threads : threads_available();
    const device *on;
    TRY(device_find(device_name ? device_name : "auto", &on));
    compose_run run = { .model = &p->model,
                        .batch = p->batch,
                        .lower = {
                            .device = on, .threads = count, .rates = rates_find(RATES_KNOWN, on, count) } };
    threads_set(count);
    TRY(compose_predict(&run, NULL, &p->plan));
    const graph *g = &p->plan.programs[0].program.graph;
    for (uint32_t i = 0; i < p->output_count; i++) {
        tensor_id output = graph_find(g, network_output_symbol(i));
        if (output) plan_reserve(&p->plan, graph_tensor_bytes(g, output)); /* p->answers */
    }
    memory_trim();
    if (!memory || p->plan.peak_bytes <= memory) return STATUS_OK;
    char budget[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT, "%s does not fit %s: its output takes %llu bytes, %llu more",
                      p->model.name, units_bytes_text(memory, budget), (unsigned long long)p->plan.peak_bytes,
                      (unsigned long long)(p->plan.peak_bytes - memory));
}

/* The one program of the plan is called with some samples, and leaves the outputs. */
static status find_values(snug_predictor *p) {
    uint32_t count = p->model.fields(&p->model, 1, p->fields);
    for (uint32_t i = 0; i < count; i++) p->inputs[i] = exec_input(p->exec, 0, p->fields[i].name);
    for (uint32_t i = 0; i < p->output_count; i++) {
        p->values[i] = exec_output(p->exec, 0, network_output_symbol(i));
        if (!p->values[i].bytes)
            return status_set(STATUS_FAILED, "%s: output '%s' was lost in planning", p->model.name,
                              p->outputs[i].name);
        p->answers[i] = memory_new(p->values[i].bytes, 1);
        if (!p->answers[i]) return status_set(STATUS_FAILED, "no memory for outputs of %s", p->model.name);
    }
    return STATUS_OK;
}

/* What a function that returns a pointer returns where it failed: whoever gets it asks for the sentence. */
static void *nothing(status failed) {
    (void)failed;
    return NULL;
}

snug_predictor *snug_load(const snug_network *description, const char *weights, uint64_t memory,
                          int64_t threads) {
    return snug_load_batch(description, weights, memory, threads, NULL, 1);
}

snug_predictor *snug_load_on(const snug_network *description, const char *weights, uint64_t memory,
                             int64_t threads, const char *device_name) {
    return snug_load_batch(description, weights, memory, threads, device_name, 1);
}

static status check_counts(int64_t threads, int64_t batch) {
    if (threads < 0 || threads > 4096)
        return status_set(STATUS_INVALID, "threads is %lld; it must be from 0 to 4096", (long long)threads);
    if (batch < 1 || batch > 1 << 30)
        return status_set(STATUS_INVALID, "batch is %lld; it must be from 1 to %d", (long long)batch,
                          1 << 30);
    return STATUS_OK;
}

snug_predictor *snug_load_batch(const snug_network *description, const char *weights, uint64_t memory,
                                int64_t threads, const char *device_name, int64_t batch) {
    if (!description || !weights)
        return nothing(status_set(STATUS_INVALID,
                                  "snug_load needs a network and the name of a folder or file of weights"));
    snug_predictor *p = memory_new(1, sizeof *p);
    status result =
        p ? check_counts(threads, batch) : status_set(STATUS_FAILED, "no memory to load a network");
    if (p) p->batch = batch;
    reserve_begin(0);
    if (result == STATUS_OK) result = network_open(description, &p->network, &p->model);
    if (result == STATUS_OK) {
        result = network_outputs(&p->network, batch, p->outputs, &p->output_count);
        if (result != STATUS_OK) result = status_prefix(result, "%s", p->model.name);
    }
    if (result == STATUS_OK) result = make_plan(p, memory, threads, device_name);
    reserve_end();
    if (result == STATUS_OK) result = exec_open(&p->plan, 0, &p->exec);
    if (result == STATUS_OK) result = weights_load(p->exec, weights);
    if (result == STATUS_OK) result = find_values(p);
    if (result == STATUS_OK) return p;
    snug_unload(p);
    return NULL;
}

void snug_unload(snug_predictor *p) {
    if (!p) return;
    exec_close(p->exec);
    for (uint32_t i = 0; i < p->output_count; i++) memory_free(p->answers[i]);
    plan_close(&p->plan);
    network_close(&p->network);
    memory_free(p);
}

const float *snug_predict(snug_predictor *p, const void *const fields[], int64_t *count) {
    return snug_predict_batch(p, 1, fields, count);
}

/* Field i of the samples that are predicted. The rest of the batch is the first of them again: inputs share
 * memory with later values, and what lies there would be no ids. */
static status write_field(snug_predictor *p, uint32_t i, const void *values) {
    const model_field *f = &p->fields[i];
    uint64_t each = p->inputs[i].bytes / (uint64_t)p->batch;
    if (!values)
        return status_set(STATUS_INVALID, "%s: the output depends on field '%s', which is not given",
                          p->model.name, f->name);
    for (int64_t k = 0; k < p->predicted && f->dtype == DTYPE_I32; k++) {
        status checked =
            network_check_ids(&p->network, i, (const int32_t *)values + each / sizeof(int32_t) * (uint64_t)k);
        if (checked != STATUS_OK)
            return p->predicted > 1 ? status_prefix(checked, "sample %lld", (long long)k) : checked;
    }
    for (int64_t k = p->predicted; k < p->batch; k++)
        TRY(exec_write(p->exec, &p->inputs[i], each * (uint64_t)k, values, each));
    return exec_write(p->exec, &p->inputs[i], 0, values, each * (uint64_t)p->predicted);
}

const float *snug_predict_batch(snug_predictor *p, int64_t samples, const void *const fields[],
                                int64_t *count) {
    if (count) *count = 0;
    if (!p)
        return nothing(status_set(STATUS_INVALID,
                                  "snug_predict needs a predictor that snug_load has made, and got NULL"));
    p->predicted = 0;
    if (samples < 1 || samples > p->batch)
        return nothing(status_set(STATUS_INVALID,
                                  "%s: samples is %lld; the predictor was loaded for 1 to %lld at once",
                                  p->model.name, (long long)samples, (long long)p->batch));
    p->predicted = samples;
    status result = STATUS_OK;
    for (uint32_t i = 0; i < p->network.field_count && result == STATUS_OK; i++)
        if (p->inputs[i].bytes) result = write_field(p, i, fields ? fields[i] : NULL);
    if (result != STATUS_OK) {
        p->predicted = 0;
        return NULL;
    }
    threads_set(p->plan.threads); /* another plan may have changed it */
    exec_run(p->exec, 0);
    return snug_predicted(p, p->outputs[0].name, count);
}

const float *snug_predicted(snug_predictor *p, const char *name, int64_t *count) {
    if (count) *count = 0;
    if (!p || !name)
        return nothing(status_set(STATUS_INVALID, "snug_predicted needs a predictor that snug_load has made "
                                                  "and the name of an output, and got NULL"));
    if (!p->predicted)
        return nothing(status_set(STATUS_INVALID, "%s: nothing was predicted yet", p->model.name));
    uint32_t i = 0;
    while (i < p->output_count && strcmp(p->outputs[i].name, name) != 0) i++;
    if (i == p->output_count)
        return nothing(status_set(STATUS_INVALID, "%s has no output '%.80s'", p->model.name, name));
    uint64_t bytes = p->values[i].bytes / (uint64_t)p->batch * (uint64_t)p->predicted;
    if (exec_read(p->exec, &p->values[i], 0, p->answers[i], bytes) != STATUS_OK) return NULL;
    if (count) *count = (int64_t)(bytes / sizeof(float));
    return p->answers[i];
}

uint64_t snug_predictor_bytes(const snug_predictor *p) {
    const char *needs = "snug_predictor_bytes needs a predictor that snug_load has made, and got NULL";
    /* 0 says that it failed */
    if (!p) STATUS_IGNORED(status_set(STATUS_INVALID, "%s", needs));
    return p ? p->plan.peak_bytes : 0;
}
