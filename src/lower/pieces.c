#include "lower/pieces.h"

#include "base/units.h"
#include "lower/lanes.h"
#include "ops/state.h"

_Static_assert(PIECES_ELEMENTS % STATE_BLOCK == 0 && PIECES_ELEMENTS % PIECES_PAGE == 0,
               "pieces are whole blocks, of whole pages");

static const node *node_of(const program *p, uint32_t step) {
    return graph_node(&p->graph, p->steps[step].node);
}

/* The owner of t's storage, if that is away; 0: it is in memory. */
static tensor_id away_of(const graph *g, tensor_id t) {
    tensor_id owner = t ? graph_storage(g, t, NULL) : 0;
    return owner && graph_tensor(g, owner)->away ? owner : 0;
}

bool pieces_step(const program *p, uint32_t step) {
    if (!p->has_away) return false;
    const node *n = node_of(p, step);
    for (uint32_t i = 0; i < n->in_count; i++)
        if (away_of(&p->graph, node_in(&p->graph, n, i))) return true;
    for (uint32_t i = 0; i < n->out_count; i++)
        if (away_of(&p->graph, node_out(&p->graph, n, i))) return true;
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

static piece_part *part_of(piece_part *parts, uint32_t *count, tensor_id owner) {
    uint32_t i = 0;
    while (i < *count && parts[i].owner != owner) i++;
    if (i == *count) parts[(*count)++] = (piece_part){ .owner = owner };
    return &parts[i];
}

static uint32_t list_parts(const graph *g, const node *n, piece_part parts[PIECES_PARTS]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->in_count && count < PIECES_PARTS; i++) {
        tensor_id owner = away_of(g, node_in(g, n, i));
        bool read = !(n->op->places >> i & 1u);
        piece_part *x = owner && read ? part_of(parts, &count, owner) : NULL;
        if (x) x->read = true, x->in = i;
    }
    for (uint32_t i = 0; i < n->out_count && count < PIECES_PARTS; i++) {
        tensor_id owner = away_of(g, node_out(g, n, i));
        piece_part *x = owner ? part_of(parts, &count, owner) : NULL;
        if (x) x->written = true, x->out = i;
    }
    return count;
}

uint32_t pieces_parts(const program *p, const piece *x, piece_part parts[PIECES_PARTS]) {
    uint32_t count = list_parts(&p->graph, node_of(p, x->step), parts);
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t each = dtype_bytes((dtype)graph_tensor(&p->graph, parts[i].owner)->dtype);
        parts[i].from = (uint64_t)x->first * each;
        parts[i].bytes = units_align((uint64_t)x->count * each, PIECES_PAGE);
        parts[i].at = at;
        at += parts[i].bytes;
    }
    return count;
}

static bool writes(const program *p, uint32_t step, tensor_id owner) {
    const node *n = node_of(p, step);
    for (uint32_t i = 0; i < n->out_count; i++)
        if (away_of(&p->graph, node_out(&p->graph, n, i)) == owner) return true;
    return false;
}

uint32_t pieces_readable(const program *p, uint32_t step) {
    piece_part parts[PIECES_PARTS];
    uint32_t count = list_parts(&p->graph, node_of(p, step), parts);
    for (uint32_t s = step; s > 0; s--)
        for (uint32_t i = 0; i < count; i++)
            if (parts[i].read && writes(p, s - 1, parts[i].owner)) return s;
    return 0;
}

static uint64_t slot_bytes(const program *p, const piece *x) {
    piece_part parts[PIECES_PARTS];
    uint32_t count = pieces_parts(p, x, parts);
    return count ? parts[count - 1].at + parts[count - 1].bytes : 0;
}

static int64_t elements_of(const program *p, uint32_t step) {
    return shape_elements(graph_shape(&p->graph, node_in(&p->graph, node_of(p, step), 0)));
}

