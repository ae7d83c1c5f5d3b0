/* Post-training quantization as a user has it: the files, what they compute, what that does to the loss, the
 * memory it takes, and what is wrong said in a sentence before anything is written. */
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
#include "io/lock.h"
#include "io/safetensors.h"
#include "io/scratch.h"

static int make_models(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    command_expect(0,
                   "train tiny/config.json --data text --out model --steps 60 --batch 8 --lr 3e-3 --quiet");
    command_expect(0, "quantize model --to int8 --data text --out dynamic --quiet");
    command_expect(0, "quantize model --to int8:static --calibrate text --out static --quiet");
    return 0;
}

/* ---- files ---- */

static float *tensor_of(const safetensors *s, const char *name, const char *type, uint64_t *bytes) {
    const safetensors_entry *e = safetensors_find(s, name);
    if (!e) fail_msg("there is no %s", name);
    assert_string_equal(e->dtype, type);
    float *data = malloc(e->bytes);
    assert_int_equal(safetensors_read(s, e, data, e->bytes), STATUS_OK);
    *bytes = e->bytes;
    return data;
}

/* Each number lies within half a step of its code; the largest of an output has the last one. */
static void check_codes(const safetensors *plain, const safetensors *quantized, const char *weight,
                        bool by_rows) {
    char name[128];
    uint64_t wide, narrow, outputs;
    snprintf(name, sizeof name, "%s_scale", weight);
    float *w = tensor_of(plain, weight, "F32", &wide), *scales = tensor_of(quantized, name, "F32", &outputs);
    int8_t *codes = (void *)tensor_of(quantized, weight, "I8", &narrow);
    outputs /= sizeof(float);
    assert_int_equal(wide, 4 * narrow);
    for (uint64_t output = 0; output < outputs; output++) {
        uint64_t depth = narrow / outputs;
        int most = 0;
        for (uint64_t k = 0; k < depth; k++) {
            uint64_t i = by_rows ? output * depth + k : k * outputs + output;
            float step = scales[output], back = step * (float)codes[i];
            if (!(fabsf(back - w[i]) <= 0.5001f * step))
                fail_msg("%s[%d]: %g became %g", weight, (int)i, (double)w[i], (double)back);
            most = abs(codes[i]) > most ? abs(codes[i]) : most;
        }
        assert_int_equal(most, 127);
    }
    free(w), free(scales), free(codes);
}

static void files_hold_codes_and_scales(void **state) {
    (void)state;
    safetensors plain, dynamic, fixed;
    assert_int_equal(safetensors_open("model", &plain), STATUS_OK);
    assert_int_equal(safetensors_open("dynamic", &dynamic), STATUS_OK);
    assert_int_equal(safetensors_open("static", &fixed), STATUS_OK);
    uint32_t codes = 0;
    for (uint32_t i = 0; i < plain.count; i++) {
        const safetensors_entry *e = &plain.entries[i];
        uint64_t a, b;
        bool product = e->rank == 2 && strstr(e->name, ".h.");
        if (product) {
            char name[128];
            snprintf(name, sizeof name, "%.*s.input_scale", (int)strlen(e->name) - 7, e->name);
            check_codes(&plain, &dynamic, e->name, false);
            check_codes(&plain, &fixed, e->name, false);
            float *scale = tensor_of(&fixed, name, "F32", &a);
            assert_true(a == sizeof(float) && *scale > 0);
            assert_null(safetensors_find(&dynamic, name));
            free(scale);
            codes++;
        } else { /* as it was */
            float *before = tensor_of(&plain, e->name, "F32", &a),
                  *after = tensor_of(&dynamic, e->name, "F32", &b);
            assert_true(a == b && memcmp(before, after, a) == 0);
            free(before), free(after);
        }
    }
    assert_int_equal(codes, 8);
    assert_int_equal(dynamic.count, plain.count + codes);
    assert_int_equal(fixed.count, plain.count + 2 * codes);
    safetensors_close(&plain), safetensors_close(&dynamic), safetensors_close(&fixed);
    assert_int_equal(system("grep -q '\"setting\": \"int8:static\"' static/config.json"), 0);
}

