/* The logits never exist as a whole: the rows of the last layer go through product, loss, gradient of the
 * loss and both gradient products a chunk at a time, so one chunk of logits is alive instead of two whole
 * matrices. The gradient of the loss does not depend on what comes later (its scale is an input), so nothing
 * is computed twice. Chunks of whole row tiles give the same bits; others only the same mathematics.
 *
 * Without backward (validation) the chunks are product and loss alone. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "ops/concat/concat.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/matmul_int8/matmul_int8.h"
#include "ops/reshape/reshape.h"
#include "ops/slice/slice.h"
#include "ops/softcap/softcap.h"
#include "ops/sum_rows/sum_rows.h"
#include "passes/pass.h"

enum { MAX_READERS = 4, MAX_CHUNKS = 4096 };

/* The nodes around the logits. */
typedef struct {
    node_id product, loss, loss_backward; /* loss_backward 0: a program without backward */
    node_id cap, cap_backward;            /* of the logits; 0: none */
    tensor_id logits, dlogits;            /* as the loss reads them, and as the product's gradients do */
    node_id readers[MAX_READERS];         /* of the logits' gradient */
    uint32_t reader_count;
    int64_t rows, vocabulary;
} head;

/* Products: input 0 has the rows and input 1 a matrix, or in a sum over rows both have them. */
typedef struct {
    const op_def *op;
    uint32_t bars; /* inputs, as bits, that a chunk has no part of, or that may not exist yet at the head */
    uint32_t accumulator; /* of a sum over rows; 0: there are none of this op */
} product_form;

static const product_form *form_of(const node *n) {
    static const product_form forms[] = {
        { &op_matmul, 1u << MATMUL_RESIDUAL | 1u << MATMUL_ACCUMULATOR, MATMUL_ACCUMULATOR },
        { &op_matmul_coded, 1u << MATMUL_CODED_RESIDUAL, 0 },
        { &op_matmul_int8, 1u << MATMUL_INT8_RESIDUAL | 1u << MATMUL_INT8_ACCUMULATOR,
          MATMUL_INT8_ACCUMULATOR },
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].op == n->op) return &forms[i];
    return NULL;
}

static bool is_barred(const graph *g, const node *n) {
    bool barred = false;
    for (uint32_t i = 0; i < n->in_count; i++) barred |= form_of(n)->bars >> i & 1 && node_in(g, n, i);
    return barred;
}

/* Of a product: is it a sum over rows, so that neither result nor operands but the first two are by rows? */
static bool sums_rows(const graph *g, const node *n) {
    if (n->op == &op_matmul) return ((const matmul_attributes *)node_attributes(g, n))->ta != 0;
    return n->op == &op_matmul_int8 && ((const matmul_int8_attributes *)node_attributes(g, n))->ta != 0;
}

static bool turns_second(const graph *g, const node *n) {
    return n->op == &op_matmul && ((const matmul_attributes *)node_attributes(g, n))->tb != 0;
}

static bool reads(const graph *g, const node *n, tensor_id t) {
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(g, n, i) == t) return true;
    return false;
}

/* Can this reader of the logits' gradient work by rows? */
static bool by_rows(const graph *g, const node *n, const node *product, tensor_id dlogits) {
    if (n->op == &op_sum_rows) return true;
    if (!form_of(n) || is_barred(g, n)) return false;
    tensor_id a = node_in(g, n, 0), b = node_in(g, n, 1), x = node_in(g, product, 0);
    if (sums_rows(g, n)) return !turns_second(g, n) && ((a == dlogits && b == x) || (a == x && b == dlogits));
    return a == dlogits && b != dlogits;
}

/* The loss, and what its logits come from. */
static bool find_forward(const graph *g, head *h) {
    for (node_id id = 1; id < g->nodes.count && !h->loss; id++)
        if (graph_node(g, id)->op == &op_cross_entropy) h->loss = id;
    if (!h->loss) return false;
    tensor_id logits = node_in(g, graph_node(g, h->loss), 0);
    if (graph_tensor(g, logits)->flags & TENSOR_KEEP) return false;
    h->logits = logits;
    h->product = graph_tensor(g, logits)->producer;
    if (h->product && graph_node(g, h->product)->op == &op_softcap) {
        h->cap = h->product;
        logits = node_in(g, graph_node(g, h->cap), 0);
        h->product = graph_tensor(g, logits)->producer;
    }
    h->rows = shape_rows(graph_shape(g, logits));
    h->vocabulary = shape_last(graph_shape(g, logits));
    const node *product = graph_node(g, h->product);
    return h->product && form_of(product) && !is_barred(g, product) && !sums_rows(g, product) &&
           !(graph_tensor(g, logits)->flags & TENSOR_KEEP);
}

