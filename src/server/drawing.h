/* Fields of a request that say how its tokens are drawn, beyond those that generate has: biases, logarithms
 * of probabilities, and what the answer must be. */
#pragma once

#include "server/job.h"
#include "text/template/template.h"

/* Each takes the value of its field. STATUS_INVALID with a sentence for one that makes no sense. */
status drawing_min_p(job *j, const template_value *v);
status drawing_presence_penalty(job *j, const template_value *v);
status drawing_frequency_penalty(job *j, const template_value *v);
/* {"50256": -100}: added to the logits of these ids, below `vocabulary`. */
status drawing_bias(job *j, const template_value *v, int64_t vocabulary);
/* Of completions: so many likeliest; of chats: true, and so many beside. */
status drawing_logprobs(job *j, const template_value *v);
status drawing_top_logprobs(job *j, const template_value *v);
/* {"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "json_schema": {"schema": {...}}}. */
status drawing_format(job *j, const template_value *v);

/* Once all fields are read; the name of the one that is wrong goes to *field. */
status drawing_check(job *j, const char **field);
