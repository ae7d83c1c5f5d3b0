/* Adapters as a user has them: trained beside a model, saved, resumed bit for bit, generated with, merged,
 * and what is wrong with a folder of them said in a sentence. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "io/lock.h"
#include "io/scratch.h"

#define BESIDE "--lora rank=4,target=c_attn+mlp.c_proj,dropout=0.1 "
#define RUN                                                                                                  \
    "train base --data text --steps 20 --batch 8 --lr 1e-2 --warmup 20 --save-every 10 "                     \
    "--quiet " BESIDE

static int make_runs(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    command_expect(0, "train tiny/config.json --data text --out base --steps 60 --batch 8 --lr 3e-3 --quiet");
    command_expect(0, RUN "--out ad");
    return 0;
}

static char *generated(const char *line) {
    char whole[256];
    snprintf(whole, sizeof whole, "generate %s --prompt the --tokens 24 --temperature 0 --quiet", line);
    command_result r = command_run(whole);
    if (r.exit) fail_msg("snug %s: %s", whole, r.err);
    char *out = strdup(r.out);
    command_free(&r);
    return out;
}

/* Validation loss of a model directory: one step at rate 0. */
static double loss_of(const char *model) {
    char line[256];
    json_document d;
    snprintf(line, sizeof line, "train %s --data text --out loss --overwrite --steps 1 --lr 0 --json --quiet",
             model);
    command_result r = command_run(line);
    if (r.exit) fail_msg("snug %s: %s", line, r.err);
    assert_int_equal(json_parse("run", r.out, strlen(r.out), &d), STATUS_OK);
    json_value one = json_item(command_value(&d, "eval_losses"), 0);
    double loss = 0;
    assert_int_equal(json_get_number(one, "loss", 0, 1e9, &loss), STATUS_OK);
    json_close(&d);
    command_free(&r);
    return loss;
}

static double loss_of_adapter(void) {
    json_document d;
    double loss = 0;
    if (json_open("ad/run.json", &d) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(json_get_number(json_item(command_value(&d, "eval_losses"), 0), "loss", 0, 1e9, &loss),
                     STATUS_OK);
    json_close(&d);
    return loss;
}

static void a_merged_model_is_the_adapted_one(void **state) {
    (void)state;
    command_expect(0, "merge base --adapter ad --out merged");
    double with = loss_of_adapter(), merged = loss_of("merged"), base = loss_of("base");
    if (!(with < base - 0.005)) fail_msg("training beside the weights did nothing: %g, %g", base, with);
    if (!(merged - with < 1e-5 && with - merged < 1e-5)) fail_msg("adapted %.9g, merged %.9g", with, merged);
    char *a = generated("base --adapter ad"), *b = generated("merged");
    assert_string_equal(a, b);
    free(a), free(b);
}

/* A product of the head is called "dense", too, and has no adapter. */
static void encoders_merge(void **state) {
    (void)state;
    static const char *const families[] = { "bert", "roberta" };
    for (int i = 0; i < 2; i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "rm -rf enc merged-enc; mkdir -p encoder; echo '{\"model_type\": \"%s\", "
                 "\"num_hidden_layers\": 2, "
                 "\"num_attention_heads\": 2, \"hidden_size\": 16, \"intermediate_size\": 32, "
                 "\"max_position_embeddings\": 34, \"vocab_size\": 300, \"pad_token_id\": 1}' "
                 ">encoder/config.json",
                 families[i]);
        assert_int_equal(system(line), 0);
        command_expect(0, "train encoder --data text --steps 1 --batch 2 --context 16 --quiet --overwrite "
                          "--out enc-base");
        command_expect(0, "train enc-base --data text --steps 1 --batch 2 --context 16 --quiet "
                          "--lora rank=2 --out enc");
        assert_int_equal(system("tr -d ' \\n' <enc/adapter_config.json | grep -q "
                                "'\"target_modules\":\\[\"query\",\"key\",\"value\",\"output.dense\","
                                "\"intermediate.dense\"\\]'"),
                         0);
        command_expect(0, "merge enc-base --adapter enc --out merged-enc");
    }
}

