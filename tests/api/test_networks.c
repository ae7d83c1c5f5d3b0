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

/* Their sum, each times its weight. */
static void two_of_them(snug_graph *g, snug_tensor x, snug_tensor targets) {
    snug_squared_error(g, x, targets);
    snug_loss_weight(g, 0.25);
    snug_binary_cross_entropy(g, x, targets);
}

static void losses_of_numbers_have_their_gradients(void **state) {
    (void)state;
    static const struct {
        const char *name;
        loss_function loss;
    } cases[] = { { "squared", snug_squared_error },
                  { "absolute", snug_absolute_error },
                  { "two", two_of_them },
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

/* ---- images, ids and soft labels ---- */

enum { SIDE = 6, CHANNELS = 2, IDS = 7, CLASSES = 5 };

static int read_images(void *context, int64_t i, void *const fields[]) {
    float *image = fields[0], *targets = fields[2], sum = 0;
    uint64_t state = (uint64_t)i * 977 + 5;
    (void)context;
    scratch_random(&state);
    for (int k = 0; k < SIDE * SIDE * CHANNELS; k++)
        image[k] = (float)(scratch_random(&state) % 2001) / 1000 - 1;
    *(int32_t *)fields[1] = (int32_t)(i % IDS);
    for (int k = 0; k < CLASSES; k++) sum += targets[k] = (float)(scratch_random(&state) % 1000 + 1);
    for (int k = 0; k < CLASSES; k++) targets[k] /= sum;
    return 0;
}

static void has_shape(snug_graph *g, snug_tensor x, snug_shape should) {
    snug_shape is = snug_shape_of(g, x);
    bool same = is.rank == should.rank + 1;
    for (uint32_t d = 0; d < should.rank && same; d++) same = is.dim[d + 1] == should.dim[d];
    if (!same) snug_linear(g, "a wrong shape", x, 1); /* the name is refused */
}

/* Each function of shapes and images once, with all its arguments. */
static snug_tensor look(snug_graph *g) {
    const snug_conv2d_options same = { .padding = 1 }, apart = { .stride = 1, .groups = 3 };
    snug_tensor x = snug_convolution(g, "eyes", snug_input(g, "image"), 3, 3, &same);
    x = snug_tanh(g, x);
    has_shape(g, x, SNUG_SHAPE(SIDE, SIDE, 3));
    snug_tensor y = snug_mean_pool(g, x, 2, 2, 0);
    has_shape(g, y, SNUG_SHAPE(3, 3, 3));
    snug_tensor w = snug_parameter(g, "apart", SNUG_SHAPE(3, 1, 2, 2), 0, 0.5);
    y = snug_max_pool(g, snug_conv2d(g, y, w, 0, &apart), 2, 1, 1);
    has_shape(g, y, SNUG_SHAPE(3, 3, 3));
    snug_tensor turned = snug_transpose(g, x, 1, 3), some = snug_slice(g, turned, 1, 1, 2);
    has_shape(g, some, SNUG_SHAPE(2, SIDE, SIDE));
    some = snug_linear(g, "some", snug_reshape(g, some, SNUG_SHAPE(2 * SIDE * SIDE)), 4);
    snug_tensor both[] = { y, snug_slice(g, snug_transpose(g, x, 2, 1), 1, 2, 3) };
    both[1] = snug_slice(g, both[1], 2, 0, 3);
    snug_tensor joined = snug_concat(g, both, 2, 2);
    has_shape(g, joined, SNUG_SHAPE(3, 6, 3));
    joined = snug_mean_places(g, joined);
    snug_tensor all[] = { some, joined,
                          snug_embedding(g, snug_input(g, "id"),
                                         snug_parameter(g, "table", SNUG_SHAPE(IDS, 4), 0, 1)) };
    return snug_concat(g, all, 3, 1);
}

static void build_images(void *context, snug_graph *g) {
    (void)context;
    snug_tensor x = look(g), hidden = snug_tanh(g, snug_linear(g, "hidden", x, HIDDEN));
    snug_tensor logits = snug_linear(g, "classes", hidden, CLASSES);
    snug_soft_cross_entropy(g, logits, snug_input(g, "shares"));
    snug_output(g, snug_softmax(g, logits));
    snug_output_named(g, "features", x);
    snug_output_named(g, "hidden", hidden);
    snug_output_named(g, "logits", logits);
}

static const snug_network images = { .name = "images",
                                     .fields = { { "image", SNUG_SHAPE(SIDE, SIDE, CHANNELS), SNUG_F32 },
                                                 { .name = "id", .type = SNUG_I32 },
                                                 { "shares", SNUG_SHAPE(CLASSES), SNUG_F32 } },
                                     .build = build_images };
static const snug_data pictures = { .samples = SAMPLES, .read = read_images };

static void shapes_and_images_have_their_gradients(void **state) {
    (void)state;
    check_gradients(&images, &pictures);
}

static const struct {
    const char *name;
    int64_t each;
} outputs[] = { { "output", CLASSES }, { "features", 11 }, { "hidden", HIDDEN }, { "logits", CLASSES } };
enum { OUTPUTS = 4, AT_ONCE = 5 };

typedef struct {
    float image[AT_ONCE][SIDE * SIDE * CHANNELS];
    int32_t id[AT_ONCE];
} batch_of_images;

/* All outputs of samples first .. first + count - 1, one after the other, as `p` tells them at once. */
static void predict(snug_predictor *p, int64_t first, int64_t count, float *to[OUTPUTS]) {
    batch_of_images b;
    float shares[CLASSES];
    for (int64_t i = 0; i < count; i++)
        read_images(NULL, first + i, (void *[]){ b.image[i], &b.id[i], shares });
    const float *y = snug_predict_batch(p, count, (const void *const[]){ b.image, b.id, NULL }, NULL);
    if (!y) fail_msg("%s", snug_error());
    assert_ptr_equal(y, snug_predicted(p, "output", NULL));
    for (int o = 0; o < OUTPUTS; o++) {
        int64_t got;
        y = snug_predicted(p, outputs[o].name, &got);
        assert_non_null(y);
        assert_int_equal(got, count * outputs[o].each);
        memcpy(to[o] + first * outputs[o].each, y, (size_t)got * sizeof *y);
    }
}

static void predict_all(snug_predictor *p, int64_t at_once, float told[OUTPUTS][12 * 11]) {
    float *to[OUTPUTS];
    for (int o = 0; o < OUTPUTS; o++) to[o] = told[o];
    for (int64_t first = 0; first < 12; first += at_once)
        predict(p, first, 12 - first < at_once ? 12 - first : at_once, to);
}

/* The outputs by each other: softmax(logits), and classes(hidden), in which the first layer's features went.
 */
static void outputs_belong_together(float told[OUTPUTS][12 * 11]) {
    for (int i = 0; i < 12; i++) {
        double sum = 0;
        for (int k = 0; k < CLASSES; k++) sum += exp((double)told[3][i * CLASSES + k]);
        for (int k = 0; k < CLASSES; k++)
            assert_true(fabs(exp((double)told[3][i * CLASSES + k]) / sum - (double)told[0][i * CLASSES + k]) <
                        1e-5);
        for (int k = 0; k < HIDDEN; k++) assert_true(fabsf(told[2][i * HIDDEN + k]) <= 1);
    }
}

static void batches_and_outputs_are_predicted_with_the_bits_of_one(void **state) {
    (void)state;
    snug_options o = usual();
    o.steps = 3, o.learning_rate = 0.1, o.out = "images";
    train(&images, &pictures, &o);
    static float one[OUTPUTS][12 * 11], some[OUTPUTS][12 * 11];
    snug_predictor *p = snug_load(&images, "images", 0, 1);
    uint64_t bytes = snug_predictor_bytes(p);
    assert_null(snug_predicted(p, "output", NULL));
    assert_non_null(strstr(snug_error(), "nothing was predicted"));
    predict_all(p, 1, one);
    outputs_belong_together(one);
    snug_unload(p);
    for (int threads = 1; threads <= 2; threads++) {
        p = snug_load_batch(&images, "images", 0, threads, "cpu", AT_ONCE);
        assert_non_null(p);
        predict_all(p, AT_ONCE, some);
        assert_memory_equal(one, some, sizeof one);
        assert_true(snug_predictor_bytes(p) > bytes);
        assert_null(snug_predicted(p, "mask", NULL));
        assert_non_null(strstr(snug_error(), "no output 'mask'"));
        batch_of_images b = { .id = { 0, 1, IDS } };
        for (int64_t count = 0; count < 8; count += 6) {
            assert_null(snug_predict_batch(p, count, (const void *const[]){ b.image, b.id, NULL }, NULL));
            assert_non_null(strstr(snug_error(), "loaded for 1 to 5"));
        }
        assert_null(snug_predict_batch(p, 3, (const void *const[]){ b.image, b.id, NULL }, NULL));
        assert_non_null(strstr(snug_error(), "sample 2"));
        assert_non_null(strstr(snug_error(), "'id' is 7"));
        bytes = snug_predictor_bytes(p);
        snug_unload(p);
    }
    assert_null(snug_load_batch(&images, "images", 0, 1, NULL, 0));
    assert_non_null(strstr(snug_error(), "batch is 0"));
    assert_null(snug_load_batch(&images, "images", 4 << 20, 1, NULL, AT_ONCE));
    assert_non_null(strstr(snug_error(), "does not fit"));
}

/* ---- what the functions compute, by hand ---- */

enum { HIGH = 4, BROAD = 3, DEEP = 2 };

static void build_plain(void *context, snug_graph *g) {
    (void)context;
    snug_tensor x = snug_scale(g, snug_input(g, "x"), 1);
    snug_output_named(g, "slice", snug_slice(g, x, 2, 1, 2));
    snug_output_named(g, "concat", snug_concat(g, (snug_tensor[]){ x, snug_slice(g, x, 1, 3, 1) }, 2, 1));
    snug_output_named(g, "near", snug_transpose(g, x, 1, 2));
    snug_output_named(g, "far", snug_transpose(g, x, 3, 1));
    snug_output_named(g, "largest", snug_max_pool(g, x, 2, 1, 1));
    snug_output_named(g, "mean", snug_mean_pool(g, x, 2, 1, 1));
    snug_output_named(g, "places", snug_mean_places(g, x));
    x = snug_linear(g, "a", snug_mean_places(g, snug_reshape(g, x, SNUG_SHAPE(HIGH, BROAD * DEEP))), 1);
    snug_output_named(g, "product", snug_multiply(g, snug_relu(g, x), snug_scale(g, x, -2)));
    snug_squared_error(g, x, snug_input(g, "y"));
}

static int read_plain(void *context, int64_t i, void *const fields[]) {
    (void)context;
    for (int k = 0; k < HIGH * BROAD * DEEP; k++) ((float *)fields[0])[k] = (float)((k * 7 + i * 5) % 24);
    *(float *)fields[1] = 0;
    return 0;
}

static float x_at(const float *x, int i, int j, int c) { return x[(i * BROAD + j) * DEEP + c]; }

/* Number k of an output of sample x, and which output. */
static double by_hand(int which, const float *x, int k) {
    int c = k % DEEP, count = 0;
    double sum = 0, most = -1;
    switch (which) {
    case 0: return (double)x_at(x, k / 4, 1 + k / DEEP % 2, c);
    case 1: return (double)x_at(x, k / 6 < HIGH ? k / 6 : 3, k / DEEP % BROAD, c);
    case 2: return (double)x_at(x, k / DEEP % HIGH, k / DEEP / HIGH, c);
    case 3: return (double)x_at(x, k % HIGH, k / HIGH % BROAD, k / HIGH / BROAD);
    default: break;
    }
    int row = k / DEEP / (BROAD + 1), column = k / DEEP % (BROAD + 1);
    for (int i = 0; i < HIGH; i++)
        for (int j = 0; j < BROAD; j++) {
            bool inside = i >= row - 1 && i <= row && j >= column - 1 && j <= column;
            if (which < 6 && !inside) continue;
            sum += (double)x_at(x, i, j, c), count++;
            most = fmax(most, (double)x_at(x, i, j, c));
        }
    return which == 4 ? most : sum / count;
}

static void functions_compute_what_they_say(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int each;
    } told[] = { { "slice", 16 },   { "concat", 30 }, { "near", 24 },  { "far", 24 },
                 { "largest", 40 }, { "mean", 40 },   { "places", 2 }, { "product", 1 } };
    const snug_network n = { .name = "plain",
                             .fields = { { "x", SNUG_SHAPE(HIGH, BROAD, DEEP), SNUG_F32 },
                                         { .name = "y", .type = SNUG_F32 } },
                             .build = build_plain };
    const snug_data data = { .samples = SAMPLES, .read = read_plain };
    float x[3][HIGH * BROAD * DEEP], y;
    snug_options o = usual();
    o.steps = 0, o.out = "plain";
    train(&n, &data, &o);
    snug_predictor *p = snug_load_batch(&n, "plain", 0, 1, NULL, 3);
    assert_non_null(p);
    for (int i = 0; i < 3; i++) read_plain(NULL, i, (void *[]){ x[i], &y });
    assert_non_null(snug_predict_batch(p, 3, (const void *const[]){ x, NULL }, NULL));
    for (int f = 0; f < 8; f++) {
        int64_t count;
        const float *is = snug_predicted(p, told[f].name, &count);
        assert_non_null(is);
        assert_int_equal(count, 3 * told[f].each);
        for (int k = 0; k < 3 * told[f].each; k++) {
            double should = f < 7 ? by_hand(f, x[k / told[f].each], k % told[f].each) : (double)is[k];
            if (fabs((double)is[k] - should) > 1e-5)
                fail_msg("number %d of '%s' is %g, not %g", k, told[f].name, (double)is[k], should);
            assert_true(f < 7 || is[k] <= 0); /* relu(x) (-2 x) */
        }
    }
    snug_unload(p);
}

/* ---- a recurrent network, by building ---- */

enum { LENGTH = 6, SYMBOLS = 4, STATE = 8 };

/* Does symbol 0 come more often than symbol 1? And how often is it, as a number? */
static int read_sequence(void *context, int64_t i, void *const fields[]) {
    int32_t *symbols = fields[0], count = 0;
    uint64_t state = (uint64_t)i * 31 + 7;
    (void)context;
    scratch_random(&state);
    for (int t = 0; t < LENGTH; t++) {
        symbols[t] = (int32_t)(scratch_random(&state) % SYMBOLS);
        count += symbols[t] == 0;
    }
    *(float *)fields[1] = (float)count / LENGTH;
    return 0;
}

/* A product with a matrix that all steps share. */
static snug_tensor shared(snug_graph *g, snug_tensor x, const snug_tensor w[2]) {
    return snug_matmul(g, x, w[0], w[1], false);
}

static void build_recurrent(void *context, snug_graph *g) {
    static const char *const names[3] = { "open", "reset", "new" };
    snug_tensor table = snug_parameter(g, "symbols", SNUG_SHAPE(SYMBOLS, STATE), 0, 1);
    snug_tensor x = snug_embedding(g, snug_input(g, "sequence"), table), w[3][2], h = 0;
    (void)context;
    for (int k = 0; k < 3; k++) {
        char bias[16];
        snprintf(bias, sizeof bias, "%s.bias", names[k]);
        w[k][0] = snug_parameter(g, names[k], SNUG_SHAPE(2 * STATE, STATE), 0, 0.25);
        w[k][1] = snug_parameter(g, bias, SNUG_SHAPE(STATE), 0, 0);
    }
    for (int t = 0; t < LENGTH; t++) { /* GRU: h = n + z (h - n), n = tanh(W [x, r h]) */
        snug_tensor now = snug_reshape(g, snug_slice(g, x, 1, t, 1), SNUG_SHAPE(STATE));
        if (!h) h = snug_scale(g, now, 0);
        snug_tensor both = snug_concat(g, (snug_tensor[]){ now, h }, 2, 1);
        snug_tensor z = snug_sigmoid(g, shared(g, both, w[0])), r = snug_sigmoid(g, shared(g, both, w[1]));
        both = snug_concat(g, (snug_tensor[]){ now, snug_multiply(g, r, h) }, 2, 1);
        snug_tensor n = snug_tanh(g, shared(g, both, w[2]));
        h = snug_add(g, n, snug_multiply(g, z, snug_add(g, h, snug_scale(g, n, -1))));
    }
    snug_tensor y = snug_linear(g, "count", h, 1);
    snug_squared_error(g, y, snug_input(g, "share"));
    snug_output(g, y);
}

static const snug_network recurrent = { .name = "recurrent",
                                        .fields = { { "sequence", SNUG_SHAPE(LENGTH), SNUG_I32 },
                                                    { .name = "share", .type = SNUG_F32 } },
                                        .build = build_recurrent };

static void a_recurrent_network_is_built_and_trains(void **state) {
    (void)state;
    snug_data data = { .samples = SAMPLES, .read = read_sequence };
    check_gradients(&recurrent, &data);
    snug_options o = usual();
    o.optimizer = SNUG_ADAMW, o.learning_rate = 0.01, o.batch = 64, o.steps = 300;
    data.samples = 512, o.eval_samples = 256;
    double loss = train(&recurrent, &data, &o);
    if (!(loss < 0.004)) fail_msg("the loss is %g; guessing has 0.03", loss);
}

#ifdef SNUG_CUDA_EMULATED
static void turned_soft(snug_graph *g, snug_tensor x, snug_tensor targets) {
    x = snug_transpose(g, snug_reshape(g, x, SNUG_SHAPE(1, HIDDEN)), 2, 1);
    snug_soft_cross_entropy(g, snug_reshape(g, x, SNUG_SHAPE(HIDDEN)), targets);
}

static void same_on_a_gpu(const snug_network *n, const snug_data *data) {
    static const char *const on[] = { "cpu", "emulated" };
    char *weights[2];
    uint64_t bytes[2];
    double loss[2];
    for (int k = 0; k < 2; k++) {
        char path[64];
        snug_options o = usual();
        o.device = on[k], o.out = on[k], o.steps = 3, o.learning_rate = 0.1;
        loss[k] = train(n, data, &o);
        snprintf(path, sizeof path, "%s/model.safetensors", on[k]);
        assert_int_equal(io_read_file(path, 1 << 20, &weights[k], &bytes[k]), STATUS_OK);
    }
    assert_int_equal(bytes[0], bytes[1]);
    if (memcmp(weights[0], weights[1], bytes[0]) != 0 || loss[0] != loss[1])
        fail_msg("%s: a GPU makes other bits", n->name);
    memory_free(weights[0]), memory_free(weights[1]);
}

static void a_gpu_trains_with_the_bits_of_the_cpu(void **state) {
    (void)state;
    static const loss_function losses[] = { snug_squared_error, snug_absolute_error,
                                            snug_binary_cross_entropy, turned_soft };
    const snug_data numbers = { .samples = SAMPLES, .read = read_numbers };
    const snug_data sequences = { .samples = SAMPLES, .read = read_sequence };
    for (int k = 0; k < 4; k++) {
        const snug_network n = { .name = "elementwise",
                                 .fields = { { "x", SNUG_SHAPE(INPUTS), SNUG_F32 },
                                             { "targets", SNUG_SHAPE(HIDDEN), SNUG_F32 } },
                                 .build = build_elementwise,
                                 .context = (void *)&losses[k] };
        same_on_a_gpu(&n, &numbers);
    }
    same_on_a_gpu(&recurrent, &sequences);
}
#endif

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

static void no_weight(void *context, snug_graph *g) {
    (void)context;
    snug_loss_weight(g, 0);
    snug_squared_error(g, snug_linear(g, "a", snug_input(g, "x"), HIDDEN), snug_input(g, "targets"));
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
        { no_weight, NULL, "loss_weight: 0", "above 0" },
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

/* Each misuse ends in a sentence that names the function and the shapes. */
enum { MISUSES = 19 };

static void misuse(void *context, snug_graph *g) {
    snug_tensor image = snug_input(g, "image"), x = snug_input(g, "shares");
    snug_tensor parts[] = { image, snug_slice(g, image, 3, 0, 1) };
    switch (*(const int *)context) {
    case 0: snug_slice(g, image, 0, 0, 1); break;
    case 1: snug_slice(g, image, 4, 0, 1); break;
    case 2: snug_slice(g, image, 2, 3, 4); break;
    case 3: snug_slice(g, image, 2, INT64_MAX, 4); break;
    case 4: snug_concat(g, parts, 2, 1); break;
    case 5: snug_concat(g, parts, 0, 1); break;
    case 6: snug_concat(g, NULL, 2, 1); break;
    case 7: snug_concat(g, (snug_tensor[]){ image, x }, 2, 1); break;
    case 8: snug_transpose(g, image, 0, 1); break;
    case 9: snug_transpose(g, x, 1, 2); break;
    case 10: snug_max_pool(g, image, 7, 1, 0); break;
    case 11: snug_mean_pool(g, image, 2, 0, 0); break;
    case 12: snug_mean_places(g, x); break;
    case 13: snug_convolution(g, "c", x, 3, 3, NULL); break;
    case 14: snug_convolution(g, "c", image, 3, 7, NULL); break;
    case 15: snug_conv2d(g, image, snug_parameter(g, "w", SNUG_SHAPE(3, 4, 2, 2), 0, 1), 0, NULL); break;
    case 16: snug_output_named(g, "a", snug_relu(g, x)), snug_output_named(g, "a", snug_tanh(g, x)); break;
    case 17: x = snug_relu(g, x), snug_output(g, x), snug_output_named(g, "b", x); break;
    default:
        for (int i = 0; i < SNUG_MAX_OUTPUTS + 1; i++)
            snug_output_named(g, (char[]){ (char)('a' + i), 0 }, snug_relu(g, x));
    }
    snug_squared_error(g, snug_linear(g, "a", snug_input(g, "shares"), CLASSES), snug_input(g, "shares"));
}

static void misuses_are_sentences(void **state) {
    (void)state;
    static const char *const sentences[MISUSES] = {
        "slice: dimension 0 of (1,6,6,2); it must be from 1 to 3",
        "slice: dimension 4 of (1,6,6,2)",
        "slice: 4 indexes from 3 on are not in dimension 2 of (1,6,6,2)",
        "slice: 4 indexes from 9223372036854775807 on",
        "concat: part 1 is (1,6,6,1), and the first is (1,6,6,2): only dimension 1 may differ",
        "concat: 0 parts",
        "concat: 0 parts",
        "concat: part 1 is (1,5), and the first is (1,6,6,2)",
        "transpose: dimension 0",
        "transpose: dimension 2 of (1,5)",
        "max_pool: windows of 7 in steps of 1 are not in an image of 6 x 6",
        "mean_pool: windows of 2 in steps of 0",
        "mean_places: (1,5) has no places",
        "convolution: (1,5) is no image",
        "images (1,6,6,2) cannot be convolved with (3,2,7,7)",
        "images (1,6,6,2) cannot be convolved with (3,4,2,2)",
        "one output 'a'; this is a second",
        "'output' and 'b' are the same",
        "'i' is one output too many; the most are 8",
    };
    for (int i = 0; i < MISUSES; i++) {
        snug_network n = images;
        snug_options o = usual();
        snug_run *run;
        n.build = misuse, n.context = &i;
        assert_int_equal(snug_plan(&n, &pictures, NULL, &o, &run), SNUG_INVALID);
        assert_null(run);
        if (!strstr(snug_error(), sentences[i])) fail_msg("%d: %s", i, snug_error());
    }
    snug_network n = images;
    snug_options o = usual();
    snug_run *run;
    n.fields[0].name = "output 1"; /* what programs call an output */
    assert_int_equal(snug_plan(&n, &pictures, NULL, &o, &run), SNUG_INVALID);
    assert_non_null(strstr(snug_error(), "cannot have the name 'output 1'"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_of_numbers_have_their_gradients),
        cmocka_unit_test(losses_are_means_over_samples_and_elements),
        cmocka_unit_test(shapes_and_images_have_their_gradients),
        cmocka_unit_test(batches_and_outputs_are_predicted_with_the_bits_of_one),
        cmocka_unit_test(functions_compute_what_they_say),
        cmocka_unit_test(a_recurrent_network_is_built_and_trains),
#ifdef SNUG_CUDA_EMULATED
        cmocka_unit_test(a_gpu_trains_with_the_bits_of_the_cpu),
#endif
        cmocka_unit_test(wrong_networks_are_refused_with_a_sentence),
        cmocka_unit_test(misuses_are_sentences),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
