/* What a process holds of a device after each step of using it: the context, its limits, allocations,
 * streams, kernels, graphs and the libraries of CUDA. Prints a table; nobody else may use the device
 * meanwhile.
 *
 *   nvcc -O2 -std=c++17 -arch=sm_90 context.cu -o context
 *   ./context; CUDA_MODULE_LOADING=EAGER ./context
 *
 * Libraries are opened when their step comes, so that each one's share is seen. LD_LIBRARY_PATH says where
 * they are, where the system doesn't know: those of PyTorch are in site-packages/nvidia. A library that is
 * not there leaves its steps out. */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double MIB = 1 << 20;

static void check(int code, const char *call) {
    if (!code) return;
    printf("%s failed: %d\n", call, code);
    exit(1);
}
#define CHECK(CALL) check((int)(CALL), #CALL)

static void *open_library(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!library) printf("| no %s | | | | |\n", name);
    return library;
}
/* Of the type that the header says. */
#define FIND(LIBRARY, NAME) decltype(&NAME) NAME##_ = (decltype(&NAME))dlsym(LIBRARY, #NAME)

/* ---- what is held ---- */

/* Of nvml.h, which comes with drivers and not with every toolkit. */
struct nvml_memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct nvml_process {
    unsigned pid;
    unsigned long long used;
    unsigned instance, compute_instance;
};
static const unsigned NVML_MEMORY_V2 = sizeof(nvml_memory) | 2 << 24;

struct watch {
    void *device;
    int (*memory)(void *, nvml_memory *);
    int (*processes)(void *, unsigned *, nvml_process *);
    unsigned long long first, last;
    bool context; /* the runtime may be asked: before, asking would make one */
};
static watch now;

static unsigned long long used(void) {
    nvml_memory memory = {};
    memory.version = NVML_MEMORY_V2;
    CHECK(now.memory(now.device, &memory));
    return memory.used;
}

static double used_by_process(void) {
    nvml_process list[64];
    unsigned count = 64;
    if (!now.processes || now.processes(now.device, &count, list)) return -1;
    for (unsigned i = 0; i < count; i++)
        if (list[i].pid == (unsigned)getpid()) return (double)list[i].used / MIB;
    return 0;
}

static void begin(void) {
    void *library = open_library("libnvidia-ml.so.1");
    if (!library) exit(1);
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    int (*find)(unsigned, void **) =
        (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    now.memory = (decltype(now.memory))dlsym(library, "nvmlDeviceGetMemoryInfo_v2");
    now.processes = (decltype(now.processes))dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    CHECK(init());
    CHECK(find(0, &now.device));
    now.first = now.last = used();
}

static void after(const char *step) {
    size_t free = 0, total = 0;
    if (now.context) CHECK(cudaDeviceSynchronize());
    if (now.context) CHECK(cudaMemGetInfo(&free, &total));
    unsigned long long held = used();
    printf("| %s | %.2f | %.2f | %.2f | %.2f |\n", step, (double)(long long)(held - now.last) / MIB,
           (double)(long long)(held - now.first) / MIB, used_by_process(), (double)(total - free) / MIB);
    fflush(stdout);
    now.last = held;
}

/* ---- kernels ---- */

__global__ void plain(float *p) { p[threadIdx.x] = 1; }

/* 16 KiB of local memory a thread, which the driver has to have for all threads that can run at once */
__global__ void wide(float *p, int n) {
    volatile float own[4096];
    for (int i = 0; i < 4096; i++) own[(i * n) & 4095] = p[i & 31] * n;
    p[threadIdx.x] = own[n & 4095];
}

__global__ void printing(int n) {
    if (n < 0) printf("%d\n", n);
}

__global__ void allocating(int n) {
    if (n < 0) free(malloc((size_t)-n));
}

/* ---- steps ---- */

static void context_and_limits(void) {
    const struct {
        cudaLimit limit;
        const char *name;
    } limits[] = { { cudaLimitStackSize, "stack of a thread" },
                   { cudaLimitPrintfFifoSize, "what printf holds" },
                   { cudaLimitMallocHeapSize, "heap of kernels" } };
    size_t bytes;
    CHECK(cudaFree(0));
    now.context = true;
    after("context (cudaFree(0))");
    for (int i = 0; i < 3; i++) {
        CHECK(cudaDeviceGetLimit(&bytes, limits[i].limit));
        printf("| limit: %s: %zu bytes | | | | |\n", limits[i].name, bytes);
    }
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 0));
    after("stack's limit cut to 0");
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 1024));
    after("and set to 1 KiB again");
    CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 16));
    after("printf's limit cut to 64 KiB");
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 16));
    after("heap's limit cut to 64 KiB");
}

static float *allocations(void) {
    float *p[4];
    CHECK(cudaMalloc(&p[0], 1));
    after("cudaMalloc of 1 byte");
    CHECK(cudaMalloc(&p[1], 1));
    after("a second one");
    CHECK(cudaMalloc(&p[2], 1 << 20));
    after("cudaMalloc of 1 MiB");
    CHECK(cudaMalloc(&p[3], (2 << 20) + 1));
    after("cudaMalloc of 2 MiB and a byte");
    CHECK(cudaFree(p[3]));
    after("its cudaFree");
    return p[2];
}

