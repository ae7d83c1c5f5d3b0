/* What PyTorch, vLLM, llama.cpp, JAX, CUDA or Slurm said when memory ran out, read from whatever was pasted
 * around it: tracebacks, ranks, times. Sizes that a message does not have are 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    OOM_NONE,          /* no such message */
    OOM_TORCH,         /* "CUDA out of memory. Tried to allocate ..." of any version, HIP's too */
    OOM_VLLM_LENGTH,   /* the longest text does not fit the cache of keys and values */
    OOM_VLLM_NO_CACHE, /* nothing is left for it */
    OOM_VLLM_NOT_FREE, /* others hold what was to be used */
    OOM_LLAMA_CPP,     /* cudaMalloc failed */
    OOM_TORCH_CPU,     /* PyTorch on the CPU: the host's memory */
    OOM_JAX,           /* RESOURCE_EXHAUSTED */
    OOM_CUDA,          /* CUDA or one of its libraries, without a number */
    OOM_KILLED,        /* the system killed a process for the host's memory */
    OOM_KINDS
} oom_kind;

typedef struct {
    oom_kind kind;
    int64_t gpu;                     /* -1: not said */
    uint64_t tried, total, free;     /* bytes */
    uint64_t allocated, unallocated; /* by PyTorch: in tensors; reserved, in none */
    uint64_t pools;                  /* of allocated: in private pools, as of CUDA graphs */
    uint64_t process, others;        /* this process with all that is not PyTorch's; other processes */
    uint64_t unclear; /* of processes of which one is this one, and it is not known which; others is 0 then */
    int64_t length, room;       /* vLLM: of the longest text; tokens that the cache holds */
    uint64_t needed, available; /* vLLM: bytes of the cache */
    double utilization;         /* vLLM: in (0, 1]; 0: not said */
    bool killed; /* the system killed a process for the host's memory, whatever else was said */
} oom;

/* What can be said of it. */
typedef enum {
    OOM_FULL,       /* tensors fill the device */
    OOM_FRAGMENTED, /* enough is reserved and in no tensor, and no piece of it is large enough */
    OOM_OTHERS,     /* without the other processes it would fit */
    OOM_TOO_LARGE,  /* one request larger than the device */
} oom_cause;

/* The last message in `bytes` (which need not end with a zero) of the kind that says most. False: there is
 * none; what stands in a program, between zeros, is none. */
bool oom_read(const char *bytes, size_t count, oom *out);
oom_cause oom_why(const oom *o);
uint64_t oom_short(const oom *o); /* bytes that were missing */
