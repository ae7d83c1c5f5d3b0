/* A rule for each op that models are built of: the calls that PyTorch makes in its place. */
#include <string.h>

#include "estimate/torch/torch_adapters.h"
#include "estimate/torch/torch_grpo.h"
#include "ir/op.h"
#include "ops/add/add.h"
#include "ops/add_positions/add_positions.h"
#include "ops/attention/attention.h"
#include "ops/columns/columns.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/gated/gated.h"
#include "ops/gelu/gelu.h"
#include "ops/layernorm/layernorm.h"
#include "ops/matmul/matmul.h"
#include "ops/multiply/multiply.h"
#include "ops/reshape/reshape.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rotary/rotary.h"
#include "ops/scale/scale.h"
#include "ops/silu/silu.h"
#include "ops/softcap/softcap.h"

static tape_value in(const torch_reading *r, const node *n, uint32_t i) { return torch_in(r, n, i); }
static void set(const torch_reading *r, const node *n, tape_value v) { torch_set(r, n, v); }

static int64_t elements_out(const torch_reading *r, const node *n) {
    return shape_elements(graph_shape(r->g, node_out(r->g, n, 0)));
}

/* ---- tables ---- */

/* What use_reentrant=True computes again has no gradients unless its input has one, so where only adapters
 * are trained the embeddings are given one (enable_input_require_grads). */
static void read_embedding(torch_reading *r, const node *n) {
    tape_value ids = in(r, n, 0), table = in(r, n, 1);
    tape_value y = torch_call(r, (tape_call){ .what = "embedding", .in = { table, ids }, .keeps_in = 2 },
                              elements_out(r, n), torch_width(r, table));
    const shape *rows = graph_shape(r->g, node_in(r->g, n, 1));
    if (!r->s->litgpt && torch_is_target(r->s, graph_name(r->g, node_in(r->g, n, 1)), false))
        y = torch_adapted_rows(r, ids, y, rows->dim[0], rows->dim[1]);
    if (r->s->reentrant && r->s->adapter_rank && r->s->transformers) tape_at(r->t, y)->wants = true;
    if (r->kind == TORCH_CONTINUES) tape_at(r->t, y)->frame = TAPE_BODY; /* inputs_embeds */
    set(r, n, y);
}

/* The rows of the positions are looked up once for all samples; for each sample where they are counted from
 * its own padding on, and so are the types of tokens. The numbers of those are i64 and kept. generate counts
 * all positions so; a decoder's function has a variable for the rows (position_embeds). */
static void read_positions(torch_reading *r, const node *n) {
    const add_positions_attributes *at = node_attributes(r->g, n);
    tape_value x = in(r, n, 0), table = in(r, n, 1);
    int64_t batch = at->first > 0 || at->still ? 1 : r->s->batch;
    int64_t ids = elements_out(r, n) / batch / shape_last(graph_shape(r->g, node_in(r->g, n, 1)));
    tape_value p = torch_call(
        r, (tape_call){ .what = "embedding", .in = { table }, .kept = at->first > 0 ? (uint64_t)ids * 8 : 0 },
        elements_out(r, n) / batch, torch_width(r, table));
    tape_at(r->t, p)->for_each = batch > 1;
    if (r->kind == TORCH_CONTINUES) tape_at(r->t, p)->frame = TAPE_BODY;
    set(r, n, torch_sum(r, x, p));
}

/* ---- norms ---- */

/* torch.nn's own: the input and one or two numbers a row are kept. Under autocast they compute in f32 on a
 * GPU; a CPU's list of f32 has none of them, and what comes in 16 bits stays so. */
static tape_value fused_norm(torch_reading *r, const node *n, int numbers) {
    tape_value x = in(r, n, 0), gamma = in(r, n, 1), beta = in(r, n, 2);
    if (r->s->types == TORCH_AUTOCAST && r->s->cuda) x = torch_to(r, x, 4);
    int64_t rows = torch_elements(r, x) / torch_elements(r, gamma);
    return torch_call(
        r,
        (tape_call){
            .what = "norm", .in = { x, gamma, beta }, .keeps_in = 3, .kept = (uint64_t)(rows * numbers * 4) },
        torch_elements(r, x), torch_width(r, x));
}

