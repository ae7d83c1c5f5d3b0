/* What Lightning's litgpt does otherwise than torch.nn: litgpt/model.py and litgpt/lora.py of 2023 to 2026
 * (0.5.13), which bench/estimate/measure_litgpt.py has run.
 *
 * One product makes queries, keys and values, which stay views of it; keys and values are repeated for all
 * heads before they are turned; root-mean-square norms are written out in f32; adapters beside that product
 * share their dropout, and index_copy keeps what it copies; logits are made 128 tokens at a time, and all
 * parts are held with their log-softmax, in f32, as Fabric hands them out. Fabric's autocast is torch's:
 * weights are f32, those of frozen models too, products cast what they read, all else stays as it is. */
#include "base/text.h"
#include "estimate/torch/torch_adapters.h"
#include "ir/op.h"
#include "ops/attention/attention.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/matmul/matmul.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rotary/rotary.h"

static tape_value in(const torch_reading *r, const node *n, uint32_t i) {
    tensor_id t = node_in(r->g, n, i);
    return t ? r->map[t] : 0;
}

static void set(const torch_reading *r, const node *n, tape_value v) { r->map[node_out(r->g, n, 0)] = v; }

static int64_t width_out(const torch_reading *r, const node *n) {
    return shape_last(graph_shape(r->g, node_out(r->g, n, 0)));
}

/* ---- norms ---- */

/* x.float(), mean(x * x), x * rsqrt, * weight.float(), back. */
static void read_rmsnorm(torch_reading *r, const node *n) {
    tape_value x = in(r, n, 0), gamma = in(r, n, 1), wide = torch_to(r, x, 4);
    int64_t rows = torch_elements(r, x) / torch_elements(r, gamma);
    tape_value squares = torch_multiply(r, wide, wide);
    tape_value mean = torch_call(r, (tape_call){ .what = "mean", .in = { squares } }, rows, 4);
    tape_value normed = torch_multiply(r, wide, torch_result_function(r, "rsqrt", mean));
    set(r, n, torch_to(r, torch_multiply(r, normed, torch_to(r, gamma, 4)), torch_width(r, x)));
}

/* ---- products ---- */

static void read_matmul(torch_reading *r, const node *n);
static void read_attention(torch_reading *r, const node *n);

static bool has_rule(const op_def *which, void (*read)(torch_reading *r, const node *n)) {
    for (const torch_rule *rule = litgpt_rules; rule->of; rule++)
        if (rule->of == which) return rule->read == read;
    return false;
}

/* Queries, keys and values, which one product makes. */
enum { PARTS = 3 };
typedef struct {
    const node *part[PARTS]; /* the first alone: the graph joins them as well */
    int64_t width[PARTS], all;
} joined;

static const char *const parts[PARTS] = { "q_proj.weight", "k_proj.weight", "v_proj.weight" };

static const char *weight_of(const torch_reading *r, const node *n) {
    return graph_name(r->g, node_in(r->g, n, MATMUL_B));
}

/* What the graph joins: as wide as the heads of the attention that follows. */
static joined find_joined(const torch_reading *r, const node *q, node_id first) {
    joined j = { .part = { q } };
    for (node_id id = first; id < r->g->nodes.count && !j.all; id++) {
        const node *n = graph_node(r->g, id);
        if (!has_rule(n->op, read_attention)) continue;
        const attention_attributes *a = node_attributes(r->g, n);
        tensor_id k = node_in(r->g, n, 1);
        attention_sizes z =
            attention_sizes_of(graph_shape(r->g, node_in(r->g, n, 0)), k ? graph_shape(r->g, k) : NULL, a);
        j.width[0] = z.heads * z.size, j.width[1] = j.width[2] = z.kv_heads * z.size;
        j.all = j.width[0] + 2 * j.width[1];
    }
    return j;
}

