/* Sums over rows on a GPU, as gradients of biases and of weights that were broadcast are: several blocks
 * share a column and pass their parts on in a buffer. PyTorch's aten/src/ATen/native/cuda/Reduce.cuh; to the
 * byte at all of 438 sums that were measured (bench/results/gpu_trace.md). */
#pragma once

#include "estimate/torch/torch.h"

/* Bytes of the buffer for the sum of `rows` rows of so many columns; 0: one block does a column. */
uint64_t torch_sum_buffer(const torch_settings *s, int64_t rows, int64_t columns);
