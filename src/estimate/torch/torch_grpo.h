/* A step of TRL's GRPOTrainer (arXiv:2402.03300): texts are made, their chances are computed by the model and
 * by the reference, and the model learns from them. These phases follow each other on one device, so the
 * largest one counts; what stays between them is in each.
 *
 * Read in trl 1.16: trainer/grpo_trainer.py, trainer/utils.py (add_fused_lm_head),
 * kernels/chunked_logprob.py, generation/vllm_generation.py. docs/estimate.md has the rules in words. */
#pragma once

#include "base/text.h"
#include "estimate/torch/torch_calls.h"

/* Micro-batches whose texts are made at once, and texts of these on one device. */
int64_t torch_grpo_passes(const torch_settings *s);
int64_t torch_grpo_texts(const torch_settings *s);
/* The model's own chances are computed apart from training: texts are older than an update, or vLLM's. */
bool torch_grpo_has_old(const torch_settings *s);
/* A second model stands beside the trained one; of adapters the base is the reference. */
bool torch_grpo_has_reference(const torch_settings *s);

/* ---- for the reading of a step ---- */

/* Adds what lies on the device beside the model: the reference, vLLM, the texts, a cache. */
void torch_grpo_beside(torch_reading *r);
/* The head and the loss: chances of the completions' tokens, of logits that are made tile by tile. x: what
 * the head reads; w: its weight. Of a pass that makes texts, a token is drawn instead. */
void torch_grpo_loss(torch_reading *r, tape_value x, tape_value w, int64_t vocabulary);

/* ---- the whole ---- */

/* r has the step of training, and gets the phases; live bytes, reserved ones and terms become those of the
 * largest. */
status torch_grpo_phases(const model *m, const torch_settings *s, torch_result *r);

/* For people: how texts are made, and what that assumes; nothing where it is another trainer. */
void torch_grpo_describe(const torch_settings *s, text *out);

/* STATUS_INVALID with a sentence: TRL refuses such settings, or nothing is known of them. */
status torch_grpo_check(const model *m, const torch_settings *s, bool decodes);
