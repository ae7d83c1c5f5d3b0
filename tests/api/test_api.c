#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <snug/snug.h>

#include "base/memory.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/scratch.h"

enum { SAMPLES = 96, INPUTS = 6, HIDDEN = 10, CLASSES = 5 };

/* ---- a small classifier: which of the first five inputs is the largest? ---- */

static int read_points(void *context, int64_t i, void *const fields[]) {
    const int64_t *ignored_every = context;
    float *x = fields[0];
    int32_t *label = fields[1], best = 0;
    uint64_t state = (uint64_t)i * 977 + 5;
    scratch_random(&state);
    for (int k = 0; k < INPUTS; k++) x[k] = (float)(scratch_random(&state) % 2001) / 1000 - 1;
    for (int32_t k = 1; k < CLASSES; k++)
        if (x[k] > x[best]) best = k;
    *label = ignored_every && i % *ignored_every == 0 ? SNUG_IGNORED_LABEL : best;
    return 0;
}

static void build_classifier(void *context, snug_graph *g) {
    (void)context;
    snug_tensor x = snug_gelu(g, snug_linear(g, "hidden", snug_input(g, "point"), HIDDEN));
    x = snug_linear(g, "classes", x, CLASSES);
    snug_cross_entropy(g, x, snug_input(g, "class"));
    snug_output(g, snug_predicting(g) ? snug_softmax(g, x) : x);
}

static const snug_network classifier = {
    .name = "classifier",
    .fields = { { "point", SNUG_SHAPE(INPUTS), SNUG_F32 }, { .name = "class", .type = SNUG_I32 } },
    .labels = "class",
    .build = build_classifier,
};
static const snug_data points = { .samples = SAMPLES, .read = read_points };

static snug_options usual(void) {
    snug_options o = snug_defaults();
    o.batch = 32, o.steps = 40, o.learning_rate = 0.02, o.warmup = 0, o.threads = 2;
    o.eval_samples = 50;
#ifdef __SANITIZE_ADDRESS__
    o.program_bytes = (uint64_t)8 << 30; /* of which the sanitizer takes what it likes */
#endif
    return o;
}

static snug_result train(const snug_network *n, const snug_data *data, const snug_options *o) {
    snug_run *run;
    snug_result r;
    if (snug_plan(n, data, data, o, &run) != SNUG_OK) fail_msg("%s", snug_error());
    if (snug_train(run, NULL, &r) != SNUG_OK) fail_msg("%s", snug_error());
    snug_close(run);
    return r;
}

/* ---- plans ---- */

static void plans_answer_before_anything_runs(void **state) {
    (void)state;
    snug_options o = usual();
    snug_run *run;
    assert_int_equal(snug_plan(&classifier, &points, &points, &o, &run), SNUG_OK);
    snug_needs n = snug_run_needs(run);
    assert_true(n.fits);
    assert_int_equal(n.parameters, INPUTS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES);
    assert_true(n.least_budget_bytes <= n.peak_bytes && n.pool_bytes < n.peak_bytes);
    assert_true(n.plain_peak_bytes > 0 && n.step_seconds > 0 && n.micro_batch >= 1);
    assert_non_null(strstr(snug_run_text(run), "classifier"));
    assert_non_null(strstr(snug_run_json(run), "\"least_budget_bytes\""));
    snug_close(run);
    snug_close(NULL);

    assert_int_equal(snug_plan(&classifier, NULL, NULL, &o, &run), SNUG_OK);
    assert_int_equal(snug_train(run, NULL, NULL), SNUG_INVALID);
    assert_non_null(strstr(snug_error(), "without data"));
    snug_close(run);
}

