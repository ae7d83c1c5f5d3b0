/* How the sums of units travel between ranks, and what updates run on.
 *
 * Where one process adds the finished sum of a unit to those of the units before it, ranks exchange theirs:
 * of a large tensor each gets its share of what the others have, and adds the parts in the order of ranks,
 * which is that of units. So the sum over units takes a rank's share of memory between programs, and the bits
 * are those of one process. Small tensors stay whole: each rank gets them from all.
 *
 * Where groups of ranks have a copy each (HSDP) a gradient is exchanged within a group, and its sum goes from
 * group to group, each of which adds the parts of its own ranks: the order of ranks again. What the last
 * group has goes to all: to more than one other in two steps, a piece to each and from there to the rest, so
 * that no rank sends two whole shares for it. To be told, all groups have to be at the same place, and the
 * last one is behind the first by a sum's way through all of them: told one by one, each gradient waits for
 * that way, unless it takes longer itself. Told late, when all have been handed on, the way is waited for
 * once, and telling is beside nothing. So a share passes between hosts a few times, where a whole gradient
 * would. A group waits for the one before it, and for nothing that this one does later: before a sum
 * has been handed on nothing begins that ranks of several groups take part in.
 *
 * What a rank receives lives from the start of a movement on, what it sends until that is over. One gradient
 * travels while backward makes the next one; then it has arrived, and dies. */
#include "base/memory.h"
#include "ir/op.h"
#include "ops/add_into/add_into.h"
#include "ops/add_parts/add_parts.h"
#include "ops/add_tiles/add_tiles.h"
#include "ops/arrive/arrive.h"
#include "ops/concat/concat.h"
#include "ops/exchange/exchange.h"
#include "ops/fill/fill.h"
#include "ops/gather_ranks/gather_ranks.h"
#include "ops/pass_on/pass_on.h"
#include "ops/square_tiles/square_tiles.h"
#include "ops/sum_squares/sum_squares.h"
#include "ops/take_share/take_share.h"
#include "ops/zeros/zeros.h"
#include "passes/sharding/sharding.h"

/* A movement that has begun. Of a large sum a piece of each share may be under way. */
typedef struct {
    tensor_id received, sent; /* of `out`; received 0: none */
    tensor_id sum;            /* what its parts are added to; 0: it is a whole that was gathered */
    tensor_id of;             /* what is there afterwards, as a tensor of `in` */
    phase as;                 /* that it began in */
    int64_t share, first;     /* elements: of a share, 0: it stays whole; that have been added */
    bool comes;               /* `sum` is on its way from the group before */
} movement;

/* A sum of squares, of which a rank has its tiles. */
typedef struct {
    tensor_id tiles, of; /* of `out`; the sum as a tensor of `in` */
    int64_t whole;       /* tiles of all ranks */
} squares;

typedef struct {
    rewrite r;
    int64_t ranks, sharing; /* all; those that have shares of one copy */
    int64_t piece;          /* elements of a share that travel at once */
    bool at_once;           /* each rank has one unit: there are no sums of earlier ones */
    int64_t *cut;           /* by source: see cut_find */
    bool *in_parts;         /* by owner of a storage: its update runs on shares */
    tensor_id *share;       /* by tensor of `in`: this rank's share of it, in `out`; 0: it has none */
    fetcher *fetch;         /* NULL: weights are whole */
    movement parts, whole;  /* under way: parts of one sum, and what was gathered before */
    movement passed;        /* between groups: a sum to the next one, ... */
    movement spread, told;  /* ... one that is complete, of which each gets a piece, and one that all get */
    movement *handed;       /* that have gone to the next group, and are told late; NULL: at once */
    movement *small;        /* sums that stay whole, and wait likewise */
    uint32_t handed_count, small_count;
    squares *squares; /* that wait for each other, to travel together */
    uint32_t square_count;
} sharder;

static void stand_in(sharder *k, phase as, int32_t site) { k->r.out->phase = as, k->r.out->site = site; }

static tensor_id owner_of(const sharder *k, tensor_id t) { return t ? graph_storage(k->r.in, t, NULL) : 0; }

/* ---- movements ---- */

