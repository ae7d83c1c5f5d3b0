/* A model directory as one GGUF file, which llama.cpp and what is built on it run.
 *
 * Memory: the tokenizer's tables and buffers of a fixed size, whatever the model's weights are. What that
 * takes, and what the disk must have, is known and checked before a byte is written. */
#pragma once

#include "base/text.h"
#include "io/gguf_write.h"
#include "run/setup.h"

typedef struct {
    const char *directory, *out; /* a model directory; a file */
    gguf_write_type type;        /* of products and tables */
    setup_options run;           /* of it: memory, memory_auto */
    /* So much of the file is written; what it returns ends the writing where it is a failure. May be NULL. */
    status (*written)(void *context, uint64_t bytes, uint64_t all);
    void *context;
} export_options;

typedef struct {
    uint64_t bytes, read;  /* of the file; of the tensors that were read */
    uint32_t tensors, odd; /* odd: of those, F16 since their rows are no whole blocks of Q8_0 */
    char architecture[16], vocabulary[16]; /* "llama", "gpt2" */
    text notes;                            /* sentences for people, a line each: what the file can't say */
    uint64_t planned_bytes, resident_peak_bytes;
} export_result;

/* STATUS_INVALID for what can't be written as GGUF, or would be written over; STATUS_NO_FIT where memory or
 * the disk is too small: all before anything is written. Close the result in any case. */
status export_run(const export_options *o, export_result *r);
void export_result_close(export_result *r);