static void the_least_budget_is_the_least(void **state) {
    (void)state;
    snug_options o = usual();
    snug_run *run;
    if (!o.program_bytes) o.program_bytes = (uint64_t)64 << 20; /* measuring again may give more */
    assert_int_equal(snug_plan(&classifier, &points, &points, &o, &run), SNUG_OK);
    uint64_t least = snug_run_needs(run).least_budget_bytes;
    snug_close(run);
    o.memory = least;
    assert_int_equal(snug_plan(&classifier, &points, &points, &o, &run), SNUG_OK);
    assert_int_equal(snug_run_needs(run).peak_bytes, least);
    assert_int_equal(snug_train(run, NULL, NULL), SNUG_OK);
    snug_close(run);
    o.memory = least - 1;
    assert_int_equal(snug_plan(&classifier, &points, &points, &o, &run), SNUG_NO_FIT);
    assert_non_null(strstr(snug_error(), "least budget"));
    assert_non_null(run);
    assert_false(snug_run_needs(run).fits);
    assert_int_equal(snug_run_needs(run).least_budget_bytes, least);
    assert_non_null(snug_run_text(run));
    assert_int_equal(snug_train(run, NULL, NULL), SNUG_NO_FIT);
    snug_close(run);
}

/* ---- training ---- */

typedef struct {
    int steps, evaluations;
    double first, last, evaluated;
    volatile sig_atomic_t stop;
    int stop_at;
} witness;

static void note_step(void *context, const snug_progress *p) {
    witness *w = context;
    if (p->step == 1) w->first = p->loss;
    w->last = p->loss;
    w->steps++;
    assert_int_equal(p->step, w->steps);
    assert_true(p->seconds > 0 && p->resident_bytes > 0 && p->resident_bytes <= p->planned_bytes);
    if (w->steps == w->stop_at) w->stop = 1;
}

static void note_evaluation(void *context, int64_t step, double loss) {
    witness *w = context;
    assert_int_equal(step, w->steps);
    w->evaluations++;
    w->evaluated = loss;
}

static void training_learns_and_tells(void **state) {
    (void)state;
    snug_options o = usual();
    o.steps = 120, o.eval_every = 50;
    witness w = { .stop_at = -1 };
    snug_observer observer = { &w, note_step, note_evaluation, &w.stop };
    snug_run *run;
    snug_result r;
    assert_int_equal(snug_plan(&classifier, &points, &points, &o, &run), SNUG_OK);
    assert_int_equal(snug_train(run, &observer, &r), SNUG_OK);
    assert_int_equal(w.steps, 120);
    assert_int_equal(w.evaluations, 3);
    assert_true(w.first > 1 && w.last < 0.6);
    assert_true(r.loss == w.last && r.eval_loss == w.evaluated && r.steps == 120);
    assert_true(r.eval_loss < 0.6 && r.seconds > 0 && r.step_seconds > 0);
    snug_result again;
    assert_int_equal(snug_train(run, NULL, &again), SNUG_OK);
    assert_true(again.loss == r.loss && again.eval_loss == r.eval_loss);
    snug_close(run);
}

static void a_run_stops_when_asked(void **state) {
    (void)state;
    snug_options o = usual();
    o.out = "stopped";
    witness w = { .stop_at = 7 };
    snug_observer observer = { &w, note_step, NULL, &w.stop };
    snug_run *run;
    snug_result r;
    assert_int_equal(snug_plan(&classifier, &points, NULL, &o, &run), SNUG_OK);
    assert_int_equal(snug_train(run, &observer, &r), SNUG_INTERRUPTED);
    assert_int_equal(r.steps, 7);
    assert_true(isnan(r.eval_loss));
    snug_close(run);
    snug_predictor *p = snug_load(&classifier, "stopped", 0, 0);
    assert_non_null(p);
    snug_unload(p);
    for (int again = 0; again < 2; again++) { /* not replaced without a word for it */
        o.overwrite = again;
        assert_int_equal(snug_plan(&classifier, &points, NULL, &o, &run), SNUG_OK);
        assert_int_equal(snug_train(run, NULL, NULL), again ? SNUG_OK : SNUG_INVALID);
        snug_close(run);
    }
}

