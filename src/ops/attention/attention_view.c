#include "ops/attention/attention_view.h"

attention_view attention_view_of(const op_call *c, uint32_t side) {
    const attention_attributes *a = c->attributes;
    const op_arg *q = op_in(c, 0), *k = op_in(c, 1), *v = op_in(c, 2);
    bool packed = k->dtype == DTYPE_NONE;
    attention_view view = { .n = attention_sizes_of(&q->shape, packed ? NULL : &k->shape, a),
                            .bias = op_in(c, side + 4)->dtype == DTYPE_NONE ? NULL : op_in(c, side + 4),
                            .key = op_in(c, side + 3)->data,
                            .dropout = a->dropout,
                            .cap = a->cap,
                            .stream = (uint32_t)a->stream };
    const attention_sizes *n = &view.n;
    int64_t width = n->heads * n->size, kv_width = n->kv_heads * n->size, all = width + 2 * kv_width;
    view.scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)n->size);
    view.q = packed ? (attention_place){ q, 0, all } : (attention_place){ q, 0, width };
    view.k = packed ? (attention_place){ q, width, all } : (attention_place){ k, 0, kv_width };
    view.v = packed ? (attention_place){ q, width + kv_width, all } : (attention_place){ v, 0, kv_width };
    view.sight = (attention_sight){ .queries = n->queries,
                                    .keys = n->keys,
                                    .window = a->window,
                                    .lengths = op_in(c, side)->data,
                                    .segments = op_in(c, side + 1)->data,
                                    .offset = op_in(c, side + 2)->data,
                                    .causal = a->causal != 0 };
    return view;
}

attention_outputs attention_view_outputs(const attention_view *v, const op_call *c) {
    attention_outputs out = { v->q, v->k, v->v, NULL };
    out.q.arg = &c->out[0];
    bool packed = v->k.arg == v->q.arg;
    out.k.arg = packed ? &c->out[0] : &c->out[1];
    out.v.arg = packed ? &c->out[0] : &c->out[2];
    if (v->bias) out.bias = &c->out[packed ? 1 : 3];
    return out;
}

attention_place attention_view_rows(const attention_view *v, const op_arg *arg) {
    return (attention_place){ arg, 0, v->n.heads * v->n.size };
}

double attention_view_keeps(const attention_view *v, int64_t b, int64_t h, int64_t t, int64_t s) {
    if (!(v->dropout > 0)) return 1;
    uint32_t word = philox_word(v->key, v->stream, (uint32_t)b, attention_pair(&v->sight, h, t, s));
    return philox_uniform(word) >= v->dropout ? 1 / (1 - (double)v->dropout) : 0;
}
