/* Weights of products and tables of embeddings in 16 bits, and all else in f32: for generating and
 * evaluating, where a step reads every weight once and little else. Products multiply f32 by what the 16 bits
 * stand for, so the numbers are those of the same weights widened beforehand: what a file has in 16 bits is
 * read as it is at no loss, and half of the memory. */
#pragma once

#include "ir/graph.h"

status precision_weights_run(const graph *in, dtype type, graph *out);
