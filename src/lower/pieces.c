#include "lower/pieces.h"

#include "base/units.h"
#include "ops/state.h"

_Static_assert(PIECES_ELEMENTS % STATE_BLOCK == 0 && PIECES_ELEMENTS % PIECES_PAGE == 0,
               "pieces are whole blocks, of whole pages");

static const node *node_of(const program *p, uint32_t step) {
    return graph_node(&p->graph, p->steps[step].node);
}

static tensor_id state_in_file(const program *p, const node *n, uint32_t i) {
    tensor_id t = node_in(&p->graph, n, n->op->states[i].in);
    return t && graph_tensor(&p->graph, t)->pool == POOL_FILE ? t : 0;
}

bool pieces_step(const program *p, uint32_t step) {
    const node *n = node_of(p, step);
    for (uint32_t i = 0; i < n->op->state_count; i++)
        if (state_in_file(p, n, i)) return true;
    return false;
}

bool pieces_next(const program *p, piece *x) {
    int64_t next = x->first + x->count;
    for (uint32_t s = x->step; s < p->count; s++, next = 0) {
        if (!pieces_step(p, s)) continue;
        int64_t left = shape_elements(graph_shape(&p->graph, node_in(&p->graph, node_of(p, s), 0))) - next;
        if (left <= 0) continue;
        *x = (piece){ .step = s, .first = next, .count = left < PIECES_ELEMENTS ? left : PIECES_ELEMENTS };
        return true;
    }
    return false;
}

uint32_t pieces_parts(const program *p, const piece *x, piece_part parts[PIECES_STATES]) {
    const node *n = node_of(p, x->step);
    uint32_t count = 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < n->op->state_count; i++) {
        tensor_id t = state_in_file(p, n, i);
        if (!t) continue;
        uint64_t each = dtype_bytes((dtype)graph_tensor(&p->graph, t)->dtype);
        parts[count] = (piece_part){ .state = t,
                                     .from = (uint64_t)x->first * each,
                                     .bytes = units_align((uint64_t)x->count * each, PIECES_PAGE),
                                     .at = at,
                                     .in = n->op->states[i].in,
                                     .out = n->op->states[i].out };
        at += parts[count++].bytes;
    }
    return count;
}

static uint64_t slot_bytes(const program *p, const piece *x) {
    piece_part parts[PIECES_STATES];
    uint32_t count = pieces_parts(p, x, parts);
    return count ? parts[count - 1].at + parts[count - 1].bytes : 0;
}

static int64_t elements_of(const program *p, uint32_t step) {
    return shape_elements(graph_shape(&p->graph, node_in(&p->graph, node_of(p, step), 0)));
}

static uint64_t count_of(const program *p, uint32_t step) {
    return ((uint64_t)elements_of(p, step) + PIECES_ELEMENTS - 1) / PIECES_ELEMENTS;
}

/* The first piece of a step is as large as any of it. */
static uint64_t largest_of(const program *p, uint32_t step) {
    piece x = { .step = step };
    return pieces_next(p, &x) ? slot_bytes(p, &x) : 0;
}

pieces_size pieces_measure(const program *p) {
    pieces_size size = { 0 };
    for (uint32_t s = 0; s < p->count; s++) {
        if (!pieces_step(p, s)) continue;
        uint64_t bytes = largest_of(p, s);
        size.count += count_of(p, s);
        if (bytes > size.slot_bytes) size.slot_bytes = bytes;
    }
    return size;
}

/* ---- calls ---- */

static bool is_scales(const op_def *op, uint32_t in, uint32_t out) {
    for (uint32_t i = 0; i < op->state_count; i++)
        if (op->states[i].scales == in || op->states[i].scales_out == out) return true;
    return false;
}

/* Of an argument that has an element for each of the weight's, or for each block of them. */
static void narrow(op_arg *a, const piece *x, const shape *weight, bool scales) {
    if (!a->data && a->dtype == DTYPE_NONE) return;
    int64_t first = scales ? x->first / STATE_BLOCK : x->first,
            count = scales ? state_scales(x->count) : x->count;
    if (!scales && !shape_equal(&a->shape, weight)) return; /* a number of the step */
    if (a->data) a->data = (char *)a->data + (uint64_t)first * dtype_bytes(a->dtype);
    a->shape = SHAPE(count);
}

void pieces_call(const program *p, const piece *x, const op_call *whole, char *slot, op_arg *args,
                 op_call *part) {
    enum { NO_SIDE = 255 };
    const op_def *op = node_of(p, x->step)->op;
    const shape weight = whole->in[0].shape;
    piece_part parts[PIECES_STATES];
    uint32_t count = pieces_parts(p, x, parts);
    op_arg *out = args + whole->in_count;
    for (uint32_t i = 0; i < whole->in_count; i++) {
        args[i] = whole->in[i];
        narrow(&args[i], x, &weight, is_scales(op, i, NO_SIDE));
    }
    for (uint32_t i = 0; i < whole->out_count; i++) {
        out[i] = whole->out[i];
        narrow(&out[i], x, &weight, is_scales(op, NO_SIDE, i));
    }
    for (uint32_t k = 0; k < count; k++) args[parts[k].in].data = out[parts[k].out].data = slot + parts[k].at;
    *part = *whole;
    part->in = args, part->out = out;
}

/* ---- time ---- */

/* A slot is free again when what was in it is written; reading and writing take turns. In the beginning the
 * last pieces of the step before are still to be written. */
typedef struct {
    double freed[PIECES_SLOTS]; /* when it was used */
    double transfer, now;
    uint64_t next; /* piece */
} pipeline;

static void one_piece(pipeline *l, double moving, double computing) {
    double *freed = &l->freed[l->next++ % PIECES_SLOTS];
    l->transfer = (l->transfer > *freed ? l->transfer : *freed) + moving;
    if (l->transfer > l->now) l->now = l->transfer;
    *freed = l->now += computing;
}

/* After some rounds of the slots each piece takes as long as the slower of the two. */
static void many_pieces(pipeline *l, uint64_t count, double moving, double computing) {
    enum { ROUNDS = 4 * PIECES_SLOTS };
    uint64_t some = count < ROUNDS ? count : ROUNDS;
    for (uint64_t i = 0; i < some; i++) one_piece(l, moving, computing);
    double rest = (double)(count - some) * (moving > computing ? moving : computing);
    l->transfer += rest, l->now += rest;
    for (int i = 0; i < PIECES_SLOTS; i++) l->freed[i] += rest;
}

double pieces_seconds(const program *p, const device_rates *rates, double *waits) {
    pipeline l = { 0 };
    for (uint32_t s = 0; s < p->count; s++) {
        double began = l.now, each = p->steps[s].seconds;
        if (pieces_step(p, s)) {
            double count = (double)elements_of(p, s) / PIECES_ELEMENTS, bytes = (double)largest_of(p, s);
            if (count < 1) count = 1;
            double moving = bytes / rates->file_written + bytes / rates->file_read;
            many_pieces(&l, count_of(p, s), moving * count / (double)count_of(p, s),
                        each / (double)count_of(p, s));
        } else {
            l.now += each;
        }
        if (waits) waits[s] = l.now - began - each;
    }
    return l.now;
}
