/* Programs by rows (models/paged.h) of every family that continues texts: their logits are those of
 * transformers, and the same bits however prompts are cut, whoever else is in a step, and wherever blocks
 * lie. Models that answer read their sources before, alone or side by side. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "base/threads.h"
#include "io/scratch.h"
#include "ops/cache_write/cache_write.h"
#include "oracle/reach.h"
#include "run/transformers.h"

static const char *const families[] = { "llama",      "mistral",     "qwen2",      "qwen3",
                                        "phi",        "phi_normed",  "phi3",       "gemma",
                                        "gpt_neox",   "gemma2",      "qwen3_yarn", "gemma3_text",
                                        "olmoe",      "mixtral",     "t5",         "olmo2",
                                        "granite",    "smollm3",     "glm4",       "falcon",
                                        "starcoder2", "falcon_wide", "t5_gated",   "t5_untied",
                                        "qwen2_moe",  "olmo3",       "exaone4",    "stablelm",
                                        "cohere2",    "arcee",       "vaultgemma", "hunyuan_v1_dense",
                                        NULL };

enum { TEXTS = 3, LENGTH = 24, WORDS = 61, TEXT_BLOCKS = 2, CACHE = 17, MOST_THREADS = 3 };
enum { SOURCES = TEXTS * LENGTH };
static const compose_steps steps = { { 1, 4, 16 }, 3 }, sources = { { LENGTH, SOURCES }, 2 };

typedef struct {
    transformers t;
    plan plan;
    exec *exec;
    int32_t table[TEXTS][TEXT_BLOCKS], sources[TEXTS][TEXT_BLOCKS];
    int done[TEXTS];
    float logits[TEXTS][LENGTH][WORDS];
} session;

static int32_t draw_block(uint64_t seed, int i, bool taken[CACHE]) {
    uint32_t block = philox_draw(seed, (philox_block){ { (uint32_t)i } }).word[0] % CACHE;
    while (taken[block]) block = (block + 1) % CACHE;
    taken[block] = true;
    return (int32_t)block;
}

/* Blocks lie where `seed` says; what others have left in the cache is no number. */
static void session_open(session *s, const char *family, const char *precision, dtype cache, uint64_t seed) {
    paged_sizes sizes = {
        .texts = TEXTS, .text_blocks = TEXT_BLOCKS, .cache_blocks = CACHE, .wanted = TEXTS, .cache = cache
    };
    memset(s, 0, sizeof *s);
    transformers_open(&s->t, family);
    bool answers = s->t.lab.model.answers;
    sizes.source_blocks = answers ? TEXT_BLOCKS : 0;
    s->t.lab.run.lower.threads = MOST_THREADS;
    compose_choice c = { 0 };
    for (int i = 0; precision && pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, "precision") == 0)
            assert_int_equal(pass_table[i]->parse(precision, &c.settings[i]), STATUS_OK);
    compose_steps reads = answers ? sources : (compose_steps){ .count = 0 };
    assert_int_equal(compose_rows(&s->t.lab.run, &c, &sizes, &steps, &reads, &s->plan), STATUS_OK);
    assert_int_equal(exec_open(&s->plan, 0, &s->exec), STATUS_OK);
    lab_fill_weights(&s->t.lab, &s->plan, s->exec);
    for (int64_t layer = 0; layer < s->t.lab.model.layers; layer++)
        for (int part = 0; part < 2; part++) {
            char name[32];
            snprintf(name, sizeof name, "cache.%lld.%s", (long long)layer, part ? "v" : "k");
            exec_value x = exec_state(s->exec, name);
            if (!x.bytes) continue;                         /* a layer of the encoder */
            memset(reach_value(s->exec, x), 0xff, x.bytes); /* NaN in every float; -1 as a code */
        }
    bool taken[CACHE] = { 0 };
    for (int i = 0; i < TEXTS * TEXT_BLOCKS; i++) {
        s->table[i / TEXT_BLOCKS][i % TEXT_BLOCKS] = draw_block(seed, i, taken);
        if (answers) s->sources[i / TEXT_BLOCKS][i % TEXT_BLOCKS] = draw_block(seed, 100 + i, taken);
    }
}

