#include "infer/merge.h"

#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "chain/compose.h"
#include "io/adapter_files.h"
#include "io/adapter_head.h"
#include "io/coded_files.h"
#include "io/file.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/tokenizer_files.h"
#include "io/weight_files.h"
#include "ops/codes.h"
#include "passes/adapting.h"
#include "passes/linear.h"

typedef struct {
    model_config config;
    label_names names; /* of the classes that its head tells */
    bool brings_head;  /* the adapter */
    bool *lacks;       /* by weight: the model's files lack it, */
    bool *filled;      /* and the adapter's have it */
    model model;
    const pass *pass;
    pass_setting setting;
    graph plain;           /* the model without the adapter */
    graph held;            /* with it, the base as it was held in training; owns the names */
    model_weight *weights; /* the model's, then scales of codes among them, then the adapter's */
    uint32_t kept, own, count;
} merging;

/* The graph with the adapter in it says which weights there are, and in which form. */
static status build(merging *m) {
    model_ports ports = { 0 };
    pass_context c = { .micro_batch = 1, .batch = 1, .unit = 1, .tokens = 1 };
    m->model.build(&m->model, &m->plain, &(model_run){ .mode = MODEL_EVALUATE, .batch = 1, .context = 1 },
                   &ports);
    TRY(graph_status(&m->plain));
    TRY(m->pass->check(&m->plain, &m->setting, &c));
    return m->pass->run(&m->plain, &m->setting, &c, &m->held);
}

static model_weight *find(const merging *m, const char *name) {
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->weights[i].name, name) == 0) return &m->weights[i];
    return NULL;
}

static bool is_scale(const merging *m, const model_weight *w) {
    char name[CODES_NAME_BYTES];
    size_t length = codes_scales_of(w->name);
    snprintf(name, sizeof name, "%.*s", (int)length, w->name);
    const model_weight *codes = length ? find(m, name) : NULL;
    return codes && coded_files_has(codes);
}

static void set_scales_apart(merging *m) {
    for (uint32_t i = 0; i < m->own; i++) {
        model_weight w = m->weights[i];
        if (is_scale(m, &w)) continue;
        m->weights[i] = m->weights[m->kept];
        m->weights[m->kept++] = w;
    }
}

static status make_room(merging *m) {
    m->weights = memory_new(m->held.tensors.count, sizeof *m->weights);
    if (!m->weights) return status_set(STATUS_FAILED, "no memory to merge");
    for (tensor_id t = 1; t < m->held.tensors.count; t++) {
        const tensor *x = graph_tensor(&m->held, t);
        if (x->role != ROLE_PARAMETER || x->producer) continue;
        model_weight *w = &m->weights[m->count++];
        *w = (model_weight){ .name = graph_name(&m->held, t),
                             .shape = x->shape,
                             .type = (dtype)x->dtype,
                             .by_rows = (x->flags & TENSOR_ROWS) != 0 };
        w->data = memory_new((size_t)weight_bytes(w), 1);
        if (!w->data) return status_set(STATUS_FAILED, "no memory for the weight %s", w->name);
    }
    m->own = adapter_files_own(m->weights, m->count);
    set_scales_apart(m);
    return STATUS_OK;
}

/* Adapters were trained beside what the base held, so those numbers are what they are added to. */
static status widen(const merging *m, model_weight *w) {
    char scales[CODES_NAME_BYTES];
    bool codes = coded_files_has(w);
    shape s = codes ? coded_files_shape(w) : w->shape;
    if (w->type == DTYPE_F32) return STATUS_OK;
    float *wide = memory_new((size_t)shape_elements(&s), sizeof *wide);
    if (!wide) return status_set(STATUS_FAILED, "no memory to merge '%s'", w->name);
    if (codes)
        coded_files_widen(w, find(m, codes_scales_name(w->name, scales))->data, wide);
    else
        half_widen(w->type, w->data, shape_elements(&s), wide);
    memory_free(w->data);
    w->data = wide, w->shape = s, w->type = DTYPE_F32;
    return STATUS_OK;
}

