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

static bool read_xpu(span s, span all, oom *o) {
    (void)s, (void)all;
    o->backend = OOM_ON_XPU;
    return true;
}

/* Also said of a failed call for another reason. */
static bool read_npu(span s, span all, oom *o) {
    (void)s, (void)all;
    o->backend = OOM_ON_NPU;
    return true;
}

/* Paddle's: Cannot allocate 96.000244MB memory on GPU 0, 5.928284GB memory has been allocated and available
 * memory is only 65.687500MB. */
static bool read_paddle(span s, span all, oom *o) {
    (void)all;
    span available = span_behind(s, "available memory is only ");
    o->tried = span_size(span_behind(s, "annot allocate "));
    o->gpu = span_count(span_behind(s, "memory on GPU "), -1);
    o->allocated = span_size_before(s, " memory has been allocated");
    o->free = span_size(available);
    o->free_said = available.at != NULL;
    return o->tried > 0;
}

const oom_message oom_messages_bare[] = {
    { OOM_NCCL, "failure 'out of memory'", read_nccl },
    { OOM_NCCL, "ailure 2 'out of memory'", read_nccl },
    { OOM_NCCL, "ailed to CUDA calloc", read_nccl },
    { OOM_NCCL, "ailed to CUDA host alloc", read_nccl },
    { OOM_CUDA, "_STATUS_ALLOC_FAILED", read_library },
    { OOM_CUDA, "CUFFT_ALLOC_FAILED", read_library },
    { OOM_CUDA, "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", read_library },
    { OOM_CUDA, "rocblas_status_memory_error", read_library },
    { OOM_CUDA, "reate cublas handle", read_handle },
    { OOM_CUDA, "reate cudnn handle", read_handle },
    { OOM_CUDA, "BLAS_STATUS_NOT_INITIALIZED", read_handle },
    { OOM_CUDA, "CUDNN_STATUS_NOT_INITIALIZED", read_handle },
    { OOM_CUDA, "CUSOLVER_STATUS_NOT_INITIALIZED", read_handle },
    { OOM_CUDA, "when calling `cusolverDnCreate", read_handle },
    { OOM_CUDA, "Unable to find a valid cuDNN algorithm", read_handle },
    { OOM_CUDA, "Failed to get convolution algorithm", read_handle },
    { OOM_CUDA, "unable to find an engine to execute", read_handle },
    { OOM_CUDA, "No algorithm worked", read_handle },
    { OOM_CUDA, "DNN library initialization failed", read_handle },
    { OOM_CUDA, "Out of memory error on GPU", read_paddle },
    { OOM_CUDA, "CUDA error: out of memory", NULL },
    { OOM_CUDA, "CUDA driver error: out of memory", NULL },
    { OOM_CUDA, "HIP error: out of memory", read_hip },
    { OOM_CUDA, "CUDA_ERROR_OUT_OF_MEMORY", NULL },
    { OOM_CUDA, "cudaErrorMemoryAllocation", NULL },
    { OOM_CUDA, "hipErrorOutOfMemory", read_hip },
    { OOM_CUDA, "ROCm error: out of memory", read_hip },
    { OOM_CUDA, "OUT_OF_DEVICE_MEMORY", read_xpu },
    { OOM_CUDA, "PI_ERROR_OUT_OF_RESOURCES", read_xpu },
    { OOM_CUDA, "UR_RESULT_ERROR_OUT_OF_RESOURCES", read_xpu },
    { OOM_CUDA, "is out of device memory on current platform", read_xpu },
    { OOM_CUDA, "lloc device memory failed", read_npu },
    { OOM_CUDA, "Memory_Allocation_Failure", read_npu },
    { OOM_CUDA, "rtMalloc fail", read_npu },
    { OOM_CUDA, "error=2 : out of memory", NULL },
    { OOM_CUDA, "untime error (2) : out of memory", NULL },
    { OOM_CUDA, "untime error(2):out of memory", NULL },
    { OOM_CUDA, "NVML_SUCCESS == r INTERNAL ASSERT FAILED", NULL },
    { OOM_BITSANDBYTES, "Error out of memory at line", NULL },
    /* of these capital and small letters are alike */
    { OOM_WORDS, "outofmemory", NULL },
    { OOM_WORDS, "out of memory", NULL },
    { OOM_WORDS, "out-of-memory", NULL },
    { OOM_WORDS, "out of GPU memory", NULL },
    { OOM_WORDS, "out of CUDA memory", NULL },
    { OOM_WORDS, "out of video memory", NULL },
    { OOM_WORDS, "out of device memory", NULL },
    { OOM_WORDS, "out of VRAM", NULL },
    { OOM_WORDS, "out of RAM", NULL },
    { OOM_WORDS, "out of system memory", NULL },
    { OOM_WORDS, "insufficient memory", NULL },
    { OOM_WORDS, "insufficient VRAM", NULL },
    { OOM_WORDS, "enough memory", NULL },
    { OOM_WORDS, "enough GPU memory", NULL },
    { OOM_WORDS, "enough GPU video memory", NULL },
    { OOM_WORDS, "enough GPU RAM", NULL },
    { OOM_WORDS, "enough VRAM", NULL },
    { OOM_WORDS, "allocate memory for requested buffer", NULL }, /* ONNX Runtime's */
    { OOM_WORDS, "memory not enough", NULL },
    { OOM_WORDS, "memory error", NULL },
    { OOM_WORDS, "to avoid fragmentation", NULL }, /* PyTorch's message without its beginning */
    { OOM_WORDS, "CUDA out of", NULL },            /* and cut */
    { OOM_WORDS, "OOM", NULL },
    { OOM_WORDS, "\xe6\x98\xbe\xe5\xad\x98\xe4\xb8\x8d",
      NULL }, /* Chinese: the device's memory is not enough */
    { OOM_WORDS, "\xe6\x98\xbe\xe5\xad\x98\xe6\xba\xa2", NULL }, /* overflows */
    { OOM_WORDS, "\xe7\x88\x86\xe6\x98\xbe\xe5\xad\x98", NULL }, /* bursts */
    { 0 }
};
