/* Every default, as a number that stands here once more: who changes one has to say so twice. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "data/mixture.h"
#include "device/device.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "io/weight_files.h"
#include "run/setup.h"
#include "run/texts.h"

static void same(double is, double should, const char *what) {
    if (is != should) fail_msg("the default of %s is %.17g, not %.17g", what, is, should);
}

static void defaults_are_these(void **state) {
    (void)state;
    setup_options o = setup_defaults();
    same((double)o.batch, 8, "--batch");
    same((double)o.eval_samples, 64, "--eval-samples");
    same((double)o.steps, -1, "--steps (unsaid)");
    same((double)o.save_every, 1000, "--save-every");
    same((double)o.keep, 2, "--keep");
    same((double)o.seed, 1337, "--seed");
    same((double)o.workers, 1, "--workers");
    same((double)o.warmup, -1, "--warmup (unsaid)");
    same(o.learning_rate, -1, "--lr (unsaid)");
    same(o.minimum_rate, 0.1, "the least rate");
    same(o.dropout, -1, "--dropout (the model's)");
    same(o.schedule, SCHEDULE_COSINE, "--schedule");
    same(o.optimizer.kind, OPTIMIZER_ADAMW, "--optimizer");
    same(o.optimizer.beta1, OPTIMIZER_OWN, "--beta1 (the optimizer's)");
    same(o.optimizer.beta2, OPTIMIZER_OWN, "--beta2 (the optimizer's)");
    same(o.optimizer.eps, 1e-8, "epsilon");
    same(o.optimizer.momentum, 0, "--momentum");
    same(o.optimizer.weight_decay, 0.1, "--weight-decay");
    same(o.optimizer.clip, 1, "--clip");
}

/* All others are off, absent or left to the planner. */
static void other_defaults_are_nothing(void **state) {
    (void)state;
    setup_options o = setup_defaults();
    assert_null(o.model);
    assert_true(!o.data && !o.eval_data && !o.source && !o.eval_source && !o.allow && !o.folder && !o.out);
    for (int i = 0; i < PASS_MAX; i++) assert_null(o.passes[i]);
    assert_int_equal(o.data_kind, DATA_KIND_AUTO);
    assert_int_equal(o.memory, 0);
    assert_int_equal(o.context, 0);
    assert_int_equal(o.micro_batch | o.accumulate | o.eval_batch | o.eval_every | o.threads, 0);
    assert_false(o.memory_auto || o.eval_only || o.exact || o.resume || o.resume_from || o.overwrite);
}

/* So many parts can be mixed, and not one more. */
static void parts_are_counted(void **state) {
    (void)state;
    static setup_part parts[MIXTURE_PARTS + 1];
    setup_options o = setup_defaults();
    for (int i = 0; i <= MIXTURE_PARTS; i++) parts[i].path = ".";
    o.parts = parts, o.data = ".";
    o.part_count = MIXTURE_PARTS;
    assert_int_equal(texts_check(&o), STATUS_OK);
    o.part_count++;
    assert_int_equal(texts_check(&o), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "65 parts are more than the 64"));
}

/* Of each evaluation two numbers are kept, and their words in the report. */
static void each_evaluation_is_kept(void **state) {
    (void)state;
    enum { STEPS = 100, OF_EACH = 2 * 8 + 64 };
    uint64_t kept[2];
    for (int often = 0; often < 2; often++) {
        setup_options o = setup_defaults();
        setup s;
        o.model = "char-small", o.threads = 1, o.steps = STEPS, o.eval_every = often ? 1 : STEPS;
        assert_int_equal(setup_open(&o, NULL, &s), STATUS_OK);
        kept[often] = s.request.run.kept_bytes;
        setup_close(&s);
    }
    assert_int_equal(kept[1] - kept[0], (STEPS - 1) * OF_EACH);
}