static void only_adapters_are_written(void **state) {
    (void)state;
    assert_int_equal(access("ad/adapter_config.json", F_OK), 0);
    assert_int_equal(access("ad/adapter_model.safetensors", F_OK), 0);
    assert_int_not_equal(access("ad/model.safetensors", F_OK), 0);
    json_document d;
    if (json_open("ad/adapter_config.json", &d) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(command_number(&d, "r"), 4);
    assert_int_equal(command_number(&d, "lora_alpha"), 8);
    const char *one;
    assert_int_equal(json_as_string(json_item(command_value(&d, "target_modules"), 1), &one), STATUS_OK);
    assert_string_equal(one, "mlp.c_proj");
    bool turned = false;
    assert_int_equal(json_as_bool(command_value(&d, "fan_in_fan_out"), &turned), STATUS_OK);
    assert_true(turned); /* GPT-2's weights lie as (in, out) */
    json_close(&d);
}

static void resuming_gives_the_same_bits(void **state) {
    (void)state;
    command_expect(0, RUN "--out again --resume ad/checkpoint-10");
    assert_int_equal(system("cmp ad/adapter_model.safetensors again/adapter_model.safetensors"), 0);
    command_expect(0, "train base --data text --steps 20 --batch 8 --lr 1e-2 --warmup 20 --save-every 10 "
                      "--quiet --out third "
                      "--resume ad/checkpoint-10"); /* its settings are in the checkpoint */
    assert_int_equal(system("cmp ad/adapter_model.safetensors third/adapter_model.safetensors"), 0);
}

/* Over a base of codes: checkpoints hold adapters alone, a resumed run is the same, generating holds the same
 * base, and the merged model is that base with the adapters in it. */
static void over_a_base_of_codes(void **state) {
    (void)state;
    static const char *const bases[] = { "nf4", "int8", "bf16" };
    for (int i = 0; i < 3; i++) {
        char line[512];
#define OVER                                                                                                 \
    "train base --data text --steps 20 --batch 8 --lr 1e-2 --warmup 20 --save-every 10 --quiet --lora "      \
    "rank=4,base="
        assert_int_equal(system("rm -rf over over2 over-merged"), 0);
        snprintf(line, sizeof line, OVER "%s --out over", bases[i]);
        command_expect(0, line);
        assert_int_not_equal(access("over/checkpoint-10/model.safetensors", F_OK), 0);
        assert_int_equal(access("over/checkpoint-10/adapter_config.json", F_OK), 0);
        command_expect(
            0,
            "train base --data text --steps 20 --batch 8 --lr 1e-2 --warmup 20 --save-every 10 --quiet --out "
            "over2 --resume over/checkpoint-10");
        assert_int_equal(system("cmp over/adapter_model.safetensors over2/adapter_model.safetensors"), 0);
        assert_int_equal(system("cmp over/checkpoint-20/optimizer.safetensors "
                                "over2/checkpoint-20/optimizer.safetensors"),
                         0);
        command_expect(0, "merge base --adapter over --out over-merged");
        char *a = generated("base --adapter over"), *b = generated("over-merged"),
             *c = generated("base --adapter over/checkpoint-20");
        assert_string_equal(a, b);
        assert_string_equal(a, c);
        free(a), free(b), free(c);
    }
}

/* Adapters are worth nothing beside other weights. */
static void another_base_is_refused(void **state) {
    (void)state;
    assert_int_equal(system("rm -rf other && cp -r base other && rm -rf other/checkpoint*"), 0);
    command_expect(0, "train tiny/config.json --data text --out other2 --steps 3 --batch 8 --quiet");
    assert_int_equal(system("cp other2/model.safetensors other/model.safetensors"), 0);
    command_result r =
        command_run("train other --data text --steps 20 --batch 8 --lr 1e-2 --warmup 20 --save-every 10 "
                    "--quiet --out never --resume ad/checkpoint-10");
    if (r.exit != 2 || !strstr(r.err, "of a run with another model: weights was"))
        fail_msg("%d: %s", r.exit, r.err);
    command_free(&r);
}

/* Beside weights that it was not trained beside an adapter would do anything: the base trained further under
 * its old name, and one that has the adapter in it already. */
static void beside_other_weights_nothing_is_made(void **state) {
    (void)state;
    assert_int_equal(system("rm -rf moved twice plain && cp -r base moved && cp -r ad plain"), 0);
    command_expect(0, "train moved --data text --out further --steps 1 --batch 8 --quiet");
    command_expect(0,
                   "generate moved --adapter ad --prompt the --tokens 1 --quiet"); /* the same, elsewhere */
    assert_int_equal(system("cp further/model.safetensors moved/model.safetensors"), 0);
    command_expect(0, "merge base --adapter ad --out whole");
    assert_true(command_says("merge whole --adapter ad --out twice", 2,
                             "ad was trained beside the weights that base held then"));
    assert_true(command_says("merge whole --adapter ad --out twice", 2, "and whole holds others"));
    assert_true(command_says("generate moved --adapter ad --prompt the", 2, "and moved holds others"));
    assert_true(command_says("generate whole --adapter ad --prompt the", 2, "and whole holds others"));
    assert_int_not_equal(access("twice", F_OK), 0);
    assert_int_equal(system("grep -q '\"digest\": ' ad/checkpoint-10/adapter_base.json"), 0);
    assert_int_equal(unlink("plain/adapter_base.json"), 0); /* as PEFT writes it */
    command_expect(0, "merge whole --adapter plain --out twice");
}

static void an_adapter_is_no_model(void **state) {
    (void)state;
    assert_true(command_says("generate ad --prompt the", 2, "'snug generate base --adapter ad'"));
    assert_true(
        command_says("train ad --data text --eval-only", 2, "'snug merge base --adapter ad --out DIR'"));
    assert_true(command_says("quantize ad --to int8 --out never", 2, "ad is an adapter and no model"));
}

/* PEFT may write adapters in 16 bits. */
static void adapters_of_16_bits_are_widened(void **state) {
    (void)state;
    static const char script[] =
        "python3 - <<'E'\n"
        "import json, struct\n"
        "d = open('ad/adapter_model.safetensors', 'rb').read()\n"
        "n = struct.unpack('<Q', d[:8])[0]; h = json.loads(d[8:8 + n]); data = d[8 + n:]; out = b''\n"
        "for k in [k for k in h if k != '__metadata__']:\n"
        "    a, b = h[k]['data_offsets']; at = len(out)\n"
        "    out += b''.join(data[i + 2:i + 4] for i in range(a, b, 4))\n"
        "    h[k].update(dtype='BF16', data_offsets=[at, len(out)])\n"
        "j = json.dumps(h).encode(); j += b' ' * (-len(j) % 8)\n"
        "open('half/adapter_model.safetensors', 'wb').write(struct.pack('<Q', len(j)) + j + out)\n"
        "E\n";
    assert_int_equal(system("rm -rf half && cp -r ad half"), 0);
    if (system(script) != 0) {
        print_message("no python3 to write one\n");
        return;
    }
    char *a = generated("base --adapter half");
    free(a);
    command_expect(0, "merge base --adapter half --out half-merged");
}

/* A copy of the adapter with one text of its configuration replaced. */
static void refuses(const char *from, const char *to, const char *says) {
    char line[512];
    assert_int_equal(system("rm -rf bad && cp -r ad bad"), 0);
    snprintf(line, sizeof line, "sed -i 's/%s/%s/' bad/adapter_config.json", from, to);
    assert_int_equal(system(line), 0);
    command_result r = command_run("generate base --adapter bad --prompt the --quiet");
    if (r.exit != 2 || !strstr(r.err, says)) fail_msg("%s: exit %d, %s", to, r.exit, r.err);
    command_free(&r);
    command_expect(2, "merge base --adapter bad --out never");
    assert_int_not_equal(access("never", F_OK), 0);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    refuses("\"r\": 4", "\"r\": 5", "another shape");
    refuses("\"r\": 4", "\"r\": 0", "'r'");
    refuses("LORA", "IA3", "only LORA");
    refuses("\"bias\": \"none\"", "\"bias\": \"all\"", "only none");
    refuses("\"r\": 4", "\"use_dora\": true, \"r\": 4", "not supported");
    refuses("c_attn", "query", "no product 'query'");
    refuses("\"c_attn\",", "", "has 8 tensors");
    refuses("{", "[", "JSON");
    command_expect(2, "generate base --adapter base --prompt the");
    command_expect(2, "merge base --adapter nowhere --out never");
    command_expect(2, "merge base --out never");
    command_expect(2, "merge base --adapter ad");
    command_expect(2, "merge base --adapter ad --out base");
    assert_true(command_says("merge base --adapter ad --out merged", 2, "merged holds a model already"));
    lock other;
    assert_int_equal(system("mkdir held"), 0);
    assert_int_equal(lock_open("held/" LOCK_OF_FOLDER, &other), STATUS_OK);
    assert_true(command_says("merge base --adapter ad --out held", 2, "another run writes to this folder"));
    lock_close(&other);
    command_expect(0, "merge base --adapter ad --out held");
    assert_true(command_says("merge base --adapter ad --out ad", 2, "ad holds a model already (adapter_"));
    command_result early = command_run("train tiny/config.json --data text --out never --lora rank=4");
    assert_int_equal(early.exit, 2);
    assert_string_equal(early.out, ""); /* before anything is planned */
    assert_non_null(strstr(early.err, "tiny/config.json brings none"));
    command_free(&early);
    command_expect(2, "train base --data text --out never --steps 1 --lora rank=4,target=query");
    command_expect(2, "train base --data text --out never --steps 1 --lora rank=4 --exact");
    command_expect(2, "plan base --allow lora");
    command_expect(0, "plan base --allow all"); /* which it is not among */
    assert_int_not_equal(access("never", F_OK), 0);
}

/* Weights of a decoder lie as (out, in), and that of the queries is square here: merged the wrong way round
 * it would fit as well. */
static void adapters_of_a_decoder_merge(void **state) {
    (void)state;
    static const char config[] =
        "{\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":64,"
        "\"vocab_size\":256,\"max_position_embeddings\":32}";
    scratch_write("llama.json", config, sizeof config - 1);
    command_expect(0, "train llama.json --data text --out lbase --steps 20 --batch 4 --lr 3e-3 --quiet");
    command_expect(
        0,
        "train lbase --data text --out lad --steps 20 --batch 4 --lr 1e-2 --warmup 20 --lora rank=4 --quiet");
    command_expect(0, "merge lbase --adapter lad --out lmerged");
    char *with = generated("lbase --adapter lad"), *merged = generated("lmerged"), *base = generated("lbase");
    assert_string_equal(with, merged);
    assert_string_not_equal(with, base);
    free(with), free(merged), free(base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_of_a_decoder_merge),
        cmocka_unit_test(a_merged_model_is_the_adapted_one),
        cmocka_unit_test(over_a_base_of_codes),
        cmocka_unit_test(another_base_is_refused),
        cmocka_unit_test(beside_other_weights_nothing_is_made),
        cmocka_unit_test(an_adapter_is_no_model),
        cmocka_unit_test(adapters_of_16_bits_are_widened),
        cmocka_unit_test(only_adapters_are_written),
        cmocka_unit_test(encoders_merge),
        cmocka_unit_test(resuming_gives_the_same_bits),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests_name("adapter", tests, make_runs, scratch_close);
}
