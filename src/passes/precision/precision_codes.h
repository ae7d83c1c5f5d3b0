/* Weights of products as codes of 8 bits with a scale for each of their outputs, NAME and NAME_scale, and the
 * products on them (ops/matmul_int8): the values beside them are quantized as they are read, and so is what
 * flows back. There is no copy of a weight in f32: the optimizer widens one for its update and rounds it
 * again, stochastically, with the scale that it then has (autodiff/optimizer.c). Gradients, moments,
 * embeddings with what is tied to them, biases and all between the products stay f32. */
#pragma once

#include "ir/rewrite.h"
#include "ops/matmul_int8/matmul_int8.h"
#include "passes/linear.h"
#include "passes/pass.h"

/* Is there a product with weights of its own? */
bool precision_codes_apply(const graph *g);

/* Do sums over either dimension of the weight fit into 32 bits? The gradient of data sums over the outputs.
 */
bool precision_codes_fit(const graph *g, tensor_id weight);

status precision_codes_run(const graph *in, const pass_context *c, graph *out);

/* ---- for weights that stay floats ---- */

/* The product `id` of r->in as one on codes, without an op's shapes changing; `in` in r->out. */
tensor_id precision_codes_product(rewrite *r, node_id id, const matmul_int8_inputs *in);

/* The input that random bits come from. */
tensor_id precision_codes_key(graph *out);
