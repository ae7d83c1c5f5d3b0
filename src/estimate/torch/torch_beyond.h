/* What a program may do that no rule plays: torch.compile, which fuses calls and computes some again, and
 * cudnn.benchmark, whose first use of a convolution tries every algorithm. The interval reaches to what was
 * measured of them, and a sentence says so. */
#pragma once

#include "base/text.h"
#include "estimate/framework.h"

/* Widens r, which was played without. */
void torch_reach_beyond(const framework_subject *q, const torch_settings *s, torch_result *r);

/* Bytes by which the upper end of what is reserved goes up where nobody says how long samples are. They are
 * no reason not to fit: what lies in pieces is given back before a request fails. */
uint64_t torch_unequal_adds(const torch_settings *s, const torch_result *r);

/* One sentence for each, and for samples of unequal lengths where all are taken to be as long. */
void torch_describe_beyond(const framework_subject *q, const torch_settings *s, text *out);

/* STATUS_INVALID with a sentence where one of them is not for such a model or device. */
status torch_check_beyond(const framework_subject *q, const torch_settings *s);