/* What was gathered is there. */
static void end_whole(sharder *k) {
    movement m = k->whole;
    if (!m.received) return;
    k->whole = (movement){ 0 };
    k->r.out->phase = m.as;
    k->r.map[m.of] = share_flagged(&k->r, arrive_apply(k->r.out, m.received, m.sent), m.of);
}

static bool has_groups(const sharder *k) { return k->sharing < k->ranks; }

static int64_t group_of(const sharder *k) { return has_groups(k) ? k->sharing : 0; }

/* One gathering at a time: what it sends and what it receives live until it is over. */
static void begin_whole(sharder *k, tensor_id of, tensor_id share, tensor_id place) {
    phase as = k->r.out->phase;
    end_whole(k);
    k->r.out->phase = as;
    tensor_id whole = gather_group_apply(k->r.out, share, place, *graph_shape(k->r.in, of), group_of(k));
    k->whole = (movement){ .received = share_flagged(&k->r, whole, of), .sent = share, .of = of, .as = as };
}

static bool in_pieces(const sharder *k, const movement *m) { return m->share > k->piece; }

static int64_t piece_of(const sharder *k, const movement *m) {
    return m->share - m->first < k->piece ? m->share - m->first : k->piece;
}

static void begin_piece(sharder *k) {
    movement *m = &k->parts;
    exchange_attributes a = { .ranks = k->sharing, .share = m->share };
    if (in_pieces(k, m)) a.first = m->first, a.some = piece_of(k, m);
    m->received = share_flagged(&k->r, exchange_piece_apply(k->r.out, m->sent, &a), m->of);
}

/* The sum is there. Where it is read whole, the shares of all are gathered. */
static void have_sum(sharder *k, tensor_id of, tensor_id sum, bool large) {
    if (sum && large) graph_tensor(k->r.out, sum)->global = *graph_shape(k->r.in, of);
    k->r.map[of] = sum;
    if (!large) return;
    k->share[of] = sum;
    if (!k->in_parts[owner_of(k, of)]) begin_whole(k, of, sum, 0);
}

/* ---- from group to group ---- */

static tensor_id pass_sum(sharder *k, tensor_id sum, tensor_id of, pass_on_step step) {
    return share_flagged(&k->r, pass_on_groups_apply(k->r.out, sum, k->ranks / k->sharing, k->sharing, step),
                         of);
}

/* A part of a sum that is added in pieces. */
static tensor_id pass_piece(sharder *k, const movement *m, pass_on_step step, int64_t first, int64_t some) {
    const pass_on_attributes a = {
        .ranks = k->ranks / k->sharing, .step = step, .group = k->sharing, .first = first, .some = some
    };
    return share_flagged(&k->r, pass_on_piece_apply(k->r.out, m->sum, &a), m->of);
}

/* What was told to all is there. */
static void end_told(sharder *k) {
    movement m = k->told;
    if (!m.received) return;
    k->told = (movement){ 0 };
    stand_in(k, PHASE_REDUCE, SITE_NONE);
    have_sum(k, m.of, share_flagged(&k->r, arrive_apply(k->r.out, m.received, 0), m.of), true);
}

/* Each group has a piece of it: then all get the others'. */
static void end_spread(sharder *k) {
    movement m = k->spread;
    if (!m.received) return;
    k->spread = (movement){ 0 };
    stand_in(k, PHASE_REDUCE, SITE_NONE);
    tensor_id pieces = share_flagged(&k->r, arrive_apply(k->r.out, m.received, 0), m.of);
    k->told = m;
    k->told.received = pass_sum(k, pieces, m.of, PASS_COLLECT);
}

/* What the last group has of a sum goes to all. Where units follow the first one goes on with it. */
static void tell(sharder *k, movement m) {
    bool at_once = k->ranks / k->sharing == 2;
    m.received = pass_sum(k, m.received, m.of, at_once ? PASS_FROM_LAST : PASS_SPREAD);
    *(at_once ? &k->told : &k->spread) = m;
}

/* What went to the next group is there. */
static void end_passed(sharder *k) {
    movement m = k->passed;
    if (!m.received) return;
    k->passed = (movement){ 0 };
    stand_in(k, PHASE_REDUCE, SITE_NONE);
    m.received = share_flagged(&k->r, arrive_apply(k->r.out, m.received, 0), m.of);
    if (k->handed)
        k->handed[k->handed_count++] = m;
    else
        tell(k, m);
}