static void session_close(session *s) {
    exec_close(s->exec);
    plan_close(&s->plan);
    transformers_close(&s->t);
}

static void put(session *s, uint32_t k, const char *name, const void *from) {
    exec_value x = exec_input(s->exec, k, name);
    assert_int_equal(exec_write(s->exec, &x, 0, from, x.bytes), STATUS_OK);
}

/* Those of the texts [first, last), in one step; others see it as rows that are not needed. */
static void read_sources(session *s, int first, int last) {
    int32_t tokens[SOURCES] = { 0 }, position[SOURCES], owner[SOURCES] = { 0 }, slot[SOURCES], end[SOURCES];
    int count = 0;
    if (!s->t.lab.model.answers) return;
    for (int i = 0; i < SOURCES; i++) position[i] = slot[i] = end[i] = -1;
    for (int t = first; t < last; t++) {
        int length = (int)s->t.lab.length(0, t);
        for (int at = 0; at < length; at++, count++) {
            tokens[count] = s->t.lab.token(0, t, at), position[count] = at, owner[count] = t;
            slot[count] = s->sources[t][at / CACHE_BLOCK] * CACHE_BLOCK + at % CACHE_BLOCK;
            end[count] = length - 1;
        }
    }
    uint32_t k = steps.count + (count > sources.rows[0]);
    put(s, k, "tokens", tokens), put(s, k, "position", position), put(s, k, "text", owner);
    put(s, k, "slot", slot), put(s, k, "sources", s->sources), put(s, k, "source_last", end);
    exec_run(s->exec, k);
}

/* What the model is given at a place, and what is told of it: below 0, nothing. */
static int32_t told(const session *s, int t, int at) {
    return s->t.lab.model.answers ? lab_label(&s->t.lab, 0, t, at) : s->t.lab.token(0, t, at + 1);
}

static int32_t given(const session *s, int t, int at) {
    if (!s->t.lab.model.answers) return s->t.lab.token(0, t, at);
    int32_t before = at ? told(s, t, at - 1) : s->t.lab.model.start;
    return before < 0 ? 0 : before;
}

/* The next so many tokens of the texts, as one step; logits are kept of the last one of each. */
static void step(session *s, const int more[TEXTS]) {
    int32_t tokens[16] = { 0 }, position[16], owner[16] = { 0 }, slot[16], wanted[TEXTS] = { 0 }, of[TEXTS];
    int32_t end[16];
    int count = 0, drawn = 0;
    bool answers = s->t.lab.model.answers;
    for (int i = 0; i < 16; i++) position[i] = slot[i] = end[i] = -1;
    for (int t = 0; t < TEXTS; t++) {
        for (int i = 0; i < more[t]; i++, s->done[t]++, count++) {
            int at = s->done[t];
            tokens[count] = given(s, t, at), position[count] = at, owner[count] = t;
            if (answers) end[count] = (int32_t)s->t.lab.length(0, t) - 1;
            slot[count] = s->table[t][at / CACHE_BLOCK] * CACHE_BLOCK + at % CACHE_BLOCK;
        }
        if (more[t]) of[drawn] = t, wanted[drawn++] = count - 1;
    }
    uint32_t k = 0;
    while (steps.rows[k] < count || (steps.rows[k] < TEXTS && steps.rows[k] < drawn)) k++;
    put(s, k, "tokens", tokens), put(s, k, "position", position), put(s, k, "text", owner);
    put(s, k, "slot", slot), put(s, k, "table", s->table), put(s, k, "wanted", wanted);
    if (answers) put(s, k, "sources", s->sources), put(s, k, "source_last", end);
    exec_run(s->exec, k);
    exec_value logits = exec_output(s->exec, k, "logits");
    for (int i = 0; i < drawn; i++)
        assert_int_equal(exec_read(s->exec, &logits, (uint64_t)i * sizeof s->logits[0][0],
                                   s->logits[of[i]][s->done[of[i]] - 1], sizeof s->logits[0][0]),
                         STATUS_OK);
}