/* A node after the product that is not of forward: false where chunks cannot serve what it reads. */
static bool take_reader(const graph *g, head *h, node_id id) {
    const node *n = graph_node(g, id), *product = graph_node(g, h->product);
    if (h->dlogits && reads(g, n, h->dlogits)) {
        bool capped = h->cap && !h->cap_backward;
        if (capped && n->op == &op_softcap_backward && node_in(g, n, 0) == h->logits) {
            h->cap_backward = id;
            h->dlogits = node_out(g, n, 0);
            return true;
        }
        if (capped || h->reader_count == MAX_READERS || !by_rows(g, n, product, h->dlogits)) return false;
        h->readers[h->reader_count++] = id;
        return true;
    }
    if (reads(g, n, h->logits)) {
        if (n->op != &op_cross_entropy_backward || h->loss_backward) return false;
        h->loss_backward = id;
        h->dlogits = node_out(g, n, 0);
        return true;
    }
    return !reads(g, n, node_out(g, product, 0));
}

/* False where the graph has no such head, or one that chunks cannot serve. */
static bool find_head(const graph *g, head *h) {
    *h = (head){ 0 };
    if (!find_forward(g, h)) return false;
    for (node_id id = h->product + 1; id < g->nodes.count; id++)
        if (id != h->loss && id != h->cap && !take_reader(g, h, id)) return false;
    return !h->cap || !h->loss_backward || h->cap_backward;
}

/* Does this reader make rows, and not a sum over them? */
static bool makes_rows(const graph *g, const node *n) { return form_of(n) && !sums_rows(g, n); }

/* Is a sum over rows kept in 16 bits, and so rounded after every chunk? */
static bool sums_narrow(const graph *g, const head *h) {
    bool any = false;
    for (uint32_t i = 0; i < h->reader_count; i++) {
        const node *n = graph_node(g, h->readers[i]);
        any |= !makes_rows(g, n) && dtype_is_half((dtype)graph_tensor(g, node_out(g, n, 0))->dtype);
    }
    return any;
}

static pass_setting make_setting(int64_t rows, bool exact) {
    pass_setting s = { .value = { rows },
                       .class = rows % THREADS_ROW_TILE || !exact ? PASS_REASSOCIATING : PASS_EXACT };
    snprintf(s.text, sizeof s.text, "%lld", (long long)rows);
    return s;
}

static status parse(const char *text, pass_setting *out) {
    int64_t rows;
    TRY(units_parse_integer(text, "--chunk-loss", 1, 1 << 24, &rows));
    *out = make_setting(rows, true);
    return STATUS_OK;
}

/* Ranks have shares of all else, and so the head holds the peak: the matrix, its gradient, and logits. Is the
 * tile's part of these worth more chunks, and other bits? A tile's sum over rows begins at zero, so parts of
 * it are added in another order. */
static bool part_of_tile_helps(const graph *g, const head *h, const pass_context *c) {
    enum { WORTH_PART = 10 };
    int64_t width = shape_last(graph_shape(g, node_in(g, graph_node(g, h->product), 0)));
    return c->ranks > 1 && h->loss_backward && WORTH_PART * THREADS_ROW_TILE >= 2 * width;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    enum { WORTH_CHUNKS = 64, WORTH_FACTOR = 4 }; /* more chunks make planning long and save little */
    (void)without;
    head h;
    uint32_t count = 0;
    if (!find_head(g, &h) || h.rows * h.vocabulary < 1 << 18) return 0;
    int64_t tiles = (h.rows + WORTH_CHUNKS * THREADS_ROW_TILE - 1) / (WORTH_CHUNKS * THREADS_ROW_TILE);
    int64_t small = tiles * THREADS_ROW_TILE;
    for (int64_t rows = small * WORTH_FACTOR; rows >= small && count < room; rows /= WORTH_FACTOR)
        if (rows < h.rows) out[count++] = make_setting(rows, !sums_narrow(g, &h));
    if (part_of_tile_helps(g, &h, c) && small == THREADS_ROW_TILE && small < h.rows && count < room)
        out[count++] = make_setting(small / WORTH_FACTOR, false);
    return count;
}

