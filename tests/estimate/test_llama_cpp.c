/* llama.cpp's rules: mixes of types as its own table of sizes has them, buffers that its starts have printed,
 * who lies where when only some layers are on the device. */
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

typedef struct {
    model_config config;
    model model;
    hardware device;
    llama_cpp_settings s;
    llama_cpp_result r;
} served;

static void serve(served *x, const char *name) {
    const char *found;
    *x = (served){ .device = { .memory = 0 } };
    assert_true(published_find(name, &x->config, &found));
    families_model(&x->config, found, &x->model);
    x->s = (llama_cpp_settings){ .mix = GGUF_MIX_Q4_K_M,
                                 .keys = GGUF_F16,
                                 .values = GGUF_F16,
                                 .context = 8192,
                                 .requests = 1,
                                 .ubatch = 512,
                                 .gpu_layers = 99,
                                 .gpus = 1,
                                 .flash = true };
}

static void ask(served *x) {
    assert_int_equal(llama_cpp_check(&x->model, &x->config, &x->s), STATUS_OK);
    assert_int_equal(llama_cpp_estimate(&x->model, &x->config, &x->s, &x->r), STATUS_OK);
}

static bool is(double bytes, double mib) { return fabs(bytes / MIB - mib) < 0.02; }

/* Bits of a weight of Llama-3.1-8B: github.com/ggml-org/llama.cpp, tools/quantize/README.md. */
static void mixes_are_as_wide_as_published(void **state) {
    (void)state;
    static const struct {
        gguf_mix mix;
        double bits;
    } published[] = {
        { GGUF_MIX_IQ1_S, 2.0042 },   { GGUF_MIX_IQ1_M, 2.1460 },  { GGUF_MIX_IQ2_XXS, 2.3824 },
        { GGUF_MIX_IQ2_XS, 2.5882 },  { GGUF_MIX_IQ2_S, 2.7403 },  { GGUF_MIX_IQ2_M, 2.9294 },
        { GGUF_MIX_IQ3_XXS, 3.2548 }, { GGUF_MIX_IQ3_XS, 3.4977 }, { GGUF_MIX_IQ3_S, 3.6606 },
        { GGUF_MIX_IQ3_M, 3.7628 },   { GGUF_MIX_IQ4_XS, 4.4597 }, { GGUF_MIX_IQ4_NL, 4.6818 },
        { GGUF_MIX_Q2_K_S, 2.9697 },  { GGUF_MIX_Q2_K, 3.1593 },   { GGUF_MIX_Q3_K_S, 3.6429 },
        { GGUF_MIX_Q3_K_M, 3.9960 },  { GGUF_MIX_Q3_K_L, 4.2979 }, { GGUF_MIX_Q4_K_S, 4.6672 },
        { GGUF_MIX_Q4_K_M, 4.8944 },  { GGUF_MIX_Q5_K_S, 5.5704 }, { GGUF_MIX_Q5_K_M, 5.7036 },
        { GGUF_MIX_Q6_K, 6.5633 },    { GGUF_MIX_Q8_0, 8.5008 },   { GGUF_MIX_F16, 16.0005 },
    };
    served x;
    serve(&x, "llama-3.1-8b");
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        x.s.mix = published[i].mix;
        ask(&x);
        if (fabs(x.r.bits - published[i].bits) > 0.00006)
            fail_msg("%s: %.4f bits, published are %.4f", gguf_mix_name(x.s.mix), x.r.bits,
                     published[i].bits);
    }
}

/* What llama.cpp printed: weights of 4403.49 and 281.81 MiB, buffers of 560.00 MiB with scores as matrices
 * and of 258.50 MiB without; Qwen2.5-3B: 300.75 and 12.01 + 0.58 MiB (LLamaSharp, issue 1099). */
static void buffers_are_as_printed(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b");
    ask(&x);
    assert_true(is((double)x.r.device.weights, 4403.49) && is((double)x.r.host.weights, 281.81));
    assert_true(is((double)x.r.device.cache, 1024) && is((double)x.r.device.compute.likely, 258.5));
    x.s.flash = false;
    ask(&x);
    assert_true(is((double)x.r.device.compute.likely, 560));
    serve(&x, "qwen2.5-3b");
    x.s.context = 4096, x.s.flash = false;
    ask(&x);
    assert_true(is((double)x.r.device.cache, 144) && is((double)x.r.device.compute.likely, 300.75));
    assert_true(is((double)x.r.host.compute.likely, 12 + 0.58));
    serve(&x, "pythia-2.8b"); /* q, k and v in one product */
    x.s.context = 2048, x.s.flash = false, x.s.mix = GGUF_MIX_F16;
    ask(&x);
    assert_true(is((double)x.r.device.cache, 640) && is((double)x.r.device.compute.likely, 162));
    assert_true(fabs((double)x.r.device.weights / MIB - 5049.71) < 1 && is((double)x.r.host.weights, 245.62));
}

