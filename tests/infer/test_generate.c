#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/threads.h"
#include "exec/exec.h"
#include "golden/golden.h"
#include "infer/generate.h"
#include "infer/sample.h"
#include "infer/sample_select.h"
#include "infer/stop.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/scratch.h"
#include "oracle/oracle.h"
#include "oracle/reach.h"

enum { CONTEXT = 12, VOCABULARY = 128, MOST_WEIGHTS = 64 };

/* The model of these tests stands in ./model, and in the oracle. */
static oracle *truth;
static gpt2_config config;

static void fill(oracle *o, model_weight *weights, float **data) {
    for (int i = 0; i < oracle_count(o); i++) {
        oracle_tensor *t = oracle_tensor_at(o, i);
        data[i] = malloc((size_t)t->count * sizeof(float));
        for (int64_t k = 0; k < t->count; k++)
            t->value[k] = (double)(data[i][k] = 3 * golden_weight(t->name, t->rank, k));
        shape s = t->rank == 2 ? SHAPE(t->dim[0], t->dim[1]) : SHAPE(t->dim[0]);
        weights[i] = (model_weight){ .name = t->name, .shape = s, .data = data[i], .type = DTYPE_F32 };
    }
}

static int open_model(void **state) {
    if (scratch_open(state) != 0 || mkdir("model", 0755) != 0) return -1;
    config = gpt2_default();
    config.layers = 2, config.heads = 3, config.channels = 24, config.inner = 96;
    config.context = CONTEXT, config.vocabulary = VOCABULARY;
    truth = oracle_open(&(oracle_config){ .layers = 2,
                                          .heads = 3,
                                          .channels = 24,
                                          .context = CONTEXT,
                                          .vocabulary = VOCABULARY,
                                          .batch = 1,
                                          .tied = true });
    static model_weight weights[MOST_WEIGHTS];
    static float *data[MOST_WEIGHTS];
    int count = oracle_count(truth);
    if (count > MOST_WEIGHTS) return -1;
    fill(truth, weights, data);
    status result = model_config_write("model", &(model_config){ .gpt2 = config }, NULL);
    if (result == STATUS_OK) result = model_files_save("model", weights, (uint32_t)count);
    for (int i = 0; i < count; i++) free(data[i]);
    return result == STATUS_OK ? 0 : -1;
}

static int close_model(void **state) {
    oracle_close(truth);
    return scratch_close(state);
}

/* log p(token `id` | ids[0 .. count-1]) by the oracle. */
static double true_log(const int32_t *ids, int count, int32_t id) {
    int32_t labels[CONTEXT];
    for (int i = 0; i < count; i++) labels[i] = i == count - 1 ? id : -100;
    return -oracle_loss(
        truth, &(oracle_batch){ .samples = 1, .time = count, .tokens = ids, .labels = labels, .scale = 1 });
}

/* ---- the decoding program ---- */

static void load_into(exec *e, const plan *p) {
    model_weight weights[MOST_WEIGHTS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category == CATEGORY_WEIGHTS)
            weights[count++] = (model_weight){ .name = x->name,
                                               .shape = x->shape,
                                               .data = exec_persistent(e, x->name),
                                               .type = x->dtype,
                                               .by_rows = x->by_rows };
    }
    assert_int_equal(model_files_load("model", weights, count), STATUS_OK);
}