/* Cohere's, in f32 to the very end: x less its mean is made twice, once for the variance. */
static tape_value layernorm_written_out(torch_reading *r, const node *n) {
    tape_value x = in(r, n, 0), gamma = in(r, n, 1), wide = torch_to(r, x, 4);
    int64_t rows = torch_elements(r, x) / torch_elements(r, gamma);
    tape_value mean = torch_call(r, (tape_call){ .what = "mean", .in = { wide } }, rows, 4);
    tape_value squares = torch_function(r, "pow", torch_sum(r, wide, mean));
    tape_value variance = torch_call(r, (tape_call){ .what = "mean", .in = { squares } }, rows, 4);
    tape_value rstd = torch_result_function(r, "rsqrt", variance);
    tape_value normed = torch_multiply(r, torch_sum(r, wide, mean), rstd);
    return torch_to(r, torch_multiply(r, torch_to(r, gamma, 4), normed), torch_width(r, x));
}

/* A part of a block is given it, as attention. */
static void set_normed(torch_reading *r, const node *n, tape_value normed) {
    if (n->site >= 0) tape_at(r->t, normed)->branches_from = in(r, n, 0);
    set(r, n, normed);
}

static void read_layernorm(torch_reading *r, const node *n) {
    if (torch_spelling(r).norms_written_out) {
        set_normed(r, n, layernorm_written_out(r, n));
        return;
    }
    r->channels_last |= graph_shape(r->g, node_in(r->g, n, 0))->rank == 4;
    set_normed(r, n, fused_norm(r, n, 2));
}

/* transformers writes it out: x.float(), pow(2).mean, rsqrt, x * rsqrt, back to its type, * weight. Gemma,
 * whose scales are stored around 1, and OLMo 2 go back to its type at the very end. */
static void read_rmsnorm(torch_reading *r, const node *n) {
    const rmsnorm_attributes *a = node_attributes(r->g, n);
    if (!r->s->transformers && !r->s->widens) {
        set_normed(r, n, fused_norm(r, n, 1));
        return;
    }
    tape_value x = in(r, n, 0), gamma = in(r, n, 1), wide = torch_to(r, x, 4);
    double width = torch_width(r, x);
    int64_t rows = torch_elements(r, x) / torch_elements(r, gamma);
    tape_value squares = torch_function(r, "pow", wide);
    tape_value mean = torch_call(r, (tape_call){ .what = "mean", .in = { squares } }, rows, 4);
    tape_value rstd = torch_result_function(r, "rsqrt", mean);
    tape_value normed =
        torch_multiply(r, r->kind == TORCH_ANSWERS ? x : wide, rstd); /* T5 widens for squares alone */
    if (a->plus > 0) {
        tape_value scale = torch_sum(r, torch_to(r, gamma, 4), 0);
        set_normed(r, n, torch_to(r, torch_multiply(r, normed, scale), width));
    } else if (torch_spelling(r).wide_scales) {
        set_normed(r, n, torch_to(r, torch_multiply(r, gamma, normed), width));
    } else {
        set_normed(r, n, torch_multiply(r, gamma, torch_to(r, normed, width)));
    }
}

/* ---- products ---- */

/* An encoder's head has another product outside of blocks, which is no wider than the model. */
static bool is_logits(const torch_reading *r, const node *n) {
    return n->site < 0 && shape_last(graph_shape(r->g, node_out(r->g, n, 0))) == r->classes;
}

/* Is it what an embedding looks its rows up in? */
static bool is_table(const torch_reading *r, tensor_id weight) {
    bool found = false;
    for (node_id id = 1; id < r->g->nodes.count && !found; id++) {
        const node *n = graph_node(r->g, id);
        const torch_rule *rule = torch_rule_of(n->op);
        found = rule && rule->read == read_embedding && node_in(r->g, n, 1) == weight;
    }
    return found;
}

