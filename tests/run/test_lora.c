/* Low-rank adapters: training begins at the model to the bit, gradients are those of the merged weights, only
 * the adapters change, bytes are as planned, and what merging makes computes the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/philox.h"
#include "ops/codes.h"
#include "ops/nf4.h"
#include "oracle/reach.h"
#include "passes/adapting.h"
#include "run/lab.h"

static const lab_sizes small = {
    .layers = 2, .heads = 2, .channels = 32, .context = 32, .vocabulary = 97, .batch = 8, .clip = 0.5
};

static bool is_adapter(const char *name) { return strstr(name, ".lora_") != NULL; }

static bool ends_with(const char *name, const char *end) {
    return strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* ---- weights and gradients by hand ---- */

/* Weights by their names alone, the model's and the adapters', B not zero. */
static void fill(const char *name, const shape *s, float *w) {
    uint32_t stream = 5;
    for (const char *c = name; *c; c++) stream = stream * 31 + (uint8_t)*c;
    bool norm = (strstr(name, "ln_") || strstr(name, "norm")) && ends_with(name, ".weight");
    philox_normal_list list = { 11, stream, norm ? 1 : 0, is_adapter(name) ? 0.1f : 0.05f };
    philox_normal(&list, 0, shape_elements(s), w);
}

typedef struct {
    plan p;
    exec *e;
} machine;

static void open_machine(lab *l, const char *settings, machine *m) {
    compose_choice c = lab_choose(l, 0, settings);
    if (compose_plan(&l->run, &c, &m->p) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(exec_open(&m->p, 0, &m->e), STATUS_OK);
    lab_fill_weights(l, &m->p, m->e);
}

static void close_machine(machine *m) {
    exec_close(m->e);
    plan_close(&m->p);
}

static double evaluate(lab *l, machine *m) {
    float *loss = exec_persistent(m->e, "loss");
    *loss = 0;
    lab_hand_in(l, m->e, "evaluate", 0, 0, 1);
    reach_run(m->e, "evaluate");
    return *loss;
}

/* Folds the adapters into the weights of a machine without any. */
static void merge_into(machine *from, machine *to, const pass *p, const char *setting) {
    pass_setting s;
    pass_adapter d;
    assert_int_equal(p->parse(setting, &s), STATUS_OK);
    assert_int_equal(p->adapting->describe(&s, &d), STATUS_OK);
    for (uint32_t i = 0; i < to->p.persistent_count; i++) {
        const plan_persistent *x = &to->p.persistent[i];
        char a[PASS_PARAMETER_BYTES], b[PASS_PARAMETER_BYTES];
        if (x->category != CATEGORY_WEIGHTS || !p->adapting->beside(x->name, a, b)) continue;
        const float *down = exec_persistent(from->e, a), *up = exec_persistent(from->e, b);
        if (down) p->adapting->merge(&d, &x->shape, false, down, up, exec_persistent(to->e, x->name));
    }
}

static const pass *the_pass(void) {
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->adapting) return pass_table[i];
    return NULL;
}

static void merged_weights_compute_the_same(void **state) {
    (void)state;
    static const char *const settings[] = { "rank=4", "rank=3,alpha=12,target=c_attn+mlp.c_proj" };
    for (int i = 0; i < 2; i++) {
        char choice[128];
        lab l;
        machine adapted, merged;
        lab_open(&l, &small);
        l.weight = fill;
        snprintf(choice, sizeof choice, "lora=%s", settings[i]);
        open_machine(&l, choice, &adapted);
        open_machine(&l, "", &merged);
        double base = evaluate(&l, &merged), with = evaluate(&l, &adapted);
        merge_into(&adapted, &merged, the_pass(), settings[i]);
        double after = evaluate(&l, &merged);
        if (!(fabs(with - base) > 1e-3)) fail_msg("%s does nothing: %g, %g", settings[i], base, with);
        if (!(fabs(after - with) < 1e-5 * fabs(with)))
            fail_msg("%s: %.9g, merged %.9g", settings[i], with, after);
        close_machine(&adapted), close_machine(&merged);
    }
}

/* A step of SGD at rate 1 without decay changes a weight by its gradient: compared with differences of
 * losses. */
