/* What engines that serve a decoder over several devices have alike: whole heads, products and tables cut
 * across devices, and the rows of a step. vLLM, SGLang and TensorRT-LLM share these rules. */
#pragma once

#include "estimate/heads.h"
#include "estimate/weights.h"

typedef enum { SERVED_PLAIN, SERVED_FP8, SERVED_AWQ, SERVED_GPTQ, SERVED_BITSANDBYTES } served_quantization;

typedef struct {
    served_quantization quantization;
    bool wide; /* what is not quantized has 32 bits, else 16 */
    int64_t gpus;
} served_form;

/* Bytes of weights, and of the table of cosines and sines beside them, on one of `gpus` devices. */
double served_weights(const weights *w, const model_config *c, const heads *h, const served_form *f);

/* Bytes of a token at the widest moment of a block. `compiled`: what came into the block is gone by then. */
double served_row(const heads *h, const served_form *f, bool compiled);

/* Bytes of a token's keys and values in one layer on one device; `width`: of a number. */
double served_token(const heads *h, int64_t gpus, double width);

/* STATUS_INVALID: no decoder, or heads that `gpus` can't share; `title` is the engine's in the sentence,
 * `named` its word for --framework. */
status served_check(const model *m, const model_config *c, int64_t gpus, const char *title,
                    const char *named);
