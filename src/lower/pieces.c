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
    for (uint32_t i = 0; i < count; i++)
        parts[i].filed = graph_tensor(g, parts[i].owner)->away == PIECES_FILED;
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

bool pieces_filed(const program *p, uint32_t step) {
    piece_part parts[PIECES_PARTS];
    uint32_t count = list_parts(&p->graph, node_of(p, step), parts);
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].filed) return true;
    return false;
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
    part->first = whole->first + x->first;
}

/* ---- time ---- */

typedef struct {
    double read, written;           /* bytes per second on LANE_COPY, */
    double file_read, file_written; /* and of what is filed on LANES_FILE */
} copy_rates;

/* What every piece of a step takes: to read it, to compute on it, to write it back; and what is filed of it.
 */
typedef struct {
    uint64_t count;
    double reading, computing, writing;
    double fetching, filing;
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
        if (parts[i].read && parts[i].filed) t.fetching += bytes / rates->file_read;
        if (parts[i].written && parts[i].filed) t.filing += bytes / rates->file_written;
    }
    t.computing = p->steps[step].seconds / pieces;
    return t;
}

/* What is ordered next, in the sequence of pieces. */
typedef struct {
    uint64_t ordered;  /* pieces that were ordered */
    uint32_t *written; /* by tensor that is away: how many steps are done when it was written, as far */
    uint32_t step;     /* as this step, which the next piece is of, */
    uint64_t left;     /* as are so many in all; 0: there is none */
    uint32_t readable; /* it can be read after so many steps */
    piece_times times;
} looking;

/* The orders of exec/transfer.c, given at the moments when they are given there. Reading fills all slots, as
 * far as what is read has been written; when a piece has been computed on it is written, and its slot has
 * room for the next. What is filed is read into slots of the host's before, in the same way. */
typedef struct {
    const program *program;
    const copy_rates *rates;
    const bool *moves; /* by step: it has pieces */
    bool files;        /* any part is filed */
    lanes lanes;
    looking near, far;           /* of reading into slots; of reading files */
    double moved[PIECES_SLOTS];  /* by slot: the event that its next piece was read */
    double fetched[PIECES_RING]; /* by slot of the host's: the same; 0: nothing of the piece is filed */
    uint64_t used;               /* pieces that have been computed on */
} pipeline;

static void note_written(const pipeline *l, looking *x) {
    const graph *g = &l->program->graph;
    const node *n = node_of(l->program, x->step);
    for (uint32_t i = 0; i < n->out_count; i++) x->written[away_of(g, node_out(g, n, i))] = x->step + 1;
}

/* To the next step that has pieces. */
static void look_ahead(const pipeline *l, looking *x) {
    const program *p = l->program;
    while (!x->left && x->step < p->count) {
        note_written(l, x);
        x->step++;
        if (x->step == p->count || !l->moves[x->step]) continue;
        piece_part parts[PIECES_PARTS];
        uint32_t count = list_parts(&p->graph, node_of(p, x->step), parts);
        x->times = times_of(p, x->step, l->rates);
        x->left = x->times.count;
        x->readable = 0;
        for (uint32_t i = 0; i < count; i++)
            if (parts[i].read && x->written[parts[i].owner] > x->readable)
                x->readable = x->written[parts[i].owner];
    }
}

static void look_first(const pipeline *l, looking *x) {
    memset(x->written, 0, l->program->graph.tensors.count * sizeof *x->written);
    x->step = 0;
    if (l->moves[0]) x->times = times_of(l->program, 0, l->rates), x->left = x->times.count;
    look_ahead(l, x);
}

static bool may_order(const pipeline *l, const looking *x, uint64_t slots, uint32_t past) {
    return x->left && x->ordered < l->used + slots && x->readable <= past;
}

static void fetch_ahead(pipeline *l, uint32_t past) {
    while (may_order(l, &l->far, PIECES_RING, past)) {
        double *at = &l->fetched[l->far.ordered++ % PIECES_RING];
        const piece_times *t = &l->far.times;
        *at = 0;
        if (t->fetching > 0 || t->filing > 0)
            *at = lanes_add(&l->lanes, LANES_FILE, l->lanes.free[LANE_COPY], t->fetching);
        if (!--l->far.left) look_ahead(l, &l->far);
    }
}

/* When so many steps are done. */
static void read_ahead(pipeline *l, uint32_t past) {
    double now = l->lanes.free[LANE_COMPUTE];
    if (l->files) fetch_ahead(l, past);
    while (may_order(l, &l->near, PIECES_SLOTS, past)) {
        double fetched = l->fetched[l->near.ordered % PIECES_RING], event = fetched > now ? fetched : now;
        l->moved[l->near.ordered++ % PIECES_SLOTS] =
            lanes_add(&l->lanes, LANE_COPY, event, l->near.times.reading);
        if (!--l->near.left) look_ahead(l, &l->near);
    }
}

/* How many of the pieces of a step can be passed over: those that don't read ahead for another step. */
static uint64_t to_skip(const pipeline *l, uint32_t step) {
    uint64_t left = l->near.step == step ? l->near.left : 0;
    if (l->files && (l->far.step != step || l->far.left < left)) left = l->far.step == step ? l->far.left : 0;
    return left > 1 ? left - 1 : 0;
}

