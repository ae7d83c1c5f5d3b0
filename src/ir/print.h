/* A graph as text, for people and for tests: sources first, then one line per node in order.
 *
 *     %3 = parameter 'w' (768,768) f32 trainable decay
 *     %12 = matmul(%3 'x', %4 'w', -, -, %9) #5c1f02aa (768,768) f32 in %9 backward block 2
 *     %13 (4,256,768) f32 keep, %14 (4,256) f32 = layernorm(...) forward block 2
 *
 * `-` is an absent optional input, `in %9 +64` where a result shares the storage of another tensor, the
 * number behind the inputs a digest of the attributes. So equal texts mean equal graphs. */
#pragma once

#include "base/text.h"
#include "ir/graph.h"

void print_graph(const graph *g, text *out); /* adds to `out` */
