/* Continues a text with a trained model: one token at a time over a cache of keys and values, all of it planned
 * before anything is allocated. */
#pragma once

#include "models/gpt2.h"
#include "search/compose.h"

typedef struct {
    const char *directory; /* Hugging Face model directory */
    const char *prompt;    /* bytes are token ids */
    int64_t tokens;        /* to add; at most what the context leaves */
    double temperature;    /* 0: always the likeliest */
    int64_t top_k;         /* 0: all */
    uint64_t seed;
    int threads;           /* 0: all there are */
    uint64_t memory;       /* budget in bytes; 0: unlimited */
    /* Called for each new token as soon as it is known; may be NULL. */
    void (*token)(void *context, int32_t id);
    void *context;
} generate_options;

typedef struct {
    int64_t prompt_tokens, new_tokens;
    double seconds_prompt, seconds_new;
    uint64_t planned_bytes, resident_peak_bytes;
} generate_result;

status generate_run(const generate_options *o, generate_result *r);
