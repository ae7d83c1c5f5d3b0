/* Contradictions of settings that known models and recorded steps have alike: STATUS_INVALID. */
#pragma once

#include "estimate/torch/torch.h"

status torch_check_cut(const torch_settings *s);    /* micro-batches that make no step */
status torch_check_bits(const torch_settings *s);   /* of states, and beside adapters */
status torch_check_shares(const torch_settings *s); /* several devices, and the host */