static void ignored_labels_do_not_count(void **state) {
    (void)state;
    int64_t every = 2;
    snug_data half = points;
    half.context = &every;
    snug_options o = usual();
    o.steps = 1, o.learning_rate = 0;
    snug_network flat = classifier;
    double all = train(&flat, &points, &o).eval_loss, some = train(&flat, &half, &o).eval_loss;
    assert_true(fabs(all - some) < 0.2); /* a mean over the others, not half of it */
    every = 1;
    assert_true(train(&flat, &half, &o).eval_loss == 0);
}

/* What a sample has instead of what it should have, in its label or its id. */
typedef struct {
    int64_t sample;
    int32_t label, id;
} wrong_number;

static int read_wrongly(void *context, int64_t i, void *const fields[]) {
    const wrong_number *w = context;
    *(int32_t *)fields[0] = i == w->sample ? w->id : (int32_t)(i % 7);
    *(int32_t *)fields[1] = i == w->sample ? w->label : (int32_t)(i % CLASSES);
    return 0;
}

static void build_picker(void *context, snug_graph *g) {
    (void)context;
    snug_tensor table = snug_parameter(g, "table", SNUG_SHAPE(7, INPUTS), 0, 1);
    snug_tensor x = snug_embedding(g, snug_input(g, "id"), table);
    x = snug_linear(g, "classes", x, CLASSES);
    snug_cross_entropy(g, x, snug_input(g, "class"));
    snug_output(g, x);
}

static const snug_network picker = {
    .name = "picker",
    .fields = { { .name = "id", .type = SNUG_I32 }, { .name = "class", .type = SNUG_I32 } },
    .labels = "class",
    .build = build_picker,
};

/* Of training or of validation data. */
static void try_wrong(const wrong_number *w, bool validation, const char *field, const char *allowed) {
    wrong_number none = { .sample = -1 };
    snug_data bad = { .samples = SAMPLES, .read = read_wrongly, .context = (void *)w };
    snug_data good = { .samples = SAMPLES, .read = read_wrongly, .context = &none };
    snug_options o = usual();
    snug_run *run;
    snug_result r;
    o.steps = 4, o.eval_samples = SAMPLES;
    assert_int_equal(snug_plan(&picker, validation ? &good : &bad, validation ? &bad : &good, &o, &run),
                     SNUG_OK);
    snug_status is = snug_train(run, NULL, &r);
    snug_close(run);
    if (!field) {
        assert_int_equal(is, SNUG_OK);
        assert_true(isfinite(r.loss) && r.loss > 0 && isfinite(r.eval_loss));
        return;
    }
    assert_int_equal(is, SNUG_INVALID);
    char sample[32];
    snprintf(sample, sizeof sample, "sample %lld ", (long long)w->sample);
    if (!strstr(snug_error(), sample) || !strstr(snug_error(), field) || !strstr(snug_error(), allowed))
        fail_msg("%s", snug_error());
}

static void numbers_out_of_range_are_refused(void **state) {
    (void)state;
    for (int validation = 0; validation < 2; validation++) {
        try_wrong(&(wrong_number){ 11, 1000000, 0 }, validation, "'class' is 1000000",
                  "from 0 to 4, or -100");
        try_wrong(&(wrong_number){ 12, CLASSES, 0 }, validation, "'class' is 5", "from 0 to 4");
        try_wrong(&(wrong_number){ 13, -1, 0 }, validation, "'class' is -1", "from 0 to 4");
        try_wrong(&(wrong_number){ 95, 0, 7 }, validation, "'id' is 7", "from 0 to 6");
        try_wrong(&(wrong_number){ 0, 0, -100 }, validation, "'id' is -100", "from 0 to 6");
        try_wrong(&(wrong_number){ 14, SNUG_IGNORED_LABEL, 6 }, validation, NULL, NULL);
        try_wrong(&(wrong_number){ 15, CLASSES - 1, 0 }, validation, NULL, NULL);
    }
    snug_options o = usual();
    o.steps = 2, o.out = "picker";
    snug_data good = { .samples = SAMPLES, .read = read_wrongly, .context = &(wrong_number){ .sample = -1 } };
    train(&picker, &good, &o);
    snug_predictor *p = snug_load(&picker, "picker", 0, 0);
    assert_non_null(p);
    for (int32_t id = -2; id < 9; id++) {
        bool there = id >= 0 && id < 7;
        assert_int_equal(snug_predict(p, (const void *const[]){ &id, NULL }, NULL) != NULL, there);
        if (!there) assert_non_null(strstr(snug_error(), "it must be from 0 to 6"));
    }
    snug_unload(p);
}

