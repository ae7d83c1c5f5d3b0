/* Which products a weight of their own belongs to: what quantization is about. Such a weight is
 * not an adapter's nor bare (TENSOR_BARE), and nothing reads it but products, in its own type or as a
 * narrower copy. Embeddings, and projections that are tied to one, are none: they share a table. */
#pragma once

#include "ir/graph.h"

typedef struct {
    const graph *g;
    bool *otherwise; /* by tensor: something else than a product reads it */
    bool *table; /* by tensor: it is the table of embeddings and of products tied to them, of nothing else */
} linear_products;

status linear_open(const graph *g, linear_products *l);
void linear_close(linear_products *l);

/* The weight of this product; 0: it has none, or is no product. */
tensor_id linear_weight(const linear_products *l, node_id id);
/* Of such a product: its weight lies as (out, in), not as (in, out), so its outputs are rows. */
bool linear_by_rows(const linear_products *l, node_id id);
bool linear_any(const linear_products *l);

/* The table that this embedding picks rows of, or whose rows are the outputs of this product; 0: neither. */
tensor_id linear_table(const linear_products *l, node_id id);

/* How the parameter of this name lies for the first product that reads it; false where none does. */
bool linear_reads_by_rows(const graph *g, const char *weight);