/* A batch and its micro-batches: the last one may be smaller. */
static void cuts_of_a_batch_agree_or_are_refused(void **state) {
    (void)state;
    static const struct {
        int64_t batch, micro_batch, accumulate;
        bool agree;
    } rows[] = { { 8, 2, 4, true },  { 8, 3, 3, true },  { 8, 8, 1, true },  { 8, 1, 8, true },
                 { 8, 3, 2, false }, { 8, 2, 3, false }, { 8, 2, 5, false }, { 8, 8, 2, false } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setup_options o = setup_defaults();
        setup s;
        o.model = "char-small", o.threads = 1, o.steps = 1;
        o.batch = rows[i].batch, o.micro_batch = rows[i].micro_batch, o.accumulate = rows[i].accumulate;
        status result = setup_open(&o, NULL, &s);
        if (result != (rows[i].agree ? STATUS_OK : STATUS_INVALID))
            fail_msg("row %zu: %s", i, status_message());
        if (!rows[i].agree) assert_non_null(strstr(status_message(), "do not make a batch of 8"));
        if (result == STATUS_OK) setup_close(&s);
    }
}

static void optimizers_settle_to_these(void **state) {
    (void)state;
    static const struct {
        optimizer_kind kind;
        double beta1, beta2;
    } own[] = { { OPTIMIZER_ADAMW, 0.9, 0.95 }, { OPTIMIZER_LION, 0.9, 0.99 } };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        optimizer_options o = setup_defaults().optimizer;
        o.kind = own[i].kind;
        o = optimizer_settle(o);
        same(o.beta1, own[i].beta1, "beta1");
        same(o.beta2, own[i].beta2, "beta2");
        same(o.weight_decay, 0.1, "weight decay");
    }
}

/* Of a model whose file has a long list of tensors, what is held before there is a plan is refused here. */
static void what_lists_take_must_fit(void **state) {
    (void)state;
    enum { TENSORS = 20000, NAME = 16 };
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 8}\n";
    static safetensors_item items[TENSORS];
    static char names[TENSORS][NAME];
    uint64_t listed;
    for (int i = 0; i < TENSORS; i++) {
        snprintf(names[i], NAME, "tensor %d", i);
        items[i] = (safetensors_item){ names[i], "F32", SHAPE(0), .data = names, .bytes = 0 };
    }
    assert_int_equal(mkdir("model", 0700), 0);
    scratch_write("model/config.json", config, sizeof config - 1);
    assert_int_equal(safetensors_write("model/model.safetensors", items, TENSORS), STATUS_OK);
    assert_int_equal(weight_files_held("model", &listed), STATUS_OK);
    assert_true(listed > 1 << 20);
    device_runtime own = device_runtime_reserve(1);
    for (uint64_t less = 0; less < 2; less++) {
        setup s;
        setup_options o = setup_defaults();
        o.model = "model", o.threads = 1, o.memory = own.code + own.threads + own.tables + listed - less;
        status result = setup_open(&o, NULL, &s);
        assert_int_equal(result, less ? STATUS_NO_FIT : STATUS_OK);
        if (less) assert_non_null(strstr(status_message(), "lists of what is in their files"));
        if (!less) setup_close(&s);
    }
}

/* What a model was trained on is asked of its run; where that can't be read nothing is evaluated. */
static void an_unknown_past_is_no_past(void **state) {
    (void)state;
    setup s;
    setup_options o = setup_defaults();
    o.model = "model", o.threads = 1, o.eval_only = true; /* which the test before has written */
    if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s", status_message());
    setup_close(&s);
    assert_int_equal(mkdir("model/metrics.jsonl", 0700), 0);
    assert_int_equal(setup_open(&o, NULL, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "model/metrics.jsonl is a folder"));
    assert_int_equal(rmdir("model/metrics.jsonl"), 0);
}

/* No more samples are evaluated than there are, and no more than were asked for. */
static void no_sample_is_made_up(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 256}\n";
    static char letters[100];
    memset(letters, 'a', sizeof letters);
    scratch_write("small.json", config, sizeof config - 1);
    scratch_write("letters", letters, sizeof letters);
    int64_t there = 0;
    for (int64_t asked = 1; asked <= there + 3; asked++) {
        setup s;
        setup_options o = setup_defaults();
        o.model = "small.json", o.data = o.eval_data = "letters", o.threads = 1, o.eval_samples = asked;
        if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s", status_message());
        there = (int64_t)s.validation.samples;
        assert_in_range(there, 3, 100);
        assert_int_equal(s.request.run.eval_samples, asked < there ? asked : there);
        setup_close(&s);
    }
}

