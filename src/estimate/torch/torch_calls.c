#include "estimate/torch/torch_calls.h"

#include "estimate/torch/torch_sums.h"
#include "estimate/torch/torch_versions.h"

tape_value torch_in(const torch_reading *r, const node *n, uint32_t i) {
    tensor_id t = node_in(r->g, n, i);
    return t ? r->map[t] : 0;
}

void torch_set(const torch_reading *r, const node *n, tape_value v) { r->map[node_out(r->g, n, 0)] = v; }

double torch_width(const torch_reading *r, tape_value v) { return tape_at(r->t, v)->width; }
int64_t torch_elements(const torch_reading *r, tape_value v) { return tape_at(r->t, v)->elements; }
bool torch_wants(const torch_reading *r, tape_value v) { return v && tape_at(r->t, v)->wants; }

static double wider(const torch_reading *r, tape_value a, tape_value b) {
    return torch_width(r, a) > torch_width(r, b) ? torch_width(r, a) : torch_width(r, b);
}

int64_t torch_count(int64_t a, int64_t b, int64_t c) {
    double n = (double)a * (double)b * (double)c;
    return n < (double)TAPE_MOST ? (int64_t)n : TAPE_MOST;
}

tape_value torch_call(torch_reading *r, tape_call call, int64_t elements, double width) {
    call.site = r->site;
    return tape_add(r->t, &call,
                    &(tape_item){ .elements = elements, .width = width, .term = TAPE_ACTIVATIONS });
}

tape_value torch_to(torch_reading *r, tape_value x, double width) {
    if (!x || torch_width(r, x) == width) return x;
    tape_value y = torch_call(r, (tape_call){ .what = "to", .in = { x } }, torch_elements(r, x), width);
    tape_at(r->t, y)->term = tape_at(r->t, x)->term == TAPE_LOGITS ? TAPE_LOGITS : TAPE_ACTIVATIONS;
    return y;
}

/* Where a trained weight is cast for the first time the copy stays until autocast ends, with forward. Copies
 * of frozen ones are made anew each time. */
tape_value torch_weight_to(torch_reading *r, tape_value w, double width) {
    if (!w || torch_width(r, w) == width) return w;
    if (!torch_wants(r, w)) return torch_to(r, w, width);
    bool shared = w < r->cast_room; /* those made by a rule are read once */
    if (shared && r->cast[w]) return r->cast[w];
    tape_value y = torch_to(r, w, width);
    tape_at(r->t, y)->held = true;
    if (shared) r->cast[w] = y;
    return y;
}

tape_value torch_multiply(torch_reading *r, tape_value a, tape_value b) {
    int64_t n = torch_elements(r, a) > torch_elements(r, b) ? torch_elements(r, a) : torch_elements(r, b);
    unsigned keeps = (torch_wants(r, b) ? 1u : 0) | (torch_wants(r, a) ? 2u : 0);
    tape_call call = { .what = "mul", .in = { a, b }, .keeps_in = keeps };
    int64_t columns = torch_elements(r, a);
    if (tape_at(r->t, a)->term == TAPE_WEIGHTS && torch_wants(r, a) && columns < n) { /* it is broadcast */
        call.summand = (uint64_t)((double)n * wider(r, a, b));
        call.sum = torch_sum_buffer(r->s, n / columns, columns);
    }
    return torch_call(r, call, n, wider(r, a, b));
}

tape_value torch_scale(torch_reading *r, tape_value x) {
    return torch_call(r, (tape_call){ .what = "mul", .in = { x } }, torch_elements(r, x), torch_width(r, x));
}

tape_value torch_sum(torch_reading *r, tape_value a, tape_value b) {
    int64_t n = torch_elements(r, a) > torch_elements(r, b) ? torch_elements(r, a) : torch_elements(r, b);
    return torch_call(r, (tape_call){ .what = "add", .in = { a, b }, .passes = true }, n, wider(r, a, b));
}

tape_value torch_function(torch_reading *r, const char *what, tape_value x) {
    return torch_call(r, (tape_call){ .what = what, .in = { x }, .keeps_in = 1 }, torch_elements(r, x),
                      torch_width(r, x));
}

tape_value torch_result_function(torch_reading *r, const char *what, tape_value x) {
    return torch_call(r, (tape_call){ .what = what, .in = { x }, .keeps_out = true }, torch_elements(r, x),
                      torch_width(r, x));
}

tape_value torch_softmax(torch_reading *r, const char *what, tape_value x, uint64_t backward) {
    tape_call call = { .what = what,
                       .in = { x },
                       .keeps_in = torch_softmax_keeps_input(r->s),
                       .keeps_out = true,
                       .backward = backward };
    return torch_call(r, call, torch_elements(r, x), torch_width(r, x));
}

/* Its gradients read x where w is trained, and w where x has a gradient. A quantized w is widened for the
 * call, in forward and again in backward, x is cast for it and the result cast back (bitsandbytes'
 * Linear4bit); before 0.43.2 x was kept as well, for nothing (bitsandbytes#1270), as
 * an attribute of the graph's node, which lives as long as the graph; and x in f32 was not cast, since the
 * type of the first input was taken for the products (set_compute_type): w is widened to f32, and autocast
 * narrows both again. */
tape_value torch_linear(torch_reading *r, tape_value x, tape_value w, tape_value bias, int64_t out) {
    bool casts = r->s->types == TORCH_AUTOCAST, coded = torch_width(r, w) < 1;
    bool keeps_input = torch_wants(r, w) || (coded && (r->s->older || r->s->litgpt));
    int64_t in = torch_elements(r, w) / out, rows = torch_elements(r, x) / in;
    bool wide = coded && casts && r->s->older && torch_width(r, x) == 4;
    bool clings = coded && keeps_input && (!r->s->checkpointing || r->s->reentrant);
    uint64_t whole = coded ? (uint64_t)torch_elements(r, w) * 2 : 0,
             narrow = wide ? (uint64_t)torch_elements(r, x) * 2 : 0;
    double width = torch_width(r, x);
    if (casts) {
        if (!wide) x = torch_to(r, x, 2);
        if (!coded) w = torch_weight_to(r, w, 2);
        if (bias) bias = torch_weight_to(r, bias, 2);
    }
    unsigned keeps = (keeps_input ? 1u : 0) | (torch_wants(r, x) ? 2u : 0);
    tape_value y =
        torch_call(r,
                   (tape_call){ .what = "linear",
                                .in = { x, w, bias },
                                .keeps_in = keeps,
                                .clings = clings ? 1u : 0,
                                .forward = (wide ? 3 : 1) * whole + narrow,
                                .backward = whole + narrow,
                                .multiplies = true,
                                .biased = bias != 0,
                                .sum = bias && torch_wants(r, bias) ? torch_sum_buffer(r->s, rows, out) : 0 },
                   rows * out, casts ? 2 : torch_width(r, x));
    return coded ? torch_to(r, y, width) : y;
}

/* A byte an element for the mask; on a CPU the mask is a factor of the values' type. */
tape_value torch_drop(torch_reading *r, tape_value x, double p) {
    if (!(p > 0)) return x;
    double mask = (double)torch_elements(r, x) * (r->s->cuda ? 1 : torch_width(r, x));
    return torch_call(r, (tape_call){ .what = "dropout", .in = { x }, .kept = (uint64_t)mask },
                      torch_elements(r, x), torch_width(r, x));
}
