/* A small model, and texts that are asked of it at random: what tests of the engine share. */
#pragma once

#include "infer/engine_internal.h"

enum { CONTEXT = 80, VOCABULARY = 64, NEVER = -1, ALIKE = -2, WIDTH = 24 };

extern model_folder folder; /* that texts are asked of alone; the test opens it */

/* A small model whose numbers are none at position `spoilt` (NEVER: everywhere sound; ALIKE: and the same at
 * all positions, so that it repeats itself), in folder `name`. */
status open_folder(const char *name, int64_t spoilt, model_folder *out);

/* One of this config.json, whose matrices have WIDTH or VOCABULARY rows and at most 72 columns. */
status open_configured(const char *name, const char *config, model_folder *out);
/* Another one, whose layers all see the last `window` positions alone. */
status open_windowed(const char *name, int64_t window, model_folder *out);
/* The same of another model of so many words, whose weights have few numbers each. */
status open_folder_of(const char *name, const model_config *c, int64_t spoilt, model_folder *out);

typedef struct {
    int32_t prompt[CONTEXT];
    int64_t count, tokens;
    int64_t leaves; /* after so many tokens; NEVER */
    uint64_t group;
    sample_options sample;
    int32_t place; /* in the engine; ENGINE_NONE: not there */
    int32_t got[CONTEXT];
    int64_t got_count;
    bool over;
    bool pools; /* no token is drawn: its vector is wanted */
    pooling how;
    pooled pooled;
    double numbers[WIDTH];
    bool scores, dawdles; /* its prompt is told; and it pauses now and then while it is */
    float told[CONTEXT];
    int64_t told_count;
} client;

uint32_t drawn(uint64_t seed, uint32_t i, uint32_t what, uint32_t below);
void make_client(client *c, uint64_t seed, uint32_t i, int64_t most);
/* One of so many wants its vector instead. */
void make_pooled(client *c, uint64_t seed, uint32_t i, uint32_t one_of);
/* One of so many wants its prompt told. */
void make_scored(client *c, uint64_t seed, uint32_t i, uint32_t one_of);
engine_request request_of(client *c);
status take(void *context, int32_t id, bool *over); /* engine_drew; of the engine that started last */

engine *start(const model_folder *of, const engine_sizes *sizes, uint64_t memory, int threads);
engine_sizes sizes_of(int64_t texts, int64_t rows, int64_t most_blocks, dtype cache);
/* Each after the other, sharing nothing. */
void run_alone(client *clients, uint32_t count, dtype cache);