static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    (void)g;
    int64_t rows = c->micro_batch * c->tokens, least = (rows + MAX_CHUNKS - 1) / MAX_CHUNKS;
    if (s->value[0] >= least) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--chunk-loss %lld cuts %lld rows into more than %d chunks; write %lld or more",
                      (long long)s->value[0], (long long)rows, (int)MAX_CHUNKS, (long long)least);
}

/* ---- rewriting ---- */

typedef struct {
    rewrite *r;
    const head *h;
    tensor_id x, labels; /* as (rows, C) and (rows) */
    tensor_id *parts;    /* of the gradient of x: a list of chunks for the reader that makes it */
    tensor_id chains[MAX_READERS], loss; /* what has been accumulated */
    uint32_t chunks;
} chunker;

static tensor_id mapped(const chunker *k, const node *n, uint32_t i) {
    tensor_id t = node_in(k->r->in, n, i);
    return t ? k->r->map[t] : 0;
}

/* Some rows: of what, and from which one on. */
typedef struct {
    tensor_id x, dlogits; /* as rows; dlogits 0: not made yet */
    int64_t start;
} some_rows;

/* A product of these rows; what it sums over them is added to `chain`. */
static tensor_id product_of_rows(const chunker *k, const node *n, const some_rows *of, tensor_id chain) {
    const graph *in = k->r->in;
    const node *product = graph_node(in, k->h->product), *loss = graph_node(in, k->h->loss);
    const shape *labels = graph_shape(in, node_in(in, loss, 1));
    tensor_id inputs[MATMUL_INT8_INPUTS] = { 0 };
    union {
        matmul_attributes plain;
        matmul_coded_attributes coded;
        matmul_int8_attributes int8;
    } t;
    for (uint32_t i = 0; i < n->in_count; i++) inputs[i] = mapped(k, n, i);
    for (uint32_t i = 0; i < 2; i++) {
        if (node_in(in, n, i) == node_in(in, product, 0)) inputs[i] = of->x;
        if (of->dlogits && node_in(in, n, i) == k->h->dlogits) inputs[i] = of->dlogits;
    }
    if (sums_rows(in, n)) inputs[form_of(n)->accumulator] = chain;
    memcpy(&t, node_attributes(in, n), n->op->attribute_bytes);
    if (n->op == &op_matmul_int8 && sums_rows(in, n)) /* random bits are those of the whole */
        t.int8.first = (int32_t)of->start, t.int8.sample_rows = (int32_t)(k->h->rows / labels->dim[0]);
    return graph_add(k->r->out, n->op, inputs, n->op->in_count, &t);
}

/* One reader of one chunk's gradient of the logits. */
static void chunk_reader(chunker *k, uint32_t which, const some_rows *of) {
    graph *g = k->r->out;
    const graph *in = k->r->in;
    const node *n = graph_node(in, k->h->readers[which]);
    if (n->op == &op_sum_rows) {
        k->chains[which] = sum_rows_apply(g, of->dlogits, k->chains[which]);
        return;
    }
    tensor_id made = product_of_rows(k, n, of, k->chains[which]);
    if (sums_rows(in, n))
        k->chains[which] = made;
    else
        k->parts[k->chunks] = made;
}

static void chunk(chunker *k, int64_t start, int64_t count) {
    graph *g = k->r->out;
    const graph *in = k->r->in;
    const node *product = graph_node(in, k->h->product), *loss = graph_node(in, k->h->loss);
    some_rows of = { .x = slice_apply(g, k->x, start, count), .start = start };
    tensor_id labels = slice_apply(g, k->labels, start, count);
    tensor_id logits = product_of_rows(k, product, &of, 0);
    tensor_id scale = mapped(k, loss, 2);
    const softcap_attributes *cap = k->h->cap ? node_attributes(in, graph_node(in, k->h->cap)) : NULL;
    if (cap) logits = softcap_apply(g, logits, cap->cap);
    k->loss = cross_entropy_apply(g, logits, labels, scale, k->loss);
    if (!k->h->loss_backward) return;
    const node *backward = graph_node(in, k->h->loss_backward);
    of.dlogits =
        cross_entropy_backward_apply(g, (cross_entropy_backward_inputs){ .logits = logits,
                                                                         .labels = labels,
                                                                         .scale = scale,
                                                                         .lse = k->loss + 1,
                                                                         .dloss = mapped(k, backward, 4) });
    if (cap) of.dlogits = softcap_backward_apply(g, logits, of.dlogits, cap->cap);
    for (uint32_t i = 0; i < k->h->reader_count; i++) chunk_reader(k, i, &of);
    k->chunks++;
}