static void gradients_are_differences(void **state) {
    (void)state;
    lab_sizes sizes = small;
    sizes.clip = 0, sizes.batch = 1, sizes.optimizer = OPTIMIZER_SGD;
    lab l;
    machine m;
    lab_open(&l, &sizes);
    l.weight = fill, l.rate = 1;
    l.run.optimizer.weight_decay = 0, l.run.optimizer.momentum = 0;
    open_machine(&l, "lora=rank=4", &m);
    for (uint32_t i = 0, tried = 0; i < m.p.persistent_count && tried < 12; i++) {
        const plan_persistent *x = &m.p.persistent[i];
        if (x->category != CATEGORY_WEIGHTS || !is_adapter(x->name)) continue;
        float *w = exec_persistent(m.e, x->name);
        int64_t n = shape_elements(&x->shape), at = n / 3;
        double slope = 0, length = 0;
        tried++;
        lab_fill_weights(&l, &m.p, m.e);
        float *before = malloc((size_t)n * sizeof *before),
              *direction = malloc((size_t)n * sizeof *direction);
        memcpy(before, w, (size_t)n * sizeof *w);
        lab_hand_in(&l, m.e, "step", 0, 0, 1);
        *(float *)reach_input(m.e, "step", "learning_rate") = 1;
        reach_run(m.e, "step");
        for (int64_t k = 0; k < n; k++) direction[k] = before[k] - w[k], length += pow(direction[k], 2);
        if (!(length > 0) || !isfinite((double)before[at])) fail_msg("%s has no gradient", x->name);
        double h = 1e-2 / sqrt(length), losses[2];
        for (int side = 0; side < 2; side++) {
            lab_fill_weights(&l, &m.p, m.e);
            for (int64_t k = 0; k < n; k++) w[k] = (float)(before[k] + (side ? h : -h) * direction[k]);
            losses[side] = evaluate(&l, &m);
        }
        slope = (losses[1] - losses[0]) / (2 * h);
        if (!(fabs(slope - length) < 0.02 * length))
            fail_msg("%s: the gradient says %.6g, differences %.6g", x->name, length, slope);
        free(before), free(direction);
    }
    close_machine(&m);
}

/* ---- runs ---- */

/* B is zero: the first step's loss, and any while the rate is 0, are the model's own. */
static void zeros_change_no_bit(void **state) {
    (void)state;
    static const char *const settings[] = { "", "fuse=on attention=flash gelu_epilogue=on recompute=block" };
    for (int i = 0; i < 2; i++) {
        char with[160];
        lab l;
        lab_result base, adapted;
        lab_open(&l, &small);
        l.rate = 0;
        compose_choice c = lab_choose(&l, 0, settings[i]);
        lab_run(&l, &c, EXEC_POISON, 3, &base);
        snprintf(with, sizeof with, "lora=rank=4 %s", settings[i]);
        c = lab_choose(&l, 0, with);
        lab_run(&l, &c, EXEC_POISON, 3, &adapted);
        assert_memory_equal(base.losses, adapted.losses, 3 * sizeof *base.losses);
        assert_memory_equal(&base.evaluation, &adapted.evaluation, sizeof base.evaluation);
        lab_assert_exact_bytes(&adapted, "adapters");
        lab_result_close(&base), lab_result_close(&adapted);
    }
}

/* Only adapters have gradients and state; the state's bytes are those of two moments of each and the step. */
static void the_rest_is_frozen(void **state) {
    (void)state;
    lab l;
    machine m;
    lab_open(&l, &small);
    open_machine(&l, "lora=rank=4", &m);
    uint64_t state_bytes = 64;
    float *before[256] = { 0 };
    for (uint32_t i = 0; i < m.p.persistent_count; i++) {
        const plan_persistent *x = &m.p.persistent[i];
        uint64_t bytes = (uint64_t)shape_elements(&x->shape) * sizeof(float);
        if (x->category != CATEGORY_WEIGHTS) continue;
        if (is_adapter(x->name)) state_bytes += 2 * ((bytes + 63) / 64 * 64);
        before[i] = malloc(bytes);
        memcpy(before[i], exec_persistent(m.e, x->name), bytes);
    }
    assert_int_equal(m.p.by_category[CATEGORY_OPTIMIZER], state_bytes);
    for (int step = 0; step < 3; step++) {
        lab_hand_in(&l, m.e, "step", step, 0, 8);
        reach_run(m.e, "step");
    }
    for (uint32_t i = 0; i < m.p.persistent_count; i++) {
        const plan_persistent *x = &m.p.persistent[i];
        if (!before[i]) continue;
        size_t bytes = (size_t)shape_elements(&x->shape) * sizeof(float);
        bool same = memcmp(before[i], exec_persistent(m.e, x->name), bytes) == 0;
        if (same == is_adapter(x->name)) fail_msg("%s %s", x->name, same ? "was not trained" : "was trained");
        free(before[i]);
    }
    close_machine(&m);
}