/* A layer that leaves the device is with the host, to the byte; the head leaves last. */
static void layers_move_whole(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b");
    ask(&x);
    llama_cpp_result all = x.r;
    assert_true(all.layers == 33 && all.on_device == 33);
    for (int64_t n = 32; n >= 0; n--) {
        uint64_t before = x.r.device.weights, cache = x.r.device.cache;
        x.s.gpu_layers = n;
        ask(&x);
        assert_true(x.r.device.weights + x.r.host.weights == all.device.weights + all.host.weights);
        assert_true(x.r.device.cache + x.r.host.cache == all.device.cache);
        assert_true(x.r.device.weights < before);
        assert_true(n == 0 || cache - x.r.device.cache == all.device.cache / 32);
        if (n == 1) assert_true(is((double)x.r.device.weights, 410.98 + 0.02)); /* Q6_K, and the last norm */
    }
    assert_true(x.r.device.weights == 0 && x.r.device.cache == 0 && x.r.device.compute.likely == 0);
}

/* Mistral-Small-24B in Q8_0 on two: github.com/LostRuins/koboldcpp/issues/1882 (11,826.45 and 11,380.14 MiB,
 * 680.00 with the host). GLM-4.6's 92 blocks and their head lie as 24, 23, 23 and 22 on four
 * (github.com/ikawrakow/ik_llama.cpp, pull request 848), as the first of Llama-3-70B's 81 do. */
static void layers_are_shared_out_in_their_order(void **state) {
    (void)state;
    served x;
    serve(&x, "mistral-7b");
    decoder_config *c = &x.config.decoder;
    c->layers = 40, c->channels = 5120, c->inner = 32768, c->vocabulary = 131072, c->context = 32768;
    families_model(&x.config, "mistral-small-24b", &x.model);
    x.s.mix = GGUF_MIX_Q8_0;
    ask(&x);
    uint64_t alone = x.r.device.weights;
    x.s.gpus = 2;
    ask(&x);
    assert_true(is((double)x.r.device.weights, 11826.45) && is((double)x.r.host.weights, 680));
    assert_true(is((double)(alone - x.r.device.weights), 11380.14));

    serve(&x, "llama-3-70b");
    x.s.mix = GGUF_MIX_Q8_0;
    ask(&x);
    uint64_t cache = x.r.device.cache;
    static const int64_t shared[][2] = { { 2, 41 }, { 3, 26 /* and the head */ }, { 4, 21 }, { 8, 11 } };
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        x.s.gpus = shared[i][0];
        ask(&x);
        assert_true(x.r.device.cache == cache / 80 * (uint64_t)shared[i][1]);
    }
    x.s.gpus = 17;
    assert_int_equal(llama_cpp_check(&x.model, &x.config, &x.s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "81 layers out among 16 at most"));
    x.config.decoder.layers = 4, x.s.gpus = 6;
    assert_int_equal(llama_cpp_check(&x.model, &x.config, &x.s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "5 layers out among 5 at most"));
}

static void caches_shrink_with_their_types(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b");
    x.s.keys = x.s.values = GGUF_Q8_0;
    ask(&x);
    assert_true(is((double)x.r.device.cache, 1024 * 8.5 / 16));
    x.s.values = GGUF_Q4_0, x.s.requests = 3, x.s.context = 1000; /* 3000 cells, rounded up */
    ask(&x);
    assert_true(is((double)x.r.device.cache, 3072 / 8192.0 * 1024 * (8.5 + 4.5) / 32));
    x.s.flash = false;
    assert_int_equal(llama_cpp_check(&x.model, &x.config, &x.s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "flash attention"));
}

