/* Runs whose numbers overflow: nothing that is not finite is ever saved, whichever update spoilt it and in
 * whatever type it is held; the sentence names the last checkpoint that is good. And weights that are given
 * so are refused. */
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

#include "base/finite.h"
#include "base/memory.h"
#include "base/threads.h"
#include "io/checkpoint_folder.h"
#include "io/file.h"
#include "io/scratch.h"
#include "oracle/reach.h"
#include "run/weights.h"
#include "train/train.h"

/* ---- a small model whose embeddings are as large as a test likes ---- */

enum { CONTEXT = 16, CHANNELS = 32, BATCH = 4 };

static setup_options usual(void) {
    setup_options o = setup_defaults();
    o.data = "text", o.batch = BATCH, o.context = CONTEXT, o.threads = 1, o.eval_samples = 4;
    o.optimizer.kind = OPTIMIZER_LION, o.optimizer.clip = 0; /* whose moments are no squares */
    o.optimizer.weight_decay = 1e8, o.learning_rate = 1e-3;
    o.schedule = SCHEDULE_CONSTANT, o.warmup = 0, o.save_every = 1, o.keep = 100, o.workers = 0;
    return o;
}

static void write_files(void) {
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 32, \"n_positions\": 16, "
        "\"vocab_size\": 128, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0}\n";
    char read[4000];
    for (size_t i = 0; i < sizeof read; i++) read[i] = (char)('a' + (i * i + i / 7) % 26);
    scratch_write("text", read, sizeof read);
    scratch_write("config.json", config, sizeof config - 1);
}

static void replace_number(const char *path, float from, float to) {
    FILE *file = fopen(path, "r+b");
    float x;
    int found = 0;
    while (fread(&x, sizeof x, 1, file) == 1) {
        if (memcmp(&x, &from, sizeof x) != 0) continue;
        fseek(file, -(long)sizeof x, SEEK_CUR);
        fwrite(&to, sizeof to, 1, file);
        fflush(file);
        found++;
    }
    fclose(file);
    assert_true(found > 0);
}

/* Saves the model to a folder with every embedding, in units of its deviation, times `size`; where `spoilt`
 * is not 0, number 77 of `name` is that. Such a file can only be written by hand. */
static void write_model(const char *folder, float size, const char *name, float spoilt) {
    setup_options o = usual();
    o.model = "config.json";
    setup s;
    decision d;
    exec *e;
    char path[256];
    assert_int_equal(setup_open(&o, NULL, &s), STATUS_OK);
    assert_int_equal(decision_make(&s, &d), STATUS_OK);
    assert_int_equal(exec_open(&d.plan, 0, &e), STATUS_OK);
    assert_int_equal(weights_initialise(e, &s.model, 7), STATUS_OK);
    float *wte = exec_persistent(e, "transformer.wte.weight");
    for (int i = 0; i < 128 * CHANNELS; i++) wte[i] *= size / 0.02f;
    if (spoilt != 0) ((float *)exec_persistent(e, name))[77] = 12345;
    assert_int_equal(weights_save(e, &s.config, folder), STATUS_OK);
    exec_close(e);
    decision_close(&d);
    setup_close(&s);
    if (spoilt == 0) return;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    replace_number(path, 12345, spoilt);
}

static status train(const setup_options *o, int64_t *steps) {
    setup s;
    decision d = { 0 };
    resume from;
    train_result r = { 0 };
    char sentence[1024];
    assert_int_equal(setup_open(o, NULL, &s), STATUS_OK);
    status result = resume_find(&s, &from);
    if (result == STATUS_OK) result = resume_decide(&s, &from, &d);
    if (result == STATUS_OK) result = train_run(&s, &d, &from, &(train_observer){ 0 }, &r);
    snprintf(sentence, sizeof sentence, "%s", status_message());
    if (steps) *steps = r.steps;
    train_result_close(&r);
    resume_close(&from);
    decision_close(&d);
    setup_close(&s);
    return result == STATUS_OK ? STATUS_OK : status_set(result, "%s", sentence);
}

/* ---- what was saved ---- */

