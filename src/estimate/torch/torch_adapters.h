/* Low-rank adapters in PyTorch: beside which products they stand, what their weights are, what they call. */
#pragma once

#include "estimate/torch/torch_calls.h"

/* x of (rows, inner) times a weight of (out, inner), with a bias or without (0). */
typedef struct {
    tape_value x, weight, bias;
    int64_t inner, out;
} torch_product;

/* Whether an adapter stands beside this weight. `in_block`: a product of the blocks reads it. */
bool torch_is_target(const torch_settings *s, const char *weight, bool in_block);
/* To be asked where no weight is a target: STATUS_INVALID, with the modules there are. */
status torch_no_target(const graph *g, const torch_settings *s, const bool *in_block);
/* Bytes of a number that is coded in 4 bits, with its scales; and of those alone. */
double torch_code_width(const torch_settings *s);
double torch_scales_width(const torch_settings *s);
/* Bytes of a number of an adapter. */
double torch_adapter_width(const torch_settings *s);

/* Magnitudes of a weight: as many as its product's results have columns. */
int64_t torch_magnitudes(const graph *g, tensor_id weight);

/* base(x) + B(A(dropout(x))) * scaling, as the PEFT library has it: y, made of x, with what the adapter adds.
 */
tape_value torch_adapted(torch_reading *r, const torch_product *p, tape_value y);
/* y, which `ids` looked up in a table of (rows, width), with what an adapter of the table adds. */
tape_value torch_adapted_rows(torch_reading *r, tape_value ids, tape_value y, int64_t rows, int64_t width);
/* A of (rank, inner) or B of (out, rank), trained. */
tape_value torch_adapter_weight(torch_reading *r, int64_t elements);
