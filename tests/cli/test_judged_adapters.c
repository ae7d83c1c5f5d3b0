/* Adapters beside a head that judges texts: what is written is what was trained, a merged model judges as the
 * run did, and what other programs write of such adapters is read. */
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

#include "cli/command.h"
#include "io/safetensors.h"
#include "io/scratch.h"

#define SIZES                                                                                                \
    "\"vocab_size\":256,\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,"               \
    "\"intermediate_size\":24,\"max_position_embeddings\":32}"
#define COURSE "--batch 8 --context 24 --lr 1e-2 --threads 2 --dropout 0 --quiet "

static const char *const kinds[] = { "bert", "llama" };

static void put(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

/* Bases that have learned a little, without a head, and records whose letters tell their label. */
static int make_all(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    put("bert.json", "{\"model_type\":\"bert\",\"mask_token_id\":4," SIZES);
    put("llama.json", "{\"model_type\":\"llama\"," SIZES);
    FILE *file = fopen("named.jsonl", "w"), *scores = fopen("scores.jsonl", "w");
    for (int i = 0; i < 120; i++) {
        static const char *const names[] = { "plum", "fig", "apple" };
        int kind = (i * 7 + i / 11) % 3;
        char said[24] = { 0 };
        for (int k = 0; k < 1 + i * 5 % 20; k++) said[k] = (char)('a' + 8 * kind + (i + k) % 5);
        fprintf(file, "{\"text\": \"%s\", \"label\": \"%s\"}\n", said, names[kind]);
        fprintf(scores, "{\"text\": \"%s\", \"label\": %d}\n", said, kind - 1);
    }
    fclose(file);
    fclose(scores);
    for (int k = 0; k < 2; k++) {
        char line[256];
        snprintf(line, sizeof line, "train %s.json --data text --steps 4 --out base-%s " COURSE, kinds[k],
                 kinds[k]);
        command_expect(0, line);
    }
    return 0;
}

static double said(const char *line, const char *path) {
    double value;
    json_document d;
    command_result r = command_run(line);
    if (r.exit) fail_msg("snug %s: %s", line, r.err);
    assert_int_equal(json_parse("the result", r.out, strlen(r.out), &d), STATUS_OK);
    assert_int_equal(json_as_number(command_value(&d, path), -1e9, 1e9, &value), STATUS_OK);
    json_close(&d);
    command_free(&r);
    return value;
}

static double said_by_run(const char *folder) {
    char path[64];
    json_document d;
    json_value losses, last;
    double loss;
    size_t count;
    snprintf(path, sizeof path, "%s/run.json", folder);
    assert_int_equal(json_open(path, &d), STATUS_OK);
    assert_int_equal(json_get(d.root, "eval_losses", &losses), STATUS_OK);
    assert_int_equal(json_as_array(losses, &count), STATUS_OK);
    last = json_item(losses, count - 1);
    assert_int_equal(json_get_number(last, "loss", -1e9, 1e9, &loss), STATUS_OK);
    json_close(&d);
    return loss;
}

static bool file_has(const char *folder, const char *name, const char *words) {
    char line[512];
    snprintf(line, sizeof line, "tr -d ' \\n' < %s/%s | grep -qF '%s'", folder, name, words);
    return system(line) == 0;
}

/* The whole way: trained, resumed from its middle, merged; the merged model has the loss that validation
 * said. */
static void what_is_merged_judges_as_the_run_did(void **state) {
    (void)state;
    static const char *const modules[] = { "\"modules_to_save\":[\"pooler\",\"classifier\"]",
                                           "\"modules_to_save\":[\"score\"]" };
    for (int k = 0; k < 2; k++) {
        char line[512];
#define TRAIN                                                                                                \
    "train base-%s --head classes --data named.jsonl --lora rank=2 --steps 20 --save-every 10 " COURSE
        snprintf(line, sizeof line, TRAIN "--out ad-%s", kinds[k], kinds[k]);
        command_expect(0, line);
        snprintf(line, sizeof line, TRAIN "--out again-%s --resume ad-%s/checkpoint-10", kinds[k], kinds[k],
                 kinds[k]);
        command_expect(0, line);
        command_shell("cmp ad-%s/adapter_model.safetensors again-%s/adapter_model.safetensors", kinds[k],
                      kinds[k]);
#undef TRAIN
        snprintf(line, sizeof line, "ad-%s", kinds[k]);
        assert_true(file_has(line, "adapter_config.json", "\"task_type\":\"SEQ_CLS\""));
        assert_true(file_has(line, "adapter_config.json", modules[k]));
        assert_true(file_has(line, "adapter_base.json",
                             "\"id2label\":{\"0\":\"apple\",\"1\":\"fig\",\"2\":\"plum\"}"));
        snprintf(line, sizeof line, "merge base-%s --adapter ad-%s --out whole-%s", kinds[k], kinds[k],
                 kinds[k]);
        command_expect(0, line);
        snprintf(line, sizeof line, "whole-%s", kinds[k]);
        assert_true(file_has(line, "config.json", "\"label2id\":{\"apple\":0,\"fig\":1,\"plum\":2}"));
        snprintf(line, sizeof line,
                 "train whole-%s --data named.jsonl --eval-only --json --context 24 --quiet", kinds[k]);
        double loss = said(line, "evaluation.loss");
        snprintf(line, sizeof line, "ad-%s", kinds[k]);
        double was = said_by_run(line);
        if (!(fabs(loss - was) < 1e-4 * was))
            fail_msg("%s: loss %g of the whole, %g of the run", kinds[k], loss, was);
    }
}

/* A score, and a base that has a head of its own already: the adapter's comes over it. */
static void other_heads_are_merged(void **state) {
    (void)state;
    command_expect(
        0,
        "train base-llama --head score --data scores.jsonl --lora rank=2 --steps 6 --out ad-score " COURSE);
    assert_true(file_has("ad-score", "adapter_base.json", "\"problem_type\":\"regression\""));
    command_expect(0, "merge base-llama --adapter ad-score --out whole-score");
    double loss = said("train whole-score --data scores.jsonl --eval-only --json --context 24 --quiet",
                       "evaluation.loss");
    assert_true(fabs(loss - said_by_run("ad-score")) < 1e-4 * loss);
    command_expect(0, "train base-llama --head classes --data named.jsonl --steps 6 --out judge " COURSE);
    command_expect(0, "train judge --data named.jsonl --lora rank=2 --steps 6 --out ad-judge " COURSE);
    command_expect(0, "merge judge --adapter ad-judge --out whole-judge");
    loss = said("train whole-judge --data named.jsonl --eval-only --json --context 24 --quiet",
                "evaluation.loss");
    assert_true(fabs(loss - said_by_run("ad-judge")) < 1e-4 * loss);
}

/* Without what this program says of the head, as PEFT writes adapters. */
static void adapters_of_others_are_merged(void **state) {
    (void)state;
    command_shell("cp -r ad-bert theirs && rm theirs/adapter_base.json");
    command_expect(0, "merge base-bert --adapter theirs --out whole-theirs");
    assert_true(
        file_has("whole-theirs", "config.json", "\"id2label\":{\"0\":\"LABEL_0\",\"1\":\"LABEL_1\","));
    command_shell("cmp whole-theirs/model.safetensors whole-bert/model.safetensors");
    /* the names of a base that judges already, with as many classes */
    command_shell("cp -r ad-judge ours && rm ours/adapter_base.json");
    command_expect(0, "merge judge --adapter ours --out whole-ours");
    command_shell("cmp whole-ours/config.json whole-judge/config.json");
}

/* The adapter's file without some of its tensors: those whose names hold `left_out`. */
static void copy_without(const char *from, const char *to, const char *left_out) {
    safetensors s;
    safetensors_item items[64];
    uint32_t count = 0;
    char path[64];
    command_shell("rm -rf %s && cp -r %s %s && rm -f %s/adapter_base.json", to, from, to, to);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", from);
    assert_int_equal(safetensors_open(path, &s), STATUS_OK);
    for (uint32_t i = 0; i < s.count; i++) {
        const safetensors_entry *e = &s.entries[i];
        if (strstr(e->name, left_out)) continue;
        void *data = malloc(e->bytes);
        assert_int_equal(safetensors_read_bytes(&s, e, 0, data, e->bytes), STATUS_OK);
        items[count++] =
            (safetensors_item){ .name = e->name,
                                .dtype = e->dtype,
                                .shape = e->rank == 2 ? SHAPE(e->dim[0], e->dim[1]) : SHAPE(e->dim[0]),
                                .data = data,
                                .bytes = e->bytes };
    }
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", to);
    assert_int_equal(safetensors_write(path, items, count), STATUS_OK);
    for (uint32_t i = 0; i < count; i++) free((void *)(uintptr_t)items[i].data);
    safetensors_close(&s);
}

/* PEFT leaves BERT's pooler to the base. One that has a pooler gives it; one that has none is refused. */
static void parts_of_a_head_are_the_bases(void **state) {
    (void)state;
    copy_without("ad-bert", "part", "pooler");
    assert_true(
        command_says("merge base-bert --adapter part --out whole-part", 2,
                     "neither part nor base-bert has the tensor 'bert.pooler.dense.weight' of the head"));
    command_expect(0, "merge whole-bert --adapter part --out whole-part");
    copy_without("ad-bert", "part", "classifier");
    assert_true(
        command_says("merge base-bert --adapter part --out n", 2, "none of them is a head that judges"));
    copy_without("ad-bert", "part", "lora_A");
    assert_true(command_says("merge base-bert --adapter part --out n", 2, "has no tensor"));
}

static void what_can_not_be_is_said(void **state) {
    (void)state;
    assert_true(command_says("generate base-llama --adapter ad-llama --prompt a", 2,
                             "'modules_to_save' is not empty; such adapters are not supported"));
    assert_true(command_says("merge tiny --adapter ad-llama --out n", 2, "tiny"));
    assert_true(command_says("merge base-llama --adapter ad-bert --out n", 2, "ad-bert"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_merged_judges_as_the_run_did),
                                        cmocka_unit_test(other_heads_are_merged),
                                        cmocka_unit_test(adapters_of_others_are_merged),
                                        cmocka_unit_test(parts_of_a_head_are_the_bases),
                                        cmocka_unit_test(what_can_not_be_is_said) };
    return cmocka_run_group_tests_name("adapters that judge", tests, make_all, scratch_close);
}
