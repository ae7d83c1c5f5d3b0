#include "quantize/quantize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/units.h"
#include "io/file.h"
#include "io/model_config.h"
#include "io/tokenizer_files.h"
#include "io/trained_context.h"
#include "io/weight_files.h"
#include "ops/codes.h"
#include "passes/storing.h"
#include "train/evaluate.h"

typedef struct {
    const quantize_options *options;
    quantize_result *result;
    model_config config;
    model model;
    const pass *pass; /* that reads what is written */
    int number;       /* of it */
    pass_setting setting;
    graph g; /* of the quantized model; owns the names */
    model_weight *weights;
    uint32_t count;
} quantizing;

/* ---- before anything is done ---- */

static bool is_there(const char *folder, const char *file) {
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", folder, file) < (int)sizeof path && access(path, F_OK) == 0;
}

static status check_places(const quantize_options *o) {
    const pass *stored;
    pass_setting s;
    if (strcmp(o->directory, o->out) == 0)
        return status_set(STATUS_INVALID, "--out %s is the model itself; name another folder", o->out);
    TRY(quantized_files_read(o->directory, &stored, &s));
    if (stored)
        return status_set(STATUS_INVALID,
                          "%s is quantized already (%s); quantize the model that it was made from",
                          o->directory, s.text);
    if (!is_there(o->directory, "model.safetensors") &&
        !is_there(o->directory, "model.safetensors.index.json"))
        return status_set(STATUS_INVALID, "%s has no model.safetensors, so there is nothing to quantize",
                          o->directory);
    TRY(io_check_folder(o->out));
    return weight_files_check_vacant(o->out);
}

static status find_pass(quantizing *q) {
    static const char *const settings[2][2][2] = {
        { { "int8", "int8:all" }, { "int8:static", "int8:static:all" } }, { { "int4", "int4:all" } }
    };
    const quantize_options *o = q->options;
    for (q->number = 0; pass_table[q->number]; q->number++)
        if (pass_stores(pass_table[q->number])) {
            q->pass = pass_table[q->number];
            q->result->setting = settings[o->is_narrow][o->is_static][o->all];
            return q->pass->parse(q->result->setting, &q->setting);
        }
    return status_set(STATUS_FAILED, "this program was built without quantization");
}

static status gather_weights(quantizing *q) {
    q->weights = memory_new(q->g.tensors.count, sizeof *q->weights);
    if (!q->weights) return status_set(STATUS_FAILED, "no memory to quantize a model");
    for (tensor_id t = 1; t < q->g.tensors.count; t++) {
        const tensor *x = graph_tensor(&q->g, t);
        if (x->role == ROLE_PARAMETER && !x->producer)
            q->weights[q->count++] = (model_weight){ .name = graph_name(&q->g, t),
                                                     .shape = x->shape,
                                                     .type = (dtype)x->dtype,
                                                     .by_rows = (x->flags & TENSOR_ROWS) != 0,
                                                     .panels = (x->flags & TENSOR_PANELS) != 0 };
    }
    return STATUS_OK;
}

/* The graph with the pass in it says which weights there will be. */
static status list_weights(quantizing *q) {
    graph plain;
    model_ports ports = { 0 };
    pass_context c = { .micro_batch = 1, .batch = 1, .unit = 1, .tokens = 1 };
    TRY(graph_open(&plain));
    q->model.build(&q->model, &plain, &(model_run){ .mode = MODEL_EVALUATE, .batch = 1, .context = 1 },
                   &ports);
    status result = graph_status(&plain);
    if (result == STATUS_OK) result = q->pass->check(&plain, &q->setting, &c);
    if (result == STATUS_OK) result = q->pass->run(&plain, &q->setting, &c, &q->g);
    if (result == STATUS_OK) result = gather_weights(q);
    graph_close(&plain);
    return result;
}

/* What is not in the file that is read gets room, and gives it back: scales in f32. Those of codes of 4 bits
 * are made with these while they are written. */
static status make_room(quantizing *q, const char *ending) {
    for (uint32_t i = 0; i < q->count; i++) {
        model_weight *w = &q->weights[i];
        if (!text_ends_with(w->name, ending) || w->type != DTYPE_F32) continue;
        w->data = memory_new((size_t)shape_elements(&w->shape), sizeof(float));
        if (!w->data) return status_set(STATUS_FAILED, "no memory to quantize a model");
    }
    return STATUS_OK;
}

