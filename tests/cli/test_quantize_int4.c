/* Post-training quantization to 4 bits as a user has it: files hold codes of what the model had, in whatever
 * order its weights lay; memory is as planned; what is generated does not depend on how many texts there are;
 * what can't be is said in a sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/quantizing.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "ops/codes4.h"

static int make_models(void **state) {
    static const char gpt2[] = "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_head\":2,\"n_embd\":64,"
                               "\"n_positions\":64,\"vocab_size\":259}";
    static const char llama[] = "{\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,"
                                "\"num_attention_heads\":4,\"intermediate_size\":72,\"vocab_size\":256,"
                                "\"max_position_embeddings\":32,\"tie_word_embeddings\":false}";
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    scratch_write("gpt2.json", gpt2, sizeof gpt2 - 1);
    scratch_write("llama.json", llama, sizeof llama - 1);
    command_expect(0, "train gpt2.json --data text --out model --steps 60 --batch 8 --lr 3e-3 --quiet");
    command_expect(0, "train llama.json --data text --out llama --steps 60 --batch 8 --lr 3e-3 --quiet");
    command_expect(0, "quantize model --to int4 --data text --out some --quiet");
    command_expect(0, "quantize model --to int4:all --data text --out all --quiet");
    command_expect(0, "quantize llama --to int4:all --out llama4 --quiet");
    return 0;
}

/* ---- files ---- */

static void *tensor_of(const safetensors *s, const char *name, const char *type, shape *is) {
    const safetensors_entry *e = safetensors_find(s, name);
    if (!e) fail_msg("there is no %s", name);
    if (strcmp(e->dtype, type) != 0) fail_msg("%s is of %s", name, e->dtype);
    void *data = malloc(e->bytes);
    assert_int_equal(safetensors_read_bytes(s, e, 0, data, e->bytes), STATUS_OK);
    is->rank = e->rank;
    memcpy(is->dim, e->dim, sizeof is->dim);
    return data;
}

/* Each number is within a step of its code, and of all the error is what 4 bits have. */
static void check_codes(const safetensors *plain, const safetensors *quantized, const char *weight,
                        bool by_rows) {
    char name[128];
    shape is, codes_are, scales_are;
    snprintf(name, sizeof name, "%s_scale", weight);
    float *w = tensor_of(plain, weight, "F32", &is);
    uint8_t *codes = tensor_of(quantized, weight, "U8", &codes_are);
    uint16_t *scales = tensor_of(quantized, name, "F16", &scales_are);
    int64_t outputs = is.dim[by_rows ? 0 : 1], depth = is.dim[by_rows ? 1 : 0], groups = depth / 32;
    double wrong = 0, all = 0;
    assert_true(codes_are.dim[0] == outputs && codes_are.dim[1] == depth / 2);
    assert_true(scales_are.rank == 1 && scales_are.dim[0] == outputs * groups);
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t g = 0; g < groups; g++) {
            float x[CODES4_GROUP];
            codes4_place at = codes4_at(outputs, groups, o, g);
            codes4_decode(codes, scales, &at, x);
            for (int64_t d = g * 32; d < g * 32 + 32; d++) {
                double was = (double)w[by_rows ? o * depth + d : d * outputs + o];
                wrong += (was - (double)x[d % 32]) * (was - (double)x[d % 32]), all += was * was;
            }
        }
    if (!(wrong > 0.001 * all && wrong < 0.012 * all)) fail_msg("%s: %g of %g", weight, wrong, all);
    free(w), free(codes), free(scales);
}

static void check_plain(const safetensors *before, const safetensors *after, const char *name) {
    shape a, b;
    float *x = tensor_of(before, name, "F32", &a), *y = tensor_of(after, name, "F32", &b);
    assert_true(shape_equal(&a, &b));
    assert_memory_equal(x, y, (size_t)shape_elements(&a) * sizeof *x);
    free(x), free(y);
}

