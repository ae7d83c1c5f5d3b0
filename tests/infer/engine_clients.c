#define _GNU_SOURCE
#include "infer/engine_clients.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/stat.h>

#include "base/philox.h"
#include "golden/golden.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "ops/cache_write/cache_write.h"

model_folder folder;

/* ---- the model ---- */

enum { MOST = 64 };

static status write_weights(const char *name, const model *m, int64_t spoilt) {
    static model_weight weights[MOST];
    static float values[MOST][VOCABULARY * 72];
    graph g;
    uint32_t count = 0;
    model_ports ports;
    TRY(graph_open(&g));
    m->build(m, &g, &(model_run){ .mode = MODEL_EVALUATE, .batch = 1, .context = 4 }, &ports);
    for (tensor_id t = 1; t < g.tensors.count; t++) {
        const tensor *x = graph_tensor(&g, t);
        if (x->role != ROLE_PARAMETER) continue;
        const char *is = graph_name(&g, t);
        float *to = values[count];
        weights[count++] = (model_weight){ .name = is, .shape = x->shape, .data = to, .type = DTYPE_F32 };
        for (int64_t i = 0; i < shape_elements(&x->shape); i++)
            to[i] = (float)(4 * golden_weight(is, (int)x->shape.rank, i));
        if (spoilt == ALIKE && strstr(is, "wpe")) memset(to, 0, sizeof values[0]);
        for (int64_t i = 0; spoilt >= 0 && strstr(is, "wpe") && i < WIDTH; i++)
            to[spoilt * WIDTH + i] = 3e38f; /* whose sum is infinite */
    }
    status result = model_files_save(name, weights, count);
    graph_close(&g);
    return result;
}

status open_folder(const char *name, int64_t spoilt, model_folder *out) {
    model_config c = { .gpt2 = gpt2_default() };
    c.gpt2.layers = 2, c.gpt2.heads = 2, c.gpt2.channels = WIDTH, c.gpt2.inner = 48;
    c.gpt2.context = CONTEXT, c.gpt2.vocabulary = VOCABULARY;
    return open_folder_of(name, &c, spoilt, out);
}

status open_folder_of(const char *name, const model_config *c, int64_t spoilt, model_folder *out) {
    model m;
    if (mkdir(name, 0755) != 0) return status_set(STATUS_FAILED, "no folder %s", name);
    TRY(model_config_write(name, c, NULL));
    families_model(c, name, &m);
    TRY(write_weights(name, &m, spoilt)); /* that make texts differ */
    return model_folder_open(name, NULL, DTYPE_NONE, UINT64_MAX, out);
}

