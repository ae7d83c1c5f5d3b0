/* Recomputation (activation checkpointing): forward values that backward mentions are not kept but computed
 * again when backward asks for them. What is kept is chosen per node: the nodes of a block are ranked by
 * operations per byte that dropping their result saves, and a level drops all nodes up to a rank. Values that
 * cross from one block to the next are always kept, so a recomputation never reaches beyond its block.
 * The same kernels on the same inputs: bit for bit the same run.
 * Papers: Chen et al., "Training deep nets with sublinear memory cost", arXiv:1604.06174; Korthikanti et al.,
 * "Reducing activation recomputation in large transformer models", arXiv:2205.05198. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "ir/op.h"
#include "ir/rewrite.h"
#include "passes/pass.h"

/* Levels: 0 nothing, 1 the cheap nodes, 2.. one more kind of node each, LEVEL_BLOCK all. A setting is a level
 * for the first blocks (their values wait longest), how many those are, and a level for the others. */
enum {
    LEVEL_CHEAP = 1,
    LEVEL_BLOCK = 99,
    MAX_LEVELS = 12,
    SETTING_LEVEL = 0,
    SETTING_BLOCKS = 1,
    SETTING_REST = 2
};
static const int64_t ALL_BLOCKS = 1 << 20;
static const double CHEAP =
    64; /* operations per byte below which recomputing costs less than a sweep of memory */

static const double DRAW = 24; /* operations of a random number */

/* ---- ranking ---- */

typedef struct {
    double ratio; /* operations per byte of result */
    double bytes;
} rank_key;

typedef struct {
    rank_key kinds[MAX_LEVELS]; /* of nodes that are not cheap, cheapest first */
    uint32_t count;
    int32_t sites;
} ranking;

static bool same_key(const rank_key *a, const rank_key *b) {
    return a->ratio == b->ratio && a->bytes == b->bytes;
}

/* Cheaper per byte first; between equals the one that frees more. */
static int compare_keys(const void *a, const void *b) {
    const rank_key *x = a, *y = b;
    if (x->ratio != y->ratio) return x->ratio < y->ratio ? -1 : 1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static rank_key key_of(const graph *g, const node *n) {
    op_cost cost = n->op->cost(g, n);
    double work = cost.flops + DRAW * cost.draws + cost.bytes_read + cost.bytes_written;
    return (rank_key){ .ratio = work / (cost.bytes_written > 0 ? cost.bytes_written : 1),
                       .bytes = cost.bytes_written };
}

static bool is_view(const node *n) { return (n->op->traits & OP_VIEW) != 0; }

/* Which nodes may be recomputed at all: inside a block, writing nothing in place, not seen by other blocks.
 */
static bool *find_candidates(const graph *g) {
    bool *may = memory_new(g->nodes.count, sizeof *may);
    for (node_id id = 1; may && id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        may[id] = n->phase == PHASE_FORWARD && n->site >= 0 && !is_view(n) && !(n->op->traits & OP_GATHER);
        for (uint32_t i = 0; i < n->out_count; i++) {
            const tensor *t = graph_tensor(g, node_out(g, n, i));
            if (t->base || t->flags & TENSOR_KEEP) may[id] = false;
        }
        if (n->phase != PHASE_FORWARD) continue;
        for (uint32_t i = 0; i < n->in_count; i++) { /* what crosses into this site is kept */
            if (!node_in(g, n, i)) continue;
            node_id maker = graph_tensor(g, graph_storage(g, node_in(g, n, i), NULL))->producer;
            if (maker && graph_node(g, maker)->site != n->site) may[maker] = false;
        }
    }
    return may;
}

static void rank_nodes(const graph *g, const bool *may, ranking *r) {
    *r = (ranking){ 0 };
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        if (!may[id]) continue;
        if (n->site >= r->sites) r->sites = n->site + 1;
        rank_key key = key_of(g, n);
        bool known = key.ratio <= CHEAP;
        for (uint32_t i = 0; i < r->count && !known; i++) known = same_key(&r->kinds[i], &key);
        if (!known && r->count < MAX_LEVELS) r->kinds[r->count++] = key;
    }
    qsort(r->kinds, r->count, sizeof *r->kinds, compare_keys);
}

