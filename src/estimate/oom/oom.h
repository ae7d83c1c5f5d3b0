/* What PyTorch, vLLM, llama.cpp, TensorFlow, JAX, CUDA, NCCL, Slurm or the kernel said when memory ran out,
 * read from whatever was pasted around it: tracebacks, ranks, times; and why it was. Sizes that a message
 * does not have are 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    OOM_NONE,  /* no such message */
    OOM_TORCH, /* "CUDA out of memory. Tried to allocate ..." of any version, HIP's, NPU's, XPU's, MPS's */
    OOM_VLLM_LENGTH,   /* the longest text does not fit the cache of keys and values */
    OOM_VLLM_NO_CACHE, /* nothing is left for it */
    OOM_VLLM_NOT_FREE, /* others hold what was to be used */
    OOM_VLLM_WARM_UP,  /* the activations of a trial run did not fit */
    OOM_LLAMA_CPP,     /* cudaMalloc failed */
    OOM_HOST,          /* an allocation of the host's memory that failed */
    OOM_TENSORFLOW,    /* "OOM when allocating tensor", "failed to allocate ... from device" */
    OOM_XLA,           /* RESOURCE_EXHAUSTED of JAX and of PyTorch/XLA */
    OOM_NCCL,          /* NCCL found no room on the device */
    OOM_CUDA,          /* CUDA or one of its libraries, without a number */
    OOM_BITSANDBYTES,  /* "Error out of memory at line": host or device */
    OOM_SHARED,        /* /dev/shm is full */
    OOM_KILLED,        /* the system killed a process for the host's memory */
    OOM_WORDS,         /* somebody's own words */
    OOM_KINDS
} oom_kind;

/* Whose device: whose variables and tools are named. */
typedef enum {
    OOM_ON_CUDA,
    OOM_ON_HIP,
    OOM_ON_XPU,
    OOM_ON_NPU,
    OOM_ON_MPS,
    OOM_ON_TPU,
    OOM_ON_HOST,
    OOM_BACKENDS
} oom_backend;

/* How the message writes sizes: "1.00 GiB", "1.00 GB" and "1.00G" of the same bytes, "1024.00 MiB" and
 * "1048576kb" of any size. */
typedef enum { OOM_GIB, OOM_GB, OOM_G, OOM_MIB, OOM_KB } oom_units;

/* The variable of PyTorch's allocator that the message names. */
typedef enum { OOM_NO_CONF, OOM_CUDA_CONF, OOM_HIP_CONF, OOM_PLAIN_CONF } oom_conf;

/* Where the run was, from the traceback; of frames within each other the one that says most. */
typedef enum {
    OOM_NOWHERE, /* not said */
    OOM_FORWARD,
    OOM_BACKWARD,
    OOM_OPTIMIZER,
    OOM_ATTENTION, /* where scores of all pairs of tokens are made */
    OOM_LOSS,      /* where logits of the vocabulary are */
    OOM_VALIDATION,
    OOM_SAVING,
    OOM_LOADING,
    OOM_GENERATION,
    OOM_CACHING, /* where a server makes room for keys and values */
    OOM_PLACES
} oom_place;

/* What failed of llama.cpp's three. */
typedef enum { OOM_PART_UNKNOWN, OOM_PART_WEIGHTS, OOM_PART_CACHE, OOM_PART_COMPUTE } oom_part;

/* How a process was killed. */
typedef enum {
    OOM_KILL_NONE,
    OOM_KILL_SIGNAL, /* by signal 9: most often for memory, and nothing says so */
    OOM_KILL_LIMIT,  /* by Slurm, PBS or a control group, whose limit it crossed */
    OOM_KILL_SYSTEM, /* by the kernel, whose memory was full */
} oom_kill;

