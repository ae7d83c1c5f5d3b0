/* When a recorded step updates its weights, and what else it keeps of them. */
#pragma once

#include "estimate/recorded/edit.h"

/* With in_backward of `s` a weight is updated when its gradient is whole, which then goes (hooks of
 * register_post_accumulate_grad_hook); with averages a copy of weights and buffers stands beside them
 * (torch.optim.swa_utils.AveragedModel). */
void recorded_update(recorded_edit *e, const torch_settings *s);