static void one_token_at_a_time_gives_the_logits_of_the_whole(void **state) {
    (void)state;
    static const int32_t ids[CONTEXT] = { 5, 127, 0, 33, 33, 64, 1, 99, 12, 12, 77, 3 };
    model m;
    gpt2_model(&config, "tiny", &m);
    for (unsigned modes = 0; modes < 8; modes++) {
        plan p;
        exec *e;
        lower_options lower = { .threads = threads_count(), .rates = device_rates_default(1) };
        paged_sizes sizes = { 1, 1, 0, 1, 1, DTYPE_F32, false };
        assert_int_equal(compose_rows(&(compose_run){ .model = &m, .lower = lower }, NULL, &sizes,
                                      &(compose_steps){ { 1 }, 1 }, &(compose_steps){ .count = 0 }, &p),
                         STATUS_OK);
        assert_int_equal(exec_open(&p, modes, &e), STATUS_OK);
        load_into(e, &p);
        for (int i = 0; i < CONTEXT; i++) {
            *(int32_t *)reach_input(e, "rows", "tokens") = ids[i];
            *(int32_t *)reach_input(e, "rows", "position") = i;
            *(int32_t *)reach_input(e, "rows", "slot") = i;
            *(int32_t *)reach_input(e, "rows", "text") = *(int32_t *)reach_input(e, "rows", "wanted") = 0;
            *(int32_t *)reach_input(e, "rows", "table") = 0;
            reach_run(e, "rows");
            const float *logits = reach_output(e, "rows", "logits");
            assert_non_null(logits);
            double total = 0;
            for (int k = 0; k < VOCABULARY; k++) total += exp((double)logits[k]);
            for (int32_t k = 0; k < VOCABULARY; k++)
                assert_true(fabs((double)logits[k] - log(total) - true_log(ids, i + 1, k)) < 2e-5);
        }
        exec_close(e);
        plan_close(&p);
    }
}

/* ---- whole texts ---- */

enum { MOST_TEXTS = 80 };

/* What was said for each prompt. */
typedef struct {
    char bytes[MOST_TEXTS][CONTEXT + 1];
    size_t count[MOST_TEXTS];
    int ended[MOST_TEXTS];
    generate_end how[MOST_TEXTS];
} written;

static void write_down(void *context, uint32_t prompt, const char *bytes, size_t count) {
    written *w = context;
    assert_true(prompt < MOST_TEXTS && w->count[prompt] + count <= CONTEXT && !w->ended[prompt]);
    memcpy(w->bytes[prompt] + w->count[prompt], bytes, count);
    w->count[prompt] += count;
}

static void note_end(void *context, uint32_t prompt, generate_end how) {
    written *w = context;
    w->ended[prompt]++;
    w->how[prompt] = how;
}

/* Options that are 0 and may not be are set to do nothing. */
static status try(generate_options o, written *w, generate_result *r) {
    memset(w, 0, sizeof *w);
    if (!o.directory) o.directory = "model";
    if (o.sample.top_p == 0) o.sample.top_p = 1;
    if (o.sample.repetition_penalty == 0) o.sample.repetition_penalty = 1;
    o.said = write_down, o.ended = note_end, o.context = w;
    return generate_run(&o, r);
}

static written run_all(generate_options o, generate_result *r) {
    static written w;
    if (try(o, &w, r) != STATUS_OK) fail_msg("%s", status_message());
    for (uint32_t i = 0; i < o.prompt_count; i++) {
        assert_int_equal(w.ended[i], 1);
        assert_int_equal(w.how[i], r->texts[i].end);
        if (w.how[i] != GENERATE_STOP) assert_int_equal(w.count[i], r->texts[i].new_tokens);
    }
    assert_true(r->seconds_prompt >= 0 && r->seconds_new >= 0);
    generate_result_close(r);
    return w;
}

static written run(const char *prompt, generate_options o, generate_result *r) {
    o.prompts = &prompt, o.prompt_count = 1;
    return run_all(o, r);
}

static void greedy_takes_the_likeliest(void **state) {
    (void)state;
    generate_result r;
    written w = run("ab~", (generate_options){ .tokens = 6, .sample.seed = 1 }, &r);
    int32_t ids[CONTEXT] = { 'a', 'b', '~' };
    assert_int_equal(w.count[0], 6);
    assert_int_equal(r.prompt_tokens, 3);
    for (int i = 0; i < 6; i++) {
        int32_t best = 0;
        for (int32_t k = 0; k < VOCABULARY; k++)
            if (true_log(ids, 3 + i, k) > true_log(ids, 3 + i, best)) best = k;
        assert_int_equal(w.bytes[0][i], best);
        ids[3 + i] = best;
    }
    sample_options likeliest = { .temperature = 2, .top_k = 1, .seed = 9 };
    written one = run("ab~", (generate_options){ .tokens = 6, .sample = likeliest }, &r);
    assert_memory_equal(&one, &w, sizeof w);
    sample_options surest = { .temperature = 2, .top_p = 1e-9, .seed = 9 };
    one = run("ab~", (generate_options){ .tokens = 6, .sample = surest }, &r);
    assert_memory_equal(&one, &w, sizeof w);
}

