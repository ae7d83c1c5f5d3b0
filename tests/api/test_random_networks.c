/* Random small networks of every function of snug.h, under random budgets: what was planned is what is there,
 * no technique that is exact changes a bit, and the least budget trains. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snug/snug.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/scratch.h"
#include "sanitized.h"

enum { SAMPLES = 1024, BATCH = 512, SIDE = 8, TIME = 6, IDS = 9, NETWORKS = SANITIZED ? 6 : 24 };

/* ---- data: an image, ids, targets and a label; a network reads some of it ---- */

static int read_sample(void *context, int64_t i, void *const fields[]) {
    float *image = fields[0], *targets = fields[2];
    int32_t *ids = fields[1];
    uint64_t state = (uint64_t)i * 977 + 5;
    (void)context;
    scratch_random(&state);
    for (int k = 0; k < SIDE * SIDE * 2; k++) image[k] = (float)(scratch_random(&state) % 2001) / 1000 - 1;
    for (int k = 0; k < TIME; k++) ids[k] = (int32_t)(scratch_random(&state) % IDS);
    for (int k = 0; k < 4; k++) targets[k] = (float)(scratch_random(&state) % 1000) / 1000;
    *(int32_t *)fields[3] = (int32_t)(i % 4);
    return 0;
}

static const snug_data data = { .samples = SAMPLES, .read = read_sample };

/* ---- networks: a stack of functions that are drawn, from an image or from ids to four numbers ---- */

typedef struct {
    snug_graph *g;
    uint64_t state;
    int parts; /* with names */
} drawing;

static int draw(drawing *d, int below) { return (int)(scratch_random(&d->state) % (uint32_t)below); }

static const char *name_of(drawing *d, const char *kind) {
    static _Thread_local char name[64];
    snprintf(name, sizeof name, "%s.%d", kind, d->parts++);
    return name;
}

static snug_tensor apply_function(drawing *d, snug_tensor x) {
    switch (draw(d, 9)) {
    case 0: return snug_relu(d->g, x);
    case 1: return snug_tanh(d->g, x);
    case 2: return snug_sigmoid(d->g, x);
    case 3: return snug_gelu(d->g, x);
    case 4: return snug_silu(d->g, x);
    case 5: return snug_multiply(d->g, snug_sigmoid(d->g, x), snug_tanh(d->g, x));
    case 6: return snug_dropout(d->g, x, 0.1);
    case 7: return snug_add(d->g, x, snug_scale(d->g, snug_tanh(d->g, x), 0.5));
    default: return snug_softmax(d->g, x);
    }
}

static snug_tensor look(drawing *d) {
    snug_tensor x = snug_input(d->g, "image");
    for (int b = 0, n = 1 + draw(d, 3); b < n; b++) {
        snug_block(d->g, b);
        snug_conv2d_options o = { .stride = 1 + draw(d, 2), .padding = 1 };
        int64_t outputs = 2 + 2 * draw(d, 4), before = snug_shape_of(d->g, x).dim[3];
        if (draw(d, 3) == 0) o.groups = 2;
        if (before % 2) o.groups = 1;
        x = apply_function(d, snug_convolution(d->g, name_of(d, "conv"), x, outputs, 3, &o));
        if (draw(d, 3) == 0 && snug_shape_of(d->g, x).dim[1] > 2)
            x = draw(d, 2) ? snug_max_pool(d->g, x, 2, 1 + draw(d, 2), draw(d, 2))
                           : snug_mean_pool(d->g, x, 2, 1 + draw(d, 2), draw(d, 2));
        if (draw(d, 4) == 0) x = snug_transpose(d->g, x, 1, 2);
    }
    snug_block(d->g, -1);
    if (draw(d, 2)) return snug_mean_places(d->g, x);
    snug_shape s = snug_shape_of(d->g, x);
    return snug_reshape(d->g, x, SNUG_SHAPE(s.dim[1] * s.dim[2] * s.dim[3]));
}

static snug_tensor attend(drawing *d, snug_tensor x, int64_t width) {
    const snug_attention_options o = { .heads = 2, .causal = draw(d, 2), .dropout = draw(d, 2) ? 0.1 : 0 };
    snug_tensor gamma = snug_parameter(d->g, name_of(d, "norm"), SNUG_SHAPE(width), 1, 0);
    snug_tensor y = snug_rmsnorm(d->g, x, gamma, 1e-5);
    y = snug_attention(d->g, snug_linear(d->g, name_of(d, "qkv"), y, 3 * width), 0, 0, &o);
    return snug_add(d->g, x, snug_linear(d->g, name_of(d, "out"), y, width));
}

