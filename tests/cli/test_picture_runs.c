/* Models of images trained by `snug train` from pictures: what is reported, planned, saved, resumed and
 * refused.
 */
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
#include "io/scratch.h"
#include "oracle/drawn.h"
#include "oracle/extracted.h"

#if DRAWN

static void write_text(const char *path, const char *words) { scratch_write(path, words, strlen(words)); }

#define RESNET                                                                                               \
    "\"model_type\": \"resnet\", \"embedding_size\": 8, \"hidden_sizes\": [8, 16], \"depths\": [1, 1], "     \
    "\"layer_type\": \"basic\", \"image_size\": 24"

static int open_all(void **state) {
    if (scratch_open(state) != 0) return -1;
    command_make_files();
    drawn_classes("data", 20, 20);
    command_shell("mkdir -p resnet vit convnext clip wrong");
    write_text("resnet/config.json", "{" RESNET "}");
    write_text("vit/config.json",
               "{\"model_type\": \"vit\", \"hidden_size\": 16, \"num_hidden_layers\": 2, "
               "\"num_attention_heads\": 2, \"intermediate_size\": 32, \"image_size\": 24, "
               "\"patch_size\": 8}");
    write_text("convnext/config.json",
               "{\"model_type\": \"convnext\", \"hidden_sizes\": [8, 16], \"depths\": [1, 1], "
               "\"image_size\": 32}");
    write_text("clip/config.json",
               "{\"model_type\": \"clip_vision_model\", \"hidden_size\": 16, "
               "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 32, "
               "\"image_size\": 24, \"patch_size\": 8, \"projection_dim\": 6}");
    return 0;
}

#define RUN "train resnet --data data --batch 8 --steps 8 --eval-every 4 --threads 2 --workers 2 --quiet "

static double number_of(const char *path, const char *name) {
    char *data = calloc(1, 1 << 16), key[64];
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("there is no %s", path);
    size_t bytes = fread(data, 1, (1 << 16) - 1, file);
    data[bytes] = 0;
    fclose(file);
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(data, key);
    if (!at) fail_msg("%s has no %s", path, name);
    double x = strtod(at + strlen(key), NULL);
    free(data);
    return x;
}

/* Every family trains, is saved, and evaluates to what its last validation said, running statistics included.
 */
static void all_families_train(void **state) {
    (void)state;
    static const char *const families[] = { "resnet", "vit", "convnext", "clip", NULL };
    for (int i = 0; families[i]; i++) {
        char line[256];
        snprintf(line, sizeof line,
                 "train %s --data data --batch 8 --steps 6 --out of-%s --quiet --overwrite", families[i],
                 families[i]);
        command_expect(0, line);
        snprintf(line, sizeof line, "train of-%s --data data --eval-only --json --quiet", families[i]);
        json_document d = command_json(line);
        json_value loss = command_value(&d, "evaluation.loss");
        double again, was;
        assert_int_equal(json_as_number(loss, 0, 100, &again), STATUS_OK);
        snprintf(line, sizeof line, "of-%s/metrics.jsonl", families[i]);
        was = number_of(line, "eval_loss");
        if (!(again == was))
            fail_msg("%s: validation said %.9g, and --eval-only %.9g", families[i], was, again);
        json_close(&d);
    }
}

/* Every category but the program's own memory is what was planned, to the byte. */
static void expect_as_planned(const char *line) {
    static const char *const parts[] = { "weights",     "gradients", "optimizer", "activations",
                                         "temporaries", "scratch",   "inputs",    NULL };
    json_document d = command_json(line);
    for (int i = 0; parts[i]; i++) {
        char planned[64], measured[64];
        snprintf(planned, sizeof planned, "predicted.by_category.%s", parts[i]);
        snprintf(measured, sizeof measured, "measured.by_category.%s", parts[i]);
        assert_int_equal(command_number(&d, planned), command_number(&d, measured));
    }
    assert_true(command_number(&d, "measured.peak_bytes") <= command_number(&d, "predicted.peak_bytes"));
    json_close(&d);
}

static void memory_is_as_planned(void **state) {
    (void)state;
    expect_as_planned(RUN "--out planned --json");
}

