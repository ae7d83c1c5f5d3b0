/* Biases of scores by distance, as T5 has them. */
#include "estimate/torch/torch_calls.h"
#include "ir/op.h"
#include "ops/attention/attention.h"
#include "ops/relative_bias/relative_bias.h"

/* Numbers of buckets (i64, kept) are looked up in the table as (T,S,H), and seen as (H,T,S). */
static void read_relative_bias(torch_reading *r, const node *n) {
    const shape *s = graph_shape(r->g, node_out(r->g, n, 0));
    tape_value table = torch_in(r, n, 0);
    torch_set(r, n,
              torch_call(r,
                         (tape_call){ .what = "embedding",
                                      .in = { table },
                                      .kept = (uint64_t)(s->dim[1] * s->dim[2]) * 8 },
                         shape_elements(s), torch_width(r, table)));
}

/* Under checkpointing they have a gradient of their own, so they stay until backward is done with them. */
void torch_make_zeros(torch_reading *r, const node *n) {
    const attention_attributes *a = node_attributes(r->g, n);
    if (r->zeros || node_in(r->g, n, ATTENTION_BIAS)) return;
    const shape *q = graph_shape(r->g, node_in(r->g, n, 0)), *k = graph_shape(r->g, node_in(r->g, n, 1));
    tape_call call = { .what = "zeros", .keeps_out = r->s->checkpointing };
    r->zeros = torch_call(r, call, a->heads * q->dim[1] * k->dim[1], r->s->types == TORCH_F32 ? 4 : 2);
    tape_at(r->t, r->zeros)->held = true;
    tape_at(r->t, r->zeros)->wants = r->s->checkpointing;
}

tape_value torch_bias(const torch_reading *r, const node *n) {
    return node_in(r->g, n, ATTENTION_BIAS) ? torch_in(r, n, ATTENTION_BIAS) : r->zeros;
}

/* Laid out head by head, for each block anew; zeros are so already. */
tape_value torch_mask_of_bias(torch_reading *r, tape_value bias) {
    if (!torch_wants(r, bias)) return bias;
    return torch_call(r, (tape_call){ .what = "contiguous", .in = { bias } }, torch_elements(r, bias),
                      torch_width(r, bias));
}

const torch_rule torch_rules_distances[] = { { &op_relative_bias, read_relative_bias }, { 0 } };
