/* What older versions of PyTorch do otherwise: each rule by itself, and on whole models that an older version
 * never takes less where nothing but the version differs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/small.h"
#include "estimate/torch/torch_process.h"
#include "estimate/torch/torch_versions.h"
#include "io/published.h"
#include "models/families.h"

/* ---- names ---- */

static void names_are_in_the_order_of_the_versions(void **state) {
    (void)state;
    const char *at = TORCH_VERSION_NAMES;
    for (int v = TORCH_ANY; v <= TORCH_TODAY; v++) {
        const char *name = torch_version_name((torch_version)v);
        size_t n = strlen(name);
        assert_memory_equal(at, name, n);
        assert_true(v == TORCH_TODAY ? at[n] == 0 : strncmp(at + n, ", ", 2) == 0);
        at += n + 2;
    }
}

static void what_nobody_says_is_before_nothing(void **state) {
    (void)state;
    torch_settings any = { 0 }, old = { .version = TORCH_1_8 };
    assert_false(torch_is_before(&any, TORCH_TODAY));
    assert_true(torch_is_before(&old, TORCH_1_9) && !torch_is_before(&old, TORCH_1_8));
}

/* ---- rule by rule ---- */

/* A weight of 100 numbers whose gradient is there at the end of each step; forward or backward needs much. */
static uint64_t peak_of_weight(const tape_settings *s, uint64_t forward, uint64_t backward) {
    small x;
    tape_result r;
    small_open(&x, (torch_settings){ 0 });
    tape_value w = small_source(&x, 100, 4, TAPE_WEIGHTS, true);
    tape_value y = torch_call(&x.r, (tape_call){ .in = { w } }, 1, 4);
    torch_call(&x.r, (tape_call){ .in = { y }, .forward = forward, .backward = backward }, 1, 4);
    assert_int_equal(tape_play(&x.t, s, &r), STATUS_OK);
    tape_close(&x.t);
    return r.peak;
}

static void zeros_stay_through_the_step(void **state) {
    (void)state;
    tape_settings frees = { 0 }, fills = { .fills = true };
    assert_int_equal(peak_of_weight(&fills, 9000, 0) - peak_of_weight(&frees, 9000, 0), 400);
    assert_int_equal(peak_of_weight(&fills, 0, 9000) - peak_of_weight(&frees, 0, 9000), 400);
    torch_settings s = { .version = TORCH_1_13 }, next = { .version = TORCH_2_0 };
    assert_true(torch_fills_gradients(&s) && !torch_fills_gradients(&next));
    s.shard = TORCH_FSDP;
    assert_true(torch_fills_gradients(&s));
    s.shard = TORCH_ZERO2; /* DeepSpeed's own */
    assert_false(torch_fills_gradients(&s));
}

/* zero_grad between forward and backward: gradients are there in the one and not in the other. */
static void gradients_that_are_kept_go_before_backward(void **state) {
    (void)state;
    tape_settings frees = { 0 }, late = { .clears_late = true };
    assert_int_equal(peak_of_weight(&late, 9000, 0) - peak_of_weight(&frees, 9000, 0), 400);
    assert_int_equal(peak_of_weight(&late, 0, 9000), peak_of_weight(&frees, 0, 9000));
    frees.accumulates = late.accumulates = true; /* then they are there anyhow */
    assert_int_equal(peak_of_weight(&late, 9000, 0), peak_of_weight(&frees, 9000, 0));
}

static void softmax_kept_what_it_reads(void **state) {
    (void)state;
    for (int v = TORCH_ANY; v <= TORCH_TODAY; v++) {
        small x;
        small_open(&x, (torch_settings){ .version = (torch_version)v });
        torch_softmax(&x.r, "softmax", small_source(&x, 10, 4, TAPE_ACTIVATIONS, true), 0);
        const tape_call *c = (tape_call *)x.t.calls.data + 1;
        assert_true(c->keeps_out);
        assert_int_equal(c->keeps_in, v >= TORCH_1_8 && v <= TORCH_1_10);
        tape_close(&x.t);
    }
}