static void give_room_back(quantizing *q) {
    for (uint32_t i = 0; i < q->count; i++) {
        memory_free(q->weights[i].data);
        q->weights[i].data = NULL;
    }
    memory_trim(); /* what is run next is measured */
}

/* ---- runs ---- */

/* A plan that the budget has, and, with `r`, what comes of running it. */
static status evaluate(quantizing *q, setup_options options, const evaluate_observer *observer,
                       evaluate_result *r) {
    setup s = { 0 };
    decision d = { 0 };
    options.eval_only = true;
    options.rates = RATES_KNOWN; /* no time is predicted here */
    TRY(setup_open(&options, NULL, &s));
    status result = decision_make(&s, &d);
    if (result == STATUS_OK && r) result = evaluate_run(&s, &d, observer, r);
    if (d.plan.peak_bytes > q->result->planned_bytes) q->result->planned_bytes = d.plan.peak_bytes;
    decision_close(&d);
    setup_close(&s);
    memory_trim();
    return result;
}

/* Evaluating a directory's model, made into what `setting` says while it is read (NULL: as it is); false:
 * there is nothing to evaluate on. */
static bool evaluation_of(const quantizing *q, const char *directory, const char *setting,
                          setup_options *options) {
    *options = q->options->run;
    options->model = directory;
    options->context = q->result->context; /* both forms alike: what is written has no run beside it */
    options->passes[q->number] = setting;
    if (!options->data && !options->eval_data) options->data = q->options->calibrate;
    return options->data || options->eval_data;
}

static status measure_loss(quantizing *q, const char *directory, double *loss) {
    setup_options options;
    evaluate_result r;
    if (!evaluation_of(q, directory, NULL, &options)) return STATUS_OK;
    TRY(evaluate(q, options, NULL, &r));
    q->result->evaluated = true;
    q->result->samples = r.samples;
    *loss = r.loss;
    return STATUS_OK;
}

/* ---- calibrating ---- */

/* Some of a source's samples, evenly spread over it. */
typedef struct {
    data_source all;
    uint64_t step;
} spread;

static status read_spread(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const spread *from = s->state;
    return from->all.read(&from->all, sample * from->step, scratch, fields);
}

static status check_spread(const data_source *s) {
    const spread *from = s->state;
    return data_source_check(&from->all);
}

static data_source spread_of(spread *from, int64_t most) {
    data_source some = from->all;
    from->step = from->all.samples / (uint64_t)most;
    if (from->step < 1) from->step = 1;
    some.samples = from->step > 1 ? (uint64_t)most : from->all.samples;
    some.read = read_spread, some.check = check_spread, some.close = NULL, some.state = from;
    return some;
}

static status take_scales(void *context, const plan *p, exec *e) {
    const quantizing *q = context;
    (void)p;
    for (uint32_t i = 0; i < q->count; i++) {
        exec_value x = exec_state(e, q->weights[i].name);
        float largest;
        if (!text_ends_with(q->weights[i].name, ".input_scale") || !x.bytes) continue;
        TRY(exec_read(e, &x, 0, &largest, sizeof largest));
        float scale = codes_scale(codes_size(largest));
        if (!isfinite(scale))
            return status_set(STATUS_FAILED,
                              "what goes into %s is not finite somewhere in the data to calibrate with",
                              q->weights[i].name);
        *(float *)q->weights[i].data = scale;
    }
    return STATUS_OK;
}

/* With `r` NULL it is only planned. */
static status calibrate(quantizing *q, evaluate_result *r) {
    const quantize_options *o = q->options;
    setup_options options = o->run;
    spread from = { 0 };
    TRY(text_source_open(&(text_source_options){ .path = o->calibrate,
                                                 .kind = options.data_kind,
                                                 .hold_out = true,
                                                 .context = (uint32_t)q->result->context,
                                                 .vocabulary = (uint32_t)families_vocabulary(&q->config) },
                         &from.all));
    status result = setup_check_text(&from.all, &options, o->directory);
    if (result == STATUS_OK) result = text_source_enough(&from.all);
    data_source some = spread_of(&from, options.eval_samples);
    options.model = o->directory;
    options.context = q->result->context;
    options.data = options.eval_data = NULL;
    options.eval_source = &some;
    options.passes[q->number] = "calibrate";
    if (result == STATUS_OK) result = evaluate(q, options, &(evaluate_observer){ q, take_scales }, r);
    data_source_close(&from.all);
    return result;
}

