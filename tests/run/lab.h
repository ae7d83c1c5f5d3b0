/* Small models run through the whole engine, with choices made by the test: what the tests of promises share.
 * Being a test helper, it fails the test (assert) where something goes wrong that the test does not ask
 * about. */
#pragma once

#include "exec/exec.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/gpt2.h"
#include "models/head.h"
#include "search/search.h"

typedef struct {
    gpt2_config config;     /* of a decoder only the vocabulary counts */
    decoder_config decoder; /* kind NULL: it is none */
    model model;
    compose_run run;
    uint64_t seed;
    float rate;
    int64_t documents; /* in a sample, as long as each other; 0: they are not told apart */
    /* where a test brings its own weights or data; NULL: random ones */
    void (*weight)(const char *name, const shape *s, float *w);
    int32_t (*token)(int step, int64_t sample, int64_t time);
    int32_t (*label)(int step, int64_t sample, int64_t time); /* NULL: the token at time + 1 */
    float (*pixel)(int step, int64_t sample, int64_t i);      /* NULL: samples have no image */
    /* of models whose head judges samples; NULL: drawn from the seed. Behind a text's length its padding */
    int64_t (*length)(int step, int64_t sample);
    float (*score)(int step, int64_t sample);
    int32_t padding;
} lab;

typedef struct {
    int64_t layers, heads, channels, context, vocabulary, batch;
    int64_t unit; /* samples whose sums stay together; 0: the batch */
    double dropout, clip;
    bool untied;
    optimizer_kind optimizer; /* 0: AdamW */
    const char *decoder;      /* its model_type: "llama"; NULL: GPT-2 */
    int64_t kv_heads;         /* of a decoder; 0: heads */
    int64_t documents;        /* in a sample; 0: not told apart */
    model_head head;          /* not the language's: tells nothing apart */
} lab_sizes;

/* Not to be moved afterwards: the model points at the configuration. */
void lab_open(lab *l, const lab_sizes *sizes);

/* Tells so many documents of a sample apart, of a model set since as well. */
void lab_pack(lab *l, int64_t documents);

/* Gives the model, also one set since, a head that judges samples; the language's: leaves it as it is. */
void lab_judge(lab *l, const model_head *h);

/* "recompute=block chunk_loss=256 accumulate=add": settings by pass; micro_batch 0: the whole batch. */
compose_choice lab_choose(const lab *l, int64_t micro_batch, const char *settings);

/* A random combination of settings that the passes themselves offer, and of some that can only be pinned. */
compose_choice lab_choose_randomly(const lab *l, uint32_t *random, pass_class allowed);
uint32_t lab_random(uint32_t *random, uint32_t below);
const char *lab_choice_text(const compose_choice *c, char text[256]);

enum { LAB_MAX_STEPS = 32 };

typedef struct {
    int steps;
    float losses[LAB_MAX_STEPS], evaluation;
    double accuracy, f1; /* NAN: the model has no classes */
    float norm;          /* of the last step */
    float *weights;
    uint64_t weight_count;
    uint64_t peak_bytes, arena_bytes, lower_bound_bytes, pool_bytes;
    uint64_t planned[CATEGORY_COUNT], measured[CATEGORY_COUNT];
} lab_result;

/* Plans and runs `steps` steps on data that only depends on the lab. */
void lab_run(const lab *l, const compose_choice *c, unsigned modes, int steps, lab_result *r);
void lab_result_close(lab_result *r);

/* Fails the test where bytes of a category were not as planned. */
void lab_assert_exact_bytes(const lab_result *r, const char *what);

/* Bit for bit the same losses, validation loss and weights. */
bool lab_same(const lab_result *a, const lab_result *b);
/* The largest difference of weights and losses, relative to the largest value. */
double lab_distance(const lab_result *a, const lab_result *b);

/* Three steps of a plan by these settings, with what is dead poisoned; bytes are as planned. */
void lab_run_settings(const lab *l, int64_t micro_batch, const char *settings, lab_result *r);

/* An encoder as small as lab_sizes make others: two layers and heads, 24 channels, a vocabulary of 53 with
 * the mask behind it, and nothing dropped. `context`: tokens of the longest sample. */
encoder_config lab_encoder(const char *kind, int64_t context);

/* A technique, and how far from the plain run it may come; 0: the same bits. */
typedef struct {
    int64_t micro_batch;
    const char *settings;
    double distance;
} lab_case;

/* Three steps, plain and with each case, which keeps its distance; bytes are as planned, and the plain run
 * learns. */
void lab_keep_distance(const lab *l, const char *name, const lab_case *cases, size_t count);

typedef struct {
    const lab_sizes *sizes;
    const char *base, *with;
    int64_t base_micro_batch, micro_batch;
    unsigned modes;  /* of the second run */
    double distance; /* at most; 0: the same bits */
} lab_pair;

/* Five steps with `base` and with `with`: the run learns, bytes are as planned in both, and they are not
 * further apart. The last base is remembered: many are compared with the same one. */
void lab_compare(const lab_pair *pair);

/* By hand, for tests that look closer: binds a plan, fills the weights, hands in the data of a step. */
void lab_fill_weights(const lab *l, const plan *p, exec *e);
void lab_hand_in(const lab *l, exec *e, const char *of, int step, int64_t first, int64_t count);
int32_t lab_token(const lab *l, int step, int64_t sample, int64_t time);
int32_t lab_label(const lab *l, int step, int64_t sample, int64_t time); /* -100: does not count */
float lab_loss_scale(const lab *l, int step); /* one over the labels of the batch that count */
