#include "estimate/megatron/megatron_calls.h"

#include <math.h>

enum { HALF = 2, WIDE = 4, INDEX = 8 }; /* bytes of bf16, f32 and i64 */

typedef struct {
    const megatron_shape *m;
    const megatron_settings *s;
    array *calls;
    status failed;
    double tokens; /* of a micro-batch on this device, before tensors are divided */
    double own; /* those between products: divided among `tensor` devices as well with --sequence-parallel */
    double residual; /* bytes of a layer's input */
    double whole;    /* ... of all tokens */
    double gathered; /* ... while it is gathered before a product; 0: it is there */
    double shards;   /* tensor */
} writer;

static void put(writer *w, const char *what, double kept, double forward, double backward) {
    uint32_t place;
    if (w->failed == STATUS_OK) w->failed = array_add(w->calls, 1, &place);
    if (w->failed == STATUS_OK)
        ((megatron_call *)w->calls->data)[place] = (megatron_call){ what, kept, forward, backward };
}

static bool runs_again(const writer *w, megatron_module which) { return w->s->again >> which & 1u; }

/* Of bytes that a module would keep: those that it keeps, or has again in backward. */
static double kept_of(const writer *w, megatron_module which, double bytes) {
    return runs_again(w, which) ? 0 : bytes;
}

/* Makes one call of those from `from` on: it keeps its input alone, which the first of them counts as kept,
 * and computes them again in backward. `beside`: the input is kept by another call. */
static void fold(writer *w, uint32_t from, const char *what, double input, bool beside) {
    megatron_call *calls = w->calls->data;
    double kept = 0, forward = 0, again = 0;
    if (w->failed != STATUS_OK || from == w->calls->count) return;
    for (megatron_call *c = calls + from; c < calls + w->calls->count; c++) {
        kept += c->kept;
        forward = fmax(forward, c->forward + c->kept);
        again = fmax(again, kept + fmax(c->forward, c->backward));
    }
    w->calls->count = from;
    put(w, what, beside ? 0 : input, forward, beside ? again : again - input);
}

/* ---- attention ---- */

typedef struct {
    double queries, keys, values, out; /* bytes, on this device */
    double sums;                       /* a number in f32 for each query of each head */
} attention;

static attention attention_of(const writer *w) {
    const megatron_shape *m = w->m;
    double heads = (double)m->heads / w->shards, rows = w->tokens * HALF;
    double kv = (double)m->kv_heads / w->shards;
    double size = (double)(m->head_size + m->turned), value = (double)m->value_size;
    attention a = { .sums = w->tokens * heads * WIDE };
    a.queries = rows * heads * size;
    a.keys = rows * (m->kv_rank ? heads : kv) * size;
    a.values = m->kv_rank ? rows * heads * value : a.keys;
    a.out = m->kv_rank ? rows * heads * value : a.queries;
    return a;
}

/* What else contexts take. By an all-to-all (arXiv:2309.14509) queries, keys and values stay as they arrived,
 * the output before it goes back; both lie in another order once more while they move. In a ring
 * (arXiv:2310.01889) each step's output stays until all are joined, and two blocks of keys and values move.
 */
typedef struct {
    double kept, moving;
} exchange;

static exchange exchange_of(const writer *w, const attention *a) {
    if (w->s->contexts < 2) return (exchange){ 0, 0 };
    if (w->s->context_kind == MEGATRON_ALL_TO_ALL) return (exchange){ a->out, 2 * a->queries };
    return (exchange){ 0, (double)w->s->contexts * a->out + 2 * (a->keys + a->values) };
}

/* `made`: bytes that are there until the projection is done, of what queries, keys and values were cut from.
 */
static void put_core(writer *w, double made) {
    attention a = attention_of(w);
    exchange x = exchange_of(w, &a);
    double inputs = a.queries + a.keys + a.values,
           again = runs_again(w, MEGATRON_CORE_ATTENTION) ? a.out + a.sums : 0;
    double latent = w->m->kv_rank ? inputs : 0, anew = latent - kept_of(w, MEGATRON_UP_PROJECTIONS, latent);
    put(w, "attention", inputs - anew + a.out + kept_of(w, MEGATRON_CORE_ATTENTION, a.sums),
        made + x.moving + anew,
        w->residual + a.out + inputs + WIDE / HALF * a.queries + x.moving + again + anew);
    put(w, "projection", x.kept, made + anew + w->whole, w->residual + w->gathered + a.out);
}