static void the_seed_decides(void **state) {
    (void)state;
    generate_result r;
    generate_options o = { .tokens = 11, .sample = { .temperature = 1.5, .seed = 4 }, .threads = 1 };
    written a = run("x", o, &r);
    o.threads = 3;
    written b = run("x", o, &r);
    assert_memory_equal(&a, &b, sizeof a);
    o.sample.seed = 5;
    written c = run("x", o, &r);
    assert_true(memcmp(&a, &c, sizeof a) != 0);
    threads_set(1);
}

/* Every text of a batch is the text of its prompt alone, at any number of neighbours and of threads, also
 * where a budget has fewer side by side than there are. */
static void a_text_does_not_depend_on_its_neighbours(void **state) {
    (void)state;
    static const char *const prompts[] = { "a", "the dog", "", "0123456789", "a", "xyz", "\n\n" };
    enum { COUNT = sizeof prompts / sizeof *prompts };
    generate_result r;
    generate_options o = {
        .tokens = 6, .sample = { .temperature = 1.2, .top_p = 0.9, .repetition_penalty = 1.3, .seed = 8 }
    };
    written alone[COUNT];
    for (int i = 0; i < COUNT; i++) alone[i] = run(prompts[i], o, &r);
    uint64_t all = 0;
    for (int threads = 1; threads <= 3; threads++)
        for (uint32_t n = 1; n <= COUNT; n++) {
            o.prompts = prompts, o.prompt_count = n, o.threads = threads;
            written w = run_all(o, &r);
            assert_int_equal(r.at_once, n);
            all = r.planned_bytes;
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(w.count[i], alone[i].count[0]);
                assert_memory_equal(w.bytes[i], alone[i].bytes[0], w.count[i]);
                assert_int_equal(w.how[i], alone[i].how[0]);
            }
        }
    uint32_t fewest = COUNT;
    while (fewest > 1) { /* less and less */
        o.memory = all - 1;
        written w = run_all(o, &r);
        assert_true(r.planned_bytes <= o.memory);
        assert_true(r.at_once <= fewest);
        for (int i = 0; i < COUNT; i++) assert_memory_equal(w.bytes[i], alone[i].bytes[0], w.count[i]);
        all = r.planned_bytes, fewest = r.at_once;
    }
    threads_set(1);
}

static void more_texts_than_lanes(void **state) {
    (void)state;
    static const char *prompts[MOST_TEXTS];
    generate_result r;
    for (int i = 0; i < MOST_TEXTS; i++) prompts[i] = i % 3 ? "no" : "yes";
    written w =
        run_all((generate_options){ .prompts = prompts, .prompt_count = MOST_TEXTS, .tokens = 3 }, &r);
    assert_int_equal(r.at_once, MODEL_MOST_DECODED);
    assert_int_equal(r.new_tokens, 3 * MOST_TEXTS);
    for (int i = 2; i < MOST_TEXTS; i++) assert_memory_equal(w.bytes[i], w.bytes[i % 3 ? 1 : 0], 3);
}

static void it_ends_where_the_context_ends(void **state) {
    (void)state;
    generate_result r;
    written w = run("0123456789", (generate_options){ .tokens = 50 }, &r);
    assert_int_equal(w.count[0], CONTEXT - 10);
    assert_int_equal(w.how[0], GENERATE_CONTEXT);
    w = run("0123456789", (generate_options){ .tokens = 0 }, &r);
    assert_int_equal(w.count[0], 0);
    assert_int_equal(w.how[0], GENERATE_LENGTH);
    written empty = run("", (generate_options){ .tokens = 3 }, &r);
    assert_int_equal(r.prompt_tokens, 1);
    written line = run("\n", (generate_options){ .tokens = 3 }, &r);
    assert_memory_equal(&empty, &line, sizeof line);
    assert_int_equal(run("", (generate_options){ .tokens = 100 }, &r).count[0], CONTEXT - 1);
}