static void compare_runs(const lab_sizes *sizes, int64_t micro, const char *a, const char *b) {
    lab l;
    lab_result first, second;
    lab_open(&l, sizes);
    compose_choice c = lab_choose(&l, 0, a), d = lab_choose(&l, micro, b);
    lab_run(&l, &c, 0, 5, &first);
    lab_run(&l, &d, EXEC_POISON | EXEC_SEPARATE, 5, &second);
    if (first.losses[0] == first.losses[4]) fail_msg("%s: nothing was learned", a);
    if (!lab_same(&first, &second))
        fail_msg("'%s' differs from '%s' by %g", b, a, lab_distance(&first, &second));
    lab_assert_exact_bytes(&first, "adapters"), lab_assert_exact_bytes(&second, "adapters");
    lab_result_close(&first), lab_result_close(&second);
}

/* What is exact stays exact beside adapters, with and without their dropout. */
static void beside_every_technique(void **state) {
    (void)state;
    static const char *const forms[] = { "lora=rank=4", "lora=rank=2,target=c_attn,dropout=0.3" };
    for (int i = 0; i < 2; i++) {
        lab_sizes sizes = small;
        char with[200];
        sizes.context = 64;
        snprintf(with, sizeof with, "%s fuse=on gelu_epilogue=on recompute=block update_early=twice",
                 forms[i]);
        compare_runs(&sizes, 0, forms[i], with);
        snprintf(with, sizeof with, "%s recompute=cheap chunk_loss=256 accumulate=defer", forms[i]);
        compare_runs(&sizes, 4, forms[i], with);
        sizes.clip = 0, sizes.dropout = 0.1;
        snprintf(with, sizeof with, "%s update_early=on recompute=2", forms[i]);
        compare_runs(&sizes, 0, forms[i], with);
    }
}

/* ---- bases of fewer bits ---- */

static dtype base_type;
static bool held_by_rows; /* weights of products lie as (out, in) */

static bool is_product(const char *name) {
    return ends_with(name, ".weight") && !is_adapter(name) &&
           (strstr(name, "attn.c_") || strstr(name, "mlp.") || strstr(name, "proj") ||
            strstr(name, "lm_head"));
}

/* What the numbers of a product are when they were held in the base's type. */
static void fill_as_held(const char *name, const shape *s, float *w) {
    int64_t n = shape_elements(s);
    fill(name, s, w);
    if (!is_product(name)) return;
    if (dtype_is_half(base_type)) {
        uint16_t *half = malloc((size_t)n * sizeof *half);
        half_narrow(base_type, w, n, half);
        half_widen(base_type, half, n, w);
        free(half);
        return;
    }
    int64_t columns = shape_last(s), blocks = nf4_blocks(columns);
    uint8_t *codes = malloc((size_t)n);
    float *scales = calloc((size_t)(columns + shape_rows(s) * blocks), sizeof *scales);
    codes_matrix m = { shape_rows(s), columns, held_by_rows, scales };
    if (base_type == DTYPE_I8) {
        codes_matrix_look(&m, w, 0, n);
        codes_matrix_scale(&m);
        codes_matrix_encode(&m, w, 0, n, (int8_t *)codes);
    }
    for (int64_t r = 0; r < shape_rows(s); r++) {
        float *row = w + r * columns;
        if (base_type == DTYPE_U8) {
            nf4_encode_row(row, columns, codes, scales);
            nf4_decode(codes, scales, 0, columns, row);
        }
        for (int64_t c = 0; c < columns && base_type == DTYPE_I8; c++)
            row[c] = (float)(int8_t)codes[r * columns + c] * scales[held_by_rows ? r : c];
    }
    free(codes), free(scales);
}

/* A run over a base is, bit for bit, that over f32 weights which are what its codes stand for; and what it
 * holds is as small as that. */
static void bases_stand_for_their_numbers(const lab_sizes *sizes, double products) {
    static const struct {
        const char *name;
        dtype type;
        double bits; /* of a number, scales included */
    } bases[] = { { "bf16", DTYPE_BF16, 16 },
                  { "f16", DTYPE_F16, 16 },
                  { "int8", DTYPE_I8, 8.0 + 32.0 / 64 },
                  { "nf4", DTYPE_U8, 4.0 + 32.0 / 64 } };
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        char setting[64];
        lab wide, narrow;
        lab_result a, b;
        base_type = bases[i].type;
        snprintf(setting, sizeof setting, "lora=rank=4,base=%s", bases[i].name);
        lab_open(&wide, sizes), lab_open(&narrow, sizes);
        wide.weight = fill_as_held, narrow.weight = fill;
        compose_choice c = lab_choose(&wide, 0, "lora=rank=4"), d = lab_choose(&narrow, 0, setting);
        lab_run(&wide, &c, 0, 20, &a);
        lab_run(&narrow, &d, EXEC_POISON, 20, &b);
        if (a.losses[0] == a.losses[19]) fail_msg("nothing was learned");
        if (memcmp(a.losses, b.losses, 20 * sizeof *a.losses) != 0 || a.evaluation != b.evaluation)
            fail_msg("%s: losses differ, %.9g and %.9g", setting, (double)a.losses[19], (double)b.losses[19]);
        lab_assert_exact_bytes(&b, "adapters");
        double saved = (double)(a.planned[CATEGORY_WEIGHTS] - b.planned[CATEGORY_WEIGHTS]);
        if (saved < products * (32 - bases[i].bits) / 8 - 2048) fail_msg("%s saves %g bytes", setting, saved);
        lab_result_close(&a), lab_result_close(&b);
    }
}

