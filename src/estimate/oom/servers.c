/* What vLLM, text-generation-inference and llama.cpp say. */
#include <math.h>

#include "estimate/oom/readers.h"

/* (12.50/23.64 GiB) on startup is less than desired GPU memory utilization (0.9, 21.28 GiB) */
static bool read_not_free(span s, span all, oom *o) {
    (void)all;
    span both = span_behind(s, "("), wanted = span_behind(s, "GPU memory utilization ");
    double value = 0;
    if (!both.at || !span_number(&both, &value) || both.at == both.end || *both.at != '/') return false;
    o->free = (uint64_t)fmin(value * 1073741824, 1e18);
    o->free_said = true;
    both.at++;
    o->total = span_size(both);
    if (!wanted.at || !span_number(&wanted, &o->utilization)) return false;
    return o->total > 0 && o->utilization > 0 && o->utilization <= 1;
}

static bool read_length(span s, span all, oom *o) {
    (void)all;
    o->length = span_count(s, 0);
    o->room = span_count(span_behind(s, "stored in KV cache "), 0);
    if (!o->room) o->room = span_count(span_behind(s, "estimated maximum model length is "), 0);
    o->needed = span_size_before(s, " KV cache is needed");
    o->available = span_size(span_behind(s, "available KV cache memory "));
    return o->length > 0 && (o->room || o->needed);
}

/* Allocation on device 0 would exceed allowed memory. ... Currently allocated : 16.08 GiB Requested : 4.83
 * GiB Device limit : 22.20 GiB Free (according to CUDA): 11.12 MiB PyTorch limit (set by user-supplied memory
 * fraction) : 22.20 GiB: of PyTorch's other allocator. */
static uint64_t named(span s, const char *name) {
    span colon = span_behind(span_behind(s, name), ":");
    return span_size(colon);
}

static bool read_exceeds(span s, span all, oom *o) {
    (void)all;
    o->allocated = named(s, "Currently allocated");
    o->tried = named(s, "Requested");
    o->total = named(s, "Device limit");
    o->free = named(s, "according to CUDA)");
    o->free_said = span_behind(s, "according to CUDA)").at != NULL;
    o->allowed = named(s, "memory fraction)");
    return o->tried > 0 && o->total > 0;
}

/* 1234.56 MiB on device 0: cudaMalloc failed: out of memory. What follows says what it was for. */
static void read_part(span s, oom *o) {
    static const struct {
        const char *words;
        oom_part part;
    } parts[] = { { "failed to allocate buffer for kv cache", OOM_PART_CACHE },
                  { "failed for self-attention cache", OOM_PART_CACHE },
                  { "failed to allocate compute", OOM_PART_COMPUTE },
                  { "ggml_gallocr_reserve_n", OOM_PART_COMPUTE },
                  { "graph_reserve", OOM_PART_COMPUTE },
                  { "unable to allocate CUDA", OOM_PART_WEIGHTS },
                  { "alloc_tensor_range", OOM_PART_WEIGHTS },
                  { "error loading model", OOM_PART_WEIGHTS } };
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !o->part; i++)
        if (span_behind(s, parts[i].words).at) o->part = parts[i].part;
}

static bool read_llama_cpp(span s, span all, oom *o) {
    (void)all;
    o->tried = span_size(s);
    o->units = OOM_MIB;
    o->gpu = span_count(span_behind(s, "on device "), -1);
    if (span_behind(s, "ROCm").at) o->backend = OOM_ON_HIP;
    read_part(s, o);
    return o->tried > 0;
}

static bool read_failed(span s, span all, oom *o) {
    (void)all;
    read_part(s, o);
    return true;
}

static bool read_weights(span s, span all, oom *o) {
    (void)s, (void)all;
    o->part = OOM_PART_WEIGHTS;
    return true;
}

static bool read_compute(span s, span all, oom *o) {
    (void)s, (void)all;
    o->part = OOM_PART_COMPUTE;
    return true;
}

static bool read_cache(span s, span all, oom *o) {
    (void)s, (void)all;
    o->part = OOM_PART_CACHE;
    return true;
}

static bool read_ggml(span s, span all, oom *o) {
    (void)all;
    o->gpu = span_count(span_behind(s, "current device: "), -1);
    return span_behind(s, "ggml").at;
}

/* Of llama.cpp's other backends: the size is in bytes, or in MiB. */
static bool read_other_backend(span s, span all, oom *o) {
    (void)all;
    o->tried = span_size(s);
    if (!o->tried) o->tried = (uint64_t)span_count(s, 0);
    read_part(s, o);
    return o->tried > 0;
}

const oom_message oom_messages_servers[] = {
    { OOM_VLLM_NOT_FREE, "Free memory on device", read_not_free },
    { OOM_VLLM_NOT_FREE, "free memory on device", read_not_free },
    { OOM_VLLM_LENGTH, "max seq len ", read_length },
    { OOM_VLLM_NO_CACHE, "No available memory for the cache blocks", NULL },
    { OOM_VLLM_NO_CACHE, "Not enough memory. Please try", NULL }, /* SGLang's */
    { OOM_VLLM_NO_CACHE, "Decode out of memory", NULL },
    { OOM_VLLM_NOT_FREE, "Error in memory profiling", NULL },
    { OOM_VLLM_WARM_UP, "Not enough memory to handle", NULL },
    { OOM_VLLM_WARM_UP, "out of memory occurred when warming up", NULL },
    { OOM_VLLM_WARM_UP, "Unable to warmup model", read_exceeds },
    { OOM_TORCH, "would exceed allowed memory", read_exceeds },
    { OOM_LLAMA_CPP, "_alloc_buffer: allocating ", read_llama_cpp },
    { OOM_LLAMA_CPP, "cudaMalloc failed: out of memory", read_failed },
    { OOM_LLAMA_CPP, "ggml_vulkan: Device memory allocation of size ", read_other_backend },
    { OOM_LLAMA_CPP, "error: failed to allocate buffer, size = ", read_other_backend },
    { OOM_LLAMA_CPP, "CUDA error: out of memory", read_ggml },
    { OOM_LLAMA_CPP, "failed to allocate compute", read_compute },
    { OOM_LLAMA_CPP, "failed to allocate buffer for kv cache", read_cache },
    { OOM_LLAMA_CPP, "nable to allocate backend buffer", read_weights },
    { OOM_LLAMA_CPP, "nable to allocate CUDA", read_weights },
    { OOM_LLAMA_CPP, "nable to allocate ROCm", read_weights },
    { 0 }
};
