/* The pass that reads quantized weights against the one that imitates it in floats while training: on the
 * same weights both compute the same but for the rounding of sums. Scales that calibrating finds make the
 * static form the same as the dynamic one where every token has the same largest value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "ops/codes.h"
#include "oracle/reach.h"
#include "run/lab.h"

static const lab_sizes sizes = {
    .layers = 2, .heads = 2, .channels = 64, .context = 64, .vocabulary = 97, .batch = 4, .clip = 0.5
};

static void fill(const char *name, const shape *s, float *w) {
    uint32_t stream = 5;
    for (const char *c = name; *c; c++) stream = stream * 31 + (uint8_t)*c;
    bool norm = strstr(name, "ln_") && strstr(name, ".weight");
    philox_normal(&(philox_normal_list){ 11, stream, norm ? 1 : 0, 0.1f }, 0, shape_elements(s), w);
}

typedef struct {
    lab l;
    plan p;
    exec *e;
} machine;

static void open_machine(machine *m, const char *settings) {
    lab_open(&m->l, &sizes);
    m->l.run.training = false;
    m->l.run.eval_samples = m->l.run.eval_batch = sizes.batch;
    compose_choice c = lab_choose(&m->l, sizes.batch, settings);
    if (compose_plan(&m->l.run, &c, &m->p) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(exec_open(&m->p, EXEC_OBSERVE, &m->e), STATUS_OK);
}

static void close_machine(machine *m) {
    exec_measured seen;
    assert_int_equal(exec_measure(m->e, &seen), STATUS_OK);
    for (int k = 0; k < CATEGORY_COUNT; k++)
        if (k != CATEGORY_RUNTIME) assert_int_equal(m->p.by_category[k], seen.by_category[k]);
    exec_close(m->e);
    plan_close(&m->p);
}

/* Weights as they are or, where they are stored so, as codes with their scales. */
static void fill_weights(machine *m) {
    for (uint32_t i = 0; i < m->p.persistent_count; i++) {
        const plan_persistent *x = &m->p.persistent[i];
        char name[128];
        if (x->category != CATEGORY_WEIGHTS || strstr(x->name, "_scale")) continue;
        if (x->dtype == DTYPE_F32) {
            fill(x->name, &x->shape, exec_persistent(m->e, x->name));
            continue;
        }
        int64_t n = shape_elements(&x->shape), columns = shape_last(&x->shape);
        float *w = malloc((size_t)n * sizeof *w);
        int8_t *codes = exec_persistent(m->e, x->name);
        snprintf(name, sizeof name, "%s_scale", x->name);
        float *scales = exec_persistent(m->e, name);
        assert_non_null(scales);
        fill(x->name, &x->shape, w);
        bool by_rows = strstr(x->name, "wte") != NULL; /* outputs of a product, and rows of a table */
        int64_t outputs = by_rows ? n / columns : columns, depth = n / outputs;
        for (int64_t output = 0; output < outputs; output++) {
            int64_t first = by_rows ? output * depth : output, step = by_rows ? 1 : columns;
            int32_t largest = 0;
            for (int64_t k = 0; k < depth; k++)
                if (codes_size(w[first + k * step]) > largest) largest = codes_size(w[first + k * step]);
            scales[output] = codes_scale(largest);
            for (int64_t k = 0; k < depth; k++)
                codes[first + k * step] =
                    (int8_t)codes_nearest(w[first + k * step], codes_inverse(scales[output]));
        }
        free(w);
    }
}

static double evaluate(machine *m) {
    float *loss = exec_persistent(m->e, "loss");
    *loss = 0;
    lab_hand_in(&m->l, m->e, "evaluate", 0, 0, sizes.batch);
    reach_run(m->e, "evaluate");
    return (double)*loss;
}

static double loss_with(const char *settings) {
    machine m;
    open_machine(&m, settings);
    fill_weights(&m);
    double loss = evaluate(&m);
    close_machine(&m);
    return loss;
}

static void it_computes_what_training_imitates(void **state) {
    (void)state;
    double plain = loss_with(""), imitated = loss_with("qat=int8"), quantized = loss_with("quantize=int8"),
           fused = loss_with("quantize=int8 fuse=on attention=flash");
    if (!(fabs(quantized - plain) > 1e-5 * plain)) fail_msg("nothing is rounded: %.9g", plain);
    /* a code is another one where sums of floats differ in their last place */
    if (!(fabs(quantized - imitated) < 0.1 * fabs(quantized - plain)))
        fail_msg("%.9g, imitated %.9g, plain %.9g", quantized, imitated, plain);
    if (!(fabs(fused - quantized) < 1e-4 * plain)) fail_msg("%.9g, not %.9g", fused, quantized);
}

static void calibrated_scales_cover_what_there_is(void **state) {
    (void)state;
    machine observed, fixed;
    open_machine(&observed, "quantize=calibrate");
    open_machine(&fixed, "quantize=int8:static");
    fill_weights(&observed), fill_weights(&fixed);
    double plain = loss_with(""), same = evaluate(&observed);
    assert_true(same == plain); /* looking on changes nothing */
    uint32_t scales = 0;
    for (uint32_t i = 0; i < observed.p.persistent_count; i++) {
        const char *name = observed.p.persistent[i].name;
        if (!strstr(name, "input_scale")) continue;
        float *largest = exec_persistent(observed.e, name), *scale = exec_persistent(fixed.e, name);
        if (!scale) continue; /* the projection tied to the embedding, which stays as it is here */
        assert_true(*largest > 0);
        *scale = codes_scale(codes_size(*largest));
        scales++;
    }
    assert_int_equal(scales, 8);
    double found = evaluate(&fixed);
    if (!(fabs(found / plain - 1) < 2e-3)) fail_msg("%.9g with static scales, %.9g plain", found, plain);
    for (uint32_t i = 0; i < fixed.p.persistent_count; i++) /* too small ones cut off */
        if (strstr(fixed.p.persistent[i].name, "input_scale"))
            *(float *)exec_persistent(fixed.e, fixed.p.persistent[i].name) *= 0.05f;
    double cut = evaluate(&fixed);
    if (!(fabs(cut - plain) > 10 * fabs(found - plain))) fail_msg("%.9g with scales that are too small", cut);
    close_machine(&observed), close_machine(&fixed);
}

/* The projection that is tied to the embedding multiplies by the codes of the rows that the embedding picks.
 */
static void tables_become_codes_as_well(void **state) {
    (void)state;
    machine products, all;
    open_machine(&products, "quantize=int8"), open_machine(&all, "quantize=int8:all");
    fill_weights(&products), fill_weights(&all);
    double plain = loss_with(""), some = evaluate(&products), whole = evaluate(&all);
    if (!(fabs(whole - some) > 1e-6 * plain)) fail_msg("the table is not rounded: %.9g", plain);
    if (!(fabs(whole / plain - 1) < 2e-3)) fail_msg("%.9g with all as codes, %.9g plain", whole, plain);
    close_machine(&products), close_machine(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_computes_what_training_imitates),
        cmocka_unit_test(calibrated_scales_cover_what_there_is),
        cmocka_unit_test(tables_become_codes_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
