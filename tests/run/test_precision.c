/* Precisions are other runs than f32's, by little; beside each of them techniques are as exact as beside f32,
 * and planned bytes are the measured ones in any combination. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "base/threads.h"
#include "oracle/reach.h"
#include "run/lab.h"

static const lab_sizes small = {
    .layers = 2, .heads = 2, .channels = 32, .context = 64, .vocabulary = 97, .batch = 8, .clip = 0.5
};

static const char *const precisions[] = { "mixed-bf16", "mixed-f16",  "bf16",     "bf16:nearest",
                                          "int8",       "int8-mixed", "fp8-mixed" };
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

enum { INT8 = 4 };

/* Weights and gradients of 16 bits, which rounds sums elsewhere where they are cut elsewhere. */
static bool is_stored(int precision) { return precision >= 2 && precision != INT8; }

/* With and without some techniques: equal, or within `distance`. */
static void compare(const lab_sizes *sizes, int precision, int64_t micro_batch, const char *techniques,
                    double distance) {
    char base[64], with[192];
    snprintf(base, sizeof base, "precision=%s", precisions[precision]);
    snprintf(with, sizeof with, "%s %s", base, techniques);
    lab_compare(&(lab_pair){ .sizes = sizes,
                             .base = base,
                             .with = with,
                             .micro_batch = micro_batch,
                             .modes = EXEC_POISON,
                             .distance = distance });
}

static void techniques_stay_exact(void **state) {
    (void)state;
    lab_sizes free = small;
    free.clip = 0;
    for (int i = 0; i < PRECISIONS; i++) {
        double rounded = is_stored(i) ? 0.05 : 0;
        compare(&small, i, 0, "fuse=on", 0);
        compare(&small, i, 0, "fuse=on gelu_epilogue=on", 0);
        compare(&small, i, 0, "recompute=cheap", 0);
        compare(&small, i, 0, "recompute=2", 0);
        compare(&small, i, 0, "recompute=block update_early=twice", 0);
        compare(&small, i, 0, "chunk_loss=256", rounded);
        compare(&small, i, 0, "chunk_loss=256 update_early=twice recompute=block", rounded);
        compare(&small, i, 0, "attention=flash", 0.05);
        compare(&small, i, 4, "accumulate=defer", rounded);
        compare(&small, i, 3, "accumulate=add recompute=block chunk_loss=64", 0.05);
        compare(&small, i, 0, "quantize_state=8bit recompute=block", 0.05);
        compare(&small, i, 0, "offload=optimizer fuse=on recompute=block", 0);
        if (i != 1) compare(&free, i, 0, "update_early=on recompute=block", 0);
    }
}

static uint64_t arena_with(const lab *l, const char *settings) {
    plan p;
    compose_choice c = lab_choose(l, 0, settings);
    if (compose_plan(&l->run, &c, &p) != STATUS_OK) fail_msg("%s", status_message());
    uint64_t arena = p.pools[POOL_MEMORY].arena_bytes;
    plan_close(&p);
    return arena;
}

/* Chunks of the loss know heads that multiply codes: their logits never exist as a whole, in training with
 * the random bits of the whole, and in validation of a quantized model. */
static void heads_on_codes_are_chunked(void **state) {
    (void)state;
    static const char *const forms[] = { "precision=int8",       "precision=int8-mixed",
                                         "precision=fp8-mixed",  "lora=rank=2,base=int8",
                                         "lora=rank=2,base=nf4", "quantize=int8" };
    lab_sizes sizes = small;
    sizes.untied = true, sizes.vocabulary = 900;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char chunked[64];
        lab l;
        lab_open(&l, &sizes);
        if (i == 5) l.run.training = false, l.run.eval_samples = l.run.batch;
        snprintf(chunked, sizeof chunked, "%s chunk_loss=256", forms[i]);
        uint64_t whole = arena_with(&l, forms[i]), cut = arena_with(&l, chunked);
        uint64_t logits = 256 * 900 * (i == 1 || i == 2 ? 2 : 4); /* half of them */
        if (!(cut + logits * 9 / 10 <= whole))
            fail_msg("%s: %llu bytes, without chunks %llu", forms[i], (unsigned long long)cut,
                     (unsigned long long)whole);
    }
    sizes.vocabulary = (1 << 17) + 8, sizes.channels = 8; /* a sum over these may not fit into 32 bits */
    lab large;
    lab_open(&large, &sizes);
    arena_with(&large, "precision=int8"), arena_with(&large, "precision=int8-mixed");
    sizes = small, sizes.untied = true;
    compare(&sizes, INT8, 0, "chunk_loss=256", 0);
    compare(&sizes, INT8, 0, "chunk_loss=256 recompute=block fuse=on", 0);
    compare(&sizes, INT8, 4, "chunk_loss=256 accumulate=defer", 0);
    compare(&sizes, INT8 + 1, 0, "chunk_loss=256", 0.05);
}