static void allocated_as_pages(void) {
    void *driver = open_library("libcuda.so.1");
    if (!driver) return;
    FIND(driver, cuMemGetAllocationGranularity);
    FIND(driver, cuMemAddressReserve);
    FIND(driver, cuMemCreate);
    FIND(driver, cuMemMap);
    FIND(driver, cuMemSetAccess);
    CUmemAllocationProp properties = {};
    size_t least, best;
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemGetAllocationGranularity_(&least, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(cuMemGetAllocationGranularity_(&best, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    printf("| pages (cuMemCreate): %zu bytes at least, %zu recommended | | | | |\n", least, best);
    CHECK(cuMemAddressReserve_(&address, 1ull << 40, 0, 0, 0));
    after("1 TiB of addresses reserved");
    CHECK(cuMemCreate_(&handle, 64 << 20, &properties, 0));
    after("64 MiB of pages made");
    CUmemAccessDesc access = { properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CHECK(cuMemMap_(address, 64 << 20, 0, handle, 0));
    CHECK(cuMemSetAccess_(address, 64 << 20, &access, 1));
    after("and mapped");
}

static cudaStream_t streams_and_kernels(float *p) {
    cudaStream_t stream[8];
    for (int i = 0; i < 8; i++) CHECK(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
    after("8 streams");
    plain<<<1, 32>>>(p);
    after("first kernel");
    for (int i = 0; i < 8; i++) plain<<<1, 32, 0, stream[i]>>>(p);
    after("the same on 8 streams");
    printing<<<1, 32>>>(1);
    after("a kernel that can print");
    allocating<<<1, 32>>>(1);
    after("a kernel that can allocate");
    wide<<<1, 32>>>(p, 3);
    after("a kernel with 16 KiB of local memory a thread");
    return stream[0];
}

static void graphs(float *p, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 1000; i++) plain<<<1, 32, 0, stream>>>(p);
    CHECK(cudaStreamEndCapture(stream, &graph));
    after("a graph of 1,000 kernels captured");
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    after("and instantiated");
    CHECK(cudaGraphLaunch(ready, stream));
    after("and launched");
}

struct product {
    cudaDataType type;
    size_t element;
    int side;
    size_t workspace;
    const char *name;
};

static void lt_product(void *library, cublasLtHandle_t handle, void *workspace, product p) {
    FIND(library, cublasLtMatmulDescCreate);
    FIND(library, cublasLtMatrixLayoutCreate);
    FIND(library, cublasLtMatmulPreferenceCreate);
    FIND(library, cublasLtMatmulPreferenceSetAttribute);
    FIND(library, cublasLtMatmulAlgoGetHeuristic);
    FIND(library, cublasLtMatmul);
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    float one = 1, zero = 0;
    size_t elements = (size_t)p.side * p.side;
    char *a, text[160];
    CHECK(cudaMalloc(&a, 3 * elements * p.element));
    CHECK(cudaMemset(a, 0, 3 * elements * p.element));
    after("    (its operands)");
    char *b = a + elements * p.element, *c = b + elements * p.element;
    CHECK(cublasLtMatmulDescCreate_(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK(cublasLtMatrixLayoutCreate_(&layout, p.type, p.side, p.side, p.side));
    CHECK(cublasLtMatmulPreferenceCreate_(&wish));
    CHECK(cublasLtMatmulPreferenceSetAttribute_(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p.workspace,
                                                sizeof p.workspace));
    CHECK(cublasLtMatmulAlgoGetHeuristic_(handle, how, layout, layout, layout, layout, wish, 1, &found,
                                          &count));
    CHECK(cublasLtMatmul_(handle, how, &one, a, layout, b, layout, &zero, c, layout, c, layout, &found.algo,
                          workspace, p.workspace, 0));
    snprintf(text, sizeof text, "cuBLASLt: %s, %d x %d; of %zu MiB of workspace it wants %zu bytes", p.name,
             p.side, p.side, p.workspace >> 20, found.workspaceSize);
    after(text);
    CHECK(cudaFree(a));
    after("    (operands freed)");
}

static void products(void) {
    void *lt = open_library("libcublasLt.so.13");
    if (!lt) return;
    after("libcublasLt opened");
    FIND(lt, cublasLtCreate);
    cublasLtHandle_t handle;
    void *workspace;
    CHECK(cudaMalloc(&workspace, 32 << 20));
    after("32 MiB for a workspace");
    CHECK(cublasLtCreate_(&handle));
    after("cublasLtCreate");
    lt_product(lt, handle, workspace, { CUDA_R_32F, 4, 1024, 32 << 20, "f32" });
    lt_product(lt, handle, workspace, { CUDA_R_32F, 4, 4096, 32 << 20, "f32" });
    lt_product(lt, handle, workspace, { CUDA_R_16BF, 2, 1024, 32 << 20, "bf16" });
    lt_product(lt, handle, workspace, { CUDA_R_16BF, 2, 4096, 32 << 20, "bf16" });
    lt_product(lt, handle, workspace, { CUDA_R_16BF, 2, 4096, 0, "bf16" });
    void *library = open_library("libcublas.so.13");
    if (!library) return;
    FIND(library, cublasCreate_v2);
    FIND(library, cublasSetWorkspace_v2);
    FIND(library, cublasSgemm_v2);
    cublasHandle_t cublas;
    CHECK(cublasCreate_v2_(&cublas));
    after("libcublas opened, cublasCreate");
    float one = 1, zero = 0, *a = (float *)workspace;
    CHECK(cublasSgemm_v2_(cublas, CUBLAS_OP_N, CUBLAS_OP_N, 512, 512, 512, &one, a, 512, a, 512, &zero,
                          a + (1 << 20), 512));
    after("cuBLAS: f32, 512 x 512, its own workspace");
    CHECK(cublasSetWorkspace_v2_(cublas, workspace, 32 << 20));
    after("cublasSetWorkspace");
}

static void convolution(void *library, cudnnHandle_t handle, cudnnDataType_t type, const char *name) {
    FIND(library, cudnnCreateTensorDescriptor);
    FIND(library, cudnnSetTensor4dDescriptor);
    FIND(library, cudnnCreateFilterDescriptor);
    FIND(library, cudnnSetFilter4dDescriptor);
    FIND(library, cudnnCreateConvolutionDescriptor);
    FIND(library, cudnnSetConvolution2dDescriptor);
    FIND(library, cudnnConvolutionForward);
    cudnnTensorDescriptor_t x;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t how;
    char *data;
    float one = 1, zero = 0;
    CHECK(cudaMalloc(&data, 16 << 20));
    CHECK(cudaMemset(data, 0, 16 << 20));
    after("    (its operands)");
    CHECK(cudnnCreateTensorDescriptor_(&x));
    CHECK(cudnnCreateFilterDescriptor_(&w));
    CHECK(cudnnCreateConvolutionDescriptor_(&how));
    CHECK(cudnnSetTensor4dDescriptor_(x, CUDNN_TENSOR_NCHW, type, 8, 64, 32, 32));
    CHECK(cudnnSetFilter4dDescriptor_(w, type, CUDNN_TENSOR_NCHW, 64, 64, 3, 3));
    CHECK(cudnnSetConvolution2dDescriptor_(how, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CHECK(cudnnConvolutionForward_(handle, &one, x, data, w, data + (4 << 20), how,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0, &zero, x,
                                   data + (8 << 20)));
    after(name);
}

static void cudnn(void) {
    void *library = open_library("libcudnn.so.9");
    if (!library) return;
    after("libcudnn opened");
    FIND(library, cudnnCreate);
    cudnnHandle_t handle;
    CHECK(cudnnCreate_(&handle));
    after("cudnnCreate");
    convolution(library, handle, CUDNN_DATA_FLOAT, "cuDNN: convolution, f32");
}

static void communicator(cudaStream_t stream) {
    void *library = open_library("libnccl.so.2");
    if (!library) return;
    after("libnccl opened");
    FIND(library, ncclGetUniqueId);
    FIND(library, ncclCommInitRank);
    FIND(library, ncclAllReduce);
    FIND(library, ncclCommDestroy);
    ncclUniqueId id;
    ncclComm_t all;
    float *p;
    CHECK(cudaMalloc(&p, 1 << 20));
    CHECK(ncclGetUniqueId_(&id));
    CHECK(ncclCommInitRank_(&all, 1, id, 0));
    after("NCCL: a communicator of one rank, and 1 MiB");
    CHECK(ncclAllReduce_(p, p, 1 << 18, ncclFloat, ncclSum, all, stream));
    after("NCCL: first all-reduce");
    CHECK(ncclCommDestroy_(all));
    after("NCCL: communicator destroyed");
}

/* The images of libraries are what module loading has to choose from. */
static void files(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096], last[4096] = "";
    struct stat file;
    printf("\n| library | file, MiB |\n|---|---|\n");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (!path || !strstr(path, ".so")) continue;
        path[strcspn(path, "\n")] = 0;
        if (!strcmp(path, last) || stat(path, &file) || file.st_size < 1 << 20) continue;
        strcpy(last, path);
        printf("| %s | %.1f |\n", strrchr(path, '/') + 1, (double)file.st_size / MIB);
    }
    if (maps) fclose(maps);
}

int main(void) {
    int driver = 0, runtime = 0;
    const char *loading = getenv("CUDA_MODULE_LOADING");
    begin(); /* asking for versions starts the driver already */
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDriverGetVersion(&driver));
    printf("CUDA runtime %d, driver's CUDA %d, module loading %s\n\n", runtime, driver,
           loading ? loading : "LAZY");
    printf("| step | more, MiB | in all, MiB | of the process, MiB | not free for the runtime, MiB |\n");
    printf("|---|---|---|---|---|\n");
    after("versions asked for");
    context_and_limits();
    float *p = allocations();
    allocated_as_pages();
    cudaStream_t stream = streams_and_kernels(p);
    graphs(p, stream);
    products();
    cudnn();
    communicator(stream);
    files();
    return 0;
}