static void bases_are_what_they_stand_for(void **state) {
    (void)state;
    lab_sizes sizes = small;
    sizes.channels = 64;
    held_by_rows = false;
    bases_stand_for_their_numbers(&sizes, 2 * 12 * 64 * 64);
}

/* Codes of 8 bits have their scales by rows there, and the head is a product of its own. */
static void bases_of_decoders_are_what_they_stand_for(void **state) {
    (void)state;
    lab_sizes sizes = { .layers = 2,
                        .heads = 4,
                        .kv_heads = 2,
                        .channels = 64,
                        .context = 32,
                        .vocabulary = 97,
                        .batch = 8,
                        .clip = 0.5,
                        .untied = true,
                        .decoder = "llama" };
    held_by_rows = true;
    bases_stand_for_their_numbers(&sizes, 2 * (3 + 6) * 64 * 64 + 97 * 64);
}

static void bases_beside_every_technique(void **state) {
    (void)state;
    static const char *const forms[] = { "lora=rank=4,base=nf4", "lora=rank=2,target=c_attn,base=int8",
                                         "lora=rank=4,base=nf4 precision=mixed-bf16",
                                         "lora=rank=4,base=int8 precision=bf16" };
    for (int i = 0; i < 4; i++) {
        lab_sizes sizes = small;
        char with[200];
        sizes.context = 64;
        snprintf(with, sizeof with, "%s fuse=on gelu_epilogue=on recompute=block update_early=twice",
                 forms[i]);
        compare_runs(&sizes, 0, forms[i], with);
        if (i == 3) continue; /* there cutting the batch rounds elsewhere */
        snprintf(with, sizeof with, "%s recompute=cheap chunk_loss=256 accumulate=defer", forms[i]);
        compare_runs(&sizes, 4, forms[i], with);
    }
}

static void targets_that_do_not_exist_are_refused(void **state) {
    (void)state;
    const pass *p = the_pass();
    lab l;
    graph g;
    lab_open(&l, &small);
    compose_choice c = lab_choose(&l, 0, "");
    pass_context context = compose_context(&l.run, &c);
    assert_int_equal(compose_graph(&l.run, &c, PASS_FORWARD, &g), STATUS_OK);
    static const struct {
        const char *text, *says;
    } bad[] = { { "rank=2,target=query", "c_attn, c_proj, c_fc" },
                { "rank=2,target=c_attn+attn", "'attn'" } };
    for (int i = 0; i < 2; i++) {
        pass_setting s;
        assert_int_equal(p->parse(bad[i].text, &s), STATUS_OK);
        assert_int_equal(p->check(&g, &s, &context), STATUS_INVALID);
        if (!strstr(status_message(), bad[i].says)) fail_msg("%s", status_message());
    }
    graph_close(&g);
    static const char *const nonsense[] = {
        "rank=4097",       "rank=0",          "rank=1.5",         "rank=-1",
        "rank=8,alpha=0",  "alpha=2",         "rank=8,dropout=1", "rank=8,target=a b",
        "rank=8,bias=all", "rank=8,base=nf5", "rank=8,base="
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        pass_setting s;
        assert_int_equal(p->parse(nonsense[i], &s), STATUS_INVALID);
        assert_non_null(strstr(status_message(), "--lora"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_weights_compute_the_same),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(zeros_change_no_bit),
        cmocka_unit_test(the_rest_is_frozen),
        cmocka_unit_test(beside_every_technique),
        cmocka_unit_test(bases_are_what_they_stand_for),
        cmocka_unit_test(bases_of_decoders_are_what_they_stand_for),
        cmocka_unit_test(bases_beside_every_technique),
        cmocka_unit_test(targets_that_do_not_exist_are_refused),
    };
    return cmocka_run_group_tests_name("lora", tests, NULL, NULL);
}
