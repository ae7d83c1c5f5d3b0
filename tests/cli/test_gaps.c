/* Encoders as a user has them: trained, resumed, validated, adapted, read again, and refused where they can't
 * do what is asked. Encoder-decoders: planned, and refused where they would be computed. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "language/tokenizer_of.h"

#define SIZES                                                                                                \
    "\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"intermediate_size\":64,"         \
    "\"vocab_size\":257,\"max_position_embeddings\":34"

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

/* In one go, with other numbers of workers and under a budget, and in two with a resumption between: the same
 * bits, dropout and masks included. */
static void an_encoder_is_trained_and_resumed(void **state) {
    (void)state;
#define RUN                                                                                                  \
    "train given.json --data text --steps 12 --batch 8 --lr 3e-3 --save-every 6 --exact --quiet --out "
    write_config("bert", "");
    command_expect(0, RUN "whole --workers 0");
    command_expect(0, RUN "workers --workers 3 --threads 1");
    command_expect(0, RUN "part --resume whole/checkpoint-6");
    command_expect(0, RUN "small --micro-batch 8 --recompute block");
    assert_int_equal(system("cmp -s whole/model.safetensors workers/model.safetensors && "
                            "cmp -s whole/model.safetensors part/model.safetensors && "
                            "cmp -s whole/model.safetensors small/model.safetensors && "
                            "cmp -s whole/config.json part/config.json"),
                     0);
    write_config("bert", ",\"mask_token_id\":255");
    assert_true(
        command_says(RUN "other --resume whole/checkpoint-6", 2, "another model: mask was 256 and is 255"));
#undef RUN
}

/* The measured categories of a run are the planned ones, and validation hides the same gaps each time. */
static void validation_is_the_same_each_time(void **state) {
    (void)state;
    write_config("roberta", ",\"type_vocab_size\":1");
    command_expect(0, "train given.json --data text --out robust --steps 8 --batch 4 --quiet");
    command_result a = command_run("train robust --data text --eval-only --json --quiet"),
                   b = command_run("train robust --data text --eval-only --json --quiet --seed 9");
    assert_int_equal(a.exit, 0);
    const char *x = strstr(a.out, "\"loss\":"), *y = strstr(b.out, "\"loss\":");
    assert_true(x && y);
    assert_int_equal(strncmp(x, y, strcspn(x, ",")), 0);
    command_free(&a);
    command_free(&b);
}

/* Files from before 2019 call a norm's weights gamma and beta. */
static void older_names_are_read(void **state) {
    (void)state;
    write_config("bert", "");
    command_expect(0, "train given.json --data text --out newer --steps 2 --batch 4 --overwrite --quiet");
    assert_int_equal(
        system(
            "rm -rf older && cp -r newer older && LC_ALL=C sed -i "
            "'s/\\.LayerNorm\\.weight\"/.LayerNorm.gamma\" /g; s/\\.LayerNorm\\.bias\"/.LayerNorm.beta\"/g' "
            "older/model.safetensors && ! cmp -s newer/model.safetensors older/model.safetensors"),
        0);
    command_result a = command_run("train newer --data text --eval-only --json --quiet"),
                   b = command_run("train older --data text --eval-only --json --quiet");
    if (a.exit || b.exit) fail_msg("%s%s", a.err, b.err);
    const char *x = strstr(a.out, "\"loss\":"), *y = strstr(b.out, "\"loss\":");
    assert_true(x && y);
    assert_int_equal(strncmp(x, y, strcspn(x, ",")), 0);
    command_free(&a);
    command_free(&b);
}

