#include "infer/merge.h"

#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "io/adapter_files.h"
#include "io/coded_files.h"
#include "io/file.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "ops/matmul_coded/matmul_coded.h"
#include "passes/linear.h"
#include "search/compose.h"

typedef struct {
    model_config config;
    model model;
    const pass *pass;
    pass_setting setting;
    model_weight *weights; /* the model's own first */
    uint32_t own, count;
    graph g;    /* owns the names */
    graph held; /* the same with the base as it was held in training */
} merging;

/* The graph with the adapter in it says which weights there are. */
static status build(merging *m) {
    graph plain;
    pass_adapter about;
    pass_setting wide;
    model_ports ports = { 0 };
    pass_context c = { .micro_batch = 1, .batch = 1, .tokens = 1 };
    TRY(m->pass->adapting->describe(&m->setting, &about));
    snprintf(about.base, sizeof about.base, "f32");
    TRY(m->pass->adapting->setting(&about, &wide));
    TRY(graph_open(&plain));
    m->model.build(&m->model, &plain, &(model_run){ .mode = MODEL_EVALUATE, .batch = 1, .context = 1 },
                   &ports);
    status result = graph_status(&plain);
    if (result == STATUS_OK) result = m->pass->check(&plain, &m->setting, &c);
    if (result == STATUS_OK) result = m->pass->run(&plain, &wide, &c, &m->g);
    if (result == STATUS_OK) result = m->pass->run(&plain, &m->setting, &c, &m->held);
    graph_close(&plain);
    return result;
}

static status make_room(merging *m) {
    m->weights = memory_new(m->g.tensors.count, sizeof *m->weights);
    if (!m->weights) return status_set(STATUS_FAILED, "no memory to merge");
    for (tensor_id t = 1; t < m->g.tensors.count; t++) {
        if (graph_tensor(&m->g, t)->role != ROLE_PARAMETER || graph_tensor(&m->g, t)->producer) continue;
        model_weight *w = &m->weights[m->count++];
        *w = (model_weight){ .name = graph_name(&m->g, t),
                             .shape = *graph_shape(&m->g, t),
                             .type = DTYPE_F32 };
        w->data = memory_new((size_t)shape_elements(&w->shape), sizeof(float));
        if (!w->data) return status_set(STATUS_FAILED, "no memory for the weight %s", w->name);
    }
    m->own = adapter_files_own(m->weights, m->count);
    return STATUS_OK;
}

static const float *find(const merging *m, const char *name) {
    for (uint32_t i = m->own; i < m->count; i++)
        if (strcmp(m->weights[i].name, name) == 0) return m->weights[i].data;
    return NULL;
}

/* The matrix as the codes that it was trained as would have it. */
static status round_one(const model_weight *w, dtype held, const shape *codes, int64_t scales) {
    uint64_t bytes = (uint64_t)shape_elements(codes) * dtype_bytes(held);
    model_weight coded = { .name = w->name, .shape = *codes, .type = held, .data = memory_new(bytes, 1) };
    float *by = memory_new((size_t)scales, sizeof *by);
    status result = STATUS_OK;
    if (!coded.data || !by) {
        result = status_set(STATUS_FAILED, "no memory to merge '%s'", w->name);
    } else if (dtype_is_half(held)) {
        half_narrow(held, w->data, shape_elements(codes), coded.data);
        half_widen(held, coded.data, shape_elements(codes), w->data);
    } else {
        matmul_coded_encode(held, &w->shape, w->data, coded.data, by);
        coded_files_widen(&coded, by, w->data);
    }
    memory_free(coded.data);
    memory_free(by);
    return result;
}

/* Adapters were trained beside what the base held, so that is what they are added to. */
static status round_base(merging *m) {
    for (uint32_t i = 0; i < m->own; i++) {
        const model_weight *w = &m->weights[i];
        tensor_id t = graph_find(&m->held, w->name);
        dtype held = t ? (dtype)graph_tensor(&m->held, t)->dtype : DTYPE_F32;
        if (held == DTYPE_F32) continue;
        TRY(round_one(w, held, graph_shape(&m->held, t),
                      dtype_is_half(held) ? 1 : matmul_coded_scales(held, &w->shape)));
    }
    return STATUS_OK;
}

static status merge_all(merging *m) {
    pass_adapter about;
    char a[PASS_PARAMETER_BYTES], b[PASS_PARAMETER_BYTES];
    TRY(m->pass->adapting->describe(&m->setting, &about));
    for (uint32_t i = 0; i < m->own; i++) {
        model_weight *w = &m->weights[i];
        if (!m->pass->adapting->beside(w->name, a, b)) continue;
        const float *down = find(m, a), *up = find(m, b);
        bool by_rows = linear_reads_by_rows(&m->g, w->name);
        if (down && up) m->pass->adapting->merge(&about, &w->shape, by_rows, down, up, w->data);
    }
    return STATUS_OK;
}

static status merge(merging *m, const char *directory, const char *adapter, const char *out) {
    TRY(model_config_read(directory, &m->config, NULL));
    families_model(&m->config, directory, &m->model);
    TRY(adapter_files_read(adapter, &m->pass, &m->setting));
    TRY(build(m));
    TRY(make_room(m));
    TRY(model_files_load(directory, m->weights, m->own));
    TRY(adapter_files_load(adapter, m->weights + m->own, m->count - m->own));
    TRY(round_base(m));
    TRY(merge_all(m));
    TRY(io_make_folder(out));
    TRY(model_files_save(out, m->weights, m->own));
    return model_config_write(out, &m->config, NULL);
}

status merge_run(const char *directory, const char *adapter, const char *out) {
    merging *m = memory_new(1, sizeof *m); /* large for a stack */
    status result = m ? graph_open(&m->g) : status_set(STATUS_FAILED, "no memory to merge");
    if (result == STATUS_OK) result = graph_open(&m->held);
    if (result == STATUS_OK) result = merge(m, directory, adapter, out);
    for (uint32_t i = 0; m && i < m->count; i++) memory_free(m->weights[i].data);
    if (m) memory_free(m->weights);
    if (m) graph_close(&m->g);
    if (m) graph_close(&m->held);
    memory_free(m);
    return result;
}