/* `passing`: the last piece of it is on its way already.
 *
 * Sums before this one go on to all when it has been handed on, not earlier: the last group has them only
 * when those before it have come so far. */
static void pass_on_sum(sharder *k, tensor_id of, tensor_id sum, bool passing) {
    end_told(k);
    stand_in(k, PHASE_REDUCE, SITE_NONE);
    movement next = { .received = passing ? sum : pass_sum(k, sum, of, PASS_TO_NEXT), .of = of };
    end_spread(k);
    end_passed(k);
    k->passed = next;
}

/* ---- sums ---- */

/* Groups add one piece while the next group adds the one before. */
static void hand_on_piece(sharder *k, int64_t first, int64_t some) {
    movement *m = &k->parts;
    m->sum = pass_piece(k, m, PASS_TO_NEXT, first, some);
    m->comes = m->first < m->share;
    if (m->comes) m->sum = pass_piece(k, m, PASS_FROM_BEFORE, m->first, piece_of(k, m));
}

/* The next piece is on its way while this one is added. */
static tensor_id end_piece(sharder *k) {
    movement *m = &k->parts;
    int64_t first = m->first, some = piece_of(k, m);
    stand_in(k, PHASE_REDUCE, SITE_NONE);
    tensor_id parts = share_flagged(&k->r, arrive_apply(k->r.out, m->received, m->sent), m->of);
    m->first += some, m->received = 0;
    if (m->first < m->share) begin_piece(k);
    if (m->comes) m->sum = share_flagged(&k->r, arrive_apply(k->r.out, m->sum, 0), m->of);
    m->comes = false;
    if (in_pieces(k, m))
        m->sum = add_piece_apply(k->r.out, m->sum, parts, first);
    else
        m->sum = add_parts_apply(k->r.out, m->sum, parts,
                                 m->share ? SHAPE(m->share) : *graph_shape(k->r.in, m->of));
    m->sum = share_flagged(&k->r, m->sum, m->of);
    if (in_pieces(k, m) && has_groups(k)) hand_on_piece(k, first, some);
    return m->sum;
}

/* A sum in pieces takes little room and stands in nobody's way: one of them comes with each node. */
static void come_along(sharder *k, const node *n) {
    const movement *m = &k->parts;
    if (!m->received || m->share - m->first <= k->piece || n->op->traits & OP_VIEW) return;
    end_piece(k);
}

/* Of a sum that stays whole: each gets it from all. */
static void begin_small(sharder *k) {
    movement *m = &k->parts;
    int64_t elements = shape_elements(graph_shape(k->r.in, m->of));
    tensor_id all = gather_ranks_apply(k->r.out, m->sent, 0, SHAPE(k->ranks, elements));
    m->received = share_flagged(&k->r, all, m->of);
}

/* The parts of a sum are there, and are added. */
static void end_parts(sharder *k) {
    movement *m = &k->parts;
    if (!m->received) return;
    tensor_id sum = 0, of = m->of;
    while (m->received && !k->r.out->failed) sum = end_piece(k);
    bool large = m->share != 0, passing = in_pieces(k, m);
    *m = (movement){ 0 };
    if (large && has_groups(k))
        pass_on_sum(k, of, sum, passing);
    else
        have_sum(k, of, sum, large);
}

/* Small ones that wait, one at a time, for each takes the room of all ranks'. */
static void add_small(sharder *k) {
    uint32_t count = k->small_count;
    k->small_count = 0;
    for (uint32_t i = 0; i < count && !k->r.out->failed; i++) {
        k->parts = k->small[i];
        stand_in(k, PHASE_REDUCE, SITE_NONE);
        begin_small(k);
        end_parts(k);
    }
}

/* Sums that wait to be told: one goes to all while each group has a piece of the next one. */
static void tell_handed(sharder *k) {
    uint32_t count = k->handed_count;
    k->handed_count = 0;
    for (uint32_t i = 0; i < count + 2; i++) {
        end_told(k);
        end_spread(k);
        stand_in(k, PHASE_REDUCE, SITE_NONE);
        if (i < count) tell(k, k->handed[i]);
    }
}

