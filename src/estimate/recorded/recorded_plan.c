#include "estimate/recorded/recorded_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "estimate/recorded/plan_ladder.h"
#include "estimate/recorded/recorded_rewrite.h"

/* Micro-batches that are tried; rungs of a ladder; numbers of pieces: 2, 4, 8, ... RECORDED_MOST_CHUNKS. */
enum { MOST_MICRO = 8, MOST_RUNGS = 48, LEAST_RUNGS = 4, MOST_COUNTS = 12 };

/* The work of all ways together, and of one, in parts of two nanoseconds. */
static const double most_work = 0.68e9, most_work_of_one = 2e8;

/* A promise is by this part above what is played, for small tensors that no call shows: numbers that Python
 * makes, what autograd has of its own. */
enum { UNSEEN = 256 };

typedef struct {
    const plan_request *q;
    recorded_plan *out;
    torch_types types;       /* that are planned for */
    uint32_t micros;         /* of all types together */
    torch_settings settings; /* of this micro-batch, as they are played */
    recording_program rewritten;
    plan_rates rates;
    plan_tree tree;
    recorded_sizes sizes;
    uint8_t *action;
    uint64_t *keeps, *saves; /* by module, and by block */
    uint32_t *block_of;
    uint32_t room;
} planning;

/* ---- what is computed with ---- */

static plan_rates rates_of(const plan_request *q, torch_types types) {
    const hardware *h = q->hardware;
    static const double usual_begin = 10e-6; /* seconds, as in torch_time.c */
    return (plan_rates){ .products = types == TORCH_F32 ? h->f32 : h->f16,
                         .bandwidth = h->bandwidth,
                         .link = q->none_away ? 0 : h->link,
                         .begin = h->call > 0 ? h->call : usual_begin };
}

/* ---- one way ---- */

/* Modules that are computed again, each with all in it, as blocks. */
static recorded_again blocks_of(planning *n, const plan_way *w) {
    uint32_t blocks = 0;
    for (uint32_t m = 0; m < n->q->recording->modules.count; m++) {
        n->block_of[m] = w->action[m] == PLAN_AGAIN ? ++blocks : m ? n->block_of[n->tree.parent[m]] : 0;
        if (w->action[m] == PLAN_AGAIN) n->saves[blocks] = w->keeps[m];
    }
    return (recorded_again){ n->block_of, blocks, n->tree.kind_of, w->keeping ? n->saves : NULL };
}

static void count_actions(const planning *n, plan_way *w, double *again) {
    for (uint32_t m = 0; m < n->q->recording->modules.count; m++) {
        w->again += w->action[m] == PLAN_AGAIN;
        w->away += w->action[m] == PLAN_AWAY;
        w->keeping += w->keeps[m] != 0;
        if (w->action[m] == PLAN_AGAIN) *again += plan_tree_again(&n->tree, m, w->keeps[m]).seconds;
    }
}

static status play(planning *n, plan_way *w, plan_moved *moved, torch_result *t) {
    recorded_course course;
    *moved = (plan_moved){ 0 };
    recorded_again again = blocks_of(n, w);
    status result = recorded_course_weave(n->q->recording, n->sizes.program, &again, &course);
    if (result == STATUS_OK && w->away) result = plan_move(&n->tree, w->action, w->keeps, &course, moved);
    if (result == STATUS_OK)
        result = recorded_play_course(n->q->recording, &n->settings, &n->sizes, &course, t);
    recorded_course_close(&course);
    return result;
}

/* Losses of earlier micro-batches are kept to be returned: 8 bytes each, or 512 of an allocator that rounds.
 */
static uint64_t losses(const planning *n, const plan_way *w) {
    return (uint64_t)(w->accumulate - 1) * (n->settings.cuda ? 512 : 8);
}

static void raise(interval *b, uint64_t bytes) { b->low += bytes, b->likely += bytes, b->high += bytes; }

