#include "lower/pieces.h"

#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "lower/lanes.h"
#include "ops/state.h"

_Static_assert(PIECES_ELEMENTS % STATE_BLOCK == 0 && PIECES_ELEMENTS % PIECES_PAGE == 0,
               "a piece is a whole number of blocks and of pages");

static const node *node_of(const program *p, uint32_t step) {
    return graph_node(&p->graph, p->steps[step].node);
}

/* The owner of t's storage, if that is away; 0: it is in memory. */
static tensor_id away_of(const graph *g, tensor_id t) {
    tensor_id owner = t ? graph_storage(g, t, NULL) : 0;
    return owner && graph_tensor(g, owner)->away ? owner : 0;
}

status pieces_check(const graph *g, const node *n) {
    uint32_t sides = 0;
    for (uint32_t i = 0; i < n->in_count; i++) sides += away_of(g, node_in(g, n, i)) != 0;
    for (uint32_t i = 0; i < n->out_count; i++)
        sides += away_of(g, node_out(g, n, i)) != 0 && !graph_tensor(g, node_out(g, n, i))->base;
    if (sides <= PIECES_PARTS) return STATUS_OK;
    return status_set(STATUS_FAILED, "%s has %u values away; at most %d pass through a slot", n->op->name,
                      sides, PIECES_PARTS);
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

/* No step has more parts than there is room for: lower_program has refused it (pieces_check). */
static piece_part *part_of(piece_part *parts, uint32_t *count, tensor_id owner) {
    uint32_t i = 0;
    while (i < *count && parts[i].owner != owner) i++;
    if (i == *count) parts[(*count)++] = (piece_part){ .owner = owner };
    return &parts[i];
}

static uint32_t list_parts(const graph *g, const node *n, piece_part parts[PIECES_PARTS]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id owner = away_of(g, node_in(g, n, i));
        bool read = !(n->op->places >> i & 1u);
        piece_part *x = owner && read ? part_of(parts, &count, owner) : NULL;
        if (x) x->read = true, x->in = i;
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
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

/* An argument of the weight's shape is cut to the piece's elements, one with `scales` to those of its blocks.
 * Any other stays whole. */
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

typedef struct {
    double read, written; /* bytes per second */
} copy_rates;

/* What every piece of a step takes: to read it, to compute on it, to write it back. */
typedef struct {
    uint64_t count;
    double reading, computing, writing;
} piece_times;

static piece_times times_of(const program *p, uint32_t step, const copy_rates *rates) {
    piece_part parts[PIECES_PARTS];
    uint32_t count = list_parts(&p->graph, node_of(p, step), parts);
    piece_times t = { .count = count_of(p, step) };
    double pieces = (double)t.count;
    for (uint32_t i = 0; i < count; i++) {
        double bytes = (double)graph_tensor_bytes(&p->graph, parts[i].owner) / pieces;
        if (parts[i].read) t.reading += bytes / rates->read;
        if (parts[i].written) t.writing += bytes / rates->written;
    }
    t.computing = p->steps[step].seconds / pieces;
    return t;
}

/* The orders of exec/transfer.c, given at the moments when they are given there. Reading fills all slots, as
 * far as what is read has been written; when a piece has been computed on it is written, and its slot has
 * room for the next. */
typedef struct {
    const program *program;
    const copy_rates *rates;
    lanes lanes;
    double moved[PIECES_SLOTS]; /* by slot: the event that its next piece was read */
    uint64_t used, ordered;     /* pieces that have been computed on, and that reading was ordered of */
    uint32_t *written; /* by tensor that is away: how many steps are done when it was written, as far */
    uint32_t ahead;    /* as this step, which the next piece to read is of, */
    uint64_t left;     /* as are so many in all; 0: there is none */
    uint32_t readable; /* it can be read after so many steps */
    piece_times ahead_times;
} pipeline;

static void note_written(pipeline *l, uint32_t step) {
    const graph *g = &l->program->graph;
    const node *n = node_of(l->program, step);
    for (uint32_t i = 0; i < n->out_count; i++) l->written[away_of(g, node_out(g, n, i))] = step + 1;
}

/* To the next step that has pieces. */
static void look_ahead(pipeline *l) {
    const program *p = l->program;
    while (!l->left && l->ahead < p->count) {
        note_written(l, l->ahead++);
        if (l->ahead == p->count || !pieces_step(p, l->ahead)) continue;
        piece_part parts[PIECES_PARTS];
        uint32_t count = list_parts(&p->graph, node_of(p, l->ahead), parts);
        l->ahead_times = times_of(p, l->ahead, l->rates);
        l->left = l->ahead_times.count;
        l->readable = 0;
        for (uint32_t i = 0; i < count; i++)
            if (parts[i].read && l->written[parts[i].owner] > l->readable)
                l->readable = l->written[parts[i].owner];
    }
}

/* When so many steps are done. */
static void read_ahead(pipeline *l, uint32_t past) {
    double now = l->lanes.free[LANE_COMPUTE];
    while (l->left && l->ordered < l->used + PIECES_SLOTS && l->readable <= past) {
        l->moved[l->ordered++ % PIECES_SLOTS] = lanes_add(&l->lanes, LANE_COPY, now, l->ahead_times.reading);
        if (!--l->left) look_ahead(l);
    }
}

/* Of many equal pieces each takes, after some rounds of the slots, as long as the slower lane. Those are
 * skipped that don't read ahead for another step. */
static uint64_t skip_some(pipeline *l, const piece_times *t) {
    uint64_t skipped = l->left - 1;
    double moving = t->reading + t->writing, each = moving > t->computing ? moving : t->computing;
    lanes_pass(&l->lanes, (double)skipped * each);
    for (int k = 0; k < PIECES_SLOTS; k++) l->moved[k] += (double)skipped * each;
    l->left = 1;
    return skipped;
}

static void run_pieces(pipeline *l, uint32_t step) {
    enum { ROUNDS = 4 * PIECES_SLOTS };
    piece_times t = times_of(l->program, step, l->rates);
    for (uint64_t i = 0; i < t.count; i++) {
        if (i == ROUNDS && l->ahead == step && l->left > 1) i += skip_some(l, &t);
        read_ahead(l, step);
        double moved = l->moved[l->used % PIECES_SLOTS];
        double done = lanes_add(&l->lanes, LANE_COMPUTE, moved, t.computing);
        l->used++;
        lanes_add(&l->lanes, LANE_COPY, done, t.writing);
    }
    read_ahead(l, step + 1);
}

/* Runs the program once. At its beginning the lane of copies has still so many seconds to do of the run
 * before; returns how many it leaves. */
static double run_lanes(pipeline *l, double before, double *waits, double *seconds) {
    const program *p = l->program;
    lanes_add(&l->lanes, LANE_COPY, 0, before);
    memset(l->written, 0, p->graph.tensors.count * sizeof *l->written);
    l->ahead = 0;
    if (pieces_step(p, 0)) l->ahead_times = times_of(p, 0, l->rates), l->left = l->ahead_times.count;
    look_ahead(l);
    read_ahead(l, 0);
    for (uint32_t s = 0; s < p->count; s++) {
        double began = l->lanes.free[LANE_COMPUTE], each = p->steps[s].seconds;
        bool moves = pieces_step(p, s);
        if (moves)
            run_pieces(l, s);
        else
            lanes_add(&l->lanes, LANE_COMPUTE, 0, each);
        double waited = moves ? l->lanes.free[LANE_COMPUTE] - began - each : 0;
        if (waits) waits[s] = waited > 0 ? waited : 0; /* exactly 0 where nothing moves */
    }
    *seconds = l->lanes.free[LANE_COMPUTE];
    double left = l->lanes.free[LANE_COPY] - *seconds;
    return left > 0 ? left : 0;
}

status pieces_seconds(const program *p, bool apart, const device_rates *rates, double *waits,
                      double *seconds) {
    const copy_rates moved = apart ? (copy_rates){ rates->copied, rates->copied }
                                   : (copy_rates){ rates->file_read, rates->file_written };
    pipeline l = { .program = p,
                   .rates = &moved,
                   .written = memory_room(p->graph.tensors.count, sizeof *l.written) };
    if (!l.written) return status_set(STATUS_FAILED, "no memory to predict times");
    const pipeline begin = l;
    double left = run_lanes(&l, 0, waits, seconds);
    if (left > 0) {
        l = begin;
        run_lanes(&l, left, waits, seconds);
    }
    memory_free(l.written);
    return STATUS_OK;
}