static void read_matmul(torch_reading *r, const node *n) {
    tape_value x = in(r, n, MATMUL_A), w = in(r, n, MATMUL_B);
    int64_t out = shape_last(graph_shape(r->g, node_out(r->g, n, 0)));
    if (is_logits(r, n) && (r->s->fused_loss || r->s->grpo.asked)) {
        set(r, n, x); /* the loss makes its own, part by part */
        return;
    }
    tape_value y = torch_linear(r, x, w, in(r, n, MATMUL_BIAS), out);
    if (is_logits(r, n)) {
        tape_at(r->t, y)->term = TAPE_LOGITS;
        tape_at(r->t, x)->held =
            r->s->transformers; /* the inner model's output, until the outer one returns */
    }
    tensor_id weight = node_in(r->g, n, MATMUL_B);
    /* of tied weights the module that the list names is the table, and not the head */
    bool inside = n->site >= 0; /* where no table is read */
    if (torch_is_target(r->s, graph_name(r->g, weight), inside) && (inside || !is_table(r, weight)))
        y = torch_adapted(r,
                          &(torch_product){ .x = x,
                                            .weight = w,
                                            .bias = in(r, n, MATMUL_BIAS),
                                            .inner = torch_elements(r, w) / out,
                                            .out = out },
                          y);
    set(r, n, y);
}

/* ---- elementwise ---- */

/* Residual networks add to what a batch norm, which couples samples, has made: in place. */
static void read_add(torch_reading *r, const node *n) {
    const node *maker = graph_node(r->g, graph_tensor(r->g, node_in(r->g, n, 0))->producer);
    tape_value a = in(r, n, 0), b = in(r, n, 1);
    if (torch_spelling(r).names_attended && n->site >= 0) tape_at(r->t, b)->frame = TAPE_BLOCK;
    bool normed = maker->op && maker->op->traits & OP_COUPLES_SAMPLES;
    if (!normed || torch_width(r, b) > torch_width(r, a))
        set(r, n, torch_sum(r, a, b));
    else
        set(r, n,
            torch_call(r, (tape_call){ .what = "add_", .in = { a, b }, .view = true, .passes = true },
                       elements_out(r, n), torch_width(r, a)));
}

static void read_scale(torch_reading *r, const node *n) { set(r, n, torch_scale(r, in(r, n, 0))); }
/* Squares: a decoder's squared relu. */
static void read_multiply(torch_reading *r, const node *n) {
    tape_value a = in(r, n, 0), b = in(r, n, 1);
    set(r, n, a == b ? torch_function(r, "pow", a) : torch_multiply(r, a, b));
}

static void read_silu(torch_reading *r, const node *n) { set(r, n, torch_function(r, "silu", in(r, n, 0))); }

static void read_dropout(torch_reading *r, const node *n) {
    const dropout_attributes *a = node_attributes(r->g, n);
    set(r, n, torch_drop(r, in(r, n, 0), (double)a->p));
}

/* 0.5 x (1 + tanh(c (x + 0.044715 pow(x, 3)))), call by call. */
static tape_value gelu_written_out(torch_reading *r, tape_value x) {
    tape_value half = torch_scale(r, x);
    bool widens = r->s->types == TORCH_AUTOCAST && r->s->cuda; /* pow is on the list of f32 there alone */
    tape_value cube = torch_function(r, "pow", widens ? torch_to(r, x, 4) : x);
    tape_value inner = torch_scale(r, torch_sum(r, x, torch_scale(r, cube)));
    tape_value one = torch_sum(r, torch_result_function(r, "tanh", inner), 0);
    return torch_multiply(r, half, one);
}

/* transformers writes the tanh form out, unless the configuration names torch's. */
static void read_gelu(torch_reading *r, const node *n) {
    const gelu_attributes *a = node_attributes(r->g, n);
    tape_value x = in(r, n, 0);
    bool out = a->tanh && r->s->transformers && !torch_spelling(r).gelu_whole;
    set(r, n, out ? gelu_written_out(r, x) : torch_function(r, "gelu", x));
}

/* So it does in T5's gated units, and in no other model's. */
static void read_gated(torch_reading *r, const node *n) {
    tape_value gate = in(r, n, 0);
    bool out = r->kind == TORCH_ANSWERS && r->s->transformers;
    gate = out ? gelu_written_out(r, gate) : torch_function(r, "silu", gate);
    set(r, n, torch_multiply(r, gate, in(r, n, 1)));
}

static void read_view(torch_reading *r, const node *n) {
    tape_value x = in(r, n, 0);
    set(r, n,
        torch_call(r, (tape_call){ .what = "view", .in = { x }, .view = true, .passes = true },
                   torch_elements(r, x), torch_width(r, x)));
}

/* A view; its gradient is as large as what it is a view of. */
static void read_columns(torch_reading *r, const node *n) {
    tape_value x = in(r, n, 0);
    set(r, n,
        torch_call(r, (tape_call){ .what = "narrow", .in = { x }, .view = true }, elements_out(r, n),
                   torch_width(r, x)));
}