static void end_all(sharder *k) {
    k->r.out->site = SITE_NONE;
    end_whole(k);
    end_parts(k);
    while (k->passed.received || k->spread.received || k->told.received) {
        end_told(k);
        end_spread(k);
        end_passed(k);
    }
    tell_handed(k);
    add_small(k);
    end_whole(k);
}

/* The sum of a gradient, where there are no units before. Losses stay, for the host to read. */
static bool begins_at_zero(const sharder *k, tensor_id t) {
    const tensor *x = graph_tensor(k->r.in, owner_of(k, t));
    return k->at_once && x->role == ROLE_GRADIENT && !x->producer;
}

/* A share of zeros, for what comes to be added to. */
static tensor_id begin_share(sharder *k, const movement *m) {
    tensor_id zeros = zeros_apply(k->r.out, SHAPE(m->share));
    if (zeros) graph_tensor(k->r.out, zeros)->global = *graph_shape(k->r.in, m->of);
    return share_flagged(&k->r, zeros, m->of);
}

/* In the place of sum = add_into(sum, x). */
static void begin_parts(sharder *k, const node *n) {
    const graph *in = k->r.in;
    tensor_id of = node_out(in, n, 0), x = k->r.map[node_in(in, n, 1)];
    int64_t elements = shape_elements(graph_shape(in, of));
    bool large = share_is_large(in, of);
    if (k->handed && !large) {
        bool zero = begins_at_zero(k, node_in(in, n, 0));
        k->small[k->small_count++] = (movement){
            .sent = x, .of = of, .as = PHASE_REDUCE, .sum = zero ? 0 : k->r.map[node_in(in, n, 0)]
        };
        return;
    }
    stand_in(k, PHASE_REDUCE, SITE_NONE);
    end_whole(k);
    end_parts(k);
    stand_in(k, PHASE_REDUCE, n->site);
    movement *m = &k->parts;
    *m = (movement){ .sent = x, .of = of, .as = PHASE_REDUCE };
    if (large) m->share = share_of(elements, k->sharing);
    m->comes = m->share && has_groups(k);
    if (!begins_at_zero(k, node_in(in, n, 0)))
        m->sum = k->r.map[node_in(in, n, 0)];
    else if (m->comes || in_pieces(k, m))
        m->sum = begin_share(k, m);
    if (m->share)
        begin_piece(k);
    else
        begin_small(k);
    if (m->comes && in_pieces(k, m))
        m->sum = pass_piece(k, m, PASS_FROM_BEFORE, 0, piece_of(k, m));
    else if (m->comes)
        m->sum = pass_sum(k, m->sum, of, PASS_FROM_BEFORE);
}

/* Does the node wait for what is under way, or write over what is being sent? */
static bool waits(const sharder *k, const node *n) {
    for (uint32_t i = 0; i < n->in_count; i++) {
        tensor_id t = node_in(k->r.in, n, i);
        if (t && (t == k->parts.of || t == k->whole.of)) return true;
        if (t && (t == k->passed.of || t == k->spread.of || t == k->told.of)) return true;
        if (t && k->parts.received && k->r.map[t] == k->parts.sent) return true;
        for (uint32_t h = 0; t && h < k->handed_count; h++)
            if (t == k->handed[h].of) return true;
        for (uint32_t h = 0; t && h < k->small_count; h++)
            if (t == k->small[h].of || k->r.map[t] == k->small[h].sent) return true;
    }
    return false;
}

/* ---- the norm ---- */

/* The sums of squares that wait: all ranks' tiles travel in one, and are added as one process adds them. */
static void end_squares(sharder *k) {
    uint32_t count = k->square_count;
    if (!count || k->r.out->failed) return;
    k->square_count = 0;
    tensor_id *tiles = memory_new(count, sizeof *tiles);
    if (!tiles) {
        graph_no_memory(k->r.out);
        return;
    }
    for (uint32_t i = 0; i < count; i++) tiles[i] = k->squares[i].tiles;
    stand_in(k, PHASE_UPDATE, SITE_NONE);
    tensor_id own = concat_apply(k->r.out, tiles, count);
    int64_t each = own ? shape_elements(graph_shape(k->r.out, own)) : 1, first = 0;
    tensor_id all = gather_group_apply(k->r.out, own, 0, SHAPE(k->sharing, each), group_of(k));
    all = arrive_apply(k->r.out, all, own);
    for (uint32_t i = 0; i < count && !k->r.out->failed; i++) {
        add_tiles_attributes a = { .first = first,
                                   .share = shape_elements(graph_shape(k->r.out, tiles[i])),
                                   .whole = k->squares[i].whole };
        k->r.map[k->squares[i].of] = add_tiles_apply(k->r.out, all, &a);
        first += a.share;
    }
    memory_free(tiles);
}