static joined find_parts(const torch_reading *r, const node *q) {
    joined j = { 0 };
    int found = 0;
    node_id first = graph_tensor(r->g, node_out(r->g, q, 0))->producer;
    const char *name = weight_of(r, q);
    if (text_ends_with(name, "query_key_value.weight") || text_ends_with(name, "qkv_proj.weight"))
        return find_joined(r, q, first);
    if (!text_ends_with(name, parts[0])) return j;
    for (node_id id = first; id < r->g->nodes.count && found < PARTS; id++) {
        const node *n = graph_node(r->g, id);
        if (!has_rule(n->op, read_matmul) || n->site != q->site ||
            !text_ends_with(weight_of(r, n), parts[found]))
            continue;
        j.part[found] = n;
        j.width[found] = width_out(r, n);
        j.all += j.width[found++];
    }
    if (found < PARTS) j = (joined){ 0 };
    return j;
}

/* Codes are widened to 16 bits as they are, and only older releases have them together with autocast. */
static bool casts_products(const torch_reading *r) { return r->s->types == TORCH_AUTOCAST; }

/* lora.py: A of all enabled parts at once, a grouped convolution for B, zeros in between. */
static tape_value adapt_joined(torch_reading *r, tape_value x, tape_value y, const joined *j, int64_t inner) {
    int64_t enabled = 0, wide = 0, rows = torch_elements(r, y) / j->all;
    for (int k = 0; k < PARTS; k++) {
        if (!torch_is_target(r->s, parts[k], true)) continue;
        enabled++, wide += j->width[k];
    }
    if (!enabled) return y;
    int64_t rank = r->s->adapter_rank;
    tape_value down = torch_adapter_weight(r, rank * enabled * inner),
               up = torch_adapter_weight(r, rank * wide);
    x = torch_drop(r, x, r->s->adapter_dropout);
    tape_value h = torch_linear(r, x, down, 0, rank * enabled);
    if (casts_products(r)) up = torch_weight_to(r, up, 2);
    tape_value b = torch_call(r, (tape_call){ .what = "conv1d", .in = { h, up }, .keeps_in = 3 }, rows * wide,
                              torch_width(r, h));
    tape_value padded =
        enabled < PARTS
            ? torch_call(r,
                         (tape_call){ .what = "index_copy",
                                      .in = { b },
                                      .keeps_in = 1,
                                      .forward = (uint64_t)((double)(rows * j->all) * torch_width(r, b)) },
                         rows * j->all, torch_width(r, b))
            : b;
    return torch_sum(r, y, torch_scale(r, padded));
}

static void read_joined(torch_reading *r, const joined *j) {
    const node *q = j->part[0];
    tape_value x = in(r, q, MATMUL_A);
    tape_value w[PARTS];
    double weights = 0;
    for (int k = 0; k < PARTS; k++) {
        w[k] = j->part[k] ? in(r, j->part[k], MATMUL_B) : 0;
        if (w[k]) weights += (double)torch_elements(r, w[k]);
    }
    int64_t inner = (int64_t)weights / j->all;
    bool coded = torch_width(r, w[0]) < 1, trained = torch_wants(r, w[0]), casts = casts_products(r);
    uint64_t whole = coded ? (uint64_t)(weights * 2) : 0;
    tape_value read = casts ? torch_to(r, x, 2) : x;
    for (int k = 0; casts && !coded && k < PARTS; k++) w[k] = torch_weight_to(r, w[k], 2);
    unsigned narrow =
        casts && !coded && torch_wants(r, x) ? 2u + 4u + 8u : 0; /* copies, which only this call reads */
    tape_value y = torch_call(r,
                              (tape_call){ .what = "linear",
                                           .in = { read, w[0], w[1], w[2] },
                                           .keeps_in = (trained || coded ? 1u : 0) | narrow,
                                           .clings = coded ? 1u : 0,
                                           .forward = whole,
                                           .backward = whole },
                              torch_elements(r, x) / inner * j->all, torch_width(r, read));
    y = adapt_joined(r, x, y, j, inner);
    if (!j->part[1]) {
        set(r, q, y);
        return;
    }
    for (int k = 0; k < PARTS; k++)
        set(r, j->part[k],
            torch_call(r, (tape_call){ .what = "split", .in = { y }, .view = true },
                       torch_elements(r, y) / j->all * j->width[k], torch_width(r, y)));
}