static status fill(planning *n, plan_way *w) {
    torch_result t;
    plan_moved moved;
    double again = 0;
    w->batch = n->settings.batch, w->accumulate = torch_accumulation(&n->settings);
    w->types = n->types, w->pieces = n->settings.loss_chunks;
    count_actions(n, w, &again);
    TRY(play(n, w, &moved, &t));
    w->live = t.live, w->reserved = t.reserved, w->peak_in = t.peak_in;
    memcpy(w->by_term, t.by_term, sizeof w->by_term);
    raise(&w->live, losses(n, w));
    raise(&w->reserved, losses(n, w));
    const interval *b = n->settings.cuda ? &w->reserved : &w->live;
    w->bytes = n->q->surely ? b->high : b->likely + b->likely / UNSEEN;
    w->host_bytes = moved.host, w->least = n->tree.least;
    w->link_bytes = (double)w->accumulate * n->sizes.link.each + n->sizes.link.once;
    double link = n->rates.link > 0 ? (moved.there + moved.back) / n->rates.link : 0;
    link += moved.transferred * n->rates.begin;
    w->seconds = (double)w->accumulate * (n->tree.once + again + link) + n->tree.update;
    n->out->parameters = t.parameters, n->out->trained = t.trained;
    n->out->tried++;
    return STATUS_OK;
}

static void act_nowhere(planning *n) {
    memset(n->action, 0, n->q->recording->modules.count * sizeof *n->action);
    memset(n->keeps, 0, n->q->recording->modules.count * sizeof *n->keeps);
}

/* With the actions and the results that stay of `n`. */
static status add_way(planning *n) {
    recorded_plan *p = n->out;
    if (p->count == n->room) {
        uint32_t more = n->room ? 2 * n->room : 64;
        void *grown = memory_resize(p->ways, more, sizeof *p->ways);
        if (!grown) return status_set(STATUS_FAILED, "no memory to plan");
        p->ways = grown, n->room = more;
    }
    uint32_t modules = n->q->recording->modules.count;
    plan_way *w = &p->ways[p->count];
    *w = (plan_way){ .action = memory_new((size_t)modules + 1, sizeof *w->action),
                     .keeps = memory_new((size_t)modules + 1, sizeof *w->keeps) };
    p->count++;
    if (!w->action || !w->keeps) return status_set(STATUS_FAILED, "no memory to plan");
    memcpy(w->action, n->action, modules * sizeof *n->action);
    memcpy(w->keeps, n->keeps, modules * sizeof *n->keeps);
    return fill(n, w);
}

/* ---- all ways ---- */

/* Events are played twice, and each module that is computed again looks through them. */
static double work_of(const planning *n, uint32_t blocks) {
    double size = (double)n->sizes.program->events.count + recording_storages(n->sizes.program);
    return 15 * size + 0.1 * size * blocks;
}

/* Rungs of a ladder that are played, the first, which does nothing, not among them: all where there are few,
 * else as many as the work allows; as many corners come beside them. */
static status count_rungs(planning *n, const plan_ladder *l, uint32_t ladders, uint32_t *played) {
    uint32_t last = plan_ladder_rungs(l) - 1, blocks = 0;
    TRY(plan_ladder_rung(l, last, n->action, n->keeps));
    for (uint32_t m = 0; m < n->q->recording->modules.count; m++) blocks += n->action[m] == PLAN_AGAIN;
    double each = work_of(n, blocks), most = most_work / each / ladders / 2;
    *played = most > MOST_RUNGS ? MOST_RUNGS : most < LEAST_RUNGS ? LEAST_RUNGS : (uint32_t)most;
    if (last < *played) *played = last;
    if (each > most_work_of_one) *played = 0;
    return STATUS_OK;
}

/* Does the price of a byte rise behind that rung? There all modules of a kind have acted, none of the next.
 */
static bool is_corner(const plan_hull *h, uint32_t rung) {
    const plan_point *a = &h->points[rung - 1], *b = a + 1, *c = a + 2;
    double left = (b->seconds - a->seconds) * (c->bytes - b->bytes),
           right = (c->seconds - b->seconds) * (b->bytes - a->bytes);
    return right > left * (1 + 1e-6);
}