static snug_tensor read_ids(drawing *d) {
    int64_t width = 8 + 8 * draw(d, 3);
    snug_tensor table = snug_parameter(d->g, "table", SNUG_SHAPE(IDS, width), 0, 0.5);
    snug_tensor x = snug_embedding(d->g, snug_input(d->g, "ids"), table);
    if (draw(d, 2))
        x = snug_add_positions(d->g, x, snug_parameter(d->g, "places", SNUG_SHAPE(TIME, width), 0, 0.5));
    for (int b = 0, n = draw(d, 4); b < n; b++) {
        snug_block(d->g, b);
        x = draw(d, 2) ? attend(d, x, width)
                       : apply_function(d, snug_linear(d->g, name_of(d, "in"), x, width));
    }
    snug_block(d->g, -1);
    if (draw(d, 3) == 0) return snug_mean_places(d->g, x);
    snug_tensor parts[3]; /* some of the places */
    for (int k = 0; k < 3; k++)
        parts[k] = snug_reshape(d->g, snug_slice(d->g, x, 1, draw(d, TIME), 1), SNUG_SHAPE(width));
    return snug_concat(d->g, parts, 3, 1);
}

static void end_in_loss(drawing *d, snug_tensor y) {
    snug_tensor targets = snug_input(d->g, "targets");
    switch (draw(d, 4)) {
    case 0: snug_squared_error(d->g, y, targets); break;
    case 1: snug_absolute_error(d->g, y, targets); break;
    case 2: snug_binary_cross_entropy(d->g, y, targets); break;
    default: snug_soft_cross_entropy(d->g, y, targets);
    }
}

static void build(void *context, snug_graph *g) {
    uint64_t seed = *(const uint64_t *)context;
    drawing d = { .g = g, .state = seed / 2 * 31 + 11 };
    scratch_random(&d.state);
    int sides = draw(&d, 3);
    snug_tensor x[2] = { sides != 1 ? look(&d) : 0, sides != 0 ? read_ids(&d) : 0 };
    snug_tensor y = sides == 2 ? snug_concat(g, x, 2, 1) : x[sides];
    for (int n = draw(&d, 3); n > 0; n--)
        y = apply_function(&d, snug_linear(g, name_of(&d, "linear"), y, 8 + 8 * draw(&d, 4)));
    y = snug_linear(g, "end", y, 4);
    if (seed % 2)
        snug_cross_entropy(g, y, snug_input(g, "label"));
    else
        end_in_loss(&d, y);
    snug_output_named(g, "inside", x[0] ? x[0] : x[1]);
    snug_output(g, y);
}

typedef struct {
    snug_network network;
    uint64_t seed;
    char name[24];
} drawn_network;

static void make_network(drawn_network *d, uint64_t seed) {
    d->seed = seed;
    snprintf(d->name, sizeof d->name, "network %llu", (unsigned long long)seed);
    d->network = (snug_network){ .name = d->name,
                                 .fields = { { "image", SNUG_SHAPE(SIDE, SIDE, 2), SNUG_F32 },
                                             { "ids", SNUG_SHAPE(TIME), SNUG_I32 },
                                             { "targets", SNUG_SHAPE(4), SNUG_F32 },
                                             { .name = "label", .type = SNUG_I32 } },
                                 .labels = seed % 2 ? "label" : NULL,
                                 .build = build,
                                 .context = &d->seed };
}

/* ---- runs ---- */

static snug_options usual(void) {
    snug_options o = snug_defaults();
    o.batch = BATCH, o.steps = 2, o.warmup = 0, o.threads = 2, o.eval_samples = 20, o.overwrite = true;
    o.exact = true, o.program_bytes = (uint64_t)64 << 20;
#ifdef __SANITIZE_ADDRESS__
    o.program_bytes = (uint64_t)8 << 30; /* of which the sanitizer takes what it likes */
#endif
    return o;
}

static void stays_below(void *context, const snug_progress *p) {
    (void)context;
    if (p->resident_bytes > p->planned_bytes)
        fail_msg("%llu bytes are there, %llu were planned", (unsigned long long)p->resident_bytes,
                 (unsigned long long)p->planned_bytes);
}

/* Trains within `memory`, 0 for any. Its weights are in `out`. */
static snug_needs train(const snug_network *n, uint64_t memory, bool exact, const char *out, snug_result *r) {
    snug_options o = usual();
    snug_observer observer = { .stepped = stays_below };
    snug_run *run;
    o.memory = memory, o.out = out, o.exact = exact;
    if (snug_plan(n, &data, &data, &o, &run) != SNUG_OK) fail_msg("%s: %s", n->name, snug_error());
    snug_needs needs = snug_run_needs(run);
    assert_true(!memory || needs.peak_bytes <= memory);
    if (snug_train(run, &observer, r) != SNUG_OK) fail_msg("%s: %s", n->name, snug_error());
    snug_close(run);
    assert_true(isfinite(r->loss) && isfinite(r->eval_loss));
    return needs;
}

