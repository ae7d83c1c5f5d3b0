/* Seconds of torchtitan's step: what a device multiplies by the share of its rates that products reach, what
 * its kernels move through its memory, and what devices send each other, where nothing hides it. No constant
 * belongs to one run; titan_time.c says where each comes from, bench/results/titan.md how good it is.
 *
 * Papers: Shah et al., FlashAttention-3, arXiv:2407.08608 (how fast its predecessor is); Narayanan et al.,
 * arXiv:2104.04473 (a pipeline's idle time); Korthikanti et al., arXiv:2205.05198 (what tensors send). */
#pragma once

#include "estimate/hardware.h"
#include "estimate/titan/titan.h"

/* Seconds of a step on the device that the others wait for; they add up to `step`. */
typedef struct {
    double products, attention;
    double memory;  /* kernels that wait for the device's memory, and FSDP's copies */
    double sending; /* that nothing hides: of tensors, contexts, FSDP */
    double update;
    double idle;   /* of a pipeline, while it fills and empties */
    double begins; /* where kernels take longer to begin than to run */
    double step;
    double tokens; /* of a second, for each device; low and high: between these lie published runs */
    double tokens_low, tokens_high;
} titan_time;

/* `t` is of the same settings. NULL, or a sentence: why there is no rule. */
const char *titan_time_find(const model_config *c, const titan_settings *s, const hardware *h,
                            const titan_result *t, titan_time *r);