/* ---- positions ---- */

/* Cosines and sines in the type of the values, each as wide as a head; made without gradients and held by the
 * model to the end of forward. Older transformers kept them in every block, for all positions that the model
 * is made for, in the type that it was loaded in, which preparing 4 bits for training does not change. */
static void read_angles(torch_reading *r, const node *n) {
    bool wide = torch_spelling(r).wide_turns && !torch_spelling(r).narrow_angles;
    double width = r->s->types == TORCH_HALF && !wide ? 2 : 4;
    if (r->s->transformers && r->s->older) {
        bool narrow = r->s->adapter_rank && r->s->base_bits < 32;
        const shape *x = graph_shape(r->g, node_out(r->g, n, 0));
        int64_t last = -1;
        for (node_id id = 1; id < r->g->nodes.count; id++)
            if (graph_node(r->g, id)->site > last) last = graph_node(r->g, id)->site;
        tape_add_source(r->t, &(tape_item){ .elements = (last + 1) * 2 * r->s->positions * shape_last(x),
                                            .width = narrow ? 2 : width,
                                            .term = TAPE_INPUTS });
    }
    tape_value v = torch_call(r, (tape_call){ .what = "cos, sin" }, 2 * elements_out(r, n), width);
    tape_at(r->t, v)->held = tape_at(r->t, v)->for_each = true;
    set(r, n, v);
}

/* A block makes cosines and sines of its own where it repeats those of the model; keys take those of the
 * queries. */
static tape_value angles_of(torch_reading *r, const node *n) {
    tape_value angles = in(r, n, 1);
    if (!torch_spelling(r).repeats_angles) return angles;
    bool of_keys = r->repeated != 0;
    tape_value own = of_keys ? r->repeated
                             : torch_call(r, (tape_call){ .what = "repeat_interleave", .in = { angles } },
                                          torch_elements(r, angles), torch_width(r, angles));
    r->repeated = of_keys ? 0 : own;
    return own;
}

/* x cos + rotate_half(x) sin: half of x is negated, then joined. Cosines and sines are kept, x is not. Of
 * packed queries, keys and values the first two are made anew; values stay a view of the whole. */
static void read_rotary(torch_reading *r, const node *n) {
    const rotary_attributes *a = node_attributes(r->g, n);
    tape_value given = in(r, n, 0), angles = angles_of(r, n);
    tape_value x = torch_spelling(r).wide_turns ? torch_to(r, given, 4) : given;
    int64_t all = shape_rows(graph_shape(r->g, node_in(r->g, n, 0))) * a->heads * a->size;
    double width = torch_width(r, x) > torch_width(r, angles) ? torch_width(r, x) : torch_width(r, angles);
    tape_value straight =
        torch_call(r, (tape_call){ .what = "mul", .in = { x, angles }, .keeps_in = 2 }, all, width);
    tape_value turned = torch_call(r,
                                   (tape_call){ .what = "cat",
                                                .in = { x },
                                                .forward = (uint64_t)((double)all / 2 * torch_width(r, x)),
                                                .backward = (uint64_t)((double)all * torch_width(r, x)) },
                                   all, torch_width(r, x));
    turned = torch_call(r, (tape_call){ .what = "mul", .in = { turned, angles }, .keeps_in = 2 }, all, width);
    turned = torch_sum(r, straight, turned);
    set(r, n, torch_spelling(r).wide_turns ? torch_to(r, turned, torch_width(r, given)) : turned);
}

/* ---- attention ---- */

typedef struct {
    tape_value q, k, v; /* k 0: in q; v 0: in q as well */
    tape_value bias;    /* by distance; 0: none */
    attention_sizes z;
    int64_t scores;
    double dropout, width, softmax, cap; /* bytes of the numbers of scores, and of their softmax */
    tape_value mask;                     /* 0: none */
    bool distances;                      /* the bias is one by distance, and has a gradient */
    bool drops_wide;                     /* dropout comes before the softmax is cast back */
    bool joined; /* queries were joined from parts, so a head's rows follow each other */
    bool masked; /* fused attention gets a mask: samples are padded, or a window ends within them */
} attended;

/* The node that turned t, if one did. */
static const node *turner_of(const torch_reading *r, tensor_id t) {
    const node *n = graph_node(r->g, graph_tensor(r->g, t)->producer);
    const torch_rule *rule = torch_rule_of(n->op);
    return rule && rule->read == read_rotary ? n : NULL;
}