static void put_attention(writer *w) {
    attention a = attention_of(w);
    double sums = w->own * WIDE * (w->m->layer_norm ? 2 : 1);
    double made = a.queries + a.keys + a.values, before = w->m->head_norms ? a.queries + a.keys : 0;
    put(w, "queries, keys, values", 2 * w->residual + sums, w->gathered + made,
        2 * w->residual + w->gathered + made + w->whole);
    put(w, "rotation", before, made + 2 * a.queries + a.keys, w->residual + 2 * made);
    put_core(w, made);
}

/* Latent attention. The products down to the latents are whole on each device, of its own tokens. */
static void put_latent(writer *w) {
    const megatron_shape *m = w->m;
    attention a = attention_of(w);
    double rows = w->own * HALF, sums = w->own * WIDE, all = a.queries + a.keys + a.values;
    double kv = w->tokens * HALF * (double)m->heads / w->shards * (double)(m->head_size + m->value_size);
    double latents = rows * (2 * (double)m->q_rank + 2 * (double)m->kv_rank + (double)m->turned);
    double wide = w->gathered > 0 ? w->tokens * HALF * (double)(m->q_rank ? m->q_rank : m->channels) : 0;
    double norm = kept_of(w, MEGATRON_NORMS, w->residual);
    put(w, "norm", w->residual + sums + norm, 0, 2 * w->residual + (w->residual - norm));
    put(w, "down to latents", 0, latents, 2 * w->residual + latents);
    put(w, "up from latents", latents + sums, wide + a.queries + kv + all, w->residual + wide + 2 * all + kv);
    put_core(w, 0);
}

/* ---- feed-forward ---- */

static double factor_of(const megatron_shape *m) { return m->gated ? 2 : 1; }

static void put_feed(writer *w) {
    double inner = w->tokens * HALF * (double)w->m->inner / w->shards, made = factor_of(w->m) * inner;
    double sums = w->own * WIDE * (w->m->layer_norm ? 2 : 1);
    uint32_t from = w->calls->count;
    put(w, "first product", 2 * w->residual + sums, w->gathered + made,
        2 * w->residual + w->gathered + w->whole + made);
    put(w, "activation", made, inner, w->residual + inner + made);
    put(w, "second product", inner, w->whole, w->residual + w->gathered + inner);
    if (runs_again(w, MEGATRON_FEED)) fold(w, from, "feed-forward again", w->residual, false);
}

/* Rows that this device sends to all experts, which are chosen evenly. */
static double sent_rows(const writer *w) {
    double experts = (double)w->m->experts, even = w->own * (double)w->m->chosen / experts;
    double most = even * w->s->capacity;
    if (!(w->s->capacity > 0)) return experts * even;
    return experts * (w->s->pads ? ceil(most) : fmin(even, most));
}

/* Experts. The rows in the order of experts, as they arrived, and, where a device has several experts,
 * sorted: the last of them is the first product's input, the others stay until the layer's forward is done,
 * for its caller's variables hold them. */
static void put_experts(writer *w) {
    const megatron_shape *m = w->m;
    const megatron_settings *s = w->s;
    double several = (double)s->expert_tensor, sent = sent_rows(w) * HALF * (double)m->channels;
    double rows = sent_rows(w) * several, seen = rows * HALF * (double)m->channels;
    double inner = rows * HALF * (double)m->expert_inner / several, made = factor_of(m) * inner;
    bool moves = s->experts > 1, sorts = m->experts > s->experts, gathers = several > 1;
    double held = sorts || gathers ? sent * (moves ? 2 : 1) : moves ? sent : 0, x = w->residual;
    double map = w->own * (2 * (double)m->experts + 1) * 4 + rows * WIDE;
    double act = kept_of(w, MEGATRON_EXPERT_ACTIVATION, inner);
    put(w, "rows to experts", map, held + seen + (sorts && gathers ? seen : 0), x + seen + fmax(seen, sent));
    put(w, "experts' first product", seen, held + made, x + made + seen);
    put(w, "experts' activation", made, held + inner, x + inner + made + (inner - act));
    put(w, "experts' second product", act, held + seen + (inner - act), x + seen + inner);
    put(w, "rows back", 0, held + seen + (sorts || moves ? fmax(seen, sent) : x),
        x + seen + fmax(seen, sent));
}