static void narrow_files_and_shards_do_as_well(void **state) {
    (void)state;
    safetensors plain, quantized;
    command_expect(0, "train model --data text --out half --steps 1 --lr 0 --precision bf16 --quiet");
    assert_int_equal(system("grep -q '\"torch_dtype\": \"bfloat16\"' half/config.json"), 0);
    command_expect(0, "quantize half --to int8 --out from-half --quiet");
    assert_int_equal(safetensors_open("half", &plain), STATUS_OK);
    assert_int_equal(safetensors_open("from-half", &quantized), STATUS_OK);
    assert_string_equal(safetensors_find(&plain, "transformer.h.0.attn.c_attn.weight")->dtype, "BF16");
    assert_string_equal(safetensors_find(&quantized, "transformer.h.0.attn.c_attn.weight")->dtype, "I8");
    assert_string_equal(safetensors_find(&quantized, "transformer.wte.weight")->dtype, "BF16");
    safetensors_close(&plain), safetensors_close(&quantized);
    command_expect(0, "train from-half --data text --eval-only --quiet");
}

/* ---- what they compute ---- */

/* Of all tensors in the file. */
static uint64_t bytes_in(const char *directory) {
    safetensors file;
    uint64_t bytes = 0;
    assert_int_equal(safetensors_open(directory, &file), STATUS_OK);
    for (uint32_t i = 0; i < file.count; i++) bytes += file.entries[i].bytes;
    safetensors_close(&file);
    return bytes;
}

static void the_loss_is_hardly_another(void **state) {
    (void)state;
    static const char *const names[] = { "dynamic", "static" };
    uint64_t plain_bytes, bytes;
    double plain = quantizing_loss("model", &plain_bytes);
    for (int i = 0; i < 2; i++) {
        char line[160];
        command_result r;
        double before, after, loss = quantizing_loss(names[i], &bytes);
        if (!(fabs(loss / plain - 1) < 5e-3) || loss == plain)
            fail_msg("%s: %g, not %g", names[i], loss, plain);
        assert_true(bytes < plain_bytes * 6 / 10);
        snprintf(line, sizeof line,
                 "quantize model --to int8 --mode %s%s --data text --out q%d --json --quiet", names[i],
                 i ? " --calibrate text" : "", i);
        json_document d = quantizing_asks(line, &r);
        assert_int_equal(json_get_number(d.root, "loss_before", 0, 1e9, &before), STATUS_OK);
        assert_int_equal(json_get_number(d.root, "loss_after", 0, 1e9, &after), STATUS_OK);
        if (before != plain || after != loss) fail_msg("%.17g and %.17g are said", before, after);
        assert_int_equal(command_number(&d, "weights"), 8);
        assert_int_equal(command_number(&d, "bytes_before"), bytes_in("model"));
        assert_int_equal(command_number(&d, "bytes_after"), bytes_in(names[i]));
        assert_true(bytes_in(names[i]) < bytes_in("model"));
        assert_true(command_number(&d, "measured_bytes") <= command_number(&d, "planned_bytes"));
        json_close(&d);
        command_free(&r);
        snprintf(line, sizeof line, "cmp %s/model.safetensors q%d/model.safetensors", names[i], i);
        assert_int_equal(system(line), 0); /* the same files again */
    }
}

/* The same text of a few, which read codes where they lie, and of more, from panels. */
static void they_generate(void **state) {
    (void)state;
    static const char *const names[] = { "dynamic", "static" };
    for (int i = 0; i < 2; i++) {
        char line[200];
        snprintf(line, sizeof line, "generate %s --tokens 24 --seed 3 --quiet --json --prompt the --prompt x",
                 names[i]);
        char *alone = quantizing_text(line);
        char *many = quantizing_text(strcat(line, " --prompt a --prompt b --prompt c --prompt d"));
        char *one = quantizing_text(strcat(line, " --threads 1"));
        assert_true(strlen(alone) >= 24);
        assert_string_equal(alone, many);
        assert_string_equal(alone, one);
        free(alone), free(many), free(one);
    }
}