/* A text ends before any part of itself, of any length, that is given as a stop string. */
static void a_text_ends_before_a_stop_string(void **state) {
    (void)state;
    generate_result r;
    generate_options o = { .tokens = 9, .sample = { .temperature = 1.5, .seed = 21 } };
    written whole = run("q", o, &r);
    for (size_t from = 0; from < 9; from++)
        for (size_t length = 1; from + length <= 9; length++) {
            char stop[16] = { 0 };
            memcpy(stop, whole.bytes[0] + from, length);
            if (strlen(stop) < length) continue; /* a zero byte ends a string */
            const char *const stops[] = { "never", stop };
            o.stops = stops, o.stop_count = 2;
            written w = run("q", o, &r);
            const char *first = memmem(whole.bytes[0], 9, stop, length);
            assert_int_equal(w.how[0], GENERATE_STOP);
            assert_int_equal(w.count[0], first - whole.bytes[0]);
            assert_memory_equal(w.bytes[0], whole.bytes[0], w.count[0]);
            assert_int_equal(r.new_tokens, w.count[0] + length);
        }
}

/* ---- prompts one after the other ---- */

enum { TURNS = 5 };
typedef struct {
    const char *const *prompts;
    int next, ended;
    char said[TURNS][CONTEXT + 1];
    size_t count[TURNS];
} talk;

static status give_next(void *context, const char **prompt) {
    talk *t = context;
    assert_int_equal(t->ended, t->next);
    *prompt = t->next < TURNS ? t->prompts[t->next++] : NULL;
    return STATUS_OK;
}

static void hear(void *context, uint32_t prompt, const char *bytes, size_t count) {
    talk *t = context;
    assert_int_equal(prompt, 0);
    assert_true(t->next > 0 && t->count[t->next - 1] + count <= CONTEXT);
    memcpy(t->said[t->next - 1] + t->count[t->next - 1], bytes, count);
    t->count[t->next - 1] += count;
}

static void hear_end(void *context, uint32_t prompt, generate_end how) {
    (void)prompt, (void)how;
    ((talk *)context)->ended++;
}

/* What a text begins with as the last one did is not computed again, and what is said is the same: behind
 * what was said itself, where it turns away from that, where it is shorter, and the same once more. */
static void prompts_one_by_one_are_prompts_by_themselves(void **state) {
    (void)state;
    static const char *const prompts[TURNS] = { "ab", "abcdef", "abXdefg", "ab", "ab" };
    generate_options o = { .tokens = 4, .sample = { .temperature = 1, .seed = 3, .repetition_penalty = 3 } };
    generate_result r;
    talk t = { .prompts = prompts };
    int64_t tokens = 0, new_tokens = 0;
    generate_options by_one = o;
    by_one.directory = "model", by_one.sample.top_p = 1;
    by_one.next = give_next, by_one.said = hear, by_one.ended = hear_end, by_one.context = &t;
    by_one.prompt_bytes = CONTEXT;
    if (generate_run(&by_one, &r) != STATUS_OK) fail_msg("%s", status_message());
    assert_int_equal(t.ended, TURNS);
    assert_int_equal(r.at_once, 1);
    assert_in_range(r.known_tokens, 0 + 2 + 2 + 1 + 1,
                    0 + 3 + 3 + 1 + 1); /* what was drawn may agree by chance */
    int64_t all_tokens = r.prompt_tokens, all_new = r.new_tokens;
    assert_int_equal(r.texts[0].prompt_tokens, 2);
    generate_result_close(&r);
    for (int i = 0; i < TURNS; i++) {
        written w = run(prompts[i], o, &r);
        assert_int_equal(t.count[i], w.count[0]);
        assert_memory_equal(t.said[i], w.bytes[0], w.count[0]);
        tokens += r.prompt_tokens, new_tokens += r.new_tokens;
    }
    assert_int_equal(all_tokens, tokens);
    assert_int_equal(all_new, new_tokens);
}

static status try_talk(generate_options o, const char *prompt, generate_result *r) {
    const char *prompts[TURNS] = { prompt };
    talk t = { .prompts = prompts };
    o.directory = "model", o.next = give_next, o.said = hear, o.ended = hear_end, o.context = &t;
    o.sample.top_p = o.sample.repetition_penalty = 1, o.tokens = 2;
    status result = generate_run(&o, r);
    generate_result_close(r);
    return result;
}

