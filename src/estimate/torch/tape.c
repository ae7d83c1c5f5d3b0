#include "estimate/torch/tape.h"

#include <string.h>

#include "base/memory.h"

const char *tape_term_name(tape_term t) {
    static const char *const names[] = { "weights",     "gradients", "optimizer", "activations", "logits",
                                         "temporaries", "inputs",    "reference", "cache",       "engine" };
    return names[t];
}

/* ---- writing ---- */

enum { MOST = 1 << 21 };

status tape_open(tape *t) {
    *t = (tape){ 0 };
    TRY(array_open(&t->items, sizeof(tape_item), MOST));
    return array_open(&t->calls, sizeof(tape_call), MOST);
}

void tape_close(tape *t) {
    array_close(&t->items);
    array_close(&t->calls);
}

tape_value tape_add_source(tape *t, const tape_item *item) {
    uint32_t v = 0;
    if (t->failed == STATUS_OK && item->elements >= TAPE_MOST)
        t->failed = status_set(STATUS_INVALID, "a tensor of the step has 2^47 numbers or more, which none "
                                               "can hold; make --micro-batch or --context smaller");
    if (t->failed == STATUS_OK) t->failed = array_add(&t->items, 1, &v);
    if (t->failed == STATUS_OK) *tape_at(t, v) = *item;
    return v;
}

tape_value tape_add(tape *t, const tape_call *call, const tape_item *made) {
    uint32_t place;
    tape_value v = tape_add_source(t, made);
    if (t->failed == STATUS_OK) t->failed = array_add(&t->calls, 1, &place);
    if (t->failed != STATUS_OK) return 0;
    for (int i = 0; i < TAPE_IN; i++) tape_at(t, v)->wants |= call->in[i] && tape_at(t, call->in[i])->wants;
    tape_call *c = (tape_call *)t->calls.data + place;
    *c = *call;
    c->out = v;
    return v;
}

void tape_make_for_each(tape *t, int64_t samples) {
    for (tape_value v = 1; v < t->items.count; v++) {
        tape_item *x = tape_at(t, v);
        if (x->for_each) x->elements *= samples;
        x->for_each = false;
    }
}

/* ---- storages ---- */

typedef struct {
    uint64_t bytes;
    int32_t references;
    uint32_t block; /* the listener's */
    tape_term term;
} storage;

enum { GIVEN = 4 }; /* parts of a block that run within one another */

typedef struct {
    const tape *t;
    const tape_settings *s;
    tape_result *r;
    array storages;
    uint32_t *free_list, free_count; /* storages to use again */
    uint32_t *of, *gradient;         /* by value: its storage; its gradient's; 0: none */
    uint32_t *kept;                  /* by call */
    int32_t *readers;                /* by value: calls of forward that are still to read it */
    bool *saved;                     /* by call: what it keeps is there */
    uint32_t *maker;                 /* by value: its call; 0: none */
    uint32_t *seen, looks;     /* by value: the number of the last look at a block's inputs that saw it */
    array lingering, clinging; /* storages: to the end of backward; to that of a graph */
    uint64_t live, by_term[TAPE_TERMS];
    uint64_t workspace; /* of products, which the next one takes */
    bool biased[2];     /* forward's and backward's thread have multiplied with a bias */
    struct {
        uint32_t storage, returns; /* returns: the call before which a part of a block has returned */
    } given[GIVEN];                /* to parts of the block; storage 0: none */
    const char *now;
    uint32_t round;
} player;

static storage *at(const player *p, uint32_t s) { return (storage *)p->storages.data + s; }
static const tape_call *call_at(const player *p, uint32_t i) { return (tape_call *)p->t->calls.data + i; }

static void tell(const player *p, const char *what, int32_t site) {
    const tape_watcher *w = p->s->watcher;
    if (w) w->call(w->context, what, site, p->now, p->round);
}

