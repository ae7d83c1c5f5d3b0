/* Models of other families than GPT-2 as a user has them: trained, resumed, generated with, and what is wrong
 * with a config.json said in a sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "io/scratch.h"

#define SIZES                                                                                                \
    "\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"        \
    "\"intermediate_size\":64,\"vocab_size\":256,\"max_position_embeddings\":32"

static void write_config(const char *type, const char *more) {
    char json[1024];
    snprintf(json, sizeof json, "{\"model_type\":\"%s\"," SIZES "%s}", type, more);
    scratch_write("given.json", json, strlen(json));
}

static int make_files(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    return 0;
}

static char *read_all(const char *path) {
    FILE *f = fopen(path, "r");
    char *all = calloc(1, 1 << 20);
    assert_true(f && all);
    assert_true(fread(all, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return all;
}

/* Trained in one go, and in two with a resumption between: the same model, which continues a text. */
static void a_decoder_is_trained_resumed_and_read_again(void **state) {
    (void)state;
    write_config("mistral", ",\"sliding_window\":20,\"head_dim\":12,\"rope_theta\":500");
    command_expect(
        0, "train given.json --data text --out whole --steps 30 --batch 4 --lr 3e-3 --save-every 15 --quiet");
    command_expect(
        0, "train given.json --data text --out part --steps 30 --batch 4 --lr 3e-3 --save-every 15 --quiet "
           "--resume whole/checkpoint-15");
    command_result cmp = command_run("plan whole --json --quiet");
    assert_int_equal(cmp.exit, 0);
    command_free(&cmp);
    char *a = read_all("whole/config.json"), *b = read_all("part/config.json");
    assert_string_equal(a, b);
    assert_non_null(strstr(a, "\"sliding_window\": 20"));
    free(a), free(b);
    assert_int_equal(system("cmp -s whole/model.safetensors part/model.safetensors"), 0);
    command_expect(0, "generate whole --prompt the --tokens 8 --quiet");
    command_expect(0, "train whole --data text --out more --steps 2 --batch 4 --quiet");
}

/* A checkpoint of a model that turns otherwise is another model's, though all shapes are alike. */
static void another_theta_is_another_model(void **state) {
    (void)state;
    write_config("llama", ",\"rope_theta\":500");
    command_expect(0, "train given.json --data text --out theta --steps 4 --batch 4 --save-every 2 --quiet");
    write_config("llama", ",\"rope_theta\":501");
    command_result r =
        command_run("train given.json --data text --out theta --steps 4 --batch 4 --save-every 2 --resume");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "another model"));
    command_free(&r);
}

static const struct {
    const char *type, *more, *said;
} bad[] = {
    { "mamba2", "", "there is no builder" },
    { "gemma3", ",\"text_config\":{\"model_type\":\"gemma3_text\"}", "is a gemma3_text, which has one" },
    { "llava", ",\"text_config\":{\"model_type\":\"lama\"}", "the nearest" },
    { "llava", ",\"text_config\":[\"llama\"]", "the nearest" },
    { "llama", ",\"hidden_act\":\"relu2\"", "'hidden_act' is 'relu2'" },
    { "cohere", ",\"logit_scale\":0", "'logit_scale' is 0" },
    { "hunyuan_v1_dense", ",\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":0}", "'alpha'" },
    { "lama", "", "the nearest is llama" },
    { "qwen3", ",\"head_dim\":0", "'head_dim'" },
    { "llama", ",\"eos_token_id\":[1,\"x\"]", "'eos_token_id'" },
    { "llama", ",\"num_key_value_heads\":3", "num_key_value_heads 3" },
    { "llama", ",\"hidden_size\":1e18", "'hidden_size' is 1e18" },
    { "llama", ",\"hidden_size\":2000000000,\"head_dim\":8", "hidden_size is 2000000000" },
    { "llama", ",\"head_dim\":7", "7 numbers of a head" },
    { "llama", ",\"hidden_act\":\"relu\"", "'hidden_act' is 'relu'" },
    { "llama", ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}", "'low_freq_factor'" },
    { "llama", ",\"rope_scaling\":7", "'rope_scaling' is 7" },
    { "mistral", ",\"sliding_window\":8,\"layer_types\":[\"full_attention\"]", "has 1 items for 2 layers" },
    { "mistral", ",\"sliding_window\":8,\"layer_types\":[\"full_attention\",\"chunked\"]", "is 'chunked'" },
    { "gpt_neox", "", "packs q, k and v of each head" },
    { "falcon", ",\"alibi\":true", "'alibi' is true" },
    { "falcon", ",\"parallel_attn\":false", "only halves side by side" },
    { "falcon", ",\"new_decoder_architecture\":true,\"num_kv_heads\":3", "num_key_value_heads 3" },
    { "smollm3", ",\"no_rope_layers\":[1]", "has 1 items for 2 layers" },
    { "granite", ",\"logits_scaling\":0", "'logits_scaling' is 0" },
};