/* With a mask transformers repeats keys and values that heads share (use_gqa_in_sdpa). Runs of older
 * libraries that were measured had none for their windows. flash-attn's kernels take the window itself, and
 * padded samples without what pads them (flash_attention_mask of transformers' masking_utils). */
static bool is_masked(const torch_reading *r, const attention_attributes *t, int64_t keys) {
    return r->s->transformers && r->s->attention != TORCH_FLASH_ATTN &&
           (r->s->padded || (t->window && t->window - !t->causal <= keys && !r->s->older));
}

static attended read_operands(torch_reading *r, const node *n) {
    const attention_attributes *t = node_attributes(r->g, n);
    tensor_id q = node_in(r->g, n, 0), k = node_in(r->g, n, 1);
    const node *turner = turner_of(r, q);
    const rotary_attributes *turned = turner ? node_attributes(r->g, turner) : NULL;
    attended a = { .q = in(r, n, 0),
                   .k = in(r, n, 1),
                   .v = in(r, n, 2),
                   .dropout = (double)t->dropout,
                   .cap = (double)t->cap,
                   .mask = t->causal || t->window ? r->masks[t->window != 0] : 0 };
    a.z = attention_sizes_of(graph_shape(r->g, q), k ? graph_shape(r->g, k) : NULL, t);
    a.masked = is_masked(r, t, a.z.keys);
    a.scores = torch_count(a.z.batch * a.z.heads, a.z.queries, a.z.keys);
    a.bias = torch_bias(r, n);
    a.distances = node_in(r->g, n, ATTENTION_BIAS) && torch_wants(r, a.bias);
    if (turned && !k) a.v = in(r, turner, 0);
    bool joins = turned && ((!k && !torch_spelling(r).unbinds) || turned->turned < turned->size);
    a.joined = joins || (turned && torch_spelling(r).copies_values);
    a.width = r->s->types == TORCH_F32 ? 4 : 2;
    bool encodes = r->kind == TORCH_FILLS || r->kind == TORCH_ANSWERS; /* BERT, T5 */
    bool narrow = !k || encodes;                                       /* and GPT-2 */
    bool widens = r->s->cuda && r->s->types == TORCH_AUTOCAST; /* softmax is on the list of f32 there alone */
    narrow = (narrow && !turned) || torch_spelling(r).narrow_softmax;
    a.softmax = !narrow || widens ? 4 : a.width;
    a.drops_wide = encodes && widens && !turned;
    return a;
}

/* For a product of heads an operand is copied into a layout of its own, repeated where heads share it. */
static tape_value laid_out(torch_reading *r, tape_value x, int64_t elements) {
    return torch_call(r, (tape_call){ .what = "contiguous", .in = { x } }, elements, torch_width(r, x));
}

/* transformers hands a mask of bool over, and sdpa makes one of numbers of it in each layer
 * (convert_boolean_attn_mask), which is kept for its gradient. */
static tape_value mask_of_numbers(torch_reading *r, const attention_sizes *z, double width) {
    return torch_call(r, (tape_call){ .what = "mask" }, torch_count(z->batch, z->queries, z->keys), width);
}

/* Scores of which nothing is written: queries, keys, values, result and a number a row are kept. Under
 * autocast operands become 16 bits. Keys of groups are read as they are, except where the model repeats
 * them first. The result is laid out as the queries are: where those were joined, what the next product reads
 * is a copy. flash-attn's kernels get copies without what pads samples, counted as if nothing did, and their
 * result is padded again. */