static void put_shared(writer *w) {
    double inner = w->tokens * HALF * (double)w->m->shared / w->shards, made = factor_of(w->m) * inner;
    uint32_t from = w->calls->count;
    put(w, "shared expert", made + inner, w->gathered + w->whole,
        w->residual + w->gathered + w->whole + inner + made);
    if (runs_again(w, MEGATRON_SHARED_EXPERTS)) fold(w, from, "shared expert again", 0, true);
}

/* The router's softmax in f32, once more for the loss that balances, its probabilities and two maps. */
static void put_mixture(writer *w) {
    const megatron_shape *m = w->m;
    double table = w->own * (double)m->experts, norm = kept_of(w, MEGATRON_NORMS, w->residual);
    put(w, "norm", w->residual + w->own * WIDE + norm, 0, 2 * w->residual + (w->residual - norm));
    uint32_t from = w->calls->count;
    if (m->shared) put_shared(w);
    put(w, "router", table * (3 * WIDE + HALF + 2), table * 2 * WIDE, w->residual + table * 2 * WIDE);
    put_experts(w);
    if (runs_again(w, MEGATRON_EXPERTS)) fold(w, from, "experts again", 0, true);
}

/* ---- layers ---- */

/* Adds what a half made to its input. */
static void put_sum(writer *w) {
    put(w, "sum", w->m->drops ? w->residual / HALF : 0, 2 * w->residual, 2 * w->residual);
}

static void put_layer(writer *w, int64_t layer) {
    if (w->m->kv_rank)
        put_latent(w);
    else
        put_attention(w);
    put_sum(w);
    if (megatron_has_experts(w->m, layer))
        put_mixture(w);
    else
        put_feed(w);
    put_sum(w);
}

/* uniform: so many layers together keep one input; block: the first ones each keep theirs, others keep all.
 */
static void put_layers(writer *w, const megatron_chunk *c) {
    bool full = w->s->recompute == MEGATRON_FULL, block = w->s->method == MEGATRON_BLOCK;
    int64_t group = full && !block && w->s->again_layers ? w->s->again_layers : 1;
    uint32_t from = w->calls->count;
    for (int64_t i = 0; i < c->count; i++) {
        put_layer(w, c->from + i);
        bool ends = (i + 1) % group == 0 || i + 1 == c->count;
        bool again = full && (!block || !w->s->again_layers || i < w->s->again_layers);
        if (again && ends) fold(w, from, group > 1 ? "layers again" : "layer again", w->residual, false);
        if (ends) from = w->calls->count;
    }
}

/* The gradient of the table is one dense tensor before it is added to the sum. */
static void put_embedding(writer *w) {
    const megatron_shape *m = w->m;
    double table = (double)megatron_vocabulary(m, w->s) * (double)m->channels * HALF;
    double positions = m->learns_positions ? (double)m->context * (double)m->channels * HALF : 0;
    put(w, "embedding", w->tokens * INDEX, w->whole + w->residual,
        w->whole + w->residual + fmax(table, positions));
}

/* Logits in bf16; the loss takes them in f32 and keeps their softmax, whose gradient goes back in bf16. TE's
 * writes the gradient over the logits. */
static void put_head(writer *w) {
    double logits = w->tokens * HALF * (double)megatron_vocabulary(w->m, w->s), wide = WIDE / HALF * logits;
    bool over = w->s->loss == MEGATRON_LOSS_TE;
    put(w, "last norm", w->residual + w->own * WIDE, w->residual, 2 * w->residual);
    put(w, "head", w->residual, logits, logits + w->whole + w->residual);
    put(w, "loss", over ? logits : wide, over ? 4 * w->tokens * WIDE : logits, over ? 0 : logits);
}

status megatron_write(const megatron_shape *m, const megatron_settings *s, const megatron_chunk *c,
                      array *calls) {
    writer w = { .m = m, .s = s, .calls = calls, .shards = (double)s->tensor };
    w.tokens = (double)s->batch * (double)s->context / (double)s->contexts;
    w.own = s->sequence ? w.tokens / w.shards : w.tokens;
    w.residual = w.own * HALF * (double)m->channels;
    w.whole = w.tokens * HALF * (double)m->channels;
    w.gathered = s->sequence && s->tensor > 1 ? w.whole : 0;
    if (c->first) put_embedding(&w);
    put_layers(&w, c);
    if (c->last) put_head(&w);
    return w.failed;
}

int64_t megatron_vocabulary(const megatron_shape *m, const megatron_settings *s) {
    int64_t multiple = s->divisible * s->tensor;
    return (m->vocabulary + multiple - 1) / multiple * multiple / s->tensor;
}