static void prompts_one_by_one_are_bounded(void **state) {
    (void)state;
    static const char *const two[] = { "a", "b" };
    generate_result r;
    assert_int_equal(try_talk((generate_options){ .prompt_bytes = 12 }, "0123456789ab", &r), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "the conversation has 12 tokens and the context 12"));
    assert_int_equal(try_talk((generate_options){ .prompt_bytes = 3 }, "abcd", &r), STATUS_INVALID);
    assert_string_equal(status_message(), "a prompt of 4 bytes; memory is planned for 3");
    assert_int_equal(try_talk((generate_options){ .prompts = two, .prompt_count = 2 }, "a", &r),
                     STATUS_INVALID);
    assert_string_equal(status_message(), "prompts come at once or one by one");
    /* Memory that is asked for is planned. */
    assert_int_equal(try_talk((generate_options){ .prompt_bytes = 10 }, NULL, &r), STATUS_OK);
    uint64_t least = r.planned_bytes;
    assert_int_equal(try_talk((generate_options){ .prompt_bytes = 1010, .held_bytes = 77 }, NULL, &r),
                     STATUS_OK);
    assert_true(r.planned_bytes >= least + 1000 * sizeof(int32_t) + 77);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static written w;
    generate_result r;
    static const char *const none[] = { "" };
    static const struct {
        const char *prompt;
        generate_options options;
        const char *sentence;
    } cases[] = {
        { "0123456789ab", { .tokens = 1 }, "the context 12" },
        { "a\xc3\xa9", { .tokens = 1 }, "byte 1 of the prompt is 195" },
        { "a", { .tokens = -1 }, "-1 tokens" },
        { "a", { .tokens = 1, .sample.temperature = -1 }, "temperature is -1" },
        { "a", { .tokens = 1, .sample.temperature = NAN }, "temperature" },
        { "a", { .tokens = 1, .sample.top_k = -1 }, "top-k is -1" },
        { "a", { .tokens = 1, .sample.top_p = 1.5 }, "top-p is 1.5" },
        { "a", { .tokens = 1, .sample.top_p = NAN }, "top-p" },
        { "a", { .tokens = 1, .sample.repetition_penalty = -2 }, "penalty is -2" },
        { "a", { .tokens = 1, .stops = none, .stop_count = 1 }, "a stop string is empty" },
        { "a", { .tokens = 1, .stops = none, .stop_count = 65 }, "65 stop strings" },
        { "a", { .directory = "nowhere", .tokens = 1 }, "nowhere" },
        { "a", { .directory = ".", .tokens = 1 }, ". has no config.json" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        generate_options o = cases[i].options;
        o.prompts = &cases[i].prompt, o.prompt_count = 1;
        assert_int_equal(try(o, &w, &r), STATUS_INVALID);
        if (!strstr(status_message(), cases[i].sentence))
            fail_msg("'%s' is not in: %s", cases[i].sentence, status_message());
        assert_int_equal(r.new_tokens, 0);
        generate_result_close(&r);
    }
    const char *const two[] = { "a", "b\xff" };
    assert_int_equal(try((generate_options){ .prompts = two, .prompt_count = 2, .tokens = 1 }, &w, &r),
                     STATUS_INVALID);
    assert_non_null(strstr(status_message(), "byte 1 of prompt 2 is 255"));
    generate_result_close(&r);
}

static void the_budget_is_kept_to_the_byte(void **state) {
    (void)state;
    static written w;
    generate_result r;
    run("a", (generate_options){ .tokens = 2 }, &r);
    uint64_t needed = r.planned_bytes;
    run("a", (generate_options){ .tokens = 2, .memory = needed }, &r);
    assert_true(r.planned_bytes == needed);
    const char *const prompts[] = { "a" };
    generate_options less = { .prompts = prompts, .prompt_count = 1, .tokens = 2, .memory = needed - 1 };
    status last = try(less, &w, &r);
    for (int runs = 0; last == STATUS_OK; runs++) { /* with fewer rows in a step */
        assert_true(r.planned_bytes <= less.memory && runs < 8);
        less.memory = r.planned_bytes - 1;
        generate_result_close(&r);
        last = try(less, &w, &r);
    }
    assert_int_equal(last, STATUS_NO_FIT);
    assert_non_null(strstr(status_message(), "1 B more"));
    generate_result_close(&r);
}

