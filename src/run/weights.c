#include "run/weights.h"

#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "io/file.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/quantized_files.h"
#include "io/shards.h"
#include "ops/codes.h"
#include "ops/nf4.h"
#include "passes/pass.h"
#include "run/heads.h"

/* ---- initial values ---- */

typedef struct {
    model_weight *weights;
    uint32_t count;
    const model *m;    /* NULL: nothing of the model is filled ... */
    const model *head; /* ... but for this one's head; NULL: not that either */
    uint64_t seed;
    atomic_bool failed; /* a task */
} initialisation;

/* Some of a weight's numbers: they depend on nothing but its stream and their places. */
static void draw(const philox_normal_list *list, int64_t first, int64_t n, float *part) {
    if (list->deviation > 0)
        philox_normal(list, first, n, part);
    else
        for (int64_t j = 0; j < n; j++) part[j] = list->mean;
}

static const model_weight *find(const initialisation *i, const char *name, size_t length) {
    for (uint32_t k = 0; k < i->count; k++)
        if (strncmp(i->weights[k].name, name, length) == 0 && !i->weights[k].name[length])
            return &i->weights[k];
    return NULL;
}

/* Scales are made with their codes. */
static bool is_scale(const initialisation *i, const char *name) {
    size_t length = codes_scales_of(name);
    const model_weight *codes = length ? find(i, name, length) : NULL;
    return codes && (codes->type == DTYPE_I8 || codes->type == DTYPE_U8);
}

static const model_weight *scales_of(const initialisation *i, const model_weight *w) {
    char name[CODES_NAME_BYTES];
    codes_scales_name(w->name, name);
    return find(i, name, strlen(name));
}

/* Drawn twice: the scales are those of all numbers. */
static status make_codes(const model_weight *w, const philox_normal_list *list, const codes_matrix *m) {
    float part[WEIGHT_PART];
    int8_t codes[WEIGHT_PART];
    int64_t all = shape_elements(&w->shape);
    for (int64_t k = 0; k < all; k += WEIGHT_PART) {
        int64_t n = all - k < WEIGHT_PART ? all - k : WEIGHT_PART;
        draw(list, k, n, part);
        codes_matrix_look(m, part, k, n);
    }
    codes_matrix_scale(m);
    for (int64_t k = 0; k < all; k += WEIGHT_PART) {
        int64_t n = all - k < WEIGHT_PART ? all - k : WEIGHT_PART;
        draw(list, k, n, part);
        codes_matrix_encode(m, part, k, n, codes);
        TRY(weight_put_bytes(w, (uint64_t)k, codes, (uint64_t)n));
    }
    return STATUS_OK;
}

static status fill_codes(const initialisation *i, const model_weight *w, const philox_normal_list *list) {
    codes_matrix m = { .rows = shape_rows(&w->shape),
                       .columns = shape_last(&w->shape),
                       .by_rows = w->by_rows };
    int64_t count = m.by_rows ? m.rows : m.columns;
    m.scales = memory_new((size_t)count, sizeof *m.scales);
    if (!m.scales) return status_set(STATUS_FAILED, "no memory for the scales of '%s'", w->name);
    status result = make_codes(w, list, &m);
    if (result == STATUS_OK) result = weight_put(scales_of(i, w), 0, m.scales, count);
    memory_free(m.scales);
    return result;
}

/* Of 4 bits, a block after the other. */
static status fill_nf4(const initialisation *i, const model_weight *w, const philox_normal_list *list) {
    int64_t rows = shape_rows(&w->shape), columns = 2 * shape_last(&w->shape), blocks = nf4_blocks(columns);
    const model_weight *scales = scales_of(i, w);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t b = 0; b < blocks; b++) {
            float part[NF4_BLOCK], scale;
            uint8_t codes[NF4_BLOCK / 2];
            int64_t first = r * columns + b * NF4_BLOCK;
            int64_t n = b + 1 < blocks ? NF4_BLOCK : columns - b * NF4_BLOCK;
            draw(list, first, n, part);
            nf4_encode_row(part, n, codes, &scale);
            TRY(weight_put_bytes(w, (uint64_t)first / 2, codes, (uint64_t)n / 2));
            TRY(weight_put(scales, r * blocks + b, &scale, 1));
        }
    return STATUS_OK;
}

