/* What the descriptions of attentions share: the inputs and cases of forward, the inputs of attention_flash's
 * backward, and the words that cases of backward are written with. */
#pragma once

#include "ops/attention/attention.h"

enum { ATTENTION_INPUTS = 8 };
extern const op_input attention_inputs_of_forward[ATTENTION_INPUTS];
extern const op_case attention_cases_of_forward[];

enum { ATTENTION_FLASH_BACKWARD_INPUTS = 11 };
extern const op_input attention_flash_backward_inputs[ATTENTION_FLASH_BACKWARD_INPUTS];

extern const attention_attributes attention_case_plain, attention_case_causal, attention_case_dropped,
    attention_case_grouped, attention_case_window, attention_case_capped, attention_case_one;

#define ATTENTION_REAL(...)                                                                                  \
    { DTYPE_F32, { { __VA_ARGS__ }, 3 }, -1, 1 }
#define ATTENTION_HALF(type, ...)                                                                            \
    { type, { { __VA_ARGS__ }, 3 }, -1, 1 }
#define ATTENTION_NONE                                                                                       \
    { DTYPE_NONE, { { 0 }, 0 }, 0, 0 }
#define ATTENTION_LENGTHS(b, s)                                                                              \
    { DTYPE_I32, { { b }, 1 }, 0, (s) + 1 }
#define ATTENTION_SEGMENTS(b, t)                                                                             \
    { DTYPE_I32, { { b, t }, 2 }, 0, 3 }
#define ATTENTION_OFFSET(o)                                                                                  \
    { DTYPE_I32, { { 1 }, 1 }, o, (o) + 1 }
#define ATTENTION_KEY                                                                                        \
    { DTYPE_I32, { { 4 }, 1 }, -2147483648.0, 2147483647.0 }
