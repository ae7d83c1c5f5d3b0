/* What one of several devices has of a recorded step: its shares, and what is whole for a while.
 *
 * A unit is a block of the model (recorded_blocks); what is outside of blocks is the root, whose weights are
 * whole from the start of forward to the end of backward. */
#pragma once

#include "estimate/recorded/edit.h"

/* With shard, gpus, host_keeps and masters of `s`. `link`: what a device receives, by collectives that send
 * no more than they must (Thakur, Rabenseifner and Gropp, Optimization of collective communication operations
 * in MPICH, 2005). */
void recorded_share(recorded_edit *e, const torch_settings *s, recorded_link *link);

/* With FSDP and 16 bits: are gradients of the root's weights cast to f32 when they are made? So they are
 * where no result of the model has a gradient of its own, as logits whose loss is computed in pieces outside
 * of the model, at call `loss`; else they come as they are, and are widened when they are sent
 * (FSDPParamGroup's pre_backward, PyTorch 2.15). */
bool recorded_root_is_wide(const recorded_edit *e, const torch_settings *s, uint32_t loss);