static void all_finite(const char *path) {
    safetensors s;
    assert_int_equal(safetensors_open(path, &s), STATUS_OK);
    for (uint32_t i = 0; i < s.count; i++) {
        const safetensors_entry *e = &s.entries[i];
        dtype type = safetensors_dtype(e->dtype);
        void *data = malloc(e->bytes);
        assert_int_equal(safetensors_read_bytes(&s, e, 0, data, e->bytes), STATUS_OK);
        if (finite_find(type, data, (int64_t)(e->bytes / dtype_bytes(type))) >= 0)
            fail_msg("%s: '%s' is not finite", path, e->name);
        free(data);
    }
    safetensors_close(&s);
}

/* Every checkpoint of the folder, and the model if there is one; returns the newest checkpoint's step. */
static int64_t check_saved(const char *out) {
    int64_t *steps, newest = 0;
    uint32_t count;
    char path[CHECKPOINT_PATH_BYTES + 32];
    assert_int_equal(checkpoint_folder_list(out, &steps, &count), STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        static const char *const files[] = { "model.safetensors", "optimizer.safetensors" };
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s/checkpoint-%lld/%s", out, (long long)steps[i], files[k]);
            all_finite(path);
        }
        if (steps[i] > newest) newest = steps[i];
    }
    memory_free(steps);
    snprintf(path, sizeof path, "%s/model.safetensors", out);
    if (access(path, F_OK) == 0) all_finite(path);
    return newest;
}

static void says(const char *words) {
    if (!strstr(status_message(), words)) fail_msg("'%s' lacks '%s'", status_message(), words);
}

/* ---- updates ---- */

static const char *const pins[][2] = { { "", "" },
                                       { "precision", "bf16" },
                                       { "precision", "bf16:nearest" },
                                       { "precision", "mixed-bf16" },
                                       { "quantize_state", "8bit" },
                                       { "quantize_state", "8bit:all" },
                                       { "update_early", "on" },
                                       { "offload", "optimizer" } };

static void pin(setup_options *o, const char *const words[2]) {
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, words[0]) == 0) o->passes[i] = words[1];
    o->folder = ".";
}

/* Weight decay multiplies embeddings by -1e5: 2e31, 2e36, and at the third step the update alone shows that
 * they are not finite any more. */
static void overflow(int kind, int64_t steps, int64_t save_every) {
    setup_options o = usual();
    char out[64], good[160];
    snprintf(out, sizeof out, "out%d-%lld-%lld", kind, (long long)steps, (long long)save_every);
    o.model = "large", o.steps = steps, o.save_every = save_every, o.out = out;
    pin(&o, pins[kind]);
    int64_t done;
    status result = train(&o, &done);
    if (result != STATUS_FAILED) fail_msg("%s=%s: %d", pins[kind][0], pins[kind][1], (int)result);
    int64_t newest = check_saved(out);
    if (save_every == 1) {
        assert_int_equal(newest, 2);
        says("is not finite after the update of step 3, though its loss was");
    }
    if (newest) {
        snprintf(good, sizeof good, "--resume goes on from %s/checkpoint-%lld", out, (long long)newest);
        says(good);
    } else {
        assert_null(strstr(status_message(), "--resume"));
    }
    snprintf(good, sizeof good, "%s/model.safetensors", out);
    assert_int_equal(access(good, F_OK), -1);
    snprintf(good, sizeof good, "%s/checkpoint-3.partial", out);
    assert_int_equal(access(good, F_OK), -1);
}

static void updates_that_overflow_are_not_saved(void **state) {
    (void)state;
    write_model("large", 2e26f, NULL, 0);
    for (int kind = 0; kind < (int)(sizeof pins / sizeof *pins); kind++) {
        overflow(kind, 3, 1); /* the very last update */
        overflow(kind, 9, 1);
        overflow(kind, 3, 2);
        overflow(kind, 3, 0);
        overflow(kind, 9, 0); /* seen by the next loss */
    }
    setup_options o = usual();
    o.model = "large", o.steps = 3;
    assert_int_equal(train(&o, NULL), STATUS_FAILED); /* with nothing to save, too */
    says("'transformer.wte.weight' is not finite after the update of step 3");
    o.steps = 2;
    assert_int_equal(train(&o, NULL), STATUS_OK);
}

