/* Rules for mixtures of experts: what transformers does with its grouped products, the kind that it takes by
 * itself. Rows are sorted by their expert and multiplied together, so what is held does not depend on how the
 * router shares them out: it is the worst case always.
 *
 * Until transformers 5 experts are modules of their own, which are called one after the other. What is kept
 * is as large however rows are shared out; what an expert needs while it runs is that of equal shares here.
 */
#include "estimate/torch/torch_calls.h"
#include "ir/op.h"
#include "ops/expert_matmul/expert_matmul.h"
#include "ops/expert_rows/expert_rows.h"
#include "ops/gated_halves/gated_halves.h"
#include "ops/route/route.h"
#include "ops/row_gate/row_gate.h"

enum { INDEX_BYTES = 8 }; /* int64 */

static uint64_t bytes_of(const torch_reading *r, tape_value v) { return tape_bytes(r->t, v); }

static bool loops(const torch_reading *r) { return r->s->transformers && r->s->older; }

/* Softmax in f32, the largest with where they are, their sum and what was there before it divided them; then
 * the rows' order. */
static void read_route(torch_reading *r, const node *n) {
    const route_attributes *a = node_attributes(r->g, n);
    tape_value logits = torch_in(r, n, 0);
    int64_t chosen = shape_elements(graph_shape(r->g, node_out(r->g, n, 0)));
    double width = torch_width(r, logits);
    tape_value all = torch_softmax(r, "softmax", torch_to(r, logits, 4), 0);
    tape_value v = torch_call(
        r, (tape_call){ .what = "topk", .in = { all }, .kept = (uint64_t)chosen * INDEX_BYTES }, chosen, 4);
    if (a->normalised)
        v = torch_call(r,
                       (tape_call){ .what = "div",
                                    .in = { v },
                                    .view = true,
                                    .kept = (uint64_t)(chosen + chosen / a->chosen) * 4 },
                       chosen, 4);
    torch_set(r, n, a->wide ? v : torch_to(r, v, width));
    if (!loops(r))
        r->map[node_out(r->g, n, 1)] = torch_call(r, (tape_call){ .what = "sort" }, chosen, INDEX_BYTES);
}

/* x[order // k] */
static void read_rows(torch_reading *r, const node *n) {
    if (loops(r)) return;
    tape_value x = torch_in(r, n, 0), order = torch_in(r, n, 1);
    int64_t rows = shape_elements(graph_shape(r->g, node_out(r->g, n, 0)));
    torch_set(r, n,
              torch_call(r, (tape_call){ .what = "index", .in = { x, order }, .kept = bytes_of(r, order) },
                         rows, torch_width(r, x)));
}

/* Autocast does not know it: rows take the type of the weights. */
static void read_matmul(torch_reading *r, const node *n) {
    if (loops(r)) return;
    tape_value w = torch_in(r, n, 1), x = torch_to(r, torch_in(r, n, 0), torch_width(r, w));
    unsigned keeps = (torch_wants(r, w) ? 1u : 0) | (torch_wants(r, x) ? 2u : 0);
    torch_set(r, n,
              torch_call(r, (tape_call){ .what = "grouped_mm", .in = { x, w }, .keeps_in = keeps },
                         shape_elements(graph_shape(r->g, node_out(r->g, n, 0))), torch_width(r, x)));
}

/* Both halves are views, so both sides are kept with the whole; silu's result for the product is not. */
static void read_halves(torch_reading *r, const node *n) {
    if (loops(r)) return;
    tape_value x = torch_in(r, n, 0);
    int64_t half = torch_elements(r, x) / 2;
    torch_set(
        r, n,
        torch_call(r, (tape_call){ .what = "gate", .in = { x }, .keeps_in = 1, .kept = bytes_of(r, x) / 2 },
                   half, torch_width(r, x)));
}

/* ---- one expert after the other ---- */

typedef struct {
    tape_value x, weights, up, down, mask; /* up, down: of all experts */
    int64_t experts, rows, inner, width;   /* rows: of tokens, each as often as it is chosen */
} mixture;

static const node *maker(const torch_reading *r, const node *n, uint32_t in) {
    return graph_node(r->g, graph_tensor(r->g, node_in(r->g, n, in))->producer);
}

static mixture mixture_of(const torch_reading *r, const node *sum) {
    const node *down = maker(r, sum, 0), *gate = maker(r, down, 0), *up = maker(r, gate, 0),
               *rows = maker(r, up, 0);
    const shape *w = graph_shape(r->g, node_in(r->g, down, 1));
    return (mixture){ .x = torch_in(r, rows, 0),
                      .weights = torch_in(r, sum, 2),
                      .up = torch_in(r, up, 1),
                      .down = torch_in(r, down, 1),
                      .experts = w->dim[0],
                      .rows = shape_rows(graph_shape(r->g, node_out(r->g, rows, 0))),
                      .inner = w->dim[2],
                      .width = w->dim[1] };
}