static tape_value flash(torch_reading *r, const attended *a) {
    const attention_sizes *z = &a->z;
    int64_t rows = z->batch * z->heads * z->queries, all = rows * z->size;
    bool library = r->s->attention == TORCH_FLASH_ATTN, unpads = library && r->s->padded;
    double width = r->s->types == TORCH_F32 && !library ? 4 : 2;
    model_spelling spelling = torch_spelling(r);
    bool shared = z->kv_heads < z->heads,
         repeats = shared && a->k && (r->s->repeats_heads || a->masked || spelling.repeats_keys);
    tape_value k = repeats ? laid_out(r, a->k, all) : a->k, v = repeats ? laid_out(r, a->v, all) : a->v;
    if (spelling.copies_values && !repeats && v)
        v = laid_out(r, v, z->batch * z->keys * z->kv_heads * z->size);
    tape_value q = torch_to(r, a->q, width);
    k = torch_to(r, k, width), v = torch_to(r, v, width);
    if (unpads) {
        q = laid_out(r, q, torch_elements(r, q));
        k = k ? laid_out(r, k, torch_elements(r, k)) : 0;
        v = v ? laid_out(r, v, torch_elements(r, v)) : 0;
    }
    uint64_t grouped = shared && !repeats ? (uint64_t)((double)(2 * all) * width) : 0;
    uint64_t packed = k ? 0 : (uint64_t)((double)torch_elements(r, q) * width);
    tape_value bias = a->bias     ? torch_mask_of_bias(r, torch_to(r, a->bias, width))
                      : a->masked ? mask_of_numbers(r, z, width)
                                  : 0;
    uint64_t biased = torch_wants(r, a->bias) ? (uint64_t)((double)a->scores * width) : 0;
    tape_value y = torch_call(
        r,
        (tape_call){ .what = "sdpa",
                     .in = { q, k, v, bias },
                     .keeps_in = bias ? 15 : 7,
                     .keeps_out = true,
                     .kept = (uint64_t)rows * 4,
                     .backward = packed + grouped + (r->s->cuda ? (uint64_t)all * 4 : 0) + biased },
        all, width);
    return a->joined || unpads ? laid_out(r, y, all) : y;
}

/* x / cap, its tanh, which is kept, times cap. */
static tape_value capped(torch_reading *r, tape_value x) {
    return torch_scale(r, torch_result_function(r, "tanh", torch_scale(r, x)));
}

/* Its gradient multiplies into a tensor of its own, on a GPU. */
static tape_value softmax(torch_reading *r, tape_value x) {
    uint64_t bytes = r->s->cuda ? tape_bytes(r->t, x) : 0;
    return torch_softmax(r, "softmax", x, bytes);
}

static tape_value heads_product(torch_reading *r, tape_value a, tape_value b, int64_t elements) {
    return torch_call(r, (tape_call){ .what = "matmul", .in = { a, b }, .keeps_in = 3, .multiplies = true },
                      elements, torch_width(r, b));
}

/* q k^T, scaled, softmax in f32, back to the type of the values, times v. */
static tape_value eager(torch_reading *r, const attended *a) {
    const attention_sizes *z = &a->z;
    double width = a->width;
    int64_t all = z->batch * z->heads * z->queries * z->size, keys = z->batch * z->heads * z->keys * z->size;
    tape_value q = torch_to(r, a->q, width);
    tape_value left = laid_out(r, q, all);
    tape_value right = laid_out(r, a->k ? torch_to(r, a->k, width) : q, keys);
    tape_value values = laid_out(r, a->v ? torch_to(r, a->v, width) : q, keys);
    tape_value s = torch_scale(r, heads_product(r, left, right, a->scores));
    if (a->cap > 0) s = capped(r, s);
    if (a->bias) s = torch_sum(r, s, torch_to(r, a->bias, width));
    if (a->mask)
        s = torch_call(r, (tape_call){ .what = "mask", .in = { s, a->mask }, .passes = true }, a->scores,
                       width);
    s = softmax(r, torch_to(r, s, a->softmax));
    s = a->drops_wide ? torch_to(r, torch_drop(r, s, a->dropout), width)
                      : torch_drop(r, torch_to(r, s, width), a->dropout);
    return laid_out(r, heads_product(r, s, values, all), all);
}

static bool is_written_out(const torch_reading *r, const attention_attributes *t) {
    return r->s->attention == TORCH_EAGER || (t->cap > 0 && !r->s->cuda);
}

/* What torch does where it has no fused kernel (`math`): all in f32, queries and keys scaled, heads repeated.
 * The softmax goes over masked scores with a byte each, and three matrices of scores are there in backward.
 */
