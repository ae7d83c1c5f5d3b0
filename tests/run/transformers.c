#include "run/transformers.h"
#include "oracle/reach.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void weight(const char *name, const shape *s, float *w) {
    for (int64_t i = 0, n = shape_elements(s); i < n; i++) w[i] = golden_weight(name, (int)s->rank, i);
}

static int32_t token(int step, int64_t sample, int64_t time) {
    return golden_token(step, (int)sample, (int)time, 61);
}

enum { MASK = 60, FIRST_WORD = 3 }; /* the ids below are padding and its like */

static int32_t word(int step, int64_t sample, int64_t time) {
    return FIRST_WORD + golden_token(step, (int)sample, (int)time, MASK - FIRST_WORD);
}

static bool hidden(int step, int64_t sample, int64_t time) { return (step + sample + time) % 4 == 0; }

static int32_t seen(int step, int64_t sample, int64_t time) {
    return hidden(step, sample, time) ? MASK : word(step, sample, time);
}

static int32_t gap(int step, int64_t sample, int64_t time) {
    return hidden(step, sample, time) ? word(step, sample, time) : -100;
}

/* Texts of different lengths, for heads that judge samples, and for answers. */
static int64_t length_of(int step, int64_t sample) { return 24 - (5 * step + 7 * sample) % 20; }

static float score_of(int step, int64_t sample) {
    return (float)((double)(golden_token(step, (int)sample, 3, 17) - 8) / 4);
}

enum { JUDGED = 4 };

static int32_t judged_class(int step, int64_t sample, int64_t time) {
    (void)time;
    return golden_token(step, (int)sample, 2, JUDGED);
}

/* Of models that answer: the answers have lengths of their own. */
static int32_t answer(int step, int64_t sample, int64_t time) {
    return time < 24 - (3 * step + 5 * sample) % 17 ? token(step + 50, sample, time) : -100;
}

enum { CLASSES = 5 };

static int32_t class_of(int step, int64_t sample, int64_t time) {
    return golden_token(step, (int)sample, (int)time, CLASSES);
}

static float pixel(int step, int64_t sample, int64_t i) { return golden_pixel(step, (int)sample, i); }

void transformers_config(const char *family, model_config *c) {
    char path[256];
    text notes = { 0 };
    snprintf(path, sizeof path, SNUG_ROOT "/tests/golden/%s.json", family);
    if (model_config_read(path, c, &notes) != STATUS_OK) fail_msg("%s", status_message());
    text_close(&notes);
}

void transformers_open(transformers *t, const char *family) {
    lab *l = &t->lab;
    const golden *g = &t->golden;
    assert_true(golden_open(&t->golden, family));
    transformers_config(family, &t->config);
    lab_open(l, &(lab_sizes){ .layers = 1,
                              .heads = 1,
                              .channels = 8,
                              .context = 24,
                              .vocabulary = 61,
                              .batch = (int64_t)golden_number(g, "batch"),
                              .clip = golden_number(g, "clip") });
    families_model(&t->config, "golden", &l->model);
    l->model.typed = strstr(family, "_pairs") != NULL;
    l->weight = weight;
    l->token = l->model.masks ? seen : token;
    l->label = l->model.masks ? gap : NULL;
    if (l->model.head.kind != HEAD_LANGUAGE && !l->model.sees) {
        l->token = word, l->label = judged_class, l->score = score_of, l->length = length_of;
        l->padding = (int32_t)families_padding(&t->config);
    }
    if (l->model.answers) l->label = answer, l->length = length_of;
    if (!l->model.context) l->run.context = 1, l->label = class_of, l->pixel = pixel;
    l->rate = (float)golden_number(g, "rate");
    l->run.optimizer.beta1 = golden_number(g, "beta1"), l->run.optimizer.beta2 = golden_number(g, "beta2");
    l->run.optimizer.eps = golden_number(g, "epsilon");
    l->run.optimizer.weight_decay = golden_number(g, "decay");
}

void transformers_close(transformers *t) { golden_close(&t->golden); }

void transformers_losses(const char *family, int64_t micro_batch, const char *settings) {
    transformers t;
    lab_result r;
    transformers_open(&t, family);
    const golden *g = &t.golden;
    compose_choice c = lab_choose(&t.lab, micro_batch, settings);
    lab_run(&t.lab, &c, 0, g->loss_count, &r);
    assert_int_equal(g->loss_count, 10);
    for (int i = 0; i < g->loss_count; i++)
        if (!(fabs((double)r.losses[i] - g->loss[i]) < 2e-5 * g->loss[i]))
            fail_msg("%s %s: loss %d is %.8g, transformers has %.8g", family, settings, i,
                     (double)r.losses[i], g->loss[i]);
    if (!(fabs((double)r.norm - g->norm[9]) < 2e-4 * g->norm[9]))
        fail_msg("%s: the last norm is %.8g, transformers has %.8g", family, (double)r.norm, g->norm[9]);
    lab_result_close(&r);
    transformers_close(&t);
}