/* A matrix of one expert: the whole of them is no tensor here. */
static tape_value matrix(torch_reading *r, const mixture *m, tape_value whole) {
    tape_item one = *tape_at(r->t, whole);
    one.elements = m->inner * m->width;
    return tape_add_source(r->t, &one);
}

/* Its rows are looked up, multiplied, weighted and added to `sum` in place, which keeps them. */
static tape_value add_expert(torch_reading *r, const mixture *m, int64_t rows, tape_value sum) {
    tape_value where =
        torch_call(r, (tape_call){ .what = "where", .in = { m->mask } }, 2 * rows, INDEX_BYTES);
    tape_value x = torch_call(r, (tape_call){ .what = "index", .in = { m->x, where }, .keeps_in = 2 },
                              rows * m->width, torch_width(r, m->x));
    tape_value gate = torch_function(r, "silu", torch_linear(r, x, matrix(r, m, m->up), 0, m->inner));
    tape_value up = torch_linear(r, x, matrix(r, m, m->up), 0, m->inner);
    tape_value y = torch_linear(r, torch_multiply(r, gate, up), matrix(r, m, m->down), 0, m->width);
    tape_value by = torch_call(r, (tape_call){ .what = "index", .in = { m->weights, where }, .keeps_in = 2 },
                               rows, torch_width(r, m->weights));
    tape_value weighted = torch_multiply(r, y, by);
    ((tape_call *)r->t->calls.data + r->t->calls.count - 1)->backward = bytes_of(r, weighted);
    weighted = torch_to(r, weighted, torch_width(r, sum));
    tape_call add = {
        .what = "index_add_", .in = { sum, weighted, where }, .keeps_in = 6, .view = true, .passes = true
    };
    return torch_call(r, add, torch_elements(r, sum), torch_width(r, sum));
}

static void read_loop(torch_reading *r, const node *n) {
    mixture m = mixture_of(r, n);
    tape_value sum =
        torch_call(r, (tape_call){ .what = "zeros" }, torch_elements(r, m.x), torch_width(r, m.x));
    m.mask = torch_call(r, (tape_call){ .what = "one_hot" }, m.rows * m.experts, INDEX_BYTES);
    for (int64_t e = 0; e < m.experts; e++) {
        int64_t rows = m.rows * (e + 1) / m.experts - m.rows * e / m.experts;
        if (rows > 0) sum = add_expert(r, &m, rows, sum);
    }
    tape_at(r->t, m.up)->elements = tape_at(r->t, m.down)->elements = 0;
    torch_set(r, n, sum);
}

/* By weights, back to the tokens' order, and the k of each added up. A product with a number a row has
 * another of its size on the way back, of which the rows' sums are taken. */
static void read_sum(torch_reading *r, const node *n) {
    if (loops(r)) {
        read_loop(r, n);
        return;
    }
    tape_value x = torch_in(r, n, 0), order = torch_in(r, n, 1), w = torch_in(r, n, 2);
    int64_t rows = torch_elements(r, x), tokens = shape_elements(graph_shape(r->g, node_out(r->g, n, 0)));
    tape_value sorted = torch_call(r, (tape_call){ .what = "index", .in = { w, order }, .keeps_in = 2 },
                                   torch_elements(r, w), torch_width(r, w));
    tape_value weighted = torch_multiply(r, x, sorted);
    ((tape_call *)r->t->calls.data + r->t->calls.count - 1)->backward = bytes_of(r, weighted);
    tape_value back =
        torch_call(r, (tape_call){ .what = "index", .in = { weighted }, .kept = bytes_of(r, order) }, rows,
                   torch_width(r, weighted));
    tape_value sum =
        torch_call(r, (tape_call){ .what = "sum", .in = { back } }, tokens, torch_width(r, back));
    torch_set(r, n, torch_to(r, sum, torch_width(r, x)));
}

static void read_row_gate(torch_reading *r, const node *n) {
    tape_value gate = torch_result_function(r, "sigmoid", torch_in(r, n, 1));
    torch_set(r, n, torch_multiply(r, gate, torch_in(r, n, 0)));
}

const torch_rule torch_rules_experts[] = { { &op_route, read_route },
                                           { &op_expert_rows, read_rows },
                                           { &op_expert_matmul, read_matmul },
                                           { &op_gated_halves, read_halves },
                                           { &op_expert_sum, read_sum },
                                           { &op_row_gate, read_row_gate },
                                           { 0 } };
