/* What ranks have shares of. A weight, its gradient's sum and the optimizer's states are cut together, at the
 * same places, where all that touches them in the update works element by element: then it runs on shares as
 * on smaller tensors, with the same bits. Where it doesn't (codes of 8 bits that are trained have scales
 * across; Adafactor has rows and columns), all of them stay whole. */
#include "base/memory.h"
#include "ir/op.h"
#include "ops/state.h"
#include "ops/sum_squares/sum_squares.h"
#include "passes/sharding/sharding.h"

static bool is_update(const node *n) { return n->phase == PHASE_UPDATE; }

static bool by_elements(const node *n) { return op_in_pieces(n->op) || n->op == &op_sum_squares; }

/* Weights that are trained as codes: their update sees whole rows or columns. */
static bool is_across(const tensor *x) { return x->dtype == DTYPE_I8 && x->flags & TENSOR_TRAINABLE; }

/* By owner of a storage: is it an operand of an update, and of one that needs it whole? */
typedef struct {
    bool *updated, *whole;
} survey;

static bool is_scales(const node *n, uint32_t i) {
    for (uint32_t k = 0; k < op_state_count(n->op); k++) {
        const op_state *s = &n->op->update->states[k];
        if (s->scales && (i < n->in_count ? i == s->scales : i - n->in_count == s->scales_out)) return true;
    }
    return false;
}

/* Scales of states follow these, however large they are themselves. */
static tensor_id operand(const graph *g, const node *n, uint32_t i) {
    tensor_id t = i < n->in_count ? node_in(g, n, i) : node_out(g, n, i - n->in_count);
    return share_is_large(g, t) && !is_scales(n, i) ? graph_storage(g, t, NULL) : 0;
}

static uint32_t operands(const node *n) { return (uint32_t)n->in_count + n->out_count; }

static bool needs_whole(const graph *g, const node *n, const survey *s) {
    int64_t elements = 0;
    bool whole = !by_elements(n);
    for (uint32_t i = 0; i < operands(n) && !whole; i++) {
        tensor_id t = operand(g, n, i);
        if (!t) continue;
        int64_t here = shape_elements(graph_shape(g, t));
        whole = s->whole[t] || is_across(graph_tensor(g, t)) || (elements && here != elements);
        elements = here;
    }
    return whole;
}

/* What is whole makes others whole, until nothing changes. */
static void look(const graph *g, survey *s) {
    for (bool changed = true; changed;) {
        changed = false;
        for (node_id id = 1; id < g->nodes.count; id++) {
            const node *n = graph_node(g, id);
            bool whole = is_update(n) && needs_whole(g, n, s);
            for (uint32_t i = 0; is_update(n) && i < operands(n); i++) {
                tensor_id t = operand(g, n, i);
                s->updated[t] = true;
                if (t && whole && !s->whole[t]) s->whole[t] = changed = true;
            }
        }
    }
}

static status survey_open(const graph *g, survey *s) {
    *s = (survey){ memory_new(g->tensors.count, sizeof(bool)), memory_new(g->tensors.count, sizeof(bool)) };
    if (!s->updated || !s->whole) return status_set(STATUS_FAILED, "no memory to look at a graph");
    look(g, s);
    return STATUS_OK;
}

static void survey_close(survey *s) {
    memory_free(s->updated);
    memory_free(s->whole);
}

/* Frozen weights have no update, and are cut as well. What is away is read by casts and copies alone, which
 * shares are enough for. */
static bool is_cut(const graph *g, tensor_id t, share_stage stage, const survey *s) {
    const tensor *x = graph_tensor(g, t);
    if (x->producer || !share_is_large(g, t)) return false;
    if (x->role == ROLE_GRADIENT) return true;
    if (stage == SHARE_SUMS || s->whole[t]) return false;
    if (x->role == ROLE_STATE) return s->updated[t] && !(x->flags & TENSOR_OF_MODEL);
    return x->role == ROLE_PARAMETER && (stage == SHARE_WEIGHTS || x->away) && !is_across(x);
}

/* The scales of states that are cut. */
static void cut_scales(const graph *g, int64_t *cut) {
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        for (uint32_t i = 0; i < op_state_count(n->op); i++) {
            const op_state *s = &n->op->update->states[i];
            tensor_id scales = node_in(g, n, s->scales), state = node_in(g, n, s->in);
            if (scales && state && cut[graph_storage(g, state, NULL)])
                cut[graph_storage(g, scales, NULL)] = STATE_BLOCK;
        }
    }
}

status cut_find(const graph *g, share_stage stage, int64_t *cut, bool *in_parts) {
    survey s;
    status result = survey_open(g, &s);
    for (tensor_id t = 1; result == STATUS_OK && t < g->tensors.count; t++) {
        cut[t] = is_cut(g, t, stage, &s);
        in_parts[t] = stage != SHARE_SUMS && s.updated[t] && !s.whole[t];
    }
    if (result == STATUS_OK) cut_scales(g, cut);
    survey_close(&s);
    return result;
}

bool cut_any(const graph *g, const char **name) {
    survey s;
    bool any = false;
    *name = "";
    if (survey_open(g, &s) != STATUS_OK) return false;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (x->producer || x->role != ROLE_PARAMETER || !share_is_large(g, t) || is_across(x)) continue;
        if (s.whole[t])
            *name = graph_name(g, t);
        else
            any = true;
    }
    survey_close(&s);
    return any;
}
