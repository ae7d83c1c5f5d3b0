/* vLLM's rules: sums worked out by hand, groups of layers with windows, and what its starts have reported
 * (bench/estimate/points_serving.csv holds them all). */
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

#define GIB 1073741824.0

typedef struct {
    model_config config;
    model model;
    hardware device;
    vllm_settings s;
    vllm_result r;
} served;

static void serve(served *x, const char *name, double device_gib) {
    const char *found;
    *x = (served){ .device = { .memory = (uint64_t)(device_gib * GIB) } };
    assert_true(published_find(name, &x->config, &found));
    families_model(&x->config, found, &x->model);
    x->s = (vllm_settings){ .utilization = 0.9,
                            .gpus = 1,
                            .block = 16,
                            .requests = 1,
                            .batched = 2048,
                            .sequences = 256,
                            .context = families_context(&x->config) };
}

static void ask(served *x) {
    assert_int_equal(vllm_check(&x->model, &x->config, &x->s), STATUS_OK);
    assert_int_equal(vllm_estimate(&x->model, &x->config, &x->device, &x->s, &x->r), STATUS_OK);
}

static bool near(double is, double should, double most) { return fabs(is / should - 1) <= most; }

/* github.com/vllm-project/vllm/pull/10511: Meta-Llama-3-8B on 79.22 GiB, alone and over two devices. The
 * batch was the context then. */
static void llama_takes_what_was_reported(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b", 79.22);
    x.s.batched = 8192;
    ask(&x);
    assert_true(near((double)x.r.weights.likely, 14.96 * GIB, 0.001));
    assert_true(near((double)x.r.activations.likely, 1.26 * GIB, 0.03));
    x.s.gpus = 2;
    ask(&x);
    assert_true(near((double)x.r.weights.likely, 7.48 * GIB, 0.001));
    assert_true(near((double)x.r.activations.likely, 1.26 * GIB, 0.03));
}

/* github.com/vllm-project/vllm/issues/10517: on an RTX 3090, batches of 20,000 and of 29,000 tokens. */
static void long_batches_take_what_was_reported(void **state) {
    (void)state;
    static const double reported[][3] = { { 20000, 2.07, 3.81 }, { 29000, 2.99, 2.89 } };
    for (int i = 0; i < 2; i++) {
        served x;
        serve(&x, "llama-3-8b", 23.58);
        x.s.context = x.s.batched = (int64_t)reported[i][0];
        x.s.eager = true;
        ask(&x);
        assert_true(near((double)x.r.activations.likely, reported[i][1] * GIB, 0.02));
        assert_true(near((double)x.r.cache.likely, reported[i][2] * GIB, 0.05));
        assert_true((double)x.r.cache.low <= reported[i][2] * GIB &&
                    reported[i][2] * GIB <= (double)x.r.cache.high);
    }
}

/* Pages of 16 tokens: 2 x 8 heads x 128 x 2 bytes a token and layer, 2 MiB over 32 layers. */
static void pages_are_counted(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b", 79.22);
    ask(&x);
    assert_true(x.r.needed == 8192.0 / 16 * 2097152);
    assert_true(x.r.tokens.likely == x.r.cache.likely / 2097152 * 16);
    assert_true(fabs(x.r.concurrency[1] - (double)x.r.tokens.likely / 8192) < 0.01);
    assert_true(x.r.longest.likely == x.r.tokens.likely);
    double before = x.r.needed;
    x.s.cache = VLLM_CACHE_FP8, x.s.requests = 3;
    ask(&x);
    assert_true(x.r.needed == before * 3 / 2);
    x.s.gpus = 16; /* two devices have the same head */
    x.s.requests = 1;
    ask(&x);
    assert_true(x.r.needed == before / 2 / 8);
}

/* 26 layers, every sixth of which sees all: 4 far and 22 near ones make groups of 4, one far and six near. */
static void windows_need_less(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b", 79.22);
    x.config.decoder.layers = 26;
    x.config.decoder.window = 512;
    for (int64_t i = 5; i < 26; i += 6) x.config.decoder.far[0] |= UINT64_C(1) << i;
    families_model(&x.config, "windows", &x.model);
    x.s.context = 8192;
    ask(&x);
    double page = 2 * 8 * 128 * 2 * 16 * 4, seen = ceil((511 + 2048) / 16.0) + 1;
    assert_true(x.r.needed == page * (8192 / 16 + 6 * seen));
}

static void quantized_products_shrink(void **state) {
    (void)state;
    static const double bits[] = { 16, 8, 4.15625, 4.15625, 4.5 };
    served x;
    serve(&x, "llama-3-8b", 79.22);
    double products = 32.0 * (4096.0 * (4096 * 2 + 1024 * 2) + 3 * 4096.0 * 14336);
    double rest = 2 * 128256.0 * 4096 * 2 + 65 * 4096 * 2 + 8192 * 128 * 2;
    for (int i = SERVED_PLAIN; i <= SERVED_BITSANDBYTES; i++) {
        x.s.quantization = (served_quantization)i;
        ask(&x);
        assert_true(near((double)x.r.weights.likely, products * bits[i] / 8 + rest, 1e-6));
    }
}

static void what_cannot_be_served_is_refused(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b", 79.22);
    x.s.gpus = 3;
    assert_int_equal(vllm_check(&x.model, &x.config, &x.s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "whole heads"));
    x.s.gpus = 1, x.s.block = 24;
    assert_int_equal(vllm_check(&x.model, &x.config, &x.s), STATUS_INVALID);
    x.s.block = 16, x.s.sequences = 4096;
    assert_int_equal(vllm_check(&x.model, &x.config, &x.s), STATUS_INVALID);
}

/* One byte of keys and values too few, and it does not start; with what is advised it does. */
static void advice_suffices(void **state) {
    (void)state;
    static const char *const names[] = { "llama-3-70b", "qwen2.5-7b", "mistral-7b", "llama-3.1-405b" };
    static const double devices[] = { 79.11, 23.64, 14.75, 139.8 };
    for (int i = 0; i < 4; i++) {
        served x;
        framework_settings s;
        framework_advice a;
        framework_result r;
        serve(&x, names[i], devices[i]);
        s.vllm = x.s;
        framework_subject q = { .model = &x.model, .config = &x.config, .hardware = &x.device };
        assert_int_equal(framework_vllm.estimate(&q, &s, &r), STATUS_OK);
        assert_false(r.fits);
        assert_int_equal(framework_advise(&framework_vllm, &q, &s, &a), STATUS_OK);
        assert_true(a.text[0] && a.result.fits);
        assert_int_equal(framework_vllm.estimate(&q, &a.settings, &r), STATUS_OK);
        assert_true(r.fits && r.layers[FRAMEWORK_DEVICE].likely <= x.device.memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_takes_what_was_reported),
        cmocka_unit_test(long_batches_take_what_was_reported),
        cmocka_unit_test(pages_are_counted),
        cmocka_unit_test(windows_need_less),
        cmocka_unit_test(quantized_products_shrink),
        cmocka_unit_test(what_cannot_be_served_is_refused),
        cmocka_unit_test(advice_suffices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