/* The head's part is done with the loss. */
static void read_matmul(torch_reading *r, const node *n) {
    if (r->map[node_out(r->g, n, 0)]) return; /* a part that is made already */
    joined j = find_parts(r, n);
    if (j.all) {
        read_joined(r, &j);
        return;
    }
    tape_value x = in(r, n, MATMUL_A), w = in(r, n, MATMUL_B);
    if (n->site < 0) {
        set(r, n, x);
        return;
    }
    int64_t out = width_out(r, n), inner = torch_elements(r, w) / out;
    bool twice = text_ends_with(weight_of(r, n), "gate_up_proj.weight"); /* two products there */
    tape_value y = torch_linear(r, x, w, in(r, n, MATMUL_BIAS), out);
    for (int k = 0; k <= twice && torch_is_target(r->s, weight_of(r, n), true); k++)
        y = torch_adapted(r, &(torch_product){ .x = x, .weight = w, .inner = inner, .out = out }, y);
    set(r, n, y);
}

/* ---- attention ---- */

/* What is turned is made anew for as many heads as there are queries; cosines and sines belong to the model.
 */
static tape_value turned(torch_reading *r, tape_value x, int64_t all, double angle_width) {
    double width = torch_width(r, x), wide = width > angle_width ? width : angle_width;
    if (torch_elements(r, x) < all)
        x = torch_call(r, (tape_call){ .what = "repeat", .in = { x } }, all, width);
    tape_value straight = torch_call(r, (tape_call){ .what = "mul", .in = { x } }, all, wide);
    tape_value half = torch_call(r, (tape_call){ .what = "cat", .in = { x } }, all, width);
    tape_value roped =
        torch_sum(r, straight, torch_call(r, (tape_call){ .what = "mul", .in = { half } }, all, wide));
    roped = torch_to(r, roped, width);
    return torch_call(r, (tape_call){ .what = "cat", .in = { roped } }, all, width);
}

/* With its operands: as they come they have as many heads as the graph gives them. */
static void read_rotary(torch_reading *r, const node *n) { set(r, n, in(r, n, 0)); }

static void read_angles(torch_reading *r, const node *n) { set(r, n, 0); }

static void read_attention(torch_reading *r, const node *n) {
    const attention_attributes *t = node_attributes(r->g, n);
    tensor_id tq = node_in(r->g, n, 0), tk = node_in(r->g, n, 1);
    attention_sizes z = attention_sizes_of(graph_shape(r->g, tq), tk ? graph_shape(r->g, tk) : NULL, t);
    int64_t rows = z.batch * z.heads * z.queries, all = rows * z.size;
    tape_value q = in(r, n, 0), k = tk ? in(r, n, 1) : q, v = tk ? in(r, n, 2) : q;
    double angles = r->s->types == TORCH_HALF && r->s->older ? 2 : 4, width = torch_width(r, q);
    tape_value tq_value = turned(r, q, all, angles), tk_value = turned(r, k, all, angles);
    if (z.kv_heads < z.heads) v = torch_call(r, (tape_call){ .what = "repeat", .in = { v } }, all, width);
    tape_value y = torch_call(r,
                              (tape_call){ .what = "sdpa",
                                           .in = { tq_value, tk_value, v },
                                           .keeps_in = 7,
                                           .keeps_out = true,
                                           .kept = (uint64_t)rows * 4,
                                           .backward = r->s->cuda ? (uint64_t)all * 4 : 0 },
                              all, width);
    set(r, n, torch_call(r, (tape_call){ .what = "reshape", .in = { y } }, all, width));
}

