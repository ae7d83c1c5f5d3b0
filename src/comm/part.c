/* Which bytes of a movement are between two ranks. That one tells all others in two steps, a scatter and an
 * all-gather, is from R. Thakur, R. Rabenseifner, W. Gropp, Optimization of Collective Communication
 * Operations in MPICH, 2005. */
#include "base/units.h"
#include "comm/comm_apart.h"

/* Ranks of a group; those that pass something on are each a group of their own where nobody says otherwise.
 */
static int group_of(const comm_order *o, comm_ranks own) {
    if (o->group) return (int)o->group;
    return o->kind >= COMM_FROM_BEFORE ? 1 : own.world;
}

/* Bytes of an order's `whole`. */
typedef struct {
    uint64_t at, bytes;
} stretch;

/* The piece of group `g`: the last ones may be shorter, or empty. */
static stretch piece_for(const comm_order *o, int g, int groups) {
    uint64_t each = units_align((o->whole + (uint64_t)groups - 1) / (uint64_t)groups, COMM_PIECE),
             before = (uint64_t)g * each, at = before < o->whole ? before : o->whole, rest = o->whole - at;
    return (stretch){ at, rest < each ? rest : each };
}

/* What group `from` sends to group `to`. */
static stretch passed_between(const comm_order *o, int from, int to, int groups) {
    int last = groups - 1;
    stretch all = { o->first, o->some ? o->some : o->whole }, none = { 0 };
    if (from == to) return none;
    switch (o->kind) {
    case COMM_AROUND: return from == last && !to ? all : none;
    case COMM_FROM_LAST: return from == last ? all : none;
    case COMM_SPREAD: return from == last ? piece_for(o, to, groups) : none;
    case COMM_COLLECT: return to == last ? none : piece_for(o, from, groups);
    default: return to == from + 1 ? all : none;
    }
}

static comm_pair passed(const comm_order *o, int r, comm_ranks own) {
    int group = group_of(o, own), groups = own.world / group, mine = own.rank / group, its = r / group;
    bool beside = r % group == own.rank % group;
    stretch sent = { 0 }, got = { 0 };
    if (beside && o->kind != COMM_FROM_BEFORE) sent = passed_between(o, mine, its, groups);
    if (beside && o->kind != COMM_TO_NEXT) got = passed_between(o, its, mine, groups);
    return (comm_pair){ (const char *)o->from + sent.at, (char *)o->to + got.at, sent.bytes, got.bytes };
}

static comm_pair piece_of(const comm_order *o, int r, int rank) {
    const comm_piece *list = o->from;
    comm_pair p = { 0 };
    for (uint64_t i = 0; i < o->share; i++) {
        const comm_piece *x = &list[i];
        if (x->from == rank && x->to == r) p.send = x->what, p.send_bytes = x->bytes;
        if (x->from == r && x->to == rank) p.receive = x->into, p.receive_bytes = x->bytes;
    }
    return p;
}

/* What moves of the share of the one at `place` in its group. */
static uint64_t bytes_of(const comm_order *o, int place) {
    uint64_t before = (uint64_t)place * o->share + o->first, most = o->some ? o->some : o->share;
    if (before >= o->whole) return 0;
    return o->whole - before < most ? o->whole - before : most;
}

comm_pair comm_part(const comm_order *o, int r, comm_ranks own) {
    int group = group_of(o, own), place = r % group;
    const char *from = o->from;
    if (o->kind == COMM_PIECES) return piece_of(o, r, own.rank);
    if (o->kind >= COMM_FROM_BEFORE) return passed(o, r, own);
    if (r / group != own.rank / group) return (comm_pair){ 0 };
    uint64_t mine = bytes_of(o, own.rank % group), its = bytes_of(o, place);
    char *to = (char *)o->to + (uint64_t)place * (o->some ? o->some : o->share);
    if (o->kind == COMM_GATHER) return (comm_pair){ from, to, mine, its };
    return (comm_pair){ from + (uint64_t)place * o->share + o->first, to, its, mine };
}
