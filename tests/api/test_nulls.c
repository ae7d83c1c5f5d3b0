/* NULL where a pointer must not be NULL: each public function refuses it with a sentence. The names come from
 * snug.h itself, so a new function without a row fails the test. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snug/snug.h>

#include "base/status.h"

static void build(void *context, snug_graph *g) {
    (void)context;
    snug_tensor x = snug_linear(g, "classes", snug_input(g, "point"), 3);
    snug_cross_entropy(g, x, snug_input(g, "class"));
}

static const snug_network network = { .name = "classifier",
                                      .fields = { { "point", SNUG_SHAPE(4), SNUG_F32 },
                                                  { .name = "class", .type = SNUG_I32 } },
                                      .labels = "class",
                                      .build = build };

/* ---- what each function does with NULL: true where it did nothing ---- */

#define NOTHING(name, ...)                                                                                   \
    static bool name##_of_null(void) { return (__VA_ARGS__); }

NOTHING(input, !snug_input(NULL, "point"))
NOTHING(shape_of, !snug_shape_of(NULL, 1).rank)
NOTHING(parameter, !snug_parameter(NULL, "w", SNUG_SHAPE(2), 0, 1))
NOTHING(matmul, !snug_matmul(NULL, 1, 2, 0, false))
NOTHING(linear, !snug_linear(NULL, "classes", 1, 3))
NOTHING(embedding, !snug_embedding(NULL, 1, 2))
NOTHING(add_positions, !snug_add_positions(NULL, 1, 2))
NOTHING(add, !snug_add(NULL, 1, 2))
NOTHING(multiply, !snug_multiply(NULL, 1, 2))
NOTHING(relu, !snug_relu(NULL, 1))
NOTHING(tanh, !snug_tanh(NULL, 1))
NOTHING(sigmoid, !snug_sigmoid(NULL, 1))
NOTHING(squared_error, (snug_squared_error(NULL, 1, 2), true))
NOTHING(absolute_error, (snug_absolute_error(NULL, 1, 2), true))
NOTHING(binary_cross_entropy, (snug_binary_cross_entropy(NULL, 1, 2), true))
NOTHING(soft_cross_entropy, (snug_soft_cross_entropy(NULL, 1, 2), true))
NOTHING(slice, !snug_slice(NULL, 1, 1, 0, 1))
NOTHING(concat, !snug_concat(NULL, (snug_tensor[]){ 1, 2 }, 2, 1))
NOTHING(transpose, !snug_transpose(NULL, 1, 1, 2))
NOTHING(conv2d, !snug_conv2d(NULL, 1, 2, 0, NULL))
NOTHING(convolution, !snug_convolution(NULL, "a", 1, 2, 3, NULL))
NOTHING(max_pool, !snug_max_pool(NULL, 1, 2, 2, 0))
NOTHING(mean_pool, !snug_mean_pool(NULL, 1, 2, 2, 0))
NOTHING(mean_places, !snug_mean_places(NULL, 1))
NOTHING(output_named, (snug_output_named(NULL, "mask", 1), true))
NOTHING(scale, !snug_scale(NULL, 1, 2))
NOTHING(gelu, !snug_gelu(NULL, 1))
NOTHING(silu, !snug_silu(NULL, 1))
NOTHING(swiglu, !snug_swiglu(NULL, 1, 2))
NOTHING(dropout, !snug_dropout(NULL, 1, 0.5))
NOTHING(layernorm, !snug_layernorm(NULL, 1, 2, 3, 1e-5))
NOTHING(rmsnorm, !snug_rmsnorm(NULL, 1, 2, 1e-5))
NOTHING(batch_norm, !snug_batch_norm(NULL, "n", 1, 1e-5, 0.1))
NOTHING(loss_weight, (snug_loss_weight(NULL, 2), true))
NOTHING(instructions, snug_instructions(NULL) == SNUG_INVALID)
NOTHING(softmax, !snug_softmax(NULL, 1))
NOTHING(reshape, !snug_reshape(NULL, 1, SNUG_SHAPE(2)))
NOTHING(attention, !snug_attention(NULL, 1, 0, 0, &(snug_attention_options){ .heads = 1 }))
NOTHING(block, (snug_block(NULL, 0), true))
NOTHING(cross_entropy, (snug_cross_entropy(NULL, 1, 2), true))
NOTHING(output, (snug_output(NULL, 1), true))
NOTHING(predicting, !snug_predicting(NULL))
NOTHING(run_needs, !snug_run_needs(NULL).peak_bytes && !snug_run_needs(NULL).fits)
NOTHING(run_text, !snug_run_text(NULL))
NOTHING(run_json, !snug_run_json(NULL))
NOTHING(predictor_bytes, !snug_predictor_bytes(NULL))

static bool plan_of_null(void) {
    snug_options o = snug_defaults();
    snug_run *run = (snug_run *)&o;
    bool refused = snug_plan(NULL, NULL, NULL, &o, &run) == SNUG_INVALID && !run;
    refused = refused && snug_plan(&network, NULL, NULL, &o, NULL) == SNUG_INVALID;
    return refused && snug_plan(&network, NULL, NULL, NULL, &run) == SNUG_INVALID && !run;
}

static bool train_of_null(void) {
    snug_result r = { .steps = 7 };
    return snug_train(NULL, NULL, &r) == SNUG_INVALID && !r.steps &&
           snug_train(NULL, NULL, NULL) == SNUG_INVALID;
}

static bool load_of_null(void) {
    return !snug_load(NULL, "weights", 0, 1) && !snug_load(&network, NULL, 0, 1);
}