static void bad_configurations_get_a_sentence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_config(bad[i].type, bad[i].more);
        command_result r = command_run("plan given.json --batch 1");
        if (r.exit != 2 || !strstr(r.err, bad[i].said) || !strstr(r.err, "given.json"))
            fail_msg("%s%s: exit %d: %s", bad[i].type, bad[i].more, r.exit, r.err);
        command_free(&r);
    }
}

/* What config.json leaves out is as transformers has it, null is not left out, and what is read is written
 * again for its older and its newer versions. */
static void what_is_silent_has_the_defaults_of_its_family(void **state) {
    (void)state;
    static const char no_keys[] = "{\"model_type\":\"mistral\",\"hidden_size\":32,\"num_hidden_layers\":2,"
                                  "\"num_attention_heads\":4,\"intermediate_size\":64,\"vocab_size\":256,"
                                  "\"max_position_embeddings\":32}";
    scratch_write("given.json", no_keys, sizeof no_keys - 1);
    command_result r = command_run("plan given.json --batch 1");
    assert_int_equal(r.exit, 2); /* 8 heads of keys for 4 */
    assert_non_null(strstr(r.err, "num_key_value_heads 8"));
    command_free(&r);
    write_config("mistral", ",\"bos_token_id\":3,\"eos_token_id\":[5,7],\"rope_scaling\":"
                            "{\"type\":\"linear\",\"factor\":2}");
    command_expect(0, "train given.json --data text --out silent --steps 1 --batch 2 --quiet");
    char *written = read_all("silent/config.json");
    assert_non_null(strstr(written, "\"sliding_window\": 4096"));
    assert_non_null(strstr(written, "\n  \"rope_theta\": 10000"));
    assert_non_null(strstr(written, "\n  \"rope_scaling\": {"));
    assert_non_null(strstr(written, "\"bos_token_id\": 3"));
    assert_non_null(strstr(written, "5,\n    7"));
    free(written);
    write_config("mistral", ",\"sliding_window\":null");
    command_expect(0, "train given.json --data text --out null --steps 1 --batch 2 --quiet");
    written = read_all("null/config.json");
    assert_non_null(strstr(written, "\"sliding_window\": null"));
    free(written);
}

/* Queries, keys and values that are bounded where the family has no such thing are planned; bounded by
 * nothing they are trained as well. */
static void bounded_queries_only_plan(void **state) {
    (void)state;
    write_config("llama", ",\"clip_qkv\":8.0");
    command_expect(0, "plan given.json --batch 1 --quiet");
    assert_true(command_says("train given.json --data text --out clipped --steps 1 --batch 2 --quiet", 2,
                             "clip_qkv bounds queries, keys and values, which its builder does not know"));
    write_config("llama", ",\"clip_qkv\":null");
    command_expect(0, "train given.json --data text --out clipped --steps 1 --batch 2 --quiet");
}

/* Names of published models stand for sizes: they plan, they are not trained in silence, and a folder of that
 * name is what is meant. */
static void published_names_only_plan(void **state) {
    (void)state;
    command_expect(0, "plan llama-3.2-1b --batch 1 --context 64 --quiet");
    command_result r = command_run("train llama-3.2-1b --data text --out no --steps 1 --batch 1 --context 8");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "sizes only"));
    command_free(&r);
    write_config("llama", "");
    assert_int_equal(mkdir("llama-3.2-1b", 0700), 0);
    assert_int_equal(rename("given.json", "llama-3.2-1b/config.json"), 0);
    command_expect(0, "train llama-3.2-1b --data text --out folder --steps 1 --batch 2 --quiet");
}

/* Logits with a soft cap are made in chunks of whole tiles as well, and nothing comes out otherwise. */
static void capped_logits_come_in_chunks(void **state) {
    (void)state;
    write_config("gemma2", ",\"head_dim\":8,\"attn_logit_softcapping\":0.5,\"final_logit_softcapping\":0.7");
    const char *run = "train given.json --data text --steps 3 --batch 32 --lr 3e-3 --recompute off --quiet";
    char line[256];
    snprintf(line, sizeof line, "%s --out plain --chunk-loss off", run);
    command_expect(0, line);
    snprintf(line, sizeof line, "%s --out pieces --chunk-loss 256", run);
    command_expect(0, line);
    assert_int_equal(system("cmp -s plain/model.safetensors pieces/model.safetensors"), 0);
    assert_int_equal(system("grep -q '\"final_logit_softcapping\": 0.7' pieces/config.json"), 0);
    assert_int_not_equal(system("cmp -s plain/run.json pieces/run.json"), 0);
}