static uint32_t take_on(player *p, uint64_t bytes, tape_term term, uint8_t stream) {
    uint32_t s = 0;
    if (!bytes) return 0;
    if (p->free_count)
        s = p->free_list[--p->free_count];
    else if (array_add(&p->storages, 1, &s) != STATUS_OK)
        return 0;
    const tape_listener *l = p->s->listener;
    *at(p, s) = (storage){ .bytes = bytes, .references = 1, .term = term };
    if (l) at(p, s)->block = l->take(l->context, bytes, stream);
    if (p->s->watcher) p->s->watcher->born(p->s->watcher->context, s, bytes, term);
    p->live += bytes, p->by_term[term] += bytes;
    if (p->live > p->r->peak) {
        p->r->peak = p->live, p->r->peak_in = p->now;
        memcpy(p->r->at_peak, p->by_term, sizeof p->by_term);
    }
    return s;
}

static uint32_t take(player *p, uint64_t bytes, tape_term term) {
    return take_on(p, bytes, term, term == TAPE_GRADIENTS ? p->s->gradient_stream : TAPE_COMPUTES);
}

static void give(player *p, uint32_t s) {
    if (!s || --at(p, s)->references > 0) return;
    const tape_listener *l = p->s->listener;
    p->live -= at(p, s)->bytes, p->by_term[at(p, s)->term] -= at(p, s)->bytes;
    if (l) l->give(l->context, at(p, s)->block);
    if (p->s->watcher) p->s->watcher->died(p->s->watcher->context, s);
    p->free_list[p->free_count++] = s;
}

static uint32_t share(const player *p, uint32_t s) {
    if (s) at(p, s)->references++;
    return s;
}

/* Is no tensor's, and nobody else's. */
static void pend(player *p, uint64_t bytes, uint8_t stream) {
    if (p->s->listener && bytes) p->s->listener->take(p->s->listener->context, bytes, stream);
}

/* ---- forward ---- */

static bool differentiable(const player *p, const tape_call *c) { return tape_at(p->t, c->out)->wants; }

/* Bytes of a value on this device: of weights that several share, a part. */
static uint64_t own_bytes(const player *p, tape_value v) {
    const tape_item *x = tape_at(p->t, v);
    double share = x->term == TAPE_WEIGHTS ? p->s->weight_share : 0;
    return share > 0 ? (uint64_t)((double)x->elements * ((x->width - x->whole) * share + x->whole))
                     : tape_bytes(p->t, v);
}

static uint64_t gradient_bytes(const player *p, tape_value v) {
    double share = tape_at(p->t, v)->term == TAPE_WEIGHTS ? p->s->gradient_share : 0;
    return share > 0 ? (uint64_t)((double)tape_bytes(p->t, v) * share) : tape_bytes(p->t, v);
}

static void drop_value(player *p, tape_value v) {
    give(p, p->of[v]);
    p->of[v] = 0;
}

static void save(player *p, uint32_t i) {
    const tape_call *c = call_at(p, i);
    if (!differentiable(p, c)) return;
    for (int k = 0; k < TAPE_IN; k++)
        if (c->keeps_in >> k & 1u) share(p, p->of[c->in[k]]);
    if (c->keeps_out) share(p, p->of[c->out]);
    p->kept[i] = take(p, c->kept, TAPE_ACTIVATIONS);
    p->saved[i] = true;
}

static bool permanent(const player *p, tape_value v) {
    tape_term term = tape_at(p->t, v)->term;
    return term == TAPE_WEIGHTS || term == TAPE_INPUTS || term >= TAPE_REFERENCE;
}

/* The libraries of products take theirs with the first product of a thread, and keep it: cuBLAS, and, for one
 * with a bias, cuBLASLt. */
static void take_workspaces(player *p, const tape_call *c, bool backward) {
    enum { BIASED_BYTES = 1 << 20 };
    if (!p->s->workspace || !c->multiplies) return;
    take(p, p->workspace, TAPE_TEMPORARIES);
    p->workspace = 0;
    bool thread = p->now[0] == 'b'; /* which computes forward again as well */
    if (backward || !c->biased || p->biased[thread]) return;
    p->biased[thread] = true;
    take(p, BIASED_BYTES, TAPE_TEMPORARIES);
}

