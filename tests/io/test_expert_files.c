/* Weights of experts are one tensor of a layer in memory and a matrix for each expert in files: under which
 * names, with the same numbers, in whatever type and wherever they lie. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/half.h"
#include "io/expert_files.h"
#include "io/model_files.h"
#include "io/scratch.h"
#include "io/weight_files.h"

enum {
    EXPERTS = 3,
    INNER = 5,
    WIDTH = 7,
    GATE_UP = EXPERTS * 2 * INNER * WIDTH,
    DOWN = EXPERTS * WIDTH * INNER
};

typedef struct {
    float gate_up[GATE_UP], down[DOWN], router[EXPERTS * WIDTH], norm[WIDTH];
    model_weight list[4];
} layer;

static float number(int which, int64_t i) {
    return (float)(which * 1000 + i) / 8;
} /* bf16 does not hold all */

static void make(layer *l, bool filled) {
    float *all[] = { l->gate_up, l->down, l->router, l->norm };
    int64_t counts[] = { GATE_UP, DOWN, EXPERTS * WIDTH, WIDTH };
    for (int w = 0; w < 4; w++)
        for (int64_t i = 0; i < counts[w]; i++) all[w][i] = filled ? number(w, i) : -1;
    l->list[0] = (model_weight){ .name = "model.layers.1.mlp.experts.gate_up_proj",
                                 .shape = SHAPE(EXPERTS, 2 * INNER, WIDTH) };
    l->list[1] = (model_weight){ .name = "model.layers.1.mlp.experts.down_proj",
                                 .shape = SHAPE(EXPERTS, WIDTH, INNER) };
    l->list[2] = (model_weight){ .name = "model.layers.1.mlp.gate.weight", .shape = SHAPE(EXPERTS, WIDTH) };
    l->list[3] = (model_weight){ .name = "model.norm.weight", .shape = SHAPE(WIDTH) };
    for (int w = 0; w < 4; w++) l->list[w].data = all[w], l->list[w].type = DTYPE_F32;
}

static const decoder_experts_names *const ways[] = { &decoder_experts_named, &decoder_experts_numbered };

static void each_expert_has_its_matrices(void **state) {
    (void)state;
    static const char *const first[] = { "model.layers.1.mlp.experts.0.gate_proj.weight",
                                         "model.layers.1.block_sparse_moe.experts.0.w1.weight" };
    static const char *const last[] = { "model.layers.1.mlp.experts.2.down_proj.weight",
                                        "model.layers.1.block_sparse_moe.experts.2.w2.weight" };
    static const char *const router[] = { "model.layers.1.mlp.gate.weight",
                                          "model.layers.1.block_sparse_moe.gate.weight" };
    layer l;
    make(&l, true);
    for (int k = 0; k < 2; k++) {
        expert_files x;
        assert_int_equal(expert_files_list(ways[k], l.list, 4, &x), STATUS_OK);
        assert_int_equal(x.count, 3 * EXPERTS + 2);
        assert_int_equal(x.count, expert_files_count(l.list, 4));
        assert_string_equal(x.weights[0].name, first[k]);
        assert_string_equal(x.weights[3 * EXPERTS - 1].name, last[k]);
        assert_string_equal(x.weights[3 * EXPERTS].name, router[k]);
        assert_string_equal(x.weights[3 * EXPERTS + 1].name, "model.norm.weight");
        for (int64_t i = 0; i < 2 * EXPERTS; i++) {
            assert_true(x.weights[i].shape.dim[0] == INNER && x.weights[i].shape.dim[1] == WIDTH);
            assert_ptr_equal(x.weights[i].data, l.gate_up + i * INNER * WIDTH);
        }
        assert_true(x.weights[2 * EXPERTS].shape.dim[0] == WIDTH);
        expert_files_close(&x);
    }
}

static void whole_they_are_the_callers_own(void **state) {
    (void)state;
    layer l;
    expert_files x;
    make(&l, true);
    assert_int_equal(expert_files_list(NULL, l.list, 4, &x), STATUS_OK);
    assert_ptr_equal(x.weights, l.list);
    expert_files_close(&x);
    assert_int_equal(expert_files_list(ways[0], l.list + 2, 2, &x), STATUS_OK); /* no experts in it */
    assert_ptr_equal(x.weights, l.list + 2);
    expert_files_close(&x);
}