/* The loss that balances experts is trained and not validated; it is a mean over the batch, which is cut only
 * where that is meant. */
static void experts_are_balanced_where_that_is_asked_for(void **state) {
    (void)state;
    static const char line[] = "train given.json --data text --batch 4 --steps 4 --quiet --overwrite ";
    char run[300];
    write_config("mixtral", ",\"num_local_experts\":4");
    snprintf(run, sizeof run, "%s --out plain", line);
    command_expect(0, run);
    write_config("mixtral",
                 ",\"num_local_experts\":4,\"output_router_logits\":true,\"router_aux_loss_coef\":0.5");
    snprintf(run, sizeof run, "%s --out balanced", line);
    command_expect(0, run);
    assert_int_not_equal(system("cmp -s plain/model.safetensors balanced/model.safetensors"), 0);
    assert_int_equal(system("grep -q '\"router_aux_loss_coef\": 0.5' balanced/config.json && grep -q "
                            "'\"output_router_logits\": true' balanced/config.json"),
                     0);
    snprintf(run, sizeof run, "%s --out cut --micro-batch 1", line);
    assert_true(
        command_says(run, 2, "samples of a batch see each other (expert_shares), so one in pieces trains"));
    snprintf(run, sizeof run, "%s --out cut --micro-batch 1 --accumulation add", line);
    command_expect(0, run);
    snprintf(run, sizeof run, "%s --out narrow --precision bf16 --recompute block", line);
    command_expect(0, run);
    snprintf(run, sizeof run, "%s --out half --precision mixed-f16", line);
    command_expect(0, run);
    /* without weights that are new its validation is that of the model without */
    assert_int_equal(system("cp -r plain asked && cp balanced/config.json asked/config.json"), 0);
    json_document a = command_json("train plain --data text --eval-only --json --quiet"),
                  b = command_json("train asked --data text --eval-only --json --quiet");
    double without = 0, with = 1;
    assert_int_equal(json_as_number(command_value(&a, "evaluation.loss"), 0, 100, &without), STATUS_OK);
    assert_int_equal(json_as_number(command_value(&b, "evaluation.loss"), 0, 100, &with), STATUS_OK);
    assert_true(without == with);
    json_close(&a);
    json_close(&b);
    write_config("mixtral", ",\"num_local_experts\":4,\"router_aux_loss_coef\":-1");
    assert_true(command_says("plan given.json --batch 1", 2, "'router_aux_loss_coef' is -1"));
    write_config("olmoe", ",\"clip_qkv\":-2");
    assert_true(command_says("plan given.json --batch 1", 2, "'clip_qkv' is -2"));
}

/* Mixtures of experts: trained in one go or resumed the files are the same, by the names of other programs;
 * they are read again, continued, quantized and adapted. */
static void mixtures_of_experts_are_trained(void **state) {
    (void)state;
    static const struct {
        const char *type, *more, *matrix;
    } cases[] = { { "mixtral", ",\"num_local_experts\":4", "layers.1.block_sparse_moe.experts.3.w2.weight" },
                  { "qwen2_moe",
                    ",\"num_experts\":4,\"moe_intermediate_size\":24,\"shared_expert_intermediate_size\":40",
                    "layers.0.mlp.experts.3.up_proj.weight" } };
    char line[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *run =
            "train given.json --data text --steps 6 --batch 4 --save-every 3 --overwrite --quiet";
        write_config(cases[i].type, cases[i].more);
        snprintf(line, sizeof line, "%s --out mixed", run);
        command_expect(0, line);
        snprintf(line, sizeof line, "%s --out mixed-on --resume mixed/checkpoint-3", run);
        command_expect(0, line);
        assert_int_equal(system("cmp -s mixed/model.safetensors mixed-on/model.safetensors"), 0);
        snprintf(line, sizeof line, "grep -q '%s' mixed/model.safetensors", cases[i].matrix);
        assert_int_equal(system(line), 0);
        command_expect(0, "train mixed --data text --eval-only --quiet");
        command_expect(0, "generate mixed --prompt the --tokens 4 --quiet");
        command_expect(0, "quantize mixed --to int8 --out fewer --quiet");
        command_expect(0, "train fewer --data text --eval-only --quiet");
        command_expect(
            0, "train mixed --data text --out ad --steps 1 --batch 2 --lora rank=2 --overwrite --quiet");
        assert_int_equal(system("grep -q '\"gate\"' ad/adapter_config.json"), 256); /* PEFT has none for it */
        assert_int_equal(system("rm -rf fewer"), 0);
    }
}

