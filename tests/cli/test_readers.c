/* What other programs make of our files: safetensors and transformers of a model, tensorboard of a run's
 * events. They are Python packages; where they are not installed the test says so and is skipped. SNUG_PYTHON
 * names the interpreters to ask, separated by colons; without it python3 is asked. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"

static int make_runs(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    command_expect(
        0, "train tiny/config.json --data text --eval-data text --eval-samples 40 --out model --steps 60 "
           "--eval-every 20 --save-every 30 --quiet");
    return 0;
}

/* An interpreter that has the packages ("a, b") in `python`; false, with a sentence, when there is none. */
static bool find_python(const char *packages, char python[256]) {
    const char *named = getenv("SNUG_PYTHON");
    char list[2048], command[512], *rest = list;
    snprintf(list, sizeof list, "%s", named && *named ? named : "python3");
    for (char *one; (one = strsep(&rest, ":"));) {
        snprintf(python, 256, "%s", one);
        snprintf(command, sizeof command, "'%s' -c 'import %s' >probe 2>&1", python, packages);
        if (system(command) == 0) return true;
    }
    print_message("skipped: no Python here has %s; SNUG_PYTHON names interpreters that do\n", packages);
    return false;
}

/* Runs tests/cli/readers.py PART and expects it to be content. */
static void ask(const char *packages, const char *part, const char *arguments) {
    char python[256], command[1024];
    if (!find_python(packages, python)) skip();
    snprintf(command, sizeof command, "'%s' '%s/tests/cli/readers.py' %s %s >said 2>&1", python, SNUG_ROOT,
             part, arguments);
    if (system(command) == 0) return;
    FILE *file = fopen("said", "r");
    char said[4096] = "";
    size_t length = fread(said, 1, sizeof said - 1, file);
    fclose(file);
    said[length] = 0;
    fail_msg("readers.py %s: %s", part, said);
}

static void tensorboard_reads_the_events_of_a_resumed_run(void **state) {
    (void)state;
    /* As if it had been killed in step 60: it goes on from step 30. */
    command_expect(
        0, "train tiny/config.json --data text --eval-data text --eval-samples 40 --out model --steps 60 "
           "--eval-every 20 --save-every 30 --quiet --resume model/checkpoint-30");
    ask("tensorboard", "events", "model");
}

static void safetensors_reads_weights_and_optimizer(void **state) {
    (void)state;
    ask("safetensors, numpy", "tensors", "model model/checkpoint-60");
}

static void transformers_reads_the_configuration(void **state) {
    (void)state;
    ask("transformers", "config", "model model/checkpoint-30");
}

static void transformers_computes_the_same_loss(void **state) {
    (void)state;
    ask("transformers, torch, safetensors", "loss", "model text");
}

/* And back: what transformers writes is read here, and gives its loss. */
static void a_model_of_transformers_is_read(void **state) {
    (void)state;
    ask("transformers, torch, safetensors", "save", "theirs");
    command_expect(
        0, "train theirs --data text --eval-data text --eval-samples 40 --out ours --steps 1 --lr 0 --quiet");
    ask("transformers, torch, safetensors", "loss", "ours text");
    ask("transformers, torch, safetensors", "same", "theirs ours");
}

/* Those whose config.json is written with other keys than Llama's, or whose blocks are others. */
static void transformers_computes_the_losses_of_decoders(void **state) {
    (void)state;
    static const struct {
        const char *type, *more;
    } kinds[] = { { "olmo3", ",\"sliding_window\":12" },
                  { "exaone4", ",\"sliding_window\":12" },
                  { "ministral", ",\"head_dim\":8,\"sliding_window\":12" },
                  { "vaultgemma", ",\"head_dim\":8,\"sliding_window\":12" },
                  { "seed_oss", ",\"head_dim\":8,\"attention_out_bias\":true" },
                  { "ernie4_5", ",\"head_dim\":8,\"use_bias\":true" },
                  { "hunyuan_v1_dense", ",\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":9}" },
                  { "helium", ",\"head_dim\":8" },
                  { "arcee", ",\"mlp_bias\":true" },
                  { "jais2", "" },
                  { "stablelm", ",\"use_qkv_bias\":true,\"use_parallel_residual\":true" },
                  { "cohere", ",\"logit_scale\":0.5" },
                  { "cohere2", ",\"sliding_window\":12" } };
    char folders[512] = "text";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char json[512], line[256];
        snprintf(json, sizeof json,
                 "{\"model_type\":\"%s\",\"hidden_size\":32,\"num_hidden_layers\":4,"
                 "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":64,"
                 "\"vocab_size\":256,\"max_position_embeddings\":32%s}",
                 kinds[i].type, kinds[i].more);
        scratch_write("given.json", json, strlen(json));
        snprintf(
            line, sizeof line,
            "train given.json --data text --eval-data text --eval-samples 40 --out %s --steps 3 --lr 1e-2 "
            "--quiet",
            kinds[i].type);
        command_expect(0, line);
        snprintf(folders + strlen(folders), sizeof folders - strlen(folders), " %s", kinds[i].type);
    }
    ask("transformers, torch, safetensors", "losses", folders);
}