/* Written by either way of names, or whole, and in a narrower type; read by whoever asks for the layer. */
static void what_is_written_is_read(void **state) {
    (void)state;
    static const decoder_experts_names *const all[] = { &decoder_experts_named, &decoder_experts_numbered,
                                                        NULL };
    for (int k = 0; k < 3; k++)
        for (int narrow = 0; narrow < 2; narrow++) {
            layer from, to;
            safetensors s;
            make(&from, true), make(&to, false);
            model_files_form form = { .type = narrow ? DTYPE_BF16 : DTYPE_NONE, .experts = all[k] };
            assert_int_equal(model_files_save_as(".", from.list, 4, &form), STATUS_OK);
            assert_int_equal(safetensors_open(".", &s), STATUS_OK);
            assert_int_equal(s.count, all[k] ? 3 * EXPERTS + 2 : 4);
            assert_ptr_equal(expert_files_names(&s), all[k]);
            safetensors_close(&s);
            assert_int_equal(model_files_check(".", to.list, 4, &(model_files_difference){ 0 }), STATUS_OK);
            assert_int_equal(model_files_load(".", to.list, 4), STATUS_OK);
            for (int w = 0; w < 4; w++)
                for (int64_t i = 0; i < shape_elements(&to.list[w].shape); i++) {
                    float want = number(w, i), is = ((float *)to.list[w].data)[i];
                    if (narrow) want = half_from_bf16(half_to_bf16(want));
                    if (is != want) fail_msg("weight %d, number %d: %g", w, (int)i, (double)is);
                }
        }
}

/* ---- reached in parts of a few numbers ---- */

static status lend(void *context, const void *which, uint64_t first, void **data, uint64_t *bytes) {
    (void)context;
    uint64_t to_border = 48 - first % 48; /* no matrix ends there */
    *data = (char *)(uintptr_t)which + first, *bytes = to_border;
    return STATUS_OK;
}

static status take(void *context, const void *which, uint64_t first, void *data, uint64_t bytes) {
    (void)context;
    assert_ptr_equal(data, (const char *)which + first);
    assert_in_range(bytes, 4, 48);
    return STATUS_OK;
}

static void what_lies_elsewhere_is_reached_by_parts(void **state) {
    (void)state;
    static const weight_parts parts = { lend, lend, take, NULL };
    static struct {
        layer l;
        char behind[64]; /* what is lent may reach beyond the last number */
    } from, to;
    make(&from.l, true), make(&to.l, false);
    for (int w = 0; w < 2; w++) {
        model_weight *a = &from.l.list[w], *b = &to.l.list[w];
        a->which = a->data, a->data = NULL, a->parts = &parts;
        b->which = b->data, b->data = NULL, b->parts = &parts;
    }
    for (int k = 0; k < 2; k++) {
        model_files_form form = { .experts = ways[k] };
        assert_int_equal(model_files_save_as(".", from.l.list, 4, &form), STATUS_OK);
        assert_int_equal(model_files_load(".", to.l.list, 4), STATUS_OK);
        for (int64_t i = 0; i < GATE_UP; i++) assert_true(to.l.gate_up[i] == number(0, i));
        for (int64_t i = 0; i < DOWN; i++) assert_true(to.l.down[i] == number(1, i));
        memset(to.l.gate_up, 0, sizeof to.l.gate_up), memset(to.l.down, 0, sizeof to.l.down);
    }
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    layer l;
    make(&l, true);
    expert_files x;
    safetensors_item items[3 * EXPERTS + 2];
    assert_int_equal(expert_files_list(ways[0], l.list, 4, &x), STATUS_OK);
    uint32_t n = 0;
    for (uint32_t i = 0; i < x.count; i++)
        if (i != 3) items[n++] = weight_files_item(&x.weights[i], x.weights[i].name);
    assert_int_equal(safetensors_write("less.safetensors", items, n), STATUS_OK);
    assert_int_equal(model_files_load("less.safetensors", l.list, 4), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "no tensor 'model.layers.1.mlp.experts.1.up_proj.weight'"));
    model_weight wide = l.list[0];
    wide.shape.dim[2]++;
    l.list[0] = wide;
    assert_int_equal(model_files_check("less.safetensors", l.list, 4, &(model_files_difference){ 0 }),
                     STATUS_INVALID);
    assert_non_null(strstr(status_message(), "'model.layers.1.mlp.experts.0.gate_proj.weight' is (5,7)"));
    expert_files_close(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_expert_has_its_matrices),
                                        cmocka_unit_test(whole_they_are_the_callers_own),
                                        cmocka_unit_test(what_is_written_is_read),
                                        cmocka_unit_test(what_lies_elsewhere_is_reached_by_parts),
                                        cmocka_unit_test(what_is_missing_is_named) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