static status fill(const initialisation *i, const model_weight *w) {
    model_initial from = { .stream = hash_name(w->name) };
    bool added = pass_of_parameter(w->name, &w->shape, &from.deviation) != NULL;
    const model *m = i->head && head_owns(i->head, w->name) ? i->head : i->m;
    if ((!added && !m) || is_scale(i, w->name)) return STATUS_OK;
    if (!added) m->initial(m, w->name, &w->shape, &from);
    philox_normal_list list = { i->seed, from.stream, from.mean, from.deviation };
    if (w->type == DTYPE_I8) return fill_codes(i, w, &list);
    if (w->type == DTYPE_U8) return fill_nf4(i, w, &list);
    uint64_t each = dtype_bytes(w->type);
    for (int64_t k = 0, all = shape_elements(&w->shape); k < all; k += WEIGHT_PART) {
        float part[WEIGHT_PART];
        int64_t n = all - k < WEIGHT_PART ? all - k : WEIGHT_PART;
        if (weight_is_elsewhere(w, (uint64_t)k * each, (uint64_t)n * each)) continue;
        draw(&list, k, n, part);
        TRY(weight_put(w, k, part, n));
    }
    return STATUS_OK;
}

/* A weight that others may be filled beside is a task. It fails for want of memory only. */
static void fill_one(void *context, int64_t index, int thread) {
    (void)thread;
    initialisation *i = context;
    if (i->weights[index].side_by_side && fill(i, &i->weights[index]) != STATUS_OK)
        atomic_store(&i->failed, true);
}

static status initialise(exec *e, initialisation *i) {
    TRY(exec_weights(e, &i->weights, &i->count));
    threads_for(i->count, fill_one, i);
    status result = i->failed ? status_set(STATUS_FAILED, "no memory to fill the weights") : STATUS_OK;
    for (uint32_t k = 0; k < i->count && result == STATUS_OK; k++)
        if (!i->weights[k].side_by_side) result = fill(i, &i->weights[k]);
    memory_free(i->weights);
    return result;
}

status weights_initialise(exec *e, const model *m, uint64_t seed) {
    return initialise(e, &(initialisation){ .m = m, .seed = seed });
}

/* ---- files ---- */

/* What becomes of a model's own weights: `done` gets them without their data. */
typedef struct {
    status (*done)(void *context, const setup *s, const model_weight *weights, uint32_t count);
    void *context;
} own_weights;

static status visit_own(const setup *s, const own_weights *to) {
    graph g;
    model_ports ports;
    TRY(graph_open(&g));
    s->model.build(&s->model, &g, &(model_run){ .mode = MODEL_EVALUATE, .batch = 1, .context = 1 }, &ports);
    status result = graph_status(&g);
    model_weight *weights = memory_new(g.tensors.count + 1u, sizeof *weights);
    uint32_t count = 0;
    if (result == STATUS_OK && !weights) result = status_set(STATUS_FAILED, "no memory to look at weights");
    for (tensor_id t = 1; result == STATUS_OK && t < g.tensors.count; t++) {
        const tensor *x = graph_tensor(&g, t);
        bool held = x->role == ROLE_PARAMETER || x->flags & TENSOR_OF_MODEL;
        if (held && !x->producer)
            weights[count++] =
                (model_weight){ .name = graph_name(&g, t), .shape = x->shape, .type = (dtype)x->dtype };
    }
    if (result == STATUS_OK) result = to->done(to->context, s, weights, count);
    memory_free(weights);
    graph_close(&g);
    return result;
}

/* In what the model differs from the files that it begins with. */
static model_files_difference difference(const setup *s) {
    return (model_files_difference){ .judge = heads_new(s),
                                     .vocabulary = s->model.vocabulary,
                                     .vocabulary_was = s->vocabulary_was };
}

static status check_own(void *context, const setup *s, const model_weight *weights, uint32_t count) {
    model_files_difference d = difference(s);
    (void)context;
    return model_files_check(s->weights, weights, count, &d);
}

status weights_check(const setup *s) {
    if (!s->weights || s->custom) return STATUS_OK;
    return visit_own(s, &(own_weights){ check_own, NULL });
}

static status name_new(void *context, const setup *s, const model_weight *weights, uint32_t count) {
    text *names = context;
    model_files_difference d = difference(s);
    bool *lacks = memory_new(count + 1u, sizeof *lacks);
    if (!lacks) return status_set(STATUS_FAILED, "no memory to look at weights");
    status result = model_files_lack(s->weights, weights, count, &d, lacks);
    for (uint32_t i = 0; i < count && result == STATUS_OK; i++)
        if (lacks[i]) text_add(names, "%s%s", names->length ? ", " : "", weights[i].name);
    memory_free(lacks);
    return result;
}

status weights_new(const setup *s, text *names) {
    if (!s->weights || !s->new_head) return STATUS_OK;
    return visit_own(s, &(own_weights){ name_new, names });
}