/* ---- the loss ---- */

enum { TOKENS_AT_ONCE = 128 };

/* What an adapter beside the head has, in one piece; 0: there is none. */
static tape_value head_adapter(torch_reading *r, int64_t inner, int64_t vocabulary, bool adapted) {
    return adapted ? torch_adapter_weight(r, r->s->adapter_rank * (inner + vocabulary)) : 0;
}

/* Bytes of a frozen weight's casts beside the first: autocast makes one for each part, which keeps it. */
static double more_copies(const torch_reading *r, tape_value w, int64_t tokens) {
    double pieces = (double)((r->s->context + tokens - 1) / tokens);
    return !torch_wants(r, w) ? (pieces - 1) * (double)tape_bytes(r->t, w) : 0;
}

/* The product of the head. Parts of the logits and their log-softmax are held; gradients are those of one
 * part: its product comes when the loss of that part has let its log-softmax go, and its weight's gradient
 * when others are there is added to them. */
static tape_value make_logits(torch_reading *r, const node *maker, tape_value x, int64_t vocabulary) {
    tape_value w = in(r, maker, MATMUL_B);
    int64_t rows = r->s->batch * r->s->context, inner = torch_elements(r, w) / vocabulary,
            tokens = r->s->context < TOKENS_AT_ONCE ? r->s->context : TOKENS_AT_ONCE;
    bool coded = torch_width(r, w) < 1, adapted = torch_is_target(r->s, weight_of(r, maker), false);
    double all = (double)rows * (double)vocabulary * 4;
    double part = (double)(tokens * r->s->batch) * (double)vocabulary * 4;
    double widened = coded ? (double)torch_elements(r, w) * 2 : 0;
    tape_value dropped = adapted ? torch_drop(r, x, r->s->adapter_dropout) : x;
    if (casts_products(r)) x = torch_to(r, x, 2), dropped = torch_to(r, dropped, 2);
    bool casts = casts_products(r) && !coded;
    if (casts) w = torch_weight_to(r, w, 2);
    double more = (double)tape_bytes(r->t, w) - part; /* a weight's second gradient, where it is the most */
    bool adds = torch_wants(r, w) && r->s->context > TOKENS_AT_ONCE && more > 0;
    tape_call call = { .what = "head",
                       .in = { x, w, dropped == x ? 0 : dropped,
                               head_adapter(r, inner, vocabulary, adapted) },
                       .kept = (uint64_t)(2 * all - part + (casts ? more_copies(r, w, tokens) : 0)),
                       .forward = (uint64_t)(widened + (adapted ? 2 * part : 0)),
                       .backward = (uint64_t)(widened + (adds ? more : 0)) };
    bool reads = torch_wants(r, w) || coded, alone = adapted && dropped == x;
    call.keeps_in = (reads || alone ? 1u : 0) | (casts ? 2u : 0) | (dropped == x ? 0 : 4u);
    return torch_call(r, call, tokens * r->s->batch * vocabulary, 4);
}

static void read_loss(torch_reading *r, const node *n) {
    const node *maker = graph_node(r->g, graph_tensor(r->g, node_in(r->g, n, 0))->producer);
    int64_t vocabulary = shape_last(graph_shape(r->g, node_in(r->g, n, 0)));
    tape_value logits = make_logits(r, maker, in(r, n, 0), vocabulary);
    torch_call(
        r,
        (tape_call){ .what = "loss", .in = { logits }, .keeps_in = 1, .backward = tape_bytes(r->t, logits) },
        1, 4);
}

const torch_rule litgpt_rules[] = { { &op_rmsnorm, read_rmsnorm },
                                    { &op_matmul, read_matmul },
                                    { &op_rotary_angles, read_angles },
                                    { &op_rotary, read_rotary },
                                    { &op_attention, read_attention },
                                    { &op_cross_entropy, read_loss },
                                    { 0 } };