static void same_weights(const char *name, const char *one, const char *other) {
    char *a, *b;
    uint64_t n, m;
    assert_int_equal(io_read_file(one, 1 << 24, &a, &n), STATUS_OK);
    assert_int_equal(io_read_file(other, 1 << 24, &b, &m), STATUS_OK);
    if (n != m || memcmp(a, b, n) != 0) fail_msg("%s: a budget changed its weights", name);
    memory_free(a), memory_free(b);
}

/* One sample at a time and seven at once, with both outputs. */
static void same_predictions(const snug_network *n, const char *weights) {
    enum { AT_ONCE = 7 };
    static float image[AT_ONCE][SIDE * SIDE * 2], targets[4];
    int32_t ids[AT_ONCE][TIME], label;
    int64_t count[2], each;
    for (int64_t i = 0; i < AT_ONCE; i++)
        read_sample(NULL, 100 + i, (void *[]){ image[i], ids[i], targets, &label });
    snug_predictor *one = snug_load(n, weights, 0, 1),
                   *all = snug_load_batch(n, weights, 0, 2, NULL, AT_ONCE);
    if (!one || !all) fail_msg("%s: %s", n->name, snug_error());
    const float *inside =
        snug_predict_batch(all, AT_ONCE, (const void *const[]){ image, ids, NULL, NULL }, count);
    const float *ends = snug_predicted(all, "output", count + 1);
    if (!inside || !ends) fail_msg("%s: %s", n->name, snug_error());
    assert_int_equal(count[1], AT_ONCE * 4);
    for (int64_t i = 0; i < AT_ONCE; i++) {
        const float *x = snug_predict(one, (const void *const[]){ image[i], ids[i], NULL, NULL }, &each);
        assert_non_null(x);
        assert_int_equal(each * AT_ONCE, count[0]);
        assert_memory_equal(x, inside + i * each, (size_t)each * sizeof *x);
        assert_memory_equal(snug_predicted(one, "output", NULL), ends + i * 4, 4 * sizeof *ends);
    }
    snug_unload(one), snug_unload(all);
}

static double train_with(const snug_network *n, const char *techniques) {
    snug_options o = usual();
    snug_run *run;
    snug_result r;
    o.exact = false, o.techniques = techniques;
    if (snug_plan(n, &data, &data, &o, &run) != SNUG_OK || snug_train(run, NULL, &r) != SNUG_OK)
        fail_msg("%s with %s: %s", n->name, techniques, snug_error());
    snug_close(run);
    return r.eval_loss;
}

/* With techniques pinned that an exact run would not choose: as near to the plain run as numbers of few bits
 * are. */
static void techniques_take_every_network(void **state) {
    (void)state;
    static const char *const pins[] = { "precision=mixed-bf16", "precision=bf16",
                                        "precision=mixed-f16",  "optimizer-state=8bit",
                                        "precision=int8-mixed", "compress-activations=8bit recompute=block" };
    enum { PINS = sizeof pins / sizeof *pins, AT_ONCE = SANITIZED ? 1 : 2 };
    for (uint64_t seed = 0; seed < NETWORKS; seed++) {
        drawn_network d;
        make_network(&d, seed);
        double plain = train_with(&d.network, "precision=off optimizer-state=off compress-activations=off");
        for (uint64_t k = 0; k < AT_ONCE; k++) {
            double loss = train_with(&d.network, pins[(seed + 3 * k) % PINS]);
            if (!(fabs(loss - plain) < 0.02 * plain))
                fail_msg("%s with %s has the loss %g instead of %g", d.name, pins[(seed + 3 * k) % PINS],
                         loss, plain);
        }
    }
}

static void budgets_change_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < NETWORKS; seed++) {
        drawn_network drawn;
        make_network(&drawn, seed);
        const snug_network n = drawn.network;
        const char *name = n.name;
        snug_result any, some;
        snug_needs plain = train(&n, 0, true, "any", &any), needs;
        uint64_t least = plain.least_budget_bytes, between = (plain.peak_bytes - least) * (seed % 5) / 5;
        assert_true(plain.fits && least < plain.peak_bytes);
        for (int k = 0; k < 2; k++) {
            needs = train(&n, k ? least + between : least, true, "some", &some);
            assert_true(k || needs.peak_bytes == least);
            assert_true(any.loss == some.loss && any.eval_loss == some.eval_loss);
            same_weights(name, "any/model.safetensors", "some/model.safetensors");
        }
        least = train(&n, 0, false, "some", &some).least_budget_bytes;
        needs = train(&n, least, false, "some", &some);
        assert_true(needs.peak_bytes == least && needs.micro_batch < BATCH);
        assert_true(fabs(some.loss - any.loss) < 0.02 * any.loss);
        same_predictions(&n, "any");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(techniques_take_every_network),
                                        cmocka_unit_test(budgets_change_nothing) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