/* 40 documents that begin with 1 and end with 2, and a list of `count` special ids. */
static void write_tokens(const char *path, const uint32_t *special, int64_t count) {
    enum { DOCUMENTS = 40, LENGTH = 30 };
    static uint16_t ids[DOCUMENTS * LENGTH];
    static uint64_t ends[DOCUMENTS];
    for (int i = 0; i < DOCUMENTS * LENGTH; i++) {
        int place = i % LENGTH;
        ids[i] = (uint16_t)(place == 0 ? 1 : place == LENGTH - 1 ? 2 : 3 + i * 7 % 8);
        ends[i / LENGTH] = (uint64_t)(i / LENGTH + 1) * LENGTH;
    }
    safetensors_item items[] = {
        { .name = "tokens",
          .dtype = "U16",
          .shape = SHAPE(DOCUMENTS * LENGTH),
          .data = ids,
          .bytes = sizeof ids },
        { .name = "ends", .dtype = "U64", .shape = SHAPE(DOCUMENTS), .data = ends, .bytes = sizeof ends },
        { .name = "special",
          .dtype = "U32",
          .shape = SHAPE(count),
          .data = special,
          .bytes = (uint64_t)count * 4 },
    };
    if (safetensors_write(path, items, count ? 3 : 2) != STATUS_OK) fail_msg("%s", status_message());
}

/* Of samples that are a document each: the mean of 15 in 100 tokens is drawn among those that may be. With
 * all but id 3 special, what is asked for is id 3 alone, and a model learns to say that. */
static void special_tokens_are_not_asked_for(void **state) {
    (void)state;
    static uint32_t others[256];
    int64_t count = 0;
    for (uint32_t id = 0; id < 257; id++)
        if (id != 3) others[count++] = id;
    write_config("bert", ",\"hidden_dropout_prob\":0,\"attention_probs_dropout_prob\":0");
    write_tokens("none.safetensors", NULL, 0);
    write_tokens("most.safetensors", others, count);
    write_tokens("frame.safetensors", (uint32_t[]){ 1, 2 }, 2);
#define LEARN "train given.json --context 30 --batch 20 --lr 1e-2 --warmup 0 --overwrite --quiet --data "
    static const char *const ways[] = { "documents", "whole", "pad", "cross" };
    for (size_t i = 0; i < 4; i++) {
        char line[400];
        snprintf(line, sizeof line, LEARN "most.safetensors --steps 30 --out asked --pack %s", ways[i]);
        command_expect(0, line);
        command_result r = command_run("train asked --eval-data most.safetensors --eval-only --context 30 "
                                       "--eval-samples 30 --json --quiet");
        json_document d;
        double loss;
        assert_int_equal(json_parse("loss", r.out, strlen(r.out), &d), STATUS_OK);
        assert_int_equal(json_as_number(command_value(&d, "evaluation.loss"), -1e9, 1e9, &loss), STATUS_OK);
        if (!(loss < 0.1)) fail_msg("%s: loss %g", ways[i], loss);
        json_close(&d);
        command_free(&r);
    }
    command_expect(0, LEARN "none.safetensors --steps 2 --out none");
    command_expect(0, LEARN "frame.safetensors --steps 2 --out frame");
    assert_int_not_equal(system("cmp -s none/model.safetensors frame/model.safetensors"), 0);
#undef LEARN
}

/* Documents that its tokenizer frames: the file names its special tokens, and training goes on as ever. */
static void documents_of_an_encoder_name_their_special_tokens(void **state) {
    (void)state;
    safetensors s;
    tokenizer *t;
    bool there;
    uint32_t listed[16], n = 0;
    assert_int_equal(
        system("mkdir framed && cp " SNUG_ROOT "/tests/text/golden/bert.json framed/tokenizer.json && "
               "for i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4 5; do echo '{\"text\": \"snow '$i' is cold "
               "[MASK] and '$j' so is ice\"}'; done; done > snow.jsonl"),
        0);
    write_config("bert", ",\"mask_token_id\":4");
    assert_int_equal(system("sed 's/\"vocab_size\":257/\"vocab_size\":600/' given.json > framed/config.json"),
                     0);
#define RUN "train framed --data snow.jsonl --context 16 --steps 8 --batch 4 --save-every 4 --quiet --out "
    command_expect(0, RUN "snowy");
    command_expect(0, RUN "snowy2 --resume snowy/checkpoint-4 --threads 1 --workers 2");
    assert_int_equal(system("cmp snowy/model.safetensors snowy2/model.safetensors"), 0);
#undef RUN
    if (safetensors_open("snowy/data/train.safetensors", &s) != STATUS_OK) fail_msg("%s", status_message());
    const safetensors_entry *e = safetensors_find(&s, "special");
    assert_true(e && e->bytes <= sizeof listed);
    assert_int_equal(safetensors_read_bytes(&s, e, 0, listed, e->bytes), STATUS_OK);
    int64_t count = e->dim[0];
    safetensors_close(&s);
    assert_int_equal(tokenizer_of_open("framed", &t, &there), STATUS_OK);
    for (uint32_t id = 0; id < tokenizer_size(t); id++)
        if (tokenizer_is_special(t, id)) assert_int_equal(listed[n++], id);
    assert_true(n == 5 && count == 5);
    tokenizer_close(t);
}

