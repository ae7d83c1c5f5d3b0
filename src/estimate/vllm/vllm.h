/* What vLLM does with a device: of the share that it is given it takes weights, what a run over the largest
 * batch needs, and CUDA graphs; all that is left becomes pages of keys and values.
 *
 * Rules are those of its engine V1 (0.31 when they were written): v1/worker/gpu_worker.py (the share and what
 * is taken off it), v1/core/kv_cache_utils.py (pages, groups of layers, concurrency), engine/arg_utils.py
 * (sizes of batches by device). docs/serving.md says them in words, and where its constants come from. */
#pragma once

#include "estimate/hardware.h"
#include "estimate/interval.h"
#include "estimate/serving/served.h"
#include "models/families.h"

typedef enum { VLLM_CACHE_AUTO, VLLM_CACHE_FP8 } vllm_cache;

typedef struct {
    served_quantization quantization;
    vllm_cache cache;
    double utilization;
    int64_t context, gpus, block;
    int64_t requests;           /* of the whole context, that are to fit at once */
    int64_t batched, sequences; /* max_num_batched_tokens, max_num_seqs */
    bool wide, eager;           /* weights of 32 bits; no CUDA graphs */
    bool context_asked;         /* else it is the model's */
} vllm_settings;

/* Of one device of those that share. */
typedef struct {
    interval weights, activations, graphs, libraries; /* bytes */
    interval cache;                                   /* left for keys and values; without a device: needed */
    uint64_t share;                                   /* of the device that all of it has to fit */
    double needed;                                    /* bytes of the cache for `requests` */
    interval tokens, longest;                         /* that the cache holds, all in all; of one text */
    double concurrency[3];                            /* texts of the whole context: low, likely, high */
    uint64_t parameters;
} vllm_result;

/* Sizes of batches that `vllm serve` takes on such a device. */
void vllm_defaults(const hardware *h, vllm_settings *s);

status vllm_check(const model *m, const model_config *c, const vllm_settings *s);
status vllm_estimate(const model *m, const model_config *c, const hardware *h, const vllm_settings *s,
                     vllm_result *r);
