/* Which bytes of a movement are between two ranks. */
#include "comm/comm_apart.h"

/* Ranks of a group; those that pass something on are each a group of their own where nobody says otherwise.
 */
static int group_of(const comm_order *o, comm_ranks own) {
    if (o->group) return (int)o->group;
    return o->kind >= COMM_FROM_BEFORE ? 1 : own.world;
}

/* Does group `from` send it to group `to`? */
static bool is_passed(comm_kind k, int from, int to, int last) {
    if (from == to) return false;
    if (k == COMM_AROUND) return from == last && !to;
    return k == COMM_FROM_LAST ? from == last : to == from + 1;
}

static comm_pair passed(const comm_order *o, int r, comm_ranks own) {
    int group = group_of(o, own), last = own.world / group - 1, mine = own.rank / group, its = r / group;
    bool beside = r % group == own.rank % group,
         sends = beside && o->kind != COMM_FROM_BEFORE && is_passed(o->kind, mine, its, last),
         gets = beside && o->kind != COMM_TO_NEXT && is_passed(o->kind, its, mine, last);
    return (comm_pair){ o->from, o->to, sends ? o->whole : 0, gets ? o->whole : 0 };
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