/* The least level that drops this node. */
static int64_t level_of(const ranking *r, const rank_key *key) {
    if (key->ratio <= CHEAP) return LEVEL_CHEAP;
    for (uint32_t i = 0; i < r->count; i++)
        if (same_key(&r->kinds[i], key)) return LEVEL_CHEAP + 1 + (int64_t)i;
    return LEVEL_BLOCK;
}

/* ---- settings ---- */

static void write_level(char *to, size_t room, int64_t level) {
    if (level == LEVEL_BLOCK)
        snprintf(to, room, "block");
    else if (level == LEVEL_CHEAP)
        snprintf(to, room, "cheap");
    else
        snprintf(to, room, "%d", (int)level);
}

static pass_setting make_setting(int64_t level, int64_t blocks, int64_t rest) {
    pass_setting s = { .value = { level, blocks, rest }, .class = PASS_EXACT };
    char first[8], others[8];
    write_level(first, sizeof first, level);
    write_level(others, sizeof others, rest);
    size_t n = (size_t)snprintf(s.text, sizeof s.text, "%s", first);
    if (blocks < ALL_BLOCKS) n += (size_t)snprintf(s.text + n, sizeof s.text - n, ":%d", (int)blocks);
    if (blocks < ALL_BLOCKS && rest) snprintf(s.text + n, sizeof s.text - n, "+%s", others);
    return s;
}

static status parse_level(const char *text, int64_t *level) {
    if (strcmp(text, "cheap") == 0)
        *level = LEVEL_CHEAP;
    else if (strcmp(text, "block") == 0)
        *level = LEVEL_BLOCK;
    else
        return units_parse_integer(text, "--recompute", 1, LEVEL_BLOCK - 1, level);
    return STATUS_OK;
}

/* LEVEL[:BLOCKS[+LEVEL]], LEVEL being cheap, block or a number in between. */
static status parse(const char *text, pass_setting *out) {
    char copy[32];
    snprintf(copy, sizeof copy, "%s", text);
    int64_t level, blocks = ALL_BLOCKS, rest = 0;
    char *plus = strchr(copy, '+');
    if (plus) *plus++ = 0;
    char *colon = strchr(copy, ':');
    if (colon) *colon++ = 0;
    if (parse_level(copy, &level) != STATUS_OK ||
        (colon && units_parse_integer(colon, "", 1, 4096, &blocks) != STATUS_OK) ||
        (plus && parse_level(plus, &rest) != STATUS_OK) || (plus && !colon) || strlen(text) >= sizeof copy)
        return status_set(
            STATUS_INVALID,
            "--recompute: '%s' is neither auto, off, cheap, block, a level, nor LEVEL:BLOCKS[+LEVEL]", text);
    *out = make_setting(level, blocks, rest);
    return STATUS_OK;
}

static uint32_t settings(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without) {
    (void)without;
    if (!c->training) return 0;
    bool *may = find_candidates(g);
    if (!may) return 0;
    ranking r;
    rank_nodes(g, may, &r);
    memory_free(may);
    uint32_t count = 0;
    int64_t levels = LEVEL_CHEAP + (int64_t)r.count, sites = c->layers && r.sites ? c->layers : r.sites;
    for (int64_t level = LEVEL_CHEAP; sites && level <= levels; level++) {
        int64_t name = level == levels && level > LEVEL_CHEAP ? LEVEL_BLOCK : level;
        int64_t step = (sites + 3) / 4;
        for (int64_t blocks = step; blocks < sites && count < room; blocks += step)
            out[count++] = make_setting(name, blocks, level - 1);
        if (count < room) out[count++] = make_setting(name, ALL_BLOCKS, 0);
    }
    return count;
}

/* A number of blocks that the model does not have is a mistake about the model. */
static status check(const graph *g, const pass_setting *s, const pass_context *c) {
    (void)c;
    bool *may = find_candidates(g);
    if (!may) return status_set(STATUS_FAILED, "no memory to look at a graph");
    ranking r;
    rank_nodes(g, may, &r);
    memory_free(may);
    if (s->value[SETTING_BLOCKS] == ALL_BLOCKS || s->value[SETTING_BLOCKS] <= r.sites) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--recompute %s: there are %d blocks; write at most so many behind the colon", s->text,
                      (int)r.sites);
}

