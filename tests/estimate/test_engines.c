/* SGLang's and TensorRT-LLM's rules: sums worked out by hand from their sources. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/framework.h"
#include "io/published.h"

#define MIB 1048576.0
#define GIB 1073741824.0

typedef struct {
    model_config config;
    model model;
    hardware device;
    framework_subject subject;
    framework_settings s;
    engine_result r;
} served;

static void serve(served *x, const char *name, double device_gib, bool sglang) {
    const char *found;
    *x = (served){ .device = { .memory = (uint64_t)(device_gib * GIB) } };
    assert_true(published_find(name, &x->config, &found));
    families_model(&x->config, found, &x->model);
    x->subject = (framework_subject){ .model = &x->model, .config = &x->config, .hardware = &x->device };
    x->s.engine = (engine_settings){
        .gpus = 1, .requests = 1, .context = families_context(&x->config), .is_sglang = sglang
    };
    if (sglang)
        engine_sglang_defaults(&x->device, &x->s.engine);
    else
        engine_trtllm_defaults(&x->s.engine);
}

static void ask(served *x) {
    const framework *f = x->s.engine.is_sglang ? &framework_sglang : &framework_trtllm;
    assert_int_equal(f->check(&x->subject, &x->s), STATUS_OK);
    assert_int_equal((x->s.engine.is_sglang ? engine_sglang : engine_trtllm)(&x->model, &x->config,
                                                                             &x->device, &x->s.engine, &x->r),
                     STATUS_OK);
}

static bool near(double is, double should, double most) { return fabs(is / should - 1) <= most; }

/* By hand, from memory_hook.py. 80 GiB: pieces of 8192 tokens, graphs of up to 256 texts, 58 sizes of pieces:
 * 512 + 1.5 x 8192 + 1024 / 8 + 2 x 256 + 8 x 58 = 13,904 MiB. 24 GiB: 512 + 6144 + 128 + 96 + 8 x 50. */
static void sglang_chooses_by_the_device(void **state) {
    (void)state;
    static const struct {
        double gib;
        int64_t gpus, chunk, graph;
        double left; /* MiB */
    } devices[] = { { 16, 1, 2048, 8, 512 + 3072 + 128 + 16 + 8 * 42 },
                    { 24, 1, 4096, 48, 512 + 6144 + 128 + 96 + 8 * 50 },
                    { 48, 4, 4096, 160, 512 + 6144 + 512 + 320 + 8 * 50 },
                    { 80, 1, 8192, 256, 13904 },
                    { 80, 8, 8192, 512, 512 + 12288 + 1024 + 1024 + 464 },
                    { 180, 1, 16384, 512, 512 + 24576 + 128 + 1024 + 8 * 74 } };
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        served x;
        double memory = devices[i].gib * 1024;
        serve(&x, "qwen3-0.6b", devices[i].gib, true);
        x.s.engine.gpus = devices[i].gpus;
        engine_sglang_defaults(&x.device, &x.s.engine);
        assert_int_equal(x.s.engine.chunk, devices[i].chunk);
        assert_int_equal(x.s.engine.graph_batch, devices[i].graph);
        ask(&x);
        assert_true(fabs(x.r.fraction - round((memory - devices[i].left) / memory * 1000) / 1000) < 1e-9);
    }
}

/* Weights and cache fill the fraction; a token of Llama 3 8B has 2 x 8 heads x 128 x 2 bytes in 32 layers. */
static void sglang_fills_its_fraction(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b", 79.22, true);
    x.device.context[0] = x.device.context[1] = x.device.context[2] = 512 << 20;
    x.s.engine.fraction = 0.8;
    ask(&x);
    double before = (double)x.device.memory - 512 * MIB;
    assert_true(near((double)x.r.weights.likely, 14.96 * GIB, 0.001));
    assert_true(near((double)(x.r.weights.likely + x.r.cache.likely), 0.8 * before, 1e-9));
    assert_true(near(x.r.headroom, 0.2 * before, 1e-9));
    assert_true(x.r.tokens.likely == x.r.cache.likely / 131072);
    assert_true(x.r.needed == 8192 * 131072.0);
    double texts = floor((double)x.r.tokens.likely / 8192 * 512);
    texts = fmin(fmax(texts, 2048), 4096);
    assert_true(x.r.tables.likely == (uint64_t)((texts + 1) * (8192 + 4) * 4));
    uint64_t before_fp8 = x.r.tokens.likely;
    x.s.engine.small_cache = true;
    ask(&x);
    assert_true(x.r.tokens.likely / 2 == before_fp8 || x.r.tokens.likely / 2 == before_fp8 + 1);
}