/* With :all one table of codes serves the embedding and the projection tied to it. */
static void embeddings_become_codes_as_well(void **state) {
    (void)state;
    static const char *const forms[2][3] = { { "int8:all", "--data text", "all" },
                                             { "int8:static:all", "--calibrate text", "static-all" } };
    uint64_t plain_bytes, some_bytes, bytes;
    double plain = quantizing_loss("model", &plain_bytes);
    quantizing_loss("dynamic", &some_bytes);
    for (int i = 0; i < 2; i++) {
        char line[200];
        safetensors before, after;
        snprintf(line, sizeof line, "quantize model --to %s %s --out %s --quiet", forms[i][0], forms[i][1],
                 forms[i][2]);
        command_expect(0, line);
        assert_int_equal(safetensors_open("model", &before), STATUS_OK);
        assert_int_equal(safetensors_open(forms[i][2], &after), STATUS_OK);
        check_codes(&before, &after, "transformer.wte.weight", true);
        check_codes(&before, &after, "transformer.h.0.attn.c_attn.weight", false);
        assert_string_equal(safetensors_find(&after, "transformer.wpe.weight")->dtype, "F32");
        assert_int_equal(safetensors_find(&after, "transformer.wte.input_scale") != NULL, i);
        safetensors_close(&before), safetensors_close(&after);
        double loss = quantizing_loss(forms[i][2], &bytes);
        if (!(fabs(loss / plain - 1) < 1e-2) || loss == plain)
            fail_msg("%s: %g, not %g", forms[i][0], loss, plain);
        assert_true(bytes < some_bytes && bytes < plain_bytes * 4 / 10);
        snprintf(line, sizeof line, "generate %s --tokens 24 --seed 3 --quiet --json --prompt the --prompt x",
                 forms[i][2]);
        char *few = quantizing_text(line);
        char *many =
            quantizing_text(strcat(line, " --prompt a --prompt b --prompt c --prompt d --threads 1"));
        assert_string_equal(few, many);
        free(few), free(many);
    }
    assert_true(command_says("train all --data text --out never --lora rank=2,base=int8", 2,
                             "the weights in all are stored as int8:all, for generating and --eval-only"));
    assert_true(command_says("quantize all --to int8 --out never", 2, "all is quantized already (int8:all)"));
}

static void a_budget_holds(void **state) {
    (void)state;
    static const char *const forms[] = { "--data text", "--mode static --calibrate text", "" };
    for (int i = 0; i < 3; i++) {
        char line[160];
        snprintf(line, sizeof line, "quantize model --to int8 %s --out never --memory 2MiB --quiet",
                 forms[i]);
        command_result r = command_run(line);
        if (r.exit != 3 || !strstr(r.err, "does not fit")) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
        command_free(&r);
        assert_int_not_equal(access("never", F_OK), 0);
    }
}

/* What making codes takes is said; with that many bytes they are made, with one less they are not. */
static void what_is_said_to_do_does(void **state) {
    (void)state;
    quantizing_needs_what_it_says("int8");
}

static uint64_t least_of(const char *line) {
    command_result r = command_run(line);
    const char *at = strstr(r.err, "least budget is");
    if (r.exit != 3 || !at || !(at = strchr(at, '('))) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
    uint64_t bytes = strtoull(at + 1, NULL, 10);
    command_free(&r);
    return bytes;
}

/* Where only the model that is made would not fit, nothing is made; with a byte more all is. */
static void it_is_planned_before_it_is_written(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":2,\"n_embd\":32,"
                                 "\"n_positions\":256,\"vocab_size\":256,\"n_inner\":3000}";
    scratch_write("wide.json", config, sizeof config - 1);
    command_expect(0, "train wide.json --data text --out wide --steps 1 --batch 2 --quiet");
    uint64_t plain = least_of("train wide --data text --eval-only --eval-batch 8 --memory 1MiB --quiet"),
             codes = least_of("train wide --data text --eval-only --eval-batch 8 --quantize int8 "
                              "--memory 1MiB --quiet");
    if (codes <= plain)
        fail_msg("codes take %llu, floats %llu", (unsigned long long)codes, (unsigned long long)plain);
    for (int more = 0; more < 2; more++) {
        char line[200];
        snprintf(line, sizeof line,
                 "quantize wide --to int8 --data text --eval-batch 8 --out wide8 --memory %llu --quiet",
                 (unsigned long long)(codes - 1 + (uint64_t)more));
        command_result r = command_run(line);
        if (r.exit != (more ? 0 : 3)) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
        command_free(&r);
        assert_int_equal(access("wide8", F_OK), more ? 0 : -1);
    }
}

