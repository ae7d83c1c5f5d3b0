/* Products on floats of 8 bits (ops/matmul_fp8): what a product with a weight of its own multiplies becomes
 * e4m3 where it is made, once for all products that read it; weights become e4m3 as they are read; what flows
 * back becomes e5m2. So backward finds codes instead of numbers of 16 bits. Heads, whose results a loss or
 * the host reads, routers of experts and embeddings stay what they are, as in arXiv:2412.19437. */
#pragma once

#include "ir/rewrite.h"
#include "ops/matmul/matmul.h"
#include "passes/linear.h"

/* Is there a product that would be made on codes? */
bool precision_fp8_apply(const graph *g);

/* Would product `id` be? */
bool precision_fp8_takes(const linear_products *l, node_id id);

/* The product of `in` (in r->out), which has neither accumulator nor `ta`, on codes of a. *codes: those of a,
 * made where it is 0. */
tensor_id precision_fp8_product(rewrite *r, const matmul_inputs *in, tensor_id *codes);