static int read_badly(void *context, int64_t i, void *const fields[]) {
    return i == 11 ? 42 : read_points(context, i, fields);
}

static void a_failing_callback_ends_the_run(void **state) {
    (void)state;
    snug_data bad = points;
    bad.read = read_badly;
    snug_options o = usual();
    snug_run *run;
    assert_int_equal(snug_plan(&classifier, &bad, NULL, &o, &run), SNUG_OK);
    assert_int_equal(snug_train(run, NULL, NULL), SNUG_FAILED);
    assert_non_null(strstr(snug_error(), "sample 11"));
    assert_non_null(strstr(snug_error(), "42"));
    snug_close(run);
}

/* ---- predictions ---- */

static void read_tensor(const safetensors *s, const char *name, float *into, uint64_t bytes) {
    const safetensors_entry *e = safetensors_find(s, name);
    assert_non_null(e);
    assert_int_equal(safetensors_read(s, e, into, bytes), STATUS_OK);
}

/* The network written out by hand, with the weights of a file. */
static void compute(const char *weights, const float *x, double *out) {
    float w1[INPUTS][HIDDEN], b1[HIDDEN], w2[HIDDEN][CLASSES], b2[CLASSES];
    double h[HIDDEN], sum = 0;
    safetensors s;
    assert_int_equal(safetensors_open(weights, &s), STATUS_OK);
    assert_int_equal(s.count, 4);
    read_tensor(&s, "hidden.weight", &w1[0][0], sizeof w1);
    read_tensor(&s, "hidden.bias", b1, sizeof b1);
    read_tensor(&s, "classes.weight", &w2[0][0], sizeof w2);
    read_tensor(&s, "classes.bias", b2, sizeof b2);
    safetensors_close(&s);
    for (int j = 0; j < HIDDEN; j++) {
        h[j] = (double)b1[j];
        for (int k = 0; k < INPUTS; k++) h[j] += (double)x[k] * (double)w1[k][j];
        h[j] *= 0.5 * erfc(-h[j] / sqrt(2));
    }
    for (int c = 0; c < CLASSES; c++) {
        double y = (double)b2[c];
        for (int j = 0; j < HIDDEN; j++) y += h[j] * (double)w2[j][c];
        sum += out[c] = exp(y);
    }
    for (int c = 0; c < CLASSES; c++) out[c] /= sum;
}

#ifdef SNUG_CUDA_EMULATED
static void assert_same_file(const char *one, const char *other) {
    char *a, *b;
    uint64_t n, m;
    assert_int_equal(io_read_file(one, 1 << 20, &a, &n), STATUS_OK);
    assert_int_equal(io_read_file(other, 1 << 20, &b, &m), STATUS_OK);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    memory_free(a);
    memory_free(b);
}