/* What the model can't be run with is refused before anything is planned, whoever asks for it. */
static void what_the_model_lacks_is_refused(void **state) {
    (void)state;
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 256}\n";
    scratch_write("lacks.json", config, sizeof config - 1);
    for (int i = 0; i < 4; i++) {
        setup s;
        setup_options o = setup_defaults();
        o.model = "lacks.json", o.threads = 1;
        o.context = i == 1 ? 9 : 8;
        o.dropout = i == 2 ? 1 : i == 3 ? 1.5 : 0.5;
        status result = setup_open(&o, NULL, &s);
        if (result != (i ? STATUS_INVALID : STATUS_OK)) fail_msg("%d: %s", i, status_message());
        if (i == 1) assert_non_null(strstr(status_message(), "context"));
        if (i > 1) assert_non_null(strstr(status_message(), "dropout"));
        if (!i) setup_close(&s);
    }
}

/* All that this process has read so far. */
static uint64_t bytes_read(void) {
    unsigned long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    if (!file) skip();
    assert_int_equal(fscanf(file, "rchar: %llu", &bytes), 1);
    fclose(file);
    return bytes;
}

/* JSON lines never say how long documents are, so nobody reads them for that. */
static void lines_are_read_through_once(void **state) {
    (void)state;
    enum { LINES = 20000, MOST = 1 << 20 };
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4, "
                                 "\"n_positions\": 8, \"vocab_size\": 256}\n";
    setup s;
    setup_options o = setup_defaults();
    FILE *lines = fopen("lines.jsonl", "w");
    for (int i = 0; i < LINES; i++) fprintf(lines, "{\"text\": \"%099d\"}\n", i);
    uint64_t size = (uint64_t)ftell(lines);
    assert_true(size > MOST);
    fclose(lines);
    scratch_write("model/config.json", config, sizeof config - 1); /* of "model" above: it has weights */
    o.model = "model", o.data = "lines.jsonl", o.threads = 1;
    uint64_t before = bytes_read();
    o.context = 8; /* said: nobody asks the data */
    if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s", status_message());
    setup_close(&s);
    uint64_t said = bytes_read() - before;
    o.context = 0;
    if (setup_open(&o, NULL, &s) != STATUS_OK) fail_msg("%s", status_message());
    setup_close(&s);
    uint64_t unsaid = bytes_read() - before - said;
    assert_true(said >= size && unsaid < said + size / 2);
}

/* ---- ranks of one host ---- */

static void begins_nothing(const device *d) { (void)d; }

/* Of its memory each has a part, and a GPU is its rank's own. */
static void ranks_divide_the_memory_of_their_host(void **state) {
    (void)state;
    device gpu = { .name = "gpu", .apart = true, .begin = begins_nothing };
    setup_options o = setup_defaults();
    assert_int_equal(setup_away_limit(&o, &gpu), 0); /* nothing is behind the host's memory */
    o.folder = "away";
    double alone = (double)setup_away_limit(&o, &gpu), taken = (double)device_resident();
    o.ranks = 8, o.of_host = 4;
    double shared = (double)setup_away_limit(&o, &gpu);
    /* others take memory at the same time */
    assert_true(shared - taken > (alone - taken) / 8 && shared - taken < (alone - taken) / 2);
    o.of_host = 0; /* all are on this one */
    assert_true((double)setup_away_limit(&o, &gpu) < shared);
    o.away_limit = 1 << 20;
    assert_int_equal(setup_away_limit(&o, &gpu), 1 << 20);
    gpu.begin = NULL; /* it is elsewhere */
    o.away_limit = 0;
    assert_int_equal(setup_away_limit(&o, &gpu), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_these),
        cmocka_unit_test(ranks_divide_the_memory_of_their_host),
        cmocka_unit_test(other_defaults_are_nothing),
        cmocka_unit_test(parts_are_counted),
        cmocka_unit_test(each_evaluation_is_kept),
        cmocka_unit_test(cuts_of_a_batch_agree_or_are_refused),
        cmocka_unit_test(optimizers_settle_to_these),
        cmocka_unit_test(what_lists_take_must_fit),
        cmocka_unit_test(an_unknown_past_is_no_past),
        cmocka_unit_test(no_sample_is_made_up),
        cmocka_unit_test(lines_are_read_through_once),
        cmocka_unit_test(what_the_model_lacks_is_refused),
    };
    return cmocka_run_group_tests_name("setup", tests, scratch_open, scratch_close);
}