static void run_forward(player *p, uint32_t i, bool saving) {
    const tape_call *c = call_at(p, i);
    const tape_item *made = tape_at(p->t, c->out);
    tell(p, c->what, c->site);
    uint32_t extra = take(p, c->forward, TAPE_TEMPORARIES);
    p->of[c->out] = c->view ? share(p, p->of[c->in[0]]) : take(p, tape_bytes(p->t, c->out), made->term);
    take_workspaces(p, c, false);
    give(p, extra);
    if (saving) save(p, i);
    for (int k = 0; k < TAPE_IN; k++)
        if (c->in[k] && !permanent(p, c->in[k]) && --p->readers[c->in[k]] == 0) drop_value(p, c->in[k]);
}

/* ---- backward ---- */

static void add_gradient(player *p, tape_value v, uint32_t s) {
    uint32_t have = p->gradient[v];
    if (!have) {
        p->gradient[v] = s;
        return;
    }
    bool anew = p->s->adds_anew && at(p, have)->term == TAPE_GRADIENTS;
    if (anew || at(p, have)->references > 1) { /* somebody else reads it: the sum is made anew */
        p->gradient[v] = take(p, at(p, have)->bytes, at(p, have)->term);
        give(p, have);
    }
    give(p, s);
}

static void release_saved(player *p, uint32_t i, const uint32_t *of) {
    const tape_call *c = call_at(p, i);
    if (!p->saved[i]) return;
    for (int k = 0; k < TAPE_IN; k++) {
        uint32_t place;
        if (!(c->keeps_in >> k & 1u)) continue;
        if (!(c->clings >> k & 1u) || !of[k] || array_add(&p->clinging, 1, &place) != STATUS_OK)
            give(p, of[k]);
        else
            ((uint32_t *)p->clinging.data)[place] = of[k];
    }
    if (c->keeps_out) give(p, of[TAPE_IN]);
    give(p, p->kept[i]);
    p->saved[i] = false, p->kept[i] = 0;
}

/* A graph is let go: that of a block which was computed again, or the whole. */
static void let_go(player *p, array *storages) {
    for (uint32_t i = 1; i < storages->count; i++) give(p, ((uint32_t *)storages->data)[i]);
    storages->count = 1;
}

static void run_backward(player *p, uint32_t i, const uint32_t *of) {
    const tape_call *c = call_at(p, i);
    uint32_t got = p->gradient[c->out];
    tell(p, c->what, c->site);
    p->gradient[c->out] = 0;
    if (got && differentiable(p, c)) {
        uint32_t extra = take(p, c->backward, TAPE_TEMPORARIES);
        for (int k = 0; k < TAPE_IN; k++) {
            const tape_item *x = tape_at(p->t, c->in[k]);
            if (!c->in[k] || !x->wants) continue;
            uint64_t bytes = gradient_bytes(p, c->in[k]);
            bool same = c->passes && bytes == at(p, got)->bytes;
            tape_term term = x->term == TAPE_WEIGHTS  ? TAPE_GRADIENTS
                             : x->term == TAPE_LOGITS ? TAPE_LOGITS
                                                      : TAPE_TEMPORARIES;
            add_gradient(p, c->in[k], same && term != TAPE_GRADIENTS ? share(p, got) : take(p, bytes, term));
            take_workspaces(p, c, true);
        }
        give(p, extra);
    }
    bool sums = got && differentiable(p, c) && c->sum;
    uint32_t summand = sums ? take(p, c->summand, TAPE_TEMPORARIES) : 0;
    bool early =
        p->s->checkpointing && !p->s->reentrant && c->site >= 0; /* what was computed again is gone */
    if (early) release_saved(p, i, of);
    if (sums) give(p, take(p, c->sum, TAPE_TEMPORARIES));
    if (!early) release_saved(p, i, of);
    give(p, summand);
    give(p, got);
}

/* ---- the step ---- */

/* Storages that a saved call's gradient will read, in the order of release_saved. */
typedef struct {
    uint32_t of[TAPE_IN + 1];
} reading;