static void files_hold_panels(void **state) {
    (void)state;
    safetensors plain, some, all, llama, llama4;
    assert_int_equal(safetensors_open("model", &plain), STATUS_OK);
    assert_int_equal(safetensors_open("some", &some), STATUS_OK);
    assert_int_equal(safetensors_open("all", &all), STATUS_OK);
    check_codes(&plain, &some, "transformer.h.1.attn.c_attn.weight", false);
    check_codes(&plain, &all, "transformer.h.0.mlp.c_proj.weight", false);
    check_codes(&plain, &all, "transformer.wte.weight", true); /* 259 rows: the last panel has three */
    check_plain(&plain, &some, "transformer.wte.weight");
    check_plain(&plain, &all, "transformer.wpe.weight");
    check_plain(&plain, &all, "transformer.h.0.mlp.c_proj.bias");
    assert_int_equal(some.count, plain.count + 8);
    assert_int_equal(all.count, plain.count + 9);
    safetensors_close(&plain), safetensors_close(&some), safetensors_close(&all);
    assert_int_equal(safetensors_open("llama", &llama), STATUS_OK);
    assert_int_equal(safetensors_open("llama4", &llama4), STATUS_OK);
    check_codes(&llama, &llama4, "model.layers.1.self_attn.q_proj.weight", true);
    check_codes(&llama, &llama4, "model.layers.0.mlp.up_proj.weight", true);
    check_codes(&llama, &llama4, "lm_head.weight", true);
    check_codes(&llama, &llama4, "model.embed_tokens.weight", true);
    check_plain(&llama, &llama4, "model.layers.0.mlp.down_proj.weight"); /* sums over 72 numbers */
    safetensors_close(&llama), safetensors_close(&llama4);
    assert_int_equal(system("grep -q '\"quant_method\": \"snug-int4\"' all/config.json && "
                            "grep -q '\"setting\": \"int4:all\"' all/config.json"),
                     0);
}

static void narrow_files_do_as_well(void **state) {
    (void)state;
    safetensors plain, quantized;
    command_expect(0, "train model --data text --out half --steps 1 --lr 0 --precision bf16 --quiet");
    command_expect(0, "quantize half --to int4 --out from-half --quiet");
    assert_int_equal(safetensors_open("half", &plain), STATUS_OK);
    assert_int_equal(safetensors_open("from-half", &quantized), STATUS_OK);
    assert_string_equal(safetensors_find(&plain, "transformer.h.0.attn.c_attn.weight")->dtype, "BF16");
    assert_string_equal(safetensors_find(&quantized, "transformer.h.0.attn.c_attn.weight")->dtype, "U8");
    assert_string_equal(safetensors_find(&quantized, "transformer.wte.weight")->dtype, "BF16");
    safetensors_close(&plain), safetensors_close(&quantized);
    command_expect(0, "generate from-half --prompt the --tokens 4 --quiet");
    command_expect(0, "train from-half --data text --eval-only --quiet");
    command_expect(0, "train all --data text --eval-only --precision bf16 --quiet");
}

/* ---- what they compute ---- */

/* And is the same where codes are made of the model's numbers while these are read. */
static void the_loss_is_nearly_the_same(void **state) {
    (void)state;
    uint64_t plain_bytes, some_bytes, bytes;
    double plain = quantizing_loss("model", &plain_bytes), some = quantizing_loss("some", &some_bytes),
           all = quantizing_loss("all", &bytes);
    if (!(fabs(some / plain - 1) < 2e-2) || some == plain) fail_msg("%g, not %g", some, plain);
    if (!(fabs(all / plain - 1) < 3e-2) || all == some) fail_msg("%g, not %g", all, plain);
    assert_true(some_bytes < plain_bytes / 2 && bytes < plain_bytes / 4);
    assert_true(quantizing_loss("model --quantize int4", &bytes) == some);
    assert_true(quantizing_loss("model --quantize int4:all --threads 1", &bytes) == all);
    double llama = quantizing_loss("llama", &bytes), llama4 = quantizing_loss("llama4", &bytes);
    if (!(fabs(llama4 / llama - 1) < 3e-2) || llama4 == llama) fail_msg("%g, not %g", llama4, llama);
    assert_true(quantizing_loss("llama --quantize int4:all", &bytes) == llama4);
}