static status load_other(exec *e, const char *directory, const model_files_difference *d) {
    model_weight *weights;
    uint32_t count;
    TRY(exec_weights(e, &weights, &count));
    status result = model_files_load_other(directory, weights, adapter_files_own(weights, count), d);
    memory_free(weights);
    return result;
}

status weights_load(exec *e, const char *directory) {
    return load_other(e, directory, &(model_files_difference){ 0 });
}

status weights_load_base(exec *e, const setup *s) {
    model_files_difference d = difference(s);
    return load_other(e, s->weights, &d);
}

/* A new head first, since what the files have of it replaces that. */
status weights_begin(exec *e, const setup *s) {
    uint64_t seed = (uint64_t)s->options.seed;
    model_files_difference d = difference(s);
    if (!s->weights) return weights_initialise(e, &s->model, seed);
    TRY(initialise(e, &(initialisation){ .head = heads_new(s), .seed = seed }));
    return load_other(e, s->weights, &d);
}

/* Matrices of 16 bits, where a run has such, are all of one type. `as` NONE: as they are. */
status weights_save_config(exec *e, const model_config *c, const char *directory, dtype as) {
    model_weight *weights;
    model_config_stored stored = { 0 };
    uint32_t count;
    TRY(exec_weights(e, &weights, &count));
    if (!quantized_files_form(weights, count, &stored)) stored = (model_config_stored){ 0 };
    for (uint32_t i = 0; i < count; i++)
        if (dtype_is_half(weights[i].type)) stored.type = weights[i].type;
    if (as) stored.type = as;
    memory_free(weights);
    return model_config_write(directory, c, &stored);
}

status weights_save(exec *e, const model_config *c, const char *directory) {
    return weights_save_as(e, c, directory, &(weights_form){ 0 });
}

status weights_save_as(exec *e, const model_config *c, const char *directory, const weights_form *as) {
    TRY(io_make_folder(directory));
    TRY(weights_save_file(e, c, directory, as, 0, 1)); /* the largest first: a full disk shows here */
    return c ? weights_save_config(e, c, directory, as->type) : STATUS_OK;
}

int weights_files(const plan *p, const model_config *c) {
    plan_whole whole = plan_whole_of(p, CATEGORY_WEIGHTS);
    bool timm = c && c->timm.architecture[0]; /* three of our tensors are one of theirs */
    return timm ? 1 : shards_files(whole.bytes, whole.tensors, comm_world().world);
}

/* Leaves those of file k in the list. */
static uint32_t take_file(model_weight *weights, uint32_t count, int k, int files) {
    shards_division division = { .files = files };
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++)
        if (shards_next(&division, weight_bytes(&weights[i])) == k) weights[taken++] = weights[i];
    return taken;
}

status weights_save_file(exec *e, const model_config *c, const char *directory, const weights_form *as, int k,
                         int files) {
    model_weight *weights;
    uint32_t count;
    char name[SHARDS_NAME_BYTES];
    TRY(exec_weights(e, &weights, &count));
    model_files_form form = { .type = as->type, .experts = c ? families_experts(c) : NULL };
    form.timm = c && c->timm.architecture[0];
    form.batches = c ? as->batches : 0;
    form.name = shards_name("model", k, files, name);
    status result = model_files_save_as(directory, weights, take_file(weights, count, k, files), &form);
    memory_free(weights);
    return result;
}

/* The model, where its head judges samples: adapters' files have that too. */
static const model *judge_of(const setup *s) {
    return s->model.head.kind != HEAD_LANGUAGE ? &s->model : NULL;
}

adapter_files_about weights_adapter(const setup *s, const decision *d, const identity *run) {
    adapter_files_about about = { .base = s->weights,
                                  .base_digest = run->base_digest,
                                  .in_out = !s->custom && families_has_conv1d(&s->config),
                                  .continues = !s->model.no_text,
                                  .judge = judge_of(s),
                                  .config = &s->config };
    const pass_setting *settings = d->point.choice.settings;
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->adapting && settings[i].text[0])
            about.pass = pass_table[i], about.setting = &settings[i];
    return about;
}

status weights_load_adapter(exec *e, const setup *s, const char *directory) {
    model_weight *weights;
    uint32_t count;
    TRY(exec_weights(e, &weights, &count));
    status result = adapter_files_load(
        directory, &(adapter_files_part){ .weights = weights, .count = count, .judge = judge_of(s) });
    memory_free(weights);
    return result;
}

status weights_save_adapter(exec *e, const adapter_files_about *about, const char *directory) {
    model_weight *weights;
    uint32_t count;
    TRY(io_make_folder(directory));
    TRY(exec_weights(e, &weights, &count));
    status result = adapter_files_save(directory, about, weights, count);
    memory_free(weights);
    return result;
}
