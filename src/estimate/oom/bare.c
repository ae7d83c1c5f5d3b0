/* Messages without numbers: CUDA's own, its libraries', NCCL's, and people's words. */
#include "estimate/oom/readers.h"

static bool read_library(span s, span all, oom *o) {
    (void)s, (void)all;
    o->library = true;
    return true;
}

static bool read_handle(span s, span all, oom *o) {
    o->handle = true;
    return read_library(s, all, o);
}

static bool read_nccl(span s, span all, oom *o) {
    (void)all;
    o->tried = span_size(span_behind(s, "Failed to CUDA calloc "));
    return true;
}

static bool read_hip(span s, span all, oom *o) {
    (void)s, (void)all;
    o->backend = OOM_ON_HIP;
    return true;
}

const oom_message oom_messages_bare[] = { { OOM_NCCL, "Cuda failure 'out of memory'", read_nccl },
                                          { OOM_NCCL, "Cuda failure 2 'out of memory'", read_nccl },
                                          { OOM_CUDA, "_STATUS_ALLOC_FAILED", read_library },
                                          { OOM_CUDA, "CUFFT_ALLOC_FAILED", read_library },
                                          { OOM_CUDA, "reate cublas handle failed", read_handle },
                                          { OOM_CUDA, "CUBLAS_STATUS_NOT_INITIALIZED", read_handle },
                                          { OOM_CUDA, "CUDNN_STATUS_NOT_INITIALIZED", read_handle },
                                          { OOM_CUDA, "Unable to find a valid cuDNN algorithm", read_handle },
                                          { OOM_CUDA, "Failed to get convolution algorithm", read_handle },
                                          { OOM_CUDA, "unable to find an engine to execute", read_handle },
                                          { OOM_CUDA, "CUDA error: out of memory", NULL },
                                          { OOM_CUDA, "CUDA driver error: out of memory", NULL },
                                          { OOM_CUDA, "HIP error: out of memory", read_hip },
                                          { OOM_CUDA, "CUDA_ERROR_OUT_OF_MEMORY", NULL },
                                          { OOM_CUDA, "cudaErrorMemoryAllocation", NULL },
                                          { OOM_CUDA, "hipErrorOutOfMemory", read_hip },
                                          { OOM_CUDA, "ROCm error: out of memory", read_hip },
                                          { OOM_CUDA, "error=2 : out of memory", NULL },
                                          { OOM_CUDA, "untime error (2) : out of memory", NULL },
                                          { OOM_CUDA, "untime error(2):out of memory", NULL },
                                          { OOM_CUDA, "NVML_SUCCESS == r INTERNAL ASSERT FAILED", NULL },
                                          { OOM_BITSANDBYTES, "Error out of memory at line", NULL },
                                          { OOM_WORDS, "OutOfMemoryError", NULL },
                                          { OOM_WORDS, "out of memory", NULL },
                                          { OOM_WORDS, "Out of Memory", NULL },
                                          { OOM_WORDS, "Out Of Memory", NULL },
                                          { OOM_WORDS, "Out of memory", NULL },
                                          { OOM_WORDS, "OutofMemoryError", NULL },
                                          { OOM_WORDS, "outofmemory", NULL },
                                          { OOM_WORDS, "out of GPU memory", NULL },
                                          { OOM_WORDS, "out of CUDA memory", NULL },
                                          { OOM_WORDS, "out of VRAM", NULL },
                                          { OOM_WORDS, "Insufficient Memory", NULL },
                                          { OOM_WORDS, "OOM", NULL },
                                          { OOM_WORDS, "oom", NULL },
                                          { 0 } };
