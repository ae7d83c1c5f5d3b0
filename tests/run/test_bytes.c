/* Bytes of a small GPT by hand: every category as a formula of the model's sizes, which knows nothing of
 * graphs, lifetimes or plans. Plan and measurement must both give these numbers.
 *
 * A step's memory is largest where the gradient of the logits is alive: all of forward is still there, and
 * the head computes the gradient of the embeddings (which it shares) or the gradient of its input. Which of
 * the two is the peak depends on the scratch of their products, which only kernels know: that is asked of
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oracle/reach.h"
#include "run/lab.h"

static const lab_sizes sizes = {
    .layers = 2, .heads = 2, .channels = 32, .context = 64, .vocabulary = 500, .batch = 8
};

enum {
    LAYERS = 2,
    HEADS = 2,
    CHANNELS = 32,
    CONTEXT = 64,
    VOCABULARY = 500,
    BATCH = 8,
    INNER = 4 * CHANNELS
};

/* How numbers are held: bytes of a matrix's and of a vector's number, of an activation's, and of a gradient's
 * of the embeddings. */
typedef struct {
    const char *settings;
    int64_t micro_batch;
    int matrix, vector, activation;
    bool recomputed; /* of a block nothing is kept but its input */
    bool stored;     /* gradients outlive a micro-batch */
    bool early;      /* one number says whether updates apply */
    bool rounded;    /* a key for random rounding, of 16 bytes */
} form;

/* Every buffer begins at a multiple of 64 bytes. */
static uint64_t buffer(int64_t numbers, int bytes) { return (uint64_t)((numbers * bytes + 63) / 64 * 64); }

/* ---- what outlives a step ---- */

/* A linear layer: a matrix and a bias. */
static uint64_t linear(const form *f, int64_t in, int64_t out) {
    return buffer(in * out, f->matrix) + buffer(out, f->vector);
}

/* A norm: a scale and a shift. */
static uint64_t norm(const form *f) { return 2 * buffer(CHANNELS, f->vector); }

/* Tokens and positions; per block two norms, attention (queries, keys and values; then back) and the feed
 * forward (four times as wide; then back); a last norm. The head is the embedding of tokens. */
static uint64_t weights(const form *f) {
    uint64_t block = 2 * norm(f) + linear(f, CHANNELS, 3 * CHANNELS) + linear(f, CHANNELS, CHANNELS) +
                     linear(f, CHANNELS, INNER) + linear(f, INNER, CHANNELS);
    return buffer(VOCABULARY * CHANNELS, f->matrix) + buffer(CONTEXT * CHANNELS, f->matrix) + LAYERS * block +
           norm(f);
}

/* AdamW: two moments of each weight in its type, and a count of steps. */
static uint64_t optimizer(const form *f) { return 2 * weights(f) + buffer(1, 4); }

/* ---- what is alive at the peak ---- */

typedef struct {
    int64_t rows;
    uint64_t row, statistic; /* a value of every channel, and one f32, for every row */
} widths;

static widths widths_of(const form *f) {
    int64_t rows = (f->micro_batch ? f->micro_batch : BATCH) * CONTEXT;
    return (widths){ rows, buffer(rows * CHANNELS, f->activation), buffer(rows, 4) };
}

/* What backward reads of a block: both norms' results with mean and deviation of each row; queries, keys and
 * values; what attention gives, with its probabilities in f32; the feed forward before and after its GELU. */
static uint64_t block_activations(const form *f) {
    widths w = widths_of(f);
    uint64_t norms = 2 * (w.row + 2 * w.statistic);
    uint64_t attention =
        buffer(w.rows * 3 * CHANNELS, f->activation) + w.row + buffer(w.rows * HEADS * CONTEXT, 4);
    return norms + attention + 2 * buffer(w.rows * INNER, f->activation);
}

/* The gradient of the logits takes the place of the logits. The last norm's result is read by the product
 * that makes the gradient of the embeddings, the first of the two. */
static uint64_t activations(const form *f, bool first) {
    widths w = widths_of(f);
    uint64_t head = 2 * w.statistic + buffer(w.rows * VOCABULARY, f->activation) + (first ? w.row : 0);
    uint64_t sums = f->activation == 2 ? 2 * LAYERS * w.row : 0; /* in 16 bits these are nobody's guests */
    return head + (f->recomputed ? 0 : LAYERS * block_activations(f) + sums);
}

/* The stream of residuals: what the embedding has written, and after each half of a block (of a block that is
 * recomputed, at its end) the sum with what the half gave, in the buffer of the half's last product. They
 * count as what those buffers were made for. And the gradient of the head's input. */
static uint64_t temporaries(const form *f, bool first) {
    widths w = widths_of(f);
    uint64_t sums = f->activation == 2 ? 0 : (f->recomputed ? LAYERS : 2 * LAYERS);
    return (1 + sums + (first ? 0 : 1)) * w.row + (f->early ? buffer(1, 4) : 0);
}

/* Of a batch at once only the head's has begun to exist. */
static uint64_t gradients(const form *f) {
    return f->stored ? weights(f) : buffer(VOCABULARY * CHANNELS, f->matrix);
}

/* Tokens, which the embedding's gradient reads again; labels are gone. One learning rate, one loss. */
static uint64_t inputs(const form *f) {
    return buffer(widths_of(f).rows, 4) + 2 * buffer(1, 4) + (f->rounded ? buffer(4, 4) : 0);
}

/* ---- a run ---- */

