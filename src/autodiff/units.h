/* Units of samples: the sums of each begin at zero, and are added to those of the units before it. Then one
 * process has the bits of several, each of which has some of the units (docs/design.md, "Ranks"). */
#pragma once

#include "ir/graph.h"

#define UNITS_LOSS "batch_loss" /* the result (1) f32: the sum of the losses of all units */

/* Behind autodiff_run: adds the loss and each parameter's gradient to sums that outlive a program, and puts
 * these sums into *loss and gradient[]. The loss of the unit is cleared. `tensors` as autodiff_run saw it.
 * New: the result UNITS_LOSS, and "units.NAME" by parameter. All nodes are of PHASE_REDUCE. */
status units_append(graph *g, tensor_id *loss, tensor_id *gradient, uint32_t tensors);

/* All of that in place: what reduces stands right behind the last node that it waits for, so that what it has
 * read need not live any longer. `out` is open and empty. */
status units_settle(const graph *in, graph *out);

/* Behind the updates: the sums of gradients begin again at zero. (Those of losses the host clears.) */
status units_clear(graph *g, const tensor_id *gradient, uint32_t tensors);
