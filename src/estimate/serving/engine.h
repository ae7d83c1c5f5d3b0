/* What SGLang and TensorRT-LLM do with a device. Both take a fraction for the cache of keys and values, of
 * different wholes:
 *
 * SGLang's --mem-fraction-static is of what was free before weights were loaded, and holds weights and cache.
 * The rest is left to activations, CUDA graphs and tables, which nobody measures before. Rules are those of
 * 0.5.23: srt/arg_groups/memory_hook.py (defaults by device), srt/mem_cache/kv_cache_configurator.py (the
 * budget, requests), srt/model_executor/pool_configurator.py (bytes of a token).
 *
 * TensorRT-LLM's --free-gpu-memory-fraction is of what a step of --max-num-tokens has left, and holds the
 * cache alone. Rules are those of its PyTorch backend: _torch/pyexecutor/_util.py (KvCacheCreator), in the
 * repository at commit 0004396. docs/serving.md says both in words. */
#pragma once

#include "estimate/hardware.h"
#include "estimate/interval.h"
#include "estimate/serving/served.h"

typedef struct {
    served_quantization quantization;
    double fraction; /* 0: as the engine chooses by itself */
    int64_t context, gpus, page;
    int64_t requests;    /* of the whole context, that are to fit at once */
    int64_t chunk;       /* tokens of a step: --chunked-prefill-size, --max-num-tokens */
    int64_t running;     /* texts of a step; 0: SGLang chooses by the cache's tokens */
    int64_t graph_batch; /* the most texts of a step that runs as a CUDA graph; 0: none do */
    bool wide, small_cache, context_asked; /* weights of 32 bits; cache of 8 bits */
    bool is_sglang;                        /* else TensorRT-LLM */
} engine_settings;

/* Of one device of those that share. */
typedef struct {
    interval weights, activations, graphs, libraries, tables; /* bytes */
    interval cache;                  /* for keys and values; without a device: needed */
    double missing;                  /* of the device beside what was asked for; < 0: left over */
    double needed, headroom;         /* bytes of the cache for `requests`; left beside the fraction */
    double wanted[3];                /* of the headroom: low, likely, high */
    interval tokens;                 /* that the cache holds: also of the longest text */
    double concurrency[3], fraction; /* texts of the whole context; the fraction that was taken */
    uint64_t parameters;
} engine_result;

/* Sizes that the engine takes on such a device. `s` has `gpus` and `fraction`. */
void engine_sglang_defaults(const hardware *h, engine_settings *s);
void engine_trtllm_defaults(engine_settings *s);

status engine_check(const engine_settings *s, const char *title);
status engine_sglang(const model *m, const model_config *c, const hardware *h, const engine_settings *s,
                     engine_result *r);
status engine_trtllm(const model *m, const model_config *c, const hardware *h, const engine_settings *s,
                     engine_result *r);
