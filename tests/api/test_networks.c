/* Networks of people's own, built from every function of snug.h: what training subtracts is the gradient that
 * finite differences of the loss tell. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <snug/snug.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/scratch.h"

enum { SAMPLES = 8, INPUTS = 6, HIDDEN = 5 };

/* ---- gradients ---- */

static snug_options usual(void) {
    snug_options o = snug_defaults();
    o.batch = SAMPLES, o.eval_samples = SAMPLES, o.threads = 2, o.overwrite = true;
    o.optimizer = SNUG_SGD, o.learning_rate = 1, o.weight_decay = 0, o.clip = 0;
    o.warmup = 0, o.schedule = SNUG_CONSTANT;
#ifdef __SANITIZE_ADDRESS__
    o.program_bytes = (uint64_t)8 << 30; /* of which the sanitizer takes what it likes */
#endif
    return o;
}

static double train(const snug_network *n, const snug_data *data, const snug_options *o) {
    snug_run *run;
    snug_result r;
    if (snug_plan(n, data, data, o, &run) != SNUG_OK) fail_msg("%s", snug_error());
    if (snug_train(run, NULL, &r) != SNUG_OK) fail_msg("%s", snug_error());
    snug_close(run);
    return r.eval_loss;
}

/* The loss with the weights in `file` where those of one tensor are moved by `far` along a direction. */
static double loss_at(const snug_network *n, const snug_data *data, const char *file, uint64_t bytes,
                      const safetensors_entry *e, const float *direction, double far) {
    char *moved = memory_new(bytes, 1);
    memcpy(moved, file, bytes);
    for (uint64_t i = 0; i < e->bytes / sizeof(float); i++) {
        float w;
        memcpy(&w, file + e->offset + i * sizeof w, sizeof w);
        w += (float)(far * (double)direction[i]);
        memcpy(moved + e->offset + i * sizeof w, &w, sizeof w);
    }
    FILE *out = fopen("moved.safetensors", "wb");
    assert_int_equal(fwrite(moved, 1, bytes, out), bytes);
    fclose(out);
    memory_free(moved);
    snug_options o = usual();
    o.steps = 0, o.weights = "moved.safetensors";
    return train(n, data, &o);
}

/* The direction of a tensor's gradient, and its length: what one step of SGD at a rate of 1 has subtracted.
 */
static double gradient_of(const char *before, const char *after, const safetensors_entry *e, float *to) {
    double square = 0;
    uint64_t count = e->bytes / sizeof(float);
    for (uint64_t i = 0; i < count; i++) {
        float a, b;
        memcpy(&b, before + e->offset + i * sizeof b, sizeof b);
        memcpy(&a, after + e->offset + i * sizeof a, sizeof a);
        to[i] = b - a;
        square += (double)to[i] * (double)to[i];
    }
    for (uint64_t i = 0; i < count && square > 0; i++) to[i] = (float)((double)to[i] / sqrt(square));
    return sqrt(square);
}

static void check_gradients(const snug_network *n, const snug_data *data) {
    snug_options o = usual();
    char *before, *after;
    uint64_t bytes;
    safetensors s;
    o.steps = 0, o.out = "before";
    train(n, data, &o);
    o.steps = 1, o.out = "after";
    train(n, data, &o);
    assert_int_equal(io_read_file("before/model.safetensors", 1 << 20, &before, &bytes), STATUS_OK);
    assert_int_equal(io_read_file("after/model.safetensors", 1 << 20, &after, &bytes), STATUS_OK);
    assert_int_equal(safetensors_open("before", &s), STATUS_OK);
    for (uint32_t i = 0; i < s.count; i++) {
        const safetensors_entry *e = &s.entries[i];
        float *direction = memory_new(e->bytes, 1);
        const double far = 0.02;
        double length = gradient_of(before, after, e, direction);
        double higher = loss_at(n, data, before, bytes, e, direction, far);
        double told = (higher - loss_at(n, data, before, bytes, e, direction, -far)) / (2 * far);
        if (length < 1e-4) fail_msg("%s: %s has the gradient %g", n->name, e->name, length);
        if (fabs(told - length) > 0.02 * length + 2e-5)
            fail_msg("%s: the gradient of %s is %g, differences tell %g", n->name, e->name, length, told);
        memory_free(direction);
    }
    safetensors_close(&s);
    memory_free(before), memory_free(after);
}

/* ---- elementwise functions, and losses of numbers ---- */

typedef void (*loss_function)(snug_graph *g, snug_tensor x, snug_tensor targets);

static int read_numbers(void *context, int64_t i, void *const fields[]) {
    float *x = fields[0], *targets = fields[1];
    uint64_t state = (uint64_t)i * 977 + 5;
    (void)context;
    scratch_random(&state);
    for (int k = 0; k < INPUTS; k++) x[k] = (float)(scratch_random(&state) % 2001) / 1000 - 1;
    for (int k = 0; k < HIDDEN; k++) targets[k] = (float)(scratch_random(&state) % 1001) / 1000;
    return 0;
}

static void build_elementwise(void *context, snug_graph *g) {
    snug_tensor x = snug_input(g, "x");
    snug_tensor open = snug_sigmoid(g, snug_linear(g, "gate", x, HIDDEN));
    snug_tensor y = snug_multiply(g, open, snug_tanh(g, snug_linear(g, "value", x, HIDDEN)));
    y = snug_add(g, snug_linear(g, "out", y, HIDDEN), snug_relu(g, snug_linear(g, "straight", x, HIDDEN)));
    y = snug_multiply(g, y, y); /* what is read twice gets both gradients */
    (*(const loss_function *)context)(g, y, snug_input(g, "targets"));
    snug_output(g, y);
}