static void dropout_draws_the_same(void **state) {
    (void)state;
    lab_sizes sizes = small;
    sizes.dropout = 0.2;
    for (int i = 0; i < PRECISIONS; i++) {
        compare(&sizes, i, 0, "recompute=block update_early=twice", 0);
        compare(&sizes, i, 4, "recompute=cheap accumulate=defer", is_stored(i) ? 0.05 : 0);
        compare(&sizes, i, 0, "attention=flash fuse=on", 0.05);
    }
}

static void every_optimizer_that_can(void **state) {
    (void)state;
    for (int kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        lab_sizes sizes = small;
        sizes.optimizer = (optimizer_kind)kind;
        for (int i = 0; i < PRECISIONS; i++)
            if (!is_stored(i) || optimizer_takes_narrow((optimizer_kind)kind))
                compare(&sizes, i, 0, "fuse=on recompute=block update_early=twice", 0);
    }
}

/* Near to the f32 run without being it; a run's bits don't depend on its threads. */
static void near_f32_at_any_threads(void **state) {
    (void)state;
    lab l;
    threads_set(3); /* planned for */
    lab_open(&l, &small);
    lab_result wide;
    compose_choice plain = lab_choose(&l, 0, "");
    lab_run(&l, &plain, 0, 20, &wide);
    for (int i = 0; i < PRECISIONS; i++) {
        char setting[64];
        lab_result first = { 0 };
        snprintf(setting, sizeof setting, "precision=%s attention=flash", precisions[i]);
        compose_choice c = lab_choose(&l, 0, setting);
        for (int threads = 1; threads <= 3; threads++) {
            lab_result r;
            threads_set(threads);
            lab_run(&l, &c, EXEC_POISON, 20, &r);
            if (threads > 1 && !lab_same(&first, &r)) fail_msg("%s: %d threads", setting, threads);
            if (threads > 1) lab_result_close(&r);
            if (threads == 1) first = r;
        }
        threads_set(2);
        double difference = fabs((double)first.losses[19] - (double)wide.losses[19]);
        if (difference == 0 || !(difference < 0.02 * (double)wide.losses[19]))
            fail_msg("%s: loss %g, with f32 %g", setting, (double)first.losses[19], (double)wide.losses[19]);
        lab_result_close(&first);
    }
    lab_result_close(&wide);
}

/* Codes of all matrices but the embeddings, with a scale for each of their columns. */
static uint64_t bytes_of_codes(const plan *p, uint64_t wide[2]) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < p->persistent_count; k++) {
        const plan_persistent *x = &p->persistent[k];
        if (x->category != CATEGORY_WEIGHTS || x->shape.rank < 2) continue;
        uint64_t n = (uint64_t)shape_elements(&x->shape);
        bool codes = !strstr(x->name, ".wte.") && !strstr(x->name, ".wpe.");
        assert_int_equal(x->dtype, codes ? DTYPE_I8 : DTYPE_F32);
        bytes += codes ? n + 4 * (uint64_t)shape_last(&x->shape) : 4 * n;
        wide[0] += 4 * n;
    }
    assert_int_equal(wide[0], wide[1]);
    return bytes;
}

/* Bytes by formula: the weights themselves, their gradients, moments, copies. */
static void bytes_are_those_of_the_types(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &small);
    uint64_t matrices = 0, vectors = 0;
    for (int i = -1; i < PRECISIONS; i++) {
        char setting[64] = "";
        if (i >= 0) snprintf(setting, sizeof setting, "precision=%s", precisions[i]);
        compose_choice c = lab_choose(&l, 0, setting);
        plan p;
        assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
        if (i < 0)
            for (uint32_t k = 0; k < p.persistent_count; k++) {
                const plan_persistent *x = &p.persistent[k];
                if (x->category == CATEGORY_WEIGHTS)
                    *(x->shape.rank > 1 ? &matrices : &vectors) += (uint64_t)shape_elements(&x->shape) * 4;
            }
        uint64_t weights = (i >= 0 && is_stored(i) ? matrices / 2 : matrices) + vectors;
        if (i == INT8)
            assert_int_equal(p.by_category[CATEGORY_WEIGHTS],
                             bytes_of_codes(&p, (uint64_t[]){ 0, matrices }) + vectors);
        else
            assert_int_equal(p.by_category[CATEGORY_WEIGHTS], weights);
        uint64_t numbers = i == 1 ? 3 * 64 : 64; /* the update's, and the scale with its good steps */
        assert_int_equal(p.by_category[CATEGORY_OPTIMIZER], 2 * weights + numbers);
        plan_close(&p);
    }
}