static void note_storages(const player *p, uint32_t i, reading *out) {
    const tape_call *c = call_at(p, i);
    for (int k = 0; k < TAPE_IN; k++) out->of[k] = c->in[k] ? p->of[c->in[k]] : 0;
    out->of[TAPE_IN] = p->of[c->out];
}

/* Forward of one call, remembering where what it keeps lies. */
static void forward(player *p, uint32_t i, bool saving, reading *places) {
    const tape_call *c = call_at(p, i);
    reading before;
    note_storages(p, i, &before); /* inputs: they may be gone afterwards, when nothing keeps them */
    run_forward(p, i, saving);
    before.of[TAPE_IN] = p->of[c->out];
    places[i] = before;
    if (p->readers[c->out] == 0) drop_value(p, c->out);
}

static void count_readers(player *p, uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; i++) p->readers[call_at(p, i)->out] = 0;
    for (uint32_t i = first; i < last; i++)
        for (int k = 0; k < TAPE_IN; k++) p->readers[call_at(p, i)->in[k]]++;
}

static uint32_t end_of_site(const player *p, uint32_t i) {
    int32_t site = call_at(p, i)->site;
    while (i < p->t->calls.count && call_at(p, i)->site == site) i++;
    return i;
}

static uint32_t begin_of_site(const player *p, uint32_t i) {
    int32_t site = call_at(p, i)->site;
    while (i > 1 && call_at(p, i - 1)->site == site) i--;
    return i;
}

/* Values from before call `first` that calls up to `last` read: a block that is computed again holds them. */
static void hold_inputs(player *p, uint32_t first, uint32_t last, bool hold, reading *held) {
    for (uint32_t i = first; i < last; i++)
        for (int k = 0; k < TAPE_IN; k++) {
            tape_value v = call_at(p, i)->in[k];
            if (!v || permanent(p, v) || p->maker[v] >= first) continue;
            if (hold) held[i].of[k] = share(p, p->of[v]);
        }
}

static void let_inputs_go(player *p, uint32_t first, uint32_t last, reading *held) {
    for (uint32_t i = first; i < last; i++)
        for (int k = 0; k < TAPE_IN; k++) {
            give(p, held[i].of[k]);
            held[i].of[k] = 0;
        }
}

/* Before which call of the block a part of it that was given the result of call `i` has returned; 0: it is
 * given to none. */
static uint32_t returns_at(const player *p, uint32_t i) {
    tape_value from = tape_at(p->t, call_at(p, i)->out)->branches_from;
    for (uint32_t j = i + 1; from && j < end_of_site(p, i); j++)
        for (int k = 0; k < TAPE_IN; k++)
            if (call_at(p, j)->in[k] == from) return j;
    return 0;
}

static void hold_given(player *p, uint32_t i) {
    uint32_t returns = returns_at(p, i);
    for (int k = 0; returns && k < GIVEN; k++) {
        if (p->given[k].storage) continue;
        p->given[k].storage = share(p, p->of[call_at(p, i)->out]), p->given[k].returns = returns;
        return;
    }
}

static void let_given_go(player *p, uint32_t i) {
    for (int k = 0; k < GIVEN; k++) {
        if (!p->given[k].storage || p->given[k].returns != i) continue;
        give(p, p->given[k].storage);
        p->given[k].storage = 0;
    }
}

static bool has_frames(const player *p) { return p->s->evaluates && p->s->frames; }

static uint32_t last_of_blocks(const player *p) {
    uint32_t i = p->t->calls.count - 1;
    while (i && call_at(p, i)->site < 0) i--;
    return i;
}

/* A function has returned: of what calls `first` to `last` made its variables let theirs go. */
static void let_variables_go(player *p, tape_frame frame, uint32_t first, uint32_t last) {
    for (uint32_t i = first; i <= last; i++) {
        tape_value v = call_at(p, i)->out;
        if (tape_at(p->t, v)->frame == frame && --p->readers[v] == 0) drop_value(p, v);
    }
}

static void return_from(player *p, uint32_t i, uint32_t last_block) {
    if (i + 1 == end_of_site(p, i)) let_variables_go(p, TAPE_BLOCK, begin_of_site(p, i), i);
    if (i == last_block) let_variables_go(p, TAPE_BODY, 1, i);
}

