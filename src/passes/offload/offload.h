/* What the parts of the technique share. Each is a rewriting of its own: what one puts in a file, the others
 * leave alone. */
#pragma once

#include "passes/pass.h"

/* Fewer elements, or bytes of activations, are not worth a transfer of their own. */
enum { OFFLOAD_SMALL = 4096, OFFLOAD_SMALL_BYTES = 64 << 10 };

/* Stored weights of f32 of which products read copies of 16 bits (offload_masters.c). */
bool offload_any_master(const graph *g);
/* Are there some, but their updates have to see them whole? */
bool offload_masters_whole(const graph *g);
status offload_masters(const graph *in, graph *out);

/* Gradients that wait for their update or for the next micro-batch (offload_gradients.c). The graph is that
 * of a finished program. */
bool offload_any_gradient(const graph *g);
status offload_gradients(const graph *in, graph *out);