/* In the decoders of other families weights lie as (out, in), some of them square, and the head is its own.
 */
static void weights_may_lie_the_other_way(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,"
                                 "\"num_attention_heads\":4,\"intermediate_size\":64,\"vocab_size\":256,"
                                 "\"max_position_embeddings\":32,\"tie_word_embeddings\":false}";
    safetensors plain, quantized;
    uint64_t bytes;
    scratch_write("llama.json", config, sizeof config - 1);
    command_expect(0, "train llama.json --data text --out llama --steps 60 --batch 8 --lr 3e-3 --quiet");
    command_expect(0, "quantize llama --to int8 --mode static --calibrate text --out llama8 --quiet");
    assert_int_equal(safetensors_open("llama", &plain), STATUS_OK);
    assert_int_equal(safetensors_open("llama8", &quantized), STATUS_OK);
    check_codes(&plain, &quantized, "model.layers.1.self_attn.q_proj.weight", true);
    check_codes(&plain, &quantized, "model.layers.1.mlp.down_proj.weight", true);
    check_codes(&plain, &quantized, "lm_head.weight", true);
    safetensors_close(&plain), safetensors_close(&quantized);
    double before = quantizing_loss("llama", &bytes), after = quantizing_loss("llama8", &bytes);
    if (!(fabs(after / before - 1) < 5e-3) || after == before) fail_msg("%g, not %g", after, before);
    command_expect(0, "generate llama8 --prompt the --tokens 8 --quiet");
}

/* ---- adapters over it ---- */

static char *said_by(const char *directory) {
    char line[200];
    snprintf(line, sizeof line, "generate %s --tokens 24 --seed 3 --quiet --json --prompt the --prompt x",
             directory);
    return quantizing_text(line);
}

/* Trained beside the codes that the file has: the same bits as beside those that are made of its model, also
 * when it is resumed; and merged into what they stand for. */
static void adapters_stand_beside_codes(const char *plain, const char *quantized) {
    static const char run[] = "--data text --steps 20 --batch 8 --lr 1e-2 --save-every 10 --quiet";
    char line[256], adapted[64];
    assert_int_equal(system("rm -rf beside same again merged"), 0);
    snprintf(line, sizeof line, "train %s %s --lora rank=4,base=int8 --out beside", quantized, run);
    command_expect(0, line);
    snprintf(line, sizeof line, "train %s %s --lora rank=4,base=int8 --out same", plain, run);
    command_expect(0, line);
    assert_int_equal(system("cmp beside/adapter_model.safetensors same/adapter_model.safetensors"), 0);
    for (int said = 0; said < 2; said++) { /* the checkpoint knows it too */
        snprintf(line, sizeof line, "train %s %s --out again %s --resume beside/checkpoint-10", quantized,
                 run, said ? "--lora rank=4,base=int8 --overwrite" : "");
        command_expect(0, line);
        assert_int_equal(system("cmp beside/adapter_model.safetensors again/adapter_model.safetensors"), 0);
    }
    snprintf(line, sizeof line, "train %s %s --out first --resume", quantized, run);
    assert_true(command_says(line, 2, "or go on with --lora rank=8,base=int8"));
    snprintf(line, sizeof line, "train %s %s --out first --lora off --resume beside/checkpoint-10", quantized,
             run);
    assert_true(command_says(line, 2, "or go on with --lora rank=8,base=int8"));
    assert_int_not_equal(access("first", F_OK), 0);
    snprintf(line, sizeof line, "train %s %s --out first --resume beside/checkpoint-10 --memory 2MiB",
             quantized, run);
    command_expect(3, line);
    snprintf(line, sizeof line, "merge %s --adapter beside --out merged", quantized);
    command_expect(0, line);
    snprintf(adapted, sizeof adapted, "%s --adapter beside", quantized);
    char *with = said_by(adapted), *merged = said_by("merged"), *without = said_by(quantized);
    assert_string_equal(with, merged);
    assert_string_not_equal(with, without);
    free(with), free(merged), free(without);
}

static void it_is_a_base_of_adapters(void **state) {
    (void)state;
    adapters_stand_beside_codes("model", "dynamic");
    command_expect(0, "quantize llama --to int8 --out llama-codes --quiet");
    adapters_stand_beside_codes("llama", "llama-codes");
}