static tape_value math(torch_reading *r, const attended *a) {
    const attention_sizes *z = &a->z;
    double width = r->s->types == TORCH_F32 ? 4 : 2;
    int64_t all = z->batch * z->heads * z->queries * z->size, keys = z->batch * z->heads * z->keys * z->size;
    tape_value q = torch_to(r, torch_to(r, a->q, width), 4),
               k = torch_to(r, torch_to(r, a->k ? a->k : a->q, width), 4),
               v = torch_to(r, torch_to(r, a->v ? a->v : a->q, width), 4);
    tape_value left = laid_out(r, torch_scale(r, q), all), right = laid_out(r, torch_scale(r, k), keys);
    tape_value values = laid_out(r, v, keys);
    tape_value s = heads_product(r, left, right, a->scores);
    s = torch_sum(r, s, a->bias ? torch_to(r, a->bias, width) : 0);
    s = torch_call(r,
                   (tape_call){ .what = "softmax",
                                .in = { s },
                                .keeps_out = true,
                                .forward = (uint64_t)a->scores / 4,
                                .backward = (uint64_t)a->scores * 4 },
                   a->scores, 4);
    s = torch_drop(r, s, a->dropout);
    return laid_out(r, torch_to(r, heads_product(r, s, values, all), width), all);
}

/* On a GPU no fused kernel takes shared keys in f32, nor a bias whose rows don't lie side by side, as T5's.
 */
static bool is_math(const torch_reading *r, const attended *a) {
    bool reads = a->masked || r->s->attention == TORCH_FLASH_ATTN,
         shared = a->z.kv_heads < a->z.heads && r->s->types == TORCH_F32 && !reads;
    return r->s->cuda && (shared || a->distances || r->s->unfused);
}

static void read_attention(torch_reading *r, const node *n) {
    attended a = read_operands(r, n);
    bool written_out = is_written_out(r, node_attributes(r->g, n));
    /* The memory-efficient kernel, which f32 takes there, lays its result out by rows. */
    if (!written_out && r->s->cuda && r->s->types == TORCH_F32) a.joined = false;
    if (!written_out && is_math(r, &a)) {
        set(r, n, math(r, &a));
    } else if (written_out) {
        set(r, n, eager(r, &a));
    } else if ((a.dropout > 0 || torch_wants(r, a.bias)) && !r->s->cuda) {
        /* the CPU's kernel has neither dropout nor gradients of biases: torch writes it out, in f32 */
        double width = a.width;
        a.width = a.softmax = 4;
        set(r, n, torch_to(r, eager(r, &a), width));
    } else {
        set(r, n, flash(r, &a));
    }
}

static bool is_causal(const torch_reading *r, const node *n) {
    return ((const attention_attributes *)node_attributes(r->g, n))->causal;
}

/* A number for each query and key, in the type of the weights. */
void torch_make_masks(torch_reading *r, const node *n) {
    const torch_rule *rule = torch_rule_of(n->op);
    if (!rule || rule->read != read_attention || !r->s->transformers) return;
    const attention_attributes *t = node_attributes(r->g, n);
    tape_value *mask = &r->masks[t->window != 0];
    if (*mask || !(t->causal || t->window) || !is_written_out(r, t)) return;
    tensor_id q = node_in(r->g, n, 0), k = node_in(r->g, n, 1);
    attention_sizes z = attention_sizes_of(graph_shape(r->g, q), k ? graph_shape(r->g, k) : NULL, t);
    *mask = torch_call(r, (tape_call){ .what = "mask" }, torch_count(z.batch, z.queries, z.keys),
                       r->s->types == TORCH_HALF ? 2 : 4);
}

/* ---- the loss ---- */

/* A fused loss caps what it makes. */
static void read_softcap(torch_reading *r, const node *n) {
    tape_value x = in(r, n, 0);
    set(r, n, r->s->fused_loss || r->s->grpo.asked ? x : capped(r, x));
}

/* Over parts of the rows, whose logits are made and let go one after the other, with their gradients (Liger
 * kernels): as many parts as the vocabulary is wider than the model. */
static void read_fused_loss(torch_reading *r, tape_value x, tape_value w, int64_t vocabulary) {
    int64_t width = torch_elements(r, w) / vocabulary, rows = torch_elements(r, x) / width;
    int64_t parts = (vocabulary + width - 1) / width, part = 1;
    while (part < (rows + parts - 1) / parts) part *= 2;
    uint64_t logits = (uint64_t)((double)(part * vocabulary) * (torch_width(r, x) + 4));
    torch_call(r,
               (tape_call){ .what = "fused loss",
                            .in = { x, w },
                            .keeps_in = (torch_wants(r, w) ? 1u : 0) | 2u,
                            .forward = logits,
                            .backward = logits },
               1, 4);
}