/* ---- inside of Parquet ---- */

#define CELLS SNUG_ROOT "/tests/data/parquet_images/"

static const char *const forms[] = {
    CELLS "v1-plain-none-optional.parquet",        CELLS "v1-delta_byte_array-none-binary.parquet",
#ifdef SNUG_SNAPPY
    CELLS "v1-dictionary-snappy-optional.parquet", CELLS "v1-plain-snappy-required.parquet",
#endif
#ifdef SNUG_ZSTD
    CELLS "v2-plain-zstd-optional.parquet",
#endif
};

/* Whatever the pages are, losses and weights are those of the same pictures as files, within the plan. */
static void cells_train_as_files(void **state) {
    (void)state;
    static const char rest[] = "--batch 8 --steps 6 --eval-every 3 --threads 2 --quiet --overwrite --json";
    char line[1024];
    extracted_pictures(forms[0], "as-files");
    snprintf(line, sizeof line, "train resnet --data as-files --workers 1 %s --out of-files", rest);
    expect_as_planned(line);
    command_shell(
        "grep -o '\"loss\": *[0-9.e+-]*' of-files/metrics.jsonl > losses; test $(wc -l <losses) -ge 6");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(line, sizeof line, "train resnet --data %s --workers %u %s --out of-cells", forms[i],
                 (unsigned)i % 3, rest);
        expect_as_planned(line);
        command_shell("grep -o '\"loss\": *[0-9.e+-]*' of-cells/metrics.jsonl | cmp - losses");
        command_shell("cmp of-files/model.safetensors of-cells/model.safetensors");
        command_shell("cmp of-files/config.json of-cells/config.json");
        assert_true(number_of("of-files/metrics.jsonl", "eval_loss") ==
                    number_of("of-cells/metrics.jsonl", "eval_loss"));
    }
    command_shell("grep -q '\"0\": *\"plain\"' of-cells/config.json");
}

/* Columns may have other names. */
static void columns_are_named(void **state) {
    (void)state;
    char line[1024];
    snprintf(line, sizeof line,
             "train resnet --data %s --batch 8 --steps 2 --quiet --image-column img --out no", forms[0]);
    assert_true(command_says(line, 2, "the column img is not in it"));
    command_shell(
        "(echo seen,kind; for f in data/*/*.png; do echo $f,$(basename $(dirname $f)); done) >named.csv");
    command_expect(
        0, "train resnet --data named.csv --image-column seen --label-column kind --batch 8 --steps 2 "
           "--quiet --out of-named");
}

/* A list and its pages that the memory has no room for are refused before a run begins. */
static void cells_are_within_the_budget(void **state) {
    (void)state;
    char line[1024];
    int end = snprintf(
        line, sizeof line,
        "train resnet --data %s --batch 8 --steps 2 --workers 2 --quiet --overwrite --out least ", forms[0]);
    snprintf(line + end, sizeof line - (size_t)end, "--json");
    json_document d = command_json(line);
    unsigned long long least = (unsigned long long)command_number(&d, "least_budget_bytes");
    json_close(&d);
    snprintf(line + end, sizeof line - (size_t)end, "--memory %llu", least);
    command_expect(0, line);
    snprintf(line + end, sizeof line - (size_t)end, "--memory %llu", least - 1);
    command_expect(3, line);
}

/* Workers change nothing, and a run that is stopped half way and resumed ends in the same bytes. */
static void runs_end_in_the_same_files(void **state) {
    (void)state;
    command_expect(0, RUN "--out whole");
    command_expect(
        0, "train resnet --data data --batch 8 --steps 8 --eval-every 4 --threads 1 --workers 1 --quiet "
           "--out alone");
    command_shell("cmp whole/model.safetensors alone/model.safetensors");
    command_shell("KILL_CALL=-1 KILL_COUNT=calls %s/snug-killed " RUN "--save-every 2 --out parts",
                  SNUG_BUILD);
    command_shell("for part in 4 3 2; do rm -rf parts; at=$(($(cat calls) * (part - 1) / part)); "
                  "KILL_CALL=$at KILL_COUNT=none %s/snug-killed " RUN
                  "--save-every 2 --out parts 2>said && exit 1; "
                  "%s/snug " RUN "--save-every 2 --resume --out parts || exit 1; "
                  "cmp whole/model.safetensors parts/model.safetensors || exit 1; done",
                  SNUG_BUILD, SNUG_BUILD);
    command_shell("cmp whole/model.safetensors parts/model.safetensors");
    command_shell("cmp whole/preprocessor_config.json parts/preprocessor_config.json");
}