static void transformers_reads_encoders(void **state) {
    (void)state;
    static const char *const types[] = { "bert", "roberta", "data2vec-text" };
    for (int i = 0; i < 3; i++) {
        char json[400], line[200];
        snprintf(
            json, sizeof json,
            "{\"model_type\":\"%s\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
            "\"intermediate_size\":64,\"vocab_size\":257,\"max_position_embeddings\":34}",
            types[i]);
        scratch_write("given.json", json, strlen(json));
        snprintf(line, sizeof line, "train given.json --data text --out %s --steps 2 --batch 4 --quiet",
                 types[i]);
        command_expect(0, line);
    }
    ask("transformers, torch, safetensors", "gaps", "bert roberta data2vec-text");
}

static void peft_reads_adapters(void **state) {
    (void)state;
    command_expect(
        0, "train model --data text --out adapter --steps 20 --lr 1e-2 --lora rank=4,alpha=12 --quiet");
    command_expect(0, "merge model --adapter adapter --out merged");
    ask("peft, transformers, torch, safetensors", "peft", "model adapter merged");
}

static void peft_reads_adapters_with_heads(void **state) {
    (void)state;
    FILE *file = fopen("labelled.jsonl", "w");
    for (int i = 0; i < 60; i++)
        fprintf(file, "{\"text\": \"%s\", \"label\": \"%c\"}\n", i % 3 ? "aaab" : "yyyz", 'p' + i % 3);
    fclose(file);
    command_expect(0, "train given.json --data text --out encoder --steps 2 --batch 4 --quiet");
    command_expect(
        0, "train encoder --head classes --data labelled.jsonl --context 16 --out adapter-head --steps "
           "10 --lr 1e-2 --lora rank=4 --quiet");
    command_expect(0, "merge encoder --adapter adapter-head --out merged-head");
    ask("peft, transformers, torch, safetensors", "judged", "encoder adapter-head merged-head");
}

/* Models whose tables grow, one whose tables have room, and one that a token is a word of. */
static void transformers_adds_the_same_tokens(void **state) {
    (void)state;
    static const char tokenizer[] =
        "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"normalizer\": null, "
        "\"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"post_processor\": null, \"decoder\": null, "
        "\"added_tokens\": [], \"model\": {\"type\": \"WordLevel\", \"vocab\": {\"[U]\": 0, \"the\": 1, "
        "\"fox\": 2, \"saw\": 3}, \"unk_token\": \"[U]\"}}";
    static const struct {
        const char *type, *more;
        int size;
    } models[] = { { "llama", "", 4 }, { "llama", ", \"tie_word_embeddings\": true", 4 },
                   { "llama", "", 9 }, { "gpt_neox", "", 4 },
                   { "phi", "", 4 },   { "bert", "", 4 } };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char json[500];
        if (system("rm -rf words grown && mkdir words") != 0) fail();
        snprintf(json, sizeof json,
                 "{\"model_type\": \"%s\", \"hidden_size\": 16, \"num_hidden_layers\": 1, "
                 "\"num_attention_heads\": 2, \"intermediate_size\": 32, \"vocab_size\": %d, "
                 "\"max_position_embeddings\": 16%s}",
                 models[i].type, models[i].size, models[i].more);
        scratch_write("words/config.json", json, strlen(json));
        scratch_write("words/tokenizer.json", tokenizer, sizeof tokenizer - 1);
        /* else a model's type may bring tokens of its own */
        static const char kind[] = "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}";
        scratch_write("words/tokenizer_config.json", kind, sizeof kind - 1);
        command_expect(0, "train words --data text --out first --overwrite --lr 1e-2 --steps 4 --quiet");
        command_expect(0, "train first --data text --out grown --lr 0 --weight-decay 0 --steps 1 --quiet "
                          "--add-token <a> --add-token fox --add-token <b>");
        ask("transformers, torch, tokenizers", "added", "first grown '<a>' fox '<b>'");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensorboard_reads_the_events_of_a_resumed_run),
        cmocka_unit_test(safetensors_reads_weights_and_optimizer),
        cmocka_unit_test(transformers_reads_the_configuration),
        cmocka_unit_test(transformers_computes_the_same_loss),
        cmocka_unit_test(a_model_of_transformers_is_read),
        cmocka_unit_test(transformers_computes_the_losses_of_decoders),
        cmocka_unit_test(transformers_reads_encoders),
        cmocka_unit_test(peft_reads_adapters),
        cmocka_unit_test(peft_reads_adapters_with_heads),
        cmocka_unit_test(transformers_adds_the_same_tokens),
    };
    return cmocka_run_group_tests(tests, make_runs, scratch_close);
}