/* Where the loss is the first to show it. */
static void a_loss_that_overflows_names_the_update(void **state) {
    (void)state;
    setup_options o = usual();
    o.model = "large", o.steps = 9, o.save_every = 2, o.out = "loss";
    assert_int_equal(train(&o, NULL), STATUS_FAILED);
    says("the update of step 3 had left 'transformer.wte.weight' not finite");
    says("--resume goes on from loss/checkpoint-2");
    assert_int_equal(check_saved("loss"), 2);
}

/* All weights are finite, and products of them are not. */
static void a_validation_that_overflows_is_no_end(void **state) {
    (void)state;
    write_model("nearly", 5e32f, NULL, 0);
    setup_options o = usual();
    o.model = "nearly", o.steps = 1, o.out = "validated";
    assert_int_equal(train(&o, NULL), STATUS_FAILED);
    says("the loss of the validation samples is not finite after step 1");
    check_saved("validated");
    o.resume = true; /* and stays so */
    assert_int_equal(train(&o, NULL), STATUS_FAILED);
}

/* ---- given weights ---- */

static void given_weights_are_refused(void **state) {
    (void)state;
    static const char *const names[] = { "transformer.wte.weight", "transformer.h.0.attn.c_attn.weight" };
    static const float spoilt[] = { NAN, INFINITY, -INFINITY };
    for (int n = 0; n < 2; n++)
        for (int k = 0; k < 3; k++) {
            write_model("spoilt", 0.02f, names[n], spoilt[k]);
            for (int kind = 0; kind < 5; kind++) {
                setup_options o = usual();
                o.model = "spoilt", o.steps = 1;
                pin(&o, pins[kind]);
                assert_int_equal(train(&o, NULL), STATUS_INVALID);
                says("spoilt/model.safetensors: tensor '");
                says(names[n] + strlen("transformer."));
                says("is not finite: its number 77 is");
            }
        }
}

/* Finite as they are, and not in the 16 bits that they would be held in. */
static void given_weights_that_do_not_fit_are_refused(void **state) {
    (void)state;
    write_model("wide", 0.02f, "transformer.wte.weight", 3.4e38f);
    setup_options o = usual();
    o.model = "wide", o.steps = 1, o.learning_rate = 0;
    pin(&o, pins[1]);
    assert_int_equal(train(&o, NULL), STATUS_INVALID);
    says(
        "wide/model.safetensors: tensor 'transformer.wte.weight' has 3.4e+38, which is more than bf16 holds");
}

/* A checkpoint of an earlier version may hold what is not finite, and be whole all the same. */
static void a_spoilt_checkpoint_is_not_resumed(void **state) {
    (void)state;
    static const char saved_model[] = "older/checkpoint-2/model.safetensors",
                      about[] = "older/checkpoint-2/trainer_state.json";
    static trainer_state t;
    write_model("start", 0.02f, NULL, 0);
    setup_options o = usual();
    o.model = "start", o.steps = 3, o.out = "older", o.learning_rate = 0;
    assert_int_equal(train(&o, NULL), STATUS_OK);
    assert_int_equal(system("rm -r older/checkpoint-3 older/model.safetensors"), 0);
    replace_number(saved_model, 1, NAN); /* the scales of norms begin as 1, and a rate of 0 leaves them so */
    assert_int_equal(trainer_state_read(about, &t), STATUS_OK);
    assert_int_equal(io_sum_file(saved_model, false, &t.model.sums[0]), STATUS_OK);
    assert_int_equal(trainer_state_write(about, &t), STATUS_OK);
    o.resume = true;
    assert_int_equal(train(&o, NULL), STATUS_INVALID);
    says(saved_model);
    says("is not finite: its number 0 is");
    assert_null(strstr(status_message(), "--resume goes on"));
}

int main(void) {
    threads_set(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_that_overflow_are_not_saved),
        cmocka_unit_test(a_loss_that_overflows_names_the_update),
        cmocka_unit_test(a_validation_that_overflows_is_no_end),
        cmocka_unit_test(given_weights_are_refused),
        cmocka_unit_test(given_weights_that_do_not_fit_are_refused),
        cmocka_unit_test(a_spoilt_checkpoint_is_not_resumed),
    };
    if (scratch_open(NULL) != 0) return 1;
    write_files();
    int failed = cmocka_run_group_tests_name("not finite", tests, NULL, NULL);
    return scratch_close(NULL) == 0 ? failed : 1;
}