static int64_t divides(const pass_setting *s) {
    return s->value[SETTING_BLOCKS] < ALL_BLOCKS ? s->value[SETTING_BLOCKS] : 0;
}

static pass_setting divide(const pass_setting *s, int64_t blocks) {
    return make_setting(s->value[SETTING_LEVEL], blocks, s->value[SETTING_REST]);
}

/* ---- rewriting ---- */

typedef struct {
    rewrite r;
    const bool *drop; /* by node: its results are not kept */
    tensor_id *again; /* by tensor: its recomputed self; 0: not (yet) */
} recomputer;

static bool *choose_dropped(const graph *g, const pass_setting *s) {
    bool *drop = find_candidates(g);
    ranking r;
    if (drop) rank_nodes(g, drop, &r);
    for (node_id id = 1; drop && id < g->nodes.count; id++) {
        if (!drop[id]) continue;
        const node *n = graph_node(g, id);
        int64_t allowed =
            n->site < s->value[SETTING_BLOCKS] ? s->value[SETTING_LEVEL] : s->value[SETTING_REST];
        rank_key key = key_of(g, n);
        drop[id] = level_of(&r, &key) <= allowed;
    }
    return drop;
}

/* The tensor to read instead of t in a later phase: t itself where it is kept, otherwise a value computed
 * anew (once). Recursion ends at kept values, at the latest at the borders of the block. */
static tensor_id recall(recomputer *k, tensor_id t) {
    const graph *in = k->r.in;
    node_id id = graph_tensor(in, t)->producer;
    const node *n = graph_node(in, id);
    if (k->again[t]) return k->again[t];
    if (!id || n->phase != PHASE_FORWARD) return k->r.map[t];
    bool again = k->drop[id];
    if (is_view(n)) again = recall(k, node_in(in, n, 0)) != k->r.map[node_in(in, n, 0)];
    if (!again) return k->r.map[t];
    for (uint32_t i = 0; i < n->in_count; i++)
        if (node_in(in, n, i)) k->again[node_in(in, n, i)] = recall(k, node_in(in, n, i));
    rewrite_node_as(&k->r, id, k->again, k->again, PHASE_BACKWARD);
    return k->again[t];
}

static status run(const graph *in, const pass_setting *s, const pass_context *c, graph *out) {
    (void)c;
    recomputer k = { .again = memory_new(in->tensors.count, sizeof(tensor_id)),
                     .drop = choose_dropped(in, s) };
    status result = rewrite_open(&k.r, in, out);
    if (!k.again || !k.drop) graph_no_memory(out);
    for (node_id id = 1; id < in->nodes.count && !out->failed; id++) {
        const node *n = graph_node(in, id);
        if (n->phase == PHASE_FORWARD) {
            rewrite_node(&k.r, id);
            continue;
        }
        for (uint32_t i = 0; i < n->in_count; i++)
            if (node_in(in, n, i)) k.again[node_in(in, n, i)] = recall(&k, node_in(in, n, i));
        rewrite_node_as(&k.r, id, k.again, k.r.map, (phase)n->phase);
        for (uint32_t i = 0; i < n->out_count; i++) k.again[node_out(in, n, i)] = k.r.map[node_out(in, n, i)];
    }
    memory_free(k.again);
    memory_free((void *)k.drop);
    status closed = rewrite_close(&k.r);
    return result != STATUS_OK ? result : closed;
}

const pass pass_recompute = { .name = "recompute",
                              .help = "compute forward values again in backward (activation checkpointing)",
                              .values = "auto, off, cheap, block, or LEVEL:BLOCKS[+LEVEL]",
                              .paper = "arXiv:1604.06174",
                              .class = PASS_EXACT,
                              .stage = PASS_STEP,
                              .training_only = true,
                              .parse = parse,
                              .settings = settings,
                              .check = check,
                              .run = run,
                              .divides = divides,
                              .divide = divide };