/* Both factors of a product of 16 bits have that type, also where what flows back is a sum of f32: a product
 * of one of each would be made at the speed of f32. */
static void gradients_read_one_type(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &small);
    for (int i = 0; i < 3; i++) { /* those of 16 bits */
        char setting[64];
        snprintf(setting, sizeof setting, "precision=%s fuse=on gelu_epilogue=on", precisions[i]);
        compose_choice c = lab_choose(&l, 0, setting);
        plan p;
        int64_t narrow = 0;
        assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
        const graph *g = &p.programs[0].program.graph;
        for (node_id id = 1; id < g->nodes.count; id++) {
            const node *n = graph_node(g, id);
            if (strncmp(n->op->name, "matmul", strlen("matmul")) != 0) continue; /* those with GELU too */
            dtype a = (dtype)graph_tensor(g, node_in(g, n, 0))->dtype;
            assert_int_equal(a, graph_tensor(g, node_in(g, n, 1))->dtype);
            narrow += dtype_is_half(a);
        }
        assert_int_equal(narrow, 3 * (small.layers * 4 + 1)); /* forward, and two gradients */
        plan_close(&p);
    }
}

/* ---- floats of 8 bits ---- */

/* Bytes of what forward makes and backward reads, of this type. */
static uint64_t waiting(const plan *p, dtype type) {
    const graph *g = &p->programs[0].program.graph;
    uint64_t bytes = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->producer || x->base || x->dtype != type) continue;
        bool waits = false;
        for (node_id id = 1; id < g->nodes.count; id++) {
            const node *n = graph_node(g, id);
            for (uint32_t i = 0; i < n->in_count && n->phase == PHASE_BACKWARD; i++)
                waits |= node_in(g, n, i) && graph_storage(g, node_in(g, n, i), NULL) == t;
        }
        if (waits && graph_node(g, x->producer)->phase == PHASE_FORWARD) bytes += graph_tensor_bytes(g, t);
    }
    return bytes;
}

/* Of a layer, what four products read: three results of norms and of GELU are not needed otherwise and wait
 * in 8 bits instead of 16; attention's gradient reads its result all the same, which has codes beside it. A
 * scale is a byte. */
static void codes_wait_for_backward(void **state) {
    (void)state;
    lab l;
    plan p[2];
    lab_open(&l, &small);
    for (int i = 0; i < 2; i++) {
        compose_choice c =
            lab_choose(&l, 0, i ? "precision=fp8-mixed attention=flash" : "precision=bf16 attention=flash");
        assert_int_equal(compose_plan(&l.run, &c, &p[i]), STATUS_OK);
    }
    uint64_t rows = (uint64_t)(small.batch * small.context * small.layers), width = (uint64_t)small.channels;
    uint64_t codes = rows * 7 * width, scales = 0;
    uint64_t codes_now = waiting(&p[1], DTYPE_U8),
             halves_less = waiting(&p[0], DTYPE_BF16) - waiting(&p[1], DTYPE_BF16);
    scales = rows * 4 * (uint64_t)((small.channels + 127) / 128);
    assert_int_equal(waiting(&p[0], DTYPE_U8), 0);
    assert_int_equal(codes_now, codes + scales);
    assert_int_equal(halves_less, rows * 2 * 6 * width);
    assert_true(p[1].pools[POOL_MEMORY].arena_bytes < p[0].pools[POOL_MEMORY].arena_bytes);
    plan_close(&p[0]), plan_close(&p[1]);
}

/* All products with weights of their own but the head, each with its gradients. */
static void heads_stay_what_they_are(void **state) {
    (void)state;
    lab_sizes sizes = small;
    sizes.untied = true;
    lab l;
    plan p;
    lab_open(&l, &sizes);
    compose_choice c = lab_choose(&l, 0, "precision=fp8-mixed");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    const graph *g = &p.programs[0].program.graph;
    int64_t coded = 0, plain = 0;
    for (node_id id = 1; id < g->nodes.count; id++) {
        const char *name = graph_node(g, id)->op->name;
        coded += strcmp(name, "matmul_fp8") == 0, plain += strcmp(name, "matmul") == 0;
    }
    assert_int_equal(coded, 3 * 4 * sizes.layers);
    assert_int_equal(plain, 3);
    plan_close(&p);
}