/* The gradient of the loss, which comes first now, with all that it is made of. */
static void rewrite_ahead(rewrite *r, node_id id, bool *done) {
    const node *n = graph_node(r->in, id);
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(r->in, n, i);
        if (t && !r->map[t]) rewrite_ahead(r, graph_tensor(r->in, t)->producer, done);
    }
    rewrite_node(r, id);
    done[id] = true;
}

/* All chunks, and the map of what the replaced nodes made. */
static void emit_chunks(chunker *k, int64_t size) {
    rewrite *r = k->r;
    const graph *in = r->in;
    const head *h = k->h;
    const node *product = graph_node(in, h->product), *loss = graph_node(in, h->loss);
    const shape *xs = graph_shape(in, node_in(in, product, 0));
    r->out->phase = h->loss_backward ? PHASE_BACKWARD : PHASE_FORWARD;
    r->out->site = SITE_NONE;
    k->x = reshape_apply(r->out, mapped(k, product, 0), SHAPE(h->rows, shape_last(xs)));
    k->labels = reshape_apply(r->out, mapped(k, loss, 1), SHAPE(h->rows));
    k->loss = mapped(k, loss, 3);
    for (uint32_t i = 0; i < h->reader_count; i++) {
        const node *n = graph_node(in, h->readers[i]);
        k->chains[i] = n->op == &op_sum_rows ? mapped(k, n, 1) : 0;
    }
    for (int64_t start = 0; start < h->rows && !r->out->failed; start += size)
        chunk(k, start, h->rows - start < size ? h->rows - start : size);
    r->map[node_out(in, loss, 0)] = k->loss;
    for (uint32_t i = 0; i < h->reader_count && !r->out->failed; i++) {
        const node *n = graph_node(in, h->readers[i]);
        tensor_id old = node_out(in, n, 0);
        bool by_row = makes_rows(in, n);
        tensor_id whole =
            by_row ? reshape_apply(r->out, concat_apply(r->out, k->parts, k->chunks), *graph_shape(in, old))
                   : k->chains[i];
        r->map[old] = whole;
        for (tensor_id t = whole; t && !by_row && !r->out->failed; t = graph_tensor(r->out, t)->base)
            graph_tensor(r->out, t)->flags |= graph_tensor(in, old)->flags & TENSOR_GRADIENT;
    }
}

static bool replaced(const head *h, node_id id) {
    if (id == h->product || id == h->loss || id == h->loss_backward) return true;
    if (id == h->cap || id == h->cap_backward) return true;
    for (uint32_t i = 0; i < h->reader_count; i++)
        if (id == h->readers[i]) return true;
    return false;
}

/* What is read of the loss comes, with the loss, after the beginning of backward. */
static void rewrite_rest(rewrite *r, const head *h, bool apply, node_id id) {
    const node *n = graph_node(r->in, id);
    bool of_loss = apply && h->loss_backward && n->phase == PHASE_FORWARD &&
                   reads(r->in, n, node_out(r->in, graph_node(r->in, h->loss), 0));
    if (of_loss)
        rewrite_node_as(r, id, r->map, r->map, PHASE_BACKWARD);
    else
        rewrite_node(r, id);
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)c;
    rewrite r;
    TRY(rewrite_open(&r, in, out));
    head h;
    int64_t size = s->value[0];
    bool apply = find_head(in, &h) && h.rows > size && (h.rows + size - 1) / size <= MAX_CHUNKS;
    node_id seed = apply && h.loss_backward
                       ? graph_tensor(in, node_in(in, graph_node(in, h.loss_backward), 4))->producer
                       : 0;
    chunker k = { .r = &r, .h = &h, .parts = memory_new(MAX_CHUNKS, sizeof(tensor_id)) };
    bool *done = memory_new(in->nodes.count, sizeof *done);
    if (!k.parts || !done) graph_no_memory(out);
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) {
        if (apply && id == h.loss) {
            if (seed) rewrite_ahead(&r, seed, done);
            emit_chunks(&k, size);
        }
        if (!done[id] && (!apply || !replaced(&h, id))) rewrite_rest(&r, &h, apply, id);
    }
    memory_free(k.parts);
    memory_free(done);
    return rewrite_close(&r);
}

const pass pass_chunk_loss = { .name = "chunk_loss",
                               .help = "logits and their gradient a chunk of rows at a time",
                               .values = "auto, off, or rows per chunk such as 256",
                               .class = PASS_REASSOCIATING,
                               .stage = PASS_STEP,
                               .parse = parse,
                               .settings = settings,
                               .check = check,
                               .run = run };