/* Logits in f32, their log-softmax, which is kept, and the loss; on the way back both have gradients. Without
 * autocast torch's own loss stays in the type of the logits, and so do models that don't continue texts.
 * Older transformers gave f32 logits out, and copied them when they shifted them. */
static void read_loss(torch_reading *r, const node *n) {
    const node *maker = graph_node(r->g, graph_tensor(r->g, node_in(r->g, n, 0))->producer);
    if (torch_rule_of(maker->op)->read == read_softcap)
        maker = graph_node(r->g, graph_tensor(r->g, node_in(r->g, maker, 0))->producer);
    int64_t vocabulary = shape_last(graph_shape(r->g, node_in(r->g, n, 0)));
    tape_value logits = in(r, n, 0);
    if (r->s->grpo.asked) {
        torch_grpo_loss(r, logits, in(r, maker, MATMUL_B), vocabulary);
        return;
    }
    if (r->s->fused_loss) {
        read_fused_loss(r, logits, in(r, maker, MATMUL_B), vocabulary);
        return;
    }
    bool continues = r->s->transformers && (r->kind == TORCH_CONTINUES || torch_spelling(r).wide_loss),
         widens = continues || r->s->widens || r->s->types == TORCH_AUTOCAST,
         copies = continues && r->s->older;
    /* On a GPU cross_entropy itself hands the type of the logits on, and copies what comes to f32. */
    bool narrow = r->s->cuda && !continues && r->s->types == TORCH_AUTOCAST;
    tape_value wide = widens && !narrow ? torch_to(r, logits, 4) : logits, given = copies ? wide : logits;
    tape_at(r->t, given)->held = !r->s->holds_output; /* by a variable of the model's function */
    tape_at(r->t, given)->outlives = r->s->holds_output;
    if (copies) {
        wide = torch_call(r, (tape_call){ .what = "contiguous", .in = { wide } }, torch_elements(r, wide), 4);
        tape_at(r->t, wide)->term = TAPE_LOGITS, tape_at(r->t, wide)->held = true;
    }
    tape_value chances = torch_softmax(r, "log_softmax", wide, 0);
    tape_at(r->t, chances)->term = TAPE_LOGITS;
    if (narrow) chances = torch_to(r, chances, 4);
    torch_call(r, (tape_call){ .what = "nll_loss", .in = { chances }, .keeps_in = 1 }, 1, 4);
}

bool torch_is_attention(const node *n) {
    const torch_rule *rule = torch_rule_of(n->op);
    return rule && rule->read == read_attention;
}

bool torch_attends(const graph *g) {
    for (node_id id = 1; id < g->nodes.count; id++)
        if (torch_is_attention(graph_node(g, id))) return true;
    return false;
}

void torch_look(torch_reading *r) {
    for (node_id id = 1; id < r->g->nodes.count; id++) {
        const node *n = graph_node(r->g, id);
        const torch_rule *rule = torch_rule_of(n->op);
        if (rule && rule->read == read_loss) r->classes = shape_last(graph_shape(r->g, node_in(r->g, n, 0)));
        if (rule && rule->read == read_attention && r->kind == TORCH_ANSWERS) torch_make_zeros(r, n);
        if (rule && rule->read == read_embedding && r->kind == TORCH_OTHER) r->kind = TORCH_FILLS;
        if (rule && rule->read == read_attention && r->kind == TORCH_FILLS && is_causal(r, n))
            r->kind = TORCH_CONTINUES;
        if (rule == torch_rules_distances) r->kind = TORCH_ANSWERS;
    }
}

const torch_rule torch_rules[] = { { &op_embedding, read_embedding },  { &op_add_positions, read_positions },
                                   { &op_layernorm, read_layernorm },  { &op_rmsnorm, read_rmsnorm },
                                   { &op_matmul, read_matmul },        { &op_add, read_add },
                                   { &op_scale, read_scale },          { &op_silu, read_silu },
                                   { &op_multiply, read_multiply },    { &op_gelu, read_gelu },
                                   { &op_gated, read_gated },          { &op_dropout, read_dropout },
                                   { &op_reshape, read_view },         { &op_columns, read_columns },
                                   { &op_rotary_angles, read_angles }, { &op_rotary, read_rotary },
                                   { &op_attention, read_attention },  { &op_cross_entropy, read_loss },
                                   { &op_softcap, read_softcap },      { 0 } };
