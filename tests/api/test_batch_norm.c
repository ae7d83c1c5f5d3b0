/* Networks of people's own with batch norm, with several losses, with as many fields as there may be, and
 * what pins instructions. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <snug/snug.h>

#include "io/safetensors.h"
#include "io/scratch.h"

enum { SAMPLES = 8, INPUTS = 6, HIDDEN = 5 };

static snug_options usual(void) {
    snug_options o = snug_defaults();
    o.batch = SAMPLES, o.eval_samples = SAMPLES, o.threads = 2, o.overwrite = true;
    o.optimizer = SNUG_SGD, o.learning_rate = 0.05, o.weight_decay = 0, o.clip = 0;
    o.warmup = 0, o.schedule = SNUG_CONSTANT;
#ifdef __SANITIZE_ADDRESS__
    o.program_bytes = (uint64_t)8 << 30; /* of which the sanitizer takes what it likes */
#endif
    return o;
}

static int read_numbers(void *context, int64_t i, void *const fields[]) {
    float *x = fields[0], *targets = fields[1];
    uint64_t state = (uint64_t)i * 977 + 5;
    (void)context;
    scratch_random(&state);
    for (int k = 0; k < INPUTS; k++) x[k] = (float)(scratch_random(&state) % 2001) / 1000 - 1;
    for (int k = 0; k < HIDDEN; k++) targets[k] = (float)(scratch_random(&state) % 1001) / 1000;
    return 0;
}

static const snug_data numbers = { .samples = SAMPLES, .read = read_numbers };

static snug_result train(const snug_network *n, const snug_data *data, const snug_options *o) {
    snug_run *run;
    snug_result r;
    if (snug_plan(n, data, data, o, &run) != SNUG_OK) fail_msg("%s", snug_error());
    if (snug_train(run, NULL, &r) != SNUG_OK) fail_msg("%s", snug_error());
    snug_close(run);
    return r;
}

/* ---- batch norm ---- */

static void build_normed(void *context, snug_graph *g) {
    (void)context;
    snug_tensor y = snug_linear(g, "first", snug_input(g, "x"), HIDDEN);
    y = snug_batch_norm(g, "norm", y, 1e-5, 0.1);
    snug_output(g, y);
    snug_squared_error(g, y, snug_input(g, "targets"));
}

static const snug_network normed = { .name = "normed",
                                     .fields = { { "x", SNUG_SHAPE(INPUTS), SNUG_F32 },
                                                 { "targets", SNUG_SHAPE(HIDDEN), SNUG_F32 } },
                                     .build = build_normed };

static void read_tensor(const safetensors *s, const char *name, float *to, uint64_t count) {
    const safetensors_entry *e = safetensors_find(s, name);
    if (!e || e->bytes != count * sizeof *to) fail_msg("the file has no %s", name);
    assert_int_equal(safetensors_read(s, e, to, e->bytes), STATUS_OK);
}

/* What the norm sees: (samples, HIDDEN). */
static void first_layer(const safetensors *s, double y[SAMPLES][HIDDEN]) {
    float w[INPUTS * HIDDEN], bias[HIDDEN], x[INPUTS], targets[HIDDEN];
    read_tensor(s, "first.weight", w, INPUTS * HIDDEN);
    read_tensor(s, "first.bias", bias, HIDDEN);
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(read_numbers(NULL, i, (void *[]){ x, targets }), 0);
        for (int h = 0; h < HIDDEN; h++) {
            y[i][h] = (double)bias[h];
            for (int k = 0; k < INPUTS; k++) y[i][h] += (double)x[k] * (double)w[k * HIDDEN + h];
        }
    }
}

static void near(double is, double should, const char *what) {
    if (!(fabs(is - should) < 1e-5 * (1 + fabs(should)))) fail_msg("%s is %g, not %g", what, is, should);
}

/* One step takes a tenth of the batch's mean, and of its variance over one sample less. */
static void averages_run_along(void **state) {
    (void)state;
    snug_options o = usual();
    safetensors before, after;
    double y[SAMPLES][HIDDEN];
    float mean[HIDDEN], variance[HIDDEN];
    o.steps = 0, o.out = "begun";
    train(&normed, &numbers, &o);
    o.steps = 1, o.out = "stepped";
    train(&normed, &numbers, &o);
    assert_int_equal(safetensors_open("begun", &before), STATUS_OK);
    assert_int_equal(safetensors_open("stepped", &after), STATUS_OK);
    first_layer(&before, y);
    read_tensor(&before, "norm.running_var", variance, HIDDEN);
    for (int h = 0; h < HIDDEN; h++) assert_true(variance[h] == 1);
    read_tensor(&after, "norm.running_mean", mean, HIDDEN);
    read_tensor(&after, "norm.running_var", variance, HIDDEN);
    for (int h = 0; h < HIDDEN; h++) {
        double m = 0, v = 0;
        for (int i = 0; i < SAMPLES; i++) m += y[i][h] / SAMPLES;
        for (int i = 0; i < SAMPLES; i++) v += (y[i][h] - m) * (y[i][h] - m) / (SAMPLES - 1);
        near((double)mean[h], 0.1 * m, "the running mean");
        near((double)variance[h], 0.9 + 0.1 * v, "the running variance");
    }
    safetensors_close(&before);
    safetensors_close(&after);
}