static void kernels_were_loaded_at_once(void **state) {
    (void)state;
    torch_settings s = { .version = TORCH_1_12, .cuda = true },
                   next = { .version = TORCH_1_13, .cuda = true };
    assert_true(torch_loads_at_once(&s) && !torch_loads_at_once(&next));
    s.cuda = false;
    assert_false(torch_loads_at_once(&s));
    for (int images = 0; images < 2; images++) {
        interval once = torch_process(images, 1, true), lazy = torch_process(images, 1, false);
        assert_true(once.low > lazy.low && once.likely > lazy.likely && once.high > lazy.high);
        assert_true(once.low < once.likely && once.likely < once.high);
    }
    /* huggingface.co/docs/transformers/perf_train_gpu_one: 1,343 MiB with a first tensor on a V100 of 350 */
    assert_true(torch_process(false, 1, true).low < (1343 - 350) * (UINT64_C(1) << 20));
}

static void updates_are_what_they_were_then(void **state) {
    (void)state;
    static const struct {
        torch_version v;
        torch_update trainer, own;
        torch_attention models, kernels; /* transformers', torch's */
    } was[] = { { TORCH_1_10, TORCH_SINGLE, TORCH_SINGLE, TORCH_EAGER, TORCH_EAGER },
                { TORCH_1_13, TORCH_SINGLE, TORCH_SINGLE, TORCH_EAGER, TORCH_EAGER },
                { TORCH_2_0, TORCH_FOREACH, TORCH_FOREACH, TORCH_EAGER, TORCH_FLASH },
                { TORCH_2_1, TORCH_FOREACH, TORCH_FOREACH, TORCH_FLASH, TORCH_FLASH },
                { TORCH_2_7, TORCH_FOREACH, TORCH_FOREACH, TORCH_FLASH, TORCH_FLASH },
                { TORCH_2_8, TORCH_FUSED, TORCH_FOREACH, TORCH_FLASH, TORCH_FLASH },
                { TORCH_ANY, TORCH_FUSED, TORCH_FOREACH, TORCH_FLASH, TORCH_FLASH } };
    for (size_t i = 0; i < sizeof was / sizeof *was; i++) {
        assert_int_equal(torch_usual_update(was[i].v, true), was[i].trainer);
        assert_int_equal(torch_usual_update(was[i].v, false), was[i].own);
        assert_int_equal(torch_usual_attention(was[i].v, true), was[i].models);
        assert_int_equal(torch_usual_attention(was[i].v, false), was[i].kernels);
    }
}

/* ---- whole models ---- */

static torch_result estimate(const char *model_name, torch_settings s, torch_version v) {
    model_config c;
    model m;
    const char *name;
    torch_result r;
    assert_true(published_find(model_name, &c, &name));
    families_model(&c, name, &m);
    s.version = v, s.batch = 4, s.context = m.context ? 64 : 0, s.cuda = true;
    s.state_bits = s.base_bits = 32;
    if (!s.gpus) s.gpus = 1;
    assert_int_equal(torch_estimate(&m, &s, &r), STATUS_OK);
    return r;
}

/* Adam's foreach before 2.1 has one more copy of what is trained; the update is the peak of a few tokens. */
static void an_update_had_two_copies(void **state) {
    (void)state;
    torch_settings s = { .update = TORCH_FOREACH };
    torch_result two = estimate("bert-base", s, TORCH_2_0), one = estimate("bert-base", s, TORCH_2_1);
    assert_string_equal(two.peak_in, "update");
    assert_string_equal(one.peak_in, "update");
    assert_int_equal(two.live.likely - one.live.likely, 4 * one.trained);
    s.optimizer = OPTIMIZER_SGD;
    assert_int_equal(estimate("bert-base", s, TORCH_2_0).live.likely,
                     estimate("bert-base", s, TORCH_2_1).live.likely);
}