/* ---- files of 16 bits ---- */

/* The oracle's weights, matrices rounded to this type, as files in it or, `wide`, in f32. */
static void save_rounded(const char *directory, dtype type, bool wide) {
    static model_weight weights[MOST_WEIGHTS];
    uint32_t count = (uint32_t)oracle_count(truth);
    assert_true(count <= MOST_WEIGHTS);
    assert_int_equal(mkdir(directory, 0755), 0);
    for (uint32_t i = 0; i < count; i++) {
        const oracle_tensor *t = oracle_tensor_at(truth, (int)i);
        bool matrix = t->rank == 2;
        float *x = malloc((size_t)t->count * sizeof *x);
        uint16_t *half = malloc((size_t)t->count * sizeof *half);
        assert_true(x && half);
        for (int64_t k = 0; k < t->count; k++) x[k] = (float)t->value[k];
        if (matrix) half_narrow(type, x, t->count, half), half_widen(type, half, t->count, x);
        weights[i] = (model_weight){ .name = t->name,
                                     .shape = matrix ? SHAPE(t->dim[0], t->dim[1]) : SHAPE(t->dim[0]),
                                     .data = matrix && !wide ? (void *)half : x,
                                     .type = matrix && !wide ? type : DTYPE_F32 };
        free(weights[i].data == x ? (void *)half : x);
    }
    assert_int_equal(model_config_write(directory, &(model_config){ .gpt2 = config }, NULL), STATUS_OK);
    assert_int_equal(model_files_save(directory, weights, count), STATUS_OK);
    for (uint32_t i = 0; i < count; i++) free(weights[i].data);
}

/* Two bytes less for each number of the matrices but the positions, and the same texts where products are of
 * f32: those of their values in f32. */
static void matrices_of_16_bits_stay_so(void **state) {
    (void)state;
    static const struct {
        dtype type;
        const char *narrow, *wide;
    } files[] = { { DTYPE_BF16, "bf16", "bf16-wide" }, { DTYPE_F16, "f16", "f16-wide" } };
    uint64_t numbers = 0;
    for (int i = 0; i < oracle_count(truth); i++) {
        const oracle_tensor *t = oracle_tensor_at(truth, i);
        if (t->rank == 2 && !strstr(t->name, "wpe")) numbers += (uint64_t)t->count;
    }
    for (int k = 0; k < 2; k++) {
        const char *const prompts[] = { "ab", "c", "some", "m", "ore" };
        generate_result narrow, wide;
        save_rounded(files[k].narrow, files[k].type, false);
        save_rounded(files[k].wide, files[k].type, true);
        for (uint32_t count = 1; count <= 5; count += 4) {
            generate_options o = { .directory = files[k].narrow,
                                   .products = DTYPE_F32,
                                   .prompts = prompts,
                                   .prompt_count = count,
                                   .tokens = 8,
                                   .sample = { .temperature = 1, .seed = 3 } };
            static written w, v;
            w = run_all(o, &narrow);
            o.directory = files[k].wide;
            v = run_all(o, &wide);
            assert_memory_equal(&w, &v, sizeof w);
            uint64_t less = wide.planned_bytes - narrow.planned_bytes, meant = 2 * numbers;
            assert_true(less <= meant + 4096 && less + 4096 >= meant);
        }
    }
}

/* Files of bf16 are multiplied as bf16 by themselves, others where that is asked for: the same texts within
 * the same plan. Values are halved as well, and so are keys and values. */
static void products_of_bf16(void **state) {
    (void)state;
    const char *const prompts[] = { "ab", "c", "some", "m", "ore" };
    generate_result narrow, wide, exact;
    static written w, v;
    generate_options o = { .directory = "bf16",
                           .prompts = prompts,
                           .prompt_count = 5,
                           .tokens = 8,
                           .sample = { .temperature = 1, .seed = 3 } };
    w = run_all(o, &narrow);
    o.directory = "bf16-wide", o.products = DTYPE_BF16;
    v = run_all(o, &wide);
    assert_memory_equal(&w, &v, sizeof w);
    assert_int_equal(narrow.planned_bytes, wide.planned_bytes);
    o.products = DTYPE_F32;
    run_all(o, &exact);
    assert_true(narrow.planned_bytes < exact.planned_bytes);
}