/* Predictions, and validation, go by the averages; the averages are none of the trained numbers. */
static void averages_predict(void **state) {
    (void)state;
    snug_options o = usual();
    safetensors s;
    double y[SAMPLES][HIDDEN], loss = 0;
    float mean[HIDDEN], variance[HIDDEN], gamma[HIDDEN], beta[HIDDEN], x[INPUTS], targets[HIDDEN];
    snug_run *run;
    o.steps = 60, o.out = "trained";
    assert_int_equal(snug_plan(&normed, &numbers, &numbers, &o, &run), SNUG_OK);
    assert_int_equal(snug_run_needs(run).parameters, INPUTS * HIDDEN + 3 * HIDDEN);
    snug_close(run);
    snug_result r = train(&normed, &numbers, &o);
    assert_int_equal(safetensors_open("trained", &s), STATUS_OK);
    first_layer(&s, y);
    read_tensor(&s, "norm.running_mean", mean, HIDDEN);
    read_tensor(&s, "norm.running_var", variance, HIDDEN);
    read_tensor(&s, "norm.weight", gamma, HIDDEN);
    read_tensor(&s, "norm.bias", beta, HIDDEN);
    snug_predictor *p = snug_load(&normed, "trained", 0, 2);
    if (!p) fail_msg("%s", snug_error());
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(read_numbers(NULL, i, (void *[]){ x, targets }), 0);
        const float *told = snug_predict(p, (const void *[]){ x, NULL }, NULL);
        if (!told) fail_msg("%s", snug_error());
        for (int h = 0; h < HIDDEN; h++) {
            double should =
                (y[i][h] - (double)mean[h]) / sqrt((double)variance[h] + 1e-5) * (double)gamma[h] +
                (double)beta[h];
            near((double)told[h], should, "the prediction");
            loss += pow(should - (double)targets[h], 2) / (SAMPLES * HIDDEN);
        }
    }
    near(r.eval_loss, loss, "the loss of the validation");
    snug_unload(p);
    safetensors_close(&s);
}

static void batches_that_norms_see_are_whole(void **state) {
    (void)state;
    snug_options o = usual();
    snug_run *run;
    o.batch = 1;
    assert_int_equal(snug_plan(&normed, &numbers, NULL, &o, &run), SNUG_INVALID);
    assert_non_null(strstr(snug_error(), "wants two samples or more"));
    o = usual(), o.micro_batch = 4;
    assert_int_equal(snug_plan(&normed, &numbers, NULL, &o, &run), SNUG_INVALID);
    assert_non_null(strstr(snug_error(), "samples of a batch see each other (batch_norm)"));
    assert_non_null(strstr(snug_error(), "--accumulation add"));
    o.techniques = "accumulation=add", o.steps = 2;
    train(&normed, &numbers, &o);
}

/* ---- what is refused ---- */

static void misuse(void *context, snug_graph *g) {
    snug_tensor x = snug_linear(g, "a", snug_input(g, "x"), HIDDEN);
    switch (*(const int *)context) {
    case 0: x = snug_batch_norm(g, "a b", x, 1e-5, 0.1); break;
    case 1: x = snug_batch_norm(g, "n", x, 0, 0.1); break;
    case 2: x = snug_batch_norm(g, "n", x, 1e-5, 0); break;
    case 3: x = snug_batch_norm(g, "n", snug_batch_norm(g, "n", x, 1e-5, 0.1), 1e-5, 0.1); break;
    default: x = snug_batch_norm(g, NULL, x, 1e-5, 0.1);
    }
    snug_squared_error(g, x, snug_input(g, "targets"));
}

static void misuses_are_sentences(void **state) {
    (void)state;
    static const char *const sentences[] = { "the name 'a b'", "epsilon of a norm is 0", "the momentum is 0",
                                             "two parameters or fields have the name 'n.weight'",
                                             "batch_norm: its parameters cannot have the name ''" };
    for (int which = 0; which < (int)(sizeof sentences / sizeof *sentences); which++) {
        snug_network n = normed;
        snug_options o = usual();
        snug_run *run;
        n.build = misuse, n.context = &which;
        assert_int_equal(snug_plan(&n, &numbers, NULL, &o, &run), SNUG_INVALID);
        if (!strstr(snug_error(), sentences[which])) fail_msg("%d: %s", which, snug_error());
    }
}

