/* How llama.cpp keeps weights: types of numbers with the layouts of their blocks, and mixes of them, which
 * are what a file is called after.
 *
 * Sizes of blocks are those of ggml-common.h. Which tensor of a mix gets which type is llama_tensor_get_type
 * in src/llama-quant.cpp, here as a table: the first line that fits counts, else the mix's own type. Types of
 * 3 bits and less by the letters IQ are taken as made with an importance matrix. */
#pragma once

#include "estimate/heads.h"
#include "estimate/weights.h"

typedef enum {
    GGUF_F32,
    GGUF_F16,
    GGUF_BF16,
    GGUF_Q8_0,
    GGUF_Q6_K,
    GGUF_Q5_K,
    GGUF_Q5_1,
    GGUF_Q5_0,
    GGUF_Q4_K,
    GGUF_Q4_1,
    GGUF_Q4_0,
    GGUF_IQ4_NL,
    GGUF_IQ4_XS,
    GGUF_Q3_K,
    GGUF_IQ3_S,
    GGUF_IQ3_XXS,
    GGUF_Q2_K,
    GGUF_IQ2_S,
    GGUF_IQ2_XS,
    GGUF_IQ2_XXS,
    GGUF_IQ1_M,
    GGUF_IQ1_S,
    GGUF_TYPES
} gguf_type;

double gguf_bits(gguf_type t); /* of one number, its share of scales included */

/* In the order of GGUF_MIX_NAMES, from wide to narrow. */
typedef enum {
    GGUF_MIX_F32,
    GGUF_MIX_BF16,
    GGUF_MIX_F16,
    GGUF_MIX_Q8_0,
    GGUF_MIX_Q6_K,
    GGUF_MIX_Q5_1,
    GGUF_MIX_Q5_K_M,
    GGUF_MIX_Q5_K_S,
    GGUF_MIX_Q5_0,
    GGUF_MIX_Q4_1,
    GGUF_MIX_Q4_K_M,
    GGUF_MIX_Q4_K_S,
    GGUF_MIX_IQ4_NL,
    GGUF_MIX_Q4_0,
    GGUF_MIX_IQ4_XS,
    GGUF_MIX_Q3_K_L,
    GGUF_MIX_Q3_K_M,
    GGUF_MIX_IQ3_M,
    GGUF_MIX_Q3_K_S,
    GGUF_MIX_IQ3_S,
    GGUF_MIX_IQ3_XS,
    GGUF_MIX_IQ3_XXS,
    GGUF_MIX_Q2_K,
    GGUF_MIX_Q2_K_S,
    GGUF_MIX_IQ2_M,
    GGUF_MIX_IQ2_S,
    GGUF_MIX_IQ2_XS,
    GGUF_MIX_IQ2_XXS,
    GGUF_MIX_IQ1_M,
    GGUF_MIX_IQ1_S,
    GGUF_MIXES
} gguf_mix;
#define GGUF_MIX_NAMES                                                                                       \
    "F32, BF16, F16, Q8_0, Q6_K, Q5_1, Q5_K_M, Q5_K_S, Q5_0, Q4_1, Q4_K_M, Q4_K_S, IQ4_NL, Q4_0, IQ4_XS, "   \
    "Q3_K_L, Q3_K_M, IQ3_M, Q3_K_S, IQ3_S, IQ3_XS, IQ3_XXS, Q2_K, Q2_K_S, IQ2_M, IQ2_S, IQ2_XS, IQ2_XXS, "   \
    "IQ1_M, IQ1_S"
const char *gguf_mix_name(gguf_mix m);

/* What a mix asks of the model. */
typedef struct {
    const heads *heads;
    bool tied;
} gguf_model;

gguf_type gguf_type_of(gguf_mix m, const gguf_model *q, const weights_item *x);
double gguf_bytes(gguf_mix m, const gguf_model *q, const weights_item *x);