/* ---- rounding ---- */

/* How far weights came on the way that f32 went: 1 means as far. `begin`: of the two runs. */
static double progress(const lab_result begin[2], const lab_result *wide, const lab_result *narrow) {
    double along = 0, all = 0;
    for (uint64_t i = 0; i < wide->weight_count; i++) {
        double way = (double)wide->weights[i] - (double)begin[0].weights[i];
        along += way * ((double)narrow->weights[i] - (double)begin[1].weights[i]);
        all += way * way;
    }
    return along / all;
}

/* Updates far below the last place of a weight move it stochastically; rounded to the nearest they are lost.
 */
static void small_updates_are_not_lost(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &small);
    l.rate = 2e-6f;
    compose_choice wide = lab_choose(&l, 0, ""), stochastic = lab_choose(&l, 0, "precision=bf16"),
                   nearest = lab_choose(&l, 0, "precision=bf16:nearest");
    lab_result begin[2], a, b, c;
    lab_run(&l, &wide, 0, 0, &begin[0]);
    lab_run(&l, &nearest, 0, 0, &begin[1]);
    lab_run(&l, &wide, 0, 30, &a);
    lab_run(&l, &stochastic, 0, 30, &b);
    lab_run(&l, &nearest, 0, 30, &c);
    double moved = progress(begin, &a, &b), lost = progress(begin, &a, &c);
    if (!(moved > 0.7 && moved < 1.3)) fail_msg("stochastic rounding came %g of the way", moved);
    if (!(lost < 0.5)) fail_msg("rounding to the nearest came %g of the way", lost);
    lab_result_close(&begin[1]), lab_result_close(&b), lab_result_close(&c);
    compose_choice codes = lab_choose(&l, 0, "precision=int8");
    lab_run(&l, &codes, 0, 0, &begin[1]);
    lab_run(&l, &codes, 0, 30, &b);
    moved = progress(begin, &a, &b);
    if (!(moved > 0.7 && moved < 1.3)) fail_msg("codes came %g of the way", moved);
    lab_result_close(&begin[0]), lab_result_close(&begin[1]);
    lab_result_close(&a), lab_result_close(&b);
}

/* ---- the scale of f16's gradients ---- */

static void scale_grows_and_falls(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &small);
    compose_choice c = lab_choose(&l, 0, "precision=mixed-f16:2");
    plan p;
    exec *e;
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_OK);
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(&l, &p, e);
    float *scale = exec_persistent(e, "gradient_scale");
    int32_t *good = exec_persistent(e, "gradient_scale.good_steps"),
            *steps = exec_persistent(e, "optimizer.step");
    const float *norm = reach_output(e, "step", "gradient_norm");
    float first = 0;
    for (int step = 0; step < 2; step++) {
        lab_hand_in(&l, e, "step", step, 0, l.run.batch);
        reach_run(e, "step");
        first = *norm;
        assert_true(isfinite(first) && first > 0.01f && first < 100.0f);
        assert_int_equal(*good, 1 - step);
        assert_int_equal((int)*scale, 65536 << step);
    }
    *scale = 0x1p60f; /* nothing fits into 16 bits */
    uint16_t before;
    memcpy(&before, exec_persistent(e, "transformer.wte.weight"), sizeof before);
    lab_hand_in(&l, e, "step", 2, 0, l.run.batch);
    reach_run(e, "step");
    assert_true(!isfinite(*norm));
    assert_true(*scale > 0x1p58f && *scale < 0x1p60f);
    assert_int_equal(*good, 0);
    assert_int_equal(*steps, 2);
    assert_memory_equal(&before, exec_persistent(e, "transformer.wte.weight"), sizeof before);
    exec_close(e);
    plan_close(&p);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(techniques_stay_exact),    cmocka_unit_test(heads_on_codes_are_chunked),
        cmocka_unit_test(dropout_draws_the_same),   cmocka_unit_test(every_optimizer_that_can),
        cmocka_unit_test(near_f32_at_any_threads),  cmocka_unit_test(bytes_are_those_of_the_types),
        cmocka_unit_test(gradients_read_one_type),  cmocka_unit_test(small_updates_are_not_lost),
        cmocka_unit_test(scale_grows_and_falls),    cmocka_unit_test(codes_wait_for_backward),
        cmocka_unit_test(heads_stay_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