static void losses_of_numbers_have_their_gradients(void **state) {
    (void)state;
    static const struct {
        const char *name;
        loss_function loss;
    } cases[] = { { "squared", snug_squared_error },
                  { "absolute", snug_absolute_error },
                  { "binary", snug_binary_cross_entropy } };
    const snug_data data = { .samples = SAMPLES, .read = read_numbers };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const snug_network n = { .name = cases[i].name,
                                 .fields = { { "x", SNUG_SHAPE(INPUTS), SNUG_F32 },
                                             { "targets", SNUG_SHAPE(HIDDEN), SNUG_F32 } },
                                 .build = build_elementwise,
                                 .context = (void *)&cases[i].loss };
        check_gradients(&n, &data);
    }
}

/* The means by hand, from what the trained network predicts. */
static void losses_are_means_over_samples_and_elements(void **state) {
    (void)state;
    static const loss_function losses[] = { snug_squared_error, snug_absolute_error,
                                            snug_binary_cross_entropy };
    const snug_data data = { .samples = SAMPLES, .read = read_numbers };
    for (int k = 0; k < 3; k++) {
        snug_network n = { .name = "means",
                           .fields = { { "x", SNUG_SHAPE(INPUTS), SNUG_F32 },
                                       { "targets", SNUG_SHAPE(HIDDEN), SNUG_F32 } },
                           .build = build_elementwise,
                           .context = (void *)&losses[k] };
        snug_options o = usual();
        o.steps = 2, o.learning_rate = 0.1, o.out = "means", o.eval_samples = SAMPLES - 1;
        double loss = train(&n, &data, &o), sum = 0;
        snug_predictor *p = snug_load(&n, "means", 0, 1);
        assert_non_null(p);
        for (int64_t i = 0; i < SAMPLES - 1; i++) {
            float x[INPUTS], targets[HIDDEN];
            read_numbers(NULL, i, (void *[]){ x, targets });
            const float *y = snug_predict(p, (const void *const[]){ x, NULL }, NULL);
            assert_non_null(y);
            for (int j = 0; j < HIDDEN; j++) {
                double is = (double)y[j], t = (double)targets[j], away = is - t;
                sum += k == 0 ? away * away : k == 1 ? fabs(away) : log1p(exp(is)) - is * t;
            }
        }
        snug_unload(p);
        assert_true(fabs(loss - sum / (SAMPLES - 1) / HIDDEN) < 1e-5);
    }
}

/* ---- what is refused ---- */

static void other_targets(void *context, snug_graph *g) {
    (void)context;
    snug_squared_error(g, snug_linear(g, "a", snug_input(g, "x"), 3), snug_input(g, "targets"));
}

static void other_factors(void *context, snug_graph *g) {
    (void)context;
    snug_tensor x = snug_input(g, "x");
    snug_squared_error(g, snug_multiply(g, snug_linear(g, "a", x, 3), x), snug_input(g, "targets"));
}

static void two_losses(void *context, snug_graph *g) {
    (void)context;
    snug_tensor x = snug_linear(g, "a", snug_input(g, "x"), HIDDEN);
    snug_squared_error(g, x, snug_input(g, "targets"));
    snug_absolute_error(g, x, snug_input(g, "targets"));
}

static void labels_beside_numbers(void *context, snug_graph *g) {
    (void)context;
    snug_tensor x = snug_linear(g, "a", snug_input(g, "x"), HIDDEN);
    snug_squared_error(g, x, snug_input(g, "targets"));
}

static void whole_targets(void *context, snug_graph *g) {
    (void)context;
    snug_squared_error(g, snug_linear(g, "a", snug_input(g, "x"), 1), snug_input(g, "label"));
}

static void wrong_networks_are_refused_with_a_sentence(void **state) {
    (void)state;
    static const struct {
        void (*build)(void *context, snug_graph *g);
        const char *labels, *sentence, *more;
    } cases[] = {
        { other_targets, NULL, "squared_error: targets (1,5) do not fit predictions (1,3)", "" },
        { other_factors, NULL, "(1,3)", "(1,6)" },
        { two_losses, NULL, "one loss", "snug_absolute_error is a second" },
        { labels_beside_numbers, "label", "squared_error", "'label' as its labels" },
        { whole_targets, NULL, "element_loss", "i32" },
    };
    const snug_data data = { .samples = SAMPLES, .read = read_numbers };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const snug_network n = { .name = "wrong",
                                 .fields = { { "x", SNUG_SHAPE(INPUTS), SNUG_F32 },
                                             { "targets", SNUG_SHAPE(HIDDEN), SNUG_F32 },
                                             { .name = "label", .type = SNUG_I32 } },
                                 .labels = cases[i].labels,
                                 .build = cases[i].build };
        snug_options o = usual();
        snug_run *run;
        assert_int_equal(snug_plan(&n, &data, NULL, &o, &run), SNUG_INVALID);
        assert_null(run);
        if (!strstr(snug_error(), cases[i].sentence) || !strstr(snug_error(), cases[i].more))
            fail_msg("%s", snug_error());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_of_numbers_have_their_gradients),
        cmocka_unit_test(losses_are_means_over_samples_and_elements),
        cmocka_unit_test(wrong_networks_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