/* Of many equal pieces each takes, after some rounds of the slots, as long as the slowest lane. */
static uint64_t skip_some(pipeline *l, const piece_times *t, uint64_t skipped) {
    double moving = t->reading + t->writing, filing = t->fetching + t->filing,
           each = moving > t->computing ? moving : t->computing;
    if (filing > each) each = filing;
    lanes_pass(&l->lanes, (double)skipped * each);
    for (int k = 0; k < PIECES_SLOTS; k++) l->moved[k] += (double)skipped * each;
    for (int k = 0; k < PIECES_RING; k++) l->fetched[k] += l->fetched[k] > 0 ? (double)skipped * each : 0;
    l->near.left -= skipped;
    if (l->files) l->far.left -= skipped;
    return skipped;
}

static void run_pieces(pipeline *l, uint32_t step) {
    enum { ROUNDS = 4 * PIECES_SLOTS };
    piece_times t = times_of(l->program, step, l->rates);
    for (uint64_t i = 0; i < t.count; i++) {
        if (i == ROUNDS) i += skip_some(l, &t, to_skip(l, step));
        read_ahead(l, step);
        double moved = l->moved[l->used % PIECES_SLOTS];
        double done = lanes_add(&l->lanes, LANE_COMPUTE, moved, t.computing);
        l->used++;
        double written = lanes_add(&l->lanes, LANE_COPY, done, t.writing);
        if (t.filing > 0) lanes_add(&l->lanes, LANES_FILE, written, t.filing);
    }
    read_ahead(l, step + 1);
}

/* Runs the program once. At its beginning the other lanes have still so many seconds to do of the run before:
 * `left`, which becomes what it leaves them. */
static void run_lanes(pipeline *l, double left[LANES_ALL], double *waits, double *seconds) {
    const program *p = l->program;
    for (int k = 0; k < LANES_ALL; k++) lanes_add(&l->lanes, k, 0, left[k]);
    look_first(l, &l->near);
    if (l->files) look_first(l, &l->far);
    read_ahead(l, 0);
    for (uint32_t s = 0; s < p->count; s++) {
        double began = l->lanes.free[LANE_COMPUTE], each = p->steps[s].seconds;
        bool moves = l->moves[s];
        if (moves)
            run_pieces(l, s);
        else
            lanes_add(&l->lanes, LANE_COMPUTE, 0, each);
        double waited = moves ? l->lanes.free[LANE_COMPUTE] - began - each : 0;
        if (waits) waits[s] = waited > 0 ? waited : 0; /* exactly 0 where nothing moves */
    }
    *seconds = l->lanes.free[LANE_COMPUTE];
    for (int k = 0; k < LANES_ALL; k++) {
        double more = l->lanes.free[k] - *seconds;
        left[k] = more > 0 ? more : 0;
    }
}

static bool any_filed(const program *p) {
    const graph *g = &p->graph;
    for (tensor_id t = 1; t < g->tensors.count; t++)
        if (graph_tensor(g, t)->away == PIECES_FILED) return true;
    return false;
}

static copy_rates rates_of(bool apart, const device_rates *rates) {
    return (copy_rates){ apart ? rates->copied : rates->file_read,
                         apart ? rates->copied : rates->file_written, rates->file_read, rates->file_written };
}

/* A piece is read into the slot of the one that is PIECES_SLOTS before it, behind what that writes back. So
 * but for so many, a step reads and writes its pieces between its begin and its end. */
double pieces_waiting(const program *p, bool apart, const device_rates *rates) {
    const copy_rates moved = rates_of(apart, rates);
    double all = 0;
    for (uint32_t s = 0; s < p->count; s++) {
        if (!pieces_step(p, s)) continue;
        piece_times t = times_of(p, s, &moved);
        double later = t.count > PIECES_SLOTS ? (double)(t.count - PIECES_SLOTS) : 0;
        double waited = later * (t.reading + t.writing) - p->steps[s].seconds;
        if (waited > 0) all += waited;
    }
    return all;
}

status pieces_seconds(const program *p, bool apart, const device_rates *rates, double *waits,
                      double *seconds) {
    const copy_rates moved = rates_of(apart, rates);
    uint32_t tensors = p->graph.tensors.count;
    uint32_t *near = memory_room(tensors, sizeof *near), *far = memory_room(tensors, sizeof *far);
    bool *moves = memory_new(p->count + 1u, sizeof *moves), enough = near && far && moves;
    for (uint32_t s = 0; enough && s < p->count; s++) moves[s] = pieces_step(p, s);
    pipeline l = { .program = p,
                   .rates = &moved,
                   .moves = moves,
                   .files = apart && any_filed(p),
                   .near = { .written = near },
                   .far = { .written = far } };
    if (enough) {
        const pipeline begin = l;
        double left[LANES_ALL] = { 0 };
        run_lanes(&l, left, waits, seconds);
        if (left[LANE_COPY] > 0 || left[LANES_FILE] > 0) {
            l = begin;
            run_lanes(&l, left, waits, seconds);
        }
    }
    memory_free(near);
    memory_free(far);
    memory_free(moves);
    return enough ? STATUS_OK : status_set(STATUS_FAILED, "no memory to predict times");
}