static void add_squares(sharder *k, const node *n) {
    const graph *in = k->r.in;
    tensor_id x = node_in(in, n, 0);
    int64_t elements = shape_elements(graph_shape(in, x));
    stand_in(k, PHASE_UPDATE, n->site);
    k->squares[k->square_count++] =
        (squares){ .tiles = square_tiles_apply(k->r.out, k->share[x], elements),
                   .of = node_out(in, n, 0),
                   .whole = (elements + SUM_SQUARES_TILE - 1) / SUM_SQUARES_TILE };
}

static bool reads_squares(const sharder *k, const node *n) {
    for (uint32_t i = 0; i < n->in_count; i++)
        for (uint32_t s = 0; s < k->square_count; s++)
            if (node_in(k->r.in, n, i) == k->squares[s].of) return true;
    return false;
}

/* ---- updates ---- */

/* Does it run on shares: are its large operands cut, or will they be for it? */
static bool runs_on_shares(const sharder *k, const node *n) {
    for (uint32_t i = 0; i < n->in_count && n->phase == PHASE_UPDATE; i++) {
        tensor_id t = node_in(k->r.in, n, i);
        if (share_is_large(k->r.in, t) && k->in_parts[owner_of(k, t)]) return true;
    }
    return false;
}

/* This rank's share of an operand; of a whole weight a copy. */
static tensor_id share_of_operand(sharder *k, tensor_id t) {
    if (!share_is_large(k->r.in, t)) return k->r.map[t];
    if (!k->share[t])
        k->share[t] = take_share_apply(k->r.out, k->r.map[t],
                                       share_of(shape_elements(graph_shape(k->r.in, t)), k->sharing));
    return k->share[t];
}

/* A result that is to be whole is gathered into the place that it had. */
static void put_back(sharder *k, tensor_id of) {
    tensor_id owner = owner_of(k, of);
    if (!share_is_large(k->r.in, of)) return;
    k->share[of] = k->r.map[of];
    bool whole = !graph_tensor(k->r.in, owner)->producer && !k->cut[owner] &&
                 graph_tensor(k->r.in, owner)->role == ROLE_PARAMETER;
    if (whole) begin_whole(k, of, k->share[of], k->r.map[owner]);
}

static void update_shares(sharder *k, node_id id) {
    const node *n = graph_node(k->r.in, id);
    if (waits(k, n)) end_all(k);
    if (n->op == &op_sum_squares) {
        add_squares(k, n);
        return;
    }
    tensor_id *inputs = memory_new(n->in_count, sizeof *inputs);
    if (!inputs) graph_no_memory(k->r.out);
    stand_in(k, PHASE_UPDATE, n->site);
    for (uint32_t i = 0; inputs && i < n->in_count; i++) {
        tensor_id t = node_in(k->r.in, n, i);
        inputs[i] = t ? share_of_operand(k, t) : 0;
    }
    if (inputs) rewrite_node_inputs(&k->r, id, inputs, n->in_count);
    memory_free(inputs);
    for (uint32_t i = 0; i < n->out_count && !k->r.out->failed; i++) put_back(k, node_out(k->r.in, n, i));
}

/* ---- nodes ---- */

/* The sum, kept as a share, whose place is all that the node wants; 0: there is none. */
static tensor_id place_of(const sharder *k, const node *n) {
    uint32_t places = n->op->places;
    for (uint32_t i = 0; places; i++, places >>= 1) {
        tensor_id t = places & 1 ? node_in(k->r.in, n, i) : 0;
        if (t && k->share[t]) return t;
    }
    return 0;
}