static status merge_all(merging *m) {
    pass_adapter about;
    char a[PASS_PARAMETER_BYTES], b[PASS_PARAMETER_BYTES];
    TRY(m->pass->adapting->describe(&m->setting, &about));
    for (uint32_t i = 0; i < m->kept; i++) {
        model_weight *w = &m->weights[i];
        TRY(widen(m, w));
        if (!m->pass->adapting->beside(w->name, a, b)) continue;
        const model_weight *down = find(m, a), *up = find(m, b);
        bool by_rows = linear_reads_by_rows(&m->plain, w->name);
        if (down && up) m->pass->adapting->merge(&about, &w->shape, by_rows, down->data, up->data, w->data);
    }
    return STATUS_OK;
}

static status write_files(const merging *m, const char *directory, const char *out) {
    model_files_form form = { .experts = families_experts(&m->config),
                              .timm = m->config.timm.architecture[0] != 0 };
    TRY(model_files_save_as(out, m->weights, m->kept, &form));
    TRY(model_config_write(out, &m->config, NULL));
    return tokenizer_files_copy(directory, out);
}

static status write_all(const merging *m, const char *directory, const char *out) {
    weight_files_writing w;
    TRY(weight_files_begin(out, &w));
    return weight_files_end(&w, write_files(m, directory, out));
}

/* The model, with the head that the adapter brings. */
static status open_model(merging *m, const char *directory, const char *adapter) {
    TRY(model_config_read(directory, &m->config, NULL));
    model_head own = m->config.head;
    TRY(adapter_head_read(adapter, &m->config, &m->names, &m->brings_head));
    const model_head *h = &m->config.head;
    if (h->kind == HEAD_CLASSES && !m->names.count && own.kind == h->kind && own.outputs == h->outputs)
        TRY(model_config_labels(directory, &m->config, &m->names));
    if (m->names.count) m->config.label_names = m->names.name;
    families_model(&m->config, directory, &m->model);
    return STATUS_OK;
}

/* What is in neither folder. */
static status refuse_lacking(const merging *m, const char *directory, const char *adapter) {
    for (uint32_t i = 0; i < m->count; i++)
        if (m->lacks[i] && !m->filled[i])
            return status_set(
                STATUS_INVALID,
                "neither %s nor %s has the tensor '%s' of the head; name the model whose head the "
                "adapter was trained with",
                adapter, directory, m->weights[i].name);
    return STATUS_OK;
}

/* What the adapter brings of a head comes over what the model's files have of one. */
static status load_with_head(merging *m, const char *directory, const char *adapter) {
    model_files_difference other = { .judge = &m->model };
    m->lacks = memory_new(m->count, sizeof *m->lacks), m->filled = memory_new(m->count, sizeof *m->filled);
    if (!m->lacks || !m->filled) return status_set(STATUS_FAILED, "no memory to merge");
    TRY(model_files_lack(directory, m->weights, m->own, &other, m->lacks));
    TRY(model_files_load_other(directory, m->weights, m->own, &other));
    TRY(adapter_files_load(adapter, &(adapter_files_part){ m->weights, m->count, &m->model, m->filled }));
    return refuse_lacking(m, directory, adapter);
}

static status load(merging *m, const char *directory, const char *adapter) {
    if (m->brings_head) return load_with_head(m, directory, adapter);
    TRY(model_files_load(directory, m->weights, m->own));
    return adapter_files_load(adapter, &(adapter_files_part){ .weights = m->weights, .count = m->count });
}

static status merge(merging *m, const char *directory, const char *adapter, const char *out) {
    TRY(open_model(m, directory, adapter));
    TRY(adapter_files_read(adapter, true, &m->pass, &m->setting));
    TRY(adapter_files_check_base(adapter, directory));
    TRY(build(m));
    TRY(make_room(m));
    TRY(load(m, directory, adapter));
    TRY(merge_all(m));
    return write_all(m, directory, out);
}

status merge_run(const char *directory, const char *adapter, const char *out) {
    TRY(weight_files_check_vacant(out));
    merging *m = memory_new(1, sizeof *m); /* large for a stack */
    status result = m ? graph_open(&m->plain) : status_set(STATUS_FAILED, "no memory to merge");
    if (result == STATUS_OK) result = graph_open(&m->held);
    if (result == STATUS_OK) result = merge(m, directory, adapter, out);
    for (uint32_t i = 0; m && i < m->count; i++) memory_free(m->weights[i].data);
    if (m) memory_free(m->weights);
    if (m) memory_free(m->lacks);
    if (m) memory_free(m->filled);
    if (m) label_names_close(&m->names);
    if (m) graph_close(&m->plain);
    if (m) graph_close(&m->held);
    memory_free(m);
    return result;
}