/* ---- drawing ---- */

static double memory[SELECT_BUCKETS + 64];

static status next_of(const sample_options *o, const float *logits, const int32_t *ids, int64_t count,
                      uint32_t position, int32_t *id) {
    sample_needs needs = sample_needs_of(o);
    sample_drawn drawn;
    assert_true(sample_bytes(&needs, count) <= sizeof memory);
    status result = sample_next(o,
                                &(sample_from){ .logits = logits,
                                                .ids = ids,
                                                .count = ids ? 3 : 0,
                                                .vocabulary = count,
                                                .position = position,
                                                .memory = memory },
                                &drawn);
    *id = drawn.id;
    return result;
}

static status next(const sample_options *o, const float *logits, int64_t count, uint32_t position,
                   int32_t *id) {
    sample_options all = *o;
    if (all.top_p == 0) all.top_p = 1;
    if (all.repetition_penalty == 0) all.repetition_penalty = 1;
    return next_of(&all, logits, NULL, count, position, id);
}

enum { DRAWS = 20000 };

/* Draws from six logits at temperature 2; those of at least `least` are kept. */
static void expect_distribution(const sample_options *o, const float *logits, float least) {
    int seen[6] = { 0 };
    double total = 0;
    for (uint32_t position = 0; position < DRAWS; position++) {
        int32_t id;
        assert_int_equal(next(o, logits, 6, position, &id), STATUS_OK);
        seen[id]++;
    }
    for (int i = 0; i < 6; i++) total += logits[i] >= least ? exp((double)logits[i] / 2) : 0;
    for (int i = 0; i < 6; i++) {
        double p = logits[i] >= least ? exp((double)logits[i] / 2) / total : 0;
        assert_true(fabs(seen[i] - DRAWS * p) <= 4.5 * sqrt(DRAWS * p * (1 - p)));
    }
}

static const float six[6] = { 0, 1, -2, 1, 3, -0.0f };

static void draws_follow_the_distribution(void **state) {
    (void)state;
    /* Of the likeliest two there are three, of the likeliest four five: equals are kept together. */
    static const float least[8] = { -9, 3, 1, 1, 0, 0, -9, -9 };
    for (int64_t top = 0; top <= 7; top++)
        expect_distribution(&(sample_options){ .temperature = 2, .top_k = top, .seed = 77 }, six, least[top]);
}

/* Shares of the probability at temperature 2: 3 has 0.442, the 1s 0.162 each, the 0s 0.099 each, -2 has
 * 0.036.
 */