static void play_forward(player *p, reading *places, reading *held) {
    p->now = "forward";
    count_readers(p, 1, p->t->calls.count);
    uint32_t last_block = has_frames(p) ? last_of_blocks(p) : 0;
    for (uint32_t i = 1; i <= last_block; i++)
        if (tape_at(p->t, call_at(p, i)->out)->frame) p->readers[call_at(p, i)->out]++;
    for (tape_value v = 1; v < p->t->items.count; v++)
        if (tape_at(p->t, v)->held || tape_at(p->t, v)->outlives) p->readers[v]++;
    for (uint32_t i = 1; i < p->t->calls.count; i++) {
        bool again = p->s->checkpointing && !p->s->evaluates && call_at(p, i)->site >= 0;
        bool frame = has_frames(p) && call_at(p, i)->site >= 0;
        if ((again || frame) && (i == 1 || call_at(p, i - 1)->site != call_at(p, i)->site))
            hold_inputs(p, i, end_of_site(p, i), true, held);
        let_given_go(p, i);
        forward(p, i, !again && !p->s->evaluates, places);
        if (frame) hold_given(p, i);
        if (frame) return_from(p, i, last_block);
        if (frame && i + 1 == end_of_site(p, i)) let_inputs_go(p, begin_of_site(p, i), i + 1, held);
    }
    for (tape_value v = 1; v < p->t->items.count; v++)
        if (tape_at(p->t, v)->held && p->of[v]) drop_value(p, v);
}

/* Computes a block again, for its gradients. */
static void replay(player *p, uint32_t first, uint32_t last, reading *places, reading *held) {
    for (uint32_t i = first; i < last; i++)
        for (int k = 0; k < TAPE_IN; k++) {
            tape_value v = call_at(p, i)->in[k];
            if (held[i].of[k] && !p->of[v]) p->of[v] = share(p, held[i].of[k]);
        }
    for (uint32_t i = first; i < last; i++)
        for (int k = 0; k < TAPE_IN; k++) p->readers[call_at(p, i)->in[k]] = 0;
    count_readers(p, first, last);
    if (p->s->reentrant) p->readers[call_at(p, last - 1)->out]++; /* what it makes */
    for (uint32_t i = first; i < last; i++) forward(p, i, true, places);
    let_inputs_go(p, first, last, held);
}

static void linger(player *p, array *among, uint32_t s) {
    uint32_t place;
    if (s && array_add(among, 1, &place) == STATUS_OK) ((uint32_t *)among->data)[place] = share(p, s);
}

/* What the block of calls `first` to `last` reads of others, or its gradients, stays. */
static void linger_inputs(player *p, array *among, uint32_t first, uint32_t last, const reading *held) {
    p->looks++;
    for (uint32_t i = first; i < last; i++)
        for (int k = 0; k < TAPE_IN; k++) {
            tape_value v = call_at(p, i)->in[k];
            if (!v || p->maker[v] >= first || p->seen[v] == p->looks) continue;
            p->seen[v] = p->looks;
            if (permanent(p, v) || !tape_at(p->t, v)->wants) continue;
            linger(p, among, held ? held[i].of[k] : p->gradient[v]);
        }
}

/* What others gather ahead is for a block before: there is none before the first. */
static bool is_first_block(const player *p, uint32_t i) {
    for (uint32_t j = 1; j < i; j++)
        if (call_at(p, j)->site >= 0) return call_at(p, j)->site == call_at(p, i)->site;
    return true;
}

