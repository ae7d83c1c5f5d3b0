/* A block of attention_flash's forward with products of bf16 as it is
 * (ops/attention/attention_pairs_forward.h). */
#pragma once

#include "ops/attention/attention_pairs_forward.h"

extern const attention_pairs_way attention_flash_pairs;
