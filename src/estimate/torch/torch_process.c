#include "estimate/torch/torch_process.h"

enum { MIB = 1 << 20 };

/* Measured step by step on an H100 with PyTorch 2.11 (bench/results/gpu.md): the first kernel's module, which
 * may print, 92 MiB; cuBLAS's handle with the first product, 66; one more for autograd's thread, 64. At least
 * what forward alone takes. At most what it is where images of kernels are loaded at once and not when they
 * are first called. CUDA before 11.7 knows nothing else, before 12.2 it is the default, but PyTorch asks for
 * the other from 1.13 on (pytorch#86509), unless CUDA_MODULE_LOADING=EAGER is said. */
static const interval libraries = { 158 * MIB, 224 * MIB, 1312 * MIB };

/* cuDNN's handle and the first convolution; its images where all are loaded. */
static const interval convolutions = { 0, 16 * MIB, 220 * MIB };

/* NCCL's buffers: some 10 MiB for each of its channels (4 MiB of the Simple protocol, a few of LL128), of
 * which it opens 2 to 32, and what it maps of its own. */
static const interval collectives = { 64 * MIB, 400 * MIB, 1536u * MIB };

static interval sum(interval a, interval b) {
    return (interval){ a.low + b.low, a.likely + b.likely, a.high + b.high };
}

interval torch_process(bool images, int64_t gpus) {
    interval all = libraries;
    if (images) all = sum(all, convolutions);
    return gpus > 1 ? sum(all, collectives) : all;
}