/* ---- losses ---- */

enum { ONLY_FIRST, ONLY_SECOND, BOTH };

static void build_losses(void *context, snug_graph *g) {
    int which = *(const int *)context;
    snug_tensor x = snug_linear(g, "a", snug_input(g, "x"), HIDDEN);
    if (which != ONLY_SECOND) snug_cross_entropy(g, x, snug_input(g, "class"));
    if (which == BOTH) snug_loss_weight(g, 3);
    if (which != ONLY_FIRST) snug_squared_error(g, x, snug_input(g, "targets"));
}

static int read_classes(void *context, int64_t i, void *const fields[]) {
    *(int32_t *)fields[2] = (int32_t)(i % HIDDEN);
    return read_numbers(context, i, fields);
}

static const snug_data classes = { .samples = SAMPLES, .read = read_classes };

static snug_network with_losses(const int *which) {
    return (snug_network){ .name = "losses",
                           .fields = { { "x", SNUG_SHAPE(INPUTS), SNUG_F32 },
                                       { "targets", SNUG_SHAPE(HIDDEN), SNUG_F32 },
                                       { .name = "class", .type = SNUG_I32 } },
                           .build = build_losses,
                           .context = (void *)which };
}

static double loss_of(int which, int64_t steps, const char *techniques) {
    snug_network n = with_losses(&which);
    snug_options o = usual();
    o.steps = steps, o.techniques = techniques;
    snug_result r = train(&n, &classes, &o);
    return r.eval_loss;
}

static void losses_are_added_by_their_weights(void **state) {
    (void)state;
    double first = loss_of(ONLY_FIRST, 0, NULL), second = loss_of(ONLY_SECOND, 0, NULL);
    near(loss_of(BOTH, 0, NULL), first + 3 * second, "the sum of the losses");
    double plain = loss_of(BOTH, 5, "attention=off");
    assert_true(plain < first + 3 * second);
    /* the scale of gradients is that of all losses, once */
    double half = loss_of(BOTH, 5, "precision=mixed-f16");
    assert_true(fabs(half - plain) < 1e-2 * plain);
    double cut = loss_of(BOTH, 5, "accumulation=add");
    near(cut, plain, "the loss of a batch in parts");
}

/* ---- fields ---- */

static const char *const names[SNUG_MAX_FIELDS] = { "a", "b", "c", "d", "e", "f", "g", "h" };

static void build_fields(void *context, snug_graph *g) {
    (void)context;
    snug_tensor x = snug_input(g, names[0]);
    for (int f = 1; f < SNUG_MAX_FIELDS - 1; f++) x = snug_add(g, x, snug_input(g, names[f]));
    snug_squared_error(g, snug_linear(g, "w", x, 2), snug_input(g, names[SNUG_MAX_FIELDS - 1]));
}

static int read_fields(void *context, int64_t i, void *const fields[]) {
    (void)context;
    for (int f = 0; f < SNUG_MAX_FIELDS; f++)
        for (int k = 0; k < 2; k++) ((float *)fields[f])[k] = (float)((i + 3 * f + k) % 7) / 7;
    return 0;
}

static void as_many_fields_as_there_may_be(void **state) {
    (void)state;
    snug_network n = { .name = "fields", .build = build_fields };
    snug_data data = { .samples = SAMPLES, .read = read_fields };
    snug_options o = usual();
    for (int f = 0; f < SNUG_MAX_FIELDS; f++) n.fields[f] = (snug_field){ names[f], SNUG_SHAPE(2), SNUG_F32 };
    o.steps = 0;
    double before = train(&n, &data, &o).eval_loss;
    o.steps = 30;
    assert_true(train(&n, &data, &o).eval_loss < 0.9 * before);
}

/* ---- instructions ---- */

static void instructions_are_pinned_by_name(void **state) {
    (void)state;
    assert_int_equal(snug_instructions("avx9"), SNUG_INVALID);
    assert_non_null(strstr(snug_error(), "no instructions 'avx9'"));
    assert_int_equal(snug_instructions("widened"), SNUG_OK);
    double widened = loss_of(BOTH, 5, "precision=mixed-bf16");
    assert_int_equal(snug_instructions("plain"), SNUG_OK);
    assert_true(loss_of(BOTH, 5, "precision=mixed-bf16") == widened); /* as on every processor */
    assert_int_equal(snug_instructions("auto"), SNUG_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(averages_run_along),
                                        cmocka_unit_test(averages_predict),
                                        cmocka_unit_test(batches_that_norms_see_are_whole),
                                        cmocka_unit_test(misuses_are_sentences),
                                        cmocka_unit_test(losses_are_added_by_their_weights),
                                        cmocka_unit_test(as_many_fields_as_there_may_be),
                                        cmocka_unit_test(instructions_are_pinned_by_name) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
