/* What llm.c (Karpathy's GPT-2 training in C and CUDA) allocates: another reading of a model's forward graph.
 *
 * It has no allocator: each kind of tensor is one block, made once, and its program prints their sizes. Which
 * tensors there are is fixed in fill_in_activation_sizes of train_gpt2.c (the CPU's), train_gpt2_fp32.cu and
 * train_gpt2.cu (16 bits with f32 masters; -r computes GELU, and then norms, again). */
#pragma once

#include "models/model.h"

typedef enum { LLMC_CPU, LLMC_CUDA_F32, LLMC_CUDA } llmc_program;

typedef struct {
    llmc_program program;
    int again;  /* -r of train_gpt2.cu: 0, 1 (GELU) or 2 (norms as well) */
    bool cudnn; /* attention without scores: USE_CUDNN=1 */
    int64_t batch, context;
} llmc_settings;

typedef struct {
    uint64_t parameters; /* how many, the vocabulary padded where the program pads it */
    uint64_t weights, gradients, moments, masters; /* bytes; moments: m and v together */
    uint64_t activations, activation_gradients;
} llmc_bytes;

/* STATUS_INVALID: the graph has an operation that no GPT-2 has. */
status llmc_read(const model *m, const llmc_settings *s, llmc_bytes *out);