static void a_gpu_trains_and_predicts_with_the_bits_of_the_cpu(void **state) {
    (void)state;
    static const char *const on[] = { "cpu", "emulated" };
    snug_result r[2];
    float answers[2][CLASSES], x[INPUTS];
    int32_t label;
    read_points(NULL, 1003, (void *[]){ x, &label });
    for (int k = 0; k < 2; k++) {
        snug_options o = usual();
        o.device = on[k], o.out = on[k], o.steps = 8;
        r[k] = train(&classifier, &points, &o);
        snug_predictor *p = snug_load_on(&classifier, on[k], 0, 1, on[k]);
        if (!p) fail_msg("%s", snug_error());
        const float *y = snug_predict(p, (const void *const[]){ x, NULL }, NULL);
        if (!y) fail_msg("%s", snug_error());
        memcpy(answers[k], y, sizeof answers[k]);
        snug_unload(p);
    }
    assert_memory_equal(&r[0].loss, &r[1].loss, sizeof r[0].loss);
    assert_memory_equal(&r[0].eval_loss, &r[1].eval_loss, sizeof r[0].eval_loss);
    assert_memory_equal(answers[0], answers[1], sizeof answers[0]);
    assert_same_file("cpu/model.safetensors", "emulated/model.safetensors");
}
#endif

static void a_device_that_is_not_there_is_refused(void **state) {
    (void)state;
    snug_options o = usual();
    snug_run *run;
    o.device = "abacus";
    assert_int_equal(snug_plan(&classifier, &points, &points, &o, &run), SNUG_INVALID);
    assert_non_null(strstr(snug_error(), "'abacus'"));
    assert_null(snug_load_on(&classifier, "trained", 0, 1, "abacus"));
    assert_non_null(strstr(snug_error(), "'abacus'"));
}

static void predictions_are_those_of_the_trained_network(void **state) {
    (void)state;
    snug_options o = usual();
    o.out = "trained";
    o.steps = 150;
    train(&classifier, &points, &o);
    snug_predictor *p = snug_load(&classifier, "trained", 0, 1);
    assert_non_null(p);
    assert_true(snug_predictor_bytes(p) > 0);
    int right = 0;
    for (int64_t i = 1000; i < 1100; i++) {
        float x[INPUTS];
        int32_t label, best = 0;
        int64_t count;
        double expected[CLASSES];
        read_points(NULL, i, (void *[]){ x, &label });
        const float *y = snug_predict(p, (const void *const[]){ x, NULL }, &count);
        assert_non_null(y);
        assert_int_equal(count, CLASSES);
        compute("trained", x, expected);
        for (int32_t c = 0; c < CLASSES; c++) {
            assert_true(fabs((double)y[c] - expected[c]) < 1e-5);
            if (y[c] > y[best]) best = c;
        }
        right += best == label;
    }
    assert_true(right > 60);
    assert_null(snug_predict(p, (const void *const[]){ NULL, NULL }, NULL));
    assert_non_null(strstr(snug_error(), "'point'"));
    snug_unload(p);
    snug_unload(NULL);
    assert_null(snug_load(&classifier, "nowhere", 0, 0));
    assert_null(snug_load(&classifier, "trained", 1 << 20, 0));
    assert_non_null(strstr(snug_error(), "does not fit"));

    o.weights = "trained", o.steps = 0, o.out = NULL; /* goes on from there */
    snug_result r = train(&classifier, &points, &o);
    o.weights = NULL;
    assert_true(r.eval_loss < 0.6 && train(&classifier, &points, &o).eval_loss > 1);
}

/* ---- a network with everything ---- */

enum { TIME = 16, VOCABULARY = 24, WIDE = 16, HEADS = 2, BLOCKS = 3 };

static int read_words(void *context, int64_t i, void *const fields[]) {
    int32_t *words = fields[0], *next = fields[1];
    (void)context;
    for (int t = 0; t < TIME; t++) {
        words[t] = (int32_t)((i * 5 + t * (i % 3 + 1)) % VOCABULARY);
        next[t] = t < 3 ? SNUG_IGNORED_LABEL : (int32_t)((i * 5 + (t + 1) * (i % 3 + 1)) % VOCABULARY);
    }
    return 0;
}

static snug_tensor ones(snug_graph *g, const char *name, int block) {
    char full[32];
    snprintf(full, sizeof full, "block.%d.%s", block, name);
    return snug_parameter(g, full, SNUG_SHAPE(WIDE), 1, 0);
}