/* What is trained on is then what validates: the middle of each picture, whatever the seed. */
static void pictures_may_stay_as_they_are(void **state) {
    (void)state;
    command_expect(0, RUN "--augment off --out still");
    command_expect(0, RUN "--augment on --out drawn");
    command_expect(0, RUN "--out usual");
    command_shell("cmp drawn/model.safetensors usual/model.safetensors");
    command_shell("! cmp -s drawn/model.safetensors still/model.safetensors");
    command_expect(0, RUN "--save-every 4 --out begun");
    command_shell("rm -r begun/model.safetensors begun/checkpoint-8");
    assert_true(command_says(RUN "--augment off --out begun --resume", 2, "--augment was on and is off"));
}

/* What comes as timm has it goes as timm has it, and is trained on and evaluated from there. */
static void models_of_timm_stay_such(void **state) {
    (void)state;
    command_shell("mkdir -p timm");
    write_text(
        "timm/config.json",
        "{\"architecture\": \"vit_tiny_patch16_224\", \"num_classes\": 3, \"model_args\": {\"img_size\": "
        "24, \"patch_size\": 8, \"embed_dim\": 16, \"depth\": 1, \"num_heads\": 2}, \"pretrained_cfg\": "
        "{\"input_size\": [3, 24, 24], \"mean\": [0.5, 0.5, 0.5], \"std\": [0.25, 0.25, 0.25], "
        "\"crop_pct\": 0.9, \"interpolation\": \"bilinear\"}}");
    command_expect(0, "train timm --data data --batch 8 --steps 4 --quiet --out of-timm");
    command_shell("grep -q '\"architecture\": \"vit_tiny_patch16_224\"' of-timm/config.json && grep -q "
                  "'\"label_names\"' of-timm/config.json && head -c 4000 of-timm/model.safetensors | grep -q "
                  "'blocks.0.attn.qkv.weight'");
    json_document d = command_json("train of-timm --data data --eval-only --json --quiet");
    double loss = 0;
    assert_int_equal(json_as_number(command_value(&d, "evaluation.loss"), 0, 100, &loss), STATUS_OK);
    assert_true(loss > 0);
    json_close(&d);
    command_expect(0, "train of-timm --data data --batch 8 --steps 2 --quiet --out again");
}

/* How many batches they have seen is beside the averages, as PyTorch has it. */
static void norms_count_their_batches(void **state) {
    (void)state;
    command_expect(0, RUN "--out counted");
    command_shell("head -c 8000 counted/model.safetensors | grep -q "
                  "'resnet.embedder.embedder.normalization.num_batches_tracked'");
}

/* ---- heads ---- */

static void heads_begin_anew(void **state) {
    (void)state;
    command_expect(0, RUN "--out three");
    command_shell("rm -rf two && mkdir two && cp -r data/plain data/round two/");
    command_expect(0,
                   "train three --data two --batch 8 --steps 2 --quiet --out some"); /* some of its classes */
    assert_true(command_says(
        "train three --data two --batch 8 --steps 2 --head classes:2 --out new --overwrite", 0,
        "New weights, in the place of the model's head: classifier.1.weight, classifier.1.bias"));
    assert_true(command_says("train three --data two --batch 8 --steps 2 --head score --out no", 2,
                             "sees images, and its head tells classes"));
    /* classes that the model doesn't name */
    command_shell("rm -rf two/other && cp -r data/striped two/other");
    assert_true(command_says("train three --data two --batch 8 --steps 2 --quiet --out no", 2,
                             "the class 'other' is none of the 3 that the model has"));
}

