/* What an optimizer keeps of each weight, by the weight's shape; of known models and of recorded steps. */
#pragma once

#include "estimate/torch/torch.h"

/* Moments, as many numbers each as the weight has. */
int torch_moments(const torch_settings *s);

typedef struct {
    double rows, columns; /* columns 0: a vector */
    double width;         /* bytes of its numbers */
    bool in_block;
} torch_weight;

/* Bytes of its state; of masters that stand apart too. Whole, not a share. */
double torch_state_of(const torch_settings *s, const torch_weight *w);
/* Bytes that its update needs for a while, where one weight is updated after the other. */
double torch_update_of(const torch_settings *s, const torch_weight *w);
