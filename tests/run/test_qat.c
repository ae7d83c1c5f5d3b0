/* Training with rounded weights: what backward gives is the gradient at the rounded weights, weights that are
 * rounded already change nothing, techniques beside it keep their classes and their bytes, and it costs
 * memory, as much as the plan says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/codes.h"
#include "oracle/reach.h"
#include "run/lab.h"

static const lab_sizes small = {
    .layers = 2, .heads = 2, .channels = 32, .context = 64, .vocabulary = 97, .batch = 8, .clip = 0.5
};

static lab_result result_of(const lab *l, const char *settings, int64_t micro_batch) {
    lab_result r;
    compose_choice c = lab_choose(l, micro_batch, settings);
    lab_run(l, &c, 0, 4, &r);
    for (int k = 0; k < CATEGORY_COUNT; k++)
        if (k != CATEGORY_RUNTIME) assert_int_equal(r.planned[k], r.measured[k]);
    return r;
}

/* ---- the mathematics ---- */

static bool rounding;

/* Weights of products (in, out), each column as its codes leave it. */
static void fill(const char *name, const shape *s, float *w) {
    uint32_t stream = 5;
    for (const char *c = name; *c; c++) stream = stream * 31 + (uint8_t)*c;
    bool norm = strstr(name, "ln_") && s->rank == 1 && strstr(name, ".weight");
    philox_normal(&(philox_normal_list){ 11, stream, norm ? 1 : 0, 0.2f }, 0, shape_elements(s), w);
    if (!rounding || s->rank != 2 || !strstr(name, ".h.")) return;
    for (int64_t column = 0; column < s->dim[1]; column++) {
        int32_t largest = 0;
        for (int64_t i = column; i < shape_elements(s); i += s->dim[1])
            if (codes_size(w[i]) > largest) largest = codes_size(w[i]);
        float scale = codes_scale(largest), inverse = codes_inverse(scale);
        for (int64_t i = column; i < shape_elements(s); i += s->dim[1])
            w[i] = scale * (float)codes_nearest(w[i], inverse);
    }
}

typedef struct {
    float *change; /* of all weights, in a step of SGD at rate 1: minus the gradient */
    uint64_t count;
    float loss;
} one_step;

static one_step step_from(bool rounded, const char *settings) {
    lab_sizes sizes = small;
    lab l;
    plan p;
    exec *e;
    one_step r = { 0 };
    sizes.clip = 0, sizes.optimizer = OPTIMIZER_SGD;
    rounding = rounded;
    lab_open(&l, &sizes);
    l.weight = fill, l.run.optimizer.weight_decay = 0, l.run.optimizer.momentum = 0;
    compose_choice c = lab_choose(&l, 0, settings);
    if (compose_plan(&l.run, &c, &p) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(exec_open(&p, 0, &e), STATUS_OK);
    lab_fill_weights(&l, &p, e);
    for (uint32_t i = 0; i < p.persistent_count; i++)
        if (p.persistent[i].category == CATEGORY_WEIGHTS)
            r.count += (uint64_t)shape_elements(&p.persistent[i].shape);
    r.change = calloc(r.count, sizeof *r.change);
    for (int after = 0; after < 2; after++) {
        float *to = r.change;
        for (uint32_t i = 0; i < p.persistent_count; i++) {
            const plan_persistent *x = &p.persistent[i];
            if (x->category != CATEGORY_WEIGHTS) continue;
            const float *w = exec_persistent(e, x->name);
            for (int64_t k = 0; k < shape_elements(&x->shape); k++) *to++ += after ? w[k] : -w[k];
        }
        if (after) break;
        lab_hand_in(&l, e, "step", 0, 0, small.batch);
        *(float *)reach_input(e, "step", "learning_rate") = 1;
        reach_run(e, "step");
        r.loss = *(float *)exec_persistent(e, "loss");
    }
    exec_close(e);
    plan_close(&p);
    return r;
}

static double apart(const one_step *a, const one_step *b) {
    double difference = 0, size = 0;
    assert_int_equal(a->count, b->count);
    for (uint64_t i = 0; i < a->count; i++)
        difference += pow(a->change[i] - b->change[i], 2), size += pow(b->change[i], 2);
    return sqrt(difference / size);
}

static void gradients_are_those_at_the_rounded_weights(void **state) {
    (void)state;
    one_step plain = step_from(false, ""), aware = step_from(false, "qat=int8"),
             rounded = step_from(true, "qat=int8");
    assert_true(aware.loss != plain.loss);
    if (!(fabs((double)(aware.loss - rounded.loss)) < 1e-4))
        fail_msg("losses %.7g and %.7g", (double)aware.loss, (double)rounded.loss);
    if (!(apart(&aware, &rounded) < 1e-3)) fail_msg("gradients are %g apart", apart(&aware, &rounded));
    double from_plain =
        apart(&aware, &plain); /* near, for it goes through the rounding as if there were none */
    if (!(from_plain > 3e-3 && from_plain < 0.2))
        fail_msg("gradients are %g from those without it", from_plain);
    free(plain.change), free(aware.change), free(rounded.change);
}

/* ---- beside other techniques ---- */

static void what_is_exact_stays_so(void **state) {
    (void)state;
    static const char *const exact[] = { "recompute=cheap", "recompute=block", "gelu_epilogue=on", "fuse=on",
                                         "recompute=block gelu_epilogue=on fuse=on" };
    lab l;
    lab_open(&l, &small);
    lab_result alone = result_of(&l, "qat=int8", 0);
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        char settings[128] = "qat=int8 ";
        lab_result beside = result_of(&l, strcat(settings, exact[i]), 0);
        if (!lab_same(&alone, &beside)) fail_msg("%s: other bits", settings);
        lab_result_close(&beside);
    }
    lab_result pieces = result_of(&l, "qat=int8 accumulate=defer", 4);
    if (!lab_same(&alone, &pieces)) fail_msg("in micro-batches: other bits");
    lab_result_close(&pieces);
    lab_result_close(&alone);
}