static snug_tensor layer(snug_graph *g, const char *name, int block, snug_tensor x, int64_t width) {
    char full[32];
    snprintf(full, sizeof full, "block.%d.%s", block, name);
    return snug_linear(g, full, x, width);
}

static void build_everything(void *context, snug_graph *g) {
    (void)context;
    const snug_attention_options packed = { .heads = HEADS, .causal = true, .dropout = 0.1 };
    const snug_attention_options shared = { .heads = HEADS, .kv_heads = 1, .causal = true, .window = 8 };
    snug_tensor table = snug_parameter(g, "words", SNUG_SHAPE(VOCABULARY, WIDE), 0, 0.1);
    snug_tensor x = snug_embedding(g, snug_input(g, "words_in"), table);
    x = snug_add_positions(g, x, snug_parameter(g, "places", SNUG_SHAPE(TIME, WIDE), 0, 0.1));
    x = snug_dropout(g, x, 0.1);
    for (int b = 0; b < BLOCKS; b++) {
        snug_block(g, b);
        snug_tensor n = snug_layernorm(g, x, ones(g, "norm", b), b ? 0 : ones(g, "shift", b), 1e-5), y;
        if (b == 0)
            y = snug_attention(g, layer(g, "qkv", b, n, 3 * WIDE), 0, 0, &packed);
        else
            y = snug_attention(g, layer(g, "q", b, n, WIDE), layer(g, "k", b, n, WIDE / HEADS),
                               layer(g, "v", b, n, WIDE / HEADS), &shared);
        x = snug_add(g, x, layer(g, "out", b, y, WIDE));
        n = snug_rmsnorm(g, x, ones(g, "norm2", b), 1e-5);
        y = b == 1 ? snug_silu(g, layer(g, "up", b, n, 32))
                   : snug_swiglu(g, layer(g, "gate", b, n, 32), layer(g, "up", b, n, 32));
        x = snug_add(g, x, snug_scale(g, layer(g, "down", b, y, WIDE), 0.5));
    }
    snug_block(g, -1);
    snug_shape s = snug_shape_of(g, x);
    if (s.rank != 3 || s.dim[1] != TIME || s.dim[2] != WIDE) snug_linear(g, "wrong shape", x, 1);
    x = snug_matmul(g, x, table, 0, true);
    snug_cross_entropy(g, x, snug_input(g, "next"));
    snug_output(g, x);
}

static const snug_network everything = {
    .name = "everything",
    .fields = { { "words_in", SNUG_SHAPE(TIME), SNUG_I32 }, { "next", SNUG_SHAPE(TIME), SNUG_I32 } },
    .labels = "next",
    .build = build_everything,
};
static const snug_data words = { .samples = 64, .read = read_words };

static void every_op_trains(void **state) {
    (void)state;
    snug_options o = usual();
    o.steps = 60, o.batch = 16, o.clip = 1, o.out = "everything";
    snug_result r = train(&everything, &words, &o);
    assert_true(r.eval_loss < 1.0);
    snug_predictor *p = snug_load(&everything, "everything", 0, 0);
    assert_non_null(p);
    int32_t in[TIME], next[TIME];
    int64_t count;
    read_words(NULL, 7, (void *[]){ in, next });
    assert_non_null(snug_predict(p, (const void *const[]){ in, next }, &count));
    assert_int_equal(count, TIME * VOCABULARY);
    snug_unload(p);
}

static void techniques_do_not_change_the_run(void **state) {
    (void)state;
    snug_options o = usual();
    o.steps = 6, o.batch = 16, o.exact = true;
    snug_result all = train(&everything, &words, &o);
    o.threads = 1, o.techniques = "recompute=block";
    snug_result again = train(&everything, &words, &o);
    assert_true(all.loss == again.loss && all.eval_loss == again.eval_loss);
    o.exact = false, o.micro_batch = 4; /* sums in another order */
    snug_result pieces = train(&everything, &words, &o);
    assert_true(fabs(pieces.loss - all.loss) < 1e-4 * all.loss);
    assert_true(fabs(pieces.eval_loss - all.eval_loss) < 1e-4 * all.eval_loss);
}