/* ---- everything is planned before anything is done ---- */

/* Codes are made beside no pool: what that takes is the program itself and what the weights pass through. */
static status plan_converting(quantizing *q) {
    const setup_options *o = &q->options->run;
    device_runtime own = device_runtime_reserve(o->threads ? (int)o->threads : threads_available());
    uint64_t listed, budget;
    TRY(setup_budget(o, &budget));
    TRY(weight_files_held(q->options->directory, &listed));
    uint64_t needed =
        own.code + own.threads + own.tables + listed + quantized_files_held(q->weights, q->count);
    if (needed > q->result->planned_bytes) q->result->planned_bytes = needed;
    if (needed <= budget) return STATUS_OK;
    char have[UNITS_TEXT_BYTES], want[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT,
                      "making codes of the weights of %s does not fit %s: it needs %s (%llu bytes)",
                      q->options->directory, units_bytes_text(budget, have), units_bytes_text(needed, want),
                      (unsigned long long)needed);
}

/* The evaluation of what is written is that of the same model in its form. */
static status plan_all(quantizing *q) {
    setup_options options;
    if (evaluation_of(q, q->options->directory, NULL, &options)) {
        TRY(evaluate(q, options, NULL, NULL));
        evaluation_of(q, q->options->directory, q->setting.text, &options);
        TRY(evaluate(q, options, NULL, NULL));
    }
    if (q->options->is_static) TRY(calibrate(q, NULL));
    return plan_converting(q);
}

/* ---- together ---- */

static status write_files(quantizing *q) {
    const quantize_options *o = q->options;
    model_config_stored stored = { .method = pass_stores_as(q->pass, &q->setting),
                                   .setting = q->setting.text };
    TRY(make_room(q, ".weight_scale"));
    TRY(quantized_files_convert(o->directory, o->out, q->weights, q->count, &q->result->bytes));
    give_room_back(q);
    TRY(model_config_write(o->out, &q->config, &stored));
    return tokenizer_files_copy(o->directory, o->out);
}

static status write_all(quantizing *q) {
    weight_files_writing w;
    TRY(weight_files_begin(q->options->out, &w));
    return weight_files_end(&w, write_files(q));
}

/* As long as it was trained on, where that is known. */
static status context_of(const quantizing *q, int64_t *context) {
    int64_t all = families_context(&q->config), trained;
    TRY(trained_context(q->options->directory, &trained));
    *context = q->options->run.context ? q->options->run.context : trained && trained < all ? trained : all;
    return STATUS_OK;
}

static status quantize(quantizing *q) {
    const quantize_options *o = q->options;
    quantize_result *r = q->result;
    TRY(model_config_read(o->directory, &q->config, NULL));
    families_model(&q->config, o->directory, &q->model);
    TRY(model_computes(&q->model));
    r->no_text = q->model.no_text != NULL;
    TRY(context_of(q, &r->context));
    r->trained = !o->run.context && r->context < families_context(&q->config);
    TRY(check_places(o));
    TRY(find_pass(q));
    TRY(list_weights(q));
    TRY(plan_all(q));
    TRY(measure_loss(q, o->directory, &r->loss_before));
    if (o->is_static) {
        evaluate_result found;
        TRY(make_room(q, ".input_scale"));
        TRY(calibrate(q, &found));
        r->calibrated = found.samples;
    }
    TRY(write_all(q));
    return r->evaluated ? measure_loss(q, o->out, &r->loss_after) : STATUS_OK;
}

status quantize_run(const quantize_options *o, quantize_result *r) {
    *r = (quantize_result){ 0 };
    quantizing *q = memory_new(1, sizeof *q); /* large for a stack */
    if (!q) return status_set(STATUS_FAILED, "no memory to quantize a model");
    q->options = o, q->result = r;
    status result = graph_open(&q->g);
    if (result == STATUS_OK) result = quantize(q);
    r->resident_peak_bytes = device_resident_peak();
    give_room_back(q);
    memory_free(q->weights);
    graph_close(&q->g);
    memory_free(q);
    return result;
}
