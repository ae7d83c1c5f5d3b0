/* What a device holds besides the training step: while weights or a checkpoint are loaded, while one is
 * saved, while the model is validated or continues texts. In live bytes. docs/estimate.md has the sources. */
#pragma once

#include "estimate/torch/torch.h"

/* Of the step that was estimated. */
typedef struct {
    const torch_settings *s;
    tape *t;                  /* torch_besides_prompt changes it */
    const tape_settings *how; /* with the shares of several devices */
    double trained;           /* bytes of weights that are trained, of the whole model */
    double whole;             /* bytes of all weights, in the type that they compute in */
    double block, outside;    /* bytes of weights: the largest block's, and of those outside of blocks */
} torch_besides_of;

/* Sets all but `generating`. Intervals of what has no rule are 0. */
status torch_besides_find(const torch_besides_of *q, torch_besides *r);

/* Whether generate has a rule for these settings. */
bool torch_generates(const torch_settings *s);
/* A first pass over prompts as long as the tape's context: live bytes without what is kept of keys and
 * values. Logits are those of the last tokens alone, but for `older` libraries, which made all. */
status torch_besides_prompt(const torch_besides_of *q, uint64_t *bytes);
/* Keys and values of `tokens` tokens of each text, of layers with a window no more than it; `joins`: and one
 * layer's keys once more, while the last token's are joined to them. */
uint64_t torch_cache_bytes(const torch_settings *s, int64_t tokens, bool joins);

/* What has no rule, as sentences; returns how many. */
enum { TORCH_BESIDES_UNKNOWN = 4 }; /* at most */
int torch_besides_unknown(const torch_settings *s, const char *out[TORCH_BESIDES_UNKNOWN]);