status open_configured(const char *name, const char *config, model_folder *out) {
    char path[64];
    model_config c;
    model m;
    text notes = { 0 };
    snprintf(path, sizeof path, "%s/config.json", name);
    if (mkdir(name, 0755) != 0) return status_set(STATUS_FAILED, "no folder %s", name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(config, f);
    fclose(f);
    TRY(model_config_read(path, &c, &notes));
    text_close(&notes);
    families_model(&c, name, &m);
    TRY(write_weights(name, &m, NEVER));
    return model_folder_open(name, NULL, DTYPE_NONE, UINT64_MAX, out);
}

status open_windowed(const char *name, int64_t window, model_folder *out) {
    char config[512];
    snprintf(config, sizeof config,
             "{\"model_type\": \"mistral\", \"hidden_size\": %d, \"num_attention_heads\": 2, "
             "\"num_key_value_heads\": 1, \"num_hidden_layers\": 2, \"intermediate_size\": 32, "
             "\"vocab_size\": %d, \"max_position_embeddings\": %d, \"sliding_window\": %lld}",
             WIDTH, VOCABULARY, CONTEXT, (long long)window);
    return open_configured(name, config, out);
}

/* ---- texts ---- */

uint32_t drawn(uint64_t seed, uint32_t i, uint32_t what, uint32_t below) {
    return philox_draw(seed, (philox_block){ { i, what } }).word[0] % below;
}

void make_client(client *c, uint64_t seed, uint32_t i, int64_t most) {
    *c = (client){ .place = ENGINE_NONE };
    c->count = 1 + drawn(seed, i, 0, (uint32_t)most - 1);
    c->tokens = 1 + drawn(seed, i, 1, (uint32_t)(most - c->count));
    c->leaves = 1 + drawn(seed, i, 3, (uint32_t)c->tokens);
    if (drawn(seed, i, 2, 4)) c->leaves = NEVER;
    for (int64_t k = 0; k < c->count; k++)
        c->prompt[k] = (int32_t)drawn(seed, i, 100 + (uint32_t)k, VOCABULARY);
    c->sample = (sample_options){ .temperature = drawn(seed, i, 4, 3) ? 1.5 : 0,
                                  .top_k = drawn(seed, i, 5, 3) ? 0 : 5,
                                  .top_p = drawn(seed, i, 6, 2) ? 1 : 0.8,
                                  .min_p = drawn(seed, i, 9, 3) ? 0 : 0.05,
                                  .repetition_penalty = drawn(seed, i, 7, 2) ? 1 : 1.3,
                                  .presence_penalty = drawn(seed, i, 10, 3) ? 0 : 0.7,
                                  .frequency_penalty = drawn(seed, i, 11, 3) ? 0 : -0.4,
                                  .seed = drawn(seed, i, 8, 1000) };
}

void make_pooled(client *c, uint64_t seed, uint32_t i, uint32_t one_of) {
    c->pools = !drawn(seed, i, 30, one_of);
    c->how = (pooling){ .kind = (pooling_kind)drawn(seed, i, 31, 4),
                        .normalizes = drawn(seed, i, 32, 2),
                        .width = WIDTH };
    if (c->pools) c->tokens = 1;
}

void make_scored(client *c, uint64_t seed, uint32_t i, uint32_t one_of) {
    c->scores = !c->pools && !drawn(seed, i, 33, one_of);
    c->sample.logprobs = c->scores;
}

engine_request request_of(client *c) {
    c->told_count = 0;
    if (c->pools) pooling_begin(&c->pooled, &c->how, 0, c->numbers);
    return (engine_request){ .ids = c->prompt,
                             .count = c->count,
                             .tokens = c->tokens,
                             .sample = &c->sample,
                             .scores = c->scores,
                             .pooled = c->pools ? &c->pooled : NULL,
                             .group = c->group,
                             .context = c };
}

static engine *latest;

static status take_told(client *c, int32_t id, bool *over) {
    assert_int_equal(id, c->prompt[c->told_count + 1]);
    assert_false(c->dawdles && latest->texts[c->place].paused);
    c->told[c->told_count++] = engine_drawn(latest)->logprob;
    if (c->dawdles && c->told_count % 3 == 0) engine_pause(latest, c->place, true);
    return *over = false, STATUS_OK;
}

status take(void *context, int32_t id, bool *over) {
    client *c = context;
    if (id == ENGINE_POOLED) {
        assert_true(c->pools && !c->over);
        return c->over = true, STATUS_OK;
    }
    assert_false(c->pools);
    if (c->scores && c->told_count < c->count - 1) return take_told(c, id, over);
    assert_true(c->got_count < c->tokens && !c->over);
    c->got[c->got_count++] = id;
    *over = c->got_count == c->leaves;
    c->over = *over || c->got_count == c->tokens;
    return STATUS_OK;
}

engine *start(const model_folder *of, const engine_sizes *sizes, uint64_t memory, int threads) {
    engine *e;
    assert_int_equal(engine_open(&(engine_options){ .threads = threads, .memory = memory }, of, &e),
                     STATUS_OK);
    latest = e;
    if (engine_plan(e, sizes) != STATUS_OK || engine_start(e) != STATUS_OK) fail_msg("%s", status_message());
    return e;
}

engine_sizes sizes_of(int64_t texts, int64_t rows, int64_t most_blocks, dtype cache) {
    return (engine_sizes){ .texts = texts,
                           .text_length = CONTEXT,
                           .rows = rows,
                           .blocks = most_blocks,
                           .least_texts = 1,
                           .cache = cache,
                           .pools = true,
                           .sampling = { .changes = true, .counts = true } };
}

void run_alone(client *clients, uint32_t count, dtype cache) {
    engine_sizes sizes = sizes_of(1, 1, 0, cache);
    engine *e = start(&folder, &sizes, 0, 1);
    for (uint32_t i = 0; i < count; i++) {
        engine_request r = request_of(&clients[i]);
        r.group = ENGINE_ALONE;
        int32_t place = engine_begin(e, &r);
        assert_int_equal(place, 0);
        while (engine_going(e)) assert_int_equal(engine_step(e, take), STATUS_OK);
        assert_true(clients[i].over);
        engine_leave(e, place);
    }
    engine_close(e);
}