static void bytes_are_as_planned_beside_lossy_ones(void **state) {
    (void)state;
    static const char *const beside[] = { "precision=mixed-bf16",
                                          "precision=mixed-f16",
                                          "precision=bf16 recompute=cheap",
                                          "attention=flash chunk_loss=256",
                                          "quantize_state=8bit recompute=block",
                                          "quantize_state=bf16" };
    lab_sizes sizes = small;
    sizes.untied = true; /* then the last product is rounded too */
    lab l;
    lab_open(&l, &sizes);
    lab_result alone = result_of(&l, "qat=int8", 0);
    for (size_t i = 0; i < 2 * sizeof beside / sizeof *beside; i++) {
        char settings[128] = "qat=int8 ";
        strcat(settings, beside[i / 2]);
        if (i % 2) strcat(settings, " accumulate=add");
        lab_result r = result_of(&l, settings, i % 2 ? 2 : 0);
        for (int step = 0; step < r.steps; step++)
            if (!(fabs((double)(r.losses[step] - alone.losses[step])) < 0.05))
                fail_msg("%s: loss %g, alone %g", settings, (double)r.losses[step],
                         (double)alone.losses[step]);
        lab_result_close(&r);
    }
    lab_result_close(&alone);
}

/* 1 + 3 + 4 + 4 squares of the width in each block, in f32, unless they are computed again. */
static void it_costs_the_rounded_weights(void **state) {
    (void)state;
    lab l;
    lab_open(&l, &small);
    uint64_t rounded = 2 * 12 * 32 * 32 * sizeof(float);
    lab_result plain = result_of(&l, "", 0), aware = result_of(&l, "qat=int8", 0),
               again = result_of(&l, "qat=int8 recompute=cheap", 0),
               plain_again = result_of(&l, "recompute=cheap", 0);
    assert_true(aware.arena_bytes >= plain.arena_bytes + rounded * 9 / 10);
    assert_true(aware.arena_bytes <= plain.arena_bytes + 2 * rounded);
    assert_true(again.arena_bytes >= plain_again.arena_bytes);
    assert_true(again.arena_bytes < aware.arena_bytes);
    lab_result_close(&plain), lab_result_close(&aware), lab_result_close(&again);
    lab_result_close(&plain_again);
}

static void it_says_where_it_cannot_be(void **state) {
    (void)state;
    lab l;
    plan p;
    lab_open(&l, &small);
    compose_choice c = lab_choose(&l, 0, "qat=int8 lora=rank=4");
    assert_int_equal(compose_plan(&l.run, &c, &p), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "merged model"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_at_the_rounded_weights),
        cmocka_unit_test(what_is_exact_stays_so),
        cmocka_unit_test(bytes_are_as_planned_beside_lossy_ones),
        cmocka_unit_test(it_costs_the_rounded_weights),
        cmocka_unit_test(it_says_where_it_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