static void play_backward(player *p, reading *places, reading *held) {
    p->now = "backward";
    tape_value loss = call_at(p, p->t->calls.count - 1)->out;
    p->gradient[loss] = take(p, tape_bytes(p->t, loss), TAPE_TEMPORARIES);
    uint32_t fetched = 0, first = p->t->calls.count;
    for (uint32_t i = p->t->calls.count; i-- > 1;) {
        bool last = i < first;
        if (last) first = begin_of_site(p, i);
        bool first_block = call_at(p, i)->site >= 0 && is_first_block(p, i);
        if (!fetched && call_at(p, i)->site >= 0 && !first_block)
            fetched = take_on(p, p->s->fetched_bytes, TAPE_TEMPORARIES, p->s->gather_stream);
        if (first_block) give(p, fetched), fetched = 0;
        bool again = p->s->checkpointing && call_at(p, i)->site >= 0;
        array *stays = p->s->lingering ? &p->lingering : &p->clinging;
        if (again && last && p->s->reentrant) linger_inputs(p, stays, first, i + 1, held);
        if (again && last) replay(p, first, i + 1, places, held);
        run_backward(p, i, places[i].of);
        if (i == first && call_at(p, i)->site >= 0) give(p, take(p, p->s->unit_bytes, TAPE_TEMPORARIES));
        if (again && i == first && p->s->lingering)
            linger_inputs(p, &p->lingering, first, end_of_site(p, i), NULL);
        if (again && i == first) {
            if (p->s->reentrant) drop_value(p, call_at(p, end_of_site(p, i) - 1)->out);
            let_go(p, &p->clinging);
        }
    }
    give(p, fetched);
    let_go(p, &p->lingering);
    let_go(p, &p->clinging);
}

/* The block whose calls read a weight first, from 1; 0: it is outside of blocks. */
static void note_blocks(const player *p, int32_t *block) {
    for (uint32_t i = p->t->calls.count; i-- > 1;)
        for (int k = 0; k < TAPE_IN; k++) block[call_at(p, i)->in[k]] = call_at(p, i)->site + 1;
}

/* Rank 0's weights are sent to the others in buffers, two of which are on their way at a time. */
enum { BROADCAST_BYTES = 250 << 20 };
static void synchronise(player *p, const uint32_t *whole) {
    const tape_listener *l = p->s->listener;
    uint32_t sent[2] = { 0, 0 }, turn = 0;
    uint64_t bytes = 0;
    for (tape_value v = 1; v <= p->t->items.count; v++) {
        bool last = v == p->t->items.count;
        if (!last && whole[v]) bytes += tape_bytes(p->t, v);
        if (!bytes || (!last && bytes < BROADCAST_BYTES)) continue;
        if (sent[turn]) l->give(l->context, sent[turn]);
        sent[turn] = l->take(l->context, bytes, TAPE_COMPUTES);
        turn = 1 - turn, bytes = 0;
    }
    for (int k = 0; k < 2; k++)
        if (sent[k]) l->give(l->context, sent[k]);
}

/* Weights of a block, one after the other, then all in one piece; both go as soon as the share is cut. */
static void cut_unit(player *p, const int32_t *block, int32_t which, uint32_t *whole) {
    const tape_listener *l = p->s->listener;
    uint64_t all = 0, share = 0;
    for (tape_value v = 1; v < p->t->items.count; v++) {
        if (tape_at(p->t, v)->term != TAPE_WEIGHTS || block[v] != which || p->of[v]) continue;
        whole[v] = l->take(l->context, tape_bytes(p->t, v), TAPE_COMPUTES);
        all += tape_bytes(p->t, v);
        share += own_bytes(p, v);
    }
    if (!all) return;
    synchronise(p, whole);
    uint32_t piece = l->take(l->context, all, TAPE_COMPUTES), kept = take(p, share, TAPE_WEIGHTS);
    for (tape_value v = 1; v < p->t->items.count; v++) {
        if (!whole[v]) continue;
        p->of[v] = kept;
        l->give(l->context, whole[v]);
        whole[v] = 0;
    }
    l->give(l->context, piece);
}

static void cut_units(player *p) {
    int32_t *block = memory_new(p->t->items.count, sizeof *block), last = 0;
    uint32_t *whole = memory_new(p->t->items.count, sizeof *whole);
    if (block && whole) note_blocks(p, block);
    for (tape_value v = 1; block && v < p->t->items.count; v++) last = block[v] > last ? block[v] : last;
    for (int32_t b = 1; block && whole && b <= last; b++) cut_unit(p, block, b, whole);
    if (block && whole) cut_unit(p, block, 0, whole);
    memory_free(block);
    memory_free(whole);
}