static uint64_t count_of(const program *p, uint32_t step) {
    return ((uint64_t)elements_of(p, step) + PIECES_ELEMENTS - 1) / PIECES_ELEMENTS;
}

/* Bytes of the largest piece of a step, which is the first. */
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
        if (node_of(p, s)->phase != PHASE_UPDATE) continue;
        size.updates += count_of(p, s);
        if (bytes > size.update_bytes) size.update_bytes = bytes;
    }
    return size;
}

/* ---- calls ---- */

static bool is_scales(const op_def *op, uint32_t in, uint32_t out) {
    for (uint32_t i = 0; i < op_state_count(op); i++)
        if (op->update->states[i].scales == in || op->update->states[i].scales_out == out) return true;
    return false;
}

/* Cuts an argument down to the piece. It has an element for each of the weight's; `scales`: for each block.
 */
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
    piece_part parts[PIECES_PARTS];
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
    for (uint32_t k = 0; k < count; k++) {
        if (parts[k].read) args[parts[k].in].data = slot + parts[k].at;
        if (parts[k].written) out[parts[k].out].data = slot + parts[k].at;
    }
    *part = *whole;
    part->in = args, part->out = out;
    part->first = x->first;
}

/* ---- time ---- */

/* A piece is moved once its slot's earlier piece was computed on, and computed on once it was moved. */
typedef struct {
    lanes lanes;
    double freed[PIECES_SLOTS]; /* by slot: the event that its last piece was computed on */
    uint64_t next;              /* number of the next piece */
} pipeline;

static void one_piece(pipeline *l, double moving, double computing) {
    double *freed = &l->freed[l->next++ % PIECES_SLOTS];
    double moved = lanes_add(&l->lanes, LANE_COPY, *freed, moving);
    *freed = lanes_add(&l->lanes, LANE_COMPUTE, moved, computing);
}

/* The same for many equal pieces. After some rounds of the slots each takes as long as the slower lane. */
static void many_pieces(pipeline *l, uint64_t count, double moving, double computing) {
    enum { ROUNDS = 4 * PIECES_SLOTS };
    uint64_t some = count < ROUNDS ? count : ROUNDS;
    for (uint64_t i = 0; i < some; i++) one_piece(l, moving, computing);
    double rest = (double)(count - some) * (moving > computing ? moving : computing);
    lanes_pass(&l->lanes, rest);
    for (int i = 0; i < PIECES_SLOTS; i++) l->freed[i] += rest;
}

typedef struct {
    double read, written; /* bytes per second */
} lane_rates;

/* Seconds that reading and writing all pieces of a step take. */
static double moving_seconds(const program *p, uint32_t step, const lane_rates *rates) {
    piece_part parts[PIECES_PARTS];
    uint32_t count = list_parts(&p->graph, node_of(p, step), parts);
    double seconds = 0;
    for (uint32_t i = 0; i < count; i++) {
        double bytes = (double)graph_tensor_bytes(&p->graph, parts[i].owner);
        seconds +=
            (parts[i].read ? bytes / rates->read : 0) + (parts[i].written ? bytes / rates->written : 0);
    }
    return seconds;
}

double pieces_seconds(const program *p, bool apart, const device_rates *rates, double *waits) {
    const lane_rates moved = apart ? (lane_rates){ rates->copied, rates->copied }
                                   : (lane_rates){ rates->file_read, rates->file_written };
    pipeline l = { 0 };
    double now = 0;
    for (uint32_t s = 0; s < p->count; s++) {
        double began = now, each = p->steps[s].seconds;
        bool moves = pieces_step(p, s);
        if (moves) {
            uint64_t count = count_of(p, s);
            many_pieces(&l, count, moving_seconds(p, s, &moved) / (double)count, each / (double)count);
        } else {
            lanes_add(&l.lanes, LANE_COMPUTE, 0, each);
        }
        now = l.lanes.free[LANE_COMPUTE];
        if (waits) waits[s] = moves ? now - began - each : 0; /* and no rounding */
    }
    return now;
}