static void the_share_of_probability_is_kept(void **state) {
    (void)state;
    static const struct {
        double share;
        int64_t top_k;
        float least;
    } cases[] = {
        { 0.01, 0, 3 }, { 0.44, 0, 3 },  { 0.46, 0, 1 }, { 0.7, 0, 1 },  { 0.76, 0, 1 }, { 0.79, 0, 0 },
        { 0.95, 0, 0 }, { 0.97, 0, -2 }, { 1, 0, -2 },   { 0.57, 3, 3 }, { 0.58, 3, 1 }, { 0.99, 3, 1 }
    }; /* of the first three 3 has 0.576 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_distribution(
            &(sample_options){
                .temperature = 2, .top_k = cases[i].top_k, .top_p = cases[i].share, .seed = 5 },
            six, cases[i].least);
}

static void repetition_is_penalised(void **state) {
    (void)state;
    static const int32_t seen[4] = { 4, 1, 2, 1 }, first[3] = { 0, 1, 0 };
    static const float changed[6] = { 0, 0.5f, -4, 1, 1.5f, 0 };
    sample_options o = { .temperature = 2, .top_p = 0.999999, .repetition_penalty = 2, .seed = 6 };
    sample_options as = { .temperature = 2, .top_p = 0.999999, .repetition_penalty = 1, .seed = 6 };
    for (uint32_t position = 0; position < 2000; position++) {
        int32_t a, b;
        assert_int_equal(next_of(&o, six, seen, 6, position, &a), STATUS_OK);
        assert_int_equal(next_of(&as, changed, NULL, 6, position, &b), STATUS_OK);
        assert_int_equal(a, b);
    }
    int32_t id;
    o.temperature = 0, o.repetition_penalty = 100;
    assert_int_equal(next_of(&o, six, seen, 6, 0, &id), STATUS_OK);
    assert_int_equal(id, 3);
    float large[2] = { -3e38f, -3.1e38f };
    assert_int_equal(next_of(&o, large, first, 2, 0, &id), STATUS_OK);
}

static void extreme_logits_are_no_trouble(void **state) {
    (void)state;
    float logits[3] = { -3e38f, 3e38f, 3e38f };
    int32_t id;
    for (int i = 0; i < 3; i++)
        for (int cut = 0; cut < 2; cut++) {
            sample_options o = { .temperature = i == 0   ? 0
                                                : i == 1 ? 1e-300
                                                         : 1000,
                                 .top_p = cut ? 0.5 : 1,
                                 .seed = 3 };
            assert_int_equal(next(&o, logits, 3, 0, &id), STATUS_OK);
            assert_true(i == 0 ? id == 1 : id >= 1);
        }
    logits[2] = NAN;
    assert_int_equal(next(&(sample_options){ .temperature = 1 }, logits, 3, 8, &id), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "token 2 at position 8"));
    logits[2] = INFINITY;
    assert_int_equal(next(&(sample_options){ .temperature = 0 }, logits, 3, 8, &id), STATUS_FAILED);
}

/* ---- stop strings ---- */

static void expect_cut(const char *const *stops, uint32_t count, const char *given, const char *handed_on,
                       bool stopped) {
    stop_watch w = { .strings = stops, .count = count };
    char all[256], out[STOP_BYTES];
    size_t length = 0;
    bool found = false;
    for (const char *c = given; *c && !found; c++) {
        size_t n = stop_take(&w, *c, out, &found);
        memcpy(all + length, out, n);
        length += n;
        assert_true(strncmp(handed_on, all, length) == 0); /* nothing goes out that would have to come back */
    }
    if (!found) {
        size_t n = stop_rest(&w, out);
        memcpy(all + length, out, n);
        length += n;
    }
    all[length] = 0;
    assert_string_equal(all, handed_on);
    assert_int_equal(found, stopped);
}

static void stop_strings_are_found_wherever_they_begin(void **state) {
    (void)state;
    const char *const one[] = { "abab!" }, *const two[] = { "b", "ab" }, *const lines[] = { "\n\n", "END" };
    expect_cut(one, 1, "xxababab!yy", "xxab", true);
    expect_cut(one, 1, "xxababab", "xxababab", false);
    expect_cut(two, 2, "xaab", "xa", true); /* the longest of those that end together */
    expect_cut(lines, 2, "a\nb\n\nc", "a\nb", true);
    expect_cut(lines, 2, "a\nEND", "a\n", true);
    expect_cut(lines, 2, "EENEN", "EENEN", false);
    expect_cut(NULL, 0, "text", "text", false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_token_at_a_time_gives_the_logits_of_the_whole),
        cmocka_unit_test(greedy_takes_the_likeliest),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(a_text_does_not_depend_on_its_neighbours),
        cmocka_unit_test(more_texts_than_lanes),
        cmocka_unit_test(a_text_ends_before_a_stop_string),
        cmocka_unit_test(the_share_of_probability_is_kept),
        cmocka_unit_test(repetition_is_penalised),
        cmocka_unit_test(stop_strings_are_found_wherever_they_begin),
        cmocka_unit_test(it_ends_where_the_context_ends),
        cmocka_unit_test(prompts_one_by_one_are_prompts_by_themselves),
        cmocka_unit_test(prompts_one_by_one_are_bounded),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_budget_is_kept_to_the_byte),
        cmocka_unit_test(matrices_of_16_bits_stay_so),
        cmocka_unit_test(products_of_bf16),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(extreme_logits_are_no_trouble),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