/* Whoever reads a sum reads the gathered one; whoever fills its place fills the share, which stays. */
static void copy_node(sharder *k, node_id id) {
    const node *n = graph_node(k->r.in, id);
    if (waits(k, n)) end_all(k);
    if (reads_squares(k, n)) end_squares(k);
    if (k->fetch && fetch_takes(k->fetch, id)) return;
    come_along(k, n);
    if (k->fetch) fetch_inputs(k->fetch, id);
    tensor_id place = place_of(k, n), whole = k->r.map[place];
    if (place) k->r.map[place] = k->share[place];
    rewrite_node(&k->r, id);
    k->r.map[place] = whole;
}

/* ---- all of it ---- */

/* What is cut becomes a share, whose cells are scales' as well. */
static void cut_sources(sharder *k) {
    const graph *in = k->r.in;
    for (tensor_id t = 1; t < in->tensors.count; t++) {
        if (begins_at_zero(k, t)) rewrite_source_drop(&k->r, t);
        if (!k->cut[t]) continue;
        int64_t elements = shape_elements(graph_shape(in, t)) * k->cut[t];
        rewrite_source_shape(&k->r, t, SHAPE(share_of(elements, k->sharing) / k->cut[t]));
        k->share[t] = k->r.map[t];
    }
}

/* What a block's largest sum needs of room to be received is enough for all: an embedding's travels in
 * pieces. */
static int64_t find_piece(const sharder *k) {
    const graph *in = k->r.in;
    int64_t most = 0;
    for (node_id id = 1; id < in->nodes.count; id++) {
        const node *n = graph_node(in, id);
        if (n->op != &op_add_into || n->phase != PHASE_REDUCE) continue;
        node_id made_by = graph_tensor(in, node_in(in, n, 1))->producer;
        if (graph_node(in, made_by)->site == SITE_NONE) continue;
        int64_t share = share_of(shape_elements(graph_shape(in, node_out(in, n, 0))), k->sharing);
        if (share > most) most = share;
    }
    return most ? most : INT64_MAX;
}

static status prepare(sharder *k, const share_setting *s) {
    const graph *in = k->r.in;
    uint32_t tensors = in->tensors.count;
    k->cut = memory_new(tensors, sizeof *k->cut);
    k->in_parts = memory_new(tensors, sizeof *k->in_parts);
    k->share = memory_new(tensors, sizeof *k->share);
    k->squares = memory_new(in->nodes.count, sizeof *k->squares);
    if (s->late) k->handed = memory_new(in->nodes.count, sizeof *k->handed);
    if (s->late) k->small = memory_new(in->nodes.count, sizeof *k->small);
    bool waits = !s->late || (k->handed && k->small);
    if (!k->cut || !k->in_parts || !k->share || !k->squares || !waits)
        return status_set(STATUS_FAILED, "no memory to rewrite a graph");
    TRY(cut_find(in, s->stage, k->cut, k->in_parts));
    cut_sources(k);
    k->piece = find_piece(k);
    return s->stage != SHARE_SUMS ? fetch_open(&k->r, s, k->cut, &k->fetch) : STATUS_OK;
}

status share_run(const graph *in, const share_setting *s, const pass_context *c, graph *out) {
    sharder k = { .ranks = c->ranks,
                  .sharing = s->group ? s->group : c->ranks,
                  .at_once = c->unit * c->ranks >= c->batch };
    status result = rewrite_open(&k.r, in, out);
    out->group = s->group;
    if (result == STATUS_OK) result = prepare(&k, s);
    for (node_id id = 1; id < in->nodes.count && result == STATUS_OK && !out->failed; id++) {
        const node *n = graph_node(in, id);
        if (n->op == &op_add_into && n->phase == PHASE_REDUCE)
            begin_parts(&k, n);
        else if (n->op == &op_fill && begins_at_zero(&k, node_in(in, n, 0)))
            continue; /* a sum that is nobody's any more */
        else if (runs_on_shares(&k, n))
            update_shares(&k, id);
        else
            copy_node(&k, id);
    }
    if (result == STATUS_OK && !out->failed) end_all(&k);
    memory_free(k.cut);
    memory_free(k.in_parts);
    memory_free(k.share);
    memory_free(k.squares);
    memory_free(k.handed);
    memory_free(k.small);
    fetch_close(k.fetch);
    status closed = rewrite_close(&k.r);
    return result != STATUS_OK ? result : closed;
}
