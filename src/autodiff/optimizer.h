/* The update nodes of a training step, behind its gradients: step count, clipping, one update per parameter.
 */
#pragma once

#include "ir/graph.h"

typedef enum {
    OPTIMIZER_ADAMW,
    OPTIMIZER_SGD,
    OPTIMIZER_ADAFACTOR,
    OPTIMIZER_LION,
    OPTIMIZER_COUNT
} optimizer_kind;
#define OPTIMIZER_WORDS "adamw, sgd, adafactor, lion" /* as users write them, in that order */

typedef struct {
    optimizer_kind kind;
    double beta1, beta2; /* AdamW, Lion */
    double eps;          /* AdamW */
    double momentum;     /* SGD; 0: no buffer */
    double weight_decay; /* of parameters flagged TENSOR_DECAY */
    double clip;         /* largest norm of all gradients together; 0: off */
} optimizer_options;

enum { OPTIMIZER_OWN = -1 }; /* as beta1 or beta2: what is usual for this optimizer */

const char *optimizer_name(optimizer_kind kind);  /* "adamw" */
const char *optimizer_title(optimizer_kind kind); /* "AdamW" */
bool optimizer_takes_narrow(optimizer_kind kind); /* weights of 16 bits? */

/* The same with numbers in place of OPTIMIZER_OWN, and with 0 for what this optimizer has no use for. */
optimizer_options optimizer_settle(optimizer_options o);

/* `o` is settled. `gradient`: by tensor, as autodiff_run filled it. `loss` (0: none) is looked at where no
 * norm is taken: a step in which the norm, or else the loss, is not finite changes no weight and no state.
 * Parameters without a gradient are left alone. A weight that is codes of 8 bits, with its scales in the
 * parameter NAME_scale, is widened for its update and becomes codes again. New sources: input "learning_rate"
 * (1); state "optimizer.step" (1) i32 where the optimizer counts, "gradient_scale.good_steps" (1) i32 where
 * gradients are scaled, and what it keeps by parameter: "adamw.m.NAME" and "adamw.v.NAME", "sgd.buffer.NAME",
 * "lion.m.NAME", "adafactor.rows.NAME" with "adafactor.columns.NAME" for matrices and "adafactor.v.NAME" for
 * vectors. With clipping the kept result "gradient_norm" (1). */
status optimizer_append(graph *g, const optimizer_options *o, tensor_id loss, const tensor_id *gradient,
                        uint32_t tensors);