/* Marks the rungs to play: at equal distances, and as many corners at most, of many every so many. */
static void pick_rungs(const plan_ladder *l, uint32_t played, bool *picked) {
    uint32_t last = plan_ladder_rungs(l) - 1, corners = 0, seen = 0;
    for (uint32_t i = 1; i <= played; i++) picked[(uint32_t)((double)i * last / played + 0.5)] = true;
    for (uint32_t i = 1; i < last; i++) corners += is_corner(&l->of[0], i);
    uint32_t each = played ? corners / played + 1 : 1;
    for (uint32_t i = 1; played && i < last; i++)
        if (is_corner(&l->of[0], i) && seen++ % each == 0) picked[i] = true;
}

static status add_ladder(planning *n, int may, double largest, uint32_t ladders) {
    plan_ladder l;
    uint32_t played = 0, rungs = 0;
    bool *picked = NULL;
    status result = plan_ladder_find(&n->tree, may, largest, &l);
    if (result == STATUS_OK) result = count_rungs(n, &l, ladders, &played);
    if (result == STATUS_OK) {
        rungs = plan_ladder_rungs(&l);
        picked = memory_new(rungs, sizeof *picked);
        if (!picked) result = status_set(STATUS_FAILED, "no memory to plan");
    }
    if (result == STATUS_OK) pick_rungs(&l, played, picked);
    for (uint32_t i = 1; result == STATUS_OK && i < rungs; i++) {
        if (!picked[i]) continue;
        result = plan_ladder_rung(&l, i, n->action, n->keeps);
        if (result == STATUS_OK) result = add_way(n);
    }
    memory_free(picked);
    plan_ladder_close(&l);
    return result;
}

/* A module with more than half of what is kept brings that back at once when it is computed again. Smaller
 * ones bring back less, and leave more. */
static const struct {
    int may;
    double share; /* of what is kept: the largest module that is computed again */
} ladders[] = { { PLAN_MAY_AGAIN | PLAN_MAY_AWAY, 0.5 },
                { PLAN_MAY_AGAIN, 0.5 },
                { PLAN_MAY_AGAIN, 0.06 },
                { PLAN_MAY_AWAY, 0 },
                { PLAN_MAY_AGAIN | PLAN_MAY_AWAY | PLAN_MAY_RESULTS, 0.5 },
                { PLAN_MAY_AGAIN | PLAN_MAY_RESULTS, 0.5 } };
enum { LADDERS = sizeof ladders / sizeof *ladders };

/* `share`: of the work, what these ladders may do is one part of so many. */
static status add_ladders(planning *n, uint32_t share) {
    for (int i = 0; i < LADDERS; i++) {
        bool link = n->rates.link > 0;
        if (!link && ladders[i].may & PLAN_MAY_AWAY) continue;
        if (n->q->none_stays && ladders[i].may & PLAN_MAY_RESULTS) continue;
        TRY(add_ladder(n, ladders[i].may, ladders[i].share * n->tree.kept, LADDERS * share));
    }
    return STATUS_OK;
}

/* The step at that micro-batch, with head and loss in so many pieces, as settings rewrite it.
 * STATUS_INVALID: nothing tells how the step grows to that, which may be so of some, or there are no such
 * pieces. Close it in any case. */
static status open_step(planning *n, int64_t batch, int64_t pieces) {
    torch_settings asked = n->q->settings;
    asked.types = n->types, asked.batch = batch, asked.loss_chunks = pieces;
    n->settings = recorded_prepared(&asked);
    TRY(recorded_sizes_find(n->q->recording, batch, n->settings.context, false, &n->sizes));
    TRY(recorded_rewrite(n->q->recording, &n->settings, &n->sizes, &n->rewritten));
    n->rates = rates_of(n->q, n->types);
    return plan_tree_find(n->q->recording, &n->sizes, &n->settings, &n->rates, &n->tree);
}

static void close_step(planning *n) {
    plan_tree_close(&n->tree);
    recorded_sizes_close(&n->sizes);
    edit_close_program(&n->rewritten);
    n->sizes = (recorded_sizes){ 0 }, n->rewritten = (recording_program){ 0 };
}

/* Two ways of a step that tell what pieces of its loss would do: nothing else is done, and all runs again
 * that may. Less else is there then, so more pieces help. */
enum { ALONE, WITH_ALL_AGAIN, PROBES };

static uint64_t last_bytes(const planning *n) { return n->out->ways[n->out->count - 1].bytes; }