/* ---- what is refused ---- */

static void no_loss(void *context, snug_graph *g) {
    (void)context, snug_linear(g, "a", snug_input(g, "point"), 5);
}

static void same_name(void *context, snug_graph *g) {
    build_classifier(context, g);
    snug_linear(g, "hidden", snug_input(g, "point"), 5);
}

static void no_such_field(void *context, snug_graph *g) {
    build_classifier(context, g);
    snug_add(g, snug_input(g, "points"), snug_input(g, "point"));
}

static void wrong_shapes(void *context, snug_graph *g) {
    snug_add(g, snug_input(g, "point"), snug_linear(g, "a", snug_input(g, "point"), 5));
    build_classifier(context, g);
}

static void no_tensor(void *context, snug_graph *g) {
    snug_gelu(g, 1000);
    build_classifier(context, g);
}

static void bad_name(void *context, snug_graph *g) {
    snug_parameter(g, "a name", SNUG_SHAPE(3), 0, 0);
    build_classifier(context, g);
}

static void bad_start(void *context, snug_graph *g) {
    snug_parameter(g, "a", SNUG_SHAPE(3), 0, -1);
    build_classifier(context, g);
}

static void bad_size(void *context, snug_graph *g) {
    snug_linear(g, "a", snug_input(g, "point"), 0);
    build_classifier(context, g);
}

static void bad_dropout(void *context, snug_graph *g) {
    snug_dropout(g, snug_input(g, "point"), 1);
    build_classifier(context, g);
}

static void no_attention_options(void *context, snug_graph *g) {
    snug_attention(g, snug_input(g, "point"), 0, 0, NULL);
    build_classifier(context, g);
}

static void no_parameters(void *context, snug_graph *g) {
    (void)context;
    snug_cross_entropy(g, snug_gelu(g, snug_input(g, "point")), snug_input(g, "class"));
}

/* The sentence matters: a network whose fields are wrong is mostly built wrong as well. */
static void refuse_description(snug_network n, const char *sentence) {
    snug_options o = usual();
    snug_run *run;
    assert_int_equal(snug_plan(&n, &points, NULL, &o, &run), SNUG_INVALID);
    assert_null(run);
    if (!strstr(snug_error(), sentence)) fail_msg("%s: %s", sentence, snug_error());
}

