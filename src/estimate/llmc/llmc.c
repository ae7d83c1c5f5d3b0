#include "estimate/llmc/llmc.h"

#include "base/units.h"
#include "ir/op.h"
#include "ops/add/add.h"
#include "ops/add_positions/add_positions.h"
#include "ops/attention/attention.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"

enum { PADDED_VOCABULARY = 128 }; /* of train_gpt2.cu: a multiple of that */

typedef struct {
    const graph *g;
    const llmc_settings *s;
    double width;                        /* bytes of an activation */
    uint64_t rows, channels, vocabulary; /* padded */
    double sum, once;                    /* bytes; of what all blocks share */
    double scores, output; /* one block's; the buffer of logits, which serves as scratch as well */
    tensor_id table;       /* of tokens */
} arena;

static uint64_t elements_out(const arena *a, const node *n) {
    return (uint64_t)shape_elements(graph_shape(a->g, node_out(a->g, n, 0)));
}

static void keep(arena *a, double elements) { a->sum += elements * a->width; }
static void keep_f32(arena *a, double elements) { a->sum += elements * 4; }

static void read_out(arena *a, const node *n) { keep(a, (double)elements_out(a, n)); }
static void read_nothing(arena *a, const node *n) { (void)a, (void)n; }

/* The sum with the positions' is what is kept. */
static void read_embedding(arena *a, const node *n) { a->table = node_in(a->g, n, 1); }

/* Mean and reciprocal deviation of each row; the result, unless it is computed again. */
static void read_norm(arena *a, const node *n) {
    bool made_anew = a->s->program == LLMC_CUDA && a->s->again >= 2 && n->site >= 0;
    if (!made_anew) read_out(a, n);
    keep_f32(a, 2 * (double)a->rows);
}

/* Scores and their softmax on a CPU, softmax alone in CUDA, with cuDNN a number a row. */
static void read_attention(arena *a, const node *n) {
    attention_sizes z =
        attention_sizes_of(graph_shape(a->g, node_in(a->g, n, 0)), NULL, node_attributes(a->g, n));
    double rows = (double)z.batch * (double)z.heads * (double)z.queries, scores = rows * (double)z.keys;
    a->scores = scores;
    read_out(a, n);
    if (a->s->program == LLMC_CUDA && a->s->cudnn)
        keep_f32(a, rows);
    else
        keep(a, a->s->program == LLMC_CPU ? 2 * scores : scores);
    double wide = (double)z.heads * (double)z.queries * (double)a->rows;
    if (a->s->program != LLMC_CPU && wide > a->output) a->output = wide;
}

/* Results of projections back to the model's width lie in scratch in train_gpt2.cu; logits in all of them in
 * a buffer of their own. */
static void read_matmul(arena *a, const node *n) {
    uint64_t out = (uint64_t)shape_last(graph_shape(a->g, node_out(a->g, n, 0)));
    if (n->site < 0) {
        double logits = (double)a->rows * (double)a->vocabulary;
        if (logits > a->output) a->output = logits;
    } else if (out != a->channels || a->s->program != LLMC_CUDA) {
        read_out(a, n);
    }
    double queries = 3 * (double)a->rows * (double)a->channels;
    if (a->s->program != LLMC_CPU && queries > a->output) a->output = queries;
}

static void read_gelu(arena *a, const node *n) {
    bool made_anew = a->s->program == LLMC_CUDA && a->s->again >= 1;
    if (made_anew)
        a->once = (double)elements_out(a, n) * a->width;
    else
        read_out(a, n);
}

static void read_loss(arena *a, const node *n) {
    (void)n;
    if (a->s->program == LLMC_CPU)
        keep(a, (double)a->rows * (double)a->vocabulary); /* probabilities beside logits */
    keep_f32(a, (double)a->rows);
}

typedef struct {
    const op_def *of;
    void (*read)(arena *a, const node *n);
} rule;

static const rule *rule_of(const op_def *which) {
    static const rule rules[] = { { &op_embedding, read_embedding }, { &op_add_positions, read_out },
                                  { &op_layernorm, read_norm },      { &op_matmul, read_matmul },
                                  { &op_attention, read_attention }, { &op_add, read_out },
                                  { &op_gelu, read_gelu },           { &op_dropout, read_nothing },
                                  { &op_cross_entropy, read_loss },  { 0 } };
    for (const rule *r = rules; r->of; r++)
        if (r->of == which) return r;
    return NULL;
}

static status read_nodes(arena *a) {
    for (node_id id = 1; id < a->g->nodes.count; id++) {
        const node *n = graph_node(a->g, id);
        const rule *r = rule_of(n->op);
        if (!r) return status_set(STATUS_INVALID, "llm.c trains GPT-2 only; it has no %s", n->op->name);
        r->read(a, n);
    }
    return STATUS_OK;
}

/* ---- the whole ---- */

static void count_parameters(const graph *g, const arena *a, llmc_bytes *out) {
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (x->role != ROLE_PARAMETER || x->producer) continue;
        out->parameters += t == a->table ? a->vocabulary * a->channels : (uint64_t)shape_elements(&x->shape);
    }
}

/* Backward's own: on a CPU as much as forward; in f32 CUDA one block's; in train_gpt2.cu scratch beside. */
static void finish(arena *a, llmc_bytes *out) {
    double scratch =
        5 * (double)(a->rows * a->channels) * a->width; /* as wide as the feed-forward, and the model */
    a->sum += a->output * a->width + a->once;
    if (a->s->program == LLMC_CUDA) a->sum += scratch;
    out->activations = (uint64_t)a->sum;
    if (a->s->program == LLMC_CPU) out->activation_gradients = out->activations;
    if (a->s->program == LLMC_CUDA_F32)
        out->activation_gradients = (uint64_t)(scratch + a->scores * a->width);
    uint64_t n = out->parameters, width = (uint64_t)a->width;
    out->weights = out->gradients = n * width;
    out->moments = 2 * n * 4;
    out->masters = a->s->program == LLMC_CUDA ? n * 4 : 0;
}

status llmc_read(const model *m, const llmc_settings *s, llmc_bytes *out) {
    graph g;
    model_ports ports = { 0 };
    *out = (llmc_bytes){ 0 };
    TRY(graph_open(&g));
    m->build(m, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = s->batch, .context = s->context }, &ports);
    status result = graph_status(&g);
    if (result == STATUS_OK) {
        const shape *logits = graph_shape(&g, ports.logits), *x = NULL;
        const node *head = graph_node(&g, graph_tensor(&g, ports.logits)->producer);
        x = graph_shape(&g, node_in(&g, head, MATMUL_A));
        arena a = { .g = &g,
                    .s = s,
                    .width = s->program == LLMC_CUDA ? 2 : 4,
                    .rows = (uint64_t)(s->batch * s->context),
                    .channels = (uint64_t)shape_last(x),
                    .vocabulary = (uint64_t)shape_last(logits) };
        if (s->program == LLMC_CUDA) a.vocabulary = units_align(a.vocabulary, PADDED_VOCABULARY);
        result = read_nodes(&a);
        count_parameters(&g, &a, out);
        finish(&a, out);
    }
    graph_close(&g);
    return result;
}
