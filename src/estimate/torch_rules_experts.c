/* Rules for mixtures of experts: what transformers does with its grouped products, the kind that it takes by
 * itself. Rows are sorted by their expert and multiplied together, so what is held does not depend on how the
 * router shares them out: it is the worst case always. */
#include "estimate/torch_calls.h"
#include "ir/op.h"
#include "ops/expert_matmul/expert_matmul.h"
#include "ops/expert_rows/expert_rows.h"
#include "ops/gated_halves/gated_halves.h"
#include "ops/route/route.h"
#include "ops/row_gate/row_gate.h"

enum { INDEX_BYTES = 8 }; /* int64 */

static uint64_t bytes_of(const torch_reading *r, tape_value v) { return tape_bytes(r->t, v); }

/* Softmax in f32, the largest with where they are, their sum and what was there before it divided them; then
 * the rows' order. */
static void read_route(torch_reading *r, const node *n) {
    const route_attributes *a = node_attributes(r->g, n);
    tape_value logits = torch_in(r, n, 0);
    int64_t chosen = shape_elements(graph_shape(r->g, node_out(r->g, n, 0)));
    double width = torch_width(r, logits);
    tape_value all = torch_result_function(r, "softmax", torch_to(r, logits, 4));
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
    r->map[node_out(r->g, n, 1)] = torch_call(r, (tape_call){ .what = "sort" }, chosen, INDEX_BYTES);
}

/* x[order // k] */
static void read_rows(torch_reading *r, const node *n) {
    tape_value x = torch_in(r, n, 0), order = torch_in(r, n, 1);
    int64_t rows = shape_elements(graph_shape(r->g, node_out(r->g, n, 0)));
    torch_set(r, n,
              torch_call(r, (tape_call){ .what = "index", .in = { x, order }, .kept = bytes_of(r, order) },
                         rows, torch_width(r, x)));
}

/* Autocast does not know it: rows take the type of the weights. */
static void read_matmul(torch_reading *r, const node *n) {
    tape_value w = torch_in(r, n, 1), x = torch_to(r, torch_in(r, n, 0), torch_width(r, w));
    unsigned keeps = (torch_wants(r, w) ? 1u : 0) | (torch_wants(r, x) ? 2u : 0);
    torch_set(r, n,
              torch_call(r, (tape_call){ .what = "grouped_mm", .in = { x, w }, .keeps_in = keeps },
                         shape_elements(graph_shape(r->g, node_out(r->g, n, 0))), torch_width(r, x)));
}

/* Both halves are views, so both sides are kept with the whole; silu's result for the product is not. */
static void read_halves(torch_reading *r, const node *n) {
    tape_value x = torch_in(r, n, 0);
    int64_t half = torch_elements(r, x) / 2;
    torch_set(
        r, n,
        torch_call(r, (tape_call){ .what = "gate", .in = { x }, .keeps_in = 1, .kept = bytes_of(r, x) / 2 },
                   half, torch_width(r, x)));
}

/* By weights, back to the tokens' order, and the k of each added up. A product with a number a row has
 * another of its size on the way back, of which the rows' sums are taken. */
static void read_sum(torch_reading *r, const node *n) {
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