/* What is written says which token hid the others. */
static void the_mask_is_the_tokenizers(void **state) {
    (void)state;
    static const struct {
        const char *kind, *config, *told, *rest;
        int mask;
    } cases[] = {
        { "bert", "", "{}", "", 4 },
        { "bert", "", "{\"tokenizer_class\": \"BertTokenizerFast\"}", "", 4 },
        { "bert", "", "{\"mask_token\": \"[SEP]\"}", "", 3 },
        { "bert", "", "{\"mask_token\": {\"__type\": \"AddedToken\", \"content\": \"[UNK]\"}}", "", 1 },
        { "bert", "", "{\"mask_token\": \"<nowhere>\"}", "", 4 },
        { "bert", ",\"mask_token_id\":7", "{}", "", 7 },
        { "bert", "", "{}", "--data-kind bytes", 599 },
        { "roberta", "", "{}", "", 380 },
        { "gpt2", "", "{}", "", 599 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[300];
        write_config(strcmp(cases[i].kind, "roberta") ? "bert" : "roberta", cases[i].config);
        snprintf(line, sizeof line,
                 "rm -rf hides && mkdir hides && cp " SNUG_ROOT "/tests/text/golden/%s.json "
                 "hides/tokenizer.json && "
                 "sed 's/\"vocab_size\":257/\"vocab_size\":600/' given.json > hides/config.json",
                 cases[i].kind);
        assert_int_equal(system(line), 0);
        scratch_write("hides/tokenizer_config.json", cases[i].told, strlen(cases[i].told));
        snprintf(line, sizeof line,
                 "train hides --data snow.jsonl --context 16 --steps 1 --batch 2 --overwrite --quiet --out "
                 "hid %s",
                 cases[i].rest);
        command_expect(0, line);
        snprintf(line, sizeof line, "grep -q '\"mask_token_id\": *%d[,}]*$' hid/config.json", cases[i].mask);
        if (system(line) != 0) fail_msg("case %zu: the mask is not %d", i, cases[i].mask);
    }
}

static void it_cannot_continue_a_text(void **state) {
    (void)state;
    assert_true(command_says("generate robust --prompt the", 2, "fills gaps and can't continue a text"));
}

static void adapters_and_codes_fit_it(void **state) {
    (void)state;
    command_expect(
        0, "train robust --data text --out adapted --lora rank=2,target=query+value --steps 3 --batch 4 "
           "--quiet");
    command_expect(0, "merge robust --adapter adapted --out merged");
    command_expect(0, "train merged --data text --eval-only --quiet");
    assert_true(command_says("quantize robust --to int8 --out coded --data text", 0,
                             "Try: snug train coded --data PATH --eval-only"));
    command_expect(0, "train coded --data text --eval-only --quiet");
}

static const struct {
    const char *type, *more, *said;
} bad[] = {
    { "bert", ",\"is_decoder\":true", "'is_decoder' is true" },
    { "bert", ",\"tie_word_embeddings\":false", "'tie_word_embeddings' is false" },
    { "bert", ",\"position_embedding_type\":\"relative_key\"",
      "'position_embedding_type' is 'relative_key'" },
    { "bert", ",\"hidden_act\":\"relu\"", "'hidden_act' is 'relu'" },
    { "bert", ",\"mask_token_id\":257", "mask_token_id is 257" },
    { "bert", ",\"num_attention_heads\":5", "cannot be divided among num_attention_heads 5" },
    { "roberta", ",\"pad_token_id\":40", "behind pad_token_id 40" },
    { "roberta", ",\"hidden_dropout_prob\":1", "must be below 1" },
    { "distilbert", "", "'n_layers'" },
    { "robert", "", "the nearest is roberta" },
};

static void bad_configurations_get_a_sentence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_config(bad[i].type, bad[i].more);
        assert_true(command_says("plan given.json --batch 1", 2, bad[i].said));
        assert_true(command_says("plan given.json --batch 1", 2, "given.json"));
    }
    write_config("roberta", "");
    assert_true(command_says("plan given.json --batch 1 --context 33", 2, "longer than the 32 positions"));
}