static status probe(planning *n, uint64_t bytes[PROBES]) {
    plan_ladder l;
    act_nowhere(n);
    TRY(add_way(n));
    bytes[ALONE] = last_bytes(n);
    status result = plan_ladder_find(&n->tree, PLAN_MAY_AGAIN, n->tree.kept / 2, &l);
    if (result == STATUS_OK) result = plan_ladder_rung(&l, plan_ladder_rungs(&l) - 1, n->action, n->keeps);
    plan_ladder_close(&l);
    if (result == STATUS_OK) result = add_way(n);
    if (result == STATUS_OK) bytes[WITH_ALL_AGAIN] = last_bytes(n);
    return result;
}

/* `bytes`: of the step as it is recorded, by probe. */
static status plan_micro(planning *n, uint64_t bytes[PROBES]) {
    n->out->keeps_batch |= n->tree.mixes_samples;
    TRY(probe(n, bytes));
    if (n->settings.batch == n->q->settings.batch && n->types == n->q->settings.types)
        n->out->plain = n->out->ways[n->out->count - PROBES];
    n->out->plain.action = NULL, n->out->plain.keeps = NULL;
    return add_ladders(n, n->micros);
}

/* ---- head and loss in pieces ---- */

/* Is `b` less than `a` by enough to be worth its seconds? */
static bool is_less(uint64_t b, uint64_t a) { return b < a - a / 64; }

/* Doubles the pieces for as long as that helps: they take a part of the logits each, so what they no longer
 * help once they never do. `counts`: how many were tried; 0: this head has none. */
static status probe_pieces(planning *n, int64_t batch, uint64_t bytes[][PROBES], uint32_t *counts) {
    bool helps = true;
    for (*counts = 0; helps && *counts < MOST_COUNTS; ++*counts) {
        uint32_t i = *counts;
        status result = open_step(n, batch, INT64_C(2) << i);
        bool none = result == STATUS_INVALID;
        if (result == STATUS_OK) result = probe(n, bytes[i]);
        close_step(n);
        if (none) return STATUS_OK;
        TRY(result);
        helps = !i || is_less(bytes[i][ALONE], bytes[i - 1][ALONE]) ||
                is_less(bytes[i][WITH_ALL_AGAIN], bytes[i - 1][WITH_ALL_AGAIN]);
    }
    return STATUS_OK;
}

/* The fewest pieces that do by that probe what the most do. */
static uint32_t settled(uint64_t bytes[][PROBES], uint32_t counts, int by) {
    uint32_t i = counts - 1;
    while (i && !is_less(bytes[counts - 1][by], bytes[i - 1][by])) i--;
    return i;
}

/* Beside the step as it is recorded, whose ladders are played as if there were no pieces. Rewriting follows
 * what autograd was seen to keep. */
static status try_pieces(planning *n, int64_t batch, const uint64_t whole[PROBES]) {
    uint64_t bytes[MOST_COUNTS][PROBES];
    uint32_t counts = 0;
    if (n->q->loss_is_pinned || !n->q->recording->programs[0].left.count) return STATUS_OK;
    TRY(probe_pieces(n, batch, bytes, &counts));
    if (!counts) return STATUS_OK;
    for (int k = 0, done = -1; k < PROBES; k++) {
        int i = (int)settled(bytes, counts, k);
        if (i == done || bytes[i][k] >= whole[k]) continue;
        done = i;
        status result = open_step(n, batch, INT64_C(2) << i);
        if (result == STATUS_OK) result = add_ladders(n, PROBES * n->micros);
        close_step(n);
        TRY(result);
    }
    return STATUS_OK;
}

static status try_micro(planning *n, int64_t batch) {
    uint64_t whole[PROBES];
    status result = open_step(n, batch, n->q->settings.loss_chunks);
    if (result == STATUS_OK) result = plan_micro(n, whole);
    close_step(n);
    return result == STATUS_OK ? try_pieces(n, batch, whole) : result;
}

/* ---- the front ---- */

