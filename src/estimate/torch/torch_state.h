/* What an optimizer keeps of each weight, by the weight's shape; of known models and of recorded steps. */
#pragma once

#include "estimate/torch/torch.h"

/* Moments, as many numbers each as the weight has. */
int torch_moments(const torch_settings *s);

/* Bytes of the state of a weight of (rows, columns), columns 0: a vector, whose numbers have `width` bytes. Of
 * masters that stand apart too. Whole, not a share. */
double torch_state_of(const torch_settings *s, double rows, double columns, double width);
