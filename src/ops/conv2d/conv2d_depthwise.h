/* Convolutions of each channel by itself, by vectors over channels, in the order that packed products have:
 * taps from 0 by fused multiply-adds. Taps outside of the image are left out: they would add zeros. */
#pragma once

#include "ir/op.h"

bool conv2d_depthwise_accepts(const op_call *c);
bool conv2d_data_depthwise_accepts(const op_call *c);
bool conv2d_weights_depthwise_accepts(const op_call *c);
void conv2d_depthwise_run(const op_call *c);
void conv2d_data_depthwise_run(const op_call *c);
void conv2d_weights_depthwise_run(const op_call *c);
uint64_t conv2d_depthwise_scratch(const op_call *c, int threads);
uint64_t conv2d_data_depthwise_scratch(const op_call *c, int threads);