/* A long context makes a table of 131,076 numbers for each of 2048 texts, a GiB, that fewer texts save. */
static void tables_of_long_texts_are_counted(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3.1-8b", 79.22, true);
    ask(&x);
    assert_true(x.r.tables.likely == UINT64_C(2049) * (131072 + 4) * 4);
    double wanted = x.r.wanted[1];
    x.s.engine.running = 64;
    ask(&x);
    assert_true(x.r.tables.likely == UINT64_C(65) * (131072 + 4) * 4);
    assert_true(x.r.wanted[1] < wanted);
}

/* The cache is nine tenths of what the rest leaves, and a tenth stays free. */
static void tensorrt_llm_divides_what_is_left(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3.1-8b", 79.22, false);
    ask(&x);
    double taken =
        (double)(x.r.weights.likely + x.r.activations.likely + x.r.graphs.likely + x.r.libraries.likely);
    double left = (double)x.device.memory - taken;
    assert_true(near((double)x.r.cache.likely, 0.9 * left, 1e-9));
    assert_true(near(x.r.headroom, 0.1 * left, 1e-9));
    assert_int_equal(x.r.tokens.likely % 32, 0);
    x.s.engine.fraction = 0.5;
    ask(&x);
    assert_true(near((double)x.r.cache.likely, 0.5 * left, 1e-9));
    x.s.engine.gpus = 2;
    uint64_t alone = x.r.weights.likely;
    ask(&x);
    assert_true(near((double)x.r.weights.likely, (double)alone / 2, 0.01));
}

/* A fraction of nearly all leaves activations nothing: weights and texts fit, and yet it fails as it runs. */
static void what_is_left_must_hold_a_step(void **state) {
    (void)state;
    served x;
    framework_result r;
    framework_advice a;
    serve(&x, "llama-3-8b", 23.6, true);
    x.s.engine.fraction = 0.98;
    assert_int_equal(framework_sglang.estimate(&x.subject, &x.s, &r), STATUS_OK);
    assert_false(r.fits);
    assert_int_equal(framework_advise(&framework_sglang, &x.subject, &x.s, &a), STATUS_OK);
    assert_true(a.text[0] && a.result.fits);
    x.s.engine.fraction = 0.85;
    assert_int_equal(framework_sglang.estimate(&x.subject, &x.s, &r), STATUS_OK);
    assert_true(r.fits);
}

static void advice_suffices(void **state) {
    (void)state;
    static const char *const names[] = { "llama-3-70b", "qwen2.5-7b", "llama-3.1-405b" };
    static const double devices[] = { 79.11, 14.75, 139.8 };
    for (int i = 0; i < 6; i++) {
        served x;
        framework_advice a;
        framework_result r;
        serve(&x, names[i / 2], devices[i / 2], i % 2);
        const framework *f = i % 2 ? &framework_sglang : &framework_trtllm;
        assert_int_equal(f->estimate(&x.subject, &x.s, &r), STATUS_OK);
        assert_false(r.fits);
        assert_int_equal(framework_advise(f, &x.subject, &x.s, &a), STATUS_OK);
        assert_true(a.text[0] && a.result.fits);
        assert_int_equal(f->estimate(&x.subject, &a.settings, &r), STATUS_OK);
        assert_true(r.fits && r.layers[FRAMEWORK_DEVICE].likely <= x.device.memory);
    }
}

static void what_cannot_be_served_is_refused(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b", 79.22, true);
    x.s.engine.gpus = 3;
    assert_int_equal(framework_sglang.check(&x.subject, &x.s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "SGLang shares out whole heads"));
    x.s.engine.gpus = 1, x.s.engine.page = 24;
    assert_int_equal(framework_sglang.check(&x.subject, &x.s), STATUS_INVALID);
    x.s.engine.page = 1, x.s.engine.running = 4, x.s.engine.requests = 5;
    assert_int_equal(framework_sglang.check(&x.subject, &x.s), STATUS_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sglang_chooses_by_the_device),
        cmocka_unit_test(sglang_fills_its_fraction),
        cmocka_unit_test(tables_of_long_texts_are_counted),
        cmocka_unit_test(tensorrt_llm_divides_what_is_left),
        cmocka_unit_test(what_is_left_must_hold_a_step),
        cmocka_unit_test(advice_suffices),
        cmocka_unit_test(what_cannot_be_served_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