typedef struct {
    oom_kind kind;
    oom_backend backend;
    oom_units units;
    oom_conf conf;
    bool expandable;                 /* the message offers expandable segments: they are in that version */
    int64_t gpu;                     /* -1: not said */
    uint64_t tried, total, free;     /* bytes */
    bool free_said;                  /* free of 0 bytes is not the same as none told */
    uint64_t allocated, unallocated; /* by PyTorch: in tensors; reserved, in none */
    bool held_said;                  /* both of them stand there */
    uint64_t pools;                  /* of allocated: in private pools, as of CUDA graphs */
    uint64_t process, others;        /* this process with all that is not PyTorch's; other processes */
    uint64_t unclear; /* of processes of which one is this one, and it is not known which; others is 0 then */
    uint64_t allowed; /* what the process may have, where that was said */
    uint64_t program; /* XLA: all buffers of the compiled program */
    uint64_t piece;   /* XLA on a TPU: the largest that is free in one piece */
    int64_t length, room;       /* vLLM: of the longest text; tokens that the cache holds */
    uint64_t needed, available; /* vLLM: bytes of the cache */
    double utilization;         /* vLLM: in (0, 1]; 0: not said */
    oom_part part;
    bool library; /* OOM_CUDA: a library's handle or workspace */
    bool handle;  /* OOM_CUDA: it could not be made, and nothing says that memory was why */
    bool killed;  /* the system killed a process for the host's memory, whatever else was said */
    oom_kill kill;
    oom_place place;
    bool each_rank;  /* OOM_LOADING: from a file with devices in it, which every rank loads to the same one */
    bool fused;      /* OOM_ATTENTION: by way of PyTorch's, which makes scores only where it must */
    bool pinned;     /* OOM_CUDA: where the host's memory is pinned */
    bool told_place; /* `place` is what somebody says, and no frame shows it */
    bool told_library; /* a title names a library that found no room */
    bool told_host;    /* somebody says that it was the machine's memory */
    bool grew;         /* figures of memory in the log grow from line to line */
    bool told_leak;    /* somebody says that it grows, or that many steps went well */
} oom;

/* What can be said of it. */
typedef enum {
    OOM_FULL,         /* tensors fill the device */
    OOM_FRAGMENTED,   /* enough is reserved and in no tensor, and no piece of it is large enough */
    OOM_OTHERS,       /* without the other processes it would fit */
    OOM_TOO_LARGE,    /* one request larger than the device */
    OOM_BY_OPTIMIZER, /* state or temporaries of the update */
    OOM_BY_ATTENTION,
    OOM_BY_LOSS,
    OOM_BY_VALIDATION,
    OOM_BY_SAVING,
    OOM_BY_LOADING,
    OOM_LEAK,
    OOM_LIMIT,   /* a limit lower than the device */
    OOM_OUTSIDE, /* what is not the framework's: a library's workspace */
    OOM_CACHE,   /* keys and values */
    OOM_OF_HOST, /* the host's memory */
    OOM_SHM,     /* shared memory between processes of the host */
    OOM_UNSAID,  /* the text does not say */
    OOM_CAUSES
} oom_cause;

typedef struct {
    oom_cause cause;
    bool sure; /* numbers or lines of the text show it; else it is the likeliest */
} oom_verdict;

/* What to ask for; bits. */
enum { OOM_ASK_REST = 1, OOM_ASK_TRACEBACK = 2, OOM_ASK_DEVICE = 4, OOM_ASK_SYSTEM = 8 };

/* The last message in `bytes` (which need not end with a zero) of the kind that says most. False: there is
 * none; what stands in a program, between zeros, is none. */
bool oom_read(const char *bytes, size_t count, oom *out);
oom_verdict oom_why(const oom *o);
uint64_t oom_short(const oom *o); /* bytes that were missing */
uint64_t
oom_unaccounted(const oom *o); /* bytes of the device that the message gives to nobody; 0: not known */
bool oom_pieces_serve(
    const oom *o); /* what lies in pieces is as large as the request, and what is free is not */
unsigned oom_missing(const oom *o); /* what to ask for: OOM_ASK_... */
