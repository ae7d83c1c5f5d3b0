/* Using a trained network: its forward program for one sample, planned and bound like all others. */
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
    exec_value output;
    float *answer; /* the caller's until the next call */
};

static status make_plan(snug_predictor *p, uint64_t memory, int64_t threads, const char *device_name) {
    int count = threads ? (int)threads : threads_available();
    const device *on;
    TRY(device_find(device_name ? device_name : "auto", &on));
    compose_run run = { .model = &p->model,
                        .batch = 1,
                        .lower = {
                            .device = on, .threads = count, .rates = rates_find(RATES_KNOWN, on, count) } };
    threads_set(count);
    TRY(compose_decode(&run, NULL, &p->plan));
    const graph *g = &p->plan.programs[0].program.graph;
    tensor_id output = graph_find(g, "logits");
    if (output) plan_reserve(&p->plan, graph_tensor_bytes(g, output)); /* p->answer */
    memory_trim();
    if (!memory || p->plan.peak_bytes <= memory) return STATUS_OK;
    char budget[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT, "%s does not fit %s: its output takes %llu bytes, %llu more",
                      p->model.name, units_bytes_text(memory, budget), (unsigned long long)p->plan.peak_bytes,
                      (unsigned long long)(p->plan.peak_bytes - memory));
}

/* The one program of the plan is called with one sample, and leaves one output. */
static status find_values(snug_predictor *p) {
    uint32_t count = p->model.fields(&p->model, 1, p->fields);
    for (uint32_t i = 0; i < count; i++) p->inputs[i] = exec_input(p->exec, 0, p->fields[i].name);
    p->output = exec_output(p->exec, 0, "logits");
    if (!p->output.bytes)
        return status_set(STATUS_FAILED, "%s: its output was lost in planning", p->model.name);
    p->answer = memory_new(p->output.bytes, 1);
    return p->answer ? STATUS_OK : status_set(STATUS_FAILED, "no memory for the output of %s", p->model.name);
}

/* What a function that returns a pointer returns where it failed: whoever gets it asks for the sentence. */
static void *nothing(status failed) {
    (void)failed;
    return NULL;
}

snug_predictor *snug_load(const snug_network *description, const char *weights, uint64_t memory,
                          int64_t threads) {
    return snug_load_on(description, weights, memory, threads, NULL);
}

snug_predictor *snug_load_on(const snug_network *description, const char *weights, uint64_t memory,
                             int64_t threads, const char *device_name) {
    if (!description || !weights)
        return nothing(status_set(STATUS_INVALID,
                                  "snug_load needs a network and the name of a folder or file of weights"));
    snug_predictor *p = memory_new(1, sizeof *p);
    status result = p ? STATUS_OK : status_set(STATUS_FAILED, "no memory to load a network");
    if (result == STATUS_OK && (threads < 0 || threads > 4096))
        result = status_set(STATUS_INVALID, "threads is %lld; it must be from 0 to 4096", (long long)threads);
    reserve_begin(0);
    if (result == STATUS_OK) result = network_open(description, &p->network, &p->model);
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
    memory_free(p->answer);
    plan_close(&p->plan);
    network_close(&p->network);
    memory_free(p);
}

const float *snug_predict(snug_predictor *p, const void *const fields[], int64_t *count) {
    if (count) *count = 0;
    if (!p)
        return nothing(status_set(STATUS_INVALID,
                                  "snug_predict needs a predictor that snug_load has made, and got NULL"));
    for (uint32_t i = 0; i < p->network.field_count; i++) {
        const model_field *f = &p->fields[i];
        if (!p->inputs[i].bytes) continue;
        if (!fields || !fields[i])
            return nothing(status_set(STATUS_INVALID,
                                      "%s: the output depends on field '%s', which is not given",
                                      p->model.name, f->name));
        if (f->dtype == DTYPE_I32 && network_check_ids(&p->network, i, fields[i]) != STATUS_OK) return NULL;
        if (exec_write(p->exec, &p->inputs[i], 0, fields[i], p->inputs[i].bytes) != STATUS_OK) return NULL;
    }
    threads_set(p->plan.threads); /* another plan may have changed it */
    exec_run(p->exec, 0);
    if (exec_read(p->exec, &p->output, 0, p->answer, p->output.bytes) != STATUS_OK) return NULL;
    if (count) *count = (int64_t)(p->output.bytes / sizeof *p->answer);
    return p->answer;
}

uint64_t snug_predictor_bytes(const snug_predictor *p) {
    const char *needs = "snug_predictor_bytes needs a predictor that snug_load has made, and got NULL";
    /* 0 says that it failed */
    if (!p) STATUS_IGNORED(status_set(STATUS_INVALID, "%s", needs));
    return p ? p->plan.peak_bytes : 0;
}
