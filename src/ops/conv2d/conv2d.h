/* Convolution of images with channels last: y[b,i,j,o] = bias[o] + sum over (u,v,c) of x[b, i s + u - p,
 * j s + v - p, c] w[o,c,u,v], with zeros outside of the image. With g groups, output o sees the input
 * channels of its own group; with as many groups as channels each channel is by itself. Weights have the
 * layout of torch.nn.Conv2d. Paper: LeCun et al., "Gradient-based learning applied to document recognition"
 * (1998). */
#pragma once

#include "ir/op.h"

typedef struct {
    int32_t stride, padding, groups;
} conv2d_attributes;

typedef struct {
    conv2d_attributes of;
    int32_t height, width; /* conv2d_data: of x; conv2d_weights: of the kernel */
    int32_t type;          /* conv2d_weights: dtype of dw; 0: that of x */
} conv2d_backward_attributes;

/* x (B,H,W,C), w (O,C/g,U,V), bias (O)? -> y (B,(H+2p-U)/s+1,(W+2p-V)/s+1,O) */
extern const op_def op_conv2d;
extern const op_def op_conv2d_data;    /* dy, w -> dx */
extern const op_def op_conv2d_weights; /* x, dy, accumulator? must -> dw */
extern const op_kernel conv2d_cpu[], conv2d_data_cpu[], conv2d_weights_cpu[];
extern const op_kernel conv2d_cuda[], conv2d_data_cuda[], conv2d_weights_cuda[];

tensor_id conv2d_apply(graph *g, tensor_id x, tensor_id w, tensor_id bias, const conv2d_attributes *a);
