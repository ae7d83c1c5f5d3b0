/* The decoders against Hugging Face's transformers: ten losses, the last norm, and of every gradient of the
 * first step its norm and its first values, for a tiny model of each family (tools/goldens_transformers.py
 * made the numbers). Also: techniques on them, generating, and configurations that come back as they were. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/threads.h"
#include "golden/golden.h"
#include "io/model_config.h"
#include "run/lab.h"

static const char *const families[] = { "llama", "mistral",     "qwen2",    "qwen3",  "phi",       "phi3",
                                        "gemma", "gemma3_text", "gpt_neox", "gemma2", "qwen3_yarn" };
enum { FAMILIES = sizeof families / sizeof *families };

static void weight(const char *name, const shape *s, float *w) {
    for (int64_t i = 0, n = shape_elements(s); i < n; i++) w[i] = golden_weight(name, (int)s->rank, i);
}

static int32_t token(int step, int64_t sample, int64_t time) {
    return golden_token(step, (int)sample, (int)time, 61);
}

static void read_config(const char *family, model_config *c) {
    char path[256];
    text notes = { 0 };
    snprintf(path, sizeof path, SNUG_ROOT "/tests/golden/%s.json", family);
    if (model_config_read(path, c, &notes) != STATUS_OK) fail_msg("%s", status_message());
    text_close(&notes);
}

static void open_lab(lab *l, const model_config *c, const golden *g) {
    lab_open(l, &(lab_sizes){ .layers = 1,
                              .heads = 1,
                              .channels = 8,
                              .context = 24,
                              .vocabulary = 61,
                              .batch = (int64_t)golden_number(g, "batch"),
                              .clip = golden_number(g, "clip") });
    families_model(c, "golden", &l->model);
    l->weight = weight, l->token = token;
    l->rate = (float)golden_number(g, "rate");
    l->run.optimizer.beta1 = golden_number(g, "beta1"), l->run.optimizer.beta2 = golden_number(g, "beta2");
    l->run.optimizer.eps = golden_number(g, "epsilon");
    l->run.optimizer.weight_decay = golden_number(g, "decay");
}

static void losses_agree(const char *family, int64_t micro_batch, const char *settings) {
    golden g;
    model_config config;
    lab l;
    lab_result r;
    assert_true(golden_open(&g, family));
    read_config(family, &config);
    open_lab(&l, &config, &g);
    compose_choice c = lab_choose(&l, micro_batch, settings);
    lab_run(&l, &c, 0, g.loss_count, &r);
    assert_int_equal(g.loss_count, 10);
    for (int i = 0; i < g.loss_count; i++)
        if (!(fabs((double)r.losses[i] - g.loss[i]) < 2e-5 * g.loss[i]))
            fail_msg("%s %s: loss %d is %.8g, transformers has %.8g", family, settings, i,
                     (double)r.losses[i], g.loss[i]);
    if (!(fabs((double)r.norm - g.norm[9]) < 2e-4 * g.norm[9]))
        fail_msg("%s: the last norm is %.8g, transformers has %.8g", family, (double)r.norm, g.norm[9]);
    lab_result_close(&r);
    golden_close(&g);
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

static void gradients_agree(const char *family) {
    golden g;
    model_config config;
    lab l;
    plan p;
    exec *e;
    int compared = 0;
    assert_true(golden_open(&g, family));
    read_config(family, &config);
    open_lab(&l, &config, &g);
    l.rate = 1;
    l.run.optimizer = (optimizer_options){ .kind = OPTIMIZER_SGD };
    compose_choice c = lab_choose(&l, 0, "attention=flash");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(&l, &p, e);
    lab_hand_in(&l, e, PROGRAM_STEP, 0, 0, l.run.batch);
    exec_run(e, PROGRAM_STEP);
    for (uint32_t i = 0; i < p.persistent_count; i++) {
        const plan_persistent *x = &p.persistent[i];
        if (x->category != CATEGORY_WEIGHTS) continue;
        const golden_tensor *t = golden_gradient(&g, x->name);
        if (!t) fail_msg("%s: transformers has no parameter %s", family, x->name);
        gradient_agrees(family, x, exec_persistent(e, x->name), t);
        compared++;
    }
    assert_int_equal(compared, g.gradient_count);
    exec_close(e);
    plan_close(&p);
    golden_close(&g);
}

static void losses_are_those_of_transformers(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) losses_agree(families[i], 0, "");
}

static void gradients_are_those_of_transformers(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) gradients_agree(families[i]);
}

static void techniques_change_nothing(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        losses_agree(families[i], 0,
                     "fuse=on attention=flash recompute=block update_early=twice chunk_loss=32");
        losses_agree(families[i], 1, "attention=flash recompute=cheap accumulate=add");
    }
}

/* The logits of position after position, from caches, are those of the whole text at once. */
static void decoding_agrees(const char *family) {
    enum { TIMES = 24 };
    golden g;
    model_config config;
    lab l;
    plan p;
    exec *e;
    double loss = 0;
    assert_true(golden_open(&g, family));
    read_config(family, &config);
    open_lab(&l, &config, &g);
    l.run.batch = 3;
    assert_int_equal(compose_decode(&l.run, NULL, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(&l, &p, e);
    for (int t = 0; t < TIMES; t++) {
        int32_t *tokens = exec_input(e, PROGRAM_DECODE, "tokens");
        *(int32_t *)exec_input(e, PROGRAM_DECODE, "position") = t;
        for (int b = 0; b < 3; b++) tokens[b] = token(0, b, t);
        exec_run(e, PROGRAM_DECODE);
        const float *logits = exec_output(e, PROGRAM_DECODE, "logits");
        for (int b = 0; b < 3; b++) {
            const float *row = logits + b * 61;
            double sum = 0;
            for (int v = 0; v < 61; v++) sum += exp((double)row[v]);
            loss += log(sum) - (double)row[token(0, b, t + 1)];
        }
    }
    if (!(fabs(loss / (3 * TIMES) - g.loss[0]) < 1e-5 * g.loss[0]))
        fail_msg("%s: the loss of decoded logits is %.8g, transformers has %.8g", family, loss / (3 * TIMES),
                 g.loss[0]);
    exec_close(e);
    plan_close(&p);
    golden_close(&g);
}

static void decoding_is_the_same_model(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) decoding_agrees(families[i]);
}

static void configurations_come_back(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        model_config c, back;
        text once = { 0 }, twice = { 0 };
        read_config(families[i], &c);
        assert_int_equal(model_config_write(".", &c, NULL), STATUS_OK);
        if (model_config_read("config.json", &back, NULL) != STATUS_OK) fail_msg("%s", status_message());
        model_config_text(&c, &once);
        model_config_text(&back, &twice);
        assert_string_equal(once.data, twice.data);
        assert_true(c.decoder.kind == back.decoder.kind && c.decoder.head_size == back.decoder.head_size);
        assert_memory_equal(c.decoder.far, back.decoder.far, sizeof c.decoder.far);
        text_close(&once);
        text_close(&twice);
    }
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_those_of_transformers),
                                        cmocka_unit_test(gradients_are_those_of_transformers),
                                        cmocka_unit_test(techniques_change_nothing),
                                        cmocka_unit_test(decoding_is_the_same_model),
                                        cmocka_unit_test(configurations_come_back) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
