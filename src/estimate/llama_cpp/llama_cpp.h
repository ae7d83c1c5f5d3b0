/* What llama.cpp takes of a device and of the host: weights of a GGUF file, the cache of keys and values, and
 * the buffers that its graphs compute in.
 *
 * The last `gpu_layers` layers lie on the devices, of which the head is the last, shared out among `gpus`
 * equal ones in their order; the table of tokens stays with the host. What is said is of the device that
 * holds most. Rules: src/llama-model.cpp (who lies where), src/llama-kv-cache*.cpp (cells), ggml-alloc.c
 * (buffers: as large as the largest set of values that are alive at once). docs/serving.md says them in
 * words. */
#pragma once

#include "estimate/interval.h"
#include "estimate/llama_cpp/gguf.h"

enum { LLAMA_CPP_MOST_DEVICES = 16 }; /* GGML_CUDA_MAX_DEVICES */

typedef struct {
    gguf_mix mix;
    gguf_type keys, values;
    int64_t context, requests, ubatch; /* tokens of a text; texts; tokens of a step */
    int64_t gpu_layers;                /* 0: none; more than there are: all */
    int64_t gpus;                      /* 1 .. LLAMA_CPP_MOST_DEVICES */
    bool flash;
    bool context_asked; /* else it is the model's */
} llama_cpp_settings;

typedef struct {
    uint64_t weights, cache;
    interval compute; /* buffers */
} llama_cpp_place;

typedef struct {
    llama_cpp_place device, host;
    int64_t layers, on_device; /* the head counts as one; on all devices together */
    uint64_t parameters;
    double bits; /* of a number of the file, on the average */
} llama_cpp_result;

/* What keys and values may be kept in, in the order of LLAMA_CPP_CACHE_NAMES. */
#define LLAMA_CPP_CACHE_NAMES "f16, bf16, f32, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl"
extern const gguf_type llama_cpp_cache_types[];
const char *llama_cpp_cache_name(gguf_type t);

status llama_cpp_check(const model *m, const model_config *c, const llama_cpp_settings *s);
status llama_cpp_estimate(const model *m, const model_config *c, const llama_cpp_settings *s,
                          llama_cpp_result *r);