/* Of the product whose result has `rows` rows of all channels, behind the loss. */
static uint64_t scratch_of(const program *p, int64_t rows) {
    uint64_t found = 0;
    for (uint32_t s = 0; s < p->count && !found; s++) {
        const node *n = graph_node(&p->graph, p->steps[s].node);
        const shape *y = graph_shape(&p->graph, node_out(&p->graph, n, 0));
        bool head = n->phase == PHASE_BACKWARD && n->site == SITE_NONE && n->op->traits & OP_PRODUCT;
        if (head && shape_rows(y) == rows) found = (p->steps[s].scratch_bytes + 63) / 64 * 64;
    }
    assert_true(found > 0);
    return found;
}

static void run_step(const lab *l, exec *e, const compose_choice *c) {
    compose_split split = compose_split_of(&l->run, c);
    *(float *)exec_persistent(e, "loss") = 0;
    for (int64_t i = 0; i <= split.accumulate; i++) {
        const char *k = i < split.accumulate ? "accumulate" : "step";
        lab_hand_in(l, e, k, 0, i * c->micro_batch, i == split.accumulate ? split.last : c->micro_batch);
        reach_run(e, k);
    }
}

static void same(uint64_t is, uint64_t should, category c, const char *who, const form *f) {
    if (is != should)
        fail_msg("'%s': %s are %llu bytes by hand, %s: %llu", f->settings, category_name(c),
                 (unsigned long long)should, who, (unsigned long long)is);
}

static void check(const form *f) {
    lab l;
    plan p;
    exec *e;
    lab_open(&l, &sizes);
    l.run.eval_samples = 0;
    compose_choice c = lab_choose(&l, f->micro_batch, f->settings);
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, EXEC_OBSERVE, &e), STATUS_OK);
    lab_fill_weights(&l, &p, e);
    run_step(&l, e, &c);
    exec_measured m;
    assert_int_equal(exec_measure(e, &m), STATUS_OK);

    const program *step = reach_planned(&p, "step");
    uint64_t scratch[] = { scratch_of(step, VOCABULARY), scratch_of(step, widths_of(f).rows) };
    uint64_t live[2], expected[2][CATEGORY_COUNT];
    for (int second = 0; second < 2; second++) {
        uint64_t *of = expected[second];
        of[CATEGORY_WEIGHTS] = weights(f), of[CATEGORY_GRADIENTS] = gradients(f);
        of[CATEGORY_CACHE] = 0, of[CATEGORY_OPTIMIZER] = optimizer(f),
        of[CATEGORY_ACTIVATIONS] = activations(f, !second);
        of[CATEGORY_TEMPORARIES] = temporaries(f, !second), of[CATEGORY_SCRATCH] = scratch[second];
        of[CATEGORY_INPUTS] = inputs(f), of[CATEGORY_RUNTIME] = 0;
        live[second] = of[CATEGORY_ACTIVATIONS] + of[CATEGORY_TEMPORARIES] + of[CATEGORY_SCRATCH] +
                       of[CATEGORY_INPUTS] - buffer(1, 4) + (f->stored ? 0 : gradients(f));
    }
    int peak = live[1] > live[0]; /* of equals the first */
    expected[peak][CATEGORY_GAPS] = p.pools[POOL_MEMORY].arena_bytes - live[peak];
    for (int k = 0; k < CATEGORY_COUNT; k++) {
        if (k == CATEGORY_RUNTIME) continue;
        same(p.by_category[k], expected[peak][k], (category)k, "planned", f);
        same(m.by_category[k], expected[peak][k], (category)k, "measured", f);
    }
    assert_int_equal(m.arena_live_bytes, live[peak]);
    assert_int_equal(p.lower_bound_bytes, live[peak]);
    exec_close(e);
    plan_close(&p);
}

static void every_category_is_what_it_is_by_hand(void **state) {
    (void)state;
    static const form forms[] = {
        { "", 0, 4, 4, 4, .recomputed = false },
        { "recompute=block", 0, 4, 4, 4, .recomputed = true },
        { "accumulate=add", 4, 4, 4, 4, .stored = true },
        { "accumulate=add", 2, 4, 4, 4, .stored = true },
        { "accumulate=add recompute=block", 4, 4, 4, 4, .recomputed = true, .stored = true },
        { "update_early=on", 0, 4, 4, 4, .early = true },
        { "precision=bf16", 0, 2, 4, 2, .rounded = true },
        { "precision=bf16:nearest", 0, 2, 4, 2, .rounded = false },
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check(&forms[i]);
}

/* ---- seconds ---- */

static void add_kernels(const program *p, double *seconds) {
    for (uint32_t s = 0; p && s < p->count; s++) *seconds += p->steps[s].seconds;
}

/* A batch in parts takes the time of all of them, as predicted kernel by kernel. */
static void every_part_of_a_batch_takes_time(void **state) {
    (void)state;
    static const int64_t parts[] = { 8, 4, 2, 1 };
    for (int i = 0; i < 4; i++) {
        lab l;
        plan p;
        double step = 0, accumulate = 0;
        lab_open(&l, &sizes);
        compose_choice c = lab_choose(&l, parts[i], parts[i] < 8 ? "accumulate=add" : "");
        assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
        add_kernels(reach_planned(&p, "step"), &step);
        add_kernels(reach_planned(&p, "accumulate"), &accumulate);
        double expected = step + (double)(BATCH / parts[i] - 1) * accumulate,
               is = compose_seconds(&l.run, &p);
        if (!(is > 0.999999 * expected && is < 1.000001 * expected))
            fail_msg("%d at a time: %g s, its kernels take %g", (int)parts[i], is, expected);
        assert_true(parts[i] == 8 || accumulate > 0);
        plan_close(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_category_is_what_it_is_by_hand),
        cmocka_unit_test(every_part_of_a_batch_takes_time),
    };
    return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