/* Positions of longrope: each pair is divided by its number, one list within the original positions, and the
 * other beyond. Alike numbers are what other kinds say. */
static void long_positions_are_divided_pair_by_pair(void **state) {
    (void)state;
    static const char LONG[] =
        ",\"original_max_position_embeddings\":16,\"rope_scaling\":{\"type\":\"longrope\","
        "\"short_factor\":[1,1,1,1],\"long_factor\":[4,4,4,4]%s}";
    char more[256];
    const char *run =
        "train given.json --data text --steps 2 --batch 4 --lr 3e-3 --overwrite --quiet --context";
    char line[256];
    static const struct {
        const char *same;
        int context;
    } cases[] = { { "", 16 }, { ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}", 17 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(more, sizeof more, LONG, ",\"attention_factor\":1");
        write_config("phi3", more);
        snprintf(line, sizeof line, "%s %d --out long", run, cases[i].context);
        command_expect(0, line);
        write_config("phi3", cases[i].same);
        snprintf(line, sizeof line, "%s %d --out same", run, cases[i].context);
        command_expect(0, line);
        assert_int_equal(system("cmp -s long/model.safetensors same/model.safetensors"), 0);
    }
    command_expect(0, "train long --data text --eval-only --quiet");
    assert_int_equal(system("grep -q '\"type\": \"longrope\"' long/config.json"), 0);
    snprintf(more, sizeof more, LONG, "");
    write_config("phi3", more); /* scores are made larger as usual: other bits */
    snprintf(line, sizeof line, "%s 17 --out long", run);
    command_expect(0, line);
    assert_int_not_equal(system("cmp -s long/model.safetensors same/model.safetensors"), 0);
    write_config("phi3",
                 ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1],\"long_factor\":[4]}");
    command_result r = command_run("plan given.json --batch 1");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "a number above 0 for each of the 4 pairs"));
    command_free(&r);
}

/* What can't be computed yet plans, and training it is refused in a sentence. */
static void what_only_plans_says_so(void **state) {
    (void)state;
    write_config("llama", ",\"qk_layernorm\":true");
    command_expect(0, "plan given.json --batch 1 --quiet");
    command_result r = command_run("train given.json --data text --out no --steps 1 --batch 1");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "can be planned, and not computed yet"));
    command_free(&r);
    assert_int_equal(system("rm -rf caps && mkdir caps && mv given.json caps/config.json"), 0);
    r = command_run("quantize caps --to int8 --out never");
    assert_int_equal(r.exit, 2);
    assert_non_null(strstr(r.err, "can be planned, and not computed yet"));
    command_free(&r);
}

/* Of a family whose builder has norms on queries and keys, a key that asks for them changes nothing. */
static void norms_that_a_builder_has_may_be_asked_for(void **state) {
    (void)state;
    write_config("hunyuan_v1_dense", ",\"use_qk_norm\":true");
    command_expect(0, "train given.json --data text --out with-norms --steps 1 --batch 2 --quiet");
    write_config("hunyuan_v1_dense", "");
    command_expect(0, "train given.json --data text --out norms --steps 1 --batch 2 --quiet");
    assert_int_equal(system("cmp -s with-norms/model.safetensors norms/model.safetensors"), 0);
    write_config("hunyuan_v1_dense", ",\"use_qk_norm\":false");
    assert_true(command_says("train given.json --data text --out no --steps 1 --batch 2", 2,
                             "its builder always has norms on queries and keys"));
    write_config("phi", ",\"qk_layernorm\":true");
    command_expect(0, "train given.json --data text --out phi --steps 1 --batch 2 --quiet");
    write_config("cohere", ",\"use_qk_norm\":true");
    assert_true(command_says("train given.json --data text --out no --steps 1 --batch 2", 2,
                             "its builder has no norms on queries and keys"));
}

#define SPOKEN "norms on queries and keys, which this model has no rule of"

/* Norms that no rule counts are spoken of, whoever trains; what has none, or has them built, needs no word.
 */