static void they_generate(void **state) {
    (void)state;
    static const char *const names[] = { "some", "all", "llama4" };
    for (int i = 0; i < 3; i++) {
        char line[200];
        snprintf(line, sizeof line, "generate %s --tokens 24 --seed 3 --quiet --json --prompt the --prompt x",
                 names[i]);
        char *alone = quantizing_text(line);
        char *many = quantizing_text(strcat(line, " --prompt a --prompt b --prompt c --prompt d"));
        char *one = quantizing_text(strcat(line, " --threads 1"));
        char *plain = quantizing_text(strcat(line, " --instructions avx2"));
        assert_true(strlen(alone) >= 24);
        assert_string_equal(alone, many);
        assert_string_equal(alone, one);
        assert_string_equal(alone, plain);
        free(alone), free(many), free(one), free(plain);
    }
}

/* ---- memory, and what is wrong ---- */

/* What making codes takes is said; with that many bytes they are made, with one less they are not. */
static void what_is_said_to_do_does(void **state) {
    (void)state;
    quantizing_needs_what_it_says("int4:all");
    assert_int_equal(system("cmp exactly/model.safetensors all/model.safetensors"), 0);
}

static void refuses(const char *line, const char *says) {
    command_result r = command_run(line);
    if (r.exit != 2 || !strstr(r.err, says)) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
    command_free(&r);
    assert_int_not_equal(access("never", F_OK), 0);
}

/* A number that no scale of f16 reaches: 1e6 in place of the first of a weight. */
static void make_large(void) {
    safetensors s;
    assert_int_equal(system("cp -r model large"), 0);
    assert_int_equal(safetensors_open("large", &s), STATUS_OK);
    uint64_t at = safetensors_find(&s, "transformer.h.0.attn.c_attn.weight")->offset;
    safetensors_close(&s);
    FILE *f = fopen("large/model.safetensors", "r+b");
    assert_non_null(f);
    const float large = 1e6f;
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(&large, sizeof large, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    static const char odd[] = "{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":2,\"n_embd\":40,"
                              "\"n_inner\":72,\"n_positions\":16,\"vocab_size\":256}";
    scratch_write("odd.json", odd, sizeof odd - 1);
    command_expect(0, "train odd.json --data text --out odd --steps 1 --batch 1 --quiet");
    make_large();
    refuses("quantize odd --to int4 --out never", "sums over a multiple of 32 numbers");
    refuses("quantize large --to int4 --out never", "too large for codes of 4 bits");
    refuses("quantize model --to int4 --mode static --out never", "--to int4 has no --mode static");
    refuses("quantize model --to int4 --calibrate text --out never", "--to int8:static");
    refuses("quantize some --to int8 --out never", "quantized already (int4)");
    refuses("export some --to gguf --out never", "is quantized already (int4)");
    refuses("train some --data text --out never --steps 1", "stored as int4");
    refuses("train some --data text --out never --lora rank=4,base=int8", "stored as int4");
    refuses("train some --data text --out never --precision int8", "stored as int4");
    refuses("train some --data text --eval-only --quantize int8", "stored as int4");
    assert_int_equal(system("cp -r some wrong && sed -i 's/snug-int4/snug-int8/' wrong/config.json && "
                            "cp -r some more && sed -i 's/\"int4\"/\"int4:all\"/' more/config.json && "
                            "cp -r some eight && sed -i 's/int4/int8/g' eight/config.json && "
                            "cp -r some bare && cp model/config.json bare"),
                     0);
    refuses("generate wrong --prompt the", "is 'int4', which snug-int8 does not know");
    refuses("generate eight --prompt the", "the model needs");
    refuses("generate bare --prompt the", "codes of 4 bits");
    refuses("train bare --data text --eval-only", "codes of 4 bits");
    command_expect(0, "generate more --prompt the --tokens 2 --quiet"); /* the table is plain there */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_panels),           cmocka_unit_test(narrow_files_do_as_well),
        cmocka_unit_test(the_loss_is_nearly_the_same), cmocka_unit_test(they_generate),
        cmocka_unit_test(what_is_said_to_do_does),     cmocka_unit_test(what_is_wrong_is_said)
    };
    return cmocka_run_group_tests_name("quantize to 4 bits", tests, make_models, scratch_close);
}
