#include "estimate/torch/torch_process.h"

enum { MIB = 1 << 20 };

/* Measured step by step on an H100 with PyTorch 2.11 (bench/results/gpu.md): the first kernel's module, which
 * may print, 92 MiB; cuBLAS's handle with the first product, 66; one more for autograd's thread, 64. At least
 * what forward alone takes. At most what it is where images of kernels are loaded at once and not when they
 * are first called. CUDA before 11.7 knows nothing else, before 12.2 it is the default, but PyTorch asks for
 * the other from 1.13 on (pytorch#86509), unless CUDA_MODULE_LOADING=EAGER is said. */
static const interval libraries = { 158 * MIB, 224 * MIB, 1312 * MIB };

/* The same where all are loaded at once. A first tensor took, in MiB, beyond the context of our device's
 * file, 993 on a V100 with 1.10 (huggingface.co/docs/transformers/perf_train_gpu_one of 2022) and 1,337 on an
 * RTX 3090 with 1.8 (pytorch#55277); with the context 992 on a card that is not named, with 1.10
 * (pytorch#74536). Two handles of cuBLAS are 128 more, as on the H100, and its images, of which those
 * versions' are not known, up to the H100's 454. Least: the card that is not named, with an A100's context.
 * Likely: the V100. Most: the RTX 3090, with images. */
static const interval all_libraries = { 690 * MIB, 1121 * MIB, 1920u * MIB };

/* cuDNN's handle and the first convolution; its images where all are loaded. */
static const interval convolutions = { 0, 16 * MIB, 220 * MIB },
                      all_convolutions = { 16 * MIB, 220 * MIB, 600 * MIB };

/* NCCL's buffers: some 10 MiB for each of its channels (4 MiB of the Simple protocol, a few of LL128), of
 * which it opens 2 to 32, and what it maps of its own. */
static const interval collectives = { 64 * MIB, 400 * MIB, 1536u * MIB };

static interval sum(interval a, interval b) {
    return (interval){ a.low + b.low, a.likely + b.likely, a.high + b.high };
}

interval torch_process(bool images, int64_t gpus, bool at_once) {
    interval all = at_once ? all_libraries : libraries;
    if (images) all = sum(all, at_once ? all_convolutions : convolutions);
    return gpus > 1 ? sum(all, collectives) : all;
}
