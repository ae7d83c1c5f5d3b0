/* How a tokenizer.json cuts text before its model sees it, and what llama.cpp calls that. */
#pragma once

#include "base/text.h"
#include "io/json.h"

typedef struct {
    json_value normalizer, before; /* "pre_tokenizer"; object NULL: null */
    bool bytes_behind;             /* "byte_fallback" */
    bool ignores_merges;           /* "ignore_merges" */
} cutting;

/* For BPE of bytes: the value of tokenizer.ggml.pre. */
status cutting_name(const char *path, const cutting *c, const char **pre, text *notes);
/* For BPE of characters: does a blank come before each text? */
status cutting_blank(const char *path, const cutting *c, bool *blank, text *notes);