static bool load_on_of_null(void) {
    return !snug_load_on(NULL, "weights", 0, 1, "cpu") && !snug_load_on(&network, NULL, 0, 1, "cpu");
}

static bool load_batch_of_null(void) {
    return !snug_load_batch(NULL, "weights", 0, 1, NULL, 8) &&
           !snug_load_batch(&network, NULL, 0, 1, NULL, 8);
}

static bool predict_batch_of_null(void) {
    int64_t count = 7;
    return !snug_predict_batch(NULL, 2, NULL, NULL) && !snug_predict_batch(NULL, 2, NULL, &count) && !count;
}

static bool predicted_of_null(void) {
    int64_t count = 7;
    return !snug_predicted(NULL, "output", NULL) && !snug_predicted(NULL, NULL, &count) && !count;
}

static bool predict_of_null(void) {
    int64_t count = 7;
    return !snug_predict(NULL, NULL, NULL) && !snug_predict(NULL, NULL, &count) && !count;
}

#define ROW(name)                                                                                            \
    { "snug_" #name, name##_of_null }
static const struct {
    const char *name;
    bool (*does_nothing)(void);
} rows[] = { ROW(input),
             ROW(shape_of),
             ROW(parameter),
             ROW(matmul),
             ROW(linear),
             ROW(embedding),
             ROW(add),
             ROW(add_positions),
             ROW(scale),
             ROW(gelu),
             ROW(silu),
             ROW(swiglu),
             ROW(dropout),
             ROW(layernorm),
             ROW(rmsnorm),
             ROW(softmax),
             ROW(batch_norm),
             ROW(loss_weight),
             ROW(instructions),
             ROW(reshape),
             ROW(attention),
             ROW(block),
             ROW(cross_entropy),
             ROW(output),
             ROW(plan),
             ROW(predicting),
             ROW(run_needs),
             ROW(run_text),
             ROW(run_json),
             ROW(train),
             ROW(load),
             ROW(load_on),
             ROW(predict),
             ROW(predictor_bytes),
             ROW(multiply),
             ROW(relu),
             ROW(tanh),
             ROW(sigmoid),
             ROW(squared_error),
             ROW(absolute_error),
             ROW(binary_cross_entropy),
             ROW(soft_cross_entropy),
             ROW(slice),
             ROW(concat),
             ROW(transpose),
             ROW(conv2d),
             ROW(convolution),
             ROW(max_pool),
             ROW(mean_pool),
             ROW(mean_places),
             ROW(output_named),
             ROW(load_batch),
             ROW(predict_batch),
             ROW(predicted) };
enum { ROWS = sizeof rows / sizeof *rows };

static void null_is_refused_with_a_sentence(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(status_set(STATUS_OK, "nothing was said"), STATUS_OK);
        if (!rows[i].does_nothing()) fail_msg("%s takes NULL", rows[i].name);
        if (!strstr(snug_error(), "NULL") && !strstr(snug_error(), "needs"))
            fail_msg("%s of NULL says: %s", rows[i].name, snug_error());
    }
}

/* ---- does every function of snug.h have a row? ---- */

/* These take NULL, or no pointer. */
static bool needs_no_row(const char *name) {
    static const char *const fine[] = { "snug_error", "snug_defaults", "snug_close", "snug_unload" };
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (strcmp(name, fine[i]) == 0) return true;
    return false;
}

static bool has_row(const char *name) {
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) return true;
    return false;
}

static void every_function_has_a_row(void **state) {
    (void)state;
    static char header[1 << 16];
    FILE *file = fopen(SNUG_ROOT "/include/snug/snug.h", "r");
    assert_non_null(file);
    header[fread(header, 1, sizeof header - 1, file)] = 0;
    fclose(file);
    int functions = 0;
    for (const char *at = header; (at = strstr(at, "SNUG_API ")); at++) {
        const char *open = strchr(at, '('), *begin = open;
        char name[64];
        if (!isspace((unsigned char)at[-1]) || strncmp(at, "SNUG_API __", 11) == 0)
            continue; /* its definition */
        while (begin > at && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')) begin--;
        snprintf(name, sizeof name, "%.*s", (int)(open - begin), begin);
        if (!needs_no_row(name) && !has_row(name)) fail_msg("%s has no row here", name);
        functions++;
    }
    assert_true(functions >= ROWS + 4);
}

/* ---- NULL inside of what is given ---- */

static void no_name(void *context, snug_graph *g) {
    (void)context;
    snug_cross_entropy(g, snug_linear(g, NULL, snug_input(g, "point"), 3), snug_input(g, "class"));
}

static void no_field(void *context, snug_graph *g) {
    snug_input(g, NULL);
    build(context, g);
}

static void no_parameter(void *context, snug_graph *g) {
    snug_parameter(g, NULL, SNUG_SHAPE(2), 0, 1);
    build(context, g);
}

static void networks_with_null_are_refused(void **state) {
    (void)state;
    static void (*const builds[])(void *context, snug_graph *g) = { NULL, no_name, no_field, no_parameter };
    snug_options o = snug_defaults();
    snug_run *run;
    snug_data nothing_read = { .samples = 8 };
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        snug_network n = network;
        n.build = builds[i];
        assert_int_equal(snug_plan(&n, NULL, NULL, &o, &run), SNUG_INVALID);
        assert_null(run);
    }
    assert_int_equal(snug_plan(&network, &nothing_read, NULL, &o, &run), SNUG_INVALID);
    assert_non_null(strstr(snug_error(), "function that reads it"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_refused_with_a_sentence),
        cmocka_unit_test(every_function_has_a_row),
        cmocka_unit_test(networks_with_null_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