#define T5                                                                                                   \
    "{\"model_type\":\"t5\",\"d_model\":32,\"d_kv\":8,\"d_ff\":64,\"num_layers\":2,\"num_heads\":4,"         \
    "\"vocab_size\":257%s}"

static void write_t5(const char *more) {
    char json[512];
    snprintf(json, sizeof json, T5, more);
    scratch_write("given.json", json, strlen(json));
}

static void an_encoder_decoder_plans(void **state) {
    (void)state;
    write_t5("");
    command_expect(0, "plan given.json --batch 4 --context 48 --quiet");
    command_expect(
        0, "plan given.json --batch 4 --context 48 --recompute block --precision bf16 --attention flash "
           "--quiet");
    assert_true(command_says("train given.json --data text --out no --steps 1 --batch 1 --context 8", 2,
                             "doesn't say what is a text and what the answer to it"));
    write_t5(",\"feed_forward_proj\":\"gated-relu\"");
    assert_true(command_says("plan given.json --batch 1", 2, "'feed_forward_proj' is 'gated-relu'"));
    write_t5(",\"relative_attention_max_distance\":9");
    assert_true(command_says("plan given.json --batch 1", 2, "relative_attention_max_distance is 9"));
}

/* As many parameters as their papers and files have, without heads that fill no gaps. */
static void published_names_have_their_sizes(void **state) {
    (void)state;
    static const struct {
        const char *name, *parameters;
    } known[] = { { "bert-base", "109514298" },      { "roberta-base", "124697433" },
                  { "distilbert-base", "66985530" }, { "t5-base", "222903552" },
                  { "flan-t5-base", "247577856" },   { "t5-small", "60506624" },
                  { "modernbert-base", "149655232" } };
    static const char *const frameworks[] = { "pytorch", "hf", "snug" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int f = 0; f < 3; f++) {
            char line[200];
            snprintf(line, sizeof line,
                     "estimate %s --framework %s --device a100-80 --batch 2 --context 64 --json",
                     known[i].name, frameworks[f]);
            command_result r = command_run(line);
            if (r.exit != 0 || (f < 2 && !strstr(r.out, known[i].parameters)))
                fail_msg("%s: exit %d: %s%s", line, r.exit, r.out, r.err);
            command_free(&r);
        }
    assert_true(command_says("train bert-base --data text --out no --steps 1 --batch 1 --context 8", 2,
                             "sizes only"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(an_encoder_is_trained_and_resumed),
                                        cmocka_unit_test(validation_is_the_same_each_time),
                                        cmocka_unit_test(older_names_are_read),
                                        cmocka_unit_test(special_tokens_are_not_asked_for),
                                        cmocka_unit_test(documents_of_an_encoder_name_their_special_tokens),
                                        cmocka_unit_test(the_mask_is_the_tokenizers),
                                        cmocka_unit_test(it_cannot_continue_a_text),
                                        cmocka_unit_test(adapters_and_codes_fit_it),
                                        cmocka_unit_test(bad_configurations_get_a_sentence),
                                        cmocka_unit_test(an_encoder_decoder_plans),
                                        cmocka_unit_test(published_names_have_their_sizes) };
    return cmocka_run_group_tests(tests, make_files, scratch_close);
}