static void norms_without_a_rule_are_spoken_of(void **state) {
    (void)state;
    static const char *const frameworks[] = { "hf", "snug", "megatron" };
    static const char *const silent[][2] = { { "cohere", "" },
                                             { "stablelm", ",\"qk_layernorm\":false" },
                                             { "hunyuan_v1_dense", ",\"use_qk_norm\":true" } };
    char line[128];
    for (size_t f = 0; f < sizeof frameworks / sizeof *frameworks; f++) {
        snprintf(line, sizeof line, "estimate given.json --batch 1 --framework %s", frameworks[f]);
        bool parallel =
            strcmp(frameworks[f], "megatron") != 0; /* which has no rules of halves side by side */
        write_config("cohere", ",\"use_qk_norm\":true");
        if (parallel) assert_true(command_says(line, 0, SPOKEN));
        write_config("stablelm", ",\"qk_layernorm\":true");
        assert_true(command_says(line, 0, SPOKEN));
        for (size_t i = !parallel; i < sizeof silent / sizeof *silent; i++) {
            write_config(silent[i][0], silent[i][1]);
            command_result r = command_run(line);
            assert_int_equal(r.exit, 0);
            assert_null(strstr(r.out, "no rule of"));
            assert_null(strstr(r.err, "no rule of"));
            command_free(&r);
        }
    }
}

/* Linear's weights lie as (out, in), and what is no causal model is called none. */
static void adapters_are_described_by_family(void **state) {
    (void)state;
    static const struct {
        const char *type, *more, *task;
    } cases[] = { { "llama", "", "\"task_type\": \"CAUSAL_LM\"" },
                  { "qwen2", "", "\"task_type\": \"CAUSAL_LM\"" },
                  { "bert", ",\"type_vocab_size\":1", "\"task_type\": null" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_config(cases[i].type, cases[i].more);
        command_expect(0, "train given.json --data text --out base --steps 1 --batch 2 --overwrite --quiet");
        command_expect(
            0, "train base --data text --out ad --steps 1 --batch 2 --lora rank=2 --overwrite --quiet");
        char *said = read_all("ad/adapter_config.json");
        if (!strstr(said, "\"fan_in_fan_out\": false") || !strstr(said, cases[i].task))
            fail_msg("%s: %s", cases[i].type, said);
        free(said);
    }
}

/* Parameters are the model's, in whatever form they are held; what is trained is said beside them. */
static void parameters_are_those_of_the_model(void **state) {
    (void)state;
    static const struct {
        const char *options;
        uint64_t trained;
    } cases[] = { { "", 0 },
                  { "--precision bf16", 0 },
                  { "--precision int8 --batch 4", 0 },
                  { "--lora rank=2,target=q_proj", 2 * 2 * (32 + 32) },
                  { "--lora rank=2,target=q_proj,base=nf4", 2 * 2 * (32 + 32) },
                  { "--lora rank=2,target=q_proj,base=int8", 2 * 2 * (32 + 32) } };
    /* By transformers' shapes: q, k, v, o of 4 and 2 heads of 8, three products of 64, norms, both tables. */
    const uint64_t block = 32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 64 + 2 * 32;
    const uint64_t all = 2 * block + 32 + 2 * 256 * 32;
    write_config("llama", "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        json_document d;
        snprintf(line, sizeof line, "plan given.json --json --quiet %s", cases[i].options);
        command_result r = command_run(line);
        if (json_parse("plan", r.out, strlen(r.out), &d) != STATUS_OK) fail_msg("%s: %s", line, r.err);
        assert_int_equal(command_number(&d, "parameters"), all);
        assert_int_equal(command_number(&d, "trained"), cases[i].trained ? cases[i].trained : all);
        json_close(&d);
        command_free(&r);
    }
    assert_true(command_says("plan given.json --lora rank=2,target=q_proj,base=nf4", 0,
                             "34,976 parameters, 256 trained, AdamW"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_decoder_is_trained_resumed_and_read_again),
                                        cmocka_unit_test(another_theta_is_another_model),
                                        cmocka_unit_test(bad_configurations_get_a_sentence),
                                        cmocka_unit_test(what_is_silent_has_the_defaults_of_its_family),
                                        cmocka_unit_test(bounded_queries_only_plan),
                                        cmocka_unit_test(published_names_only_plan),
                                        cmocka_unit_test(capped_logits_come_in_chunks),
                                        cmocka_unit_test(mixtures_of_experts_are_trained),
                                        cmocka_unit_test(experts_are_balanced_where_that_is_asked_for),
                                        cmocka_unit_test(long_positions_are_divided_pair_by_pair),
                                        cmocka_unit_test(what_only_plans_says_so),
                                        cmocka_unit_test(norms_that_a_builder_has_may_be_asked_for),
                                        cmocka_unit_test(norms_without_a_rule_are_spoken_of),
                                        cmocka_unit_test(adapters_are_described_by_family),
                                        cmocka_unit_test(parameters_are_those_of_the_model) };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}