/* ---- what is wrong ---- */

static void refuses(const char *line, const char *says) {
    command_result r = command_run(line);
    if (r.exit != 2 || !strstr(r.err, says)) fail_msg("%s: exit %d, %s", line, r.exit, r.err);
    command_free(&r);
    assert_int_not_equal(access("never", F_OK), 0);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    refuses("quantize model --to int8", "--out");
    refuses("quantize model --out never", "--to int8");
    refuses("quantize model --to int2 --out never", "--to: 'int2' is none of int8, int8:static");
    refuses("quantize model --to int8 --mode static --out never", "--calibrate");
    refuses("quantize model --to int8:static --out never", "--calibrate");
    refuses("quantize model --to int8:static --mode dynamic --calibrate text --out never", "--mode dynamic");
    refuses("quantize model --to int8 --calibrate text --out never", "--to int8:static");
    refuses("quantize model --to int8 --mode static --calibrate nowhere --out never", "nowhere");
    refuses("quantize model --to int8 --data nowhere --out never", "nowhere");
    refuses("quantize nowhere --to int8 --out never", "nowhere");
    refuses("quantize tiny --to int8 --out never", "nothing to quantize");
    refuses("quantize char-small --to int8 --out never", "char-small");
    refuses("quantize dynamic --to int8 --out never", "quantized already");
    refuses("quantize model --to int8 --out model", "the model itself");
    refuses("quantize model --to int8 --out dynamic", "holds a model already");
    assert_int_equal(system("cp -r model few && sed -i 's/\"vocab_size\": [0-9]*/\"vocab_size\": 90/' "
                            "few/config.json && head -c 200 text > short"),
                     0);
    refuses("quantize few --to int8 --out never", "shape");
    assert_int_equal(
        system("cp -r model torn && head -c 3000 model/model.safetensors > torn/model.safetensors"), 0);
    /* whatever the budget: of what can't be read nobody knows what it takes */
    refuses("quantize torn --to int8 --out never --memory 1MiB", "torn/model.safetensors");
    refuses("quantize model --to int8 --mode static --calibrate short --out never", "short");
    assert_int_equal(system("head -c 100000 /dev/urandom > bytes && cp -r tiny low && sed -i "
                            "'s/\"vocab_size\": [0-9]*/\"vocab_size\": 128/' low/config.json"),
                     0);
    command_expect(0, "train low/config.json --data text --out ascii --steps 2 --batch 4 --quiet");
    refuses("quantize ascii --to int8 --mode static --calibrate bytes --out never", "bytes");
    refuses("quantize ascii --to int8 --data bytes --out never", "the vocabulary has 128 ids");
    assert_int_not_equal(access("never", F_OK), 0);
}

/* While another writes to the folder, nothing is written there, and nothing of the other's is removed. */
static void one_writes_at_a_time(void **state) {
    (void)state;
    lock other;
    assert_int_equal(system("mkdir held"), 0);
    assert_int_equal(lock_open("held/" LOCK_OF_FOLDER, &other), STATUS_OK);
    refuses("quantize model --to int8 --out held", "another run writes to this folder");
    assert_int_equal(access("held/" LOCK_OF_FOLDER, F_OK), 0);
    lock_close(&other);
    command_expect(0, "quantize model --to int8 --out held --quiet");
    assert_int_not_equal(access("held/" LOCK_OF_FOLDER, F_OK), 0);
}

/* Beside codes values may be of 16 bits; copies of weights, and codes of another kind, may not. */
static void precisions_beside_codes(void **state) {
    (void)state;
    static const char *const refused[] = { "mixed-bf16", "mixed-f16", "int8", "int8-mixed" };
    char line[160];
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, "train dynamic --data text --eval-only --precision %s", refused[i]);
        refuses(line, "--precision bf16");
        snprintf(line, sizeof line, "train model --data text --eval-only --quantize int8 --precision %s",
                 refused[i]);
        refuses(line, "--precision bf16");
    }
    command_expect(0, "train dynamic --data text --eval-only --precision bf16 --quiet");
    command_expect(0, "train static --data text --eval-only --precision bf16 --quiet");
    command_expect(0, "train model --data text --eval-only --quantize int8 --precision bf16 --quiet");
}