/* One step of plain descent at rate 1: w - w' is the gradient. What is kept of one: its norm, then its first
 * values. */
static void gradient_agrees(const char *family, const plan_persistent *x, const float *w,
                            const golden_tensor *t) {
    int64_t n = shape_elements(&x->shape);
    double squares = 0;
    for (int64_t k = 0; k < n; k++) {
        double before = (double)golden_weight(x->name, (int)x->shape.rank, k), mine = before - (double)w[k];
        squares += mine * mine;
        if (k + 1 < t->count &&
            !(fabs(mine - t->value[k + 1]) < 3e-7 * (1 + fabs(before)) + 1e-4 * fabs(t->value[k + 1])))
            fail_msg("%s: gradient of %s[%lld] is %.8g, transformers has %.8g", family, x->name, (long long)k,
                     mine, t->value[k + 1]);
    }
    if (!(fabs(sqrt(squares) - t->value[0]) < 1e-6 + 1e-4 * t->value[0]))
        fail_msg("%s: the norm of the gradient of %s is %.8g, transformers has %.8g", family, x->name,
                 sqrt(squares), t->value[0]);
}

void transformers_gradients(const char *family) {
    transformers t;
    plan p;
    exec *e;
    int compared = 0;
    transformers_open(&t, family);
    lab *l = &t.lab;
    l->rate = 1;
    l->run.optimizer = (optimizer_options){ .kind = OPTIMIZER_SGD };
    compose_choice c = lab_choose(l, 0, "attention=flash");
    assert_int_equal(compose_plan(&l->run, &c, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(l, &p, e);
    lab_hand_in(l, e, "step", 0, 0, l->run.batch);
    reach_run(e, "step");
    for (uint32_t i = 0; i < p.persistent_count; i++) {
        const plan_persistent *x = &p.persistent[i];
        if (x->category != CATEGORY_WEIGHTS || strstr(x->name, ".running_")) continue; /* which has none */
        if (strstr(x->name, ".mask_token")) continue; /* which nothing reads */
        const golden_tensor *of = golden_gradient(&t.golden, x->name);
        if (!of) fail_msg("%s: transformers has no parameter %s", family, x->name);
        gradient_agrees(family, x, exec_persistent(e, x->name), of);
        compared++;
    }
    assert_int_equal(compared + (golden_gradient(&t.golden, "logits") != NULL), t.golden.gradient_count);
    exec_close(e);
    plan_close(&p);
    transformers_close(&t);
}

/* The model of a family, whose validation keeps its logits. */
static const model *keeping;

static void build_keeping(const model *m, graph *g, const model_run *run, model_ports *ports) {
    (void)m;
    keeping->build(keeping, g, run, ports);
    if (run->mode == MODEL_EVALUATE) graph_keep(g, ports->logits, "logits");
}

void transformers_logits(const char *family) {
    transformers t;
    plan p;
    exec *e;
    float mine[64];
    transformers_open(&t, family);
    const golden_tensor *theirs = golden_gradient(&t.golden, "logits");
    assert_non_null(theirs);
    model keeps = t.lab.model;
    keeping = &t.lab.model, keeps.build = build_keeping;
    t.lab.run.model = &keeps, t.lab.run.training = false;
    t.lab.run.eval_samples = t.lab.run.eval_batch = t.lab.run.batch;
    compose_choice c = lab_choose(&t.lab, 0, "");
    assert_int_equal(compose_plan(&t.lab.run, &c, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(&t.lab, &p, e);
    lab_hand_in(&t.lab, e, "evaluate", 0, 0, t.lab.run.batch);
    reach_run(e, "evaluate");
    exec_value logits = exec_output(e, 0, "logits");
    assert_int_equal(logits.bytes, (uint64_t)theirs->count * sizeof *mine);
    assert_int_equal(exec_read(e, &logits, 0, mine, logits.bytes), STATUS_OK);
    for (int64_t i = 0; i < theirs->count; i++)
        if (!(fabs((double)mine[i] - theirs->value[i]) < 2e-6))
            fail_msg("%s: logit %lld is %.8g, transformers has %.8g", family, (long long)i, (double)mine[i],
                     theirs->value[i]);
    exec_close(e);
    plan_close(&p);
    transformers_close(&t);
}

void transformers_configuration(const char *family) {
    model_config c, back;
    text once = { 0 }, twice = { 0 };
    transformers_config(family, &c);
    assert_int_equal(model_config_write(".", &c, NULL), STATUS_OK);
    if (model_config_read("config.json", &back, NULL) != STATUS_OK) fail_msg("%s", status_message());
    model_config_text(&c, &once);
    model_config_text(&back, &twice);
    assert_string_equal(once.data, twice.data);
    assert_int_equal(c.family, back.family);
    text_close(&once);
    text_close(&twice);
}

void transformers_losses_of(const char *const *families, int64_t micro_batch, const char *settings) {
    for (; *families; families++) transformers_losses(*families, micro_batch, settings);
}

void transformers_gradients_of(const char *const *families) {
    for (; *families; families++) transformers_gradients(*families);
}