static void wrong_networks_are_refused(void **state) {
    (void)state;
    static const struct {
        void (*build)(void *context, snug_graph *g);
        const char *sentence;
    } cases[] = {
        { NULL, "function that builds" },
        { no_loss, "no loss" },
        { same_name, "'hidden.weight'" },
        { no_such_field, "'points'" },
        { wrong_shapes, "add" },
        { no_tensor, "gelu" },
        { bad_name, "'a name'" },
        { bad_start, "deviation -1" },
        { bad_size, "'a.weight'" },
        { bad_dropout, "dropout" },
        { no_parameters, "no parameters" },
        { no_attention_options, "attention: no options" },
    };
    snug_options o = usual();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snug_network n = classifier;
        snug_run *run = NULL;
        n.build = cases[i].build;
        assert_int_equal(snug_plan(&n, &points, NULL, &o, &run), SNUG_INVALID);
        assert_null(run);
        if (!strstr(snug_error(), cases[i].sentence)) fail_msg("%s: %s", cases[i].sentence, snug_error());
    }
    refuse_description((snug_network){ .name = "nothing" }, "a function that builds it");
    snug_network n = classifier;
    n.labels = "klass";
    refuse_description(n, "'klass' are not among the fields");
    n = classifier, n.fields[1].name = n.fields[0].name;
    refuse_description(n, "two fields have the name");
    n = classifier, n.fields[0].name = "loss";
    refuse_description(n, "cannot have the name 'loss'");
    n = classifier, n.fields[0].name = "class.batch"; /* what programs call the whole batch of "class" */
    refuse_description(n, "cannot have the name 'class.batch'");
    n = classifier, n.fields[0].shape.dim[0] = -1;
    refuse_description(n, "impossible shape");
    n = classifier, n.fields[0].name = NULL;
    refuse_description(n, "needs fields");
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    snug_options cases[14];
    static const char *const sentences[14] = { "batch is 0",         "micro_batch is 33", "steps is -1",
                                               "eval_every is -1",   "eval_samples is -", "warmup is -1",
                                               "learning_rate is ",  "clip is -1",        "threads is -2",
                                               "'recompute' is not", "no 'magic'",        "recompute",
                                               "epsilon is 0",       "minimum_rate is 2" };
    for (int i = 0; i < 14; i++) cases[i] = usual();
    cases[0].batch = 0, cases[1].micro_batch = 33, cases[2].steps = -1, cases[3].eval_every = -1;
    cases[4].eval_samples = -1, cases[5].warmup = -1, cases[6].learning_rate = NAN, cases[7].clip = -1;
    cases[8].threads = -2, cases[9].techniques = "recompute", cases[10].techniques = "magic=on";
    cases[11].techniques = "recompute=everywhere", cases[12].epsilon = 0, cases[13].minimum_rate = 2;
    for (int i = 0; i < 14; i++) {
        snug_run *run;
        assert_int_equal(snug_plan(&classifier, &points, NULL, &cases[i], &run), SNUG_INVALID);
        assert_null(run);
        if (!strstr(snug_error(), sentences[i])) fail_msg("%s: %s", sentences[i], snug_error());
    }
    snug_options o = usual();
    snug_run *run;
    snug_data none = { .samples = 0, .read = read_points };
    assert_int_equal(snug_plan(&classifier, &none, NULL, &o, &run), SNUG_INVALID);
    o.weights = "nowhere";
    assert_int_equal(snug_plan(&classifier, &points, NULL, &o, &run), SNUG_OK);
    assert_int_equal(snug_train(run, NULL, NULL), SNUG_INVALID);
    snug_close(run);
    o = usual(), o.momentum = 0.9;
    assert_int_equal(snug_plan(&classifier, &points, NULL, &o, &run), SNUG_INVALID);
    assert_non_null(strstr(snug_error(), "momentum is 0.9"));
}

static void nothing_where_something_belongs_is_refused(void **state) {
    (void)state;
    snug_options o = usual();
    snug_run *run;
    assert_int_equal(snug_plan(NULL, &points, NULL, &o, &run), SNUG_INVALID);
    assert_int_equal(snug_plan(&classifier, &points, NULL, NULL, &run), SNUG_INVALID);
    assert_null(run);
    assert_int_equal(snug_plan(&classifier, &points, NULL, &o, NULL), SNUG_INVALID);
    assert_null(snug_load(NULL, "somewhere", 0, 1));
    assert_null(snug_load(&classifier, NULL, 0, 1));
    assert_non_null(strstr(snug_error(), "snug_load needs"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_answer_before_anything_runs),
        cmocka_unit_test(the_least_budget_is_the_least),
        cmocka_unit_test(training_learns_and_tells),
        cmocka_unit_test(a_run_stops_when_asked),
        cmocka_unit_test(ignored_labels_do_not_count),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(a_failing_callback_ends_the_run),
        cmocka_unit_test(predictions_are_those_of_the_trained_network),
#ifdef SNUG_CUDA_EMULATED
        cmocka_unit_test(a_gpu_trains_and_predicts_with_the_bits_of_the_cpu),
#endif
        cmocka_unit_test(a_device_that_is_not_there_is_refused),
        cmocka_unit_test(every_op_trains),
        cmocka_unit_test(techniques_do_not_change_the_run),
        cmocka_unit_test(wrong_networks_are_refused),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(nothing_where_something_belongs_is_refused),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