/* gpt-oss has a window of 128 on every other layer: 768 cells of it were printed for steps of 512. */
static void windows_keep_a_step_more(void **state) {
    (void)state;
    served x;
    serve(&x, "llama-3-8b");
    x.config.decoder.window = 128;
    for (int64_t i = 0; i < 32; i += 2) x.config.decoder.far[0] |= UINT64_C(1) << i;
    families_model(&x.config, "windows", &x.model);
    ask(&x);
    assert_true(x.r.device.cache == 16 * (8192 + 768) * 2 * 1024 * 2);
}

static void rows_that_are_no_blocks_get_another_type(void **state) {
    (void)state;
    heads h = { .layers = 24, .heads = 14, .kv_heads = 2 };
    gguf_model q = { &h, true };
    weights_item x = { .part = WEIGHTS_Q, .block = 3, .rows = 896, .inner = 896, .copies = 1 };
    assert_int_equal(gguf_type_of(GGUF_MIX_Q4_K_M, &q, &x), GGUF_Q5_0); /* 896 is no multiple of 256 */
    x.part = WEIGHTS_TABLE;
    assert_int_equal(gguf_type_of(GGUF_MIX_Q4_K_M, &q, &x), GGUF_Q8_0);
    x.part = WEIGHTS_DOWN, x.block = 0, x.inner = 4864;
    assert_int_equal(gguf_type_of(GGUF_MIX_Q4_K_M, &q, &x), GGUF_Q6_K);
    x.inner = 100;
    assert_int_equal(gguf_type_of(GGUF_MIX_Q4_K_M, &q, &x), GGUF_F16);
}

static void advice_suffices(void **state) {
    (void)state;
    static const double devices[] = { 24, 16, 8, 4 };
    static const char *const names[] = { "llama-3-70b", "qwen2.5-14b", "llama-3.1-8b" };
    for (int i = 0; i < 12; i++) {
        served x;
        framework_settings s = { .llama_cpp = { 0 } };
        framework_advice a;
        framework_result r;
        serve(&x, names[i / 4]);
        x.device = (hardware){ .memory = (uint64_t)(devices[i % 4] * 1024 * MIB),
                               .context = { 300 << 20, 450 << 20, 700 << 20 } };
        s.llama_cpp = x.s;
        s.llama_cpp.context = families_context(&x.config);
        framework_subject q = { .model = &x.model, .config = &x.config, .hardware = &x.device };
        assert_int_equal(framework_llama_cpp.estimate(&q, &s, &r), STATUS_OK);
        if (r.fits) continue;
        assert_int_equal(framework_advise(&framework_llama_cpp, &q, &s, &a), STATUS_OK);
        assert_true(a.text[0] && a.result.fits);
        assert_true(a.result.layers[FRAMEWORK_DEVICE].likely <= x.device.memory);
    }
}

/* As many layers as are said to fit do, and one more does not; whatever lay in the answer's memory before. */
static void the_most_layers_fit(void **state) {
    (void)state;
    served x;
    framework_result r;
    framework_settings s = { .llama_cpp = { 0 } };
    serve(&x, "llama-3-70b");
    x.device = (hardware){ .memory = (uint64_t)24 << 30, .context = { 300 << 20, 450 << 20, 700 << 20 } };
    framework_subject q = { .model = &x.model, .config = &x.config, .hardware = &x.device };
    s.llama_cpp = x.s;
    memset(&r, 0x7f, sizeof r);
    assert_int_equal(framework_llama_cpp.estimate(&q, &s, &r), STATUS_OK);
    double most = -1;
    for (uint32_t i = 0; i < r.fact_count; i++)
        if (strcmp(r.facts[i].key, "most_layers") == 0) most = r.facts[i].likely;
    assert_true(most > 20 && most < 81);
    for (int more = 0; more < 2; more++) {
        s.llama_cpp.gpu_layers = (int64_t)most + more;
        assert_int_equal(framework_llama_cpp.estimate(&q, &s, &r), STATUS_OK);
        assert_int_equal(r.fits, !more);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixes_are_as_wide_as_published),
        cmocka_unit_test(buffers_are_as_printed),
        cmocka_unit_test(layers_move_whole),
        cmocka_unit_test(layers_are_shared_out_in_their_order),
        cmocka_unit_test(caches_shrink_with_their_types),
        cmocka_unit_test(windows_keep_a_step_more),
        cmocka_unit_test(rows_that_are_no_blocks_get_another_type),
        cmocka_unit_test(advice_suffices),
        cmocka_unit_test(the_most_layers_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