static void play_sources(player *p) {
    p->now = "forward";
    tell(p, "weights and inputs", -1);
    if (p->s->cuts_units && p->s->listener) cut_units(p);
    for (tape_value v = 1; v < p->t->items.count; v++)
        if (permanent(p, v) && !p->of[v]) p->of[v] = take(p, own_bytes(p, v), tape_at(p->t, v)->term);
    if (p->s->synchronises && p->s->listener) synchronise(p, p->of);
}

static bool trained(const player *p, tape_value v) {
    return tape_at(p->t, v)->term == TAPE_WEIGHTS && tape_at(p->t, v)->wants;
}

/* `bytes` in as many parts as there are trained weights, as large as those are; into `out`, by value. */
static void take_spread(player *p, uint64_t bytes, tape_term term, uint32_t *out) {
    uint64_t all = 0, left = bytes;
    tape_value last = 0;
    for (tape_value v = 1; v < p->t->items.count; v++)
        if (trained(p, v)) all += tape_bytes(p->t, v), last = v;
    for (tape_value v = 1; v <= last; v++) {
        if (!trained(p, v)) continue;
        double part = (double)bytes * ((double)tape_bytes(p->t, v) / (double)all);
        uint64_t some = v == last ? left : (uint64_t)part < left ? (uint64_t)part : left;
        uint32_t s = take(p, some, term);
        if (out) out[v] = s;
        left -= some;
    }
}

/* Two moments of a weight, then those of the next: each weight's share of all bytes. */
static void take_moments(player *p, uint64_t bytes) {
    uint64_t all = 0;
    for (tape_value v = 1; v < p->t->items.count; v++)
        if (trained(p, v)) all += tape_bytes(p->t, v);
    for (tape_value v = 1; v < p->t->items.count; v++) {
        if (!trained(p, v)) continue;
        uint64_t one = (uint64_t)((double)bytes * ((double)tape_bytes(p->t, v) / (double)all) / 2);
        for (int k = 0; k < 2; k++) take(p, one, TAPE_OPTIMIZER);
    }
}

static bool play_update(player *p, bool first) {
    uint32_t *scratch = memory_new(p->t->items.count, sizeof *scratch);
    if (!scratch) return false;
    p->now = "update";
    tell(p, "update", -1);
    if (first) take_moments(p, p->s->optimizer_bytes);
    if (p->s->update_spread)
        take_spread(p, p->s->update_bytes, TAPE_TEMPORARIES, scratch);
    else
        scratch[0] = take(p, p->s->update_bytes, TAPE_TEMPORARIES);
    for (tape_value v = 0; v < p->t->items.count; v++) give(p, scratch[v]);
    memory_free(scratch);
    return true;
}

/* Gradients are let go before backward, unless zeros or earlier samples' are to be added to. */
static void clear_gradients(player *p) {
    for (tape_value v = 1; v < p->t->items.count; v++) {
        bool adds = p->s->accumulates && trained(p, v), stays = adds || (p->s->fills && trained(p, v));
        if (!stays) give(p, p->gradient[v]), p->gradient[v] = 0;
        if (adds && !p->gradient[v]) p->gradient[v] = take(p, gradient_bytes(p, v), TAPE_GRADIENTS);
    }
}

static void drop_outlived(player *p) {
    for (tape_value v = 1; v < p->t->items.count; v++)
        if (tape_at(p->t, v)->outlives && p->of[v]) drop_value(p, v);
}

static bool play_step(player *p, reading *places, reading *held, bool first) {
    const tape_settings *s = p->s;
    bool late = s->clears_late && !s->accumulates;
    if (!late) clear_gradients(p);
    drop_outlived(p);
    uint32_t gathered = take_on(p, s->gathered_bytes, TAPE_TEMPORARIES, s->gather_stream);
    if (first) pend(p, s->gathered_pending, s->gather_stream);
    if (first) p->workspace = s->workspace;
    play_forward(p, places, held);
    if (late) clear_gradients(p);
    p->now = "backward";
    if (first) p->workspace = s->workspace;
    if (first) pend(p, s->sending_pending, TAPE_COMPUTES);
    uint32_t sending = first || s->sending_ends ? take(p, s->sending_bytes, TAPE_TEMPORARIES) : 0;
    play_backward(p, places, held);
    if (s->sending_ends) give(p, sending);
    give(p, gathered);
    return play_update(p, first);
}

