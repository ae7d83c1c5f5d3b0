/* The update nodes of a training step, behind its gradients: step count, clipping, one update per parameter.
 */
#pragma once

#include "ir/graph.h"

typedef enum { OPTIMIZER_ADAMW, OPTIMIZER_SGD } optimizer_kind;

typedef struct {
    optimizer_kind kind;
    double beta1, beta2, eps; /* AdamW */
    double momentum;          /* SGD; 0: no buffer */
    double weight_decay;      /* of parameters flagged TENSOR_DECAY */
    double clip;              /* largest norm of all gradients together; 0: off */
} optimizer_options;

/* `gradient`: by tensor, as autodiff_run filled it. `loss` (0: none) is looked at where no norm is taken: a
 * step in which the norm, or else the loss, is not finite changes no weight and no state. Parameters without
 * a gradient are left alone. New sources: input "learning_rate" (1); state "optimizer.step" (1) i32,
 * "adamw.m.NAME", "adamw.v.NAME" or "sgd.buffer.NAME"; with clipping the kept result "gradient_norm" (1). */
status optimizer_append(graph *g, const optimizer_options *o, tensor_id loss, const tensor_id *gradient,
                        uint32_t tensors);