/* Divisors of what each device has of the step's batch, the largest first; of many the largest ones and 1. */
static uint32_t micros_of(const plan_request *q, int64_t *out) {
    int64_t step = q->settings.step / (q->settings.gpus > 1 ? q->settings.gpus : 1);
    uint32_t count = 0;
    if (q->micro_is_pinned) {
        out[0] = q->settings.batch;
        return 1;
    }
    for (int64_t parts = 1; parts <= step && count < MOST_MICRO; parts++)
        if (step % parts == 0) out[count++] = step / parts;
    out[count - 1] = count == MOST_MICRO ? 1 : out[count - 1];
    return count;
}

static int by_bytes(const void *a, const void *b) {
    const plan_way *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    if (x->seconds < y->seconds || x->seconds > y->seconds) return x->seconds < y->seconds ? -1 : 1;
    return x->pieces < y->pieces ? -1 : x->pieces > y->pieces; /* whole losses are the same bit for bit */
}

/* What another way does in no more bytes and no more time goes, and what keeps too much with the host. */
static void keep_front(recorded_plan *p, uint64_t most_away) {
    uint32_t kept = 0;
    qsort(p->ways, p->count, sizeof *p->ways, by_bytes);
    for (uint32_t i = 0; i < p->count; i++) {
        plan_way w = p->ways[i];
        bool worse = kept && w.seconds >= p->ways[kept - 1].seconds,
             beyond = most_away && w.host_bytes > most_away;
        if (worse || beyond)
            memory_free(w.action), memory_free(w.keeps);
        else
            p->ways[kept++] = w;
    }
    p->count = kept;
}

static bool may_have(const plan_request *q, torch_types types) {
    return types == q->settings.types || q->types & 1u << types;
}

/* Rewriting follows what autograd was seen to keep. */
static status check_kept(const plan_request *q, torch_types types) {
    const recording *r = q->recording;
    torch_settings asked = q->settings;
    asked.types = types;
    torch_settings played = recorded_prepared(&asked);
    if (!recorded_is_rewritten(r, &played) || r->programs[0].left.count) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "these settings make another step of %s, and the file does not say what holds its "
                      "tensors; record it anew, and plan that",
                      r->model);
}

static status try_types(planning *n, torch_types types, const int64_t *micro, uint32_t count) {
    status result = check_kept(n->q, types);
    n->types = types;
    for (uint32_t i = 0; result == STATUS_OK && i < count; i++) {
        if (i && n->out->keeps_batch) break;
        result = try_micro(n, micro[i]);
        if (result == STATUS_INVALID && (i + 1 < count || n->out->count)) result = STATUS_OK;
    }
    return result;
}

status recorded_plan_find(const plan_request *q, recorded_plan *out) {
    int64_t micro[MOST_MICRO];
    uint32_t count = micros_of(q, micro), modules = q->recording->modules.count;
    *out = (recorded_plan){ .knows_modules = q->recording->entered.count > 0 };
    planning n = { .q = q, .out = out };
    n.action = memory_new((size_t)modules + 1, sizeof *n.action);
    n.block_of = memory_new((size_t)modules + 1, sizeof *n.block_of);
    n.keeps = memory_new((size_t)modules + 1, sizeof *n.keeps);
    n.saves = memory_new((size_t)modules + 2, sizeof *n.saves);
    bool made = n.action && n.block_of && n.keeps && n.saves;
    status result = made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to plan");
    for (torch_types t = TORCH_F32; t <= TORCH_HALF; t++) n.micros += may_have(q, t) ? count : 0;
    for (torch_types t = TORCH_F32; result == STATUS_OK && t <= TORCH_HALF; t++)
        if (may_have(q, t)) result = try_types(&n, t, micro, count);
    if (result == STATUS_OK) keep_front(out, q->most_away);
    memory_free(n.action);
    memory_free(n.block_of);
    memory_free(n.keeps);
    memory_free(n.saves);
    return result;
}

void recorded_plan_close(recorded_plan *p) {
    for (uint32_t i = 0; i < p->count; i++) memory_free(p->ways[i].action), memory_free(p->ways[i].keeps);
    memory_free(p->ways);
    *p = (recorded_plan){ 0 };
}

const plan_way *recorded_plan_within(const recorded_plan *p, uint64_t budget) {
    for (uint32_t i = p->count; i-- > 0;)
        if (p->ways[i].bytes <= budget) return &p->ways[i];
    return NULL;
}
