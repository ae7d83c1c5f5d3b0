/* One call of an attention op as its kernels see it: sizes, where each head's rows are, and which keys a
 * query sees. The reference asks key by key; the fast kernels ask for ranges. */
#pragma once

#include <math.h>

#include "base/philox.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_math.h"

/* Row r = b*length + t, head h of an operand: element first + r*stride + h*D. */
typedef struct {
    const op_arg *arg;
    int64_t first, stride;
} attention_place;

typedef struct {
    attention_sizes n;
    attention_place q, k, v;
    attention_sight sight;
    const op_arg *bias;    /* (H,T,S); NULL where absent */
    const philox_key *key; /* likewise */
    double scale;
    float dropout, cap;
    uint32_t stream;
} attention_view;

/* Lengths, segments, offset, key and bias are the inputs side .. side+4. Where data pointers are not set yet,
 * only sizes and attributes mean something. */
attention_view attention_view_of(const op_call *c, uint32_t side);

/* Where a backward op writes: the parts of its packed output, or its three outputs. */
typedef struct {
    attention_place q, k, v;
    const op_arg *bias; /* NULL: no such */
} attention_outputs;
attention_outputs attention_view_outputs(const attention_view *v, const op_call *c);

/* (B,T,HD) operands. */
attention_place attention_view_rows(const attention_view *v, const op_arg *arg);

static inline int64_t attention_element(const attention_view *v, const attention_place *p, int64_t row,
                                        int64_t head) {
    return p->first + row * p->stride + head * v->n.size;
}

static inline float *attention_f32(const attention_view *v, const attention_place *p, int64_t row,
                                   int64_t head) {
    return (float *)p->arg->data + attention_element(v, p, row, head);
}

/* What dropout multiplies the probability of query t and key s with. */
double attention_view_keeps(const attention_view *v, int64_t b, int64_t h, int64_t t, int64_t s);