static void what_only_reading_is_for_is_said(void **state) {
    (void)state;
    refuses("train dynamic --data text --out never --steps 1", "stored as int8");
    refuses("plan static", "stored as int8:static");
    refuses("train dynamic --data text --out never --lora rank=4", "--lora rank=8,base=int8");
    refuses("plan dynamic --lora rank=4,base=nf4", "--lora rank=8,base=int8");
    refuses("plan static --lora rank=4,base=int8", "train the model that they were made from");
    refuses("plan static --precision int8", "train the model that they were made from");
    refuses("train dynamic --data text --eval-only --quantize off", "stored as int8");
    command_expect(0, "train model --data text --eval-only --quantize int8"); /* made as they are read */
    refuses("train model --data text --out never --quantize int8 --steps 1", "saves nothing in training");
    refuses("plan model --allow quantize", "nothing that a budget chooses");
    refuses("train dynamic --data text --eval-only --exact", "--exact");
    assert_int_equal(system("cp -r static other && sed -i 's/snug-int8/gptq/' other/config.json && "
                            "cp -r static wrong && sed -i 's/int8:static/int4/' wrong/config.json && "
                            "cp -r static calm && sed -i 's/int8:static/calibrate/' calm/config.json && "
                            "cp -r dynamic more && sed -i 's/\"int8\"/\"int8:static\"/' more/config.json && "
                            "cp -r dynamic bare && cp model/config.json bare"),
                     0);
    refuses("generate other --prompt the", "gptq");
    refuses("generate wrong --prompt the", "int4");
    refuses("generate calm --prompt the", "calibrate");
    refuses("generate more --prompt the", "input_scale");
    refuses("generate bare --prompt the", "codes of 8 bits");
    refuses("train bare --data text --eval-only", "codes of 8 bits");
    refuses("quantize bare --to int8 --out never", "I8");
}

/* Validation while training so is that of the model that is quantized afterwards. */
static void training_for_it_foretells_the_loss(void **state) {
    (void)state;
    json_document d;
    uint64_t bytes;
    double foretold = 0;
    command_expect(0,
                   "train model --data text --out aware --steps 10 --lr 1e-3 --batch 8 --qat int8 --quiet");
    if (json_open("aware/run.json", &d) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(
        json_get_number(json_item(command_value(&d, "eval_losses"), 0), "loss", 0, 1e9, &foretold),
        STATUS_OK);
    json_close(&d);
    command_expect(0, "quantize aware --to int8 --out aware8 --quiet");
    double plain = quantizing_loss("aware", &bytes), quantized = quantizing_loss("aware8", &bytes);
    if (!(fabs(quantized - foretold) < 0.1 * fabs(plain - foretold) + 1e-5 * plain))
        fail_msg("%.9g, foretold %.9g, not quantized %.9g", quantized, foretold, plain);
    refuses("plan model --qat int8 --precision int8", "--precision mixed-bf16");
    refuses("plan model --qat int8 --precision int8-mixed", "--precision mixed-bf16");
    refuses("plan model --qat int8 --lora rank=4", "merged model");
    refuses("plan model --qat int4", "neither int8 nor off");
    refuses("plan model --allow qat", "nothing that a budget chooses");
    refuses("plan model --qat int8 --exact", "--exact forbids");
    command_expect(0, "plan model --qat int8 --precision mixed-bf16 --recompute block --quiet");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_codes_and_scales),
        cmocka_unit_test(narrow_files_and_shards_do_as_well),
        cmocka_unit_test(the_loss_is_hardly_another),
        cmocka_unit_test(they_generate),
        cmocka_unit_test(embeddings_become_codes_as_well),
        cmocka_unit_test(weights_may_lie_the_other_way),
        cmocka_unit_test(it_is_a_base_of_adapters),
        cmocka_unit_test(a_budget_holds),
        cmocka_unit_test(what_is_said_to_do_does),
        cmocka_unit_test(it_is_planned_before_it_is_written),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(one_writes_at_a_time),
        cmocka_unit_test(precisions_beside_codes),
        cmocka_unit_test(what_only_reading_is_for_is_said),
        cmocka_unit_test(training_for_it_foretells_the_loss),
    };
    return cmocka_run_group_tests(tests, make_models, scratch_close);
}