static void refusals_are_sentences(void **state) {
    (void)state;
    assert_true(command_says("train resnet --data data --batch 1 --steps 2 --quiet --out no", 2,
                             "--batch 1: resnet normalises by the mean and variance of its batch"));
    assert_true(command_says("train resnet --data data --batch 8 --micro-batch 4 --steps 2 --quiet --out no",
                             2, "so one in pieces trains otherwise; say --accumulation add"));
    assert_true(command_says(
        "train resnet --data data --batch 8 --micro-batch 7 --accumulation add --steps 2 --quiet --out no", 2,
        "a batch of 8 in micro-batches of 7 has one of 1"));
    assert_true(command_says(
        "train resnet --data data --batch 8 --micro-batch 4 --accumulation add --steps 2 --out cut", 0,
        "lossy, pinned"));
    assert_true(command_says("plan resnet --data data --batch 8 --lora rank=2 --quiet", 2,
                             "'all' means convolutions here, and adapters stand beside products"));
    assert_true(command_says("plan resnet --data data --batch 8 --lora rank=2,target=convolution --quiet", 2,
                             "'convolution' means convolutions here"));
    assert_true(command_says("train tiny/config.json --data text --augment off --steps 1 --quiet --out no", 2,
                             "--augment is of pictures, and tiny/config.json reads texts"));
    assert_true(command_says("train resnet --data data --text-column x --steps 2 --quiet --out no", 2,
                             "--text-column is of texts, and resnet sees images"));
    assert_true(
        command_says("train resnet --data data --context 8 --steps 2 --quiet --out no", 2, "sees images"));
    assert_true(
        command_says("train resnet --data nowhere --steps 2 --quiet --out no", 2, "cannot open nowhere"));
    write_text("wrong/config.json", "{" RESNET ", \"num_channels\": 5}");
    assert_true(command_says("train wrong --data data --steps 2 --quiet --out no", 2,
                             "num_channels is 5; pictures have 3, or 1 of grey"));
    write_text("wrong/config.json", "{" RESNET "}");
    write_text("wrong/preprocessor_config.json",
               "{\"size\": 20, \"crop_size\": 24, \"do_center_crop\": true}");
    assert_true(command_says("train wrong --data data --steps 2 --quiet --out no", 2,
                             "the window of 24 x 24 is larger than what pictures are resized to (20 x 20)"));
    write_text("wrong/preprocessor_config.json", "{\"size\": {\"shortest_edge\": 30}, \"crop_size\": 28, "
                                                 "\"resample\": 3, \"image_mean\": [0.5, 0.5]}");
    assert_true(command_says("train wrong --data data --steps 2 --quiet --out no", 2,
                             "'image_mean' has 2 numbers, and pictures 3 colours"));
}

/* What shows only when it is decoded ends the run with its path; what was trained before stays. */
static void damage_ends_a_run(void **state) {
    (void)state;
    command_shell("rm -rf hurt && cp -r data hurt && for f in hurt/round/*.png; do head -c 400 $f > t && mv "
                  "t $f; done");
    assert_true(command_says("train resnet --data hurt --batch 8 --steps 8 --quiet --out no", 2,
                             "is truncated: it ends within the picture"));
}

static void grey_pictures_train(void **state) {
    (void)state;
    command_shell("mkdir -p grey");
    write_text("grey/config.json", "{" RESNET ", \"num_channels\": 1}");
    command_expect(0, "train grey --data data --batch 8 --steps 2 --quiet --out of-grey");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_families_train),
        cmocka_unit_test(memory_is_as_planned),
        cmocka_unit_test(runs_end_in_the_same_files),
        cmocka_unit_test(pictures_may_stay_as_they_are),
        cmocka_unit_test(models_of_timm_stay_such),
        cmocka_unit_test(norms_count_their_batches),
        cmocka_unit_test(heads_begin_anew),
        cmocka_unit_test(refusals_are_sentences),
        cmocka_unit_test(columns_are_named),
        cmocka_unit_test(cells_train_as_files),
        cmocka_unit_test(cells_are_within_the_budget),
        cmocka_unit_test(damage_ends_a_run),
        cmocka_unit_test(grey_pictures_train),
    };
    return cmocka_run_group_tests(tests, open_all, scratch_close);
}

#else
int main(void) { return 0; }
#endif