static const torch_settings ways[] = {
    { .attention = TORCH_EAGER, .update = TORCH_SINGLE, .transformers = true, .older = true },
    { .attention = TORCH_EAGER, .update = TORCH_SINGLE, .types = TORCH_AUTOCAST, .checkpointing = true },
    { .attention = TORCH_EAGER, .update = TORCH_FOREACH, .types = TORCH_HALF, .keeps_gradients = true },
    { .attention = TORCH_EAGER, .update = TORCH_FOREACH, .gpus = 4, .shard = TORCH_DDP },
    { .attention = TORCH_EAGER, .update = TORCH_FOREACH, .gpus = 4, .shard = TORCH_FSDP },
    { .attention = TORCH_EAGER, .update = TORCH_SINGLE, .gpus = 4, .shard = TORCH_ZERO2 },
    { .attention = TORCH_FLASH, .update = TORCH_FOREACH, .types = TORCH_AUTOCAST },
    { .attention = TORCH_FLASH, .update = TORCH_FUSED, .transformers = true },
};
static const char *const models[] = { "gpt2", "bert-base", "vit-base", "resnet-18" };
enum { WAYS = sizeof ways / sizeof *ways, MODELS = sizeof models / sizeof *models };

static void older_versions_never_take_less(void **state) {
    (void)state;
    for (int i = 0; i < WAYS * MODELS; i++) {
        const torch_settings *s = &ways[i / MODELS];
        const char *which = models[i % MODELS];
        uint64_t last = 0;
        for (int v = TORCH_TODAY; v >= (int)torch_oldest(s, true); v--) {
            uint64_t live = estimate(which, *s, (torch_version)v).live.likely;
            if (live < last) fail_msg("%s, way %d: %s", which, i / MODELS, torch_version_name(v));
            last = live;
        }
    }
}

/* Nothing said is today's, and its upper end is not below that of any version that it can be of. */
static void what_nobody_says_spans_what_can_be(void **state) {
    (void)state;
    for (int i = 0; i < WAYS * MODELS; i++) {
        const torch_settings *s = &ways[i / MODELS];
        const char *which = models[i % MODELS];
        torch_result any = estimate(which, *s, TORCH_ANY), today = estimate(which, *s, TORCH_TODAY);
        assert_int_equal(any.live.likely, today.live.likely);
        assert_int_equal(any.reserved.likely, today.reserved.likely);
        assert_int_equal(any.live.low, today.live.low);
        for (int v = TORCH_TODAY; v >= (int)torch_oldest(s, true); v--) {
            torch_result r = estimate(which, *s, (torch_version)v);
            if (any.live.high < r.live.high || any.reserved.high < r.reserved.high)
                fail_msg("%s, way %d: %s", which, i / MODELS, torch_version_name(v));
        }
    }
}

/* ---- what a version has not got ---- */

static void what_came_later_is_refused(void **state) {
    (void)state;
    static const struct {
        torch_settings s;
        torch_version since;
    } all[] = {
        { { .attention = TORCH_FLASH, .update = TORCH_SINGLE }, TORCH_2_0 },
        { { .attention = TORCH_EAGER, .update = TORCH_FUSED }, TORCH_2_0 },
        { { .attention = TORCH_EAGER, .update = TORCH_FOREACH }, TORCH_1_12 },
        { { .attention = TORCH_EAGER, .update = TORCH_SINGLE, .shard = TORCH_FSDP }, TORCH_1_12 },
        { { .attention = TORCH_EAGER, .update = TORCH_SINGLE }, TORCH_1_8 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(torch_oldest(&all[i].s, true), all[i].since);
        for (int v = TORCH_ANY; v <= TORCH_TODAY; v++) {
            torch_settings s = all[i].s;
            s.version = (torch_version)v;
            bool has = !v || v >= (int)all[i].since;
            assert_int_equal(torch_check_version(&s), has ? STATUS_OK : STATUS_INVALID);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(names_are_in_the_order_of_the_versions),
                                        cmocka_unit_test(what_nobody_says_is_before_nothing),
                                        cmocka_unit_test(zeros_stay_through_the_step),
                                        cmocka_unit_test(gradients_that_are_kept_go_before_backward),
                                        cmocka_unit_test(softmax_kept_what_it_reads),
                                        cmocka_unit_test(kernels_were_loaded_at_once),
                                        cmocka_unit_test(updates_are_what_they_were_then),
                                        cmocka_unit_test(an_update_had_two_copies),
                                        cmocka_unit_test(older_versions_never_take_less),
                                        cmocka_unit_test(what_nobody_says_spans_what_can_be),
                                        cmocka_unit_test(what_came_later_is_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
