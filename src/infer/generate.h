/* Continues a text with a trained model: one token at a time over a cache of keys and values, all of it
 * planned before anything is allocated. */
#pragma once

#include "models/gpt2.h"
#include "search/compose.h"

typedef struct {
    const char *directory; /* Hugging Face model directory */
    const char *prompt;    /* bytes are token ids; empty or NULL: begin after a line's end */
    int64_t tokens;        /* to add; fewer where the context ends */
    double temperature;    /* 0: always the likeliest */
    int64_t top_k;   /* choose among the likeliest of this number (equals of the last included); 0: all */
    uint64_t seed;   /* with the position it decides a draw: the same text for any number of threads */
    int threads;     /* 0: all there are */
    uint64_t memory; /* budget in bytes; 0: unlimited */
    /* Called for each new token as soon as it is known; may be NULL. */
    void (*token)(void *context, int32_t id);
    void *context;
} generate_options;

typedef struct {
    int64_t prompt_tokens, new_tokens;
    double seconds_prompt, seconds_new;
    uint64_t planned_bytes, resident_peak_bytes;
} generate_result;

/* STATUS_INVALID for a wrong directory, option or prompt, STATUS_NO_FIT when the plan is beyond the budget:
 * both before the first token. STATUS_FAILED when the model's numbers are not finite. */
status generate_run(const generate_options *o, generate_result *r);