/* Every text by itself, a token at a time. */
static void run_alone(session *s) {
    for (int t = 0; t < TEXTS; t++) read_sources(s, t, t + 1);
    for (int t = 0; t < TEXTS; t++)
        for (int at = 0; at < LENGTH; at++) {
            int more[TEXTS] = { 0 };
            more[t] = 1;
            step(s, more);
        }
}

/* All together, each by as many at a time as is drawn. */
static void run_mixed(session *s, uint64_t seed) {
    read_sources(s, 0, TEXTS);
    for (uint32_t n = 0;; n++) {
        int more[TEXTS], left = 16, all = 0;
        philox_block drawn = philox_draw(seed, (philox_block){ { n, 1 } });
        for (int t = 0; t < TEXTS; t++) {
            int rest = LENGTH - s->done[t], wanted = (int)(drawn.word[t] % 9);
            more[t] = wanted < rest ? wanted : rest;
            if (more[t] > left) more[t] = left;
            left -= more[t], all += LENGTH - s->done[t];
        }
        if (!all) return;
        if (left < 16) step(s, more);
    }
}

static double loss_of(const session *s) {
    double loss = 0;
    int counted = 0;
    for (int t = 0; t < TEXTS; t++)
        for (int at = 0; at < LENGTH; at++) {
            double sum = 0;
            int32_t label = told(s, t, at);
            if (label < 0) continue;
            for (int v = 0; v < WORDS; v++) sum += exp((double)s->logits[t][at][v]);
            loss += log(sum) - (double)s->logits[t][at][label], counted++;
        }
    return loss / counted;
}

/* Cut by `seed`, rows that ended a text's part of a step have logits; those are compared. */
static void rows_agree(const char *family, const char *precision, dtype cache, double tolerance) {
    static session alone, mixed;
    session_open(&alone, family, precision, cache, 1);
    run_alone(&alone);
    double loss = loss_of(&alone), truth = alone.t.golden.loss[0];
    if (!(fabs(loss - truth) < tolerance * truth))
        fail_msg("%s: the loss of rows is %.8g, transformers has %.8g", family, loss, truth);
    for (uint64_t seed = 2; seed < 6; seed++) {
        session_open(&mixed, family, precision, cache, seed);
        threads_set((int)(seed % 3) + 1);
        run_mixed(&mixed, seed);
        int compared = 0;
        for (int t = 0; t < TEXTS; t++)
            for (int at = 0; at < LENGTH; at++) {
                const float *is = mixed.logits[t][at], none[WORDS] = { 0 };
                if (memcmp(is, none, sizeof none) == 0) continue; /* amidst a part */
                compared++;
                if (memcmp(is, alone.logits[t][at], sizeof none) != 0)
                    fail_msg("%s, seed %d: the logits of text %d at %d have other bits", family, (int)seed, t,
                             at);
            }
        assert_true(compared >= 3 * TEXTS);
        session_close(&mixed);
    }
    threads_set(2);
    session_close(&alone);
}

static void rows_are_the_same_model(void **state) {
    (void)state;
    for (int i = 0; families[i]; i++) rows_agree(families[i], NULL, DTYPE_F32, 1e-5);
}

static void caches_of_fewer_bits_are_close(void **state) {
    (void)state;
    rows_agree("llama", NULL, DTYPE_BF16, 1e-3);
    rows_agree("gemma2", NULL, DTYPE_F16, 1e-3);
    rows_agree("qwen3", NULL, DTYPE_I8, 2e-3);
    rows_agree("mistral", NULL, DTYPE_I8, 2e-3);
    rows_agree("t5", NULL, DTYPE_BF16, 2e-3);
    rows_agree("t5_gated", NULL, DTYPE_I8, 5e-3);
}

/* As models of bf16 are read, in every family. */
static void products_of_bf16_are_close(void **state) {
    (void)state;
    for (int i = 0; families[i]; i++) rows_agree(families[i], "products-bf16", DTYPE_BF16, 4e-3);
}

int main(void) {
    threads_set(2);
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_are_the_same_model),
                                        cmocka_unit_test(caches_of_fewer_bits_are_close),
                                        cmocka_unit_test(products_of_bf16_are_close) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