/* Each of the others, then the tape's own; twice, since what the first round left over is there in the
 * second. */
static bool play_lengths(player *p, reading *places, reading *held) {
    const tape *own = p->t;
    bool good = true, first = true;
    for (uint32_t i = 0; good && i < 2 * (p->s->other_count + 1); i++) {
        p->round = i;
        uint32_t which = i % (p->s->other_count + 1);
        p->t = which < p->s->other_count ? p->s->others + which : own;
        good = play_step(p, places, held, first);
        first = false;
    }
    return good;
}

/* What training leaves is there: the optimizer's state, the workspaces of both threads, and buckets of
 * gradients that stay. Weights are gathered as in a step. */
static void play_evaluation(player *p, reading *places, reading *held) {
    take(p, p->s->optimizer_bytes, TAPE_OPTIMIZER);
    take(p, 2 * p->s->workspace, TAPE_TEMPORARIES);
    if (!p->s->sending_ends) take(p, p->s->sending_bytes, TAPE_TEMPORARIES);
    take(p, p->s->gathered_bytes, TAPE_TEMPORARIES);
    for (tape_value v = 1; p->s->within && v < p->t->items.count; v++)
        if (trained(p, v)) p->gradient[v] = take(p, gradient_bytes(p, v), TAPE_GRADIENTS);
    play_forward(p, places, held);
}

static bool open_player(player *p) {
    size_t values = p->t->items.count, calls = p->t->calls.count;
    p->of = memory_new(values, sizeof *p->of);
    p->gradient = memory_new(values, sizeof *p->gradient);
    p->readers = memory_new(values, sizeof *p->readers);
    p->maker = memory_new(values, sizeof *p->maker);
    p->seen = memory_new(values, sizeof *p->seen);
    p->kept = memory_new(calls, sizeof *p->kept);
    p->saved = memory_new(calls, sizeof *p->saved);
    p->free_list = memory_new(6 * (values + calls), sizeof *p->free_list);
    return p->of && p->gradient && p->readers && p->maker && p->seen && p->kept && p->saved && p->free_list &&
           array_open(&p->storages, sizeof(storage), (uint32_t)(6 * (values + calls))) == STATUS_OK &&
           array_open(&p->lingering, sizeof(uint32_t), (uint32_t)(2 * values)) == STATUS_OK &&
           array_open(&p->clinging, sizeof(uint32_t), (uint32_t)(TAPE_IN * calls)) == STATUS_OK;
}

static void close_player(player *p) {
    memory_free(p->of);
    memory_free(p->gradient);
    memory_free(p->readers);
    memory_free(p->maker);
    memory_free(p->seen);
    memory_free(p->kept);
    memory_free(p->saved);
    memory_free(p->free_list);
    array_close(&p->storages);
    array_close(&p->lingering);
    array_close(&p->clinging);
}

status tape_play(const tape *t, const tape_settings *s, tape_result *r) {
    player p = { .t = t, .s = s, .r = r };
    *r = (tape_result){ .peak_in = "forward" };
    TRY(t->failed);
    if (t->calls.count < 2) return status_set(STATUS_INVALID, "the model computes nothing");
    reading *places = memory_new(t->calls.count, sizeof *places),
            *held = memory_new(t->calls.count, sizeof *held);
    bool good = places && held && open_player(&p);
    if (good) {
        for (uint32_t i = 1; i < t->calls.count; i++) p.maker[call_at(&p, i)->out] = i;
        play_sources(&p);
        if (s->evaluates)
            play_evaluation(&p, places, held);
        else
            good = play_lengths(&p, places, held);
    }
    close_player(&p);
    memory_free(places);
    memory_free(held);
    return good ? STATUS_OK : status_set(STATUS_FAILED, "no memory to estimate");
}
